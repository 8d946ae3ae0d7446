//! A stage: files, and everything that reads them, ready for the cells.
//!
//! Each engine reads all that it will be asked for once before anything is
//! measured: that brings the bytes into memory, and they are compared with what
//! `pread` gives.

use std::error::Error;

use pagewell::Cache;
use pagewell_frame_cas::HugePages;

use super::asynchronous::{Async, AsyncOp};
use super::batch::{Batch, BatchOp};
use super::miss::Misses;
use super::mmap::Mmap;
use super::open::{open_in, opened, reopen};
use super::optimistic::Optimistic;
use super::pread::Pread;
use super::reader::{ReadOp, Reader};
use super::referenced::Referenced;
use super::view::View;
use crate::bench::crew::{Lane, Timed};
use crate::bench::data::{DataFile, Fixed, Mapped, Odd, Rng, Scratch, Uniform};
use crate::bench::plan::{self, Case, Cell, Settings};
use crate::failure::{Failure, chain};
use crate::size::Bytes;

/// The files of a stage, open in every engine.
pub(in crate::bench) struct Stage {
    caches: Caches,
    /// The file that all workers read.
    shared: Option<Subject>,
    /// A file for each worker.
    own: Vec<Subject>,
    /// Small caches of the shared file.
    misses: Option<Misses>,
}

/// A file that all engines have open.
struct Subject {
    data: DataFile,
    mapped: Mapped,
    // Workers open the file for themselves; these keep its pages cached between
    // cells.
    cached: pagewell::File,
    cached_cas: pagewell_cache_cas::File,
}

struct Caches {
    lock_bit: Cache,
    cas_loop: pagewell_cache_cas::Cache,
    capacity: u64,
}

/// How much of a file that is only read at its beginning is more than a hole.
const FILLED_OF_OWN: u64 = 1 << 20;
/// Bytes that are compared at a time.
const CHUNK: u64 = 256 << 10;
/// Reads of odd lengths at odd places that are compared.
const NR_ODD_READS: u64 = 200;

impl Stage {
    /// Makes the files, or takes the user's, and opens them in every engine.
    /// `note` gets what the user should know.
    pub(in crate::bench) fn new(
        plan: &plan::Stage,
        users: Option<DataFile>,
        settings: &Settings,
        scratch: &mut Scratch,
        mut note: impl FnMut(String),
    ) -> Result<Stage, Failure> {
        let nr_own = if plan.has(Case::DiffHot) {
            plan.most_threads()
        } else {
            0
        };
        let of_shared = [
            Case::SameHot,
            Case::SameRandom,
            Case::CurveHot,
            Case::CurveRandom,
            Case::MissBuffered,
        ];
        let needs_shared = of_shared.into_iter().any(|case| plan.has(case));
        let hot_bytes = plan.largest_block();
        let caches = Caches::new(plan, nr_own, settings)?;

        let mut shared = None;
        if needs_shared {
            let data = match users {
                Some(data) => data,
                None => scratch.make(plan.file_bytes, plan.file_bytes, 1, &mut note)?,
            };
            let touched = if plan.has(Case::SameRandom) || plan.has(Case::CurveRandom) {
                data.bytes
            } else {
                hot_bytes
            };
            if touched > caches.capacity {
                note(format!(
                    "a cache of {} does not hold {}: reads that miss it are measured too",
                    Bytes(caches.capacity),
                    data.label
                ));
            }
            let touched = touched.min(caches.capacity).max(hot_bytes);
            shared = Some(Subject::open(data, &caches, settings, touched)?);
        }
        let mut own = Vec::new();
        for number in 0..nr_own {
            let filled = plan.file_bytes.min(FILLED_OF_OWN.max(hot_bytes));
            let seed = 2 + u64::from(number);
            let data = scratch.make(plan.file_bytes, filled, seed, &mut note)?;
            own.push(Subject::open(data, &caches, settings, hot_bytes)?);
        }
        let misses = match &shared {
            Some(subject) if plan.has(Case::MissBuffered) => Some(subject.misses(settings)?),
            _ => None,
        };
        Ok(Stage {
            caches,
            shared,
            own,
            misses,
        })
    }

    /// What is read, for people.
    pub(in crate::bench) fn describe(&self) -> String {
        match (&self.shared, self.own.first()) {
            (Some(subject), _) | (None, Some(subject)) => {
                format!("{} in {}", Bytes(subject.data.bytes), subject.data.label)
            }
            (None, None) => "nothing".to_owned(),
        }
    }

