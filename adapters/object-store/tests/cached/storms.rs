//! Random histories over a store that fails, breaks off, is late, never answers, panics, returns
//! wrong lengths, and changes during reads. Readers are cancelled, runtimes end with their readers
//! and requests, and the clock of timeouts jumps.
//!
//! The states that may be read are known at each step: those that an object has had since the last
//! change through the wrapper, or since the step began if no state is trusted. An answer is the
//! range of one of them. A read fails only if a fault occurred in the same step, or one of these
//! states has no such range. Readers of a runtime that continues do not notice the end of another
//! one. proptest prints a failed history and stores its seed in `proptest-regressions`, from which
//! later runs begin.
//!
//! `PAGEWELL_STORMS` sets the number of histories; 2000 by default.

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
use tokio::runtime::Runtime;
use tokio::time::timeout;

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
    Stall,
    Hang(usize),
    Panic,
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

/// End of a reader.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Awaited,
    /// It is dropped after the request was sent, and before a body was read.
    Cancelled,
    /// It executes on another runtime, which ends during the step.
    Ended,
}

#[derive(Clone, Debug)]
enum Step {
    Put { to: u8, len: usize, is_behind: bool },
    Delete { at: u8, is_behind: bool },
    Copy { from: u8, to: u8 },
    Forget { at: u8 },
    Reads(Reads),
}

