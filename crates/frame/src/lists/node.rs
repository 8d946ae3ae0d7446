//! Nodes of a pool: parts of its memory, each with a buddy allocator that a lock guards.

use pagewell_sync::Mutex;

use super::buddy::Buddy;
use crate::memory::numa;

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) first: u32,
    pub(crate) end: u32,
    /// Preferred NUMA node of the machine. `None` if the pool has one node or is not placed.
    pub(crate) numa: Option<u32>,
    /// `true` if the system has accepted the placement on that NUMA node.
    pub(crate) is_bound: bool,
    /// All nodes: this one first, then the others from the nearest to the farthest.
    pub(crate) fallback: Box<[usize]>,
    pub(crate) buddy: Mutex<Buddy>,
}

/// Returns all nodes, from `from` to the farthest one. `numa` has the NUMA node of each.
pub(super) fn fallback_order(from: usize, numa: &[Option<u32>]) -> Box<[usize]> {
    let distances = numa[from].and_then(numa::distances).unwrap_or_default();
    let distance_to = |node: u32| {
        let known = distances.iter().find(|(other, _)| *other == node);
        known.map(|(_, distance)| *distance)
    };
    let nr = numa.len();
    let mut order: Vec<usize> = (0..nr).collect();
    order.sort_by_key(|&to| {
        let distance = numa[to].and_then(distance_to);
        // At equal distances start after `from`, so that not all nodes fall back to the same one.
        (to != from, distance.unwrap_or(0), (to + nr - from) % nr)
    });
    order.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_fall_back_to_the_next_ones_where_no_distances_are_known() {
        let unbound = [None; 3];
        assert_eq!(*fallback_order(0, &unbound), [0, 1, 2]);
        assert_eq!(*fallback_order(1, &unbound), [1, 2, 0]);
        assert_eq!(*fallback_order(2, &unbound), [2, 0, 1]);
    }
}