    /// The lanes of each worker for `cell`.
    pub(in crate::bench) fn lanes(
        &self,
        cell: &Cell,
    ) -> Result<Vec<Vec<Box<dyn Lane + '_>>>, Failure> {
        (0..cell.threads)
            .map(|worker| {
                let subject = match cell.case {
                    Case::DiffHot => self.own.get(worker as usize),
                    _ => self.shared.as_ref(),
                };
                let subject = subject
                    .ok_or_else(|| Failure::Run(format!("{} has no file", cell.case.name())))?;
                match &self.misses {
                    Some(misses) if cell.case == Case::MissBuffered => {
                        misses.lanes(&subject.data, cell, worker)
                    }
                    _ => subject.lanes(&self.caches, cell, worker),
                }
            })
            .collect()
    }
}

impl Caches {
    fn new(plan: &plan::Stage, nr_own: u32, settings: &Settings) -> Result<Caches, Failure> {
        let capacity = settings
            .capacity
            .unwrap_or_else(|| capacity_for(plan, nr_own, settings.page_size));
        let cannot = |error: &dyn Error| Failure::because("cannot make a cache", chain(error));
        let lock_bit = Cache::builder()
            .capacity(capacity)
            .page_size(settings.page_size)
            .huge_pages(settings.huge_pages());
        let cas_loop = pagewell_cache_cas::Cache::builder()
            .capacity(capacity)
            .page_size(settings.page_size)
            .huge_pages(match settings.huge_pages {
                true => HugePages::Advise,
                false => HugePages::Never,
            });
        Ok(Caches {
            lock_bit: lock_bit.build().map_err(|error| cannot(&error))?,
            cas_loop: cas_loop.build().map_err(|error| cannot(&error))?,
            capacity,
        })
    }
}

/// What the files need, with room for the cache's own records; for a file that
/// does not fit twice, a quarter of the memory that can be taken.
fn capacity_for(plan: &plan::Stage, nr_own: u32, page_size: usize) -> u64 {
    const ROOM: u64 = 32 << 20;
    let own = plan.largest_block().next_multiple_of(page_size as u64) + page_size as u64;
    let needed = plan
        .file_bytes
        .saturating_add(plan.file_bytes / 4)
        .saturating_add(own.saturating_mul(u64::from(nr_own)))
        .saturating_add(ROOM);
    let most = crate::machine::available_memory().map_or(u64::MAX, |memory| memory / 4);
    needed.min(most.max(ROOM))
}

impl Subject {
    /// Opens `data` in every engine, and has each read its first `touched` bytes.
    fn open(
        data: DataFile,
        caches: &Caches,
        settings: &Settings,
        touched: u64,
    ) -> Result<Subject, Failure> {
        let mapped = Mapped::new(&data, settings.huge_pages)?;
        let subject = Subject {
            cached: open_in(&caches.lock_bit, &data)?,
            cached_cas: opened(&data, caches.cas_loop.open(&data.path))?,
            mapped,
            data,
        };
        let touched = touched.min(subject.data.bytes);
        subject.verify("pread", &Pread(reopen(&subject.data)?), touched)?;
        subject.verify("mmap", &Mmap(subject.mapped.bytes()), touched)?;
        subject.verify("optimistic", &Optimistic(subject.cached.clone()), touched)?;
        subject.verify("batch-16", &Batch(subject.cached.clone()), touched)?;
        subject.verify("async", &Async(subject.cached.clone()), touched)?;
        subject.verify("view", &View(subject.cached.clone()), touched)?;
        subject.verify("referenced", &Referenced(subject.cached.clone()), touched)?;
        subject.verify(
            "referenced-cas",
            &Referenced(subject.cached_cas.clone()),
            touched,
        )?;
        Ok(subject)
    }

