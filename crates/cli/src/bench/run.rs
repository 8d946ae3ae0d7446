//! A run: the cells of the plan one after the other, and the report.

use std::mem;
use std::time::Duration;

use pagewell_sim::Policy;
use pagewell_sim::workload::Workload;

use super::cases::EngineArgs;
use super::cases::{
    alloc, cold, contig, engines, fork, migrate, pin, read, refcount, space, tree, write,
};
use super::crew::{Schedule, Speeds, Watch, WorkerArgs, run_threads, work_as_process};
use super::data::{DataFile, Scratch};
use super::plan::{Bench, Case, Cell, DEFAULT_PAGE_SIZE, Limits, Plan, Settings};
use super::report::{self, Measured};
use super::screen::{self, HitRatios};
use crate::copies;
use crate::failure::Failure;
use crate::interrupt;
use crate::machine;
use crate::output::{self, Format};
use crate::progress::Progress;
use crate::size::Bytes;

/// Runs the benchmarks that the settings ask for.
pub(crate) fn run(settings: &Settings) -> Result<(), Failure> {
    interrupt::listen()?;
    let mut users = settings.file.as_deref().map(DataFile::users).transpose()?;
    let users_file = users.as_ref().map(|data| data.bytes);
    let has_tables = settings.format == Format::Table;
    let (mut run, plan) = Run::begin(settings, users_file, has_tables, |_| true)?;
    if plan.cells().next().is_none() {
        return Err(Failure::Run(format!(
            "there is nothing to measure: {}",
            plan.notes.join("; ")
        )));
    }
    if run.has_tables {
        run.show(&report::heading(settings, machine::nr_cpus(&run.cpus)))?;
    }
    let mut measured = Vec::new();
    for bench in Bench::ALL {
        match run.bench(bench, &plan, &mut users) {
            Ok(cells) => measured.extend(cells),
            Err(failure) => {
                let cells = mem::take(&mut run.unreported);
                if !cells.is_empty() {
                    run.report(&cells, "")?;
                }
                return Err(failure);
            }
        }
    }
    if run.has_tables {
        run.show(&report::summary(&measured))?;
    }
    Ok(())
}

/// Pages, frames and requests of the trace for hit ratios.
const PAGES: u32 = 100_000;
const FRAMES: usize = 5000;
const REQUESTS: usize = 1_000_000;

/// The bare command: some cells of all benchmarks, on one screen. `machine_line` stands in its head.
///
/// # Errors
///
/// A cell that fails, or is wrong; a signal. The cells that were measured are shown before.
pub(crate) fn screen(
    format: Format,
    seconds: Option<Duration>,
    machine_line: &str,
) -> Result<(), Failure> {
    interrupt::listen()?;
    let nr_cpus = machine::nr_cpus(&machine::allowed_cpus());
    let mut settings = Settings {
        format,
        cases: screen::cases(),
        ..Settings::quick()
    };
    if let Some(seconds) = seconds {
        (settings.seconds, settings.has_own_seconds) = (seconds, true);
    }
    settings.threads = vec![1, nr_cpus.min(2)];
    settings.threads.dedup();
    let most_threads = settings.threads.iter().copied().max().unwrap_or(1);
    let is_shown = |cell: &Cell| screen::shows(cell, most_threads);
    let (mut run, plan) = Run::begin(&settings, None, false, is_shown)?;
    let columns = output::columns().unwrap_or(report::COLUMNS);
    let columns = columns.min(report::COLUMNS);
    if format == Format::Table {
        let mut heading = report::heading(&settings, nr_cpus) + machine_line;
        if seconds.is_none() {
            heading.push_str("; 3 rounds of 100 ms where nothing is cached");
        }
        run.show(&report::wrap_at(&(heading + "\n\n"), columns))?;
    }
    let (mut measured, mut left_out) = (Vec::new(), Vec::new());
    for cell in plan.cells() {
        let mut one = plan.clone();
        one.retain(|other| other == cell);
        match run.bench(cell.case.bench(), &one, &mut None) {
            Ok(cells) => measured.extend(cells),
            Err(Failure::Run(reason)) => left_out.push(reason),
            Err(Failure::OutputClosed) => return Err(Failure::OutputClosed),
            Err(Failure::Interrupted) => break,
        }
    }
    let hit_ratios = match interrupt::check() {
        Ok(()) => Some(run.hit_ratios()?),
        Err(_) => None,
    };
    if hit_ratios.is_none() {
        let missing = screen::missing(&measured, &plan);
        left_out.push(format!("{} (interrupted)", missing.join("; ")));
    }
    if format == Format::Table {
        let screen = screen::screen(&measured, hit_ratios.as_ref(), columns);
        run.show(&(screen + &screen::footer(&left_out, columns)))?;
    } else if hit_ratios.is_none() {
        run.progress
            .note(&format!("left out: {}", left_out.join("; ")));
    }
    if hit_ratios.is_none() {
        return Err(Failure::Interrupted);
    }
    match left_out.as_slice() {
        [] => Ok(()),
        reasons => Err(Failure::because("not measured", reasons.join("; "))),
    }
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
    /// Whether each benchmark prints its tables.
    has_tables: bool,
    /// The measured cells whose table is not printed yet: shown if the run ends early.
    unreported: Vec<Measured>,
}

