//! Freeing blocks whose count is locked and which are the caller's alone: to this thread's front cache, or
//! to their node; and what is poisoned to nobody.

use pagewell_sync::atomic::Ordering;
use pagewell_sync::{MutexGuard, lock};

use super::buddy::Buddy;
use super::front::{Class, Front};
use crate::FramePool;
use crate::count::RefScheme;
use crate::records::{HAS_POISONED, POISONED};
use crate::words::{FrameKind, FrameNr, Order, blocks_of};

impl<S: RefScheme> FramePool<S> {
    /// Frees a block whose count is locked and which is the caller's alone.
    #[inline]
    pub(crate) fn free_locked(&self, frame: FrameNr, order: Order) {
        debug_assert!(self.meta(frame).refs.is_locked());
        let is_cached = Class::of(order).is_some_and(|class| {
            // By value: the numbers stay in registers.
            let pushed = self
                .fronts
                .with_mine(move |front| self.free_to_front(front, class, frame, order));
            pushed == Some(true)
        });
        if !is_cached {
            self.free_to_node(frame, order);
        }
    }

    /// Puts a block into a front cache; false if it does not belong there.
    #[inline(always)]
    pub(crate) fn free_to_front(
        &self,
        front: &mut Front,
        class: Class,
        frame: FrameNr,
        order: Order,
    ) -> bool {
        let record = self.meta(frame);
        // Looked at here, where whoever poisons waits for us (`poison`).
        if record.flags() != 0 || (self.nodes.len() > 1 && self.node_of(frame) != Some(front.home))
        {
            return false;
        }
        record.set_kind(FrameKind::Front, order);
        let is_cached = front.push(class, frame) || self.spill(front, class, frame);
        if is_cached {
            self.note_cached();
        }
        is_cached
    }

    /// Makes room in a full stack by giving half of it to its node, single frames to the depot if they fit, and puts
    /// the block into it.
    #[cold]
    #[inline(never)]
    fn spill(&self, front: &mut Front, class: Class, frame: FrameNr) -> bool {
        let nr = front.batch(class);
        if nr == 0 {
            return false;
        }
        // All of them are of the front cache's home node.
        let mut buddy = lock(&self.nodes[front.home].buddy);
        for oldest in front.take_oldest(class, nr) {
            let is_passed_on = class.order() == Order::ZERO && buddy.depot.push(oldest);
            if !is_passed_on {
                buddy.free(&self.table, oldest, class.order());
            }
        }
        drop(buddy);
        front.push(class, frame)
    }

    /// Frees a block to its node, where it merges with what is free around it.
    pub(crate) fn free_to_node(&self, frame: FrameNr, order: Order) {
        if let Some(node) = self.node_of(frame) {
            self.free_to_buddy(&mut lock(&self.nodes[node].buddy), frame, order);
        }
    }

    /// As [`free_to_node`](Self::free_to_node), with the node's lock held.
    pub(crate) fn free_to_buddy(
        &self,
        buddy: &mut MutexGuard<'_, Buddy>,
        frame: FrameNr,
        order: Order,
    ) {
        // Looked at here, under the lock under which whoever poisons looks for the frame.
        if self.meta(frame).flags() == 0 {
            buddy.free(&self.table, frame, order);
        } else {
            self.free_but_poisoned(buddy, frame, order);
        }
    }

    /// Frees the frames of a block, except those that are poisoned: these are leaked.
    #[cold]
    pub(crate) fn free_but_poisoned(
        &self,
        buddy: &mut MutexGuard<'_, Buddy>,
        frame: FrameNr,
        order: Order,
    ) {
        let end = frame.get() + order.frames();
        self.meta(frame).clear_flag(HAS_POISONED);
        let mut run = frame.get();
        for nr in frame.get()..=end {
            let is_poisoned = nr < end && self.meta(FrameNr::new(nr)).flags() & POISONED != 0;
            if nr < end && !is_poisoned {
                continue;
            }
            for (head, part) in blocks_of(run, nr, Order::MAX) {
                buddy.free(&self.table, head, part);
            }
            run = nr + 1;
            if is_poisoned {
                self.leak(FrameNr::new(nr));
            }
        }
    }

    /// Takes a frame out of use that is the caller's alone, and locked.
    pub(crate) fn leak(&self, frame: FrameNr) {
        self.meta(frame).set_kind(FrameKind::Leaked, Order::ZERO);
        // ORDERING: Relaxed; a count for reports.
        self.nr_leaked.fetch_add(1, Ordering::Relaxed);
    }
}
