//! Gets from what is larger than memory: each engine in a process of its own, each of these in a memory control group of its own with the same bound. So what the
//! operating system keeps of an engine's file counts as much as what the engine keeps itself.
//!
//! 1. The coordinator takes the files out of the operating system's cache: pages belong to the group that brings them in.
//! 2. It starts the same program once for each engine, puts the process into its group, and sends it a [`Job`], one line of JSON.
//! 3. The process opens what it reads, reads until its memory is in use, and says [`Said::Ready`].
//! 4. For each line that it gets then it measures one slice, with all its threads, and says [`Said::Speed`]. The slices of the engines take turns, in the order
//!    of the schedule; meanwhile the other processes sleep.
//!
//! The caches transfer their files past the operating system's, so that nothing is kept twice. Where a group cannot be made, or the file system has no such
//! transfers, all is measured without bounds, and the cell says why.

use std::fs::File as OsFile;
use std::io::{self, BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use clap::Args;
use pagewell::io::{Direct, FileBackend, Transfers};
use pagewell::{Cache, HugePages};
use rustix::fs::{Advice, fadvise};
use serde::{Deserialize, Serialize};

use super::btree::{Access, PAGE, Reader, Views};
use super::engines::{FromMapping, Gets, MMAP, PINS, Pins, READS, Reads, VIEWS};
use super::entries::failed;
use crate::bench::crew::{Bound, Lane, Op, Schedule, Speeds, Timed, Watch, run_threads};
use crate::bench::data::{DataFile, Mapped, Rng};
use crate::cgroup::MemoryGroup;
use crate::child;
use crate::failure::Failure;

/// The command line of an engine's process, which only this file writes.
#[derive(Args, Debug)]
pub(crate) struct EngineArgs {
    /// The process that started this one
    #[arg(long)]
    pub(crate) parent: i32,
}

/// What a process has beside its cache: itself, and what describes the cached pages.
const BESIDE_THE_CACHE: u64 = 8 << 20;

/// What an engine is to do.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Job {
    pub(super) engine: String,
    /// The tree's file, or the folder of another store.
    pub(super) path: PathBuf,
    pub(super) nr_keys: u64,
    pub(super) nr_threads: u32,
    pub(super) cpus: Vec<usize>,
    /// Of the engine's own cache, if it has one.
    pub(super) cache_bytes: u64,
    pub(super) huge_pages: bool,
    /// One slice of the schedule.
    pub(super) slice: Duration,
}

/// What an engine's process says, a line each.
#[derive(Debug, Deserialize, Serialize)]
enum Said {
    /// It can begin. Whether nothing of its file is in the operating system's cache, and in its own too.
    Ready { keeps_twice: Option<String> },
    /// Operations a second, of all threads.
    Speed(f64),
}

/// Measures a cell; `jobs` are in the order of the lanes.
pub(super) fn run(
    jobs: &[Job],
    cache_bytes: u64,
    schedule: &Schedule,
    watch: Watch<'_>,
) -> Result<Speeds, Failure> {
    for job in jobs {
        forget(&job.path)?;
    }
    let most = cache_bytes + BESIDE_THE_CACHE;
    let groups: Result<Vec<_>, _> = jobs
        .iter()
        .map(|job| MemoryGroup::create(&format!("pagewell-{}", job.engine), most))
        .collect();
    let (groups, mut bound) = match groups {
        Ok(groups) => (groups.into_iter().map(Some).collect(), Bound::Bytes(most)),
        Err(why) => (
            jobs.iter().map(|_| None).collect::<Vec<_>>(),
            Bound::CouldNot(why),
        ),
    };
    let mut engines = Vec::with_capacity(jobs.len());
    for (job, group) in jobs.iter().zip(groups) {
        let mut engine = Engine::start(job, group)?;
        if let Said::Ready {
            keeps_twice: Some(why),
        } = engine.hear()?
        {
            bound = Bound::CouldNot(why);
        }
        engines.push(engine);
    }
    let mut of_lanes = vec![Vec::new(); jobs.len()];
    for (nr_done, step) in (1..).zip(schedule.steps()) {
        let engine = &mut engines[step.lane as usize];
        engine.tell("\n")?;
        match engine.hear()? {
            Said::Speed(speed) => of_lanes[step.lane as usize].push(speed),
            Said::Ready { .. } => return Err(engine.confused()),
        }
        watch(schedule.duration() / (schedule.rounds * schedule.lanes).max(1) * nr_done)?;
    }
    Ok(Speeds {
        memory: Some(bound),
        ..Speeds::of(of_lanes)
    })
}

