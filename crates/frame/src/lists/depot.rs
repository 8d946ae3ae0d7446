//! Transfer cache of a node: single frames that pass from one thread cache to another.
//!
//! If one thread allocates frames and another frees them, the cache of the second one overflows
//! while that of the first runs empty. The transfer cache passes surplus frames on unmerged.
//! Otherwise the buddy allocator would merge them one by one, and split them again.
//!
//! It is behind the node's lock, beside its [`Buddy`](super::buddy::Buddy), and drained with the
//! thread caches. Its frames are of kind `Front` and of order 0, and have the lock bit.

use crate::words::FrameNr;

/// Maximum number of frames: some halves of thread caches.
const MOST: usize = if cfg!(loom) { 1 } else { 512 };

/// Inverse of the maximum fraction of a node's frames.
const SHARE: usize = if cfg!(loom) { 1 } else { 64 };

#[derive(Debug)]
pub(crate) struct Depot {
    frames: Vec<FrameNr>,
    capacity: usize,
}

impl Depot {
    pub(crate) fn new(nr_frames: usize) -> Self {
        let capacity = MOST.min(nr_frames / SHARE);
        Self {
            frames: Vec::with_capacity(capacity),
            capacity,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Adds a frame. Returns `false` if the cache is full.
    pub(crate) fn push(&mut self, frame: FrameNr) -> bool {
        let has_room = self.frames.len() < self.capacity;
        if has_room {
            self.frames.push(frame);
        }
        has_room
    }

    /// Removes the frame that was added last.
    pub(crate) fn pop(&mut self) -> Option<FrameNr> {
        self.frames.pop()
    }

    pub(crate) fn take_where(
        &mut self,
        is_wanted: impl Fn(FrameNr) -> bool,
    ) -> impl Iterator<Item = FrameNr> {
        self.frames.extract_if(.., move |frame| is_wanted(*frame))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = FrameNr> {
        self.frames.iter().copied()
    }
}
