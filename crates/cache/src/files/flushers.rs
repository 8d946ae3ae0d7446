//! Threads of a cache: one watcher, and flushers that write back.
//!
//! # Tasks
//!
//! The *watcher* scans the files five times a second, and requests writeback of each file with
//! background writeback that has pages that are not clean ([`crate::dirty::calls`]). It calls
//! neither a backend nor a callback, and waits for no file. A *flusher* takes one request at a
//! time, and may wait for that file's backend and callback without a limit. At most one flusher
//! cleans a file at a time; others may concurrently close it. If a request has waited for [`DELAY`]
//! because all flushers are busy, the watcher starts one more, up to [`MOST_FLUSHERS`]. So a file
//! whose backend hangs occupies one flusher (a few at its close); others wait if all hang.
//!
//! # Locks
//!
//! During a callback, the flusher has a weak reference to the file ([`super::state::visit`]; at a
//! close, a strong one), and holds its writeback lock, but no lock that operations on other files
//! need.
//!
//! [`Rounds`] serialises callers that stop the requests ([`crate::Cache::quiesce`]).

use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pagewell_sync::thread::spawn_named;
use pagewell_sync::{Mutex, MutexGuard, lock};

use crate::dirty::calls::{Call, Calls, Stopped, Watch};
use crate::dirty::hook::ThreadMark;

const INTERVAL: Duration = Duration::from_millis(200);

const DELAY: Duration = Duration::from_millis(10);

/// Time after which an idle flusher ends.
const PATIENCE: Duration = Duration::from_secs(10);

/// Maximum number of flushers. A file waits for another file only if this many flushers hang.
const MOST_FLUSHERS: usize = 64;

thread_local! {
    /// Address of the `Calls` of the request that this thread serves as a flusher, or 0.
    static AT_WORK_FOR: Cell<usize> = const { Cell::new(0) };
}

pub(crate) struct Flushers<T> {
    calls: Arc<Calls>,
    watch: fn(&Arc<T>),
    serve: fn(&Arc<T>, Call),
    pub(super) is_started: Mutex<bool>,
    rounds: Rounds,
}

impl<T> fmt::Debug for Flushers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flushers").finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> Flushers<T> {
    /// Does not start the threads yet.
    pub(super) fn new(calls: Arc<Calls>, watch: fn(&Arc<T>), serve: fn(&Arc<T>, Call)) -> Self {
        Self {
            calls,
            watch,
            serve,
            is_started: Mutex::new(false),
            rounds: Rounds::default(),
        }
    }

    /// Starts the watcher and a flusher, once. The threads end at the latest after `owner`, which
    /// contains this value, is dropped.
    pub(crate) fn start(&self, owner: &Arc<T>) -> std::io::Result<()> {
        let mut is_started = lock(&self.is_started);
        if *is_started {
            return Ok(());
        }
        let (calls, watch, serve) = (Arc::clone(&self.calls), self.watch, self.serve);
        start_flusher(&Arc::downgrade(owner), &calls, serve)?;
        let owner = Arc::downgrade(owner);
        spawn_named("pagewell-watcher", move || {
            run_watcher(&owner, &calls, watch, serve);
        })?;
        *is_started = true;
        Ok(())
    }

    pub(crate) fn hold(&self) -> Held<'_> {
        // Acquired first: otherwise two threads could stop the requests at the same time.
        let round = self.rounds.hold();
        Held {
            _stopped: self.calls.stop(),
            _round: round,
        }
    }

    /// Whether `hold` would wait for this thread: it has the guard, or is a flusher at work.
    pub(crate) fn are_held_here(&self) -> bool {
        let address = Arc::as_ptr(&self.calls).addr();
        self.rounds.holder.is_set() || AT_WORK_FOR.get() == address
    }
}

#[must_use]
pub(crate) struct Held<'f> {
    // Dropped before the lock is released.
    _stopped: Stopped<'f>,
    _round: Round<'f>,
}

#[derive(Debug, Default)]
struct Rounds {
    lock: Mutex<()>,
    holder: ThreadMark,
}

#[must_use]
struct Round<'r> {
    holder: &'r ThreadMark,
    _lock: MutexGuard<'r, ()>,
}

impl Rounds {
    fn hold(&self) -> Round<'_> {
        let round = Round {
            _lock: lock(&self.lock),
            holder: &self.holder,
        };
        self.holder.set();
        round
    }
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        self.holder.clear();
    }
}

/// Does nothing if the maximum number of flushers exists.
fn start_flusher<T: Send + Sync + 'static>(
    owner: &Weak<T>,
    calls: &Arc<Calls>,
    serve: fn(&Arc<T>, Call),
) -> std::io::Result<()> {
    if !calls.add_thread(MOST_FLUSHERS) {
        return Ok(());
    }
    let (owner, of_thread) = (Weak::clone(owner), Arc::clone(calls));
    let started = spawn_named("pagewell-flusher", move || {
        run_flusher(&owner, &of_thread, serve);
    });
    if started.is_err() {
        calls.remove_thread();
    }
    started
}

fn run_watcher<T: Send + Sync + 'static>(
    owner: &Weak<T>,
    calls: &Arc<Calls>,
    watch: fn(&Arc<T>),
    serve: fn(&Arc<T>, Call),
) {
    loop {
        match calls.watch(INTERVAL, DELAY) {
            Watch::Over => return,
            Watch::Round => match owner.upgrade() {
                Some(owner) => watch(&owner),
                None => return,
            },
            // If no thread can be created, the watcher tries again.
            Watch::MoreThreads => drop(start_flusher(owner, calls, serve)),
        }
    }
}

fn run_flusher<T>(owner: &Weak<T>, calls: &Calls, serve: fn(&Arc<T>, Call)) {
    while let Some(call) = calls.take(PATIENCE) {
        AT_WORK_FOR.set(std::ptr::from_ref(calls).addr());
        // The panic hook reports a panic of a backend, which leaves a consistent state, so
        // continue. The drop of `owner`, perhaps the last reference, runs in this closure too.
        let work = || {
            if let Some(owner) = owner.upgrade() {
                serve(&owner, call);
            }
        };
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        AT_WORK_FOR.set(0);
        calls.done();
    }
}
