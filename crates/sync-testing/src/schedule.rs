//! Scheduler, by the rules of the [parent module](super).

use std::cell::Cell;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io;
use std::ops::{Add, Sub};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Exit code of a process whose simulated threads deadlock or do not terminate.
pub const STUCK: i32 = 3;

/// Number of a thread that belongs to no simulation.
pub(crate) const NOBODY: usize = usize::MAX;

/// An execution with more switches is assumed not to terminate.
const MOST_SWITCHES: u64 = 1_000_000;

/// Scheduling of a simulation's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Average number of operations on atomics and locks between switches or changes of priorities.
    /// `None`: only waits and wake-ups switch threads.
    pub stretch: Option<u32>,
    /// Method of drawing the next thread.
    pub draw: Draw,
}

/// Method by which a simulation draws the next thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// Each runnable thread is as likely as any other.
    Uniform,
    /// The runnable thread of the highest priority runs. Threads start with random priorities. At a
    /// change of priorities, the running thread gets the lowest. So does one that lets others run.
    ///
    /// This finds a race that needs few ordering constraints between threads more often than
    /// `Uniform` does. Source: probabilistic concurrency testing (Burckhardt et al., "A randomized
    /// scheduler with probabilistic guarantees of finding bugs", ASPLOS 2010). There the number of
    /// changes is fixed; here their average distance is, since the length of a run is not known.
    Priorities,
}

/// Summary of an execution, equal for equal seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Hash of all switches: the two threads, the time, and whether the first one can still run.
    pub hash: u64,
    /// Number of switches.
    pub nr_switches: u64,
    /// Number of threads.
    pub nr_threads: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Turn {
    May,
    /// Not runnable until the address is notified or this time is reached.
    Waits(usize, Option<Duration>),
    Over,
}

struct Thread {
    turn: Turn,
    is_late: bool,
    /// The runnable thread of the highest priority runs ([`Draw::Priorities`]).
    priority: i64,
    baton: Arc<std::sync::Condvar>,
}

struct World {
    rng: u64,
    style: Style,
    running: usize,
    threads: Vec<Thread>,
    now: Duration,
    hash: DefaultHasher,
    nr_switches: u64,
    /// Lowest priority of a thread so far.
    lowest_priority: i64,
    /// Number of operations before the next change of priorities. `Some` while a thread that was
    /// woken or started preempts the running one.
    nr_before_change: Option<u64>,
    name: String,
}

static WORLD: std::sync::Mutex<Option<World>> = std::sync::Mutex::new(None);
static OVER: std::sync::Condvar = std::sync::Condvar::new();
/// Operations before the next switch or change of priorities. Only the holder of the baton uses it.
static LEFT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

thread_local! {
    pub(crate) static ME: Cell<usize> = const { Cell::new(NOBODY) };
    /// Initialized before the thread's other thread-locals, and so dropped with the baton held.
    static LEAVE: Leave = const { Leave };
}

struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        let me = ME.replace(NOBODY);
        if me != NOBODY {
            with_world(|world| {
                world.threads[me].turn = Turn::Over;
                wake_in(world, joined(me), true);
                match world.threads.iter().all(|thread| thread.turn == Turn::Over) {
                    true => OVER.notify_all(),
                    false => world.pass(me),
                }
            });
        }
    }
}

/// Returns the address that is notified when `thread` ends. No lock or condition variable has it.
fn joined(thread: usize) -> usize {
    usize::MAX - 1 - thread
}

fn world() -> std::sync::MutexGuard<'static, Option<World>> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with_world<R>(work: impl FnOnce(&mut World) -> R) -> R {
    let mut world = world();
    work(world.as_mut().expect("a simulation has a world"))
}

impl World {
    /// SplitMix64.
    fn random(&mut self, below: u64) -> u64 {
        self.rng = self.rng.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.rng;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % below
    }

    fn draw_time(&mut self) {
        let micros = match self.random(128) {
            0 => 100_000,
            _ => 20,
        };
        let passed = self.random(micros);
        self.now += Duration::from_micros(passed);
    }

    /// Prepares the switch from `me`.
    fn draw(&mut self, me: usize) {
        self.draw_time();
        // ORDERING: Relaxed, both; the baton orders the threads.
        match (self.style.draw, self.nr_before_change.take()) {
            (Draw::Uniform, _) => self.draw_left(),
            (Draw::Priorities, Some(rest)) => LEFT.store(rest, Ordering::Relaxed),
            (Draw::Priorities, None) if LEFT.load(Ordering::Relaxed) == 0 => {
                self.demote(me);
                self.draw_left();
            }
            // The thread must wait, with operations left before the next change.
            (Draw::Priorities, None) => {}
        }
    }

    fn demote(&mut self, thread: usize) {
        self.lowest_priority -= 1;
        self.threads[thread].priority = self.lowest_priority;
    }

    fn draw_left(&mut self) {
        let left = match self.style.stretch {
            Some(stretch) => self.random(2 * u64::from(stretch) + 1),
            None => u64::MAX,
        };
        // ORDERING: Relaxed; the baton orders the threads.
        LEFT.store(left, Ordering::Relaxed);
    }