/// Takes what the operating system has of a file, or of the files in a folder, out of its memory.
fn forget(path: &Path) -> Result<(), Failure> {
    let cannot = |error: io::Error| Failure::because(path.display(), error);
    if path.is_dir() {
        for entry in std::fs::read_dir(path).map_err(cannot)? {
            forget(&entry.map_err(cannot)?.path())?;
        }
        return Ok(());
    }
    let file = OsFile::open(path).map_err(cannot)?;
    // What is not on the storage yet would stay.
    file.sync_all().map_err(cannot)?;
    fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| cannot(error.into()))
}

/// The process of an engine. It has ended when this is dropped, and then its group is.
struct Engine {
    name: String,
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    _group: Option<MemoryGroup>,
}

impl Engine {
    fn start(job: &Job, group: Option<MemoryGroup>) -> Result<Engine, Failure> {
        let cannot = |error: io::Error| Failure::because("cannot start an engine's process", error);
        let mut child = child::command("bench-engine")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(cannot)?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (orders, answers) = pipes.ok_or_else(|| cannot(io::ErrorKind::BrokenPipe.into()))?;
        let mut engine = Engine {
            name: job.engine.clone(),
            child,
            orders,
            answers: BufReader::new(answers).lines(),
            _group: group,
        };
        // It waits for its job, and has taken nothing but itself so far.
        if let Some(group) = &engine._group {
            group.add(engine.child.id())?;
        }
        let mut line = serde_json::to_string(job).map_err(|error| cannot(error.into()))?;
        line.push('\n');
        engine.tell(&line)?;
        Ok(engine)
    }

    fn tell(&mut self, line: &str) -> Result<(), Failure> {
        let told = self.orders.write_all(line.as_bytes());
        // If it has ended it has said why.
        told.map_err(|_| self.confused())
    }

    fn hear(&mut self) -> Result<Said, Failure> {
        match self.answers.next() {
            Some(Ok(line)) => serde_json::from_str(&line).map_err(|_| self.confused()),
            _ => Err(self.confused()),
        }
    }

