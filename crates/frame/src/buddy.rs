//! The buddy allocator of one node: free blocks of every order, split and merged.
//!
//! Place. The [pool](crate::pool) keeps one for each node behind the node's lock; everything here is
//! called with it held.
//!
//! Invariants.
//! - I1: the frames of the node are partitioned into free blocks (heads on the list of their order,
//!   kind [`FrameKind::Free`]) and frames that the allocator does not own.
//! - I2: every frame of a free block holds the lock bit.
//! - I3: no two free buddies of one order are both on its list: they would have been merged.
//!
//! Source: Knowlton, "A fast storage allocator", CACM 8(10), 1965.

use std::ops::Range;

use pagewell_sync::atomic::Ordering;

use crate::kind::FrameKind;
use crate::meta::{self, MetaTable, NIL};
use crate::refcount::RefScheme;
use crate::{FrameNr, Order};

/// The free lists of one node.
#[derive(Debug)]
pub(crate) struct Buddy {
    first: u32,
    end: u32,
    heads: [u32; Order::COUNT],
    nr_free: usize,
}

impl Buddy {
    /// An allocator of the frames `first..end`, all of them free.
    pub(crate) fn new<S: RefScheme>(table: &MetaTable<S>, first: u32, end: u32) -> Self {
        let mut buddy = Self {
            first,
            end,
            heads: [NIL; Order::COUNT],
            nr_free: (end - first) as usize,
        };
        // The largest aligned blocks that fit, highest first, so that the lists start low.
        let mut blocks = Vec::new();
        let mut nr = first;
        while nr < end {
            let aligned = if nr == 0 { 31 } else { nr.trailing_zeros() };
            let order = aligned
                .min((end - nr).ilog2())
                .min(u32::from(Order::MAX.get()));
            let order = Order::new(order as u8).unwrap_or(Order::ZERO);
            blocks.push((nr, order));
            nr += order.frames();
        }
        for (nr, order) in blocks.into_iter().rev() {
            buddy.push(table, nr, order);
        }
        buddy
    }

    /// How many frames are free.
    pub(crate) fn nr_free(&self) -> usize {
        self.nr_free
    }

    /// Takes a free block of `order`, splitting a larger one if need be.
    ///
    /// The block's frames keep the lock bit; its tails are of kind `Tail` and its head is the caller's
    /// to name.
    pub(crate) fn alloc<S: RefScheme>(
        &mut self,
        table: &MetaTable<S>,
        order: Order,
    ) -> Option<FrameNr> {
        let from = (order.index()..Order::COUNT).find(|&k| self.heads[k] != NIL)?;
        let mut have = Order::new(from as u8)?;
        let nr = self.heads[from];
        self.unlink(table, nr, have);
        // Keep the lower half each time: successive allocations come out in ascending order.
        while have > order {
            have = have.down()?;
            self.push(table, nr + have.frames(), have);
        }
        self.nr_free -= order.frames() as usize;
        Some(FrameNr::new(nr))
    }

    /// Gives a block back, merging it with its buddy as far as that is free too.
    pub(crate) fn free<S: RefScheme>(
        &mut self,
        table: &MetaTable<S>,
        frame: FrameNr,
        order: Order,
    ) {
        self.nr_free += order.frames() as usize;
        let mut nr = frame.get();
        let mut order = order;
        while let Some(up) = order.up() {
            let buddy = nr ^ order.frames();
            if buddy < self.first || buddy + order.frames() > self.end {
                break;
            }
            let record = meta::of(table, FrameNr::new(buddy));
            // A frame becomes `Free` and stops to be it only under this lock, so the answer is settled.
            if record.kind() != (FrameKind::Free, order) {
                break;
            }
            self.unlink(table, buddy, order);
            let upper = nr.max(buddy);
            meta::of(table, FrameNr::new(upper)).set_kind(FrameKind::Tail, Order::ZERO);
            nr = nr.min(buddy);
            order = up;
        }
        self.push(table, nr, order);
    }

    /// Takes every free block that begins in `range` off its list, in ascending order; they are the
    /// caller's then.
    pub(crate) fn take_within<S: RefScheme>(
        &mut self,
        table: &MetaTable<S>,
        range: &Range<u32>,
    ) -> Vec<(FrameNr, Order)> {
        let mut taken = Vec::new();
        let mut nr = range.start.max(self.first);
        while nr < range.end.min(self.end) {
            // What is not `Free` may change at any moment, and its order with it, so it is gone through
            // frame by frame. That finds nothing inside of a block: tails are never `Free`.
            let (kind, order) = meta::of(table, FrameNr::new(nr)).kind();
            if kind != FrameKind::Free {
                nr += 1;
                continue;
            }
            self.unlink(table, nr, order);
            self.nr_free -= order.frames() as usize;
            taken.push((FrameNr::new(nr), order));
            nr += order.frames();
        }
        taken
    }

