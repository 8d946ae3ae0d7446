//! Words and records of frames, and references that were kept as bare numbers, taken up again.

#![allow(unsafe_code)] // References that the compiler cannot follow.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameKind, FrameNr, FramePool, FrameRef, UniqueFrame};
use pagewell_sync::atomic::AtomicU64;

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
    // and finds the counts not zero (`pages::record`); whoever changes the shares of a table has one (`tables::table`). So it
    // is that page or table, and stays it.
    unsafe { pool.meta(frame).state() }
}

/// Publishes a block as a page of spaces, with the one reference that its entries have.
pub(crate) fn publish_page<S: RefScheme>(
    block: UniqueFrame<'_, S>,
    owner: (u64, u64),
    private: [u64; 2],
) -> FrameNr {
    // SAFETY: (K) pages of spaces are this crate's in every pool. The words are the family's, from
    // `pages::owner::family_to_word`, of which a share goes with it, and counts that are not zero.
    unsafe { block.publish_with(FrameKind::Anon, owner, private, 1) }
}

/// Publishes a frame as a table with one share.
pub(crate) fn publish_table<S: RefScheme>(frame: UniqueFrame<'_, S>) -> FrameNr {
    // SAFETY: (K) tables are this crate's in every pool. The entries are empty: the caller has made them so.
    unsafe { frame.publish_with(FrameKind::Table, (0, 0), [1, 0], 1) }
}

/// The words of a table that the caller has a share of, or a reference to.
pub(crate) fn table_words<S: RefScheme>(pool: &FramePool<S>, table: FrameNr) -> &[AtomicU64] {
    // SAFETY: (W) the entries are stored to by who has claimed them, has the table alone, or is just making it
    // (`tables::table`), all of whom have the table for as long as that takes.
    unsafe { pool.words(table) }
}

/// A reference that a pin kept as a bare number.
pub(crate) fn pins_reference<S: RefScheme>(pool: &FramePool<S>, frame: FrameNr) -> FrameRef<'_, S> {
    // SAFETY: (A) the pin took the reference apart when it was made and calls this once, when it is dropped.
    unsafe { FrameRef::from_raw(pool, frame) }
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
