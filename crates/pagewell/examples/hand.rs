//! How long the hand of the eviction works: `cargo run --release -p pagewell --example hand [GIB]`.
//!
//! First a cache of so many GiB (16): `Cache::reclaim` of a batch, which is what a miss does that finds nothing free. Its pages are never
//! written, so it takes memory for records and slots alone. Then the policy alone, with as many frames as 64 GiB have, and a record and a
//! slot for each, as the cache has them: marks are looked at and taken there. That takes 2 GiB.
//!
//! Cases. *hot*: every page was used since it was looked at last, when it begins. *hot again*: every page is found used whenever it is
//! looked at, which no program can do better: each run makes all the looks that it may, and evicts what is in use. *at random*: pages
//! are asked for at random out of four times as many as there are frames.
//!
//! Each run of the hand is timed in several repetitions of the same requests, and the fastest time counts: the runs are the same each
//! time, so what is longer was the machine's doing. A line says for how many runs, the mean for a page that was evicted, and how long a run took at
//! the 99.9th percentile, and at the most.

use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

use pagewell::io::{Backend, FileId};
use pagewell::{Cache, File};
use pagewell_policy::{Content, Ghost, Group, Notes, Pages, Policy, Quota, Scope, Stays};
use pagewell_sync::bytes::RacyBytes;
use pagewell_sync::prefetch::prefetch;

/// How often everything is done.
const TURNS: usize = if cfg!(test) { 1 } else { 3 };

/// Frames of the policy alone: 64 GiB of them.
const NR_FRAMES: usize = if cfg!(test) { 1 << 14 } else { 1 << 24 };

/// Runs that are timed.
const RUNS: usize = if cfg!(test) { 50 } else { 20_000 };

/// GiB of the cache, unless told.
const GIB: f64 = if cfg!(test) { 0.0625 } else { 16.0 };

/// A run evicts so many, as in a cache of this size.
const BATCH: usize = 32;

/// What a frame costs of a cache's capacity: its bytes, its record, and what the policy knows of it.
const FRAME_COST: u64 = 4096 + 64 + 12;

const PAGE: u64 = 4096;

type Failure = Box<dyn std::error::Error>;

/// The times of the runs, each the fastest of all turns.
#[derive(Default)]
struct Times {
    runs: Vec<Duration>,
    nr_evicted: usize,
}

impl Times {
    /// Times one turn after the other; `turn` makes ready, and gives what is then done for each run: it returns how many were evicted, and
    /// the time that it took.
    fn of<T: FnMut() -> Result<(usize, Duration), Failure>>(
        nr_runs: usize,
        mut turn: impl FnMut() -> Result<T, Failure>,
    ) -> Result<Self, Failure> {
        let mut times = Self::default();
        times.runs.resize(nr_runs, Duration::MAX);
        for _ in 0..TURNS {
            let mut run = turn()?;
            times.nr_evicted = 0;
            for fastest in &mut times.runs {
                let (nr, time) = run()?;
                *fastest = time.min(*fastest);
                times.nr_evicted += nr;
            }
        }
        Ok(times)
    }

    fn print(mut self, what: &str) {
        let all: Duration = self.runs.iter().sum();
        self.runs.sort_unstable();
        let at = |part: f64| self.runs[((self.runs.len() - 1) as f64 * part) as usize];
        println!(
            "{what:<44} {:>7} runs  {:>6.0} ns a page  99.9 %: {:>7.1} µs  longest: {:>7.1} µs",
            self.runs.len(),
            all.as_secs_f64() * 1e9 / self.nr_evicted.max(1) as f64,
            at(0.999).as_secs_f64() * 1e6,
            at(1.0).as_secs_f64() * 1e6,
        );
    }
}

/// What the pages are when the hand comes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marks {
    /// As they were left.
    AsTheyAre,
    /// Used, all of them.
    On,
}

/// The record of a frame: a line of its own.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Record {
    /// The slot of its page; none if it has no page.
    slot: Option<u32>,
}

