//! Thousands of random histories over tens of spaces, against plain bytes.
#![cfg(not(loom))]

mod common;

use std::ops::Range;

use common::model::Model;
use common::spaces;
use pagewell_frame::refcount::{CasLoop, LockBit, RefScheme};
use pagewell_space::{
    Engine, ErrorKind, ForkMode, MapOptions, NotMoved, OwnedPin, Policy, Protection, Space, Spaces,
};
use pagewell_testkit::Seed;
use pagewell_testkit::rng::Rng;

const PAGE: u64 = 4096;

/// The most spaces at a time.
const MAX_SPACES: usize = 24;

/// A space and what is to be in it.
struct Pair<S: RefScheme> {
    space: Space<S>,
    model: Model,
}

struct History<S: RefScheme> {
    spaces: Spaces<S>,
    pairs: Vec<Pair<S>>,
    pins: Vec<(OwnedPin<S>, Vec<u8>)>,
    rng: Rng,
}

impl<S: RefScheme + 'static> History<S> {
    fn new(nr_frames: usize, rng: Rng) -> Self {
        let spaces = spaces::<S>(nr_frames, 3);
        let space = spaces.space().unwrap();
        Self {
            spaces,
            pairs: vec![Pair {
                space,
                model: Model::default(),
            }],
            pins: Vec::new(),
            rng,
        }
    }

    fn run(mut self, nr_steps: usize) {
        for _ in 0..nr_steps {
            self.step();
        }
        self.check_all();
        self.pins.clear();
        while let Some(pair) = self.pairs.pop() {
            drop(pair);
            if !self.rng.one_in(4) {
                continue;
            }
            let all: Vec<_> = self.pairs.iter().map(|pair| &pair.space).collect();
            self.spaces.verify(&all).unwrap();
        }
        let stats = self.spaces.pool().stats();
        assert_eq!(stats.nr_available(), stats.nr_frames, "frames were lost");
    }

    fn check_all(&self) {
        for pair in &self.pairs {
            pair.model.check(&pair.space);
        }
        for (pin, bytes) in &self.pins {
            assert!(**pin == **bytes, "a pinned page has changed");
        }
        let all: Vec<_> = self.pairs.iter().map(|pair| &pair.space).collect();
        self.spaces.verify(&all).unwrap();
    }

    fn step(&mut self) {
        let at = self.rng.index(self.pairs.len());
        match self.rng.below(100) {
            0..=7 => self.map(at),
            8..=11 => self.unmap(at),
            12..=15 => self.protect(at),
            16..=18 => self.move_area(at),
            19..=50 => self.write(at),
            51..=66 => self.read(at),
            67..=72 => self.atomic(at),
            73..=77 => self.pin(at),
            78..=85 => self.fork(at),
            86..=90 => self.drop_space(at),
            91..=98 => self.migrate(at),
            _ => self.check_all(),
        }
    }

    /// An address, most of the time one that is mapped.
    fn addr(&mut self, at: usize) -> u64 {
        let pages = &self.pairs[at].model;
        match pages.nth_page(self.rng.below(1 << 20)) {
            Some(page) if !self.rng.one_in(20) => page * PAGE + self.rng.below(PAGE),
            _ => self.rng.below(1 << 24),
        }
    }

    /// A range of pages, most of the time one that is mapped.
    fn range(&mut self, at: usize) -> Range<u64> {
        let addr = self.addr(at);
        let area = self.pairs[at].model.area_of(addr);
        let Some((area, page_bytes)) = area.filter(|_| !self.rng.one_in(12)) else {
            let start = addr & !(PAGE - 1);
            return start..start + self.rng.below(9) * PAGE;
        };
        if self.rng.one_in(4) {
            return area;
        }
        let nr = (area.end - area.start) / page_bytes;
        let first = self.rng.below(nr);
        let len = 1 + self.rng.below((nr - first).min(8));
        area.start + first * page_bytes..area.start + (first + len) * page_bytes
    }

    fn map(&mut self, at: usize) {
        let page_bytes = match self.rng.below(8) {
            0 => 4 * PAGE,
            1 => 16 * PAGE,
            2 if self.rng.one_in(3) => 128 * PAGE,
            _ => PAGE,
        };
        let len = match self.rng.below(16) {
            // Over the border of a table.
            0 => (512 + self.rng.below(9)) * PAGE,
            _ => (1 + self.rng.below(9)) * PAGE,
        };
        let policy = match self.rng.below(4) {
            0 => Policy::Prefer(self.rng.index(3)),
            1 => Policy::Interleave,
            2 => Policy::Bind(self.rng.index(3)),
            _ => Policy::Local,
        };
        let options = MapOptions::new()
            .page_bytes(page_bytes as usize)
            .policy(policy);
        let Pair { space, model } = &mut self.pairs[at];
        let range = space.map_with(len, &options).unwrap();
        model.map(range, page_bytes);
    }

    fn unmap(&mut self, at: usize) {
        let range = self.range(at);
        let Pair { space, model } = &mut self.pairs[at];
        let result = space.unmap(range.clone());
        if model.expect_whole(&range, &result) {
            model.unmap(&range);
        }
    }

    fn protect(&mut self, at: usize) {
        let range = self.range(at);
        let protection = match self.rng.below(4) {
            0 => Protection::None,
            1 => Protection::Read,
            _ => Protection::ReadWrite,
        };
        let Pair { space, model } = &mut self.pairs[at];
        let result = space.protect(range.clone(), protection);
        if model.expect_whole(&range, &result) {
            model.protect(&range, protection);
        }
    }

    fn move_area(&mut self, at: usize) {
        let range = self.range(at);
        let Pair { space, model } = &mut self.pairs[at];
        let result = space.move_to_free(range.clone());
        let moved = result.clone();
        if model.expect_whole(&range, &result.map(drop)) {
            model.move_to(&range, moved.unwrap().start);
        }
    }

    fn write(&mut self, at: usize) {
        let addr = self.addr(at);
        let len = match self.rng.below(3) {
            0 => self.rng.below(3 * PAGE),
            1 => PAGE,
            _ => 1 + self.rng.below(64),
        };
        let fill = self.rng.next_u64();
        let bytes: Vec<u8> = (0..len).map(|i| (fill >> (i % 8 * 8)) as u8).collect();
        let Pair { space, model } = &mut self.pairs[at];
        let result = space.write(addr, &bytes);
        model.write(addr, &bytes, &result);
    }

    fn read(&mut self, at: usize) {
        let addr = self.addr(at);
        let len = match self.rng.below(3) {
            0 => self.rng.below(3 * PAGE),
            _ => 1 + self.rng.below(64),
        };
        let mut buf = vec![0xEE; len as usize];
        let Pair { space, model } = &mut self.pairs[at];
        let result = space.read(addr, &mut buf);
        model.expect_read(addr, &buf, &result);
    }

    fn atomic(&mut self, at: usize) {
        let addr = self.addr(at) & !7;
        let value = self.rng.below(1 << 40);
        let is_exchange = self.rng.one_in(2);
        let Pair { space, model } = &mut self.pairs[at];
        let mut word = [0; 8];
        let is_there = model.peek(addr, &mut word);
        let before = u64::from_ne_bytes(word);
        let (result, after) = if is_exchange {
            let current = if value & 1 == 0 { before } else { !before };
            let result = space.compare_exchange(addr, current, value);
            if let Ok(result) = &result {
                assert_eq!(result.is_ok(), value & 1 == 0);
            }
            let after = if value & 1 == 0 { value } else { before };
            (result.map(|was| was.unwrap_or_else(|was| was)), after)
        } else {
            (space.fetch_add(addr, value), before.wrapping_add(value))
        };
        if let Ok(was) = &result {
            assert!(is_there);
            assert_eq!(*was, before);
        }
        model.write(addr, &after.to_ne_bytes(), &result.map(drop));
    }

    fn pin(&mut self, at: usize) {
        let addr = self.addr(at);
        let len = 1 + self.rng.below(PAGE - addr % PAGE);
        let Pair { space, model } = &mut self.pairs[at];
        let mut bytes = vec![0; len as usize];
        let is_there = model.peek(addr, &mut bytes);
        match space.pin(addr, len as usize) {
            Ok(pin) => {
                assert!(is_there && *pin == *bytes);
                self.pins.push((pin.into_owned(), bytes));
            }
            Err(error) => assert!(!is_there || error.kind() == ErrorKind::OutOfFrames),
        }
        if self.pins.len() > 6 {
            let nr = self.rng.index(self.pins.len());
            let (pin, bytes) = self.pins.swap_remove(nr);
            assert!(*pin == *bytes, "a pinned page has changed");
        }
    }

    fn fork(&mut self, at: usize) {
        if self.pairs.len() == MAX_SPACES {
            return self.drop_space(at);
        }
        let mode = match self.rng.below(4) {
            0 => ForkMode::Copy,
            _ => ForkMode::Share,
        };
        let Pair { space, model } = &self.pairs[at];
        match space.fork_with(mode) {
            Ok(space) => {
                let model = model.clone();
                self.pairs.push(Pair { space, model });
            }
            Err(error) => {
                assert_eq!(mode, ForkMode::Copy);
                assert_eq!(error.kind(), ErrorKind::OutOfFrames);
            }
        }
    }

    fn drop_space(&mut self, at: usize) {
        if self.pairs.len() > 1 {
            drop(self.pairs.swap_remove(at));
        }
    }

    fn migrate(&mut self, at: usize) {
        let range = self.range(at);
        let node = self.rng.index(3);
        let engine = match self.rng.below(3) {
            0 => Engine::FullWalk,
            1 => Engine::EarlyStop,
            _ => Engine::Batched,
        };
        let Pair { space, model } = &mut self.pairs[at];
        let result = space.migrate_with(range.clone(), node, engine);
        model.expect_whole(&range, &result.clone().map(drop));
        for (addr, why) in result.map_or_else(|_| Vec::new(), |report| report.not_moved) {
            assert!(range.contains(&addr));
            match why {
                NotMoved::Pinned => assert!(!self.pins.is_empty()),
                why => assert_eq!(why, NotMoved::NodeFull),
            }
        }
        self.pairs[at].model.check(&self.pairs[at].space);
    }
}

fn histories<S: RefScheme + 'static>(nr: u64, nr_frames: usize, nr_steps: usize) {
    let seed = Seed::of_run();
    for part in 0..nr {
        History::<S>::new(nr_frames, seed.part(part)).run(nr_steps);
    }
}

#[test]
fn spaces_are_what_plain_bytes_are() {
    histories::<LockBit>(2000, 2048, 120);
}

#[test]
fn spaces_are_what_plain_bytes_are_when_frames_run_out() {
    histories::<LockBit>(1000, 96, 150);
}

#[test]
fn spaces_are_what_plain_bytes_are_with_the_other_count() {
    histories::<CasLoop>(200, 512, 150);
}
