//! The simulator: the code that ships, its threads, its engine and its storage in one schedule that a seed decides.
//!
//! A run is one or more lives of a program on one device. In each life several threads write, read, pin, append, cut, sync, advise and evict, by calls that wait and by futures that may be dropped;
//! the engine is [`SimEngine`], whose requests complete late, in parts and in any order; the storage fails, is late and misdirects; the cache has its own threads, flushers and watcher. All of them
//! take turns by [`pagewell_sync_testing`], which passes the baton on at waits and, by the seed, at any atomic operation. So a seed has one run, on every
//! machine with as many processors, and a failing one replays.
//!
//! A life ends well, by a close, or suddenly, by a loss of power; then the file is looked at past the cache. Every answer is checked ([`books`]), and what is left.
//!
//! | module | what |
//! |---|---|
//! | `plan` | what a seed decides |
//! | `books` | what may be read, and what may survive |
//! | `storage` | the storage: late, failing, at the wrong place |
//! | `task` | futures, and their dropping |
//! | `life` | the threads of a life |
//!
//! Proved by: the mutants whose test is `tests/simulator.rs`.

mod books;
mod life;
mod plan;
mod storage;
mod task;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pagewell::io::engine::{Choice, Settings};
use pagewell::io::{VolatileDevice, VolatileFile};
use pagewell::{Cache, File, Nodes, OpenOptions};
use pagewell_io_testing::sim::{Faults, SimEngine};
use pagewell_sync::thread::sleep;
use pagewell_sync_testing::{self as simulated, Draw};
use pagewell_testkit::Rng;

use self::books::Books;
use self::life::{Life, Told, Worker};
use self::plan::{FIRST, Plan, Value};
use self::storage::{Faulty, Wrongs};
use crate::block::{BLOCK, block};
use crate::plug::Plug;
use crate::program::stored;

/// What one frame costs of the capacity, at most.
const FRAME_COST: u64 = crate::PAGE as u64 + 64 + 12;

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The file is closed.
    Close,
    /// The power goes when the threads have done their work.
    Kill,
    /// It goes after so many changes and syncs of the device.
    AfterCalls(u64),
    /// It goes at a moment; what the engine has under way is torn.
    AfterTime(Duration),
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Operations of threads.
    pub nr_ops: u64,
    /// Syncs that succeeded.
    pub nr_syncs: u64,
    /// Losses of power.
    pub nr_crashes: u64,
    /// Futures that were dropped before they were ready.
    pub nr_dropped: u64,
    /// Calls that failed.
    pub nr_errors: u64,
    /// Transfers at the wrong place.
    pub nr_misdirected: u64,
    /// How often their harm was read.
    pub nr_noticed: u64,
    /// How often another thread had its turn.
    pub nr_switches: u64,
    /// Of everything that happened: equal for equal seeds.
    pub trace: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.nr_ops += other.nr_ops;
        self.nr_syncs += other.nr_syncs;
        self.nr_crashes += other.nr_crashes;
        self.nr_dropped += other.nr_dropped;
        self.nr_errors += other.nr_errors;
        self.nr_misdirected += other.nr_misdirected;
        self.nr_noticed += other.nr_noticed;
        self.nr_switches += other.nr_switches;
        self.trace ^= other.trace;
    }
}

/// A run that failed: why, and the steps until then.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What is wrong.
    pub why: String,
    /// What was done, in order: the number of the life and of the thread, and the operation.
    pub steps: Vec<String>,
    /// What the seed has decided.
    pub plan: String,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does once what later runs find done: what the first use of a processor's copies measures, say.
fn warm_up() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let backend = pagewell::io::MemoryBackend::new(vec![1; 1 << 16]);
        // A failure here is one of the runs, too.
        let _ = stored(backend);
    });
}

