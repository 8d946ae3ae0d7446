//! Interval tree: finds the values whose intervals overlap a given one. It is single-threaded.
//!
//! The tree is a treap: a search tree by (start, id), in which random priorities decrease from the
//! root, so that its shape does not depend on the order of insertions. Each node stores the
//! greatest end in its subtree, so a search skips subtrees that end too early. Insertion, removal
//! and the step to the next match take O(log n) on average. Ids ascend, so among equal starts areas
//! of forks come after those of their parents.
//!
//! Sources: Seidel and Aragon, "Randomized Search Trees", Algorithmica 16 (1996); Cormen et al.,
//! "Introduction to Algorithms", 4th edition, chapter 17, for the augmentation.

use std::ops::ControlFlow;

const NIL: u32 = u32::MAX;

struct Node<V> {
    start: u64,
    end: u64,
    id: u64,
    last: u64,
    priority: u64,
    left: u32,
    right: u32,
    value: V,
}

/// Map from half-open intervals to values. Each (start, id) is unique.
pub(crate) struct IntervalTree<V> {
    nodes: Vec<Option<Node<V>>>,
    free: Vec<u32>,
    root: u32,
    random: u64,
}

impl<V> IntervalTree<V> {
    pub(crate) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            free: Vec::new(),
            root: NIL,
            random: 0x9E37_79B9_7F4A_7C15,
        }
    }

    pub(crate) fn insert(&mut self, start: u64, end: u64, id: u64, value: V) {
        debug_assert!(start < end);
        let node = Node {
            start,
            end,
            id,
            last: end,
            priority: self.next_random(),
            left: NIL,
            right: NIL,
            value,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = Some(node);
                at
            }
            None => {
                self.nodes.push(Some(node));
                (self.nodes.len() - 1) as u32
            }
        };
        let (left, right) = self.split(self.root, (start, id));
        let left = self.merge(left, at);
        self.root = self.merge(left, right);
    }

    pub(crate) fn remove(&mut self, start: u64, id: u64) -> Option<V> {
        let (left, rest) = self.split(self.root, (start, id));
        let (found, right) = self.split(rest, (start, id + 1));
        self.root = self.merge(left, right);
        let node = self.nodes.get_mut(found as usize)?.take()?;
        self.free.push(found);
        Some(node.value)
    }

    /// Calls `visit` with all overlapping values, in ascending order of (start, id), until `Break`.
    pub(crate) fn overlapping<B>(
        &self,
        start: u64,
        end: u64,
        mut visit: impl FnMut(&V) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.visit(self.root, start, end, &mut visit)
    }

    fn visit<B>(
        &self,
        at: u32,
        start: u64,
        end: u64,
        visit: &mut impl FnMut(&V) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let Some(node) = self.node(at) else {
            return ControlFlow::Continue(());
        };
        if node.last <= start {
            return ControlFlow::Continue(());
        }
        self.visit(node.left, start, end, visit)?;
        if node.start >= end {
            return ControlFlow::Continue(());
        }
        if node.end > start {
            visit(&node.value)?;
        }
        self.visit(node.right, start, end, visit)
    }

    fn node(&self, at: u32) -> Option<&Node<V>> {
        self.nodes.get(at as usize)?.as_ref()
    }

    fn node_mut(&mut self, at: u32) -> Option<&mut Node<V>> {
        self.nodes.get_mut(at as usize)?.as_mut()
    }

    fn last(&self, at: u32) -> u64 {
        self.node(at).map_or(0, |node| node.last)
    }

    fn update(&mut self, at: u32) {
        let Some(node) = self.node(at) else {
            return;
        };
        let last = node
            .end
            .max(self.last(node.left))
            .max(self.last(node.right));
        if let Some(node) = self.node_mut(at) {
            node.last = last;
        }
    }

    fn split(&mut self, at: u32, key: (u64, u64)) -> (u32, u32) {
        let Some(node) = self.node(at) else {
            return (NIL, NIL);
        };
        if (node.start, node.id) < key {
            let (before, after) = self.split(node.right, key);
            if let Some(node) = self.node_mut(at) {
                node.right = before;
            }
            self.update(at);
            (at, after)
        } else {
            let (before, after) = self.split(node.left, key);
            if let Some(node) = self.node_mut(at) {
                node.left = after;
            }
            self.update(at);
            (before, at)
        }
    }

    /// Merges two subtrees. All nodes of `left` must be before all nodes of `right`.
    fn merge(&mut self, left: u32, right: u32) -> u32 {
        let (of_left, of_right) = match (self.node(left), self.node(right)) {
            (None, _) => return right,
            (_, None) => return left,
            (Some(of_left), Some(of_right)) => (of_left, of_right),
        };
        if of_left.priority > of_right.priority {
            let merged = self.merge(of_left.right, right);
            if let Some(node) = self.node_mut(left) {
                node.right = merged;
            }
            self.update(left);
            left
        } else {
            let merged = self.merge(left, of_right.left);
            if let Some(node) = self.node_mut(right) {
                node.left = merged;
            }
            self.update(right);
            right
        }
    }

    /// xorshift64*: priorities only have to be unrelated to the order of the intervals.
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(tree: &IntervalTree<u64>, start: u64, end: u64) -> Vec<u64> {
        let mut ids = Vec::new();
        let _: ControlFlow<()> = tree.overlapping(start, end, |id| {
            ids.push(*id);
            ControlFlow::Continue(())
        });
        ids
    }

    proptest! {
        #[test]
        fn it_finds_what_a_list_finds(
            steps in prop::collection::vec((0..60_u64, 1..20_u64, 0..3_u8), 0..200),
        ) {
            let mut tree = IntervalTree::new();
            let mut list: Vec<(u64, u64, u64)> = Vec::new();
            for (id, (start, len, what)) in (0_u64..).zip(steps) {
                if what == 0 && !list.is_empty() {
                    let (start, id, _) = list.remove(start as usize % list.len());
                    prop_assert_eq!(tree.remove(start, id), Some(id));
                    prop_assert_eq!(tree.remove(start, id), None);
                } else {
                    tree.insert(start, start + len, id, id);
                    list.push((start, id, start + len));
                }
                list.sort_unstable();
                prop_assert_eq!(tree.nodes.len() - tree.free.len(), list.len());
                let (from, to) = (start, start + 3);
                let expected: Vec<u64> = list
                    .iter()
                    .filter(|(start, _, end)| *start < to && *end > from)
                    .map(|(_, id, _)| *id)
                    .collect();
                prop_assert_eq!(found(&tree, from, to), expected);
            }
        }
    }

    #[test]
    fn the_newest_of_equal_starts_is_last_and_a_visit_can_end() {
        let mut tree = IntervalTree::new();
        for id in 0..1000 {
            tree.insert(5, 10, id, id);
        }
        assert_eq!(found(&tree, 9, 10), (0..1000).collect::<Vec<_>>());
        assert_eq!(found(&tree, 10, 11), []);
        let mut nr = 0;
        let ended = tree.overlapping(5, 6, |id| {
            nr += 1;
            if *id == 3 {
                ControlFlow::Break(*id)
            } else {
                ControlFlow::Continue(())
            }
        });
        assert_eq!((ended, nr), (ControlFlow::Break(3), 4));
    }

    #[test]
    fn a_tree_of_sorted_insertions_stays_shallow() {
        let mut tree = IntervalTree::new();
        for id in 0..10_000 {
            tree.insert(id, id + 1, id, id);
        }
        fn depth(tree: &IntervalTree<u64>, at: u32) -> usize {
            tree.node(at).map_or(0, |node| {
                1 + depth(tree, node.left).max(depth(tree, node.right))
            })
        }
        assert!(depth(&tree, tree.root) < 60, "{}", depth(&tree, tree.root));
    }
}
