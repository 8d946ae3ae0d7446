//! Threads that call the wakers of tasks.
//!
//! A waker may run its task at once, block, or never return. Therefore threads that hold no lock,
//! and on which no completion depends, call the wakers. Exception: if the system cannot start a
//! thread and no watcher exists, `deliver` does.
//!
//! # Protocol
//!
//! At most one thread has the *turn*: it calls the queued wakers in order until the queue is empty.
//! While wakers wait behind a call, a second thread, the *watcher*, checks every [`TICK`] whether a
//! waker has waited since the last tick. If so, it takes the turn and calls wakers itself. The
//! thread that lost the turn finishes its call and removes no other waker.
//!
//! - A waker therefore waits for at most about two ticks for each earlier waker that blocks or runs
//!   long, as long as fewer than [`MAX_THREADS`] do so at once.
//! - A push notifies or starts a thread only if no thread has the turn, or none is the watcher.
//!   Under load it therefore costs one lock acquisition and one queue operation.
//! - A watcher that sees no waker removed for [`QUIET_TICKS`] ends: an idle cache has no ticks.
//!
//! [`Roles`] defines the transitions, and its test explores every order of them for a few wakers.
//!
//! # Fork
//!
//! In a child of `fork`, the threads do not exist and the lock may stay locked, so every entry
//! point checks the process before it locks. If a waker forks, its thread ends in the child.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::Duration;

use pagewell_sync::parking::{Courier, call_waker, call_waker_unchecked};
use pagewell_sync::process::ProcessId;
use pagewell_sync::thread::{sleep, spawn_named};
use pagewell_sync::{Condvar, Mutex, MutexGuard, lock};

/// Maximum number of threads. If this many wakers block, no other is called until one returns.
const MAX_THREADS: usize = 64;

const TICK: Duration = Duration::from_millis(1);

/// Number of successive ticks without a removed waker after which the watcher ends its watch.
const QUIET_TICKS: u32 = 10;

/// Time after which a thread without a role ends.
const IDLE: Duration = Duration::from_secs(5);

/// Threads that call the wakers of tasks, started on demand and shared by clones.
#[derive(Clone, Debug)]
pub struct WakerThreads(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    process: ProcessId,
    state: Mutex<State>,
    /// Notified when a thread without a role is needed or should end.
    wanted: Condvar,
}

#[derive(Debug, Default)]
struct State {
    roles: Roles<Waker>,
    nr_threads: usize,
    nr_idle: usize,
    /// Set by [`WakerThreads::close`]: threads end when the queue is empty.
    is_closed: bool,
}