/// Concurrent reads.
#[derive(Clone, Debug)]
struct Reads {
    reads: Vec<(u8, Read, Fate)>,
    /// Faults of the gets that the step causes, in their order.
    faults: Vec<Fault>,
    /// Numbers of turns of the tasks of both runtimes before one ends, and the time in seconds by
    /// which the clock jumps between them.
    turns: Vec<(usize, usize, u64)>,
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
        1 => Just(Fault::Stall),
        1 => (0..2 * PAGE).prop_map(Fault::Hang),
        1 => Just(Fault::Panic),
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
    let fate = prop_oneof![
        6 => Just(Fate::Awaited),
        2 => Just(Fate::Cancelled),
        2 => Just(Fate::Ended),
    ];
    let reads = prop::collection::vec((name(), reads(), fate), 1..5);
    let jump = prop_oneof![4 => Just(0), 1 => 1..100_u64];
    let turns = prop::collection::vec((0..12_usize, 0..12_usize, jump), 0..4);
    let step = prop_oneof![
        3 => (name(), lens(), any::<bool>())
            .prop_map(|(to, len, is_behind)| Step::Put { to, len, is_behind }),
        1 => (name(), any::<bool>()).prop_map(|(at, is_behind)| Step::Delete { at, is_behind }),
        1 => (name(), name()).prop_map(|(from, to)| Step::Copy { from, to }),
        1 => name().prop_map(|at| Step::Forget { at }),
        8 => (reads, prop::collection::vec(faults(), 0..5), turns)
            .prop_map(|(reads, faults, turns)| Step::Reads(Reads { reads, faults, turns })),
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
        // Longer than the maximum duration of a request. (Requests that are passed on have none.)
        Fault::Stall => Act::Late(Duration::from_secs(200)),
        Fault::Hang(len) => Act::Hang(len, Duration::from_secs(200)),
        Fault::Panic => Act::Panic,
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

/// States of the objects.
#[derive(Default)]
struct Model {
    /// By object, the states that may be read; the last one is the current one. `None` is the state
    /// of a missing object.
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

    /// Only the last state of each object may be read.
    fn distrust(&mut self) {
        for states in self.states.values_mut() {
            states.drain(..states.len() - 1);
        }
    }
}

/// Returns the answer to `read` of an object in this state, or `None` if it is an error.
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

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

/// Executes the tasks of a runtime for a time.
fn turn(runtime: &Runtime, nr: usize) {
    runtime.block_on(async {
        for _ in 0..nr {
            tokio::task::yield_now().await;
        }
    });
}

/// Executes reads. Returns the answers of those that are awaited; an answer is `None` if the store
/// panicked in the reader's own task.
fn do_reads(
    runtime: &Runtime,
    store: &PagewellStore<Probe>,
    step: &Reads,
) -> Vec<Option<object_store::Result<Vec<Bytes>>>> {
    let other = self::runtime();
    let mut awaited = Vec::new();
    for (at, read, fate) in &step.reads {
        let answer = do_read(store.clone(), path(*at), read.clone());
        match fate {
            Fate::Awaited => awaited.push(runtime.spawn(answer)),
            Fate::Cancelled => {
                runtime.spawn(async { timeout(Duration::from_millis(1), answer).await.is_ok() });
            }
            Fate::Ended => {
                other.spawn(answer);
            }
        }
    }
    for (of_other, of_this, jump) in &step.turns {
        turn(&other, *of_other);
        turn(runtime, *of_this);
        runtime.block_on(tokio::time::advance(Duration::from_secs(*jump)));
    }
    // A call that blocks one of its threads may wait for requests of this runtime.
    other.shutdown_background();
    runtime.block_on(async {
        let answers = join_all(awaited).await;
        // Requests of cancelled readers end, too. The clock advances when all tasks wait.
        tokio::time::sleep(Duration::from_secs(1000)).await;
        answers.into_iter().map(Result::ok).collect()
    })
}

fn run(settings: Settings, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let runtime = runtime();
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
            model.distrust();
        }
        match step {
            Step::Put { to, len, is_behind } => {
                let bytes = Bytes::from(content(len, nr as u8));
                let payload = bytes.clone().into();
                runtime
                    .block_on(async {
                        match is_behind {
                            true => probe.inner.put(&path(to), payload).await,
                            false => store.put(&path(to), payload).await,
                        }
                    })
                    .unwrap();
                model.change(&path(to), Some(bytes), is_behind);
            }
            Step::Delete { at, is_behind } => {
                // (`InMemory` deletes a missing object without an error.)
                let _ = runtime.block_on(async {
                    match is_behind {
                        true => probe.inner.delete(&path(at)).await,
                        false => store.delete(&path(at)).await,
                    }
                });
                model.change(&path(at), None, is_behind);
            }
            Step::Copy { from, to } => {
                let of = model.states(&path(from)).last().cloned().flatten();
                let copied = runtime.block_on(store.copy(&path(from), &path(to)));
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
            Step::Reads(step) => {
                let nr_faults = Arc::new(Mutex::new(0));
                let (counted, faults) = (
                    Arc::clone(&nr_faults),
                    Mutex::new(VecDeque::from(step.faults.clone())),
                );
                // A late answer is a fault if the clock jumps past the limit of its request.
                let has_jump = step.turns.iter().any(|(.., seconds)| *seconds != 0);
                probe.script(move |of_step, _| {
                    let fault = faults.lock().unwrap().pop_front().unwrap_or(Fault::None);
                    let is_fault = match fault {
                        Fault::None => false,
                        Fault::Late => has_jump,
                        _ => true,
                    };
                    *counted.lock().unwrap() += usize::from(is_fault);
                    act_of(fault, nr * 5 + of_step)
                });
                let answers = do_reads(&runtime, &store, &step);
                probe.script(|_, _| Act::Pass);
                for (path, bytes) in probe.take_replaced() {
                    model.change(&path, Some(bytes.into()), true);
                }
                let nr_faults = *nr_faults.lock().unwrap();
                let awaited = step.reads.iter();
                let awaited = awaited.filter(|(.., fate)| matches!(fate, Fate::Awaited));
                for ((at, read, _), answer) in awaited.zip(answers) {
                    let states = model.states(&path(*at)).clone();
                    let mut possible = states.iter().map(|state| expected(read, state.as_ref()));
                    match answer {
                        Some(Ok(got)) => prop_assert!(
                            possible.any(|state| state.as_ref() == Some(&got)),
                            "step {}: {:?} of {} is of none of {} states: {:?}",
                            nr,
                            read,
                            at,
                            states.len(),
                            got.iter().map(Bytes::len).collect::<Vec<_>>()
                        ),
                        failed => prop_assert!(
                            nr_faults > 0 || possible.any(|state| state.is_none()),
                            "step {}: {:?} of {}: {:?}",
                            nr,
                            read,
                            at,
                            failed
                        ),
                    }
                }
            }
        }
    }
    // When the store does not fail any more and no state is trusted, the wrapper returns the same
    // as the bare store.
    runtime.block_on(async {
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
    })
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
    fn read_in_a_storm_returns_one_state_or_an_error(settings in settings(), steps in steps()) {
        run(settings, steps)?;
    }
}
