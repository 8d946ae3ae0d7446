//! One schedule that a seed decides: locks, waits, atomics, threads and time of a simulation (feature `simulated`).
//!
//! In a simulation ([`run`]) there are real threads, of which one runs at a time: who runs has the *baton*. It is passed on where a thread has to wait, and at any
//! operation on an atomic or a lock, and within copies of racy bytes, if the seed says so. Who has it next, which waiter is woken and how time passes follow from the seed and from nothing else. So the whole
//! run is a function of the seed, of the code that ships, and a failure replays.
//!
//! - **Waits.** A thread that finds a mutex locked, sleeps, or waits for a condition, is taken off the list of those that may run. Nobody ever waits in the system
//!   for anything but the baton.
//! - **Time** ([`Instant`]) is the simulation's: it passes a little at each switch, now and then much, and when nobody can run it goes on to the next moment for which somebody waits.
//! - **Memory.** As one thread runs at a time, each load sees the last store: what the processor and the compiler may reorder is for the models and the litmus tests.
//! - **An end.** If nobody can run, and nobody waits for a moment, the threads wait for each other: the process says so and ends ([`STUCK`]). So it does when a
//!   run takes more switches than any that ends.
//!
//! A thread that was not made in a simulation uses the primitives of `std`, through the same types. At most one simulation is there at a time.

use std::cell::Cell;
use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::io;
use std::ops::{Add, Deref, DerefMut, Sub};
use std::sync::atomic::Ordering;
use std::sync::{Arc, LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

/// The exit code of a process whose simulated threads all wait for each other, or never come to an end.
pub const STUCK: i32 = 3;

/// No thread of a simulation.
const NOBODY: usize = usize::MAX;

/// A run with more switches does not end.
const MOST_SWITCHES: u64 = 1_000_000;

/// How threads take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// After how many operations on atomics and locks another thread may have its turn, on average; none if only where a thread waits.
    pub stretch: Option<u32>,
}

/// What a run was: equal for equal seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Of every switch: who, to whom, why and when.
    pub hash: u64,
    /// How often the baton was passed on.
    pub nr_switches: u64,
    /// How many threads there were.
    pub nr_threads: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Turn {
    May,
    /// Until what is at the address is told, or until this moment.
    Waits(usize, Option<Duration>),
    Over,
}

struct Thread {
    turn: Turn,
    is_late: bool,
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
    name: String,
}

static WORLD: std::sync::Mutex<Option<World>> = std::sync::Mutex::new(None);
static OVER: std::sync::Condvar = std::sync::Condvar::new();
/// How many operations the running thread does before the next switch. Only who has the baton uses it.
static LEFT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

thread_local! {
    static ME: Cell<usize> = const { Cell::new(NOBODY) };
    /// Made first, so dropped last: what a thread's other variables do when they go is still in its turn.
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

/// An address of nothing else, for who waits for the end of a thread.
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

    /// Lets time pass, and says when the next switch comes without a wait.
    fn draw(&mut self) {
        let micros = match self.random(128) {
            0 => 100_000,
            _ => 20,
        };
        let passed = self.random(micros);
        self.now += Duration::from_micros(passed);
        let left = match self.style.stretch {
            Some(stretch) => self.random(2 * u64::from(stretch) + 1),
            None => u64::MAX,
        };
        // ORDERING: Relaxed; the baton orders who runs.
        LEFT.store(left, Ordering::Relaxed);
    }

    /// Gives the baton to whoever may run, but rather not to `me`.
    fn pass(&mut self, me: usize) {
        self.nr_switches += 1;
        if self.nr_switches > MOST_SWITCHES {
            self.give_up("it does not come to an end");
        }
        self.draw();
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
                None => self.give_up("all threads wait for each other"),
            }
        }
    }

    /// Ends the process: threads that wait for each other cannot be ended.
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
    for (nth, thread) in (0..).zip(world.threads.iter_mut().filter(|thread| waits(thread))) {
        if all || nth == chosen {
            thread.turn = Turn::May;
            thread.is_late = false;
        }
    }
}

/// Passes the baton on, and waits until it comes back.
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

/// Whether this thread is one of a simulation.
#[must_use]
pub fn is_here() -> bool {
    ME.get() != NOBODY
}

