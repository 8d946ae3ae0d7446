//! Random histories over a store that fails, breaks off, is late, lies about lengths, and changes under its readers.
//!
//! What may be read is known at each step: the states that an object has had since the last change through the wrapper, or since the step began if nothing is
//! believed. An answer is the range of one of them. A read fails only if a fault came in the same step, or one of these states has no such range.
//!
//! `PAGEWELL_STORMS` says how many histories are run; 2000 by default.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore as _, ObjectStoreExt as _};
use pagewell_object_store::PagewellStore;
use proptest::prelude::*;

use crate::probe::{Act, Probe, failure};
use crate::{PAGE, content};

/// A long answer comes in pieces of this size.
const PIECE: usize = 4 << 20;

#[derive(Clone, Debug)]
enum Fault {
    None,
    /// The status 500.
    Internal,
    /// The status 503: the store asks for patience.
    SlowDown,
    TimeOut,
    Late,
    Cut(usize),
    Break(usize),
    Long(usize),
    Elsewhere,
    Larger(u64),
    Replace {
        len: usize,
        is_after: bool,
    },
}

#[derive(Clone, Debug)]
enum Read {
    Get(Option<GetRange>),
    Ranges(Vec<Range<u64>>),
}

#[derive(Clone, Debug)]
enum Step {
    Put {
        to: u8,
        len: usize,
        is_behind: bool,
    },
    Delete {
        at: u8,
        is_behind: bool,
    },
    Copy {
        from: u8,
        to: u8,
    },
    Forget {
        at: u8,
    },
    /// Reads at the same time; of each, whether it is given up before it has its answer. The faults are those of the gets that the step comes to, one after the other.
    Reads {
        reads: Vec<(u8, Read, bool)>,
        faults: Vec<Fault>,
    },
}

#[derive(Clone, Debug)]
struct Settings {
    is_trusted: bool,
    hedge: bool,
    has_disk: bool,
    most_requests: usize,
    most_objects: usize,
}

fn lens() -> impl Strategy<Value = usize> {
    prop_oneof![
        40 => 0..20_usize,
        160 => (0..9_usize, 0..3_usize)
            .prop_map(|(pages, more)| (pages * PAGE + more).saturating_sub(1)),
        80 => 0..80_000_usize,
        1 => (0..3 * PAGE).prop_map(|more| PIECE + more),
    ]
}

fn reads() -> impl Strategy<Value = Read> {
    let at = || {
        prop_oneof![
            0..40_000_u64,
            (0..10_u64).prop_map(|page| page * PAGE as u64)
        ]
    };
    let range = || (at(), 1..20_000_u64).prop_map(|(start, len)| start..start + len);
    prop_oneof![
        2 => Just(Read::Get(None)),
        4 => range().prop_map(|range| Read::Get(Some(GetRange::Bounded(range)))),
        1 => at().prop_map(|start| Read::Get(Some(GetRange::Offset(start)))),
        1 => (1..40_000_u64).prop_map(|len| Read::Get(Some(GetRange::Suffix(len)))),
        3 => prop::collection::vec(range(), 1..5).prop_map(Read::Ranges),
    ]
}

fn faults() -> impl Strategy<Value = Fault> {
    prop_oneof![
        6 => Just(Fault::None),
        1 => Just(Fault::Internal),
        1 => Just(Fault::SlowDown),
        1 => Just(Fault::TimeOut),
        1 => Just(Fault::Late),
        1 => (0..2 * PAGE).prop_map(Fault::Cut),
        1 => (0..2 * PAGE).prop_map(Fault::Break),
        1 => (1..2 * PAGE).prop_map(Fault::Long),
        1 => Just(Fault::Elsewhere),
        1 => (1..2 * PAGE as u64).prop_map(Fault::Larger),
        2 => (lens(), any::<bool>()).prop_map(|(len, is_after)| Fault::Replace { len, is_after }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = || 0..3_u8;
    let reads = prop::collection::vec((name(), reads(), prop::bool::weighted(0.2)), 1..5);
    let step = prop_oneof![
        3 => (name(), lens(), any::<bool>())
            .prop_map(|(to, len, is_behind)| Step::Put { to, len, is_behind }),
        1 => (name(), any::<bool>()).prop_map(|(at, is_behind)| Step::Delete { at, is_behind }),
        1 => (name(), name()).prop_map(|(from, to)| Step::Copy { from, to }),
        1 => name().prop_map(|at| Step::Forget { at }),
        8 => (reads, prop::collection::vec(faults(), 0..5))
            .prop_map(|(reads, faults)| Step::Reads { reads, faults }),
    ];
    prop::collection::vec(step, 1..25)
}

fn settings() -> impl Strategy<Value = Settings> {
    let flags = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.2));
    (flags, 1..5_usize, 1..4_usize).prop_map(
        |((is_trusted, hedge, has_disk), most_requests, most_objects)| Settings {
            is_trusted,
            hedge,
            has_disk,
            most_requests,
            most_objects,
        },
    )
}

