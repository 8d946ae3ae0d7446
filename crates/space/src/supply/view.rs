//! Unsafe accesses by frame number: a view of the pool's memory for hits, words and metadata of
//! frames, and handles restored from bare numbers. The letters in `SAFETY` comments name the
//! conditions in the documentation of `pagewell_frame`.
//!
//! A view is kept beside an owner of the pool, and used only while that owner exists. A frame
//! number from a freed table is arbitrary: each access is checked against the pool's bounds, and
//! the reader validates the result.

#![allow(unsafe_code)] // Accesses memory by frame number.

use std::ptr::NonNull;

use pagewell_frame::{FrameKind, FrameNr, FramePool, FrameRef, FrameView, UniqueFrame};
use pagewell_sync::atomic::AtomicU64;
use pagewell_sync::bytes::{RacyBytes, RacySource};
use pagewell_sync::prefetch::in_one_register;

use crate::words::pte::Pte;

#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolView {
    view: FrameView,
    /// Limit that is greater than each entry that names a frame of the pool.
    limit: u64,
    nr_frames: usize,
    pool: NonNull<FramePool>,
}

// SAFETY: a view stands for a reference to a pool, which is `Sync`.
unsafe impl Send for PoolView {}
// SAFETY: as above.
unsafe impl Sync for PoolView {}

impl PoolView {
    /// Creates a view of a pool, which must outlive the view.
    pub(crate) fn new(pool: &FramePool) -> Self {
        Self {
            view: pool.view(),
            limit: Pte::limit(pool.nr_frames()),
            nr_frames: pool.nr_frames(),
            pool: NonNull::from(pool),
        }
    }

    #[inline(always)]
    pub(crate) fn pool(&self) -> &FramePool {
        // SAFETY: (P) the view is kept beside an owner of the pool, which is in a shared source,
        // and so neither moves nor changes.
        unsafe { self.pool.as_ref() }
    }

    fn bytes(&self) -> usize {
        self.nr_frames << pagewell_frame::FRAME_SHIFT
    }
}

/// Returns entry `index` of `table`, which a directory has named. If the table was freed, any word.
#[inline(always)]
pub(crate) fn entry(pool: &PoolView, table: u32, index: usize) -> &AtomicU64 {
    debug_assert!((table as usize) < pool.nr_frames && index < pagewell_frame::FRAME_WORDS);
    // SAFETY: (P) as in `PoolView::pool`. (F) directories name only frames of their pool. (I)
    // `entry_of` masks the index. (W) the word is changed only by a claim, whose swap succeeds only
    // on an entry of a table that is not freed (`tables::table`).
    unsafe { pool.view.word(table, index) }
}

/// As [`entry`], for the byte offset of the table in the pool, from a directory entry.
#[inline(always)]
pub(crate) fn entry_from(pool: &PoolView, table_start: usize, index: usize) -> &AtomicU64 {
    debug_assert!(table_start < pool.bytes() && index < pagewell_frame::FRAME_WORDS);
    // SAFETY: (P), (F), (I) and (W) as above.
    let word = unsafe { pool.view.word_from(table_start, index) };
    in_one_register(word)
}

/// Copies bytes of a page of 2^`order` frames. Returns `false` if the pool has no such frames.
#[inline(always)]
pub(crate) fn copy_page(
    pool: &PoolView,
    frame: u32,
    order: u32,
    off: usize,
    buf: &mut [u8],
) -> bool {
    debug_assert!(off as u64 + buf.len() as u64 <= crate::words::geometry::page_bytes(order));
    if frame as usize + (1 << order) > pool.nr_frames {
        return false;
    }
    // SAFETY: (P) as above. (F) checked above: the page is within the pool, and contains the range.
    // (D) the buffer is exclusive, and references into the pool are shared.
    unsafe { pool.view.copy_to(frame, off, buf.as_mut_ptr(), buf.len()) };
    true
}

/// As [`copy_page`], for the page of one frame that `entry` names. `entry` may be any word.
#[inline(always)]
pub(crate) fn copy_small_page(pool: &PoolView, entry: Pte, off: usize, buf: &mut [u8]) -> bool {
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

/// As [`copy_page`], for reads in place.
#[inline(always)]
pub(crate) fn racy_page(
    pool: &PoolView,
    frame: u32,
    order: u32,
    off: usize,
    len: usize,
) -> Option<RacySource<'_>> {
    debug_assert!(off as u64 + len as u64 <= crate::words::geometry::page_bytes(order));
    if frame as usize + (1 << order) > pool.nr_frames {
        return None;
    }
    // SAFETY: (P) and (F) as above. (W) the result is a `RacySource`, which can only be read.
    Some(unsafe { pool.view.bytes(frame, off, len) }.source())
}

