//! One of the tests, and how far it has come.

use std::time::Instant;

use pagewell_crash::Broken;

use super::settings::{CrashTestSettings, Mode};
use crate::progress::Progress;

/// One of the tests.
pub(super) struct Run<'s> {
    pub(super) mode: Mode,
    pub(super) seed: u64,
    pub(super) settings: &'s CrashTestSettings,
}

impl Run<'_> {
    pub(super) fn name(&self) -> &'static str {
        match self.mode {
            Mode::Kill => "kill",
            Mode::Simulated => "simulated",
        }
    }

    /// A failure with the command that repeats it: with this seed, and so many runs of the test.
    pub(super) fn failure(&self, why: &str, seed: u64, nr_runs: u64) -> String {
        let name = self.name();
        let (runs, threads) = match self.mode {
            Mode::Kill => ("kills", self.settings.threads),
            Mode::Simulated => ("histories", None),
        };
        let threads = threads.map_or(String::new(), |nr| format!(" --threads {nr}"));
        let broken = match self.settings.broken {
            Broken::Nothing => "",
            Broken::Sync => " --break sync",
            Broken::Log => " --break log",
            Broken::Size => " --break size",
        };
        let transfers = self
            .settings
            .transfers
            .map_or(String::new(), |way| format!(" --transfers {}", way.name()));
        let engine = self
            .settings
            .engine
            .map_or(String::new(), |way| format!(" --engine {}", way.name()));
        format!(
            "crash-test {name}: {why}; to replay: pagewell crash-test {name} --seed {seed:#x} \
             --{runs} {nr_runs}{threads}{transfers}{engine}{broken}"
        )
    }
}

/// How far a test has come, and whether its time is over.
pub(super) struct Clock<'r> {
    pub(super) run: &'r Run<'r>,
    pub(super) start: Instant,
    pub(super) progress: Progress,
}

impl Clock<'_> {
    pub(super) fn is_over(&self) -> bool {
        let limit = self.run.settings.limit;
        limit.is_some_and(|limit| self.start.elapsed() >= limit)
    }

    pub(super) fn step_to(&self, done: u64) {
        self.progress.step_to(done);
    }
}
