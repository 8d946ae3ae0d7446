//! A run: the cells of the plan one after the other, and the report.

use std::time::Duration;

use super::cases::EngineArgs;
use super::cases::{
    alloc, cold, contig, engines, fork, migrate, pin, read, refcount, space, tree, write,
};
use super::crew::{Schedule, Speeds, Watch, WorkerArgs, run_threads, work_as_process};
use super::data::{DataFile, Scratch};
use super::plan::{Bench, Case, Cell, Limits, Plan, Settings};
use super::report::{self, Measured};
use crate::copies;
use crate::failure::Failure;
use crate::machine;
use crate::output::{self, Format};
use crate::progress::Progress;
use crate::size::Bytes;

/// Runs the benchmarks that the settings ask for.
pub(crate) fn run(settings: &Settings) -> Result<(), Failure> {
    let users = settings.file.as_deref().map(DataFile::users).transpose()?;
    copies::force(settings.copy)?;
    machine::raise_descriptor_limit();
    let cpus = machine::allowed_cpus();
    let plan = Plan::new(
        settings,
        Limits {
            nr_cpus: machine::nr_cpus(&cpus),
            memory: machine::available_memory(),
            users_file: users.as_ref().map(|data| data.bytes),
        },
    );
    if plan.cells().next().is_none() {
        return Err(Failure::Run(format!(
            "there is nothing to measure: {}",
            plan.notes.join("; ")
        )));
    }
    let total = plan
        .cells()
        .map(|cell| planned_duration(cell, settings))
        .sum();
    let mut run = Run {
        settings,
        cpus,
        progress: Progress::new(total),
    };
    plan.notes.iter().for_each(|note| run.progress.note(note));
    if settings.format == Format::Table {
        run.show(&report::heading(settings, machine::nr_cpus(&run.cpus)))?;
    }
    let mut measured = run.each(&plan.refcount, refcount::run)?;
    measured.extend(run.each(&plan.pin, pin::run)?);
    if !plan.read.is_empty() {
        let (cells, files) = run.read(&plan, users)?;
        run.report(&cells, &files)?;
        measured.extend(cells);
    }
    if !plan.write.is_empty() {
        let (cells, files) = run.write(&plan)?;
        run.report(&cells, &files)?;
        measured.extend(cells);
    }
    measured.extend(run.each(&plan.contig, |cell, schedule, cpus, watch| {
        contig::run(cell, settings, schedule, cpus, watch)
    })?);
    measured.extend(run.each(&plan.alloc, alloc::run)?);
    measured.extend(run.each(&plan.space, |cell, schedule, cpus, watch| {
        space::run(cell, settings, schedule, cpus, watch)
    })?);
    measured.extend(run.each(&plan.fork, fork::run)?);
    measured.extend(run.migrate(&plan.migrate)?);
    measured.extend(run.tree(&plan.tree)?);
    measured.extend(run.cold(&plan.cold)?);
    if settings.format == Format::Table {
        run.show(&report::summary(&measured))?;
    }
    Ok(())
}

/// One worker process of `one-count-processes`.
pub(crate) fn worker_process(args: &WorkerArgs) -> Result<(), Failure> {
    work_as_process(args, refcount::lanes)
}

/// One engine of `bench tree`, in a process of its own.
pub(crate) fn engine_process(args: &EngineArgs) -> Result<(), Failure> {
    tree::engine_process(args)
}

fn schedule_for(cell: &Cell, settings: &Settings) -> Schedule {
    let (rounds, seconds) = match cell.case.bench() {
        Bench::Cold => cold::times(settings),
        _ => (settings.rounds, settings.seconds),
    };
    Schedule::new(engines(cell.case).len(), rounds, seconds)
}

fn planned_duration(cell: &Cell, settings: &Settings) -> Duration {
    match cell.case {
        // They have a number of steps, or of bytes, and take what they take: little, as a rule.
        Case::Fragmentation | Case::Writeback => Duration::ZERO,
        _ => schedule_for(cell, settings).duration(),
    }
}

/// A run in progress.
struct Run<'a> {
    settings: &'a Settings,
    cpus: Vec<usize>,
    progress: Progress,
}

