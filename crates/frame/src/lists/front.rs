//! Front caches: free blocks at hand, so that allocating one rarely takes a node's lock.
//!
//! What. Each of the first threads has stacks of free blocks: of the orders that pages of files have (0
//! to 4), and of the page block. The block freed last is on top, since its memory is the likeliest to be
//! in the processor's caches. A thread uses its stacks without any atomic read-modify-write
//! ([`PerThread`]); a thread that needs the blocks in the stacks of others can take them. Threads beyond the
//! first ones use the nodes.
//!
//! Place. Allocations ask here first; blocks move half a stack at a time to and from a node.
//!
//! Invariants.
//! - I1: a block in a stack is of kind `Front` and of the stack's order, and has the lock bit.
//! - I2: the front caches of two threads a processor hold an eighth of the pool at the most. More threads than that may
//!   hold more; when memory runs out, their blocks are taken from them.
//!
//! Locks. The work on a front cache begins before a node is locked, never after.

use pagewell_sync::asymmetric::Fences;
use pagewell_sync::per_thread::PerThread;

use crate::words::{FrameNr, Order};

/// How many frames a stack holds at the most; one of page blocks holds [`MOST_PAGE_BLOCKS`] blocks.
const MOST: usize = if cfg!(loom) { 2 } else { 64 };

/// How many page blocks a thread has at hand at the most.
const MOST_PAGE_BLOCKS: usize = 8;

/// The orders 0 to 4, and the page block; in models order 0, and the page block.
const CLASSES: usize = if cfg!(loom) { 2 } else { 6 };

/// One stack of a front cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class(usize);

impl Class {
    /// The stack for blocks of `order`, if there is one.
    #[inline]
    pub(crate) fn of(order: Order) -> Option<Self> {
        if order == Order::PAGE_BLOCK {
            Some(Self(CLASSES - 1))
        } else if order.index() < CLASSES - 1 {
            Some(Self(order.index()))
        } else {
            None
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        (0..CLASSES).map(Self)
    }

    pub(crate) fn order(self) -> Order {
        if self.0 + 1 == CLASSES {
            Order::PAGE_BLOCK
        } else {
            Order::new(self.0 as u8).unwrap_or(Order::ZERO)
        }
    }
}

/// The front caches of one pool.
pub(crate) type FrontCaches = PerThread<Front>;

/// One thread's front cache.
#[derive(Debug)]
pub(crate) struct Front {
    stacks: [Stack; CLASSES],
    /// The node whose blocks are kept here; those of others go back to theirs.
    pub(crate) home: usize,
}

/// A fixed array, so that pushing is a comparison and a store.
#[derive(Debug)]
struct Stack {
    blocks: [FrameNr; MOST],
    len: usize,
    capacity: usize,
}

impl Stack {
    fn blocks(&self) -> &[FrameNr] {
        &self.blocks[..self.len]
    }

    /// Takes all out.
    fn take_all(&mut self) -> impl Iterator<Item = FrameNr> {
        let len = std::mem::take(&mut self.len);
        self.blocks[..len].iter().copied()
    }

    /// Takes out the blocks for which `is_wanted` holds.
    fn take_where(&mut self, mut is_wanted: impl FnMut(FrameNr) -> bool) {
        let mut nr_kept = 0;
        for at in 0..self.len {
            let frame = self.blocks[at];
            if !is_wanted(frame) {
                self.blocks[nr_kept] = frame;
                nr_kept += 1;
            }
        }
        self.len = nr_kept;
    }
}

/// Empty front caches for a pool of `nr_frames` frames used from `nr_cpus` processors.
pub(crate) fn front_caches(nr_frames: usize, nr_cpus: usize) -> FrontCaches {
    // Enough for programs with several threads a processor.
    let nr = if cfg!(loom) {
        2
    } else {
        (4 * nr_cpus).clamp(16, 512)
    };
    // Twice as many threads as processors keep theirs full at the most, as a rule (I2).
    let capacities = capacities(nr_frames / 8 / (2 * nr_cpus.max(1)));
    PerThread::new(nr, Fences::new(), || Front {
        stacks: capacities.map(|capacity| Stack {
            blocks: [FrameNr::new(0); MOST],
            len: 0,
            capacity,
        }),
        home: 0,
    })
}

/// How many blocks of each class a front cache may hold that is to hold at most `nr_frames` frames.
fn capacities(nr_frames: usize) -> [usize; CLASSES] {
    if cfg!(loom) {
        // The pools of the models have one page block, or two.
        return std::array::from_fn(|class| if class == 0 { MOST } else { 1 });
    }
    let mut left = nr_frames;
    std::array::from_fn(|class| {
        let order = Class(class).order();
        // Single frames first; then the small blocks, in equal parts; then page blocks.
        let share = match class {
            0 => left.min(MOST),
            _ if order == Order::PAGE_BLOCK => left.min(MOST_PAGE_BLOCKS * order.frames() as usize),
            _ => (left / (CLASSES - 1 - class)).min(MOST),
        };
        let capacity = share >> order.get();
        left -= capacity << order.get();
        capacity
    })
}

impl Front {
    #[inline]
    pub(crate) fn pop(&mut self, class: Class) -> Option<FrameNr> {
        let stack = &mut self.stacks[class.0];
        stack.len = stack.len.checked_sub(1)?;
        stack.blocks.get(stack.len).copied()
    }

