//! Buddy allocator of one node, and its transfer cache ([`Depot`]) of single frames. The callers of
//! all methods hold the [node](super::free_lists::Node)'s lock.
//!
//! Invariants.
//! - I1: The frames of the node are partitioned into free blocks (the head is on the list of the
//!   block's order and has kind [`FrameKind::Free`]) and frames that the allocator does not own.
//! - I2: Every frame of a free block has the lock bit set.
//! - I3: No two buddies of an order below [`Order::MAX`] are both on the list of that order.
//!
//! Source: Knowlton, "A fast storage allocator", CACM 8(10), 1965.

use std::ops::Range;

use pagewell_sync::atomic::Ordering;
use pagewell_sync::scaled;

use crate::records::{self, MetaTable, NIL};
use crate::words::{FrameKind, FrameNr, Order, blocks_of};

#[derive(Debug)]
pub(crate) struct Buddy {
    first: u32,
    end: u32,
    heads: [u32; Order::COUNT],
    nr_blocks: [usize; Order::COUNT],
    nr_free: usize,
    /// Transfer cache: free single frames that are on no list.
    pub(crate) depot: Depot,
}

impl Buddy {
    pub(crate) fn new(table: &MetaTable, first: u32, end: u32) -> Self {
        let mut buddy = Self {
            first,
            end,
            depot: Depot::new((end - first) as usize),
            heads: [NIL; Order::COUNT],
            nr_blocks: [0; Order::COUNT],
            nr_free: (end - first) as usize,
        };
        // Push the highest block first, so that each list starts with its lowest block.
        let blocks: Vec<_> = blocks_of(first, end, Order::MAX).collect();
        for (frame, order) in blocks.into_iter().rev() {
            buddy.push(table, frame.get(), order);
        }
        buddy
    }

    pub(crate) fn nr_blocks(&self) -> [usize; Order::COUNT] {
        self.nr_blocks
    }

    pub(crate) fn nr_free(&self) -> usize {
        self.nr_free
    }

    /// Allocates a block of `order`, and splits a larger one if necessary. The counts stay locked.
    /// The head is `Owned` until the caller sets its kind. The tails follow I1 of [`FrameKind`].
    pub(crate) fn alloc(&mut self, table: &MetaTable, order: Order) -> Option<FrameNr> {
        let from = (order.index()..Order::COUNT).find(|&k| self.heads[k] != NIL)?;
        let mut have = Order::new(from as u8)?;
        let nr = self.heads[from];
        self.unlink(table, nr, have);
        // Keep the lower half each time, so that successive allocations return ascending frames.
        while have > order {
            have = have.down()?;
            self.push(table, nr + have.frames(), have);
        }
        // Set the kind under the lock: a search for the block of a frame in a split-off half must
        // not find this head with its old order.
        records::of(table, FrameNr::new(nr)).set_kind(FrameKind::Owned, order);
        self.nr_free -= order.frames() as usize;
        Some(FrameNr::new(nr))
    }

    /// Like [`alloc`](Self::alloc), but never splits a larger block.
    pub(crate) fn alloc_exact(&mut self, table: &MetaTable, order: Order) -> Option<FrameNr> {
        let nr = self.heads[order.index()];
        (nr != NIL).then(|| {
            let frame = FrameNr::new(nr);
            self.take(table, frame, order);
            frame
        })
    }

    /// Allocates up to `nr` single frames, from the smallest free blocks, so that large blocks stay
    /// whole. `each` sets the kind of a frame. The counts keep the lock bit.
    pub(crate) fn alloc_bulk(
        &mut self,
        table: &MetaTable,
        nr: usize,
        mut each: impl FnMut(FrameNr),
    ) -> usize {
        let mut left = nr.min(self.nr_free);
        let took = left;
        while left > 0 {
            let Some(smallest) = self.heads.iter().position(|head| *head != NIL) else {
                break;
            };
            // Allocate the whole block, or its largest part with no more frames than needed.
            let order = Order::new((smallest as u32).min(left.ilog2()) as u8);
            let Some((block, order)) =
                order.and_then(|order| Some((self.alloc(table, order)?, order)))
            else {
                break;
            };
            for frame in block.get()..block.get() + order.frames() {
                each(FrameNr::new(frame));
            }
            left -= order.frames() as usize;
        }
        took - left
    }

    /// Removes a free block from its list. The head becomes `Owned`.
    pub(crate) fn take(&mut self, table: &MetaTable, frame: FrameNr, order: Order) {
        debug_assert_eq!(records::of(table, frame).kind(), (FrameKind::Free, order));
        self.unlink(table, frame.get(), order);
        self.nr_free -= order.frames() as usize;
    }

    /// Frees a block that the caller owns, and merges it with free buddies.
    pub(crate) fn free(&mut self, table: &MetaTable, frame: FrameNr, order: Order) {
        self.nr_free += order.frames() as usize;
        let mut nr = frame.get();
        let mut order = order;
        while let Some(up) = order.up() {
            let buddy = nr ^ order.frames();
            if buddy < self.first || buddy + order.frames() > self.end {
                break;
            }
            let record = records::of(table, FrameNr::new(buddy));
            // Kinds change to or from `Free` only under this lock, so the comparison is stable.
            if record.kind() != (FrameKind::Free, order) {
                break;
            }
            self.unlink(table, buddy, order);
            let upper = nr.max(buddy);
            records::of(table, FrameNr::new(upper)).set_kind(FrameKind::Tail, Order::ZERO);
            nr = nr.min(buddy);
            order = up;
        }
        self.push(table, nr, order);
    }

