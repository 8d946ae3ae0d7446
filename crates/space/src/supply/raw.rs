//! Words and metadata of frames, and references restored from bare frame numbers. The letters in
//! `SAFETY` comments name the conditions in the documentation of `pagewell_frame`.

#![allow(unsafe_code)] // References that the compiler cannot check.

use pagewell_frame::{FrameKind, FrameNr, FramePool, FrameRef, UniqueFrame};
use pagewell_sync::atomic::AtomicU64;

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
    // one (`cow`).
    unsafe { std::slice::from_raw_parts(bytes.as_ptr(), len) }
}