fn path(nr: u8) -> Path {
    Path::from(format!("objects/{nr}"))
}

fn act_of(fault: Fault, nr: usize) -> Act {
    match fault {
        Fault::None => Act::Pass,
        Fault::Internal => Act::Fail(failure("500 Internal Server Error")),
        Fault::SlowDown => Act::Fail(failure("503 Slow Down")),
        Fault::TimeOut => Act::TimeOut(Duration::from_secs(30)),
        Fault::Late => Act::Late(Duration::from_secs(2)),
        Fault::Cut(len) => Act::Cut(len),
        Fault::Break(len) => Act::Break(len),
        Fault::Long(more) => Act::Long(more),
        Fault::Elsewhere => Act::Elsewhere,
        Fault::Larger(more) => Act::Larger(more),
        Fault::Replace { len, is_after } => {
            let bytes = content(len, 128 + (nr % 128) as u8);
            if is_after {
                Act::ReplaceAfter(bytes)
            } else {
                Act::ReplaceBefore(bytes)
            }
        }
    }
}

/// What the objects are and were.
#[derive(Default)]
struct Model {
    /// By object, the states that may be read, the last one being that of now. Nothing is an object that is not there.
    states: HashMap<Path, Vec<Option<Bytes>>>,
}

impl Model {
    fn states(&mut self, path: &Path) -> &mut Vec<Option<Bytes>> {
        self.states
            .entry(path.clone())
            .or_insert_with(|| vec![None])
    }

    fn change(&mut self, path: &Path, state: Option<Bytes>, is_behind: bool) {
        let states = self.states(path);
        if !is_behind {
            states.clear();
        }
        states.push(state);
    }

    /// Only what is now may be read.
    fn is_asked(&mut self) {
        for states in self.states.values_mut() {
            states.drain(..states.len() - 1);
        }
    }
}

/// What `read` gives of an object in this state; none if it is an error.
fn expected(read: &Read, state: Option<&Bytes>) -> Option<Vec<Bytes>> {
    let bytes = state?;
    let size = bytes.len() as u64;
    let of = |range: &GetRange| {
        let range = range.as_range(size).ok()?;
        Some(bytes.slice(range.start as usize..range.end as usize))
    };
    match read {
        Read::Get(None) => Some(vec![bytes.clone()]),
        Read::Get(Some(range)) => Some(vec![of(range)?]),
        Read::Ranges(ranges) => ranges
            .iter()
            .map(|range| of(&range.clone().into()))
            .collect(),
    }
}

async fn do_read(
    store: PagewellStore<Probe>,
    path: Path,
    read: Read,
) -> object_store::Result<Vec<Bytes>> {
    match read {
        Read::Get(range) => {
            let options = GetOptions::default().with_range(range);
            Ok(vec![store.get_opts(&path, options).await?.bytes().await?])
        }
        Read::Ranges(ranges) => store.get_ranges(&path, &ranges).await,
    }
}

/// What was begun by reads that were given up comes to its end.
async fn settle() {
    // Nothing takes longer; the clock goes on when all wait for it.
    tokio::time::sleep(Duration::from_secs(100)).await;
}

