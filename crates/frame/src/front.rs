//! Front caches: free frames at hand, so that allocating one rarely takes a node's lock.
//!
//! Every thread uses one of several shards (`pagewell_sync::shard`); each holds up to
//! [`Front::capacity`] order-0 frames of any node, the one freed last on top, since its memory is the
//! likeliest to be in the processor's caches.
//!
//! Locks. A shard's lock is taken before a node's, never after.

use std::ops::Range;

use pagewell_sync::shard::{Padded, thread_number};
use pagewell_sync::{Mutex, MutexGuard, lock};

use crate::FrameNr;

/// How many frames a shard holds at the most.
const MOST: usize = if cfg!(loom) { 2 } else { 64 };

/// The shards of one pool.
#[derive(Debug)]
pub(crate) struct FrontCaches {
    shards: Box<[Padded<Mutex<Front>>]>,
}

/// One shard: a stack of frames of kind `Front`.
#[derive(Debug)]
pub(crate) struct Front {
    frames: Vec<FrameNr>,
    capacity: usize,
}

impl FrontCaches {
    /// Empty shards for a pool of `nr_frames` frames used from `nr_cpus` processors. Together they
    /// never hold more than an eighth of the pool; the shards of a tiny pool hold nothing.
    pub(crate) fn new(nr_frames: usize, nr_cpus: usize) -> Self {
        let nr_shards = nr_cpus.clamp(1, 64).next_power_of_two();
        let capacity = if cfg!(loom) {
            MOST
        } else {
            MOST.min(nr_frames / 8 / nr_shards)
        };
        let shards = (0..nr_shards)
            .map(|_| {
                Padded(Mutex::new(Front {
                    frames: Vec::with_capacity(capacity),
                    capacity,
                }))
            })
            .collect();
        Self { shards }
    }

    /// This thread's shard, locked.
    #[inline]
    pub(crate) fn mine(&self) -> MutexGuard<'_, Front> {
        // The number of shards is a power of two.
        lock(&self.shards[thread_number() & (self.shards.len() - 1)].0)
    }

    /// Every shard, locked one after the other.
    pub(crate) fn each(&self) -> impl Iterator<Item = MutexGuard<'_, Front>> {
        self.shards.iter().map(|shard| lock(&shard.0))
    }
}

impl Front {
    /// How many frames this shard may hold.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many frames to move between a shard and a node at a time.
    pub(crate) fn batch(&self) -> usize {
        self.capacity / 2
    }

    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.frames.len() >= self.capacity
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<FrameNr> {
        self.frames.pop()
    }

    #[inline]
    pub(crate) fn push(&mut self, frame: FrameNr) {
        debug_assert!(self.frames.len() < self.capacity);
        self.frames.push(frame);
    }

    /// Reverses the order of the frames from position `start` on.
    pub(crate) fn reverse_from(&mut self, start: usize) {
        self.frames[start..].reverse();
    }

    /// Takes out the `nr` frames that were freed longest ago.
    pub(crate) fn take_oldest(&mut self, nr: usize) -> std::vec::Drain<'_, FrameNr> {
        let nr = nr.min(self.frames.len());
        self.frames.drain(..nr)
    }

    /// Takes out the frames of `range`, and appends them to `taken`.
    pub(crate) fn take_within(&mut self, range: &Range<u32>, taken: &mut Vec<FrameNr>) {
        self.frames.retain(|frame| {
            let is_within = range.contains(&frame.get());
            if is_within {
                taken.push(*frame);
            }
            !is_within
        });
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = FrameNr> {
        self.frames.iter().copied()
    }
}