    /// Puts a block on top, if there is room.
    #[inline]
    pub(crate) fn push(&mut self, class: Class, frame: FrameNr) -> bool {
        let stack = &mut self.stacks[class.0];
        if stack.len >= stack.capacity {
            return false;
        }
        let Some(place) = stack.blocks.get_mut(stack.len) else {
            return false;
        };
        *place = frame;
        stack.len += 1;
        true
    }

    /// How many blocks to move between a stack and a node at a time; 0 if the stack holds nothing.
    pub(crate) fn batch(&self, class: Class) -> usize {
        self.stacks[class.0].capacity.div_ceil(2)
    }

    /// Turns around the blocks that were put on top last.
    pub(crate) fn reverse_top(&mut self, class: Class, nr: usize) {
        let stack = &mut self.stacks[class.0];
        let start = stack.len.saturating_sub(nr);
        stack.blocks[start..stack.len].reverse();
    }

    /// Takes out the `nr` blocks that were freed longest ago.
    pub(crate) fn take_oldest(&mut self, class: Class, nr: usize) -> impl Iterator<Item = FrameNr> {
        let stack = &mut self.stacks[class.0];
        let nr = nr.min(stack.len);
        let (oldest, len) = (stack.blocks, stack.len);
        stack.blocks.copy_within(nr..len, 0);
        stack.len = len - nr;
        oldest.into_iter().take(nr)
    }

    /// Takes out everything.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = (FrameNr, Order)> {
        self.stacks
            .iter_mut()
            .enumerate()
            .flat_map(|(class, stack)| {
                let order = Class(class).order();
                stack.take_all().map(move |frame| (frame, order))
            })
    }

    /// Takes out the blocks for which `is_wanted` holds, and appends them to `taken`.
    pub(crate) fn take_where(
        &mut self,
        is_wanted: impl Fn(FrameNr, Order) -> bool,
        taken: &mut Vec<(FrameNr, Order)>,
    ) {
        for class in Class::all() {
            let order = class.order();
            self.stacks[class.0].take_where(|frame| {
                let is_wanted = is_wanted(frame, order);
                if is_wanted {
                    taken.push((frame, order));
                }
                is_wanted
            });
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (FrameNr, Order)> {
        self.stacks.iter().enumerate().flat_map(|(class, stack)| {
            let order = Class(class).order();
            stack.blocks().iter().map(move |frame| (*frame, order))
        })
    }

    /// How many frames the blocks have together.
    pub(crate) fn nr_frames(&self) -> usize {
        let stacks = self.stacks.iter().enumerate();
        stacks
            .map(|(class, stack)| stack.len << Class(class).order().get())
            .sum()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_front_cache_never_holds_more_than_its_share() {
        for nr_frames in [0, 1, 7, 63, 64, 65, 100, 500, 1000, 1344, 100_000] {
            let capacities = capacities(nr_frames);
            let held: usize = Class::all()
                .map(|class| capacities[class.0] << class.order().get())
                .sum();
            assert!(held <= nr_frames, "{nr_frames}: {capacities:?}");
        }
        assert_eq!(capacities(0), [0; CLASSES]);
        assert_eq!(capacities(64), [64, 0, 0, 0, 0, 0]);
        assert_eq!(capacities(100_000), [64, 32, 16, 8, 4, 8]);
    }

    #[test]
    fn classes_are_the_orders_of_pages_and_the_page_block() {
        let orders: Vec<u8> = Class::all().map(|class| class.order().get()).collect();
        assert_eq!(orders, [0, 1, 2, 3, 4, 9]);
        for class in Class::all() {
            assert_eq!(Class::of(class.order()), Some(class));
        }
        assert_eq!(Class::of(Order::MAX), None);
        assert_eq!(Order::new(5).and_then(Class::of), None);
    }
}