/// A point at which another thread may have its turn.
#[inline]
pub fn point() {
    let me = ME.get();
    if me == NOBODY {
        return;
    }
    // ORDERING: Relaxed, both; the baton orders who runs.
    let left = LEFT.load(Ordering::Relaxed);
    match left {
        0 => pass(world(), me),
        _ => LEFT.store(left - 1, Ordering::Relaxed),
    }
}

/// How many bytes of a copy are copied before a [`point`] in the midst of it, which is one before the copy too. None outside of a simulation.
pub(crate) fn half_of_copy(len: usize) -> usize {
    point();
    match is_here() {
        true => len / 2,
        false => 0,
    }
}

/// Lets another thread have its turn, if one may.
pub fn give_way() -> bool {
    let me = ME.get();
    if me == NOBODY {
        return false;
    }
    // For a moment: who spins waits for somebody else.
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

/// Sleeps for so long, in the time of the simulation if this thread is in one.
pub fn sleep(time: Duration) {
    match ME.get() {
        NOBODY => std::thread::sleep(time),
        me => sleep_here(me, time),
    }
}

/// Waits until what is at the address is told; false if it took longer than this.
fn wait_for(me: usize, on: usize, most: Option<Duration>) -> bool {
    let mut guard = world();
    if let Some(world) = guard.as_mut() {
        let until = most.map(|most| world.now.saturating_add(most));
        world.threads[me].turn = Turn::Waits(on, until);
    }
    pass(guard, me);
    !with_world(|world| world.threads[me].is_late)
}

fn wake(on: usize, all: bool) {
    if is_here() {
        with_world(|world| wake_in(world, on, all));
    }
}

fn add_thread(world: &mut World) -> usize {
    world.threads.push(Thread {
        turn: Turn::May,
        is_late: false,
        baton: Arc::default(),
    });
    world.threads.len() - 1
}

fn enter(me: usize) {
    ME.set(me);
    LEAVE.with(|_| ());
    await_baton(world(), me);
}

/// Starts a thread, which is of the simulation if this one is.
///
/// # Errors
///
/// The system's error.
pub fn spawn_named(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    if !is_here() {
        return builder.spawn(work).map(drop);
    }
    let new = with_world(add_thread);
    let spawned = builder.spawn(move || {
        enter(new);
        work();
    });
    if spawned.is_err() {
        with_world(|world| world.threads[new].turn = Turn::Over);
    }
    spawned.map(drop)
}

/// A thread of a simulation that somebody waits for.
#[derive(Debug)]
pub struct Joined {
    thread: usize,
    panic: Arc<std::sync::Mutex<Option<Box<dyn std::any::Any + Send>>>>,
}

/// Starts a thread of this simulation that is to be [joined](Joined::join).
///
/// # Panics
///
/// If the system gives no thread, or this is no simulation.
#[must_use]
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Joined {
    assert!(is_here(), "no simulation");
    let panic: Arc<std::sync::Mutex<Option<Box<dyn std::any::Any + Send>>>> = Arc::default();
    let thread = with_world(|world| world.threads.len());
    let of_thread = Arc::clone(&panic);
    let work = std::panic::AssertUnwindSafe(work);
    spawn_named(name, move || {
        if let Err(error) = std::panic::catch_unwind(work) {
            *of_thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    })
    .expect("a thread");
    Joined { thread, panic }
}

impl Joined {
    /// Waits for its end.
    ///
    /// # Panics
    ///
    /// If it did.
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

/// Runs `work` as the first thread of a simulation, and returns when all of its threads have ended. If it gets stuck, the process says that `name` did and
/// ends.
///
/// # Panics
///
/// When `work` does.
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
        name: name.to_owned(),
    };
    add_thread(&mut new);
    new.draw();
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

/// A moment: the simulation's, or that of the system outside of one.
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

    #[must_use]
    pub fn duration_since(&self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }

    #[must_use]
    pub fn checked_add(&self, time: Duration) -> Option<Self> {
        self.0.checked_add(time).map(Self)
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

/// As that of `std`.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(std::sync::Mutex<T>);

/// As that of `std`.
#[must_use]
pub struct MutexGuard<'a, T: ?Sized> {
    lock: &'a Mutex<T>,
    /// None while it is given back.
    inner: Option<std::sync::MutexGuard<'a, T>>,
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[allow(missing_docs)] // As those of `std`.
impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub fn into_inner(self) -> LockResult<T> {
        self.0.into_inner()
    }
}

#[allow(missing_docs)] // As those of `std`.
impl<T: ?Sized> Mutex<T> {
    fn address(&self) -> usize {
        std::ptr::from_ref(&self.0).cast::<u8>().addr()
    }

    fn guard<'a>(&'a self, inner: std::sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard {
            lock: self,
            inner: Some(inner),
        }
    }

    fn result<'a>(
        &'a self,
        result: LockResult<std::sync::MutexGuard<'a, T>>,
    ) -> LockResult<MutexGuard<'a, T>> {
        match result {
            Ok(inner) => Ok(self.guard(inner)),
            Err(poisoned) => Err(PoisonError::new(self.guard(poisoned.into_inner()))),
        }
    }

    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        point();
        let me = ME.get();
        if me == NOBODY {
            return self.result(self.0.lock());
        }
        loop {
            match self.0.try_lock() {
                Ok(inner) => return Ok(self.guard(inner)),
                Err(TryLockError::Poisoned(poisoned)) => return self.result(Err(poisoned)),
                Err(TryLockError::WouldBlock) => _ = wait_for(me, self.address(), None),
            }
        }
    }

    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        point();
        match self.0.try_lock() {
            Ok(inner) => Ok(self.guard(inner)),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            Err(TryLockError::Poisoned(poisoned)) => Err(TryLockError::Poisoned(PoisonError::new(
                self.guard(poisoned.into_inner()),
            ))),
        }
    }

    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("it is locked")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("it is locked")
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if self.inner.take().is_some() {
            wake(self.lock.address(), true);
        }
    }
}

