//! Random histories of one file on a device that loses unsynced data: those of `pagewell_crash`.

use std::time::Duration;

use pagewell_crash::{Broken, History, run};
use pagewell_testkit::Seed;
use pagewell_testkit::wait::bounded_by;

/// Number of histories of a run.
const HISTORIES: u64 = 1000;

/// Runs so many histories; returns the first that fails, and why.
fn first_failure(seed: &Seed, nr: u64, broken: Broken) -> Option<(History, String)> {
    (0..nr).find_map(|part| {
        let history = History::of(seed.part(part).next_u64());
        let error = run(&history, broken).err()?;
        Some((history, error))
    })
}

#[test]
fn what_was_synced_survives_and_reads_agree() {
    let seed = Seed::of_run();
    bounded_by(Duration::from_secs(180), "histories", move || {
        if let Some((history, why)) = first_failure(&seed, HISTORIES, Broken::Nothing) {
            let (shrunk, why) =
                history.shrunk(why, |history| run(history, Broken::Nothing).map(drop));
            panic!("{why}: {shrunk:#?}");
        }
    });
}

/// By what was lost, and not by chance.
fn assert_noticed(broken: Broken, nr: u64, word: &'static str) {
    let seed = Seed::of_run();
    bounded_by(Duration::from_secs(180), "broken histories", move || {
        let (history, why) = first_failure(&seed, nr, broken).expect("it is noticed");
        let told = format!("{why}: {history:?}");
        assert!(told.contains(word), "{told}");
    });
}

/// The same histories on a device whose syncs do nothing, and say that they did.
#[test]
fn histories_notice_a_sync_that_does_nothing() {
    assert_noticed(Broken::Sync, 100, "survived");
}

/// The same with a hook that lets pages go before their records are durable.
#[test]
fn histories_notice_a_log_that_is_not_synced_first() {
    assert_noticed(Broken::Log, 1000, "the log has no record of");
}

/// The same with direct files that stay as long as their last block.
#[test]
fn histories_notice_a_size_that_is_set_too_early() {
    assert_noticed(Broken::Size, 100, "Direct");
}