impl<'a> Run<'a> {
    /// Plans a run of the cells that `is_kept` returns true for, and prints the notes of the plan.
    fn begin(
        settings: &'a Settings,
        users_file: Option<u64>,
        has_tables: bool,
        is_kept: impl Fn(&Cell) -> bool,
    ) -> Result<(Self, Plan), Failure> {
        copies::select(settings.copy)?;
        machine::raise_descriptor_limit();
        let cpus = machine::allowed_cpus();
        let limits = Limits {
            nr_cpus: machine::nr_cpus(&cpus),
            memory: machine::available_memory(),
            users_file,
        };
        let mut plan = Plan::new(settings, limits);
        plan.retain(is_kept);
        let durations = plan.cells().map(|cell| planned_duration(cell, settings));
        let run = Self {
            settings,
            cpus,
            progress: Progress::new(durations.sum()),
            has_tables,
            unreported: Vec::new(),
        };
        if plan.cells().next().is_some() {
            plan.notes.iter().for_each(|note| run.progress.note(note));
        }
        Ok((run, plan))
    }
}

impl Run<'_> {
    /// Measures the cells of one benchmark, and reports them.
    fn bench(
        &mut self,
        bench: Bench,
        plan: &Plan,
        users: &mut Option<DataFile>,
    ) -> Result<Vec<Measured>, Failure> {
        let settings = self.settings;
        match bench {
            Bench::Refcount => self.each(&plan.refcount, refcount::run),
            Bench::Pin => self.each(&plan.pin, pin::run),
            Bench::Read if plan.read.is_empty() => Ok(Vec::new()),
            Bench::Read => {
                let (cells, files) = self.read(plan, users.take())?;
                self.report(&cells, &files)?;
                Ok(cells)
            }
            Bench::Write if plan.write.is_empty() => Ok(Vec::new()),
            Bench::Write => {
                let (cells, files) = self.write(plan)?;
                self.report(&cells, &files)?;
                Ok(cells)
            }
            Bench::Contig => self.each(&plan.contig, |cell, schedule, cpus, watch| {
                contig::run(cell, settings, schedule, cpus, watch)
            }),
            Bench::Alloc => self.each(&plan.alloc, alloc::run),
            Bench::Space => self.each(&plan.space, |cell, schedule, cpus, watch| {
                space::run(cell, settings, schedule, cpus, watch)
            }),
            Bench::Fork => self.each(&plan.fork, fork::run),
            Bench::Migrate => self.migrate(&plan.migrate),
            Bench::Tree => self.tree(&plan.tree),
            Bench::Cold => self.cold(&plan.cold),
        }
    }

    /// Simulates the policies that the screen compares.
    fn hit_ratios(&mut self) -> Result<HitRatios, Failure> {
        self.progress.say("hit ratios".to_owned());
        let trace = Workload::Zipf99;
        let requests = trace.requests(REQUESTS, PAGES, FRAMES, 1);
        let mut of = Vec::new();
        for policy in [Policy::Pagewell, Policy::Clock, Policy::QuickCache] {
            let hits = pagewell_sim::hits(policy, FRAMES, &requests, &mut |_| ());
            let ratio = hits as f64 / REQUESTS as f64;
            if self.settings.format == Format::Json {
                let bytes = (FRAMES * DEFAULT_PAGE_SIZE) as u64;
                self.progress
                    .aside(|| report::print_hit_ratio(policy.name(), trace.name(), bytes, ratio))?;
            }
            of.push((policy, ratio));
        }
        Ok(HitRatios {
            title: format!("hit ratio, {trace}"),
            meaning: format!("simulated, {FRAMES} of {PAGES} pages"),
            of,
        })
    }

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
                self.unreported.push(shares.clone());
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
        let mut watch = |done| {
            self.progress.within_cell(done);
            interrupt::check()
        };
        let speeds =
            work(&schedule, &self.cpus, &mut watch).map_err(|failure| in_cell(cell, failure))?;
        self.progress
            .finish_cell(planned_duration(cell, self.settings));
        let measured = Measured::new(*cell, speeds);
        if self.settings.format == Format::Json {
            self.progress.aside(|| report::print(&measured))?;
        }
        self.unreported.push(measured.clone());
        Ok(measured)
    }

    fn report(&mut self, measured: &[Measured], files: &str) -> Result<(), Failure> {
        self.unreported.clear();
        match self.has_tables {
            true => self.show(&report::report(measured, files)),
            false => Ok(()),
        }
    }

    fn show(&self, text: &str) -> Result<(), Failure> {
        self.progress.aside(|| output::print(text))
    }
}

/// Names the cell in which a failure happened.
fn in_cell(cell: &Cell, failure: Failure) -> Failure {
    match failure {
        // A terminal sends Ctrl-C to the processes that a cell has started, too: then they fail.
        Failure::Run(_) if interrupt::is_requested() => Failure::Interrupted,
        Failure::Run(reason) => Failure::because(report::cell_name(cell), reason),
        other => other,
    }
}
