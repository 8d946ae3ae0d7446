//! Making room for a block: what is free in its place is taken, what was in the rest of it is added, and
//! the parts are joined.

use std::ops::Range;

use pagewell_sync::{MutexGuard, lock};

use crate::count::RefScheme;
use crate::lists::Buddy;
use crate::pool::{FramePool, UniqueFrame};
use crate::records::HAS_POISONED;
use crate::words::{FrameKind, FrameNr, Order, blocks_of};

impl<S: RefScheme> FramePool<S> {
    /// Takes what is free in the block of `order` that begins at `first`, in the front caches too:
    /// its free parts, in ascending order.
    ///
    /// Whoever wants to make room for the whole block takes these first, so that nobody else allocates
    /// them meanwhile, adds what was in the rest of it, and calls [`join`](Self::join); or gives up and
    /// calls [`free_to_nodes`](Self::free_to_nodes).
    pub fn take_free_within(&self, first: FrameNr, order: Order) -> Vec<UniqueFrame<'_, S>> {
        if !self.may_be_block(first, order) {
            return Vec::new();
        }
        let range = first.get()..first.get() + order.frames();
        let is_front = |nr| self.meta(FrameNr::new(nr)).kind().0 == FrameKind::Front;
        let mut blocks = Vec::new();
        // Only a hint, as the front caches are not locked: a block that is missed stays where it is.
        if range.clone().any(is_front) {
            self.fronts.with_all(|fronts, _| {
                for front in fronts {
                    front.take_where(|frame, _| range.contains(&frame.get()), &mut blocks);
                }
            });
        }
        if let Some(node) = self.node_of(first) {
            let mut buddy = lock(&self.nodes[node].buddy);
            let is_within = |frame: FrameNr| range.contains(&frame.get());
            blocks.extend(
                buddy
                    .depot
                    .take_where(is_within)
                    .map(|frame| (frame, Order::ZERO)),
            );
            blocks.extend(buddy.take_within(&self.table, &range));
        }
        blocks.sort_unstable();
        blocks
            .into_iter()
            .map(|(frame, order)| self.adopt(frame, order))
            .collect()
    }

    /// Makes one block of `order` out of `parts`, which are to be the whole of it in ascending order,
    /// or a larger block, whose rest is freed.
    ///
    /// If they are anything else they are freed, and the answer is none.
    ///
    /// # Panics
    ///
    /// When one of the parts is of another pool.
    pub fn join<'p>(
        &'p self,
        parts: Vec<UniqueFrame<'p, S>>,
        order: Order,
    ) -> Option<UniqueFrame<'p, S>> {
        let (first, whole) = match parts.first() {
            Some(part) => (part.frame(), part.order().max(order)),
            None => return None,
        };
        let mut end = first.get();
        let is_row = parts.iter().all(|part| {
            let is_next = part.frame().get() == end;
            end += part.order().frames();
            is_next
        });
        assert!(
            parts.iter().all(|part| std::ptr::eq(part.pool(), self)),
            "a block of another pool"
        );
        if !is_row || !self.may_be_block(first, order) || end - first.get() != whole.frames() {
            self.free_to_nodes(parts);
            return None;
        }
        let node = self.node_of(first)?;
        let parts: Vec<FrameNr> = parts
            .into_iter()
            .map(|part| self.dissolve(part).0)
            .collect();
        // Whoever poisons finds the first frame of a block, and sets its flag, under this lock: that of a part,
        // before we look at it, or that of the whole.
        let buddy = lock(&self.nodes[node].buddy);
        let mut flags = 0;
        for frame in parts {
            let record = self.meta(frame);
            flags |= record.flags();
            // From here on the flag of the first frame of all speaks for them.
            record.clear_flag(HAS_POISONED);
            // The parts are this thread's alone, and so is the block that they are.
            record.set_kind(FrameKind::Tail, Order::ZERO);
        }
        let block = self.adopt(first, whole);
        if flags != 0 {
            self.meta(first).set_flag(HAS_POISONED);
        }
        drop(buddy);
        Some(self.cut(block, order))
    }

    /// Makes single frames of a block, each this caller's alone, and appends them to `frames` in ascending order.
    ///
    /// # Panics
    ///
    /// When the block is of another pool.
    pub fn split_into<'p>(
        &'p self,
        block: UniqueFrame<'p, S>,
        frames: &mut Vec<UniqueFrame<'p, S>>,
    ) {
        let (first, order) = self.dissolve(block);
        frames.reserve(order.frames() as usize);
        let Some(node) = self.node_of(first) else {
            return;
        };
        // With the node's lock held, so that whoever poisons finds each frame in the block or by itself. Tails are locked.
        let buddy = lock(&self.nodes[node].buddy);
        self.meta(first).clear_flag(HAS_POISONED);
        let parts = first.get()..first.get() + order.frames();
        frames.extend(parts.map(|nr| self.adopt(FrameNr::new(nr), Order::ZERO)));
        drop(buddy);
    }

    /// Frees all of a block but the block of `order` at its beginning.
    fn cut<'p>(&'p self, block: UniqueFrame<'p, S>, order: Order) -> UniqueFrame<'p, S> {
        let (first, whole) = (block.frame(), block.order());
        let Some(node) = self.node_of(first).filter(|_| whole > order) else {
            return block;
        };
        let _ = block.into_withheld();
        // With the node's lock held, so that whoever poisons finds each frame in one block or the other.
        let mut buddy = lock(&self.nodes[node].buddy);
        let record = self.meta(first);
        record.set_kind(FrameKind::Owned, order);
        let rest = first.get() + order.frames()..first.get() + whole.frames();
        for (frame, part) in blocks_of(rest.start, rest.end, Order::MAX) {
            if record.flags() & HAS_POISONED == 0 {
                buddy.free(&self.table, frame, part);
            } else {
                self.free_but_poisoned(&mut buddy, frame, part);
            }
        }
        UniqueFrame::new(self, first, order)
    }

    /// Frees blocks straight to their nodes, where they merge with what is free around them; a frame in
    /// a front cache does not.
    ///
    /// # Panics
    ///
    /// When one of the blocks is of another pool.
    pub fn free_to_nodes(&self, blocks: Vec<UniqueFrame<'_, S>>) {
        for block in blocks {
            let (frame, order) = self.dissolve(block);
            self.free_to_node(frame, order);
        }
    }

    /// As [`free_to_nodes`](Self::free_to_nodes), with one lock for all that are next to each other in `blocks` and of one
    /// node. Single frames are freed fastest in ascending order.
    ///
    /// # Panics
    ///
    /// When one of the blocks is of another pool.
    pub fn free_bulk<'p>(&'p self, blocks: impl IntoIterator<Item = UniqueFrame<'p, S>>) {
        let mut locked: Option<(usize, MutexGuard<'_, Buddy>)> = None;
        // Single frames that are a row, and of the node whose lock is held.
        let mut row = 0..0;
        for block in blocks {
            let (frame, order) = self.dissolve(block);
            let nr = frame.get();
            let Some(node) = self.node_of(frame) else {
                continue;
            };
            let is_locked = locked.as_ref().is_some_and(|(of_node, _)| *of_node == node);
            if is_locked && order == Order::ZERO && row.end == nr {
                row.end = nr + 1;
                continue;
            }
            if let Some((_, buddy)) = &mut locked {
                self.free_row(buddy, std::mem::take(&mut row));
            }
            if !is_locked {
                // The other node's lock is released before.
                drop(locked.take());
                locked = Some((node, lock(&self.nodes[node].buddy)));
            }
            match &mut locked {
                Some((_, buddy)) if order > Order::ZERO => self.free_to_buddy(buddy, frame, order),
                _ => row = nr..nr + 1,
            }
        }
        if let Some((_, buddy)) = &mut locked {
            self.free_row(buddy, row);
        }
    }

    /// Frees single frames that follow each other: as the blocks that they are, so that what would be merged again is not
    /// put on lists one by one.
    fn free_row(&self, buddy: &mut MutexGuard<'_, Buddy>, row: Range<u32>) {
        let frames = || row.clone().map(FrameNr::new);
        // Looked at under the lock, as in `free_to_buddy`.
        if frames().any(|frame| self.meta(frame).flags() != 0) {
            for frame in frames() {
                self.free_to_buddy(buddy, frame, Order::ZERO);
            }
            return;
        }
        for (frame, order) in blocks_of(row.start, row.end, Order::MAX) {
            for tail in frame.get() + 1..frame.get() + order.frames() {
                self.meta(FrameNr::new(tail))
                    .set_kind(FrameKind::Tail, Order::ZERO);
            }
            buddy.free(&self.table, frame, order);
        }
    }

    /// Takes a handle apart; its block stays allocated, and is the caller's.
    fn dissolve(&self, block: UniqueFrame<'_, S>) -> (FrameNr, Order) {
        assert!(std::ptr::eq(block.pool(), self), "a block of another pool");
        let order = block.order();
        (block.into_withheld(), order)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{HugePages, Nodes, PoolConfig};

    fn pool(nr_frames: usize, nr_nodes: usize) -> FramePool {
        FramePool::new(&PoolConfig {
            nr_frames,
            huge_pages: HugePages::System,
            nodes: Nodes::Unbound(nr_nodes),
            ..PoolConfig::new(nr_frames)
        })
        .unwrap()
    }

    fn order(order: u8) -> Order {
        Order::new(order).unwrap()
    }

    /// A file with pages of 64 KiB could be opened in a cache of 80 frames in eight nodes, and then no
    /// page be had: frames were counted, not blocks within nodes.
    #[test]
    fn blocks_are_counted_node_by_node() {
        assert_eq!(pool(80, 8).nr_blocks(Order::ZERO), 80);
        assert_eq!(pool(80, 8).nr_blocks(order(1)), 40);
        // 0..8, 12..20, 20..28, ..., 72..80: aligned blocks of eight are in 0..10, 10..20 and so on.
        assert_eq!(pool(80, 8).nr_blocks(order(3)), 4);
        assert_eq!(pool(80, 8).nr_blocks(order(4)), 0);
        assert_eq!(pool(80, 1).nr_blocks(order(4)), 5);
        for (nr_frames, nr_nodes) in [(80, 8), (80, 1), (131, 3)] {
            let pool = pool(nr_frames, nr_nodes);
            for k in 0..=5 {
                let starts = (0..nr_frames as u32)
                    .filter(|nr| pool.may_be_block(FrameNr::new(*nr), order(k)))
                    .count();
                assert_eq!(starts, pool.nr_blocks(order(k)));
                let blocks: Vec<_> = std::iter::from_fn(|| pool.alloc(order(k))).collect();
                assert_eq!(blocks.len(), starts, "order {k} of {pool:?}");
            }
        }
    }

    #[test]
    fn parts_of_a_block_become_the_block() {
        let pool = pool(64, 1);
        let mut all: Vec<_> = std::iter::from_fn(|| pool.alloc(Order::ZERO)).collect();
        all.sort_by_key(UniqueFrame::frame);
        let mut held = all.split_off(20);
        let rest = held.split_off(2);
        // Frames 0 to 19 are free, in front caches or in the node; 20 and 21 are held.
        drop(all);
        let mut parts = pool.take_free_within(FrameNr::new(16), order(3));
        assert_eq!(
            parts.iter().map(|part| part.order().frames()).sum::<u32>(),
            4
        );
        parts.append(&mut held);
        // Two frames are missing: the parts are given back, and merge.
        assert!(pool.join(parts, order(3)).is_none());
        assert_eq!(pool.stats().nr_available(), 22);
        pool.verify().unwrap();

        let mut parts = pool.take_free_within(FrameNr::new(16), order(3));
        let mut rest = rest.into_iter();
        parts.extend(rest.by_ref().take(2));
        let block = pool.join(parts, order(3)).unwrap();
        assert_eq!((block.frame().get(), block.order()), (16, order(3)));
        pool.verify().unwrap();
        drop(block);
        drop(rest);
        pool.verify().unwrap();
        assert_eq!(pool.stats().nr_available(), 64);
    }

    #[test]
    fn the_rest_of_a_larger_block_is_freed() {
        let pool = pool(64, 1);
        let large = pool.alloc(order(5)).unwrap();
        let first = large.frame();
        let small = pool.join(vec![large], order(1)).unwrap();
        assert_eq!((small.frame(), small.order()), (first, order(1)));
        assert_eq!(pool.stats().nr_available(), 62);
        pool.verify().unwrap();
        drop(small);
        assert!(pool.alloc(order(5)).is_some());
        assert_eq!(pool.stats().nr_available(), 64);
        pool.verify().unwrap();
    }

    #[test]
    fn a_block_is_split_into_frames_that_are_freed_one_by_one() {
        let pool = pool(64, 1);
        let block = pool.alloc(order(4)).unwrap();
        let first = block.frame().get();
        let mut frames = Vec::new();
        pool.split_into(block, &mut frames);
        let numbers = frames.iter().map(|frame| frame.frame().get());
        assert!(numbers.eq(first..first + 16));
        assert!(frames.iter().all(|frame| frame.order() == Order::ZERO));
        pool.verify().unwrap();
        frames.truncate(5);
        assert_eq!(pool.stats().nr_available(), 59);
        pool.verify().unwrap();
        drop(frames);
        assert_eq!(pool.stats().nr_available(), 64);
        pool.verify().unwrap();
    }

    #[test]
    fn frames_of_a_node_are_allocated_and_freed_in_bulk() {
        let pool = pool(256, 2);
        let mut frames = Vec::new();
        assert_eq!(pool.alloc_bulk_on(1, 100, &mut frames), 100);
        assert!(
            frames
                .iter()
                .all(|frame| pool.node_of(frame.frame()) == Some(1))
        );
        assert_eq!(pool.alloc_bulk_on(1, 100, &mut frames), 28);
        assert_eq!(pool.alloc_bulk_on(2, 100, &mut frames), 0);
        assert_eq!(pool.alloc_bulk_on(0, 5, &mut frames), 5);
        frames.rotate_left(3);
        pool.free_bulk(frames);
        pool.verify().unwrap();
        assert_eq!(pool.stats().nr_free, 256);
    }

    #[test]
    fn blocks_freed_to_the_nodes_merge_at_once() {
        let pool = pool(1024, 1);
        let blocks: Vec<_> = std::iter::from_fn(|| pool.alloc(Order::ZERO)).collect();
        assert_eq!(blocks.len(), 1024);
        pool.free_to_nodes(blocks);
        assert_eq!(pool.free_blocks().of_order(Order::MAX), 1);
    }

    #[test]
    #[should_panic(expected = "of another pool")]
    fn a_block_of_another_pool_is_refused() {
        let (pool, other) = (pool(16, 1), pool(16, 1));
        let block = other.alloc(Order::ZERO).unwrap();
        pool.free_to_nodes(vec![block]);
    }
}