async fn run(settings: Settings, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let probe = Probe::new();
    let folder = settings.has_disk.then(|| tempfile::tempdir().unwrap());
    let mut builder = PagewellStore::builder(Arc::clone(&probe))
        .capacity(1 << 20)
        .page_size(PAGE)
        .most_objects(settings.most_objects)
        .most_requests(settings.most_requests)
        .hedge(settings.hedge)
        .trust(if settings.is_trusted {
            Duration::MAX
        } else {
            Duration::ZERO
        });
    if let Some(folder) = &folder {
        builder = builder
            .disk(folder.path(), 64 * PAGE as u64)
            .namespace("storm");
    }
    let store = builder.build().unwrap();
    let mut model = Model::default();
    for (nr, step) in steps.into_iter().enumerate() {
        if !settings.is_trusted {
            model.is_asked();
        }
        match step {
            Step::Put { to, len, is_behind } => {
                let bytes = Bytes::from(content(len, nr as u8));
                let payload = bytes.clone().into();
                if is_behind {
                    probe.inner.put(&path(to), payload).await.unwrap();
                } else {
                    store.put(&path(to), payload).await.unwrap();
                }
                model.change(&path(to), Some(bytes), is_behind);
            }
            Step::Delete { at, is_behind } => {
                // (In memory, what is not there is deleted too.)
                if is_behind {
                    let _ = probe.inner.delete(&path(at)).await;
                } else {
                    let _ = store.delete(&path(at)).await;
                }
                model.change(&path(at), None, is_behind);
            }
            Step::Copy { from, to } => {
                let of = model.states(&path(from)).last().cloned().flatten();
                let copied = store.copy(&path(from), &path(to)).await;
                prop_assert_eq!(copied.is_ok(), of.is_some());
                if of.is_some() {
                    model.change(&path(to), of, false);
                }
            }
            Step::Forget { at } => {
                store.forget(&path(at));
                let states = model.states(&path(at));
                states.drain(..states.len() - 1);
            }
            Step::Reads { reads, faults } => {
                let nr_faults = Arc::new(Mutex::new(0));
                let (counted, faults) =
                    (Arc::clone(&nr_faults), Mutex::new(VecDeque::from(faults)));
                probe.script(move |of_step, _| {
                    let fault = faults.lock().unwrap().pop_front().unwrap_or(Fault::None);
                    *counted.lock().unwrap() +=
                        usize::from(!matches!(fault, Fault::None | Fault::Late));
                    act_of(fault, nr * 5 + of_step)
                });
                let answers = join_all(reads.iter().map(|(at, read, is_given_up)| {
                    let answer = do_read(store.clone(), path(*at), read.clone());
                    async move {
                        if *is_given_up {
                            // After the store was asked, and before a body was read.
                            let _ = tokio::time::timeout(Duration::from_millis(1), answer).await;
                            return None;
                        }
                        Some(answer.await)
                    }
                }))
                .await;
                settle().await;
                probe.script(|_, _| Act::Pass);
                for (path, bytes) in probe.take_replaced() {
                    model.change(&path, Some(bytes.into()), true);
                }
                let nr_faults = *nr_faults.lock().unwrap();
                for ((at, read, _), answer) in reads.iter().zip(answers) {
                    let Some(answer) = answer else {
                        continue;
                    };
                    let states = model.states(&path(*at)).clone();
                    let mut possible = states.iter().map(|state| expected(read, state.as_ref()));
                    match answer {
                        Ok(got) => prop_assert!(
                            possible.any(|state| state.as_ref() == Some(&got)),
                            "step {}: {:?} of {} is of none of {} states: {:?}",
                            nr,
                            read,
                            at,
                            states.len(),
                            got.iter().map(Bytes::len).collect::<Vec<_>>()
                        ),
                        Err(error) => prop_assert!(
                            nr_faults > 0 || possible.any(|state| state.is_none()),
                            "step {}: {:?} of {}: {}",
                            nr,
                            read,
                            at,
                            error
                        ),
                    }
                }
            }
        }
    }
    // When nothing fails any more and nothing is believed, all is as in the bare store.
    for nr in 0..3 {
        store.forget(&path(nr));
        let bytes = async |object: object_store::Result<object_store::GetResult>| match object {
            Ok(object) => Some(object.bytes().await.unwrap()),
            Err(_) => None,
        };
        let expected = bytes(probe.inner.get(&path(nr)).await).await;
        let got = bytes(store.get(&path(nr)).await).await;
        prop_assert!(expected == got, "{}: at the end", nr);
        prop_assert!(&expected == model.states(&path(nr)).last().unwrap());
    }
    Ok(())
}

fn nr_histories() -> u32 {
    match std::env::var("PAGEWELL_STORMS") {
        Ok(nr) => nr.parse().expect("PAGEWELL_STORMS is a number"),
        Err(_) => 2000,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: nr_histories(), ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_in_a_storm_is_one_state_or_an_error(settings in settings(), steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(run(settings, steps))?;
    }
}