const MARK: u64 = 1;
const PRESENT: u64 = 2;

/// Pages that do not exist, in frames that do not either.
struct Frames {
    records: Vec<Record>,
    /// A mark, and the frame or the ghost.
    slots: Vec<u64>,
    marks: Marks,
    free: Vec<u32>,
}

impl Frames {
    fn new(nr_frames: usize, nr_slots: usize, marks: Marks) -> Self {
        Self {
            records: vec![Record::default(); nr_frames],
            slots: vec![0; nr_slots],
            marks,
            free: (0..nr_frames as u32).rev().collect(),
        }
    }

    /// Asks for a page. False if there is no frame for it.
    fn request(&mut self, page: usize, notes: &Notes) -> bool {
        if self.slots[page] & PRESENT != 0 {
            self.slots[page] |= MARK;
            return true;
        }
        let Some(frame) = self.free.pop() else {
            return false;
        };
        let ghost =
            (self.slots[page] != 0).then(|| Ghost::from_bits((self.slots[page] >> 2) as u32));
        self.records[frame as usize].slot = Some(page as u32);
        self.slots[page] = u64::from(frame) << 2 | PRESENT;
        notes.arrived(frame, ghost);
        true
    }
}

impl Pages for Frames {
    /// There are no groups.
    fn quota(&mut self, _group: Group) -> Quota {
        Quota {
            nr_frames: 0,
            nr_spare: u64::MAX,
            is_growing: false,
        }
    }

    fn content(&mut self, frame: u32) -> Content {
        match self.records[frame as usize].slot {
            Some(_) => Content::Page(1, Group::NONE),
            None => Content::Nothing,
        }
    }

    fn take_mark(&mut self, frame: u32) -> bool {
        let Some(slot) = self.records[frame as usize].slot else {
            return false;
        };
        let word = &mut self.slots[slot as usize];
        let is_marked = *word & MARK != 0;
        *word &= !MARK;
        is_marked || self.marks == Marks::On
    }

    fn evict(&mut self, frame: u32, ghost: Ghost) -> Result<(), Stays> {
        if let Some(slot) = self.records[frame as usize].slot.take() {
            self.slots[slot as usize] = u64::from(ghost.bits()) << 2;
        }
        self.free.push(frame);
        Ok(())
    }

    fn prefetch(&mut self, frame: u32, level: u8) {
        let record = &self.records[frame as usize];
        match (level, record.slot) {
            (0, _) => prefetch(record),
            // In between is the leaf's record, of which there are few.
            (2, Some(slot)) => prefetch(&raw const self.slots[slot as usize]),
            _ => {}
        }
    }
}

/// Numbers that look random: neighbours are far apart, and each comes once in `1 << bits`.
fn scattered(nr: usize, bits: u32) -> usize {
    nr.wrapping_mul(0x9E37_79B1) & ((1 << bits) - 1)
}

/// A number below `1 << bits`: Knuth's generator, whose high bits are good.
fn at_random(state: &mut u64, bits: u32) -> usize {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> (64 - bits)) as usize
}

/// How many runs there are while marks last that were all set: a run looks at 16 pages for each that it is to evict, and some more.
fn runs_with_marks(nr_frames: usize) -> usize {
    (nr_frames / 20 / BATCH).min(RUNS)
}