    /// One lane for each engine. Every worker opens the file for itself.
    fn lanes<'a>(
        &'a self,
        caches: &Caches,
        cell: &Cell,
        worker: u32,
    ) -> Result<Vec<Box<dyn Lane + 'a>>, Failure> {
        let cell = Assignment { cell, worker };
        Ok(vec![
            cell.lane(Optimistic(open_in(&caches.lock_bit, &self.data)?)),
            cell.lane(Referenced(open_in(&caches.lock_bit, &self.data)?)),
            cell.lane(Referenced(opened(
                &self.data,
                caches.cas_loop.open(&self.data.path),
            )?)),
            cell.lane(Pread(reopen(&self.data)?)),
            cell.lane(Mmap(self.mapped.bytes())),
            cell.lane(View(open_in(&caches.lock_bit, &self.data)?)),
            cell.batch_lane(open_in(&caches.lock_bit, &self.data)?),
            cell.async_lane(open_in(&caches.lock_bit, &self.data)?),
        ])
    }

    /// Caches that hold a part of it, each checked.
    fn misses(&self, settings: &Settings) -> Result<Misses, Failure> {
        let misses = Misses::new(&self.data, settings)?;
        let touched = self.data.bytes;
        self.verify("optimistic", &misses.optimistic(&self.data)?, touched)?;
        self.verify("quick_cache", &misses.quick_cache(&self.data)?, touched)?;
        Ok(misses)
    }

    /// Compares what `reader` gives with the file: all of the first `touched`
    /// bytes, then odd pieces of them.
    fn verify<R: Reader>(&self, engine: &str, reader: &R, touched: u64) -> Result<(), Failure> {
        let mut buffers = Buffers::default();
        let mut at = 0;
        while at < touched {
            let len = CHUNK.min(touched - at);
            self.compare(engine, reader, at, len, &mut buffers)?;
            at += len;
        }
        let mut rng = Rng::new(touched);
        for _ in 0..NR_ODD_READS {
            let at = rng.below(touched);
            let len = 1 + rng.below((touched - at).min(10_000));
            self.compare(engine, reader, at, len, &mut buffers)?;
        }
        Ok(())
    }

    fn compare<R: Reader>(
        &self,
        engine: &str,
        reader: &R,
        at: u64,
        len: u64,
        buffers: &mut Buffers,
    ) -> Result<(), Failure> {
        use std::os::unix::fs::FileExt;
        let (expected, got) = buffers.of(len as usize);
        let label = &self.data.label;
        self.data
            .file
            .read_exact_at(expected, at)
            .map_err(|error| {
                Failure::because(format_args!("cannot read {label} at offset {at}"), error)
            })?;
        match reader.read(got, at) {
            Ok(n) if n == got.len() && got == expected => Ok(()),
            Ok(n) => Err(Failure::Run(format!(
                "{engine} reads {label} wrongly: {n} of {len} bytes at offset {at}, \
                 not those that pread gives (has the file changed meanwhile?)"
            ))),
            Err(error) => Err(Failure::because(
                format_args!("{engine} cannot read {label} at offset {at}"),
                error,
            )),
        }
    }
}

/// What a worker does in a cell.
struct Assignment<'a> {
    cell: &'a Cell,
    worker: u32,
}

impl Assignment<'_> {
    fn lane<'r, R: Reader + 'r>(&self, reader: R) -> Box<dyn Lane + 'r> {
        let block = self.cell.block as usize;
        match self.positions() {
            At::Random(positions) => Box::new(Timed::new(ReadOp::new(reader, positions, block))),
            At::Odd(positions) => Box::new(Timed::new(ReadOp::new(reader, positions, block))),
            At::One(offset) => Box::new(Timed::new(ReadOp::new(reader, Fixed(offset), block))),
        }
    }

    fn batch_lane<'r>(&self, file: pagewell::File) -> Box<dyn Lane + 'r> {
        let block = self.cell.block as usize;
        match self.positions() {
            At::Random(positions) => Box::new(Timed::new(BatchOp::new(file, positions, block))),
            At::Odd(positions) => Box::new(Timed::new(BatchOp::new(file, positions, block))),
            At::One(offset) => Box::new(Timed::new(BatchOp::new(file, Fixed(offset), block))),
        }
    }

    fn async_lane<'r>(&self, file: pagewell::File) -> Box<dyn Lane + 'r> {
        let block = self.cell.block as usize;
        match self.positions() {
            At::Random(positions) => Box::new(Timed::new(AsyncOp::new(file, positions, block))),
            At::Odd(positions) => Box::new(Timed::new(AsyncOp::new(file, positions, block))),
            At::One(offset) => Box::new(Timed::new(AsyncOp::new(file, Fixed(offset), block))),
        }
    }

    /// Where to read: the same positions for each engine, others for each worker.
    fn positions(&self) -> At {
        let seed = u64::from(self.worker);
        let (bytes, block) = (self.cell.file_bytes, self.cell.block);
        match self.cell.case {
            Case::SameRandom => At::Random(Uniform::new(bytes, block, seed)),
            Case::CurveRandom => At::Odd(Odd::new(bytes, block, seed)),
            Case::CurveHot => At::One(1),
            _ => At::One(0),
        }
    }
}

/// Where a worker reads.
enum At {
    Random(Uniform),
    Odd(Odd),
    One(u64),
}

/// Two buffers that grow to what is asked for.
#[derive(Default)]
struct Buffers {
    expected: Vec<u8>,
    got: Vec<u8>,
}

impl Buffers {
    fn of(&mut self, len: usize) -> (&mut [u8], &mut [u8]) {
        if self.got.len() < len {
            self.expected.resize(len, 0);
            self.got.resize(len, 0);
        }
        (&mut self.expected[..len], &mut self.got[..len])
    }
}
