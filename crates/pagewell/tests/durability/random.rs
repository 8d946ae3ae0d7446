//! Random histories, with shrinking ([`histories`](crate::histories) says what must hold).

use std::time::Duration;

use pagewell::refcount::RefScheme;
use pagewell_testkit::Seed;
use pagewell_testkit::wait::bounded_by;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::histories::{History, MOST_BYTES, Step, Syncs, Way, What, run};
use crate::support::{self, PAGE};

support::for_both_schemes! {
    what_was_synced_survives_and_reads_agree
    histories_notice_a_sync_that_does_nothing
}

/// How many histories each scheme runs.
const HISTORIES: u32 = 1000;

fn pos() -> impl Strategy<Value = usize> {
    // Around page boundaries is where things go wrong; anywhere is where nobody has thought of it.
    let boundary = (0..=MOST_BYTES / PAGE, -2_isize..=2)
        .prop_map(|(page, off)| (page * PAGE).saturating_add_signed(off).min(MOST_BYTES));
    prop_oneof![2 => 0..=200_usize, 3 => boundary, 2 => 0..=MOST_BYTES]
}

fn len() -> impl Strategy<Value = usize> {
    prop_oneof![2 => 0..=200_usize, 2 => Just(PAGE), 2 => pos(), 1 => 0..=3 * PAGE]
}

fn page() -> impl Strategy<Value = u64> {
    0..=(MOST_BYTES / PAGE) as u64
}

fn step() -> impl Strategy<Value = Step> {
    let what = prop_oneof![
        1 => Just(What::Read),
        2 => Just(What::Write),
        2 => Just(What::SetSize),
        1 => Just(What::Sync),
        1 => Just(What::Any),
        1 => Just(What::Size),
    ];
    let way = prop_oneof![
        Just(Way::Fail),
        Just(Way::DoneThenFail),
        any::<u16>().prop_map(Way::Short),
        Just(Way::Full),
    ];
    let simple = prop_oneof![
        10 => (pos(), len(), any::<u8>()).prop_map(|(pos, len, seed)| Step::Write { pos, len, seed }),
        5 => (len(), any::<u8>()).prop_map(|(len, seed)| Step::Append { len, seed }),
        5 => pos().prop_map(|len| Step::SetLen { len }),
        6 => (pos(), len(), any::<bool>()).prop_map(
            |(pos, len, is_referenced)| Step::Read { pos, len, is_referenced }
        ),
        2 => page().prop_map(|page| Step::Pin { page }),
        2 => any::<usize>().prop_map(|pin| Step::Unpin { pin }),
        4 => (pos(), pos()).prop_map(|(pos, len)| Step::Flush { pos, len }),
        6 => any::<bool>().prop_map(|is_all| Step::Sync { is_all }),
        2 => (pos(), len()).prop_map(|(pos, len)| Step::Discard { pos, len }),
        2 => (pos(), pos()).prop_map(|(pos, len)| Step::Invalidate { pos, len }),
        4 => (1..20_usize).prop_map(|nr| Step::Evict { nr }),
    ];
    prop_oneof![
        45 => simple.clone(),
        3 => (page(), any::<u8>(), simple).prop_map(
            |(page, seed, then)| Step::PinMut { page, seed, then: Box::new(then) }
        ),
        1 => page().prop_map(|page| Step::Hold { page }),
        1 => Just(Step::Release),
        4 => (what, way, 0..3_u8, 1..4_u8).prop_map(
            |(what, way, after, nr)| Step::Break { what, way, after, nr }
        ),
        2 => Just(Step::FailSync),
        1 => (0..6_u64).prop_map(|nr| Step::PowerOffAfter { nr }),
        3 => any::<u64>().prop_map(|seed| Step::Crash { seed }),
        2 => Just(Step::Reopen),
    ]
}

fn history() -> impl Strategy<Value = History> {
    let steps = proptest::collection::vec(step(), 1..30);
    (any::<u64>(), 0..3_u32, any::<bool>(), pos(), steps).prop_map(
        |(seed, page_order, is_torn, len, steps)| History {
            seed,
            page_order,
            is_torn,
            len,
            steps,
        },
    )
}

fn run_many<S: RefScheme>(nr: u32, seed: &Seed, syncs: Syncs) -> Result<(), TestError<History>> {
    let mut rng = seed.rng();
    let mut bytes = [0; 16];
    for chunk in bytes.as_chunks_mut::<8>().0 {
        *chunk = rng.next_u64().to_le_bytes();
    }
    let config = Config {
        cases: nr,
        // The seed is what is kept of a failure.
        failure_persistence: None,
        max_shrink_iters: 4000,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::XorShift, &bytes);
    TestRunner::new_with_rng(config, rng).run(&history(), |history| {
        run::<S>(&history, syncs).map_err(TestCaseError::fail)
    })
}

fn what_was_synced_survives_and_reads_agree<S: RefScheme>() {
    let seed = Seed::of_run();
    bounded_by(Duration::from_secs(180), "histories", move || {
        if let Err(error) = run_many::<S>(HISTORIES, &seed, Syncs::Work) {
            panic!("{error}");
        }
    });
}

/// The same histories on a device whose syncs do nothing, and say that they did.
fn histories_notice_a_sync_that_does_nothing<S: RefScheme>() {
    let seed = Seed::of_run();
    bounded_by(
        Duration::from_secs(180),
        "histories without sync",
        move || {
            let result = run_many::<S>(100, &seed, Syncs::DoNothing);
            let Err(TestError::Fail(reason, history)) = result else {
                panic!("nothing was noticed: {result:?}");
            };
            // By what was lost, and not by chance.
            assert!(
                reason.message().contains("survived"),
                "{reason}: {history:?}"
            );
        },
    );
}
