//! Random histories of a pool against a naive allocator: every way to
//! allocate, split and free, and references that others hold.
//!
//! After every event the pool's own check passes, its accounts are those of the naive allocator, and what
//! came of the event is what the naive allocator says; in the end nothing is lost and everything is merged.

#![cfg(not(loom))]

mod naive;
mod step;
#[path = "../support/mod.rs"]
mod support;

use naive::{Naive, Owner};
use pagewell_frame::{
    AllocError, AllocRequest, FrameKind, FramePool, FrameRange, FrameRef, Order, Place,
    TryGetFrame, UniqueFrame,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use step::{Scene, Step, With};
use support::{frame, maximal_blocks, nr_free_blocks, order};

type Checked = Result<(), TestCaseError>;

#[test]
fn histories_agree_with_a_naive_allocator() {
    let config = Config {
        cases: 2000,
        max_shrink_iters: 20_000,
        failure_persistence: None,
        ..Config::default()
    };
    let histories = (step::scene(), step::steps());
    let result = TestRunner::new(config).run(&histories, |(scene, steps)| run(scene, &steps));
    if let Err(error) = result {
        panic!("{error}");
    }
}

fn run(scene: Scene, steps: &[Step]) -> Checked {
    let config = support::config(scene.nr_frames, scene.nr_nodes());
    let pool = FramePool::new(&config).expect("a small pool");
    let fresh = nr_free_blocks(&pool);
    let mut history = History {
        pool: &pool,
        naive: Naive::new(scene.nr_frames, scene.nr_nodes()),
        uniques: Vec::new(),
        ranges: Vec::new(),
        references: Vec::new(),
    };
    history.check_merged()?;
    for step in steps {
        history.apply(step)?;
        history.check()?;
    }
    history.give_everything_back()?;
    history.check_merged()?;
    prop_assert_eq!(history.naive.accounts().0, 0);
    prop_assert_eq!(nr_free_blocks(&pool), fresh);
    Ok(())
}

struct History<'p> {
    pool: &'p FramePool,
    naive: Naive,
    uniques: Vec<UniqueFrame<'p>>,
    ranges: Vec<FrameRange<'p>>,
    references: Vec<FrameRef<'p>>,
}

/// Removes one of them, if there are any.
fn pick<T>(from: &mut Vec<T>, which: usize) -> Option<T> {
    (!from.is_empty()).then(|| from.swap_remove(which % from.len()))
}

/// One reference to a block that was a handle's.
fn published<'p>(pool: &'p FramePool, block: UniqueFrame<'p>) -> FrameRef<'p> {
    // SAFETY: (K) nobody uses the pool for pages of files.
    let frame = unsafe { block.publish(FrameKind::Page, (0, 0), 1) };
    // SAFETY: (A) the one reference, which is this handle's.
    unsafe { FrameRef::from_raw(pool, frame) }
}