/// As that of `std`.
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

/// As that of `std`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

#[allow(missing_docs)] // As those of `std`.
impl WaitTimeoutResult {
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

#[allow(missing_docs)] // As those of `std`.
impl Condvar {
    #[must_use]
    pub const fn new() -> Self {
        Self(std::sync::Condvar::new())
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub fn notify_one(&self) {
        point();
        self.0.notify_one();
        wake(self.address(), false);
    }

    pub fn notify_all(&self) {
        point();
        self.0.notify_all();
        wake(self.address(), true);
    }

    pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let lock = guard.lock;
        let me = ME.get();
        if me == NOBODY {
            let inner = guard.inner.take().expect("it is locked");
            return lock.result(self.0.wait(inner));
        }
        // There is no point at which another thread could run between the two.
        drop(guard);
        wait_for(me, self.address(), None);
        lock.lock()
    }

    pub fn wait_timeout<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        most: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let lock = guard.lock;
        let me = ME.get();
        if me == NOBODY {
            let inner = guard.inner.take().expect("it is locked");
            return match self.0.wait_timeout(inner, most) {
                Ok((inner, late)) => Ok((lock.guard(inner), WaitTimeoutResult(late.timed_out()))),
                Err(poisoned) => {
                    let (inner, late) = poisoned.into_inner();
                    let late = WaitTimeoutResult(late.timed_out());
                    Err(PoisonError::new((lock.guard(inner), late)))
                }
            };
        }
        drop(guard);
        let late = WaitTimeoutResult(!wait_for(me, self.address(), Some(most)));
        match lock.lock() {
            Ok(guard) => Ok((guard, late)),
            Err(poisoned) => Err(PoisonError::new((poisoned.into_inner(), late))),
        }
    }

    pub fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        while condition(&mut guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    pub fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        most: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let began = Instant::now();
        loop {
            if !condition(&mut guard) {
                return Ok((guard, WaitTimeoutResult(false)));
            }
            let rest = most.saturating_sub(began.elapsed());
            if rest == Duration::ZERO {
                return Ok((guard, WaitTimeoutResult(true)));
            }
            (guard, _) = self.wait_timeout(guard, rest)?;
        }
    }
}

/// As that of `std`.
#[derive(Debug, Default)]
pub struct RwLock<T>(std::sync::RwLock<T>);