/// Number of a turn, never reused.
type Turn = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Role {
    Caller(Turn),
    Watcher,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Roles<W> {
    queue: VecDeque<W>,
    /// Number of wakers that threads have taken from the queue.
    nr_taken: u64,
    turn: Option<Turn>,
    next_turn: Turn,
    has_watcher: bool,
    /// Whether a thread that was notified or started has not arrived yet.
    is_coming: bool,
}

impl<W> Default for Roles<W> {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            nr_taken: 0,
            turn: None,
            next_turn: 0,
            has_watcher: false,
            is_coming: false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Seen {
    nr_taken: u64,
    nr_pushed: u64,
    nr_quiet: u32,
}

impl<W> Roles<W> {
    /// Returns `true` if the caller must notify or start a thread, or else clear `is_coming`.
    #[must_use]
    fn wants_thread(&mut self) -> bool {
        let is_free = self.turn.is_none() || !self.has_watcher;
        let wants = !self.queue.is_empty() && is_free && !self.is_coming;
        self.is_coming |= wants;
        wants
    }

    /// Assigns a free role to the caller. Returns `None` if none is free or the queue is empty.
    fn take_role(&mut self) -> Option<Role> {
        if self.queue.is_empty() {
            return None;
        }
        if self.turn.is_none() {
            let turn = self.next_turn;
            self.next_turn += 1;
            self.turn = Some(turn);
            return Some(Role::Caller(turn));
        }
        let is_free = !self.has_watcher;
        self.has_watcher = true;
        is_free.then_some(Role::Watcher)
    }

    /// Returns `None`, which ends the turn, if the queue is empty or the turn was revoked.
    fn take_waker(&mut self, turn: Turn) -> Option<W> {
        if self.turn != Some(turn) {
            return None;
        }
        let waker = self.queue.pop_front();
        match &waker {
            Some(_) => self.nr_taken += 1,
            None => self.turn = None,
        }
        waker
    }

    fn see(&self, nr_quiet: u32) -> Seen {
        Seen {
            nr_taken: self.nr_taken,
            nr_pushed: self.nr_taken + self.queue.len() as u64,
            nr_quiet,
        }
    }

    /// Performs the watcher's check one tick after `before`. Returns `None` if the watch ends.
    fn tick(&mut self, before: Seen) -> Option<Seen> {
        if self.nr_taken < before.nr_pushed {
            // Revoke the turn, so that this thread can take it.
            self.turn = None;
            self.has_watcher = false;
            return None;
        }
        let is_quiet = self.nr_taken == before.nr_taken;
        let nr_quiet = if is_quiet { before.nr_quiet + 1 } else { 0 };
        if nr_quiet == QUIET_TICKS {
            self.has_watcher = false;
            return None;
        }
        Some(self.see(nr_quiet))
    }
}

impl WakerThreads {
    /// Creates a set, which starts threads on demand.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Shared {
            process: ProcessId::current(),
            state: Mutex::new(State::default()),
            wanted: Condvar::new(),
        }))
    }

    /// Makes the threads end once they have called the queued wakers. Later wakers are dropped.
    pub fn close(&self) {
        if self.0.process.is_current() {
            lock(&self.0.state).is_closed = true;
            self.0.wanted.notify_all();
        }
    }
}

impl Default for WakerThreads {
    fn default() -> Self {
        Self::new()
    }
}

impl Courier for WakerThreads {
    /// Queues `wakers`. If the system cannot start a needed thread, and no watcher exists, calls
    /// all queued wakers. After [`close`](Self::close), and in a child of `fork`, drops them.
    fn deliver(&self, wakers: Vec<Waker>) {
        if !self.0.process.is_current() {
            return;
        }
        let mut state = lock(&self.0.state);
        if state.is_closed {
            // The drop of a waker is code of the program, so unlock before it.
            drop(state);
            drop(wakers);
            return;
        }
        state.roles.queue.extend(wakers);
        self.0.summon(state);
    }
}

impl Shared {
    fn summon(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if !state.roles.wants_thread() {
            return;
        }
        if state.nr_idle != 0 {
            drop(state);
            return self.wanted.notify_one();
        }
        if state.nr_threads == MAX_THREADS {
            state.roles.is_coming = false;
            return;
        }
        let shared = Arc::clone(self);
        match spawn_named("pagewell-wakers", move || shared.work()) {
            Ok(()) => state.nr_threads += 1,
            Err(_) => {
                state.roles.is_coming = false;
                // Without a watcher, all threads may be blocked forever: call the wakers here.
                if !state.roles.has_watcher {
                    let wakers = mem::take(&mut state.roles.queue);
                    drop(state);
                    wakers.into_iter().for_each(call_waker_unchecked);
                }
            }
        }
    }

