//! Blocks that are freed by another thread than the one that allocated them.
//!
//! The workers stand in a circle, each with a [ring](super::ring) to the next one. A step allocates a group
//! of blocks, sends them on, and frees the group that has come from the worker before. A worker whose ring
//! is full waits for the next one, and frees what comes in meanwhile. One that has waited for long, since
//! the next one has ended its slice or lost its processor, frees its own blocks until it is back.

#![allow(unsafe_code)] // Handles made of numbers again.

use pagewell_frame::Order;

use super::frames::{Block, Frames, exhausted};
use super::ring::{Receiver, Ring, Sender};
use crate::bench::crew::Op;

/// Groups that a ring has room for.
const GROUPS: usize = 8;

/// How often a worker looks for room before it frees its own blocks.
const LOOKS: u32 = 2000;

/// Blocks of a group.
const fn group_of(order: Order) -> usize {
    if order.get() == 0 { 16 } else { 2 }
}

/// The workers that exchange blocks of one allocator, and the rings between them. Only blocks of this
/// allocator and order go through these.
pub(super) struct Circle<'a, F: Frames> {
    frames: &'a F,
    order: Order,
    /// From each worker to the next.
    rings: Vec<Ring>,
}

impl<'a, F: Frames> Circle<'a, F> {
    pub(super) fn new(frames: &'a F, order: Order, nr_workers: u32) -> Circle<'a, F> {
        Circle {
            frames,
            order,
            rings: (0..nr_workers)
                .map(|_| Ring::new(GROUPS * group_of(order)))
                .collect(),
        }
    }

    /// One operation for each worker.
    pub(super) fn workers(&mut self) -> impl Iterator<Item = Mixed<'_, F>> {
        let (frames, order) = (self.frames, self.order);
        let (to_next, mut from_before): (Vec<_>, Vec<_>) =
            self.rings.iter_mut().map(Ring::ends).unzip();
        // The first worker receives what the last one sends.
        from_before.rotate_right(1);
        let ends = to_next.into_iter().zip(from_before);
        ends.map(move |(to_next, from_before)| Mixed {
            frames,
            order,
            to_next,
            from_before,
            group: Vec::with_capacity(group_of(order)),
            is_alone: false,
        })
    }
}

impl<F: Frames> Drop for Circle<'_, F> {
    /// Frees what is still on its way when the workers have ended.
    fn drop(&mut self) {
        for ring in &mut self.rings {
            let (_, mut receiver) = ring.ends();
            receiver.receive(usize::MAX, |number| free(self.frames, number, self.order));
        }
    }
}

/// Frees a block that was sent through a ring, or was to be.
#[inline]
fn free<F: Frames>(frames: &F, number: usize, order: Order) {
    // SAFETY: (A) the workers of a circle send only numbers of blocks that they have just allocated, of
    // the circle's allocator and order, and a ring hands out each number once; one that was not sent is
    // freed where it is.
    drop(unsafe { frames.adopt(number, order) });
}

/// One worker of a circle.
pub(super) struct Mixed<'a, F> {
    frames: &'a F,
    order: Order,
    to_next: Sender<'a>,
    from_before: Receiver<'a>,
    group: Vec<usize>,
    /// Whether the next worker has taken nothing for long.
    is_alone: bool,
}

impl<F: Frames> Mixed<'_, F> {
    #[inline]
    fn free_incoming(&mut self) -> usize {
        let (frames, order) = (self.frames, self.order);
        self.from_before
            .receive(group_of(order), |number| free(frames, number, order))
    }

    /// Waits until the group is sent; whether it was.
    #[cold]
    #[inline(never)]
    fn send_patiently(&mut self) -> bool {
        for _ in 0..LOOKS {
            // Somebody in the circle must make room, or all would wait.
            if self.free_incoming() == 0 {
                std::hint::spin_loop();
            }
            if self.to_next.send(&mut self.group) {
                return true;
            }
        }
        false
    }
}

impl<F: Frames> Op for Mixed<'_, F> {
    #[inline(never)]
    fn batch(&mut self, times: u32) -> Result<(), String> {
        let (frames, order) = (self.frames, self.order);
        for _ in 0..times {
            for _ in 0..group_of(order) {
                let Some(block) = frames.alloc(order) else {
                    return Err(exhausted(order));
                };
                self.group.push(block.into_number());
            }
            let is_sent = self.to_next.send(&mut self.group);
            self.is_alone = !is_sent && (self.is_alone || !self.send_patiently());
            for number in self.group.drain(..) {
                free(frames, number, order);
            }
            self.free_incoming();
        }
        Ok(())
    }

    fn size(&self) -> u64 {
        group_of(self.order) as u64
    }
}
