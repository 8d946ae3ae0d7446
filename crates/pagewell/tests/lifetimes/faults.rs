//! Backends that are slow, stall, panic or fail, and users of the files of these backends.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use pagewell::io::engine::Choice;
use pagewell::io::{Fault, FaultBackend, MemoryBackend, Operation};
use pagewell::{Advice, Cache, File, OpenOptions};
use pagewell_testkit::rng::mix;
use pagewell_testkit::wait::{Gate, block_on};
use pagewell_testkit::{Rng, content};

use crate::PAGE;
use crate::executors::{Task, poll_once};
use crate::journal::step;
use crate::shared::same;

/// Number of offloaded calls with which one file occupies all of its quota of waiting threads.
const FLOOD_CALLS: usize = 70;

/// Message of the panics of a backend.
pub(crate) const PLANNED: &str = "a panic of a backend";

pub(crate) type SlowMemory = Arc<FaultBackend<MemoryBackend>>;

/// Returns a backend in memory, some of whose calls take a moment.
pub(crate) fn slow_memory(bytes: Vec<u8>, seed: u64) -> SlowMemory {
    let draw = draws(seed);
    let script = move |_: &Operation| {
        match draw() % 8 {
            0 => thread::sleep(Duration::from_micros(300)),
            1 => thread::yield_now(),
            _ => {}
        }
        Fault::None
    };
    let backend = MemoryBackend::writable(bytes);
    Arc::new(FaultBackend::with_script(backend, script))
}

/// Returns a source of random numbers for several threads.
fn draws(seed: u64) -> impl Fn() -> u64 + Send + Sync {
    let nr = AtomicU64::new(seed);
    move || mix(nr.fetch_add(1, Ordering::SeqCst))
}

fn open(
    cache: &Cache,
    name: &str,
    bytes: Vec<u8>,
    script: impl Fn(&Operation) -> Fault + Send + Sync + 'static,
) -> File {
    let backend = FaultBackend::with_script(MemoryBackend::writable(bytes), script);
    let options = OpenOptions::new().write();
    cache.open_backend_with(backend, name, &options).unwrap()
}

/// Fault of the backend of one more file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sick {
    No,
    /// Reads stall until the end of the history.
    Reads,
    /// Syncs or writes of two files stall. Each file has `nr_calls` calls.
    Changes {
        nr_calls: usize,
        in_sync: bool,
    },
    Panics,
    FailingReads,
}

impl Sick {
    pub(crate) fn draw(rng: &mut Rng, engine: Choice) -> Self {
        match rng.below(8) {
            0 | 1 => Self::No,
            // The submitting thread performs the transfer.
            2 if engine == Choice::Sync => Self::No,
            2 => Self::Reads,
            3 | 4 => Self::Changes {
                nr_calls: [3, FLOOD_CALLS][rng.index(2)],
                in_sync: rng.one_in(2),
            },
            5 => Self::Panics,
            _ => Self::FailingReads,
        }
    }

    fn stalls(self, operation: &Operation) -> bool {
        match (self, operation) {
            (Self::Reads, Operation::Read { .. }) => true,
            (Self::Changes { in_sync, .. }, Operation::Write { .. }) => !in_sync,
            (Self::Changes { in_sync, .. }, Operation::SyncData) => in_sync,
            _ => false,
        }
    }

    /// Uses the file of a backend that panics or fails.
    pub(crate) fn use_file(self, cache: Cache, rng: Rng) {
        match self {
            Self::Panics => use_panicking(&cache, rng),
            Self::FailingReads => use_failing(&cache, rng),
            _ => {}
        }
        step("drop of a cache", || drop(cache));
    }
}

/// Files whose calls stall, and tasks that wait for these calls.
#[derive(Default)]
pub(crate) struct Stalled {
    files: Vec<File>,
    tasks: Vec<Task>,
}

impl Stalled {
    /// Starts calls that stall at `gate`.
    pub(crate) fn start(cache: &Cache, sick: Sick, gate: &Arc<Gate>) -> Self {
        let mut this = Self::default();
        let nr_files = match sick {
            Sick::Reads => 1,
            Sick::Changes { .. } => 2,
            _ => return this,
        };
        for _ in 0..nr_files {
            let gate = Arc::clone(gate);
            let file = open(cache, "stalls", vec![1; 16 * PAGE], move |operation| {
                if sick.stalls(operation) {
                    gate.pass();
                }
                Fault::None
            });
            if let Sick::Changes { nr_calls, .. } = sick {
                file.write_at(&[2; PAGE], 0).unwrap();
                for _ in 0..nr_calls {
                    let file = file.clone();
                    let sync = async move { Ok(file.sync_data_async().await?) };
                    this.tasks.push(Box::pin(sync));
                }
            } else {
                for nr in 0..4 {
                    let (file, offset) = (file.clone(), nr * 3 * PAGE as u64);
                    this.tasks.push(Box::pin(async move {
                        file.read_at_async(vec![0; 10], offset).await.1?;
                        Ok(())
                    }));
                }
            }
            this.files.push(file);
        }
        for task in &mut this.tasks {
            assert!(poll_once(task).is_pending(), "a stalled call is done");
        }
        gate.wait_for(nr_files);
        this
    }