/// As that of `std`.
#[derive(Debug)]
#[must_use]
pub struct RwLockReadGuard<'a, T> {
    address: usize,
    inner: Option<std::sync::RwLockReadGuard<'a, T>>,
}

/// As that of `std`.
#[derive(Debug)]
#[must_use]
pub struct RwLockWriteGuard<'a, T> {
    address: usize,
    inner: Option<std::sync::RwLockWriteGuard<'a, T>>,
}

#[allow(missing_docs)] // As those of `std`.
impl<T> RwLock<T> {
    pub const fn new(value: T) -> Self {
        Self(std::sync::RwLock::new(value))
    }

    /// A panic of another holder is forgotten: nobody asks for it.
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        point();
        let (me, address) = (ME.get(), std::ptr::from_ref(self).addr());
        let guard = |inner| RwLockReadGuard {
            address,
            inner: Some(inner),
        };
        if me == NOBODY {
            return Ok(guard(self.0.read().unwrap_or_else(PoisonError::into_inner)));
        }
        loop {
            match self.0.try_read() {
                Ok(inner) => return Ok(guard(inner)),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(guard(poisoned.into_inner())),
                Err(TryLockError::WouldBlock) => _ = wait_for(me, address, None),
            }
        }
    }

    /// As [`read`](Self::read).
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        point();
        let (me, address) = (ME.get(), std::ptr::from_ref(self).addr());
        let guard = |inner| RwLockWriteGuard {
            address,
            inner: Some(inner),
        };
        if me == NOBODY {
            return Ok(guard(
                self.0.write().unwrap_or_else(PoisonError::into_inner),
            ));
        }
        loop {
            match self.0.try_write() {
                Ok(inner) => return Ok(guard(inner)),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(guard(poisoned.into_inner())),
                Err(TryLockError::WouldBlock) => _ = wait_for(me, address, None),
            }
        }
    }

    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }
}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("it is locked")
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("it is locked")
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("it is locked")
    }
}

impl<T> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        drop(self.inner.take());
        wake(self.address, true);
    }
}

impl<T> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        drop(self.inner.take());
        wake(self.address, true);
    }
}

/// A fence, which is a point too.
pub fn fence(order: Ordering) {
    point();
    std::sync::atomic::fence(order);
}

macro_rules! atomic {
    ($name:ident, $value:ty, [$($change:ident),*]) => {
        /// The atomic of `std`; every operation is a [`point`] at which another thread may have its turn.
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name(std::sync::atomic::$name);

        #[allow(missing_docs)] // As those of `std`.
        impl $name {
            pub const fn new(value: $value) -> Self {
                Self(std::sync::atomic::$name::new(value))
            }

            #[inline]
            pub fn load(&self, order: Ordering) -> $value {
                point();
                self.0.load(order)
            }

            #[inline]
            pub fn store(&self, value: $value, order: Ordering) {
                point();
                self.0.store(value, order);
            }

            #[inline]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.swap(value, order)
            }

            #[inline]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                point();
                self.0.compare_exchange(current, new, success, failure)
            }

            /// Never fails by chance: that would not follow from the seed.
            #[inline]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                point();
                self.0.compare_exchange(current, new, success, failure)
            }

            #[inline]
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                mut change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut now = self.load(fetch);
                while let Some(new) = change(now) {
                    match self.compare_exchange(now, new, set, fetch) {
                        Ok(was) => return Ok(was),
                        Err(was) => now = was,
                    }
                }
                Err(now)
            }

            $(
                #[inline]
                pub fn $change(&self, value: $value, order: Ordering) -> $value {
                    point();
                    self.0.$change(value, order)
                }
            )*
        }
    };
}

atomic!(AtomicBool, bool, [fetch_and, fetch_or]);
atomic!(
    AtomicU32,
    u32,
    [
        fetch_add, fetch_sub, fetch_and, fetch_or, fetch_max, fetch_min
    ]
);
atomic!(
    AtomicU64,
    u64,
    [
        fetch_add, fetch_sub, fetch_and, fetch_or, fetch_max, fetch_min
    ]
);
atomic!(
    AtomicUsize,
    usize,
    [
        fetch_add, fetch_sub, fetch_and, fetch_or, fetch_max, fetch_min
    ]
);
