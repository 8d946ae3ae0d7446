//! The top of a file's index: one word for each leaf.
//!
//! ```text
//! 63              32 31             0
//! [ generation (32) ][  frame (32)   ]      0: no leaf
//! ```
//!
//! The generation comes from a counter of the whole cache and never repeats: an entry that is seen twice
//! with the same value was not changed in between. (It repeats after 2^32 leaves were made: a reader would
//! have to stop in the middle of one copy for half an hour and more to be fooled.)

#![allow(unsafe_code)] // The allocation of a large zeroed array that is only touched where it is used.

use pagewell_frame::FrameNr;
use pagewell_sync::atomic::AtomicU64;

/// Which of all the leaves that the cache has made one is. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u32);

impl Generation {
    /// That of the `nr`th leaf.
    pub(crate) const fn of(nr: u64) -> Self {
        // 1 to 2^32 - 1, and round again.
        Self((nr % u32::MAX as u64) as u32 + 1)
    }
}

/// What the root says of one leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RootEntry(u64);

impl RootEntry {
    /// No leaf.
    pub(crate) const NONE: Self = Self(0);

    /// The leaf in `frame`, made as the `generation`th.
    pub(crate) const fn new(frame: FrameNr, generation: Generation) -> Self {
        Self((generation.0 as u64) << 32 | frame.get() as u64)
    }

    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The leaf's frame; meaningless if there is no leaf.
    #[inline]
    pub(crate) const fn frame(self) -> u32 {
        self.0 as u32
    }
}

/// How many entries are charged to the budget together: a page of the system's memory.
pub(crate) const ENTRIES_CHARGED: usize = 4096 / size_of::<AtomicU64>();

/// `nr` entries of no leaf, or none when there is no memory for them. What is not touched uses none.
#[cfg(not(loom))]
pub(crate) fn allocate(nr: usize) -> Option<Box<[AtomicU64]>> {
    use std::alloc::{Layout, alloc_zeroed};

    if nr == 0 {
        return Some(Box::default());
    }
    let layout = Layout::array::<AtomicU64>(nr).ok()?;
    // SAFETY: the layout is not of size zero.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        return None;
    }
    let entries = std::ptr::slice_from_raw_parts_mut(start.cast::<AtomicU64>(), nr);
    // SAFETY: a fresh allocation of the global allocator with the layout of `[AtomicU64]`, for which
    // zeros are valid.
    Some(unsafe { Box::from_raw(entries) })
}

#[cfg(loom)]
pub(crate) fn allocate(nr: usize) -> Option<Box<[AtomicU64]>> {
    Some((0..nr).map(|_| AtomicU64::new(0)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_one_frame_differ_by_generation() {
        let frame = FrameNr::new((1 << pagewell_frame::FRAME_NR_BITS) - 2);
        let (first, second) = (
            RootEntry::new(frame, Generation::of(0)),
            RootEntry::new(frame, Generation::of(1)),
        );
        assert_ne!(first, second);
        assert_eq!((first.frame(), second.frame()), (frame.get(), frame.get()));
        assert!(!RootEntry::new(FrameNr::new(0), Generation::of(u64::from(u32::MAX))).is_none());
        assert!(RootEntry::from_bits(0).is_none());
    }
}