impl History<'_> {
    fn check(&self) -> Checked {
        self.pool.verify().map_err(TestCaseError::fail)?;
        let stats = self.pool.stats();
        prop_assert_eq!(
            (stats.nr_allocated, stats.nr_available()),
            self.naive.accounts(),
            "allocated, available"
        );
        Ok(())
    }

    /// Checks that what is free is in the largest blocks that it can be in.
    fn check_merged(&self) -> Checked {
        self.pool.drain_front_caches();
        self.check()?;
        prop_assert_eq!(self.pool.stats().nr_cached, 0);
        prop_assert_eq!(
            nr_free_blocks(self.pool),
            maximal_blocks(self.pool, |at| self.naive.is_free(at))
        );
        Ok(())
    }

    fn apply(&mut self, step: &Step) -> Checked {
        match *step {
            Step::Alloc(k) => self.alloc(&AllocRequest::new(order(k)), With::Alloc),
            Step::AllocBy(request) => self.alloc(&request, With::AllocBy),
            Step::AllocBulk(nr) => self.alloc_bulk(nr),
            Step::DropUnique(which) => {
                if let Some(unique) = pick(&mut self.uniques, which) {
                    self.naive.free_block(unique.frame());
                }
                Ok(())
            }
            Step::Publish(which) => {
                if let Some(unique) = pick(&mut self.uniques, which) {
                    self.naive.publish(unique.frame());
                    self.references.push(published(self.pool, unique));
                }
                Ok(())
            }
            Step::SplitUnique(which) => {
                if let Some(unique) = pick(&mut self.uniques, which) {
                    self.naive.split_block(unique.frame(), unique.order());
                    self.ranges.push(unique.split());
                }
                Ok(())
            }
            Step::CutRange(which, at) => {
                if let Some(mut range) = pick(&mut self.ranges, which) {
                    let at = at % (range.len() + 1);
                    let nr = range.len();
                    let rest = range.split_off(at);
                    prop_assert_eq!(rest.is_some(), at > 0 && at < nr);
                    self.ranges.extend(rest);
                    self.ranges.push(range);
                }
                Ok(())
            }
            Step::DropRange(which) => {
                if let Some(range) = pick(&mut self.ranges, which) {
                    self.naive.free_range(range.first().index(), range.len());
                }
                Ok(())
            }
            Step::FreeRange(which, strategy) => {
                let Some(range) = pick(&mut self.ranges, which) else {
                    return Ok(());
                };
                let expected = self.naive.free_range(range.first().index(), range.len());
                prop_assert_eq!(range.free(strategy), expected);
                Ok(())
            }
            Step::GetOfRange(which, at) => {
                let Some(nr) = self.ranges.len().checked_sub(1) else {
                    return Ok(());
                };
                let range = &self.ranges[which % (nr + 1)];
                let at = at % (range.len() + 1);
                let got = range.get(at);
                let is_got = at < range.len() && self.naive.try_get(range.first().index() + at);
                prop_assert_eq!(got.is_some(), is_got);
                self.references.extend(got);
                Ok(())
            }
            Step::Get(nr) => self.get(nr % self.pool.nr_frames()),
            Step::Put(which) => {
                if let Some(reference) = pick(&mut self.references, which) {
                    self.naive.put(reference.frame());
                }
                Ok(())
            }
            Step::Unique(which) => self.make_unique(which),
            Step::Drain => self.check_merged(),
            Step::Gather(first, k, is_joined) => {
                let order = order(k);
                let first = first % self.pool.nr_frames();
                self.gather(first - first % order.frames() as usize, order, is_joined)
            }
        }
    }

    fn alloc(&mut self, request: &AllocRequest, with: With) -> Checked {
        let AllocRequest { order, place } = *request;
        let has = self.naive.has(order, place);
        let got = match with {
            With::Alloc => self
                .pool
                .alloc(order)
                .ok_or(AllocError::Exhausted { order }),
            With::AllocBy => self.pool.alloc_by(request),
        };
        if let Place::Prefer(node) | Place::Only(node) = place
            && node >= self.naive.nr_nodes()
        {
            let nr_nodes = self.naive.nr_nodes();
            prop_assert_eq!(got.err(), Some(AllocError::NoSuchNode { node, nr_nodes }));
            return Ok(());
        }
        match got {
            Ok(block) => {
                prop_assert!(has, "{:?} is too much", block);
                prop_assert_eq!(block.order(), order);
                prop_assert!(self.naive.alloc(block.frame(), order), "{:?}", block);
                self.uniques.push(block);
            }
            Err(error) => {
                prop_assert_eq!(error, AllocError::Exhausted { order });
                prop_assert!(!has, "{} of {:?}", error, self.pool);
            }
        }
        Ok(())
    }

    fn alloc_bulk(&mut self, nr: usize) -> Checked {
        let (_, nr_free) = self.naive.accounts();
        let before = self.uniques.len();
        let got = self.pool.alloc_bulk(nr, &mut self.uniques);
        prop_assert_eq!(self.uniques.len() - before, got);
        prop_assert_eq!(got, nr.min(nr_free));
        for block in &self.uniques[before..] {
            prop_assert_eq!(block.order(), Order::ZERO);
            prop_assert!(self.naive.alloc(block.frame(), Order::ZERO), "{:?}", block);
        }
        Ok(())
    }

    fn get(&mut self, nr: usize) -> Checked {
        let is_got = self.naive.try_get(nr);
        match self.pool.try_get(frame(nr)) {
            TryGetFrame::Taken(reference) => {
                prop_assert!(is_got, "{:?}", reference);
                self.references.push(reference);
            }
            TryGetFrame::Locked => prop_assert!(!is_got, "frame {} is locked", nr),
            TryGetFrame::Saturated => prop_assert!(false, "frame {} is saturated", nr),
        }
        Ok(())
    }

    fn make_unique(&mut self, which: usize) -> Checked {
        let Some(reference) = pick(&mut self.references, which) else {
            return Ok(());
        };
        let first = reference.frame();
        let block = self.naive.block(first.index());
        match reference.try_unique() {
            Ok(unique) => {
                let block = block.filter(|block| block.owner == Owner::Nobody && block.refs == 1);
                prop_assert_eq!(block.map(|block| block.order), Some(unique.order()));
                self.naive.make_handle(first);
                self.uniques.push(unique);
            }
            Err(reference) => {
                prop_assert!(block.is_some_and(|block| block.refs > 1));
                self.references.push(reference);
            }
        }
        Ok(())
    }

    /// Takes what is free in a block, adds what handles there are of its rest, and joins it or gives it back.
    fn gather(&mut self, first: usize, order: Order, is_joined: bool) -> Checked {
        let range = first..first + order.frames() as usize;
        let may_be_block = self.naive.may_be_block(first, order);
        let is_all_free = may_be_block && range.clone().all(|at| self.naive.is_free(at));
        let mut parts = self.pool.take_free_within(frame(first), order);
        prop_assert!(may_be_block || parts.is_empty());
        prop_assert!(parts.is_sorted_by_key(UniqueFrame::frame));
        for part in &parts {
            prop_assert!(range.contains(&part.frame().index()));
            prop_assert!(self.naive.alloc(part.frame(), part.order()), "{:?}", part);
        }
        // All of what is free was taken, unless it is a part of a larger block that begins before it.
        let mut left = range.clone().filter(|at| self.naive.is_free(*at));
        if may_be_block && left.next().is_some() {
            prop_assert!(parts.is_empty() && is_all_free);
        }
        let is_within = |unique: &UniqueFrame<'_>| range.contains(&unique.frame().index());
        let (within, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.uniques)
            .into_iter()
            .partition(is_within);
        self.uniques = others;
        parts.extend(within);
        parts.sort_by_key(UniqueFrame::frame);
        let all: Vec<_> = parts
            .iter()
            .map(|part| (part.frame().index(), part.order()))
            .collect();
        let end = |at: usize, order: Order| at + order.frames() as usize;
        if !is_joined {
            self.pool.free_to_nodes(parts);
            for (at, order) in all {
                self.naive.free_frames(at..end(at, order));
            }
            return Ok(());
        }
        let is_row = all
            .windows(2)
            .all(|pair| end(pair[0].0, pair[0].1) == pair[1].0);
        let joined = self.pool.join(parts, order);
        for (at, order) in &all {
            self.naive.free_frames(*at..end(*at, *order));
        }
        let expected = match (all.first(), all.last()) {
            (Some((at, first_order)), Some((last, last_order))) => {
                let nr = end(*last, *last_order) - at;
                (is_row
                    && self.naive.may_be_block(*at, order)
                    && nr == order.max(*first_order).frames() as usize)
                    .then_some(*at)
            }
            _ => None,
        };
        prop_assert_eq!(joined.as_ref().map(|block| block.frame().index()), expected);
        if let Some(block) = joined {
            prop_assert_eq!(block.order(), order);
            self.naive.join(block.frame(), order);
            self.uniques.push(block);
        }
        Ok(())
    }

    fn give_everything_back(&mut self) -> Checked {
        let which = 0;
        while !self.references.is_empty() {
            self.apply(&Step::Put(which))?;
        }
        while !self.ranges.is_empty() {
            self.apply(&Step::DropRange(which))?;
        }
        self.check()?;
        while !self.uniques.is_empty() {
            self.apply(&Step::DropUnique(which))?;
        }
        self.check()
    }
}
