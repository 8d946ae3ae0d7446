//! Random histories: what is read through the wrapper is what the bare store gives.

use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore as _, ObjectStoreExt as _};
use pagewell_object_store::PagewellStore;
use proptest::prelude::*;

use crate::{PAGE, content};

#[derive(Clone, Debug)]
enum Step {
    Put { to: u8, len: usize, behind: bool },
    Delete { at: u8, behind: bool },
    Copy { from: u8, to: u8 },
    Get { at: u8, range: Option<GetRange> },
    Ranges { at: u8, ranges: Vec<(u64, u64)> },
    Head { at: u8 },
}

fn lens() -> impl Strategy<Value = usize> {
    prop_oneof![
        0..20_usize,
        (0..6_usize, 0..3_usize).prop_map(|(pages, more)| (pages * PAGE + more).saturating_sub(1)),
        0..80_000_usize
    ]
}

fn ranges() -> impl Strategy<Value = Option<GetRange>> {
    let at = || {
        prop_oneof![
            0..90_000_u64,
            (0..20_u64).prop_map(|page| page * PAGE as u64)
        ]
    };
    prop_oneof![
        Just(None),
        (at(), 0..40_000_u64).prop_map(|(start, len)| Some(GetRange::Bounded(start..start + len))),
        at().prop_map(|start| Some(GetRange::Offset(start))),
        at().prop_map(|len| Some(GetRange::Suffix(len))),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = || 0..3_u8;
    let step = prop_oneof![
        2 => (name(), lens(), any::<bool>())
            .prop_map(|(to, len, behind)| Step::Put { to, len, behind }),
        1 => (name(), any::<bool>()).prop_map(|(at, behind)| Step::Delete { at, behind }),
        1 => (name(), name()).prop_map(|(from, to)| Step::Copy { from, to }),
        6 => (name(), ranges()).prop_map(|(at, range)| Step::Get { at, range }),
        3 => (name(), prop::collection::vec((0..80_000_u64, 1..9000_u64), 1..6))
            .prop_map(|(at, ranges)| Step::Ranges { at, ranges }),
        1 => name().prop_map(|at| Step::Head { at }),
    ];
    prop::collection::vec(step, 1..40)
}

async fn run(steps: Vec<Step>, trust: Duration) -> Result<(), TestCaseError> {
    let bare = Arc::new(InMemory::new());
    let store = PagewellStore::builder(Arc::clone(&bare))
        .capacity(1 << 20)
        .page_size(PAGE)
        .most_objects(2)
        .trust(trust)
        .build()
        .unwrap();
    let path = |nr: u8| Path::from(format!("objects/{nr}"));
    for (nr, step) in steps.into_iter().enumerate() {
        match step {
            Step::Put { to, len, behind } => {
                let bytes = content(len, nr as u8);
                if behind && trust == Duration::ZERO {
                    bare.put(&path(to), bytes.into()).await.unwrap();
                } else {
                    store.put(&path(to), bytes.into()).await.unwrap();
                }
            }
            Step::Delete { at, behind } => {
                if behind && trust == Duration::ZERO {
                    let _ = bare.delete(&path(at)).await;
                } else {
                    let _ = store.delete(&path(at)).await;
                }
            }
            Step::Copy { from, to } => {
                let _ = store.copy(&path(from), &path(to)).await;
            }
            Step::Get { at, range } => {
                let options = GetOptions::default().with_range(range.clone());
                let expected = bare.get_opts(&path(at), options.clone()).await;
                let got = store.get_opts(&path(at), options).await;
                match (expected, got) {
                    (Ok(expected), Ok(got)) => {
                        prop_assert_eq!((&expected.meta, &expected.range), (&got.meta, &got.range));
                        let (expected, got) =
                            (expected.bytes().await.unwrap(), got.bytes().await.unwrap());
                        prop_assert!(expected == got, "{:?}", range);
                    }
                    (Err(expected), Err(got)) => {
                        prop_assert_eq!(expected.to_string(), got.to_string())
                    }
                    (expected, got) => {
                        prop_assert!(false, "{:?}: {:?}, and not {:?}", range, got, expected)
                    }
                }
            }
            Step::Ranges { at, ranges } => {
                let ranges: Vec<_> = ranges
                    .into_iter()
                    .map(|(start, len)| start..start + len)
                    .collect();
                let expected = bare.get_ranges(&path(at), &ranges).await;
                let got = store.get_ranges(&path(at), &ranges).await;
                match (expected, got) {
                    (Ok(expected), Ok(got)) => prop_assert!(expected == got, "{:?}", ranges),
                    (Err(_), Err(_)) => {}
                    (expected, got) => {
                        prop_assert!(false, "{:?}: {:?}, and not {:?}", ranges, got, expected)
                    }
                }
            }
            Step::Head { at } => {
                let (expected, got) = (bare.head(&path(at)).await, store.head(&path(at)).await);
                prop_assert_eq!(expected.ok(), got.ok());
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn reads_are_those_of_the_bare_store(steps in steps(), is_trusted: bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let trust = if is_trusted { Duration::MAX } else { Duration::ZERO };
        runtime.block_on(run(steps, trust))?;
    }
}
