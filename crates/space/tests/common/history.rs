//! Histories of spaces, against plain bytes: maps, unmaps, protections, moves, writes, reads, atomics, pins, forks,
//! migrations. What is done is decided by [`Choices`].

use std::ops::Range;

use pagewell_space::{
    Engine, ErrorKind, ForkMode, MapOptions, NotMoved, OwnedPin, Policy, Protection, Space, Spaces,
};
use pagewell_testkit::rng::Rng;

use super::model::Model;

const PAGE: u64 = 4096;

/// The most spaces at a time.
const MAX_SPACES: usize = 24;

/// What decides: random numbers, or the bytes of a fuzzer.
pub trait Choices {
    /// Any number.
    fn next_u64(&mut self) -> u64;

    /// A number less than `n`, which is not 0.
    fn below(&mut self, n: u64) -> u64;

    /// Whether there is nothing left to decide by.
    fn is_over(&self) -> bool;

    /// A position less than `n`, which is not 0.
    fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// One of `n` outcomes.
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

impl Choices for Rng {
    fn next_u64(&mut self) -> u64 {
        Self::next_u64(self)
    }

    fn below(&mut self, n: u64) -> u64 {
        Self::below(self, n)
    }

    fn is_over(&self) -> bool {
        false
    }
}

/// A space and what is to be in it.
struct Pair {
    space: Space,
    model: Model,
}

/// Spaces, what is to be in them, and what decides what is done next.
pub struct History<C> {
    spaces: Spaces,
    pairs: Vec<Pair>,
    pins: Vec<(OwnedPin, Vec<u8>)>,
    choices: C,
}

impl<C: Choices> History<C> {
    /// One empty space, in `nr_frames` frames on three nodes.
    pub fn new(nr_frames: usize, choices: C) -> Self {
        let spaces = super::spaces(nr_frames, 3);
        let space = spaces.space().unwrap();
        Self {
            spaces,
            pairs: vec![Pair {
                space,
                model: Model::default(),
            }],
            pins: Vec::new(),
            choices,
        }
    }

    /// Does up to `nr_steps` steps, and then gives everything back.
    pub fn run(mut self, nr_steps: usize) {
        for _ in 0..nr_steps {
            if self.choices.is_over() {
                break;
            }
            self.step();
        }
        self.check_all();
        self.pins.clear();
        while let Some(pair) = self.pairs.pop() {
            drop(pair);
            if !self.choices.one_in(4) {
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
        let at = self.choices.index(self.pairs.len());
        match self.choices.below(100) {
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
        match pages.nth_page(self.choices.below(1 << 20)) {
            Some(page) if !self.choices.one_in(20) => page * PAGE + self.choices.below(PAGE),
            _ => self.choices.below(1 << 24),
        }
    }

    /// A range of pages, most of the time one that is mapped.
    fn range(&mut self, at: usize) -> Range<u64> {
        let addr = self.addr(at);
        let area = self.pairs[at].model.area_of(addr);
        let Some((area, page_bytes)) = area.filter(|_| !self.choices.one_in(12)) else {
            let start = addr & !(PAGE - 1);
            return start..start + self.choices.below(9) * PAGE;
        };
        if self.choices.one_in(4) {
            return area;
        }
        let nr = (area.end - area.start) / page_bytes;
        let first = self.choices.below(nr);
        let len = 1 + self.choices.below((nr - first).min(8));
        area.start + first * page_bytes..area.start + (first + len) * page_bytes
    }

    fn map(&mut self, at: usize) {
        let page_bytes = match self.choices.below(8) {
            0 => 4 * PAGE,
            1 => 16 * PAGE,
            2 if self.choices.one_in(3) => 128 * PAGE,
            _ => PAGE,
        };
        let len = match self.choices.below(16) {
            // Over the border of a table.
            0 => (512 + self.choices.below(9)) * PAGE,
            _ => (1 + self.choices.below(9)) * PAGE,
        };
        let policy = match self.choices.below(4) {
            0 => Policy::Prefer(self.choices.index(3)),
            1 => Policy::Interleave,
            2 => Policy::Bind(self.choices.index(3)),
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
        let protection = match self.choices.below(4) {
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
        let len = match self.choices.below(3) {
            0 => self.choices.below(3 * PAGE),
            1 => PAGE,
            _ => 1 + self.choices.below(64),
        };
        let fill = self.choices.next_u64();
        let bytes: Vec<u8> = (0..len).map(|i| (fill >> (i % 8 * 8)) as u8).collect();
        let Pair { space, model } = &mut self.pairs[at];
        let result = space.write(addr, &bytes);
        model.write(addr, &bytes, &result);
    }

    fn read(&mut self, at: usize) {
        let addr = self.addr(at);
        let len = match self.choices.below(3) {
            0 => self.choices.below(3 * PAGE),
            _ => 1 + self.choices.below(64),
        };
        let mut buf = vec![0xEE; len as usize];
        let Pair { space, model } = &mut self.pairs[at];
        let result = space.read(addr, &mut buf);
        model.expect_read(addr, &buf, &result);
    }

    fn atomic(&mut self, at: usize) {
        let addr = self.addr(at) & !7;
        let value = self.choices.below(1 << 40);
        let is_exchange = self.choices.one_in(2);
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
        let len = 1 + self.choices.below(PAGE - addr % PAGE);
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
            let nr = self.choices.index(self.pins.len());
            let (pin, bytes) = self.pins.swap_remove(nr);
            assert!(*pin == *bytes, "a pinned page has changed");
        }
    }

    fn fork(&mut self, at: usize) {
        if self.pairs.len() == MAX_SPACES {
            return self.drop_space(at);
        }
        let mode = match self.choices.below(4) {
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
        let node = self.choices.index(3);
        let engine = match self.choices.below(3) {
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