    /// Passes the baton. The next thread may be `me` itself.
    fn pass(&mut self, me: usize) {
        self.nr_switches += 1;
        if self.nr_switches > MOST_SWITCHES {
            self.give_up("limit of switches exceeded");
        }
        self.draw(me);
        let next = self.choose();
        (me, next, self.now, self.threads[me].turn == Turn::May).hash(&mut self.hash);
        self.running = next;
        self.threads[next].baton.notify_all();
    }

    fn choose(&mut self) -> usize {
        loop {
            let now = self.now;
            let mut next_moment: Option<Duration> = None;
            let mut may = 0;
            for thread in &mut self.threads {
                if let Turn::Waits(_, Some(until)) = thread.turn {
                    if until <= now {
                        thread.turn = Turn::May;
                        thread.is_late = true;
                    } else {
                        next_moment = Some(next_moment.map_or(until, |moment| moment.min(until)));
                    }
                }
                may += u64::from(thread.turn == Turn::May);
            }
            if may != 0 && self.style.draw == Draw::Priorities {
                let threads = self.threads.iter().enumerate();
                let highest = threads
                    .filter(|(_, thread)| thread.turn == Turn::May)
                    .max_by_key(|(_, thread)| thread.priority);
                return highest.map_or(0, |(nr, _)| nr);
            }
            if may != 0 {
                let nth = self.random(may) as usize;
                let mut of = self.threads.iter().enumerate();
                let found = of
                    .by_ref()
                    .filter(|(_, thread)| thread.turn == Turn::May)
                    .nth(nth);
                return found.map_or(0, |(nr, _)| nr);
            }
            match next_moment {
                Some(moment) => self.now = moment,
                None => self.give_up("deadlock of all threads"),
            }
        }
    }

    /// Ends the process: deadlocked threads cannot be ended individually.
    fn give_up(&self, why: &str) -> ! {
        eprintln!("{}: {why}, after {} switches", self.name, self.nr_switches);
        std::process::exit(STUCK)
    }
}

fn wake_in(world: &mut World, on: usize, all: bool) {
    let waits = |thread: &Thread| matches!(thread.turn, Turn::Waits(at, _) if at == on);
    let nr = world.threads.iter().filter(|thread| waits(thread)).count() as u64;
    if nr == 0 {
        return;
    }
    let chosen = if all { 0 } else { world.random(nr) };
    let mut highest = i64::MIN;
    for (nth, thread) in (0..).zip(world.threads.iter_mut().filter(|thread| waits(thread))) {
        if all || nth == chosen {
            thread.turn = Turn::May;
            thread.is_late = false;
            highest = highest.max(thread.priority);
        }
    }
    preempt_by(world, highest);
}

/// Makes the running thread pass the baton at its next operation, if `priority` is higher.
fn preempt_by(world: &mut World, priority: i64) {
    let is_higher = priority > world.threads[world.running].priority;
    // ORDERING: Relaxed, both; the baton orders the threads.
    let left = LEFT.load(Ordering::Relaxed);
    if world.style.draw == Draw::Priorities && is_higher && left != 0 {
        world.nr_before_change = Some(left);
        LEFT.store(0, Ordering::Relaxed);
    }
}

fn pass(mut world: std::sync::MutexGuard<'static, Option<World>>, me: usize) {
    if let Some(world) = world.as_mut() {
        world.pass(me);
    }
    await_baton(world, me);
}

