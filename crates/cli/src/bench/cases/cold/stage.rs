//! A stage of `bench cold`: the files, and whose turn it is.

use std::time::Duration;

use super::asynchronous::Async;
use super::commits::Commits;
use super::engines::{
    ASYNC, BLOCKING, FDATASYNC, FIO_PSYNC, FIO_URING, ONE_THREAD, PREAD, engines,
};
use super::file::ColdFile;
use super::reads::{
    Turn, at_random, blocking, in_order_blocking, in_order_pread, pread, read_many,
};
use crate::bench::cases::fio::{Fio, Reads};
use crate::bench::crew::{Schedule, Speeds, Watch};
use crate::bench::data::Scratch;
use crate::bench::plan::{Case, Cell, Settings};
use crate::failure::Failure;
use crate::size::Bytes;

/// What fio reads at a time in order, and how many of these at once.
const FIO_BLOCK: u64 = 1 << 20;
const FIO_DEPTH: u32 = 8;

/// The files of a run, and what reads and writes them.
pub(in crate::bench) struct Stage {
    file: Option<ColdFile>,
    commits: Option<Commits>,
    fio: Option<Fio>,
}

impl Stage {
    /// Makes the files that the cells need. `note` gets what the user should know.
    pub(in crate::bench) fn new(
        cells: &[Cell],
        settings: &Settings,
        scratch: &mut Scratch,
        mut note: impl FnMut(String),
    ) -> Result<Stage, Failure> {
        let mut stage = Stage {
            file: None,
            commits: None,
            fio: Fio::find(),
        };
        for cell in cells {
            if cell.case == Case::CommitThreads64 {
                let commits = Commits::new(cell.threads, settings, scratch, &mut note)?;
                stage.commits = Some(commits);
            } else if stage.file.is_none() {
                let data = scratch.make(cell.file_bytes, cell.file_bytes, 1, &mut note)?;
                stage.file = Some(ColdFile::new(data, settings)?);
            }
        }
        if let Some(file) = &stage.file {
            if !file.is_direct() {
                note(format!(
                    "no direct transfers in {}: {}; so nothing is cold",
                    file.data.label,
                    file.transfers()
                ));
            }
            if stage.fio.is_none() {
                note("fio is not installed: cold reads are not compared with it".to_owned());
            }
        }
        Ok(stage)
    }

    /// What is read, for people.
    pub(in crate::bench) fn describe(&self) -> String {
        self.file.as_ref().map_or_else(
            || "commits".to_owned(),
            |file| {
                format!(
                    "{} in {}, {}",
                    Bytes(file.data.bytes),
                    file.data.label,
                    file.transfers()
                )
            },
        )
    }

    /// Measures a cell: the engines that are there take turns.
    pub(in crate::bench) fn run(
        &mut self,
        cell: &Cell,
        schedule: &Schedule,
        watch: Watch<'_>,
    ) -> Result<Speeds, Failure> {
        let engines = engines(cell.case);
        let each = schedule.duration() / (schedule.rounds * schedule.lanes).max(1);
        let mut speeds = Speeds {
            of_lanes: vec![Vec::new(); engines.len()],
            cpu_ns: vec![Vec::new(); engines.len()],
            memory: None,
        };
        // The first use of memory, threads and rings is not counted.
        self.turn(cell, engines[0], each / 4)?;
        let mut done = Duration::ZERO;
        for step in schedule.steps() {
            let engine = engines[step.lane as usize];
            let turn = self.turn(cell, engine, each);
            let turn = turn.map_err(|failure| match failure {
                Failure::Run(reason) => Failure::because(engine, reason),
                closed => closed,
            })?;
            if let Some(turn) = turn {
                speeds.of_lanes[step.lane as usize].push(turn.per_second());
                speeds.cpu_ns[step.lane as usize].push(turn.cpu_ns_each());
            }
            done += each;
            watch(done)?;
        }
        Ok(speeds)
    }

