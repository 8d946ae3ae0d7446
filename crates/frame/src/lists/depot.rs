//! Transfer cache of a node: single frames that pass from one thread cache to another.
//!
//! If one thread allocates frames and another thread frees them, the first thread's cache runs
//! empty while the second thread's cache overflows. The transfer cache passes the surplus frames
//! from the second to the first without merging them. Otherwise the buddy allocator would merge
//! them one by one, and split the blocks again.
//!
//! The transfer cache belongs to the node's [`Buddy`](super::buddy::Buddy), is guarded by the
//! node's lock, and is drained together with the thread caches. Its frames are of kind `Front` and
//! of order 0, and have the lock bit set.

use crate::words::FrameNr;

/// Maximum number of frames in a transfer cache: sixteen batches, each half of a thread's stack of
/// single frames.
const MOST: usize = if cfg!(loom) { 1 } else { 512 };

/// Inverse of the maximum fraction of a node's frames in its transfer cache.
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
