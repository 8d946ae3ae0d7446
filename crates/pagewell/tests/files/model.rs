//! Random histories of a cache against the naive model, with shrinking.
//!
//! What is compared is said in `history`; the fuzz target runs the same.

use std::time::Duration;

use pagewell_testkit::Seed;
use pagewell_testkit::history::{
    Breakage, FileSpec, History, MAX_FILE_BYTES, MAX_FILES, MAX_FRAMES, MAX_PAGE_ORDER,
    MAX_READ_BYTES, MIN_FRAMES, Spot, Step, Store, Tell, Way,
};
use pagewell_testkit::wait::bounded_by;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

/// Number of histories of a run.
const HISTORIES: u32 = 1500;

fn len(most: u32) -> impl Strategy<Value = u32> {
    // Around page boundaries is where things go wrong; anywhere is where nobody has thought of it.
    let boundary = (0..=most / 4096, -2_i32..=2)
        .prop_map(move |(page, off)| (page * 4096).saturating_add_signed(off).min(most));
    prop_oneof![2 => 0..=most.min(100), 2 => boundary, 2 => 0..=most.min(20_000), 1 => 0..=most]
}

fn spot() -> impl Strategy<Value = Spot> {
    prop_oneof![
        8 => len(MAX_FILE_BYTES + 4096).prop_map(Spot::Start),
        3 => (-9000..200_i32).prop_map(Spot::End),
        1 => (0..9000_u16).prop_map(Spot::Last),
    ]
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![3 => Just(Way::Optimistic), 1 => Just(Way::Referenced), 2 => Just(Way::Views)]
}

fn tell() -> impl Strategy<Value = Tell> {
    prop_oneof![
        Just(Tell::Both),
        Just(Tell::Invalidate),
        Just(Tell::Refresh),
        Just(Tell::Nothing),
    ]
}

fn breakage() -> impl Strategy<Value = Breakage> {
    prop_oneof![
        Just(Breakage::Fail),
        any::<u16>().prop_map(Breakage::EndAfter)
    ]
}

fn open() -> impl Strategy<Value = Step> {
    let page_order = proptest::option::weighted(0.15, 0..=MAX_PAGE_ORDER);
    (any::<u8>(), 0..2_u8, page_order).prop_map(|(file, name, page_order)| Step::Open {
        file,
        name,
        page_order,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let which = any::<u8>;
    prop_oneof![
        8 => open(),
        1 => which().prop_map(|handle| Step::Clone { handle }),
        2 => which().prop_map(|handle| Step::Close { handle }),
        20 => (which(), spot(), len(MAX_READ_BYTES), way()).prop_map(
            |(handle, from, len, way)| Step::Read { handle, from, len, way }
        ),
        4 => (which(), spot()).prop_map(|(handle, at)| Step::Pin { handle, at }),
        2 => (which(), spot(), 0..12_u8).prop_map(
            |(handle, at, nr_steps)| Step::PinDuring { handle, at, nr_steps }
        ),
        3 => which().prop_map(|pin| Step::Unpin { pin }),
        2 => (0..MAX_FRAMES).prop_map(|nr| Step::Evict { nr }),
        2 => (which(), spot(), len(MAX_FILE_BYTES)).prop_map(
            |(handle, from, len)| Step::Invalidate { handle, from, len }
        ),
        1 => which().prop_map(|handle| Step::Refresh { handle }),
        4 => (which(), spot(), any::<u16>(), any::<u8>(), tell()).prop_map(
            |(file, from, len, seed, tell)| Step::Write { file, from, len, seed, tell }
        ),
        3 => (which(), len(MAX_FILE_BYTES), any::<u8>(), tell()).prop_map(
            |(file, len, seed, tell)| Step::SetLen { file, len, seed, tell }
        ),
        2 => (which(), breakage(), 0..3_u8, 1..4_u8).prop_map(
            |(file, breakage, after, nr)| Step::Break { file, breakage, after, nr }
        ),
    ]
}

fn file() -> impl Strategy<Value = FileSpec> {
    let store = prop_oneof![7 => Just(Store::Memory), 1 => Just(Store::Disk)];
    (len(MAX_FILE_BYTES), 0..=MAX_PAGE_ORDER, store).prop_map(|(len, page_order, store)| FileSpec {
        len,
        page_order,
        store,
    })
}

fn history() -> impl Strategy<Value = History> {
    let files = proptest::collection::vec(file(), 1..=MAX_FILES);
    // The first step opens something; a history that opens nothing does nothing.
    let steps = (open(), proptest::collection::vec(step(), 0..40));
    (MIN_FRAMES..=MAX_FRAMES, 1..=3_u8, files, steps).prop_map(
        |(nr_frames, nr_nodes, files, (first, mut steps))| {
            steps.insert(0, first);
            History {
                nr_frames,
                nr_nodes,
                files,
                steps,
            }
        },
    )
}

#[test]
fn histories_agree_with_the_model() {
    let seed = Seed::of_run();
    let mut rng = seed.rng();
    let mut bytes = [0; 16];
    for chunk in bytes.as_chunks_mut::<8>().0 {
        *chunk = rng.next_u64().to_le_bytes();
    }
    // Shrinking included; a history that hangs is found with the seed.
    bounded_by(Duration::from_secs(180), "histories", move || {
        let config = Config {
            cases: HISTORIES,
            // The seed is what is kept of a failure.
            failure_persistence: None,
            max_shrink_iters: 20_000,
            ..Config::default()
        };
        let rng = TestRng::from_seed(RngAlgorithm::XorShift, &bytes);
        let result = TestRunner::new_with_rng(config, rng).run(&history(), |case| {
            crate::history::run(&case).map_err(TestCaseError::fail)
        });
        if let Err(error) = result {
            panic!("{error}");
        }
    });
}
