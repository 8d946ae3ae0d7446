//! `pagewell crash-test simulated`: random histories on a simulated device that loses what was not synced.
//!
//! The histories and their checks are those of `pagewell_crash`, which the tests of the library run too.
//! History number `n` of a run that began with seed `s` is that of seed `s + n`: so one that fails is the
//! first of a run that begins with its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use pagewell_crash::{Broken, History, Tally, history, run as run_history};

use super::report::{Done, What};
use super::runs::{Clock, Run};
use super::settings::CrashTestSettings;
use super::ways::{Engine, Transfers, Ways};

/// A history that takes so long does not end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs so many histories; returns what they did.
///
/// # Errors
///
/// What was found, with the command that finds it again.
pub(super) fn run(run: &Run<'_>, clock: &Clock<'_>) -> Result<Done, String> {
    let (seed, broken) = (run.seed, run.settings.broken);
    let ways = Ways::of((run.settings.transfers, run.settings.engine), None)?;
    let settings = run.settings.clone();
    let (sender, outcomes) = mpsc::sync_channel(64);
    // A thread that nobody waits for if it gets stuck.
    std::thread::spawn(move || {
        for number in 0.. {
            let outcome = run_one(&history_of(seed.wrapping_add(number), &settings), broken);
            let has_failed = outcome.is_err();
            if sender.send(outcome).is_err() || has_failed {
                return;
            }
        }
    });
    let mut nr_histories = 0;
    let mut sum = Tally::default();
    while nr_histories < run.settings.histories && !clock.is_over() {
        let why = match outcomes.recv_timeout(PATIENCE) {
            Ok(Ok(tally)) => {
                sum += tally;
                nr_histories += 1;
                clock.step_to(nr_histories);
                continue;
            }
            Ok(Err(why)) => {
                let history = history_of(seed.wrapping_add(nr_histories), run.settings);
                shrink(history, broken, why)
            }
            Err(RecvTimeoutError::Timeout) => format!("not done after {PATIENCE:?}"),
            Err(RecvTimeoutError::Disconnected) => "the histories have ended".to_owned(),
        };
        return Err(run.failure(&why, seed.wrapping_add(nr_histories), 1));
    }
    Ok(Done {
        what: What::Histories {
            nr_histories,
            tally: sum,
        },
        ways,
    })
}

/// The history of a seed, by the way that was asked for.
fn history_of(seed: u64, settings: &CrashTestSettings) -> History {
    let mut history = History::of(seed);
    match (settings.transfers, history.transfers) {
        (Some(Transfers::Buffered), _) => history.transfers = history::Transfers::Buffered,
        (Some(Transfers::Direct), history::Transfers::Buffered) => {
            history.transfers = history::Transfers::Direct(512);
        }
        _ => {}
    }
    if let Some(engine) = settings.engine {
        history.engine = match engine {
            Engine::Sync => history::Engine::Sync,
            Engine::Worker => history::Engine::Worker,
            Engine::Uring => history::Engine::Uring,
        };
    }
    history
}

/// One history. A panic in it, a failed assertion of the library say, is a failure of it.
fn run_one(history: &History, broken: Broken) -> Result<Tally, String> {
    catch_unwind(AssertUnwindSafe(|| run_history(history, broken)))
        .unwrap_or_else(|_| Err("it has panicked".to_owned()))
}

/// What fails, in as few steps as are needed for that.
fn shrink(history: History, broken: Broken, why: String) -> String {
    let (history, why) = history.shrunk(why, |history| run_one(history, broken).map(drop));
    format!("{why}; shrunk to {history:?}")
}