    /// Frees the end of an allocated block, so that only the block of `order` at its beginning is left.
    pub(crate) fn cut<S: RefScheme>(
        &mut self,
        table: &MetaTable<S>,
        frame: FrameNr,
        from: Order,
        order: Order,
    ) {
        self.nr_free += (from.frames() - order.frames()) as usize;
        let mut have = from;
        while have > order
            && let Some(half) = have.down()
        {
            have = half;
            self.push(table, frame.get() + have.frames(), have);
        }
    }

    fn push<S: RefScheme>(&mut self, table: &MetaTable<S>, nr: u32, order: Order) {
        let record = meta::of(table, FrameNr::new(nr));
        record.set_kind(FrameKind::Free, order);
        let head = self.heads[order.index()];
        // ORDERING: Relaxed, here and below; links are read and written under the node's lock only.
        record.next.store(head, Ordering::Relaxed);
        record.prev.store(NIL, Ordering::Relaxed);
        if head != NIL {
            let next = meta::of(table, FrameNr::new(head));
            next.prev.store(nr, Ordering::Relaxed);
        }
        self.heads[order.index()] = nr;
    }

    /// Takes a block off its list; its head is `Owned` then.
    fn unlink<S: RefScheme>(&mut self, table: &MetaTable<S>, nr: u32, order: Order) {
        let record = meta::of(table, FrameNr::new(nr));
        // ORDERING: Relaxed; see `push`.
        let next = record.next.load(Ordering::Relaxed);
        let prev = record.prev.load(Ordering::Relaxed);
        if prev == NIL {
            self.heads[order.index()] = next;
        } else {
            let before = meta::of(table, FrameNr::new(prev));
            before.next.store(next, Ordering::Relaxed);
        }
        if next != NIL {
            let after = meta::of(table, FrameNr::new(next));
            after.prev.store(prev, Ordering::Relaxed);
        }
        record.set_kind(FrameKind::Owned, order);
    }

    /// Checks I1 to I3; returns what is wrong.
    pub(crate) fn verify<S: RefScheme>(&self, table: &MetaTable<S>) -> Result<(), String> {
        let mut counted = 0_usize;
        for k in 0..Order::COUNT {
            let order = Order::new(k as u8).unwrap_or(Order::ZERO);
            let mut nr = self.heads[k];
            let mut prev = NIL;
            while nr != NIL {
                let record = meta::of(table, FrameNr::new(nr));
                if record.kind() != (FrameKind::Free, order) {
                    return Err(format!(
                        "frame {nr} is on the free list of order {k} as {:?}",
                        record.kind()
                    ));
                }
                if nr < self.first
                    || nr + order.frames() > self.end
                    || !nr.is_multiple_of(order.frames())
                {
                    return Err(format!("free block {nr} of order {k} is out of place"));
                }
                // ORDERING: Relaxed; see `push`.
                if record.prev.load(Ordering::Relaxed) != prev {
                    return Err(format!(
                        "free block {nr} of order {k} has a wrong back link"
                    ));
                }
                for tail in nr..nr + order.frames() {
                    let tail_record = meta::of(table, FrameNr::new(tail));
                    if tail != nr && tail_record.kind().0 != FrameKind::Tail {
                        return Err(format!("frame {tail} in free block {nr} is not a tail"));
                    }
                    if tail_record.count() != 0 {
                        return Err(format!("free frame {tail} has references"));
                    }
                }
                let buddy = nr ^ order.frames();
                if order < Order::MAX
                    && buddy >= self.first
                    && buddy + order.frames() <= self.end
                    && meta::of(table, FrameNr::new(buddy)).kind() == (FrameKind::Free, order)
                {
                    return Err(format!(
                        "free buddies {nr} and {buddy} of order {k} stand apart"
                    ));
                }
                counted += order.frames() as usize;
                prev = nr;
                nr = record.next.load(Ordering::Relaxed);
            }
        }
        if counted != self.nr_free {
            return Err(format!(
                "{counted} frames on the free lists, {} accounted as free",
                self.nr_free
            ));
        }
        Ok(())
    }
}
