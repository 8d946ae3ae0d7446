//! `pagewell crash-test kill`: a process that writes is killed at a random moment, and its file checked.
//!
//! # Protocol
//!
//! 1. The parent makes a file, and starts a writing process: the same program, not forked.
//! 2. The process opens the file through the cache, works ([`ops`]), and reports every sync ([`writer`]).
//! 3. The parent kills it (`SIGKILL`) at the moment that the seed says ([`life`]), and takes the reports
//!    that are in the pipe.
//! 4. It opens the file for writing: nobody has it locked any more (if the process had a ring of io_uring, soon). Through the cache it has the bytes
//!    that the system has for it. They are checked ([`check`]).
//! 5. The next process goes on with what was found.
//!
//! The operating system lives on, and with it whatever it was given, durable or not. So this does not show
//! that what was synced survives a loss of power: `pagewell crash-test simulated` does. It shows that a
//! sync is acknowledged only when the system has everything, through threads, eviction, writeback and
//! throttling as they are.
//!
//! How the file is transferred, and by which engine, takes turns ([`super::ways`]): so files that were written directly are gone on with through the system's cache, and the
//! other way round.
//!
//! What a process does follows from the seed; how far it gets until it is killed, and in which order its
//! threads run, is the machine's.

mod check;
mod life;
mod ops;
mod writer;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pagewell::ErrorKind;
use pagewell::io::Transfers;
use pagewell_crash::Broken;
use rustix::process::Signal;

use self::check::Acknowledged;
use self::life::{Life, Moment};
use self::ops::TAIL_START;
pub(crate) use self::writer::WriterArgs;
pub(super) use self::writer::process;
use super::report::{Done, What};
use super::runs::{Clock, Run};
use super::ways::{Engine, Ways};
use crate::child;

/// A process that reports nothing for so long is stuck. The slowest storage has synced by then.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the system may keep the file of a dead process open that had a ring of io_uring.
const UNTIL_FREE: Duration = Duration::from_secs(10);

/// Kills so many processes; returns what they did.
///
/// # Errors
///
/// What was found, with the command that may find it again.
pub(super) fn run(run: &Run<'_>, clock: &Clock<'_>) -> Result<Done, String> {
    let settings = run.settings;
    let folder = match &settings.dir {
        Some(dir) => tempfile::tempdir_in(dir),
        None => tempfile::tempdir(),
    }
    .map_err(|error| format!("cannot make a folder for the file: {error}"))?;
    let ways = Ways::of((settings.transfers, settings.engine), Some(folder.path()))?;
    let path = folder.path().join("written");
    let mut found =
        make(&path).map_err(|error| format!("cannot make {}: {error}", path.display()))?;
    let (mut nr_kills, mut nr_syncs) = (0, 0);
    while nr_kills < u64::from(settings.kills) && !clock.is_over() {
        let life = Life::of(run.seed, nr_kills + 1, settings.threads).by(ways.turn(nr_kills));
        let lived = live(run, &life, &path).and_then(|acknowledged| {
            found = look(&life, &path, &found, &acknowledged)?;
            Ok(acknowledged.nr_syncs)
        });
        match lived {
            Ok(nr) => nr_syncs += nr,
            Err(why) => {
                // For whoever wants to see.
                let kept = folder.keep().join("written");
                let why = format!(
                    "process {} ({}): {why}; the file is kept: {}",
                    life.number,
                    life.way.name(),
                    kept.display()
                );
                return Err(run.failure(&why, run.seed, settings.kills.into()));
            }
        }
        nr_kills += 1;
        clock.step_to(nr_kills);
    }
    Ok(Done {
        what: What::Kills { nr_kills, nr_syncs },
        ways,
    })
}

/// Makes the file; returns its bytes.
fn make(path: &Path) -> io::Result<Vec<u8>> {
    File::create_new(path)?.set_len(TAIL_START)?;
    fs::read(path)
}

/// One process, from its start to the moment when it is killed; returns what it has reported.
fn live(run: &Run<'_>, life: &Life, path: &Path) -> Result<Acknowledged, String> {
    let mut process = Process::start(run, life, path)?;
    let mut acknowledged = Acknowledged::nothing(life);
    let result = process.watch(life.moment, &mut acknowledged);
    // What it had reported before it died counts.
    let ended = process.kill();
    for line in process.rest() {
        process.take(&line, &mut acknowledged)?;
    }
    result.and(ended)?;
    Ok(acknowledged)
}

/// A writing process.
struct Process {
    child: Child,
    lines: Receiver<String>,
    reader: Option<JoinHandle<()>>,
}

