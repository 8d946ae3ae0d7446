//! A stage of `bench write`: the files of all engines, ready for the cells.

use pagewell::{Cache, OpenOptions, Writeback};

use super::append::Log;
use super::cache::{Dirty, capacity_for, new_cache};
use super::engines::{ENGINES, MMAP};
use super::parts::{Part, Tally};
use super::waiters::BesideWaiters;
use super::writeback::Throughput;
use super::writer::{Cached, Mapping, Pwrite};
use crate::bench::crew::{Lane, Schedule, Speeds, Watch, run_threads};
use crate::bench::data::{DataFile, MappedMut, Scratch};
use crate::bench::plan::{self, Case, Cell, Settings, part_of};
use crate::failure::{Failure, chain};
use crate::size::Bytes;

/// Files of a stage, and everything that writes to them.
pub(in crate::bench) struct Stage<'a> {
    settings: &'a Settings,
    cache: Cache,
    /// The files of whose parts each worker has one.
    parts: Option<Subject>,
    /// The files that are appended to, for each worker.
    logs: Vec<Subject>,
    waiters: Option<BesideWaiters>,
    throughput: Option<Throughput>,
    /// How many cells were measured: each writes other bytes than those before.
    nr_cells: u64,
}

/// A file for each engine.
struct Subject {
    /// Written to through the cache.
    ours: DataFile,
    cached: pagewell::File,
    pwritten: DataFile,
    mapped: DataFile,
}

impl<'a> Stage<'a> {
    /// Makes the files, and has every engine write to all of what it will. `note` gets what the user should know.
    pub(in crate::bench) fn new(
        plan: &plan::Stage,
        settings: &'a Settings,
        scratch: &mut Scratch,
        mut note: impl FnMut(String),
    ) -> Result<Stage<'a>, Failure> {
        let of_logs = |cell: &&Cell| cell.case.appends();
        let nr_logs = plan.cells.iter().filter(of_logs).map(|cell| cell.threads);
        let nr_logs = nr_logs.max().unwrap_or(0);
        let log_bytes = plan
            .cells
            .iter()
            .find(of_logs)
            .map_or(0, |cell| cell.file_bytes);
        let has_parts = plan.cells.iter().any(|cell| cell.case.writes_parts());

