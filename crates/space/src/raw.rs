//! The unsafe steps: references that are kept as bare numbers, and memory reached by number.

#![allow(unsafe_code)] // This module is where the crate touches what the compiler cannot follow.

use std::ptr::NonNull;
use std::sync::Arc;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameKind, FrameNr, FramePool, FrameRef, FrameView, UniqueFrame};
use pagewell_sync::atomic::AtomicU64;
use pagewell_sync::bytes::RacyBytes;

use crate::family::Family;
use crate::file::FileArea;
use crate::pte::Pte;

/// The one reference that the entries of a page, or the shares of a table, have: for whoever has brought their count
/// down to zero.
pub(crate) fn counted_reference<S: RefScheme>(
    pool: &FramePool<S>,
    frame: FrameNr,
) -> FrameRef<'_, S> {
    // SAFETY: (A) the frame was published with a reference on behalf of what is counted; the count was brought to
    // zero by the caller alone, from where it does not come back, and the caller calls this once.
    unsafe { FrameRef::from_raw(pool, frame) }
}

/// A frame that the stock of tables kept as a bare number.
pub(crate) fn withheld<S: RefScheme>(pool: &FramePool<S>, frame: FrameNr) -> UniqueFrame<'_, S> {
    // SAFETY: (A) the stock took the handle apart, and takes the number off its list before it calls this.
    unsafe { UniqueFrame::from_withheld(pool, frame) }
}

/// The word of a frame's record that has the counts of a page, or the shares of a table.
#[inline(always)]
pub(crate) fn counts_of<S: RefScheme>(pool: &FramePool<S>, frame: FrameNr) -> &AtomicU64 {
    // SAFETY: (W) whoever changes the counts of a page has claimed an entry of it, or has it isolated, or holds a reference
    // and finds the counts not zero (`frames`); whoever changes the shares of a table has one (`table`). So it is that page or
    // table, and stays it.
    unsafe { pool.meta(frame).state() }
}

/// Publishes a block as a page of spaces, with the one reference that its entries have.
pub(crate) fn publish_page<S: RefScheme>(
    block: UniqueFrame<'_, S>,
    owner: (u64, u64),
    private: [u64; 2],
) -> FrameNr {
    // SAFETY: (K) pages of spaces are this crate's in every pool. The words are the family's, from `family_to_word`, of which
    // a share goes with it, and counts that are not zero.
    unsafe { block.publish_with(FrameKind::Anon, owner, private, 1) }
}

/// Publishes a frame as a table with one share.
pub(crate) fn publish_table<S: RefScheme>(frame: UniqueFrame<'_, S>) -> FrameNr {
    // SAFETY: (K) tables are this crate's in every pool. The entries are empty: the caller has made them so.
    unsafe { frame.publish_with(FrameKind::Table, (0, 0), [1, 0], 1) }
}

/// The words of a table that the caller has a share of, or a reference to.
pub(crate) fn table_words<S: RefScheme>(pool: &FramePool<S>, table: FrameNr) -> &[AtomicU64] {
    // SAFETY: (W) the entries are stored to by who has claimed them, has the table alone, or is just making it (`table`),
    // all of whom have the table for as long as that takes.
    unsafe { pool.words(table) }
}

/// Keeps a family in the record of a frame of it.
pub(crate) fn family_to_word<S: RefScheme>(family: Arc<Family<S>>) -> u64 {
    Arc::into_raw(family).expose_provenance() as u64
}

/// Takes the family out of the record of a page: for whoever has brought the page's count down to zero.
pub(crate) fn family_from_word<S: RefScheme>(word: u64) -> Arc<Family<S>> {
    let family = std::ptr::with_exposed_provenance::<Family<S>>(word as usize);
    // SAFETY: the word is from `family_to_word`, put into the record before the page was published; the record is
    // the page's while its count is not zero, and the caller, who made it zero, calls this once. Of a page that was
    // moved the word is in two records: the one of the frame that it left is made zero by who migrates, who does not
    // call this for it (`let_go_moved`).
    unsafe { Arc::from_raw(family) }
}

/// The family of a page whose count cannot become zero meanwhile: it is isolated by the caller.
pub(crate) fn family_of_word<S: RefScheme>(word: u64) -> Arc<Family<S>> {
    let family = std::ptr::with_exposed_provenance::<Family<S>>(word as usize);
    // SAFETY: as in `family_from_word`, but that the record keeps its own: the count is not zero while this runs.
    unsafe { Arc::increment_strong_count(family) };
    // SAFETY: the strong count that was just added.
    unsafe { Arc::from_raw(family) }
}

/// The file that an area shows, as the word has it that says so for its addresses; none for zero.
pub(crate) fn file_of_word<'a, S: RefScheme>(word: u64) -> Option<&'a FileArea<S>> {
    let file = std::ptr::with_exposed_provenance::<FileArea<S>>(word as usize);
    // SAFETY: the word is zero or from `file_to_word`, stored for an area of the space; it is made zero while writers are
    // stopped, before the area lets go of the file. The caller is a writer at work since before it loaded the word, and does
    // not keep the answer longer (`file_access`, M1).
    unsafe { file.as_ref() }
}

/// The word for a file that an area shows.
pub(crate) fn file_to_word<S: RefScheme>(file: &Arc<FileArea<S>>) -> u64 {
    Arc::as_ptr(file).expose_provenance() as u64
}

/// The entry `index` of the table in `table`, a frame of the pool that a directory has named.
///
/// The frame may have been freed since and be in use for anything: then the word is any number.
#[inline(always)]
pub(crate) fn entry<S: RefScheme>(pool: &PoolView<S>, table: u32, index: usize) -> &AtomicU64 {
    debug_assert!((table as usize) < pool.nr_frames && index < pagewell_frame::FRAME_WORDS);
    // SAFETY: (P) the view is beside what keeps the pool alive. (F) directories name frames of their pool only.
    // (I) an index is from `entry_of`, which is less by its mask. (W) to change the word takes a claim of it, by a swap that
    // succeeds only while it is an entry of a table that is kept from being freed (the table at the top of `table`).
    unsafe { pool.view.word(table, index) }
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
    debug_assert!(off as u64 + buf.len() as u64 <= crate::geometry::page_bytes(order));
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
            .copy_to(entry.frame(), off, buf.as_mut_ptr(), buf.len())
    };
    true
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

/// A reference that a pin kept as a bare number.
pub(crate) fn pins_reference<S: RefScheme>(
    shared: &crate::shared::Shared<S>,
    frame: FrameNr,
) -> FrameRef<'_, S> {
    // SAFETY: (A) the pin took the reference apart when it was made and calls this once, when it is dropped.
    unsafe { FrameRef::from_raw(shared.pool(), frame) }
}

/// The first `len` bytes of a pinned page from `off` on.
#[cfg(not(loom))]
pub(crate) fn pinned_slice<S: RefScheme>(
    pool: &FramePool<S>,
    frame: FrameNr,
    off: usize,
    len: usize,
) -> &[u8] {
    // SAFETY: (P) the pool is borrowed; (F) the pin has a reference to the page, and its range is within that; (W) nothing
    // is written.
    let bytes = unsafe { pool.view().bytes(frame.get(), off, len) };
    // SAFETY: the range is of the page, which stays mapped while the pool lives. Its bytes do not change
    // while the caller, who hands the slice out, has its reference: a page is written where it is only through an entry
    // that is marked writable, which the pin has taken off under the entry's claim, and which comes back only when
    // there are no references but the counted one (`cow`).
    unsafe { std::slice::from_raw_parts(bytes.as_ptr(), len) }
}

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
