//! `pagewell crash-test`: whether everything that was synced is there after a crash.
//!
//! | module | what |
//! |---|---|
//! | [`kill`] | writing processes that are killed at random moments |
//! | [`simulated`] | random histories on a device that loses what was not synced |
//! | [`report`] | what was done, for people and programs |
//!
//! A failure is told in one line with the command that repeats it, and ends the program with exit code 1.

mod kill;
mod report;
mod simulated;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Instant;

use pagewell_crash::Broken;

use crate::args::{CrashTestMode, CrashTestSettings, CrashTestWriterArgs};
use crate::failure::Failure;
use crate::progress::Progress;

/// Runs the tests that the settings ask for.
pub(crate) fn run(settings: &CrashTestSettings) -> Result<(), Failure> {
    // The keys of the standard library's hash maps are random: the one source of it there.
    let seed = settings
        .seed
        .unwrap_or_else(|| RandomState::new().hash_one(0_u8));
    for mode in &settings.modes {
        let run = Run {
            mode: *mode,
            seed,
            settings,
        };
        let start = Instant::now();
        let done = run.execute(start)?;
        report::print(&run, done, start.elapsed(), settings.format)?;
    }
    Ok(())
}

/// The writing process of the kill mode.
pub(crate) fn writer_process(args: &CrashTestWriterArgs) -> Result<(), Failure> {
    kill::writer::process(args)
}

/// One of the tests.
struct Run<'s> {
    mode: CrashTestMode,
    seed: u64,
    settings: &'s CrashTestSettings,
}

impl Run<'_> {
    fn name(&self) -> &'static str {
        match self.mode {
            CrashTestMode::Kill => "kill",
            CrashTestMode::Simulated => "simulated",
        }
    }

    fn execute(&self, start: Instant) -> Result<report::Done, Failure> {
        let progress = Progress::of_steps(match self.mode {
            CrashTestMode::Kill => u64::from(self.settings.kills),
            CrashTestMode::Simulated => self.settings.histories,
        });
        progress.say(format!("{}, seed {:#x}", self.name(), self.seed));
        let clock = Clock {
            run: self,
            start,
            progress,
        };
        let done = match self.mode {
            CrashTestMode::Kill => kill::run(self, &clock),
            CrashTestMode::Simulated => simulated::run(self, &clock),
        };
        done.map_err(Failure::Run)
    }

    /// A failure with the command that repeats it: with this seed, and so many runs of the test.
    fn failure(&self, why: &str, seed: u64, nr_runs: u64) -> String {
        let name = self.name();
        let (runs, threads) = match self.mode {
            CrashTestMode::Kill => ("kills", self.settings.threads),
            CrashTestMode::Simulated => ("histories", None),
        };
        let threads = threads.map_or(String::new(), |nr| format!(" --threads {nr}"));
        let broken = match self.settings.broken {
            Broken::Nothing => "",
            Broken::Sync => " --break sync",
            Broken::Log => " --break log",
        };
        format!(
            "crash-test {name}: {why}; to replay: pagewell crash-test {name} --seed {seed:#x} \
             --{runs} {nr_runs}{threads}{broken}"
        )
    }
}

/// How far a test has come, and whether its time is over.
struct Clock<'r> {
    run: &'r Run<'r>,
    start: Instant,
    progress: Progress,
}

impl Clock<'_> {
    fn is_over(&self) -> bool {
        let limit = self.run.settings.limit;
        limit.is_some_and(|limit| self.start.elapsed() >= limit)
    }

    fn step_to(&self, done: u64) {
        self.progress.step_to(done);
    }
}