    fn work(self: Arc<Self>) {
        let mut state = lock(&self.state);
        state.roles.is_coming = false;
        loop {
            match state.roles.take_role() {
                Some(Role::Caller(turn)) => {
                    while let Some(waker) = state.roles.take_waker(turn) {
                        self.summon(state);
                        call_waker(waker);
                        if !self.process.is_current() {
                            return;
                        }
                        state = lock(&self.state);
                    }
                }
                Some(Role::Watcher) => {
                    let mut seen = Some(state.roles.see(0));
                    while let Some(before) = seen {
                        drop(state);
                        sleep(TICK);
                        state = lock(&self.state);
                        seen = state.roles.tick(before);
                    }
                }
                None => {
                    if state.is_closed {
                        break;
                    }
                    state.nr_idle += 1;
                    let (guard, timeout) = self
                        .wanted
                        .wait_timeout(state, IDLE)
                        .unwrap_or_else(PoisonError::into_inner);
                    state = guard;
                    state.nr_idle -= 1;
                    let is_wanted = mem::take(&mut state.roles.is_coming);
                    if timeout.timed_out() && !is_wanted {
                        break;
                    }
                }
            }
        }
        state.nr_threads -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::mpsc;
    use std::task::Wake;

    use pagewell_testkit::wait::bounded;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    enum At {
        /// Not started, or ended.
        Out,
        Coming,
        Idle,
        /// Calls a waker in this turn; the flag is `false` if the waker never returns.
        InCall(Turn, bool),
        Watching(Seen),
    }

    /// Model of the threads, the queue, and a program whose wakers return or block forever.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct World {
        roles: Roles<bool>,
        threads: [At; 3],
        /// `true` for each waker that returns.
        to_push: Vec<bool>,
        nr_returned: usize,
    }

    impl World {
        fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
            change(&mut self);
            self
        }

        /// Models `Shared::summon`, for each thread that it may notify or start.
        fn summon(mut self) -> Vec<Self> {
            if !self.roles.wants_thread() {
                return vec![self];
            }
            let all = |at: &At| {
                let with_one =
                    |nr: usize| self.clone().with(|world| world.threads[nr] = At::Coming);
                let is_so = |nr: &usize| self.threads[*nr] == *at;
                (0..self.threads.len())
                    .filter(is_so)
                    .map(with_one)
                    .collect::<Vec<_>>()
            };
            let idle = all(&At::Idle);
            let coming = if idle.is_empty() { all(&At::Out) } else { idle };
            if coming.is_empty() {
                self.roles.is_coming = false;
                return vec![self];
            }
            coming
        }

        /// Models the loop of `Shared::work` up to the point where thread `nr` unlocks the state.
        fn look(mut self, nr: usize) -> Vec<Self> {
            match self.roles.take_role() {
                Some(Role::Caller(turn)) => self.call(nr, turn),
                Some(Role::Watcher) => {
                    self.threads[nr] = At::Watching(self.roles.see(0));
                    vec![self]
                }
                None => {
                    self.threads[nr] = At::Idle;
                    vec![self]
                }
            }
        }

        fn call(mut self, nr: usize, turn: Turn) -> Vec<Self> {
            match self.roles.take_waker(turn) {
                Some(returns) => {
                    assert_eq!(self.roles.turn, Some(turn), "two threads call wakers");
                    self.threads[nr] = At::InCall(turn, returns);
                    self.summon()
                }
                None => self.look(nr),
            }
        }

