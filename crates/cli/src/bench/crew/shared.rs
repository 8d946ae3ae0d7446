//! Memory that worker processes share: the gate, the counts, the schedule, and
//! what each worker has done.
//!
//! # Layout
//!
//! A [`Header`], then for each worker one [`TallyWords`] a step. Everything is
//! atomic and every bit pattern is valid, so that no process can make another
//! one unsound, whatever it writes.

#![allow(unsafe_code)]

use std::fs::File;
use std::mem::size_of;
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use super::gate::Gate;
use super::lane::Tally;
use super::schedule::Schedule;
use crate::failure::Failure;

/// How many counts there are: one for each engine.
pub(super) const NR_COUNTS: usize = 4;

/// "pagewell", to recognise the memory.
const MAGIC: u64 = u64::from_le_bytes(*b"pagewell");

/// A value on cache lines of its own; processors fetch lines in pairs.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(in crate::bench) struct Padded<T>(pub(in crate::bench) T);

#[repr(C)]
struct Header {
    gate: Gate,
    counts: [Padded<AtomicU32>; NR_COUNTS],
    /// Steps that the first worker has done, for the progress bar.
    nr_done: Padded<AtomicU32>,
    // From here on written once, before the workers start.
    magic: AtomicU64,
    crew: AtomicU32,
    lanes: AtomicU32,
    rounds: AtomicU32,
    warm_ns: AtomicU64,
    slice_ns: AtomicU64,
}

/// One worker's tally of one step.
#[repr(C)]
struct TallyWords {
    ops: AtomicU64,
    ns: AtomicU64,
}

/// The shared memory, as mapped into this process.
pub(super) struct Shared {
    map: MmapRaw,
    crew: u32,
    schedule: Schedule,
}

impl Shared {
    /// Gives `file`, which is empty, the size that it needs, and writes what the
    /// workers have to know.
    pub(super) fn create(file: &File, crew: u32, schedule: &Schedule) -> Result<Shared, Failure> {
        let bytes = bytes_for(crew, schedule);
        file.set_len(bytes as u64)
            .map_err(|error| Failure::because("cannot size the memory to share", error))?;
        let shared = Shared {
            map: map(file, bytes)?,
            crew,
            schedule: *schedule,
        };
        let header = shared.header();
        // ORDERING: Relaxed, all; the workers start later, which orders.
        header.crew.store(crew, Ordering::Relaxed);
        header.lanes.store(schedule.lanes, Ordering::Relaxed);
        header.rounds.store(schedule.rounds, Ordering::Relaxed);
        header.warm_ns.store(schedule.warm_ns, Ordering::Relaxed);
        header.slice_ns.store(schedule.slice_ns, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Relaxed);
        Ok(shared)
    }

    /// Maps the memory that another process has made.
    pub(super) fn open(file: &File) -> Result<Shared, Failure> {
        let strange = || Failure::Run("standard input is no memory of a benchmark".to_owned());
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        if bytes < size_of::<Header>() as u64 {
            return Err(strange());
        }
        let bytes = usize::try_from(bytes).map_err(|_| strange())?;
        let map = map(file, bytes)?;
        let empty = Schedule {
            lanes: 0,
            rounds: 0,
            warm_ns: 0,
            slice_ns: 0,
        };
        let mut shared = Shared {
            map,
            crew: 0,
            schedule: empty,
        };
        let header = shared.header();
        // ORDERING: Relaxed, all; written before this process was started.
        let magic = header.magic.load(Ordering::Relaxed);
        let crew = header.crew.load(Ordering::Relaxed);
        let schedule = Schedule {
            lanes: header.lanes.load(Ordering::Relaxed),
            rounds: header.rounds.load(Ordering::Relaxed),
            warm_ns: header.warm_ns.load(Ordering::Relaxed),
            slice_ns: header.slice_ns.load(Ordering::Relaxed),
        };
        if magic != MAGIC || bytes_for(crew, &schedule) != bytes {
            return Err(strange());
        }
        shared.crew = crew;
        shared.schedule = schedule;
        Ok(shared)
    }

    pub(super) fn crew(&self) -> u32 {
        self.crew
    }

    pub(super) fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    pub(super) fn gate(&self) -> &Gate {
        &self.header().gate
    }

