//! Removals. A node that has become sparse is merged with a neighbour under the same parent, and a page is free.
//!
//! A removal from a sparse leaf goes down once more, to the highest sparse node on the way, and merges that; then to the next, which is lower. One merge is one
//! record. What does not fit into one node stays two: nothing is moved from one to the other.
//!
//! **Order.** The left node gets the entries of the right one, and is published first; then the parent, which names it for both; then the right one, which has
//! nothing any more. So at any time who goes by the parent finds each entry. Who was sent to the right one before finds out that the parent has changed.

use std::sync::PoisonError;

use pagewell::{Token, Torn};

use super::access::Views;
use super::change::{Change, record_pages};
use super::descent::{End, Way, go_down};
use super::errands::{FindKey, FindSparse, Says};
use super::error::Error;
use super::node::{self, MAX_KEY, Was};
use super::tree::{Guards, StartOver, Tree, check_len, malformed, publish};

impl Tree {
    /// Takes an entry out; returns whether it was there. Nodes that have become sparse are merged with their neighbours.
    pub(crate) fn remove(&self, key: &[u8]) -> Result<bool, Error> {
        check_len(key.len(), MAX_KEY)?;
        let was = loop {
            let mut errand = FindKey::default();
            let way = go_down(&Views(self.data()), key, &mut errand)?;
            if let End::Leaf(Says::Missing) = way.end {
                return Ok(false);
            }
            if let Ok(Some(was)) = self.change(&way.last, Change::Remove(key))? {
                if errand.is_sparse {
                    self.merge_on_the_way(key)?;
                }
                break was;
            }
        };
        self.checkpoint_if_long()?;
        Ok(was == Was::There)
    }

    /// Merges the sparse nodes on the way to `key`.
    fn merge_on_the_way(&self, key: &[u8]) -> Result<(), Error> {
        let mut below = u16::MAX;
        loop {
            let mut errand = FindSparse::lower_than(below);
            let way = go_down(&Views(self.data()), key, &mut errand)?;
            if !matches!(way.end, End::Inner | End::Leaf(Says::Sparse)) {
                return Ok(());
            }
            let height = self
                .data()
                .view(way.last.page, |v| Ok(node::head(v)?.height))?;
            // If others are at it, they will see to it.
            if self.merge(&way, key)?.is_err() || height == 0 {
                return Ok(());
            }
            below = height;
        }
    }

    /// Merges the last node of a way with a neighbour, if they fit into one; or the root with its only child.
    fn merge(&self, way: &Way<Token, Says>, key: &[u8]) -> Result<Result<(), StartOver>, Error> {
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let mut guards = Guards(Vec::with_capacity(3));
        let parent = way.above.as_ref().unwrap_or(&way.last);
        match self.lock(parent)? {
            Ok(guard) => guards.0.push((parent.page, guard)),
            Err(start_over) => return Ok(Err(start_over)),
        }
        let page = parent.page;
        let bad = |Torn| malformed(page);
        if way.above.is_none() {
            // It names its child, and is locked, so nobody else changes what the child is.
            let child = node::child(&guards.0[0].1[..], 0).map_err(bad)?;
            guards.0.push((child, self.data().pin_mut(child)?));
            return self.finish(guards, [0, 1], |pages| {
                let [root, child] = pages else {
                    return Err(Torn);
                };
                let lsn = node::lsn(&root[..])?;
                root.copy_from_slice(child);
                node::set_lsn(root, lsn)?;
                node::make_free(child)
            });
        }
        let nr = node::number_of(&guards.0[0].1[..], key).map_err(bad)?;
        // With the next one; or else with the one before.
        for left_nr in [Some(nr), nr.checked_sub(1)].into_iter().flatten() {
            let both = node::neighbours(&guards.0[0].1[..], left_nr).map_err(bad)?;
            let Some((left, right)) = both else {
                continue;
            };
            for page in [left, right] {
                // The parent is locked, so they stay its children. What is in them is what they have from now on.
                guards.0.push((page, self.data().pin_mut(page)?));
            }
            if node::fit_together(&guards.0[1].1[..], &guards.0[2].1[..]).map_err(bad)? {
                return self.finish(guards, [1, 0, 2], |pages| {
                    let [parent, left, right] = pages else {
                        return Err(Torn);
                    };
                    let separator = node::key_of(&parent[..], left_nr + 1)?;
                    node::merge(left, right, &separator)?;
                    node::remove(parent, &separator)?;
                    node::make_free(right)
                });
            }
            for (_, guard) in guards.0.drain(1..) {
                guard.cancel();
            }
        }
        Ok(Ok(()))
    }

    /// Changes locked pages, of which the last one is free then; records that, and publishes them in this order.
    fn finish<const N: usize>(
        &self,
        mut guards: Guards<'_>,
        order: [usize; N],
        change: impl FnOnce(&mut [&mut [u8]]) -> Result<(), Torn>,
    ) -> Result<Result<(), StartOver>, Error> {
        let (first, last) = (guards.0[0].0, guards.0[guards.0.len() - 1].0);
        for (page, guard) in &guards.0 {
            self.keep(*page, guard)?;
        }
        let mut pages: Vec<&mut [u8]> = guards
            .0
            .iter_mut()
            .map(|(_, guard)| &mut guard[..])
            .collect();
        change(&mut pages).map_err(|Torn| malformed(first))?;
        let recorded: Vec<_> = guards
            .0
            .iter()
            .map(|(page, guard)| (*page, &guard[..]))
            .collect();
        let lsn = record_pages(&self.log, &recorded)?;
        publish(guards, lsn, order);
        self.free_pages().push(last);
        Ok(Ok(()))
    }
}