    /// Completes or drops the tasks. The gate must be open.
    pub(crate) fn end(self, rng: &mut Rng) {
        if rng.one_in(2) {
            for task in self.tasks {
                block_on(task).unwrap();
            }
        } else {
            drop(self.tasks);
        }
        for file in self.files {
            match rng.one_in(2) {
                true => file.close().unwrap(),
                false => drop(file),
            }
        }
    }
}

/// Uses a file whose backend panics now and then. Any result is correct, but each call must return.
fn use_panicking(cache: &Cache, mut rng: Rng) {
    let (draw, is_armed) = (draws(rng.next_u64()), Arc::new(AtomicBool::new(false)));
    let armed = Arc::clone(&is_armed);
    let file = open(cache, "panics", vec![1; 30 * PAGE], move |_| {
        if armed.load(Ordering::SeqCst) && draw().is_multiple_of(4) {
            panic_any(PLANNED);
        }
        Fault::None
    });
    is_armed.store(true, Ordering::SeqCst);
    for _ in 0..20 {
        let (op, offset) = (rng.below(8), rng.below(30) * PAGE as u64);
        let call = || match op {
            0 => drop(file.write_at(&[1; 100], offset)),
            1 => drop(file.sync_data()),
            2 => drop(file.prefetch(&[offset..offset + 9000, 0..9000])),
            3 => drop(block_on(file.read_at_async(vec![0; 9000], offset))),
            4 => drop(block_on(file.sync_data_async())),
            5 => drop(block_on(file.append_async(vec![1; 10]))),
            6 => file.invalidate(0..u64::MAX),
            _ => drop(file.read_at(&mut [0; 9000], offset)),
        };
        step(format!("operation {op} on a file that panics"), || {
            let _ = catch_unwind(AssertUnwindSafe(call));
        });
    }
    is_armed.store(rng.one_in(2), Ordering::SeqCst);
    step("drop of a file that panics", || {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(file)));
    });
}

/// Reads a file whose backend fails some reads, but only of single pages with a multiple of four as
/// their number. So a short count must end at such a page.
fn use_failing(cache: &Cache, mut rng: Rng) {
    const GROUP: usize = 4;
    let nr_pages = 4 * GROUP;
    let (bytes, draw) = (content(5, nr_pages * PAGE), draws(rng.next_u64()));
    let file = open(cache, "fails", bytes.clone(), move |operation| {
        let Operation::Read { pos, len: ..=PAGE } = *operation else {
            return Fault::None;
        };
        let draw = draw();
        if !(pos as usize / PAGE).is_multiple_of(GROUP) || draw.is_multiple_of(2) {
            return Fault::None;
        }
        thread::sleep(Duration::from_micros(draw >> 8 & 127));
        Fault::Fail(io::Error::other("this time only"))
    });
    file.advise(0..u64::MAX, Advice::Random).unwrap();
    let place = |page: usize| (page * PAGE) as u64;
    for round in 0..60 {
        let first = GROUP * rng.index(nr_pages / GROUP);
        step(format!("round {round} from page {first}"), || {
            for page in first + 1..first + 3 {
                file.read_at(&mut [0; 10], place(page)).unwrap();
            }
            file.invalidate(place(first)..place(first + 1));
            let mut read = file.read_at_async(vec![0; 3 * PAGE], place(first));
            let mut outcome = None;
            for _ in 0..rng.below(6) {
                if let Poll::Ready(ready) = poll_once(&mut read) {
                    outcome = Some(ready);
                    break;
                }
                let page = first + rng.index(3);
                match rng.below(4) {
                    0 => file.invalidate(place(page)..place(page + 1)),
                    1 => thread::sleep(Duration::from_micros(100)),
                    _ => {
                        // The later ones set and use the accessed bit.
                        for _ in 0..4 {
                            let _ = file.read_at(&mut [0; 10], place(page));
                        }
                    }
                }
            }
            let (buf, result) = outcome.unwrap_or_else(|| block_on(read));
            let Ok(n) = result else { return };
            let start = first * PAGE;
            same(&buf[..n], &bytes[start..start + n], start).unwrap();
            assert!(
                n == buf.len() || ((start + n) / PAGE).is_multiple_of(GROUP),
                "a read of {} bytes at {start} returned {n}",
                buf.len(),
            );
        });
    }
    step("drop of a file that fails", || drop(file));
}
