//! The few unsafe steps of the cache, each as a safe function whose callers' duties are invariants of
//! this crate.

#![allow(unsafe_code)] // See above.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FRAME_WORDS, FrameNr, FrameRef, FrameView, UniqueFrame};
use pagewell_sync::atomic::AtomicU64;

use crate::index::Leaf;
use crate::shared::Shared;

/// Copies `dst.len()` bytes of a page from byte `off` of it on. The page begins at `frame`, which a slot of
/// the caller's index has named; `off + dst.len()` is within the page.
#[inline]
pub(crate) fn copy_page<S: RefScheme>(view: FrameView<S>, frame: u32, off: usize, dst: &mut [u8]) {
    // SAFETY: (P) views are kept in indices, and those in mappings, which own a share of the pool. (F) slots
    // only ever name blocks of the pool, of the size of the file's pages. (D) the buffer is the caller's own.
    unsafe { view.copy_to(frame, off, dst.as_mut_ptr(), dst.len()) };
}

/// Has the processor fetch the first of the `len` bytes of a page from byte `off` of it on, which are about to be written.
///
/// # Panics
///
/// When they are not all in a page of `page_size` bytes.
#[inline(always)]
#[track_caller]
pub(crate) fn expect_write<S: RefScheme>(
    view: FrameView<S>,
    (frame, page_size): (FrameNr, usize),
    off: usize,
    len: usize,
) {
    let inside = off <= page_size && len <= page_size - off;
    assert!(inside, "an edit that is not within a page");
    // SAFETY: (P) and (F) as in `copy_page`. (W) nothing is written.
    unsafe { view.bytes(frame.get(), off, len) }.expect_write();
}

/// The slots of a leaf.
pub(crate) fn leaf_slots<'l, S: RefScheme>(leaf: &'l Leaf<'_, S>) -> &'l [AtomicU64] {
    let [address, _] = leaf.reference.meta().private();
    let start = std::ptr::with_exposed_provenance::<AtomicU64>(address as usize);
    // SAFETY: the frame is a leaf, and stays one while the handle exists. Its record has the address of its
    // slots in the array of its file's index (`publish::leaf`, which exposed it), which is unmapped only
    // after all leaves of the file have been taken out, and this one cannot be while the handle exists.
    unsafe { std::slice::from_raw_parts(start, FRAME_WORDS) }
}

impl<'s, S: RefScheme> Leaf<'s, S> {
    /// The handle of a leaf that was just published with a reference for it.
    pub(crate) fn from_published(shared: &'s Shared<S>, frame: FrameNr) -> Self {
        Self {
            reference: published(shared, frame),
        }
    }

    /// Freezes the leaf if this handle's reference and the root's are the only ones.
    pub(crate) fn freeze_with_roots(self) -> Result<UniqueFrame<'s, S>, Self> {
        // SAFETY: (A) with two references in all, one is ours and one is the root's: the root's is
        // dropped by nobody but who freezes the leaf, which makes it ours.
        unsafe { self.reference.freeze(2) }.map_err(|reference| Self { reference })
    }
}

/// The reference that came with publishing a frame.
pub(crate) fn published<S: RefScheme>(shared: &Shared<S>, frame: FrameNr) -> FrameRef<'_, S> {
    // SAFETY: (A) the callers have just published the frame with a reference for this handle.
    unsafe { FrameRef::from_raw(&shared.pool, frame) }
}

/// The reference of a slot, which belongs to who has claimed the slot.
pub(crate) fn slots_reference<S: RefScheme>(shared: &Shared<S>, frame: FrameNr) -> FrameRef<'_, S> {
    // SAFETY: (A) a slot that names a frame has a reference to it, and only the holder of the slot's
    // claim, our caller, may take or drop that. It either empties the slot or puts the reference back.
    unsafe { FrameRef::from_raw(&shared.pool, frame) }
}

/// The reference to a leaf that its non-empty slot has, and which is due when the slot is emptied.
pub(crate) fn leafs_reference<S: RefScheme>(shared: &Shared<S>, leaf: FrameNr) -> FrameRef<'_, S> {
    // SAFETY: (A) I2 of the index: the slot that the caller has just emptied had a reference.
    unsafe { FrameRef::from_raw(&shared.pool, leaf) }
}

/// A reference that a guard kept as a bare number.
pub(crate) fn guards_reference<S: RefScheme>(
    shared: &Shared<S>,
    frame: FrameNr,
) -> FrameRef<'_, S> {
    // SAFETY: (A) the guard took the reference apart when it was made and calls this once, when it is
    // dropped.
    unsafe { FrameRef::from_raw(&shared.pool, frame) }
}

/// A frame that the budget, or the stock for leaves, kept as a bare number.
pub(crate) fn withheld<S: RefScheme>(shared: &Shared<S>, frame: FrameNr) -> UniqueFrame<'_, S> {
    // SAFETY: (A) both took the handle apart, and take the number off their list before they call this.
    unsafe { UniqueFrame::from_withheld(&shared.pool, frame) }
}

/// The first `len` bytes of a page that is held.
#[cfg(not(loom))]
pub(crate) fn page_slice<'a, S: RefScheme>(page: &'a FrameRef<'_, S>, len: usize) -> &'a [u8] {
    // SAFETY: (A) callers pass no more than the page's size. (B) a page is written only before it is
    // published, while its frame has no references; once it has one, its bytes never change.
    unsafe { page.slice(len) }
}

/// The first `len` bytes of a page that a guard holds by number.
#[cfg(not(loom))]
pub(crate) fn pinned_slice<S: RefScheme>(shared: &Shared<S>, frame: FrameNr, len: usize) -> &[u8] {
    // SAFETY: (P) the pool is borrowed; (F) the page is of this pool, and has `len` bytes; (W) nothing is written.
    let bytes = unsafe { shared.pool.view().bytes(frame.get(), 0, len) };
    // SAFETY: the range is the page's, and the only caller hands the slice out for as long as it has a reference to the
    // page, which is the reason that nobody writes it (see `page_slice`).
    unsafe { std::slice::from_raw_parts(bytes.as_ptr(), len) }
}

/// The memory of the machine in bytes, if the system says.
pub(crate) fn machine_memory() -> Option<u64> {
    // SAFETY: sysconf only reads its argument.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    u64::try_from(pages).ok()?.checked_mul(system_page_bytes()?)
}

/// The size of the system's own pages in bytes, if the system says.
pub(crate) fn system_page_bytes() -> Option<u64> {
    // SAFETY: sysconf only reads its argument.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).ok()
}