/// The policy alone.
fn policy(marks: Marks, is_random: bool, what: &str) -> Result<(), Failure> {
    let bits = NR_FRAMES.ilog2() + 2;
    let nr_runs = match marks {
        Marks::AsTheyAre if !is_random => runs_with_marks(NR_FRAMES),
        _ => RUNS,
    };
    let times = Times::of(nr_runs, || {
        let mut policy = Policy::new(NR_FRAMES);
        let notes = Notes::new(NR_FRAMES);
        let mut frames = Frames::new(NR_FRAMES, 1 << bits, marks);
        let mut next = 0;
        // Every page is used twice; and at random until every frame has been used again.
        while !frames.free.is_empty() {
            for _ in 0..2 {
                frames.request(scattered(next, bits), &notes);
            }
            next += 1;
        }
        let mut rng = 1_u64;
        let mut page = move || {
            if !is_random {
                next += 1;
                return scattered(next, bits);
            }
            at_random(&mut rng, bits)
        };
        if is_random {
            for _ in 0..NR_FRAMES {
                let page = page();
                if !frames.request(page, &notes) {
                    policy.evict(BATCH, Scope::All, &notes, &mut frames);
                    frames.request(page, &notes);
                }
            }
        }
        Ok(move || {
            let mut missed = page();
            while frames.request(missed, &notes) {
                missed = page();
            }
            let began = Instant::now();
            let nr = policy.evict(BATCH, Scope::All, &notes, &mut frames);
            let time = began.elapsed();
            frames.request(missed, &notes);
            Ok((nr, time))
        })
    })?;
    times.print(&format!("{what}, policy alone, {NR_FRAMES} frames"));
    Ok(())
}

/// A file of zeros, which are there already: frames that were never written to have no others.
#[derive(Debug)]
struct Zeros(u64);

impl Backend for Zeros {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        let len: usize = bufs.iter().map(|buf| buf.len()).sum();
        let rest = usize::try_from(self.0.saturating_sub(pos)).unwrap_or(usize::MAX);
        Ok(len.min(rest))
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0)
    }

    fn id(&self) -> FileId {
        FileId {
            device: u64::MAX - 1,
            inode: 1,
        }
    }
}

/// Asks for a byte of a page, which is marked by that if it is there.
fn read(file: &File, page: usize) -> Result<(), Failure> {
    file.read_at(black_box(&mut [0]), page as u64 * PAGE)?;
    Ok(())
}

/// A cache with everything in it.
fn whole(nr_frames: u64, is_random: bool, what: &str) -> Result<(), Failure> {
    let bits = (4 * nr_frames).ilog2();
    let nr_runs = match is_random {
        true => RUNS,
        false => runs_with_marks(nr_frames as usize),
    };
    let mut nr_in_all = 0;
    let times = Times::of(nr_runs, || {
        let cache = Cache::builder().capacity(nr_frames * FRAME_COST).build()?;
        nr_in_all = cache.stats().nr_frames;
        let file = cache.open_backend(Zeros(PAGE << bits), "zeros")?;
        let mut next = 0;
        while cache.stats().nr_evictions == 0 {
            // The second read sets the mark.
            for _ in 0..2 {
                read(&file, scattered(next, bits))?;
            }
            next += 1;
        }
        let mut rng = 1_u64;
        let mut page = move || {
            if !is_random {
                next += 1;
                return scattered(next, bits);
            }
            at_random(&mut rng, bits)
        };
        if is_random {
            for _ in 0..nr_frames {
                read(&file, page())?;
            }
        }
        Ok(move || {
            let began = Instant::now();
            let nr = cache.reclaim(BATCH);
            let time = began.elapsed();
            let before = cache.stats().nr_fills;
            while cache.stats().nr_fills < before + nr as u64 {
                read(&file, page())?;
            }
            Ok((nr, time))
        })
    })?;
    times.print(&format!("{what}, {nr_in_all} frames"));
    Ok(())
}

fn main() -> Result<(), Failure> {
    let gib = match std::env::args().nth(1) {
        Some(gib) if !cfg!(test) => gib.parse()?,
        _ => GIB,
    };
    let nr_frames = (gib * f64::from(1 << 18)) as u64;
    whole(nr_frames, false, "hot")?;
    whole(nr_frames, true, "at random")?;
    policy(Marks::AsTheyAre, false, "hot")?;
    policy(Marks::On, false, "hot again")?;
    policy(Marks::AsTheyAre, true, "at random")
}

#[test]
fn runs_are_timed() {
    main().unwrap();
}