impl Process {
    fn start(run: &Run<'_>, life: &Life, path: &Path) -> Result<Process, String> {
        let cannot = |error| format!("cannot be started: {error}");
        let mut command = child::command("crash-test-writer");
        command
            .arg("--file")
            .arg(path)
            .arg(format!("--seed={}", run.seed))
            .arg(format!("--life={}", life.number))
            .arg(format!("--threads={}", life.nr_threads))
            .arg(format!("--transfers={}", life.way.transfers.name()))
            .arg(format!("--engine={}", life.way.engine.name()));
        if run.settings.broken == Broken::Sync {
            command.arg("--break-sync");
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(cannot)?;
        let Some(stdout) = child.stdout.take() else {
            return Err("it has no standard output".to_owned());
        };
        let (sender, lines) = mpsc::channel();
        let reader = std::thread::spawn(move || pass_on(stdout, &sender));
        Ok(Process {
            child,
            lines,
            reader: Some(reader),
        })
    }

    /// Waits until the moment to kill it has come.
    fn watch(&mut self, moment: Moment, acknowledged: &mut Acknowledged) -> Result<(), String> {
        if let Moment::Start(delay) = moment {
            return self.wait(delay, acknowledged);
        }
        let line = self.line()?;
        if line != "ready" {
            return Err(format!("it says {line:?}"));
        }
        match moment {
            Moment::Start(delay) | Moment::Ready(delay) => self.wait(delay, acknowledged),
            Moment::Syncs(nr, delay) => {
                while acknowledged.nr_syncs < nr {
                    let line = self.line()?;
                    self.take(&line, acknowledged)?;
                }
                self.wait(delay, acknowledged)
            }
        }
    }

    /// Takes reports for so long.
    fn wait(&mut self, delay: Duration, acknowledged: &mut Acknowledged) -> Result<(), String> {
        let start = Instant::now();
        while let Some(left) = delay.checked_sub(start.elapsed()) {
            match self.lines.recv_timeout(left) {
                Ok(line) => self.take(&line, acknowledged)?,
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return Err(self.why_it_ended()),
            }
        }
        Ok(())
    }

    fn line(&mut self) -> Result<String, String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => Err(format!("it reports nothing for {PATIENCE:?}")),
            Err(RecvTimeoutError::Disconnected) => Err(self.why_it_ended()),
        }
    }

    fn take(&self, line: &str, acknowledged: &mut Acknowledged) -> Result<(), String> {
        if line == "ready" {
            return Ok(());
        }
        acknowledged
            .take(line)
            .ok_or_else(|| format!("it says {line:?}"))
    }

    /// It should have written until it was killed.
    fn why_it_ended(&mut self) -> String {
        let status = match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        let said = child::last_words(&mut self.child);
        let why = child::last_line(&said).unwrap_or("it says nothing");
        format!("it has ended by itself ({status}): {why}")
    }

    /// Kills it, and waits until it is dead. That it has ended by itself meanwhile is an error.
    fn kill(&mut self) -> Result<(), String> {
        use std::os::unix::process::ExitStatusExt;
        let killed = self.child.kill().and_then(|()| self.child.wait());
        let status = killed.map_err(|error| format!("cannot be killed: {error}"))?;
        match status.signal() == Some(Signal::KILL.as_raw()) {
            true => Ok(()),
            false => Err(self.why_it_ended()),
        }
    }

    /// The reports that nobody has taken yet; it is dead.
    fn rest(&mut self) -> Vec<String> {
        if let Some(reader) = self.reader.take() {
            // It does not panic.
            let _ = reader.join();
        }
        self.lines.try_iter().collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be dead already, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Passes whole lines on until the pipe ends. A line without an end was never acknowledged to anybody.
fn pass_on(stdout: ChildStdout, lines: &mpsc::Sender<String>) {
    let mut stdout = BufReader::new(stdout);
    let mut line = String::new();
    while let Ok(1..) = stdout.read_line(&mut line) {
        let Some(whole) = line.strip_suffix('\n') else {
            return;
        };
        if lines.send(whole.to_owned()).is_err() {
            return;
        }
        line.clear();
    }
}

/// Opens the file for writing, which takes the lock. What a dead process had given to a ring of io_uring, the system may still be doing when the process is gone,
/// and keeps the file open until it is done.
fn open_when_free(
    cache: &pagewell::Cache,
    life: &Life,
    path: &Path,
) -> Result<pagewell::File, pagewell::Error> {
    let start = Instant::now();
    loop {
        match cache.open_with(path, &life.options()) {
            Err(error)
                if error.kind() == ErrorKind::Busy
                    && life.way.engine == Engine::Uring
                    && start.elapsed() < UNTIL_FREE =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            result => return result,
        }
    }
}

/// Opens the file that a dead process has left, and checks it; returns its bytes.
fn look(
    life: &Life,
    path: &Path,
    before: &[u8],
    acknowledged: &Acknowledged,
) -> Result<Vec<u8>, String> {
    let cannot = |error: pagewell::Error| format!("the file cannot be used any more: {error}");
    let cache = life.cache().map_err(cannot)?;
    let file = open_when_free(&cache, life, path).map_err(cannot)?;
    // With the lock, so that nothing of the dead process is under way any more.
    let given = fs::read(path).map_err(|error| format!("cannot read the file: {error}"))?;
    let mut bytes = vec![0; file.size() as usize];
    let n = file.read_at(&mut bytes, 0).map_err(cannot)?;
    if n != bytes.len() || bytes != given {
        return Err("the cache reads other bytes than the system has".to_owned());
    }
    let unit = match file.transfers() {
        Some(Transfers::Direct { alignment }) => alignment,
        _ => 1,
    };
    check::check(life, unit, (before, &bytes), acknowledged)?;
    Ok(bytes)
}
