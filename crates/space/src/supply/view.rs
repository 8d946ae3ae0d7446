//! The pool as hits see it: its memory, reached by number.
//!
//! A view is kept beside what keeps the pool alive, and used only with that. The numbers may come from words of a table that was
//! freed meanwhile, and so be any: what is read is checked against the pool's bounds, and by the reader afterwards.

#![allow(unsafe_code)] // Memory reached by number.

use std::ptr::NonNull;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FramePool, FrameView};
use pagewell_sync::atomic::AtomicU64;
use pagewell_sync::bytes::{RacyBytes, RacySource};
use pagewell_sync::prefetch::in_one_register;

use crate::words::pte::Pte;

/// What the hit path needs of a pool.
///
/// Copies are kept beside a handle of the pool, and used only with that alive.
#[derive(Debug)]
pub(crate) struct PoolView<S: RefScheme> {
    view: FrameView<S>,
    /// More than every entry that names a frame of the pool.
    limit: u64,
    nr_frames: usize,
    pool: NonNull<FramePool<S>>,
}

// SAFETY: a view stands for a reference to a pool, which is `Sync`.
unsafe impl<S: RefScheme> Send for PoolView<S> {}
// SAFETY: as above.
unsafe impl<S: RefScheme> Sync for PoolView<S> {}

impl<S: RefScheme> PoolView<S> {
    /// The view of a pool that lives for as long as this does.
    pub(crate) fn new(pool: &FramePool<S>) -> Self {
        Self {
            view: pool.view(),
            limit: Pte::limit(pool.nr_frames()),
            nr_frames: pool.nr_frames(),
            pool: NonNull::from(pool),
        }
    }

    /// The pool.
    #[inline(always)]
    pub(crate) fn pool(&self) -> &FramePool<S> {
        // SAFETY: (P) the view is beside what keeps the pool alive, and where it is: a source that is shared, and so
        // neither moves nor is changed while it is.
        unsafe { self.pool.as_ref() }
    }

    fn bytes(&self) -> usize {
        self.nr_frames << pagewell_frame::FRAME_SHIFT
    }
}

impl<S: RefScheme> Clone for PoolView<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: RefScheme> Copy for PoolView<S> {}

/// The entry `index` of the table in `table`, a frame of the pool that a directory has named.
///
/// The frame may have been freed since and be in use for anything: then the word is any number.
#[inline(always)]
pub(crate) fn entry<S: RefScheme>(pool: &PoolView<S>, table: u32, index: usize) -> &AtomicU64 {
    debug_assert!((table as usize) < pool.nr_frames && index < pagewell_frame::FRAME_WORDS);
    // SAFETY: (P) the view is beside what keeps the pool alive. (F) directories name frames of their pool only.
    // (I) an index is from `entry_of`, which is less by its mask. (W) to change the word takes a claim of it, by a swap that
    // succeeds only while it is an entry of a table that is kept from being freed (the table at the top of `tables::table`).
    unsafe { pool.view.word(table, index) }
}

/// As [`entry`], of the table that begins `table_start` bytes after the start of the pool's memory, as its directory says.
#[inline(always)]
pub(crate) fn entry_from<S: RefScheme>(
    pool: &PoolView<S>,
    table_start: usize,
    index: usize,
) -> &AtomicU64 {
    debug_assert!(table_start < pool.bytes() && index < pagewell_frame::FRAME_WORDS);
    // SAFETY: (P), (F), (I) and (W) as above.
    let word = unsafe { pool.view.word_from(table_start, index) };
    in_one_register(word)
}

/// Copies bytes of a page of 2^`order` frames that begins at frame `frame`, as an entry says which may be any number:
/// false if the pool has no such frames.
#[inline(always)]
pub(crate) fn copy_page<S: RefScheme>(
    pool: &PoolView<S>,
    frame: u32,
    order: u32,
    off: usize,
    buf: &mut [u8],
) -> bool {
    debug_assert!(off as u64 + buf.len() as u64 <= crate::words::geometry::page_bytes(order));
    if frame as usize + (1 << order) > pool.nr_frames {
        return false;
    }
    // SAFETY: (P) as above. (F) just checked: the range is within the page, and the page in the pool. (D) the buffer
    // is exclusive, and no safe reference is to memory of the pool that is not pinned.
    unsafe { pool.view.copy_to(frame, off, buf.as_mut_ptr(), buf.len()) };
    true
}

/// As [`copy_page`], of the page of one frame that `entry` names, which may be any number.
#[inline(always)]
pub(crate) fn copy_small_page<S: RefScheme>(
    pool: &PoolView<S>,
    entry: Pte,
    off: usize,
    buf: &mut [u8],
) -> bool {
    debug_assert!(off + buf.len() <= pagewell_frame::FRAME_BYTES);
    if !entry.is_below(pool.limit) {
        return false;
    }
    // SAFETY: (P), (F) and (D) as above.
    unsafe {
        pool.view
            .copy_to_from(entry.frame_start(), off, buf.as_mut_ptr(), buf.len())
    };
    true
}

/// The `len` bytes from `off` on of a page of 2^`order` frames, as of [`copy_page`], to be looked at where they are; none if the pool has
/// no such frames.
#[inline(always)]
pub(crate) fn racy_page<S: RefScheme>(
    pool: &PoolView<S>,
    frame: u32,
    order: u32,
    off: usize,
    len: usize,
) -> Option<RacySource<'_>> {
    debug_assert!(off as u64 + len as u64 <= crate::words::geometry::page_bytes(order));
    if frame as usize + (1 << order) > pool.nr_frames {
        return None;
    }
    // SAFETY: (P) as above. (F) just checked: the range is within the page, and the page in the pool. (W) nothing is written: what is
    // handed out can only be read.
    Some(unsafe { pool.view.bytes(frame, off, len) }.source())
}

/// Some bytes of a page that a settled entry of a table names, which cannot be freed meanwhile: the caller has claimed
/// the entry.
#[inline(always)]
pub(crate) fn page_bytes_of<S: RefScheme>(
    pool: &PoolView<S>,
    frame: u32,
    off: usize,
    len: usize,
) -> RacyBytes<'_> {
    debug_assert!(((frame as usize) << pagewell_frame::FRAME_SHIFT) + off + len <= pool.bytes());
    // SAFETY: (P) as above. (F) an entry that is claimed in a table that is one names frames of the pool, and callers
    // stay within the page. (W) who writes has found the page to be the entry's alone (`cow`).
    unsafe { pool.view.bytes(frame, off, len) }
}
