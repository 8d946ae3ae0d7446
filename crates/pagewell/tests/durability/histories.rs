//! Random histories of one file on a device that loses what was not synced: those of `pagewell_crash`, for
//! both schemes.

use std::time::Duration;

use pagewell::refcount::RefScheme;
use pagewell_crash::{Broken, History, run};
use pagewell_testkit::Seed;
use pagewell_testkit::wait::bounded_by;

use crate::support;

support::for_both_schemes! {
    what_was_synced_survives_and_reads_agree
    histories_notice_a_sync_that_does_nothing
    histories_notice_a_log_that_is_not_synced_first
    histories_notice_a_size_that_is_set_too_early
}

/// How many histories each scheme runs.
const HISTORIES: u64 = 1000;

/// Runs so many histories; returns the first that fails, and why.
fn first_failure<S: RefScheme>(seed: &Seed, nr: u64, broken: Broken) -> Option<(History, String)> {
    (0..nr).find_map(|part| {
        let history = History::of(seed.part(part).next_u64());
        let error = run::<S>(&history, broken).err()?;
        Some((history, error))
    })
}

fn what_was_synced_survives_and_reads_agree<S: RefScheme>() {
    let seed = Seed::of_run();
    bounded_by(Duration::from_secs(180), "histories", move || {
        if let Some((history, why)) = first_failure::<S>(&seed, HISTORIES, Broken::Nothing) {
            let (shrunk, why) =
                history.shrunk(why, |history| run::<S>(history, Broken::Nothing).map(drop));
            panic!("{why}: {shrunk:#?}");
        }
    });
}

/// By what was lost, and not by chance.
fn assert_noticed<S: RefScheme>(broken: Broken, nr: u64, word: &'static str) {
    let seed = Seed::of_run();
    bounded_by(Duration::from_secs(180), "broken histories", move || {
        let (history, why) = first_failure::<S>(&seed, nr, broken).expect("it is noticed");
        let told = format!("{why}: {history:?}");
        assert!(told.contains(word), "{told}");
    });
}

/// The same histories on a device whose syncs do nothing, and say that they did.
fn histories_notice_a_sync_that_does_nothing<S: RefScheme>() {
    assert_noticed::<S>(Broken::Sync, 100, "survived");
}

/// The same with a hook that lets pages go before their records are durable.
fn histories_notice_a_log_that_is_not_synced_first<S: RefScheme>() {
    assert_noticed::<S>(Broken::Log, 1000, "the log has no record of");
}

/// The same with direct files that stay as long as their last block.
fn histories_notice_a_size_that_is_set_too_early<S: RefScheme>() {
    assert_noticed::<S>(Broken::Size, 100, "Direct");
}