    /// The counts, one for each engine.
    pub(super) fn counts(&self) -> [&AtomicU32; NR_COUNTS] {
        self.header().counts.each_ref().map(|count| &count.0)
    }

    /// How many steps are done, about.
    pub(super) fn nr_done(&self) -> u32 {
        // ORDERING: Relaxed; a hint for the progress bar.
        self.header().nr_done.0.load(Ordering::Relaxed)
    }

    /// Stores what `worker` did in step number `step`.
    pub(super) fn record(&self, worker: u32, step: usize, tally: Tally) {
        let words = &self.tallies(worker)[step];
        // ORDERING: Relaxed, all; the reader waits until this process has ended.
        words.ops.store(tally.ops, Ordering::Relaxed);
        words.ns.store(tally.ns, Ordering::Relaxed);
        if worker == 0 {
            self.header().nr_done.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What `worker`, which has ended, did in each step.
    pub(super) fn worker_tallies(&self, worker: u32) -> Vec<Tally> {
        self.tallies(worker)
            .iter()
            .map(|words| Tally {
                // ORDERING: Relaxed, both; the writer has ended.
                ops: words.ops.load(Ordering::Relaxed),
                ns: words.ns.load(Ordering::Relaxed),
                // Not measured where workers are processes.
                cpu_ns: 0,
            })
            .collect()
    }

    fn header(&self) -> &Header {
        let header = self.map.as_ptr().cast::<Header>();
        // SAFETY: the mapping lives as long as `self`, begins at a page boundary,
        // and is at least as long as a header (`create` and `open` see to it).
        // A header consists of atomics, for which every bit pattern is valid.
        unsafe { &*header }
    }

    fn tallies(&self, worker: u32) -> &[TallyWords] {
        assert!(worker < self.crew, "no such worker: {worker}");
        let nr_steps = self.schedule.nr_steps();
        let offset = size_of::<Header>() + worker as usize * nr_steps * size_of::<TallyWords>();
        // SAFETY: the mapping has room for the tallies of all workers after the
        // header (`bytes_for`), and `worker` is one of them.
        let first = unsafe { self.map.as_ptr().add(offset) }.cast::<TallyWords>();
        // SAFETY: as above; the header's size is a multiple of its alignment of
        // 128, so that the words are aligned. They are atomics, and the mapping
        // lives as long as `self`.
        unsafe { slice::from_raw_parts(first, nr_steps) }
    }
}

fn bytes_for(crew: u32, schedule: &Schedule) -> usize {
    (crew as usize)
        .saturating_mul(schedule.nr_steps())
        .saturating_mul(size_of::<TallyWords>())
        .saturating_add(size_of::<Header>())
}

fn map(file: &File, bytes: usize) -> Result<MmapRaw, Failure> {
    MmapOptions::new()
        .len(bytes)
        .map_raw(file)
        .map_err(|error| Failure::because("cannot map the memory to share", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use rustix::fs::{MemfdFlags, memfd_create};

    /// Memory without a name, as the workers get it: in a file on a full disk, a write to the mapping would be a signal.
    fn memory() -> File {
        File::from(memfd_create("pagewell-test", MemfdFlags::CLOEXEC).unwrap())
    }

    #[test]
    fn what_one_mapping_records_the_other_reads() {
        let file = memory();
        let schedule = Schedule::new(3, 4, Duration::from_secs(1));
        let ours = Shared::create(&file, 2, &schedule).unwrap();
        let theirs = Shared::open(&file).unwrap();
        assert_eq!((theirs.crew(), theirs.schedule()), (2, &schedule));
        theirs.record(
            1,
            11,
            Tally {
                ops: 7,
                ns: 8,
                cpu_ns: 0,
            },
        );
        let tallies = ours.worker_tallies(1);
        assert_eq!(tallies.len(), 12);
        assert_eq!((tallies[11].ops, tallies[11].ns), (7, 8));
        assert_eq!(ours.worker_tallies(0)[11].ops, 0);
    }

    #[test]
    fn memory_that_is_not_ours_is_refused() {
        let file = memory();
        assert!(Shared::open(&file).is_err());
        file.set_len(4096).unwrap();
        assert!(Shared::open(&file).is_err());
    }
}
