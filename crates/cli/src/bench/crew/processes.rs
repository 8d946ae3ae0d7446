//! Crews of processes: the same command again, as a worker.
//!
//! 1. The coordinator makes memory without a name, and starts each worker with
//!    that memory as its standard input.
//! 2. The workers map it and follow the schedule in it, as threads would.
//! 3. The coordinator waits for all to end. When one ends badly it abandons the
//!    gate and kills the others, so that nobody hangs.
//!
//! A worker asks to be killed when its coordinator dies.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::AtomicU32;
use std::thread;
use std::time::Duration;

use clap::Args;
use rustix::fs::{MemfdFlags, memfd_create};

use super::lane::Lane;
use super::schedule::Schedule;
use super::shared::{NR_COUNTS, Shared};
use super::speeds::Speeds;
use super::worker::{Stopped, Worker};
use crate::child;
use crate::failure::Failure;

/// The command line of a worker process, which only `start` writes.
#[derive(Args, Debug)]
pub(crate) struct WorkerArgs {
    /// Which of the team's workers this is
    #[arg(long)]
    pub(crate) worker: u32,
    /// The processor to run on
    #[arg(long)]
    pub(crate) cpu: Option<usize>,
    /// The process that started this one
    #[arg(long)]
    pub(crate) parent: i32,
}

/// How often the coordinator looks after its workers.
const LOOK: Duration = Duration::from_millis(20);

/// Runs the schedule with `crew` processes. `prepare` gets the counts before the
/// workers start, `check` after they have ended.
pub(in crate::bench) fn run_processes(
    schedule: &Schedule,
    cpus: &[usize],
    crew: u32,
    prepare: impl FnOnce(&[&AtomicU32; NR_COUNTS]),
    check: impl FnOnce(&[&AtomicU32; NR_COUNTS]) -> Result<(), String>,
    mut watch: impl FnMut(Duration) -> Result<(), Failure>,
) -> Result<Speeds, Failure> {
    let memory = memfd_create("pagewell-bench", MemfdFlags::CLOEXEC)
        .map(File::from)
        .map_err(|error| Failure::because("cannot make memory to share", error))?;
    let shared = Shared::create(&memory, crew, schedule)?;
    prepare(&shared.counts());
    let mut workers = Workers::default();
    for number in 0..crew {
        let cpu = cpus.get(number as usize % cpus.len().max(1)).copied();
        workers.children.push(Some(start(number, cpu, &memory)?));
    }
    while let Looked::Working = workers.look(&shared)? {
        watch(schedule.step_duration() * shared.nr_done())?;
        thread::sleep(LOOK);
    }
    check(&shared.counts())?;
    let tallies: Vec<_> = (0..crew)
        .map(|number| shared.worker_tallies(number))
        .collect();
    Ok(Speeds::new(schedule, &tallies))
}

/// What a worker process does from start to end. `lanes` makes its lanes of the
/// counts.
pub(in crate::bench) fn work_as_process(
    args: &WorkerArgs,
    lanes: impl for<'a> FnOnce([&'a AtomicU32; NR_COUNTS]) -> Vec<Box<dyn Lane + 'a>>,
) -> Result<(), Failure> {
    child::end_with(args.parent, "benchmark")?;
    let memory = io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map(File::from)
        .map_err(|error| Failure::because("cannot use standard input", error))?;
    let shared = Shared::open(&memory)?;
    let mut lanes = lanes(shared.counts());
    if args.worker >= shared.crew() || lanes.len() != shared.schedule().lanes as usize {
        return Err(Failure::Run("the benchmark has no such worker".to_owned()));
    }
    let worker = Worker {
        schedule: shared.schedule(),
        gate: shared.gate(),
        crew: shared.crew(),
        cpu: args.cpu,
    };
    worker
        .work(&mut lanes, |step, tally| {
            shared.record(args.worker, step, tally)
        })
        .map_err(|stopped| match stopped {
            Stopped::Failed(reason) => Failure::Run(reason),
            Stopped::Abandoned => Failure::Run(ABANDONED.to_owned()),
        })
}

/// Said by workers that are not to blame.
const ABANDONED: &str = "another worker has stopped";

/// Starts one worker.
fn start(number: u32, cpu: Option<usize>, memory: &File) -> Result<Child, Failure> {
    let cannot = |error: io::Error| Failure::because("cannot start a worker process", error);
    let mut command = child::command("bench-worker");
    command.arg(format!("--worker={number}"));
    if let Some(cpu) = cpu {
        command.arg(format!("--cpu={cpu}"));
    }
    command
        .stdin(memory.try_clone().map_err(cannot)?)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(cannot)
}

/// The worker processes; those that have ended are taken out. Dropping kills the
/// rest.
#[derive(Default)]
struct Workers {
    children: Vec<Option<Child>>,
    /// The failure of one that was not to blame.
    abandoned: Option<Failure>,
}

enum Looked {
    Working,
    Ended,
}

impl Workers {
    /// Sees who has ended, and fails if one has ended badly. One that stopped
    /// because of another is no reason to fail before that other is known.
    fn look(&mut self, shared: &Shared) -> Result<Looked, Failure> {
        let mut looked = Looked::Ended;
        for (number, place) in self.children.iter_mut().enumerate() {
            let Some(child) = place else { continue };
            let status = child
                .try_wait()
                .map_err(|error| Failure::because("cannot wait for a worker process", error))?;
            let Some(status) = status else {
                looked = Looked::Working;
                continue;
            };
            let said = child::last_words(child);
            *place = None;
            if !status.success() {
                shared.gate().abandon();
                let failure = Failure::Run(describe(number, status, &said));
                if !said.contains(ABANDONED) {
                    return Err(failure);
                }
                self.abandoned = Some(failure);
            }
        }
        match (looked, self.abandoned.take()) {
            (Looked::Ended, Some(failure)) => Err(failure),
            (looked, abandoned) => {
                self.abandoned = abandoned;
                Ok(looked)
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for child in self.children.iter_mut().flatten() {
            // It may have ended just now, which is as well.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn describe(number: usize, status: ExitStatus, said: &str) -> String {
    let why = child::last_line(said).map_or(String::new(), |line| format!(": {line}"));
    format!("worker process {number} failed ({status}){why}")
}
