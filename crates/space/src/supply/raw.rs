//! Words and metadata of frames, and references restored from bare frame numbers.

#![allow(unsafe_code)] // References that the compiler cannot check.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameKind, FrameNr, FramePool, FrameRef, UniqueFrame};
use pagewell_sync::atomic::AtomicU64;

/// Returns the reference of a page's entries or a table's shares, whose count the caller made zero.
pub(crate) fn counted_reference<S: RefScheme>(
    pool: &FramePool<S>,
    frame: FrameNr,
) -> FrameRef<'_, S> {
    // SAFETY: (A) the frame was published with a reference on behalf of its count. The caller alone
    // made the count zero, from which it does not rise again, and calls this once.
    unsafe { FrameRef::from_raw(pool, frame) }
}

/// Restores a frame that the table stock kept as a number.
pub(crate) fn withheld<S: RefScheme>(pool: &FramePool<S>, frame: FrameNr) -> UniqueFrame<'_, S> {
    // SAFETY: (A) the stock dissolved the handle, and removes the number from its list before this.
    unsafe { UniqueFrame::from_withheld(pool, frame) }
}

/// Returns the metadata word with the counts of a page, or the shares of a table.
#[inline(always)]
pub(crate) fn counts_of<S: RefScheme>(pool: &FramePool<S>, frame: FrameNr) -> &AtomicU64 {
    // SAFETY: (W) a thread that changes the counts of a page has claimed an entry of it, has
    // isolated it, or holds a reference and finds the counts not zero (`pages::record`). A thread
    // that changes the shares of a table has one (`tables::table`). So the frame stays that page or
    // table.
    unsafe { pool.meta(frame).state() }
}

/// Publishes a block as a page of spaces, with the one reference of its entries.
pub(crate) fn publish_page<S: RefScheme>(
    block: UniqueFrame<'_, S>,
    owner: (u64, u64),
    private: [u64; 2],
) -> FrameNr {
    // SAFETY: (K) pages of spaces are this crate's in every pool. The words are the family's, from
    // `pages::owner::family_to_word`, whose strong reference moves along, and counts that are not
    // zero.
    unsafe { block.publish_with(FrameKind::Anon, owner, private, 1) }
}

pub(crate) fn publish_table<S: RefScheme>(frame: UniqueFrame<'_, S>) -> FrameNr {
    // SAFETY: (K) tables are this crate's in every pool. The caller has emptied the entries.
    unsafe { frame.publish_with(FrameKind::Table, (0, 0), [1, 0], 1) }
}

/// Returns the words of a table. The caller has a share, a reference or exclusive use.
pub(crate) fn table_words<S: RefScheme>(pool: &FramePool<S>, table: FrameNr) -> &[AtomicU64] {
    // SAFETY: (W) threads that store to the entries have claimed them, have exclusive use of the
    // table, or are creating it (`tables::table`). All of them keep the table throughout.
    unsafe { pool.words(table) }
}

/// Restores the reference that a pin kept as a number.
pub(crate) fn pins_reference<S: RefScheme>(pool: &FramePool<S>, frame: FrameNr) -> FrameRef<'_, S> {
    // SAFETY: (A) the pin dissolved its reference, and calls this once, in its drop.
    unsafe { FrameRef::from_raw(pool, frame) }
}

/// Returns `len` bytes of a pinned page from `off`.
#[cfg(not(loom))]
pub(crate) fn pinned_slice<S: RefScheme>(
    pool: &FramePool<S>,
    frame: FrameNr,
    off: usize,
    len: usize,
) -> &[u8] {
    // SAFETY: (P) the pool is borrowed; (F) the pin has a reference to the page, and its range is
    // within that; (W) nothing is written.
    let bytes = unsafe { pool.view().bytes(frame.get(), off, len) };
    // SAFETY: the range is of the page, which stays mapped while the pool lives. Its bytes do not
    // change while the caller, which returns the slice, has its reference: a page is written in
    // place only through an entry that is marked writable. The pin has cleared that bit under the
    // entry's claim, and it is set again only when the counted reference is the only one (`cow`).
    unsafe { std::slice::from_raw_parts(bytes.as_ptr(), len) }
}