/// Returns bytes of the page of an entry that the caller has claimed.
#[inline(always)]
pub(crate) fn page_bytes_of(pool: &PoolView, frame: u32, off: usize, len: usize) -> RacyBytes<'_> {
    debug_assert!(((frame as usize) << pagewell_frame::FRAME_SHIFT) + off + len <= pool.bytes());
    // SAFETY: (P) as above. (F) a claimed entry of a table names frames of the pool, and callers
    // stay within the page. (W) a thread that writes has exclusive use of the page: its entry is
    // writable (T2 of `tables::table`), or it is unshared (`Supply::is_unshared`).
    unsafe { pool.view.bytes(frame, off, len) }
}

/// Restores the reference of a page's entries, or of a table's shares.
pub(crate) fn counted_reference(pool: &FramePool, frame: FrameNr) -> FrameRef<'_> {
    // SAFETY: (A) the frame was published with a reference on behalf of its count, which does not
    // rise from zero. The caller made it zero, and calls this once.
    unsafe { FrameRef::from_raw(pool, frame) }
}

pub(crate) fn withheld(pool: &FramePool, frame: FrameNr) -> UniqueFrame<'_> {
    // SAFETY: (A) the stock converted the handle to the number, and removed that from its list.
    unsafe { UniqueFrame::from_withheld(pool, frame) }
}

/// Returns the metadata word with the counts of a page, or the shares of a table.
#[inline(always)]
pub(crate) fn counts_of(pool: &FramePool, frame: FrameNr) -> &AtomicU64 {
    // SAFETY: (W) a thread that changes the counts of a page has claimed or removed a counted
    // entry, has isolated it, or holds a reference and finds the counts not zero (`pages::record`).
    // One that changes the shares of a table has a share (`tables::table`). So the frame stays that
    // page or table.
    unsafe { pool.meta(frame).state() }
}

/// Publishes a block as a page of spaces, with one reference, that of its entries.
pub(crate) fn publish_page(
    block: UniqueFrame<'_>,
    owner: (u64, u64),
    private: [u64; 2],
) -> FrameNr {
    // SAFETY: (K) this crate is the user of `Anon` blocks in every pool. The first word of `owner`
    // is from `pages::owner::family_to_word`, a strong reference. The counts are not zero.
    unsafe { block.publish_with(FrameKind::Anon, owner, private, 1) }
}

pub(crate) fn publish_table(frame: UniqueFrame<'_>) -> FrameNr {
    // SAFETY: (K) this crate is the user of `Table` blocks in every pool. The entries are zeroed.
    unsafe { frame.publish_with(FrameKind::Table, (0, 0), [1, 0], 1) }
}

/// Returns the words of a table. The caller has a share, a reference or exclusive use.
pub(crate) fn table_words(pool: &FramePool, table: FrameNr) -> &[AtomicU64] {
    // SAFETY: (W) threads that store to the entries have claimed them, have exclusive use of the
    // table, or are creating it (`tables::table`). All of them keep the table throughout.
    unsafe { pool.words(table) }
}

pub(crate) fn pins_reference(pool: &FramePool, frame: FrameNr) -> FrameRef<'_> {
    // SAFETY: (A) the caller has converted the reference to the number, and calls this once.
    unsafe { FrameRef::from_raw(pool, frame) }
}

pub(crate) fn pinned_slice(pool: &FramePool, frame: FrameNr, off: usize, len: usize) -> &[u8] {
    // SAFETY: (P) the pool is borrowed; (F) the pinned page has the range; (W) nothing is written.
    let bytes = unsafe { pool.view().bytes(frame.get(), off, len) };
    // SAFETY: the page contains the range, and stays mapped while the pool exists. The caller drops
    // its reference to the frame after the slice, and until then the bytes do not change: the page
    // is written in place only through an entry with the writable bit. The pin cleared this bit
    // under the entry's claim, and it is set again only if the reference of the entries is the only
    // one (`Supply::is_unshared`).
    unsafe { std::slice::from_raw_parts(bytes.as_ptr(), len) }
}