    /// Removes the free blocks that begin in `range`, in ascending order. The caller owns them.
    pub(crate) fn take_within(
        &mut self,
        table: &MetaTable,
        range: &Range<u32>,
    ) -> Vec<(FrameNr, Order)> {
        let mut taken = Vec::new();
        let mut nr = range.start.max(self.first);
        while nr < range.end.min(self.end) {
            // Other kinds and orders may change, so go frame by frame. Tails are never `Free`.
            let (kind, order) = records::of(table, FrameNr::new(nr)).kind();
            if kind != FrameKind::Free {
                nr += 1;
                continue;
            }
            self.take(table, FrameNr::new(nr), order);
            taken.push((FrameNr::new(nr), order));
            nr += order.frames();
        }
        taken
    }

    fn push(&mut self, table: &MetaTable, nr: u32, order: Order) {
        let record = records::of(table, FrameNr::new(nr));
        record.set_kind(FrameKind::Free, order);
        let head = self.heads[order.index()];
        // ORDERING: Relaxed, here and below; links are accessed only under the node's lock.
        record.next.store(head, Ordering::Relaxed);
        record.prev.store(NIL, Ordering::Relaxed);
        if head != NIL {
            let next = records::of(table, FrameNr::new(head));
            next.prev.store(nr, Ordering::Relaxed);
        }
        self.heads[order.index()] = nr;
        self.nr_blocks[order.index()] += 1;
    }

    /// Removes a block from its list, without changing `nr_free`. The head becomes `Owned`.
    fn unlink(&mut self, table: &MetaTable, nr: u32, order: Order) {
        let record = records::of(table, FrameNr::new(nr));
        // ORDERING: Relaxed; the node's lock orders links (see `push`).
        let next = record.next.load(Ordering::Relaxed);
        let prev = record.prev.load(Ordering::Relaxed);
        self.nr_blocks[order.index()] -= 1;
        if prev == NIL {
            self.heads[order.index()] = next;
        } else {
            let before = records::of(table, FrameNr::new(prev));
            before.next.store(next, Ordering::Relaxed);
        }
        if next != NIL {
            let after = records::of(table, FrameNr::new(next));
            after.prev.store(prev, Ordering::Relaxed);
        }
        record.set_kind(FrameKind::Owned, order);
    }

    /// Checks I1 to I3 and the counters.
    pub(crate) fn verify(&self, table: &MetaTable) -> Result<(), String> {
        let mut counted = 0_usize;
        for k in 0..Order::COUNT {
            let order = Order::new(k as u8).unwrap_or(Order::ZERO);
            let mut nr = self.heads[k];
            let mut prev = NIL;
            let mut on_list = 0;
            while nr != NIL {
                let record = records::of(table, FrameNr::new(nr));
                if record.kind() != (FrameKind::Free, order) {
                    return Err(format!(
                        "frame {nr} on the free list of order {k} has kind {:?}",
                        record.kind()
                    ));
                }
                if nr < self.first
                    || nr + order.frames() > self.end
                    || !nr.is_multiple_of(order.frames())
                {
                    return Err(format!("free block {nr} of order {k} is misplaced"));
                }
                // ORDERING: Relaxed; the node's lock orders links (see `push`).
                if record.prev.load(Ordering::Relaxed) != prev {
                    return Err(format!(
                        "free block {nr} of order {k} has a wrong `prev` link"
                    ));
                }
                for tail in nr..nr + order.frames() {
                    let tail_record = records::of(table, FrameNr::new(tail));
                    let word = tail_record.kind();
                    let is_tail =
                        word.0 == FrameKind::Tail || word == (FrameKind::Raw, Order::ZERO);
                    if tail != nr && !is_tail {
                        return Err(format!(
                            "frame {tail} in free block {nr} is {word:?}, not a tail"
                        ));
                    }
                    if !tail_record.refs.is_locked() {
                        return Err(format!("free frame {tail} lacks the lock bit"));
                    }
                }
                let buddy = nr ^ order.frames();
                if order < Order::MAX
                    && buddy >= self.first
                    && buddy + order.frames() <= self.end
                    && records::of(table, FrameNr::new(buddy)).kind() == (FrameKind::Free, order)
                {
                    return Err(format!(
                        "free buddies {nr} and {buddy} of order {k} are not merged"
                    ));
                }
                counted += order.frames() as usize;
                on_list += 1;
                prev = nr;
                // ORDERING: Relaxed; the node's lock orders links (see `push`).
                nr = record.next.load(Ordering::Relaxed);
            }
            if on_list != self.nr_blocks[k] {
                return Err(format!(
                    "{on_list} free blocks of order {k} on the list, {} counted",
                    self.nr_blocks[k]
                ));
            }
        }
        if counted != self.nr_free {
            return Err(format!(
                "{counted} frames on the free lists, {} counted as free",
                self.nr_free
            ));
        }
        Ok(())
    }
}

/// Maximum number of frames in a transfer cache: sixteen batches of single frames.
const MAX_DEPOT_FRAMES: usize = scaled(512, 1);

/// Inverse of the maximum fraction of a node's frames in its transfer cache.
const DEPOT_DIVISOR: usize = scaled(64, 1);

/// Transfer cache of a node: single frames that pass from one thread cache to another. Without it,
/// they would be merged and split. They are `Front`, of order 0, and have the lock bit set.
#[derive(Debug)]
pub(crate) struct Depot {
    frames: Vec<FrameNr>,
    capacity: usize,
}

impl Depot {
    pub(crate) fn new(nr_frames: usize) -> Self {
        let capacity = MAX_DEPOT_FRAMES.min(nr_frames / DEPOT_DIVISOR);
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