        let written = if has_parts { plan.file_bytes } else { 0 } + log_bytes * u64::from(nr_logs);
        let needed = capacity_for(written);
        let capacity = settings.capacity.unwrap_or(needed);
        let mode = if capacity < needed {
            note(format!(
                "a cache of {} may not hold {} of dirty pages: writing them back is measured too",
                Bytes(capacity),
                Bytes(written),
            ));
            Writeback::Background
        } else {
            Writeback::Manual
        };
        let cache = new_cache(capacity, Dirty::Most, settings)?;
        let mut subject = |bytes, seed| {
            let ours = scratch.make_named(bytes, seed, &mut note)?;
            let make = |seed| scratch.make(bytes, bytes, seed, &mut note);
            Subject::new(ours, make, &cache, mode, seed)
        };
        let parts = match has_parts {
            true => Some(subject(plan.file_bytes, 1)?),
            false => None,
        };
        let logs = (0..nr_logs)
            .map(|worker| subject(log_bytes, 4 + u64::from(worker) * 3))
            .collect::<Result<_, _>>()?;
        let waiters = match plan.has(Case::WriteBesideWaiters) {
            true => Some(BesideWaiters::new(
                plan.file_bytes,
                settings,
                scratch,
                &mut note,
            )?),
            false => None,
        };
        let throughput = match plan.has(Case::Writeback) {
            true => {
                let data = scratch.make_named(plan.file_bytes, 0, &mut note)?;
                Some(Throughput::new(data, settings, note)?)
            }
            false => None,
        };
        Ok(Stage {
            settings,
            cache,
            parts,
            logs,
            waiters,
            throughput,
            nr_cells: 0,
        })
    }

    /// What is written to, for people.
    pub(in crate::bench) fn describe(&self) -> String {
        let throughput = self.throughput.as_ref().map(Throughput::data);
        let parts = self.parts.as_ref().map(|subject| &subject.ours);
        let log = self.logs.first().map(|subject| &subject.ours);
        let waiters = self.waiters.as_ref().map(BesideWaiters::data);
        parts.or(throughput).or(log).or(waiters).map_or_else(
            || "nothing".to_owned(),
            |data| format!("{} in {}", Bytes(data.bytes), data.label),
        )
    }

    /// Measures a cell, and checks what was written.
    pub(in crate::bench) fn run(
        &mut self,
        cell: &Cell,
        schedule: &Schedule,
        cpus: &[usize],
        watch: Watch<'_>,
    ) -> Result<Speeds, Failure> {
        self.nr_cells += 1;
        if cell.case == Case::Writeback {
            let throughput = self.throughput.as_mut().ok_or_else(|| no_file(cell))?;
            return throughput.run(cell.block as usize, schedule);
        }
        if cell.case == Case::WriteBesideWaiters {
            let waiters = self.waiters.as_ref().ok_or_else(|| no_file(cell))?;
            let parts = self.parts_of(cell);
            return waiters.run(&parts, self.settings, schedule, cpus, watch);
        }
        let speeds = if cell.case.appends() {
            self.run_logs(cell, schedule, cpus, watch)
        } else {
            self.run_parts(cell, schedule, cpus, watch)
        }?;
        // Figures of a cache that does not add up would mean nothing.
        self.cache
            .verify()
            .map_err(|error| Failure::because("the cache is broken", error))?;
        Ok(speeds)
    }

    fn run_parts(
        &self,
        cell: &Cell,
        schedule: &Schedule,
        cpus: &[usize],
        watch: Watch<'_>,
    ) -> Result<Speeds, Failure> {
        let subject = self.parts.as_ref().ok_or_else(|| no_file(cell))?;
        let parts = self.parts_of(cell);
        let tallies: Vec<[Tally; ENGINES.len()]> =
            parts.iter().map(|_| Default::default()).collect();
        let mut workers: Vec<Vec<Box<dyn Lane + '_>>> = Vec::new();
        for (part, [ours, pwritten, mapped]) in parts.iter().zip(&tallies) {
            let range = part.start..part.start + part.len;
            let map = MappedMut::new(&subject.mapped, range, self.settings.huge_pages)?;
            // In the order of `ENGINES`.
            workers.push(vec![
                part.lane(Cached::new(subject.cached.clone(), part.start), ours),
                part.lane(Pwrite::new(&subject.pwritten, part.start)?, pwritten),
                part.lane(Mapping::new(map), mapped),
            ]);
        }
        let speeds = run_threads(schedule, cpus, workers, watch)?;
        subject.cached.sync_data().map_err(cannot_sync)?;
        for (part, tallies) in parts.iter().zip(&tallies) {
            for ((engine, data), tally) in ENGINES.iter().zip(subject.files()).zip(tallies) {
                part.check(data, tally)
                    .map_err(|reason| Failure::because(engine, reason))?;
            }
        }
        Ok(speeds)
    }

    /// The part of each worker.
    fn parts_of(&self, cell: &Cell) -> Vec<Part> {
        let len = part_of(cell.file_bytes, cell.threads, self.settings.page_size);
        (0..u64::from(cell.threads))
            .map(|worker| Part {
                case: cell.case,
                start: worker * len,
                len,
                block: cell.block,
                seed: self.seed(worker),
            })
            .collect()
    }

    fn run_logs(
        &self,
        cell: &Cell,
        schedule: &Schedule,
        cpus: &[usize],
        watch: Watch<'_>,
    ) -> Result<Speeds, Failure> {
        let logs: Vec<Log> = (0..u64::from(cell.threads))
            .map(|worker| Log::new(cell, self.seed(worker)))
            .collect();
        let tallies: Vec<[Tally; ENGINES.len()]> =
            logs.iter().map(|_| Default::default()).collect();
        let mut workers: Vec<Vec<Box<dyn Lane + '_>>> = Vec::new();
        for ((log, subject), [ours, pwritten, mapped]) in logs.iter().zip(&self.logs).zip(&tallies)
        {
            let range = 0..subject.mapped.bytes;
            let map = MappedMut::new(&subject.mapped, range, self.settings.huge_pages)?;
            // In the order of `ENGINES`.
            workers.push(vec![
                log.lane(Cached::new(subject.cached.clone(), 0), ours),
                log.lane(Pwrite::to_the_end(&subject.pwritten)?, pwritten),
                log.lane(Mapping::new(map), mapped),
            ]);
        }
        if workers.len() != logs.len() {
            return Err(no_file(cell));
        }
        let speeds = run_threads(schedule, cpus, workers, watch)?;
        for ((log, subject), tallies) in logs.iter().zip(&self.logs).zip(&tallies) {
            subject.cached.sync_data().map_err(cannot_sync)?;
            for ((engine, data), tally) in ENGINES.iter().zip(subject.files()).zip(tallies) {
                // A mapping does not make its file longer: it is as long as it may get all along.
                let ends_there = *engine != MMAP;
                log.check(data, tally, ends_there)
                    .map_err(|reason| Failure::because(engine, reason))?;
            }
        }
        Ok(speeds)
    }

    fn seed(&self, worker: u64) -> u64 {
        self.nr_cells << 16 | worker
    }
}

impl Subject {
    fn new(
        ours: DataFile,
        mut make: impl FnMut(u64) -> Result<DataFile, Failure>,
        cache: &Cache,
        mode: Writeback,
        seed: u64,
    ) -> Result<Subject, Failure> {
        let options = OpenOptions::new().write().writeback(mode);
        let cached = cache.open_with(&ours.path, &options).map_err(|error| {
            Failure::because(
                format_args!("cannot open {} in a cache", ours.label),
                chain(&error),
            )
        })?;
        let mut buf = vec![0; 1 << 20];
        let mut at = 0;
        while at < ours.bytes {
            let nr = cached.read_at(&mut buf, at).map_err(|error| {
                Failure::because(format_args!("cannot read {}", ours.label), chain(&error))
            })?;
            at += nr.max(1) as u64;
        }
        Ok(Subject {
            ours,
            cached,
            pwritten: make(seed + 1)?,
            mapped: make(seed + 2)?,
        })
    }

    /// The files of [`ENGINES`].
    fn files(&self) -> [&DataFile; ENGINES.len()] {
        [&self.ours, &self.pwritten, &self.mapped]
    }
}

fn no_file(cell: &Cell) -> Failure {
    Failure::Run(format!("{} has no file", cell.case.name()))
}

fn cannot_sync(error: pagewell::Error) -> Failure {
    Failure::because("cannot sync", chain(&error))
}
