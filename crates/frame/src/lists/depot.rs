//! Transfer cache of a node: single frames that pass from one thread cache to another.
//!
//! Without it, the buddy allocator would merge and split these frames. The node's lock guards it.
//! Its frames are `Front`, of order 0, and have the lock bit set.

use pagewell_sync::scaled;

use crate::words::FrameNr;

/// Maximum number of frames in a transfer cache: sixteen batches of single frames.
const MOST: usize = scaled(512, 1);

/// Inverse of the maximum fraction of a node's frames in its transfer cache.
const SHARE: usize = scaled(64, 1);

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

    pub(crate) fn push(&mut self, frame: FrameNr) -> bool {
        let has_room = self.frames.len() < self.capacity;
        if has_room {
            self.frames.push(frame);
        }
        has_room
    }

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
