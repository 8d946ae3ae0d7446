//! The depot of a node: single frames on their way from one front cache to another.
//!
//! What. When one thread allocates frames and another frees them, the second one's front cache overflows while the
//! first one's runs dry. Surplus frames are left here, as they are, for the next front cache that runs dry. Only frames that do not
//! fit go to the buddy allocator, frame by frame, to be merged, and to be split again by the other thread.
//!
//! Place. Behind the node's lock, beside its [`Buddy`](super::buddy::Buddy). Emptying the front caches
//! empties the depots too.
//!
//! Invariants. As of a front cache's stack: a frame here is of kind `Front` and of order 0, and has the lock bit.

use crate::words::FrameNr;

/// How many frames a depot holds at the most: some halves of front caches.
const MOST: usize = if cfg!(loom) { 1 } else { 512 };

/// Which part of a node's frames a depot holds at the most.
const SHARE: usize = if cfg!(loom) { 1 } else { 64 };

/// The depot of one node.
#[derive(Debug)]
pub(crate) struct Depot {
    frames: Vec<FrameNr>,
    capacity: usize,
}

impl Depot {
    /// An empty depot for a node of `nr_frames` frames.
    pub(crate) fn new(nr_frames: usize) -> Self {
        let capacity = MOST.min(nr_frames / SHARE);
        Self {
            frames: Vec::with_capacity(capacity),
            capacity,
        }
    }

    /// How many frames there are.
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Puts a frame in, if there is room.
    pub(crate) fn push(&mut self, frame: FrameNr) -> bool {
        let has_room = self.frames.len() < self.capacity;
        if has_room {
            self.frames.push(frame);
        }
        has_room
    }

    /// Takes out the frame that came last.
    pub(crate) fn pop(&mut self) -> Option<FrameNr> {
        self.frames.pop()
    }

    /// Takes out the frames for which `is_wanted` holds.
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