/// The run of a seed, with threads drawn as `draw` says, or as the seed decides.
///
/// # Errors
///
/// What is wrong, and what was done until then.
pub fn run(seed: u64, draw: Option<Draw>) -> Result<Tally, Failure> {
    warm_up();
    let plan = Plan::of(seed, draw);
    let told = Arc::new(Mutex::new(Told::default()));
    let name = format!("seed {seed}");
    let of_run = Arc::clone(&told);
    let (result, trace) = simulated::run(&name, seed, plan.style, move || lives(plan, &of_run));
    let told = &mut *locked(&told);
    let result = match told.failure.take() {
        Some(why) => Err(why),
        None => result,
    };
    let mut tally = result.map_err(|why| Failure {
        why,
        steps: std::mem::take(&mut told.steps),
        plan: format!("{plan:?}"),
    })?;
    let mut hasher = DefaultHasher::new();
    (trace.hash, &told.steps).hash(&mut hasher);
    tally.trace = hasher.finish();
    tally.nr_switches = trace.nr_switches;
    tally.nr_ops = told.nr_ops;
    tally.nr_syncs = told.nr_syncs;
    tally.nr_dropped = told.nr_dropped;
    tally.nr_errors = told.nr_errors;
    Ok(tally)
}

fn text(error: impl std::fmt::Debug) -> String {
    format!("{error:?}")
}

fn lives(plan: Plan, told: &Arc<Mutex<Told>>) -> Result<Tally, String> {
    let mut rng = Rng::part(plan.seed, 13);
    let mut device = VolatileDevice::new(plan.seed).with_sector_writes(plan.sectors);
    if let Some(unit) = plan.direct {
        device = device.with_direct_transfers(unit);
    }
    let values = vec![Value::Version(FIRST); plan.shape.nr_blocks];
    fill(&device, plan.shape.nr_blocks).map_err(text)?;
    let books = Arc::new(Mutex::new(Books::new(plan.shape, &values)));
    let mut tally = Tally::default();
    for number in 0..plan.nr_lives {
        let end = match rng.below(6) {
            0..3 => End::Close,
            3 => End::Kill,
            4 => End::AfterCalls(rng.below(60)),
            _ => End::AfterTime(Duration::from_micros(rng.below(200_000))),
        };
        device.fail_next_sync(plan.failed_syncs);
        live(plan, number, &device, (&books, told), (end, &mut tally))?;
        device.fail_next_sync(0);
        if end != End::Close {
            device = device.crash(rng.next_u64());
            tally.nr_crashes += 1;
        }
        let left = device.open("file").map_err(text)?;
        let bytes = stored(left).map_err(text)?;
        let unit = plan.direct.unwrap_or(1);
        let torn = locked(&books)
            .check_survivors(&bytes, unit)
            .map_err(|why| format!("after life {number}: {why}"))?;
        let most = bytes.len().min(plan.shape.most_blocks() * BLOCK);
        mend(&device, (most / BLOCK * BLOCK) as u64, &torn).map_err(text)?;
    }
    tally.nr_noticed = locked(&books).nr_noticed;
    Ok(tally)
}

/// What recovery would do: cuts off a part of a block, and writes torn ones anew.
fn mend(device: &VolatileDevice, size: u64, torn: &[usize]) -> Result<(), pagewell::Error> {
    let cache = Cache::builder()
        .capacity(1 << 20)
        .engine(Settings::new(Choice::Sync))
        .build()?;
    let backend = device.open("file").expect("the power is on");
    let file = cache.open_backend_with(backend, "file", &OpenOptions::new().write())?;
    if file.size() != size {
        file.set_size(size)?;
    }
    for &nr in torn {
        file.write_at(&block(nr as u64, FIRST), (nr * BLOCK) as u64)?;
    }
    file.sync_all()
}

/// Makes the file.
fn fill(device: &VolatileDevice, nr_blocks: usize) -> Result<(), pagewell::Error> {
    // Nothing but the simulation's own threads: no ring of the system.
    let cache = Cache::builder()
        .capacity(1 << 20)
        .engine(Settings::new(Choice::Sync))
        .build()?;
    let backend = device.create("file").map_err(text);
    let backend = backend.expect("the power is on");
    let file = cache.open_backend_with(backend, "file", &OpenOptions::new().write())?;
    let bytes: Vec<u8> = (0..nr_blocks as u64)
        .flat_map(|nr| block(nr, FIRST))
        .collect();
    file.append(&bytes)?;
    debug_assert!(bytes.len() == nr_blocks * BLOCK);
    file.sync_all()
}

