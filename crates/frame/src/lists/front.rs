//! Thread caches: free blocks of one thread, so that an allocation rarely acquires a node's lock.
//!
//! A thread whose number is low enough (less than 4 times the number of processors, clamped to 16
//! to 512) has a stack of free blocks for each order of file pages (0 to 4) and for page blocks.
//! The thread uses its stacks without atomic read-modify-writes ([`PerThread`]). The last freed
//! block, most likely in the processor's caches, is on top. Other threads use the nodes directly.
//!
//! Invariants.
//! - I1: a block in a stack is of kind `Front` and of the stack's order, and has the lock bit set.
//! - I2: the caches of two threads per processor together hold at most an eighth of the pool; those
//!   of more threads may hold more. All caches are drained when memory runs out.

use pagewell_sync::asymmetric::Fences;
use pagewell_sync::per_thread::PerThread;
use pagewell_sync::scaled;

use crate::words::{FrameNr, Order};

/// Maximum length of a stack of single frames or small blocks.
const MAX_BLOCKS: usize = scaled(64, 2);

/// Maximum length of a stack of page blocks.
const MAX_PAGE_BLOCKS: usize = 8;

/// Number of stacks: orders 0 to 4 and page blocks, or in models order 0 and page blocks.
const CLASSES: usize = scaled(6, 2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class(usize);

impl Class {
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

pub(crate) type FrontCaches = PerThread<Front>;

#[derive(Debug)]
pub(crate) struct Front {
    stacks: [Stack; CLASSES],
    /// Node to which all blocks in the cache belong.
    pub(crate) home: usize,
}

/// Stack of blocks in a fixed array, so that a push is a comparison and a store.
#[derive(Debug)]
struct Stack {
    blocks: [FrameNr; MAX_BLOCKS],
    len: usize,
    capacity: usize,
}

impl Stack {
    fn blocks(&self) -> &[FrameNr] {
        &self.blocks[..self.len]
    }

    fn take_all(&mut self) -> impl Iterator<Item = FrameNr> {
        let len = std::mem::take(&mut self.len);
        self.blocks[..len].iter().copied()
    }

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

pub(crate) fn front_caches(nr_frames: usize, nr_cpus: usize) -> FrontCaches {
    let nr = scaled((4 * nr_cpus).clamp(16, 512), 2);
    // I2 assumes that usually at most twice as many threads as processors fill their caches.
    let capacities = capacities(nr_frames / 8 / (2 * nr_cpus.max(1)));
    PerThread::new(nr, Fences::new(), || Front {
        stacks: capacities.map(|capacity| Stack {
            blocks: [FrameNr::new(0); MAX_BLOCKS],
            len: 0,
            capacity,
        }),
        home: 0,
    })
}

/// Returns the maximum length of each stack, for a cache of at most `nr_frames` frames.
fn capacities(nr_frames: usize) -> [usize; CLASSES] {
    if cfg!(loom) {
        // The pools of the models have only one or two page blocks.
        return std::array::from_fn(|class| if class == 0 { MAX_BLOCKS } else { 1 });
    }
    let mut left = nr_frames;
    std::array::from_fn(|class| {
        let order = Class(class).order();
        // Single frames get their part first, then small blocks in equal parts, then page blocks.
        let share = match class {
            0 => left.min(MAX_BLOCKS),
            _ if order == Order::PAGE_BLOCK => left.min(MAX_PAGE_BLOCKS * order.frames() as usize),
            _ => (left / (CLASSES - 1 - class)).min(MAX_BLOCKS),
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

    /// Returns the number of blocks that move between a stack and a node at a time.
    pub(crate) fn batch(&self, class: Class) -> usize {
        self.stacks[class.0].capacity.div_ceil(2)
    }

    pub(crate) fn reverse_top(&mut self, class: Class, nr: usize) {
        let stack = &mut self.stacks[class.0];
        let start = stack.len.saturating_sub(nr);
        stack.blocks[start..stack.len].reverse();
    }

    /// Removes the `nr` blocks that were freed first.
    pub(crate) fn take_oldest(&mut self, class: Class, nr: usize) -> impl Iterator<Item = FrameNr> {
        let stack = &mut self.stacks[class.0];
        let nr = nr.min(stack.len);
        let (oldest, len) = (stack.blocks, stack.len);
        stack.blocks.copy_within(nr..len, 0);
        stack.len = len - nr;
        oldest.into_iter().take(nr)
    }

    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = (FrameNr, Order)> {
        self.stacks
            .iter_mut()
            .enumerate()
            .flat_map(|(class, stack)| {
                let order = Class(class).order();
                stack.take_all().map(move |frame| (frame, order))
            })
    }

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

    pub(crate) fn nr_frames(&self) -> usize {
        let stacks = self.stacks.iter().enumerate();
        stacks
            .map(|(class, stack)| stack.len << Class(class).order().get())
            .sum()
    }
}

#[cfg(test)]
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