impl Run<'_> {
    /// Has `work` measure each cell, and reports them.
    fn each(
        &mut self,
        cells: &[Cell],
        work: impl Fn(&Cell, &Schedule, &[usize], Watch<'_>) -> Result<Speeds, Failure>,
    ) -> Result<Vec<Measured>, Failure> {
        let measured: Vec<Measured> = cells
            .iter()
            .map(|cell| {
                self.measure(cell, |schedule, cpus, watch| {
                    work(cell, schedule, cpus, watch)
                })
            })
            .collect::<Result<_, _>>()?;
        self.report(&measured, "")?;
        Ok(measured)
    }

    /// Migrations, each with the cell of the second walk's share.
    fn migrate(&mut self, cells: &[Cell]) -> Result<Vec<Measured>, Failure> {
        let mut measured = Vec::new();
        for cell in cells {
            let mut shares = None;
            measured.push(self.measure(cell, |schedule, _, watch| {
                let (speeds, of_second_walk) = migrate::run(cell, schedule, watch)?;
                shares = Some(of_second_walk);
                Ok(speeds)
            })?);
            // Once for each number of forks.
            if let Some(shares) = shares.filter(|_| cell.case == Case::Forks) {
                let cell = Cell {
                    case: Case::SecondWalk,
                    ..*cell
                };
                let shares = Measured::new(cell, shares);
                if self.settings.format == Format::Json {
                    self.progress.aside(|| report::print(&shares))?;
                }
                measured.push(shares);
            }
        }
        self.report(&measured, "")?;
        Ok(measured)
    }

    /// The cells, and what files they have read.
    fn read(
        &mut self,
        plan: &Plan,
        mut users: Option<DataFile>,
    ) -> Result<(Vec<Measured>, String), Failure> {
        let mut scratch = Scratch::new(self.settings.dir.clone());
        let mut measured = Vec::new();
        let mut files = Vec::new();
        for planned in &plan.read {
            self.progress
                .say(format!("preparing {} of data", Bytes(planned.file_bytes)));
            let note = |text: String| self.progress.note(&text);
            let stage = read::Stage::new(planned, users.take(), self.settings, &mut scratch, note)?;
            files.push(stage.describe());
            for cell in &planned.cells {
                let workers = stage.lanes(cell)?;
                measured.push(self.measure(cell, |schedule, cpus, watch| {
                    run_threads(schedule, cpus, workers, watch)
                })?);
            }
        }
        Ok((measured, files.join(", ")))
    }

    /// The cells, and what files they have written to.
    fn write(&mut self, plan: &Plan) -> Result<(Vec<Measured>, String), Failure> {
        let mut scratch = Scratch::new(self.settings.dir.clone());
        let mut measured = Vec::new();
        let mut files = Vec::new();
        for planned in &plan.write {
            self.progress
                .say(format!("preparing {} of data", Bytes(planned.file_bytes)));
            let note = |text: String| self.progress.note(&text);
            let mut stage = write::Stage::new(planned, self.settings, &mut scratch, note)?;
            files.push(stage.describe());
            for cell in &planned.cells {
                measured.push(self.measure(cell, |schedule, cpus, watch| {
                    stage.run(cell, schedule, cpus, watch)
                })?);
            }
        }
        Ok((measured, files.join(", ")))
    }

    /// Gets, all from one tree; and inserts, each cell into one of its own.
    fn tree(&mut self, cells: &[Cell]) -> Result<Vec<Measured>, Failure> {
        let settings = self.settings;
        let mut scratch = Scratch::new(settings.dir.clone());
        let (inserts, gets): (Vec<Cell>, Vec<Cell>) =
            cells.iter().partition(|cell| cell.case.inserts());
        let mut measured = Vec::new();
        if !gets.is_empty() {
            self.progress.say("preparing a tree".to_owned());
            let note = |text: String| self.progress.note(&text);
            let stage = tree::Stage::new(settings, &mut scratch, note)?;
            for cell in &gets {
                measured.push(self.measure(cell, |schedule, cpus, watch| {
                    stage.run(cell, settings, schedule, cpus, watch)
                })?);
            }
            self.report(&measured, &stage.describe())?;
        }
        let mut inserted = Vec::new();
        for cell in &inserts {
            let mut notes = Vec::new();
            let note = |text| notes.push(text);
            inserted.push(self.measure(cell, |schedule, cpus, watch| {
                tree::run_inserts(cell, &mut scratch, schedule, cpus, watch, note)
            })?);
            notes.iter().for_each(|note| self.progress.note(note));
        }
        self.report(&inserted, "")?;
        measured.extend(inserted);
        Ok(measured)
    }

    /// Reads of a file that is in no cache, and commits.
    fn cold(&mut self, cells: &[Cell]) -> Result<Vec<Measured>, Failure> {
        let Some(most) = cells.iter().map(|cell| cell.file_bytes).max() else {
            return Ok(Vec::new());
        };
        let settings = self.settings;
        let mut scratch = Scratch::new(settings.dir.clone());
        self.progress
            .say(format!("preparing {} of data", Bytes(most)));
        let note = |text: String| self.progress.note(&text);
        let mut stage = cold::Stage::new(cells, settings, &mut scratch, note)?;
        let mut measured = Vec::new();
        for cell in cells {
            measured
                .push(self.measure(cell, |schedule, _, watch| stage.run(cell, schedule, watch))?);
        }
        self.report(&measured, &stage.describe())?;
        Ok(measured)
    }

    /// Has `work` measure a cell, and prints it if the format has it printed now.
    fn measure(
        &mut self,
        cell: &Cell,
        work: impl FnOnce(&Schedule, &[usize], Watch<'_>) -> Result<Speeds, Failure>,
    ) -> Result<Measured, Failure> {
        let schedule = schedule_for(cell, self.settings);
        self.progress.say(report::cell_name(cell));
        let mut watch = |done| self.progress.within_cell(done);
        let speeds =
            work(&schedule, &self.cpus, &mut watch).map_err(|failure| in_cell(cell, failure))?;
        self.progress
            .finish_cell(planned_duration(cell, self.settings));
        let measured = Measured::new(*cell, speeds);
        if self.settings.format == Format::Json {
            self.progress.aside(|| report::print(&measured))?;
        }
        Ok(measured)
    }

    fn report(&self, measured: &[Measured], files: &str) -> Result<(), Failure> {
        match self.settings.format {
            Format::Table => self.show(&report::report(measured, files)),
            Format::Json => Ok(()),
        }
    }

    fn show(&self, text: &str) -> Result<(), Failure> {
        self.progress.aside(|| output::print(text))
    }
}

/// Says in which cell a failure happened.
fn in_cell(cell: &Cell, failure: Failure) -> Failure {
    match failure {
        Failure::Run(reason) => Failure::because(report::cell_name(cell), reason),
        Failure::OutputClosed => Failure::OutputClosed,
    }
}
