//! The simulator: a bounded run of it; the whole one is by hand (`docs/verification.md`).

use pagewell_crash::simulator::{self, Tally};

/// How many seeds a bounded run has.
const SEEDS: u64 = 300;

/// A seed has one run: the same threads have their turns at the same moments, and everything that is read and told is the same.
#[test]
fn a_seed_has_one_run() {
    for seed in 1000..1012 {
        let traces = [simulator::run(seed, None), simulator::run(seed, None)];
        let [Ok(first), Ok(second)] = traces else {
            panic!("{traces:?}");
        };
        assert_eq!(first, second, "seed {seed}");
    }
}

#[test]
fn runs_lose_nothing_and_read_nothing_foreign() {
    let mut sum = Tally::default();
    for seed in 0..SEEDS {
        match simulator::run(seed, None) {
            Ok(tally) => sum += tally,
            Err(failure) => panic!(
                "seed {seed}: {}; to replay: cargo run --release -p pagewell-crash --features \
                 simulator -- --seed {seed}",
                failure.why
            ),
        }
    }
    // They do what they are to do.
    let Tally {
        nr_ops,
        nr_syncs,
        nr_crashes,
        nr_dropped,
        nr_errors,
        nr_misdirected,
        nr_noticed,
        ..
    } = sum;
    assert!(nr_ops > 20 * SEEDS && nr_syncs > SEEDS, "{sum:?}");
    assert!(nr_crashes > SEEDS / 4, "{sum:?}");
    assert!(nr_dropped > SEEDS / 4 && nr_errors > SEEDS, "{sum:?}");
    // A transfer at the wrong place is noticed by who knows what the place must have.
    assert!(nr_misdirected > 0 && nr_noticed > 0, "{sum:?}");
}