    /// It did not do what it was told.
    fn confused(&mut self) -> Failure {
        let _ = self.child.kill();
        let status = self.child.wait();
        let said = child::last_words(&mut self.child);
        let how = match (child::last_line(&said), status) {
            (Some(line), _) => line.to_owned(),
            (None, Ok(status)) => status.to_string(),
            (None, Err(error)) => error.to_string(),
        };
        Failure::because(format_args!("the process of {}", self.name), how)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // It may have ended already, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What an engine's process does from start to end.
pub(in crate::bench) fn engine_process(args: &EngineArgs) -> Result<(), Failure> {
    child::end_with(args.parent, "benchmark")?;
    let mut orders = io::stdin().lines();
    let line = match orders.next() {
        Some(line) => line.map_err(|error| Failure::because("cannot read the job", error))?,
        None => return Ok(()),
    };
    let job: Job = serde_json::from_str(&line)
        .map_err(|error| Failure::because("cannot understand the job", error))?;
    match job.engine.as_str() {
        MMAP => {
            // Not in huge pages, of which each fault would read one.
            let mapped = Mapped::new(&DataFile::users(&job.path)?, false)?;
            mapped.expect_random()?;
            let tree = Reader(FromMapping(mapped.bytes()));
            serve(&job, orders, gets(&job, tree), None)
        }
        VIEWS | PINS | READS => over_a_cache(&job, orders),
        name => over_a_peer(name, &job, orders),
    }
}

/// Gets for each thread.
fn gets<P: Access + Copy>(job: &Job, tree: Reader<P>) -> Vec<Gets<P>> {
    let rngs = (0..job.nr_threads).map(|worker| Rng::new(u64::from(worker) + 1));
    rngs.map(|rng| Gets::new(tree, job.nr_keys, rng)).collect()
}

type Orders = Lines<io::StdinLock<'static>>;

fn over_a_cache(job: &Job, orders: Orders) -> Result<(), Failure> {
    let cache = Cache::builder()
        .capacity(job.cache_bytes)
        .huge_pages(match job.huge_pages {
            true => HugePages::Advise,
            false => HugePages::Never,
        })
        .build()
        .map_err(failed)?;
    let backend = FileBackend::open_for_reading(&job.path, Direct::Auto).map_err(failed)?;
    let keeps_twice = match backend.transfers() {
        Transfers::Direct { .. } => None,
        buffered => Some(format!("the file is read {buffered}")),
    };
    let file = cache.open_backend(backend, "tree").map_err(failed)?;
    match job.engine.as_str() {
        VIEWS => serve(job, orders, gets(job, Reader(Views(&file))), keeps_twice),
        PINS => serve(job, orders, gets(job, Reader(Pins(&file))), keeps_twice),
        _ => serve(job, orders, gets(job, Reader(Reads(&file))), keeps_twice),
    }
}

#[cfg(feature = "peers")]
fn over_a_peer(name: &str, job: &Job, orders: Orders) -> Result<(), Failure> {
    use super::peers::{Durable, Finds, Opening, Peer, Residence};

    let peer = Peer::ALL.into_iter().find(|peer| peer.name() == name);
    let peer = peer.ok_or_else(|| no_engine(name))?;
    let opening = Opening {
        // redb takes more than it is told to, and was killed for it with all of the bound; the operating system's cache gets the rest.
        cache_bytes: match peer {
            Peer::Redb => job.cache_bytes / 2,
            Peer::Lmdb | Peer::Sqlite => job.cache_bytes,
        },
        nr_threads: job.nr_threads,
        durable: Durable::Now,
        residence: Residence::Partly,
    };
    let store = peer.open(&job.path, opening)?;
    let ops = (0..job.nr_threads)
        .map(|worker| {
            let rng = Rng::new(u64::from(worker) + 1);
            Ok(Finds::new(store.finder()?, job.nr_keys, rng))
        })
        .collect::<Result<_, Failure>>()?;
    serve(job, orders, ops, None)
}

#[cfg(not(feature = "peers"))]
fn over_a_peer(name: &str, _: &Job, _: Orders) -> Result<(), Failure> {
    Err(no_engine(name))
}

fn no_engine(name: &str) -> Failure {
    Failure::Run(format!("there is no engine {name}"))
}

/// Runs a slice for each line, with one thread for each of `ops`.
fn serve(
    job: &Job,
    orders: Orders,
    mut ops: Vec<impl Op>,
    keeps_twice: Option<String>,
) -> Result<(), Failure> {
    // Each page that there is room for is read about twice, by all threads together.
    let nr_gets = 2 * (job.cache_bytes / PAGE as u64) / u64::from(job.nr_threads.max(1));
    slice(job, &mut ops, nr_gets.max(1))?;
    say(&Said::Ready { keeps_twice })?;
    for order in orders {
        order.map_err(|error| Failure::because("cannot read an order", error))?;
        say(&Said::Speed(slice(job, &mut ops, 1)?))?;
    }
    Ok(())
}

/// One slice, of so many operations a thread at the least: operations a second.
fn slice(job: &Job, ops: &mut [impl Op], least: u64) -> Result<f64, Failure> {
    let workers = ops
        .iter_mut()
        .map(|op| {
            let lanes: Vec<Box<dyn Lane + '_>> = vec![Box::new(Timed::at_least(op, least))];
            lanes
        })
        .collect();
    let schedule = Schedule::new(1, 1, job.slice);
    let speeds = run_threads(&schedule, &job.cpus, workers, |_| Ok(()))?;
    let speed = speeds.of_lanes.first().and_then(|rounds| rounds.first());
    Ok(speed.copied().unwrap_or(0.0))
}

fn say(said: &Said) -> Result<(), Failure> {
    crate::output::print_json(said)
}
