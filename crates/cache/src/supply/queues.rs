//! Queues of the default policy ([`pagewell_policy`]), and leaves without pages. Such a leaf keeps
//! the ghosts of its pages, and uses a frame, so only the latest ones stay.

use std::collections::{HashSet, VecDeque};

use pagewell_policy::Policy;

/// Ratio of the pool's frames to the maximum number of leaves without pages.
const SHARE_OF_EMPTY: usize = 64;

/// Order in which pages are evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Eviction {
    /// Probation queue, protected queue, and ghosts ([`pagewell_policy`]).
    #[default]
    Queues,
    /// CLOCK. Models and many unit tests use it: it shares less state, all of it in loom's atomics.
    #[cfg_attr(not(test), allow(dead_code))]
    Clock,
}

#[derive(Debug)]
pub(crate) struct Queues {
    pub(crate) policy: Policy,
    pub(crate) empty_leaves: EmptyLeaves,
}

impl Queues {
    /// Upper bound of the bytes that the policy uses per frame, in pools of at least 8192 frames.
    pub(crate) const FRAME_COST: usize = 12;

    pub(crate) fn new(nr_frames: usize) -> Self {
        Self {
            policy: Policy::new(nr_frames),
            empty_leaves: EmptyLeaves {
                queue: VecDeque::new(),
                noted: HashSet::new(),
                most: (nr_frames / SHARE_OF_EMPTY).max(1),
            },
        }
    }
}

/// Leaves without pages, in the order of their recording. A leaf may be in use again, or removed.
#[derive(Debug)]
pub(crate) struct EmptyLeaves {
    queue: VecDeque<u32>,
    noted: HashSet<u32>,
    most: usize,
}

impl EmptyLeaves {
    pub(crate) fn note(&mut self, leaf: u32) {
        if self.noted.insert(leaf) {
            self.queue.push_back(leaf);
        }
    }

    /// Removes the leaf that was recorded first, if the number of leaves exceeds the limit.
    pub(crate) fn surplus(&mut self) -> Option<u32> {
        if self.queue.len() <= self.most {
            return None;
        }
        let leaf = self.queue.pop_front()?;
        self.noted.remove(&leaf);
        Some(leaf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_leaves_without_pages_stay_the_last_ones() {
        let mut leaves = Queues::new(256).empty_leaves;
        for leaf in [0, 1, 2, 1, 3, 4, 4, 5, 6] {
            leaves.note(leaf);
        }
        let mut surplus = || std::iter::from_fn(|| leaves.surplus()).collect::<Vec<_>>();
        assert_eq!(surplus(), [0, 1, 2]);
        leaves.note(0);
        let mut surplus = || std::iter::from_fn(|| leaves.surplus()).collect::<Vec<_>>();
        assert_eq!(surplus(), [3]);
    }

    #[test]
    fn what_is_charged_for_a_frame_covers_what_the_queues_take() {
        for nr_frames in [1 << 13, 1 << 16, 1 << 24] {
            let of_leaves = nr_frames / SHARE_OF_EMPTY * 24;
            let all = Policy::bytes(nr_frames) + of_leaves;
            assert!(all <= nr_frames * Queues::FRAME_COST, "{nr_frames}: {all}");
        }
    }
}
