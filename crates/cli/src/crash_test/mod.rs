//! `pagewell crash-test`: whether everything that was synced is there after a crash.
//!
//! | module | what |
//! |---|---|
//! | [`kill`] | writing processes that are killed at random moments |
//! | [`simulated`] | random histories on a device that loses what was not synced |
//! | [`ways`] | how the file is transferred, and by which engine |
//! | [`report`] | what was done, for people and programs |
//!
//! - **Owns** the tests and what they have found; the histories and checks of the simulated device are those of `pagewell_crash`.
//! - **May call** nothing of the benchmarks, nor the command line.
//! - **Promises** that a failure is told in one line, with the command that repeats it, and ends the program with exit code 1.

mod kill;
mod report;
mod runs;
mod settings;
mod simulated;
mod ways;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Instant;

pub(crate) use self::kill::WriterArgs;
use self::runs::{Clock, Run};
pub(crate) use self::settings::{CrashTestSettings, Mode};
pub(crate) use self::ways::{Engine, Transfers};
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
        let done = execute(&run, start)?;
        report::print(&run, done, start.elapsed(), settings.format)?;
    }
    Ok(())
}

/// The writing process of the kill mode.
pub(crate) fn writer_process(args: &WriterArgs) -> Result<(), Failure> {
    kill::process(args)
}

fn execute(run: &Run<'_>, start: Instant) -> Result<report::Done, Failure> {
    let progress = Progress::of_steps(match run.mode {
        Mode::Kill => u64::from(run.settings.kills),
        Mode::Simulated => run.settings.histories,
    });
    progress.say(format!("{}, seed {:#x}", run.name(), run.seed));
    let clock = Clock {
        run,
        start,
        progress,
    };
    let done = match run.mode {
        Mode::Kill => kill::run(run, &clock),
        Mode::Simulated => simulated::run(run, &clock),
    };
    done.map_err(Failure::Run)
}
