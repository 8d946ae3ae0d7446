//! What a crash test has done, for people and programs.

use std::time::Duration;

use pagewell_crash::Tally;
use serde::Serialize;

use super::runs::Run;
use super::ways::Ways;
use crate::failure::Failure;
use crate::output::{self, Format};

/// What a test has done without finding a fault, and by which ways.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) what: What,
    pub(super) ways: Ways,
}

/// What a test has done.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Kills {
        nr_kills: u64,
        /// How many syncs the killed processes had acknowledged.
        nr_syncs: u64,
    },
    Histories {
        nr_histories: u64,
        tally: Tally,
    },
}

/// One line of JSON. The names are stable: programs read them.
#[derive(Serialize)]
struct Record {
    crash_test: &'static str,
    /// As `--seed` takes it.
    seed: String,
    /// Processes, or histories.
    runs: u64,
    /// Kills, or losses of power.
    crashes: u64,
    /// Syncs that were acknowledged.
    syncs: u64,
    /// Writes, appends and changes of the size that succeeded; 0 where they are not counted.
    changes: u64,
    /// Calls of the storage that were made to fail.
    faults: u64,
    /// By which ways the bytes went, in turn.
    ways: Vec<String>,
    /// Which ways this system has not, and why.
    skipped: Vec<String>,
    seconds: f64,
}

/// Prints what a run has done in so much time.
pub(super) fn print(run: &Run, done: Done, time: Duration, format: Format) -> Result<(), Failure> {
    match format {
        Format::Table => output::print(&line(run, &done, time)),
        Format::Json => output::print_json(&record(run, &done, time)),
    }
}

fn line(run: &Run, done: &Done, time: Duration) -> String {
    let what = match done.what {
        What::Kills { nr_kills, nr_syncs } => {
            format!("{nr_kills} processes killed, {nr_syncs} syncs acknowledged")
        }
        What::Histories {
            nr_histories,
            tally,
        } => format!(
            "{nr_histories} histories, {} losses of power, {} syncs acknowledged, {} calls failed",
            tally.nr_crashes, tally.nr_syncs, tally.nr_faults
        ),
    };
    let skipped = match done.ways.skipped.is_empty() {
        true => String::new(),
        false => format!("; skipped: {}", done.ways.skipped.join(", ")),
    };
    let nr_ways = done.ways.all.len();
    format!(
        "{:<10} {what}: nothing lost, torn or foreign ({:.1} s, seed {:#x}, by {nr_ways} \
         ways{skipped})\n",
        run.name(),
        time.as_secs_f64(),
        run.seed
    )
}

fn record(run: &Run, done: &Done, time: Duration) -> Record {
    let (runs, tally) = match done.what {
        What::Kills { nr_kills, nr_syncs } => {
            let tally = Tally {
                nr_crashes: nr_kills,
                nr_syncs,
                ..Tally::default()
            };
            (nr_kills, tally)
        }
        What::Histories {
            nr_histories,
            tally,
        } => (nr_histories, tally),
    };
    Record {
        crash_test: run.name(),
        seed: format!("{:#x}", run.seed),
        runs,
        crashes: tally.nr_crashes,
        syncs: tally.nr_syncs,
        changes: tally.nr_changes,
        faults: tally.nr_faults,
        ways: done.ways.all.iter().map(|way| way.name()).collect(),
        skipped: done.ways.skipped.clone(),
        seconds: time.as_secs_f64(),
    }
}