fn await_baton(mut world: std::sync::MutexGuard<'static, Option<World>>, me: usize) {
    let baton = match world.as_ref() {
        Some(world) => Arc::clone(&world.threads[me].baton),
        None => return,
    };
    while world.as_ref().is_some_and(|world| world.running != me) {
        world = baton.wait(world).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Returns `true` if this thread belongs to a simulation.
#[must_use]
pub fn is_here() -> bool {
    ME.get() != NOBODY
}

/// Scheduling point: passes the baton if no operation is left before the next switch.
#[inline]
pub fn point() {
    let me = ME.get();
    if me == NOBODY {
        return;
    }
    // ORDERING: Relaxed, both; the baton orders the threads.
    let left = LEFT.load(Ordering::Relaxed);
    match left {
        0 => pass(world(), me),
        _ => LEFT.store(left - 1, Ordering::Relaxed),
    }
}

/// Executes a [`point`]. Returns the number of bytes to copy before the next one, or 0 outside a
/// simulation.
#[must_use]
pub fn half_of_copy(len: usize) -> usize {
    point();
    match is_here() {
        true => len / 2,
        false => 0,
    }
}

/// Lets other threads run, by a short sleep. Returns `false` outside a simulation.
pub fn give_way() -> bool {
    let me = ME.get();
    if me == NOBODY {
        return false;
    }
    // A mere switch could choose this thread again, but a thread that spins waits for another one.
    with_world(|world| world.demote(me));
    sleep_here(me, Duration::from_micros(1));
    true
}

fn sleep_here(me: usize, time: Duration) {
    let mut world = world();
    if let Some(world) = world.as_mut() {
        world.threads[me].turn = Turn::Waits(0, Some(world.now + time));
    }
    pass(world, me);
}

/// Sleeps for `time`, simulated in a simulation.
pub fn sleep(time: Duration) {
    match ME.get() {
        NOBODY => std::thread::sleep(time),
        me => sleep_here(me, time),
    }
}

/// Returns `false` if `most` passes before the address `on` is notified.
pub(crate) fn wait_for(me: usize, on: usize, most: Option<Duration>) -> bool {
    let mut guard = world();
    if let Some(world) = guard.as_mut() {
        let until = most.map(|most| world.now.saturating_add(most));
        world.threads[me].turn = Turn::Waits(on, until);
    }
    pass(guard, me);
    !with_world(|world| world.threads[me].is_late)
}

pub(crate) fn wake(on: usize, all: bool) {
    if is_here() {
        with_world(|world| wake_in(world, on, all));
    }
}

fn add_thread(world: &mut World) -> usize {
    let priority = match world.style.draw {
        Draw::Uniform => 0,
        Draw::Priorities => world.random(1 << 62) as i64,
    };
    world.threads.push(Thread {
        turn: Turn::May,
        is_late: false,
        priority,
        baton: Arc::default(),
    });
    world.threads.len() - 1
}

fn enter(me: usize) {
    ME.set(me);
    LEAVE.with(|_| ());
    await_baton(world(), me);
}

/// Starts a detached thread of this thread's simulation. Panics outside a simulation. Unlike other
/// threads of the library, it blocks no signals.
pub fn spawn_named(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    assert!(is_here(), "spawn called outside a simulation");
    let new = with_world(|world| {
        let new = add_thread(world);
        preempt_by(world, world.threads[new].priority);
        new
    });
    let builder = std::thread::Builder::new().name(name.to_owned());
    let spawned = builder.spawn(move || {
        enter(new);
        work();
    });
    if spawned.is_err() {
        with_world(|world| world.threads[new].turn = Turn::Over);
    }
    spawned.map(drop)
}

/// Handle for joining a thread of a simulation.
#[derive(Debug)]
pub struct Joined {
    thread: usize,
    panic: Arc<std::sync::Mutex<Option<Box<dyn std::any::Any + Send>>>>,
}

/// Starts a thread of this simulation, to be [joined](Joined::join). Panics outside a simulation,
/// and if the system cannot start a thread.
#[must_use]
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Joined {
    let panic: Arc<std::sync::Mutex<Option<Box<dyn std::any::Any + Send>>>> = Arc::default();
    let thread = with_world(|world| world.threads.len());
    let of_thread = Arc::clone(&panic);
    let work = std::panic::AssertUnwindSafe(work);
    spawn_named(name, move || {
        if let Err(error) = std::panic::catch_unwind(work) {
            *of_thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    })
    .expect("cannot start a thread");
    Joined { thread, panic }
}

impl Joined {
    /// Waits for the thread to end, and resumes its panic if it panicked.
    pub fn join(self) {
        let me = ME.get();
        while with_world(|world| world.threads[self.thread].turn != Turn::Over) {
            wait_for(me, joined(self.thread), None);
        }
        let panic = self
            .panic
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(panic) = panic {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Runs `work` as the first thread of a simulation, until all threads have ended. Panics if `work`
/// does. A deadlock, or too many switches, ends the process with [`STUCK`], naming `name`.
pub fn run<R: Send>(
    name: &str,
    seed: u64,
    style: Style,
    work: impl FnOnce() -> R + Send,
) -> (R, Trace) {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut new = World {
        rng: seed,
        style,
        running: 0,
        threads: Vec::new(),
        now: Duration::from_secs(1000),
        hash: DefaultHasher::new(),
        nr_switches: 0,
        lowest_priority: 0,
        nr_before_change: None,
        name: name.to_owned(),
    };
    add_thread(&mut new);
    new.draw_time();
    new.draw_left();
    *world() = Some(new);
    let result = std::thread::scope(|scope| {
        let root = scope.spawn(|| {
            enter(0);
            work()
        });
        root.join()
    });
    let mut guard = world();
    while guard
        .as_ref()
        .is_some_and(|world| world.threads.iter().any(|thread| thread.turn != Turn::Over))
    {
        guard = OVER.wait(guard).unwrap_or_else(PoisonError::into_inner);
    }
    let over = guard.take().expect("the world of this run");
    drop(guard);
    let trace = Trace {
        hash: over.hash.finish(),
        nr_switches: over.nr_switches,
        nr_threads: over.threads.len(),
    };
    match result {
        Ok(result) => (result, trace),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Instant of the simulated time, or of the system's clock outside a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

#[allow(missing_docs)] // As those of `std`.
impl Instant {
    #[must_use]
    pub fn now() -> Self {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        Self(match is_here() {
            true => with_world(|world| world.now),
            false => START.get_or_init(std::time::Instant::now).elapsed(),
        })
    }

    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Self::now().saturating_duration_since(*self)
    }

    #[must_use]
    pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0 + time)
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}