    /// Has `engine` work for so long; none if it is not there.
    fn turn(
        &mut self,
        cell: &Cell,
        engine: &'static str,
        time: Duration,
    ) -> Result<Option<Turn>, Failure> {
        let missing = || Failure::Run(format!("{} has no file", cell.case.name()));
        if cell.case == Case::CommitThreads64 {
            let commits = self.commits.as_ref().ok_or_else(missing)?;
            return match engine {
                ONE_THREAD => commits.blocking(1, time),
                FDATASYNC => commits.fdatasync(cell.threads, time),
                _ => commits.blocking(cell.threads, time),
            }
            .map(Some);
        }
        let file = self.file.as_mut().ok_or_else(missing)?;
        let (block, depth) = (cell.block as usize, depth(cell.case));
        let turn = match (engine, cell.case) {
            (FIO_URING | FIO_PSYNC, _) => {
                let Some(fio) = &self.fio else {
                    return Ok(None);
                };
                by_fio(fio, file, cell, engine, time)
            }
            (BLOCKING, Case::Sequential) => in_order_blocking(file, block, time),
            (PREAD, Case::Sequential) => in_order_pread(file, block, time),
            (BLOCKING, _) => at_random(file, cell.threads, time, |_| blocking()),
            (PREAD, _) => at_random(file, cell.threads, time, pread),
            (ASYNC, _) => at_random(file, 1, time, |_| Ok(Async::new(depth))),
            _ => at_random(file, 1, time, |_| read_many(depth)),
        };
        turn.map(Some)
    }
}

/// How many reads a thread has under way.
const fn depth(case: Case) -> usize {
    match case {
        Case::RandomDepth32 => 32,
        Case::RandomDepth64 => 64,
        _ => 1,
    }
}

fn by_fio(
    fio: &Fio,
    file: &ColdFile,
    cell: &Cell,
    engine: &str,
    time: Duration,
) -> Result<Turn, Failure> {
    let is_sequential = cell.case == Case::Sequential;
    let reads = Reads {
        engine: match engine {
            FIO_PSYNC => "psync",
            _ => "io_uring",
        },
        pattern: if is_sequential { "read" } else { "randread" },
        block: if is_sequential { FIO_BLOCK } else { cell.block },
        depth: if is_sequential {
            FIO_DEPTH
        } else {
            depth(cell.case) as u32
        },
        threads: cell.threads,
        direct: file.is_direct(),
        time,
    };
    let report = fio.read(&file.data, &reads).map_err(Failure::Run)?;
    let one = if is_sequential { 1 << 20 } else { cell.block };
    Ok(Turn {
        nr: report.bytes as f64 / one as f64,
        ns: report.ns,
        cpu_ns: report.cpu_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_that_is_here_has_a_figure_for_each_round() {
        let cell = |case, block, threads| Cell {
            case,
            block,
            file_bytes: 4 << 20,
            threads,
            forks: 0,
        };
        let cells = [
            cell(Case::RandomDepth1, 4096, 1),
            cell(Case::RandomDepth32, 4096, 1),
            cell(Case::RandomDepth64, 4096, 1),
            cell(Case::RandomThreads32, 4096, 32),
            cell(Case::Sequential, 65_536, 1),
        ];
        let mut scratch = Scratch::new(None);
        let mut stage = Stage::new(&cells, &Settings::quick(), &mut scratch, |_| ()).unwrap();
        for cell in &cells {
            let engines = engines(cell.case);
            let schedule = Schedule::new(engines.len(), 2, Duration::from_millis(4));
            let speeds = stage.run(cell, &schedule, &mut |_| Ok(())).unwrap();
            for (engine, (rounds, cpu)) in engines
                .iter()
                .zip(speeds.of_lanes.iter().zip(&speeds.cpu_ns))
            {
                let is_here = !engine.starts_with("fio") || stage.fio.is_some();
                assert_eq!(rounds.len(), if is_here { 2 } else { 0 }, "{engine}");
                assert_eq!(rounds.len(), cpu.len());
                assert!(rounds.iter().all(|speed| *speed > 0.0 && speed.is_finite()));
            }
        }
    }
}