/// One life, from the opening of the file to its end.
fn live(
    plan: Plan,
    number: u64,
    device: &VolatileDevice,
    (books, told): (&Arc<Mutex<Books>>, &Arc<Mutex<Told>>),
    (end, tally): (End, &mut Tally),
) -> Result<(), String> {
    let ends_suddenly = end != End::Close;
    let engine = Arc::new(SimEngine::new(plan.seed ^ number, plan.engine));
    let cache = Cache::builder()
        .capacity(plan.nr_frames * (plan.page_size as u64 / crate::PAGE as u64) * FRAME_COST)
        .nodes(Nodes::Unbound(1))
        .page_size(plan.page_size)
        .given_engine(Arc::clone(&engine) as Arc<_>)
        .build()
        .map_err(text)?;
    let plug = Plug::default();
    let wrongs = Wrongs::new(plan.seed ^ (number << 32), plan.storage);
    let file: VolatileFile = device.open("file").map_err(text)?;
    let backend = Faulty::new(plug.on(file), &wrongs, books);
    if let End::AfterCalls(nr) = end {
        device.power_off_after(nr);
    }
    let options = OpenOptions::new().write();
    let opened = cache.open_backend_with(backend, "file", &options);
    let file = match opened {
        Ok(file) => file,
        Err(_) if ends_suddenly => return Ok(()),
        Err(error) => return Err(format!("it cannot be opened: {error:?}")),
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let steps = {
        let (engine, is_over) = (Arc::clone(&engine), Arc::clone(&is_over));
        // The device: gets on with what the engine was given.
        simulated::spawn("device", move || {
            // ORDERING: Relaxed; one thread at a time runs.
            while !is_over.load(Ordering::Relaxed) {
                engine.step_or_wait(Duration::from_millis(20));
            }
        })
    };
    let life = Arc::new(Life {
        plan,
        number,
        cache: cache.clone(),
        books: Arc::clone(books),
        told: Arc::clone(told),
        ends_suddenly,
    });
    let workers: Vec<_> = (0..plan.shape.nr_threads)
        .map(|thread| {
            let worker = Worker::new(Arc::clone(&life), thread, file.clone());
            simulated::spawn("worker", move || worker.work())
        })
        .collect();
    if let End::AfterTime(time) = end {
        let (engine, device) = (Arc::clone(&engine), device.clone());
        let power = simulated::spawn("power", move || {
            sleep(time);
            // What is under way is torn, and nothing is done any more.
            engine.power_off();
            device.power_off_after(0);
        });
        power.join();
    }
    workers.into_iter().for_each(simulated::Joined::join);
    drop(life);
    let has_failed = locked(told).failure.is_some();
    let ended = match ends_suddenly || has_failed {
        true => {
            plug.pull();
            // Whatever is to be given to the storage now reaches nothing.
            engine.power_on();
            engine.set_faults(Faults::default());
            locked(&wrongs).heal();
            drop(file);
            Ok(())
        }
        false => {
            locked(&wrongs).heal();
            device.fail_next_sync(0);
            engine.set_faults(Faults::default());
            end_well(file, books)
        }
    };
    let in_order = in_order(&cache);
    drop(cache);
    // ORDERING: Relaxed; as above.
    is_over.store(true, Ordering::Relaxed);
    steps.join();
    let wrongs = locked(&wrongs);
    tally.nr_misdirected += wrongs.nr_misdirected;
    tally.nr_errors += wrongs.nr_failed;
    ended.and(if has_failed { Ok(()) } else { in_order })
}

/// Closes the file: then everything is durable.
fn end_well(file: File, books: &Mutex<Books>) -> Result<(), String> {
    let from = locked(books).stamp();
    let mut file = file;
    // A close tells what failed before, and gives the file back; the storage works by now.
    for _ in 0..MOST_CLOSES {
        match file.close() {
            Ok(()) => {
                locked(books).synced(from, None);
                return Ok(());
            }
            Err((back, _)) => file = back,
        }
    }
    let why = file.close().err().map(|(_, error)| error);
    Err(format!("it cannot be closed: {why:?}"))
}

/// How often a close may tell what failed before.
const MOST_CLOSES: usize = 3;

/// Whether the cache has all its frames when nobody has the file any more.
fn in_order(cache: &Cache) -> Result<(), String> {
    let _quiet = cache.quiesce();
    cache.verify()?;
    let stats = cache.stats();
    match stats.nr_free == stats.nr_frames {
        true => Ok(()),
        false => Err(format!("frames are lost: {stats:?}")),
    }
}
