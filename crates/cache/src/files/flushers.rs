//! The threads of a cache: one that watches, and flushers that write back.
//!
//! # Which thread does what
//!
//! The *watcher* makes a round five times a second, and calls a flusher for each file that is due ([`crate::dirty::calls`]). It
//! calls neither a storage nor a hook, and waits for no file. A *flusher* takes one call at a time, and may wait for that file's
//! storage and hook as long as these like. One flusher at most is at a file. When a call has waited for [`DELAY`] since all
//! flushers are at work, the watcher starts one more, up to [`MOST_FLUSHERS`]; one that has had nothing to do for [`PATIENCE`]
//! ends. So a file whose storage hangs keeps one flusher, and no other file waits for it.
//!
//! # Who has which lock
//!
//! A flusher visits the file that it is at ([`super::visit`]), and takes its writeback lock. So a hook that runs on it is called
//! with the writeback lock of that file, and with no lock that an operation on another file could need.
//!
//! [`Rounds`] serialise those who stop the calls ([`crate::Cache::quiesce`]).

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::Weak;
#[cfg(not(loom))]
use std::time::Duration;

#[cfg(not(loom))]
use pagewell_sync::thread::spawn_named;
use pagewell_sync::{Mutex, MutexGuard, lock};

#[cfg(not(loom))]
use crate::dirty::calls::Watch;
use crate::dirty::calls::{Call, Calls, Stopped};
use crate::dirty::hook::ThreadMark;

/// How often the watcher makes a round.
#[cfg(not(loom))]
const INTERVAL: Duration = Duration::from_millis(200);

/// How long a call waits before one more flusher is started.
#[cfg(not(loom))]
const DELAY: Duration = Duration::from_millis(10);

/// How long a flusher without work stays.
#[cfg(not(loom))]
const PATIENCE: Duration = Duration::from_secs(10);

/// The most flushers of a cache: so many files may hang before others wait for them.
#[cfg(not(loom))]
const MOST_FLUSHERS: usize = 64;

thread_local! {
    /// The calls that this thread is a flusher of, named by their address, while it is at a file; 0 if it is not.
    static AT_WORK_FOR: Cell<usize> = const { Cell::new(0) };
}

/// The threads of a cache, which work on the cache's one value (`T`).
pub(crate) struct Flushers<T> {
    calls: Arc<Calls>,
    /// What the watcher does in a round.
    #[cfg_attr(loom, allow(dead_code))]
    watch: fn(&Arc<T>),
    /// What a flusher does for a call.
    #[cfg_attr(loom, allow(dead_code))]
    serve: fn(&Arc<T>, Call),
    /// Whether the watcher was started.
    pub(super) is_started: Mutex<bool>,
    rounds: Rounds,
}

impl<T> fmt::Debug for Flushers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flushers").finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> Flushers<T> {
    /// Threads that are not started yet, and take `calls`.
    pub(super) fn new(calls: Arc<Calls>, watch: fn(&Arc<T>), serve: fn(&Arc<T>, Call)) -> Self {
        Self {
            calls,
            watch,
            serve,
            is_started: Mutex::new(false),
            rounds: Rounds::default(),
        }
    }

    /// Starts the watcher and a flusher, unless they were started before. They end when their `owner`, which has this value, does.
    ///
    /// # Errors
    ///
    /// The system's error.
    #[cfg(not(loom))]
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

    /// Waits until no flusher is at work, and keeps them from beginning anything new until the answer is dropped.
    pub(crate) fn hold(&self) -> Held<'_> {
        // In this order: two threads that hold would otherwise both have stopped the calls.
        let round = self.rounds.hold();
        Held {
            _stopped: self.calls.stop(),
            _round: round,
        }
    }

    /// Whether this thread holds them ([`hold`](Self::hold)), or is one of them and at work.
    pub(crate) fn are_held_here(&self) -> bool {
        let address = Arc::as_ptr(&self.calls).addr();
        self.rounds.holder.is_set() || AT_WORK_FOR.get() == address
    }
}

/// No flusher is at work.
#[must_use]
pub(crate) struct Held<'f> {
    // Dropped first.
    _stopped: Stopped<'f>,
    _round: Round<'f>,
}

/// Held by a caller that stops the calls.
#[derive(Debug, Default)]
struct Rounds {
    lock: Mutex<()>,
    holder: ThreadMark,
}

/// [`Rounds`], held.
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

/// Starts a flusher, unless there are as many as there may be.
#[cfg(not(loom))]
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

#[cfg(not(loom))]
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
            // If the system gives no thread, the call waits for one of those that there are, and this tries again.
            Watch::MoreThreads => drop(start_flusher(owner, calls, serve)),
        }
    }
}

#[cfg(not(loom))]
fn run_flusher<T>(owner: &Weak<T>, calls: &Calls, serve: fn(&Arc<T>, Call)) {
    while let Some(call) = calls.take(PATIENCE) {
        AT_WORK_FOR.set(std::ptr::from_ref(calls).addr());
        // A storage that panics has reported that, and whoever was at work has left things in order. The panic must not keep the
        // thread from other files. The reference may be the last one: what it keeps is dropped here too.
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