        fn next(&self) -> Vec<Self> {
            let mut all = Vec::new();
            if let Some((&returns, rest)) = self.to_push.split_first() {
                let pushed = self.clone().with(|world| {
                    world.to_push = rest.to_vec();
                    world.roles.queue.push_back(returns);
                });
                all.extend(pushed.summon());
            }
            for (nr, at) in self.threads.iter().enumerate() {
                let world = self.clone();
                match *at {
                    At::Out | At::InCall(_, false) => {}
                    At::Coming => {
                        all.extend(world.with(|world| world.roles.is_coming = false).look(nr));
                    }
                    // The thread was notified. (In the case below, its timeout has elapsed.)
                    At::Idle if world.roles.is_coming => {
                        all.extend(world.with(|world| world.roles.is_coming = false).look(nr));
                    }
                    At::Idle => all.push(world.with(|world| world.threads[nr] = At::Out)),
                    At::InCall(turn, true) => {
                        let returned = world.with(|world| world.nr_returned += 1);
                        all.extend(returned.call(nr, turn));
                    }
                    At::Watching(before) => {
                        let mut world = world;
                        match world.roles.tick(before) {
                            Some(seen) => {
                                world.threads[nr] = At::Watching(seen);
                                all.push(world);
                            }
                            None => all.extend(world.look(nr)),
                        }
                    }
                }
            }
            all
        }
    }

    /// As long as fewer wakers block than there are threads, every other waker is called.
    #[test]
    fn in_every_order_of_pushes_calls_and_ticks_each_waker_is_called() {
        for pattern in 0_u32..1 << 4 {
            let to_push: Vec<bool> = (0..4).map(|nr| pattern & 1 << nr != 0).collect();
            let nr_returning = to_push.iter().filter(|returns| **returns).count();
            if to_push.len() - nr_returning > 2 {
                continue;
            }
            let begin = World {
                roles: Roles::default(),
                threads: [At::Out, At::Out, At::Out],
                to_push,
                nr_returned: 0,
            };
            let (mut seen, mut rest) = (HashSet::from([begin.clone()]), vec![begin]);
            let mut nr_ends = 0;
            while let Some(world) = rest.pop() {
                let next = world.next();
                if next.is_empty() {
                    assert!(world.roles.queue.is_empty(), "wakers wait: {world:?}");
                    assert_eq!(world.nr_returned, nr_returning, "{world:?}");
                    let turn = world.roles.turn;
                    let has_turn =
                        |at: &At| matches!(at, At::InCall(of, false) if turn == Some(*of));
                    let is_left = world.roles.turn.is_some() && !world.threads.iter().any(has_turn);
                    assert!(!is_left, "the turn is nobody's: {world:?}");
                    assert!(
                        !world.roles.has_watcher && !world.roles.is_coming,
                        "{world:?}"
                    );
                    nr_ends += 1;
                }
                rest.extend(next.into_iter().filter(|next| seen.insert(next.clone())));
            }
            assert!(nr_ends != 0 && seen.len() > 100);
        }
    }

    struct Calls<F>(F);

    impl<F: Fn() + Send + Sync + 'static> Wake for Calls<F> {
        fn wake(self: Arc<Self>) {
            self.0();
        }
    }

    #[test]
    fn a_waker_that_blocks_delays_no_other_for_good() {
        bounded("wakers, of which some block", || {
            let threads = WakerThreads::new();
            let (unblock, is_unblocked) = mpsc::channel::<()>();
            let blocked = Arc::new(Mutex::new(is_unblocked));
            let (told, is_told) = mpsc::channel();
            for nr in 0..40 {
                let blocked = Arc::clone(&blocked);
                let told = told.clone();
                let call = move || {
                    if nr % 4 == 0 {
                        // One of these wakers waits for the channel, the others for the lock.
                        let _ = lock(&blocked).recv();
                    }
                    told.send(nr).unwrap();
                };
                threads.deliver(vec![Waker::from(Arc::new(Calls(call)))]);
            }
            let mut called: Vec<u32> = is_told.iter().take(30).collect();
            called.sort_unstable();
            let expected: Vec<u32> = (0..40).filter(|nr| nr % 4 != 0).collect();
            assert_eq!(called, expected);
            drop(unblock);
            assert_eq!(is_told.iter().take(10).map(|nr| nr % 4).sum::<u32>(), 0);
            threads.close();
        });
    }

    #[test]
    fn wakers_after_the_close_are_dropped_and_those_before_it_are_called() {
        bounded("wakers before and after the close", || {
            let threads = WakerThreads::new();
            let (told, is_told) = mpsc::channel();
            let waker = |nr: u32| {
                let told = told.clone();
                Waker::from(Arc::new(Calls(move || told.send(nr).unwrap())))
            };
            threads.deliver(vec![waker(1), waker(2)]);
            threads.close();
            threads.deliver(vec![waker(3)]);
            drop(told);
            assert_eq!(is_told.iter().collect::<Vec<_>>(), [1, 2]);
        });
    }
}
