//! Threads for the blocking calls of backends.
//!
//! Threads are started on demand, up to a bound, and end after a period without work. Each backend
//! may occupy a bounded number of them, so that a backend that hangs leaves threads for the others.
//!
//! # Fork
//!
//! A child has none of the threads, and the lock may be held forever. The process is checked before
//! the lock is acquired, except in `nr_threads`.

use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use pagewell_sync::thread::spawn_named;
use pagewell_sync::{Condvar, Mutex, MutexGuard};

use super::group_lane::GroupLane;
use super::interface::{Engine, Lane, Limits, MOST_SPANS};
use super::job::Job;
use super::queue::{OfStorage, Queue};
use crate::backend::Sealed;
use crate::file::Owner;

/// Bounds on the threads of a [`WorkerEngine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerSettings {
    /// Maximum number of threads; at least one.
    pub threads: usize,
    /// Maximum number of threads that one backend may occupy; at least one.
    pub per_storage: usize,
    /// Idle time after which a thread ends.
    pub idle: Duration,
}

impl Default for WorkerSettings {
    /// 64 threads, 16 for a backend, 5 seconds.
    fn default() -> Self {
        Self {
            threads: 64,
            per_storage: 16,
            idle: Duration::from_secs(5),
        }
    }
}

/// Engine that makes the calls of backends on its own threads.
#[derive(Debug)]
pub struct WorkerEngine {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    owner: Owner,
    settings: WorkerSettings,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    queue: Queue<Task>,
    nr_threads: usize,
    nr_idle: usize,
    /// The engine was dropped: threads end when the queue is empty.
    is_closed: bool,
}

enum Next {
    Perform(Task),
    End,
}

enum Task {
    Job(Job),
    /// A call that may block, with its key.
    Call(usize, Box<dyn FnOnce() + Send>),
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(job) => job.fmt(f),
            Self::Call(key, _) => f.debug_tuple("Call").field(key).finish(),
        }
    }
}

impl OfStorage for Task {
    fn key(&self) -> usize {
        match self {
            Self::Job(job) => job.key(),
            Self::Call(key, _) => *key,
        }
    }
}

impl Task {
    /// Performs the task. Never unwinds.
    fn perform(self) {
        match self {
            // See `Job::call` and `Request::complete`.
            Self::Job(job) => job.perform(),
            // The panic hook has reported a panic; the drop of its payload could panic again.
            Self::Call(_, call) => catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(mem::forget),
        }
    }
}

impl WorkerEngine {
    /// Creates an engine without threads.
    #[must_use]
    pub fn new(settings: WorkerSettings) -> Self {
        let settings = WorkerSettings {
            threads: settings.threads.max(1),
            per_storage: settings.per_storage.max(1),
            ..settings
        };
        Self {
            shared: Arc::new(Shared {
                owner: Owner::this_process(),
                settings,
                state: Mutex::new(State {
                    queue: Queue::new(settings.per_storage),
                    nr_threads: 0,
                    nr_idle: 0,
                    is_closed: false,
                }),
                changed: Condvar::new(),
            }),
        }
    }

    /// Current number of threads.
    #[must_use]
    pub fn nr_threads(&self) -> usize {
        self.shared.lock().nr_threads
    }

    /// Makes a call that may block, on one of the threads. Calls with the same key count as calls
    /// of one backend: at most [`per_storage`](WorkerSettings::per_storage) run at once. A key is
    /// the address of an object that the call owns.
    ///
    /// If no thread exists or can be started, this thread makes the call. A forked child drops the
    /// call.
    pub fn call(&self, key: usize, call: Box<dyn FnOnce() + Send>) {
        if self.shared.owner.check().is_ok() {
            self.push(Task::Call(key, call));
        }
    }

    fn push(&self, job: Task) {
        let shared = &self.shared;
        let mut state = shared.lock();
        state.queue.push(job);
        if state.queue.nr_ready() <= state.nr_idle {
            drop(state);
            shared.changed.notify_one();
            return;
        }
        if state.nr_threads == shared.settings.threads {
            return;
        }
        let for_thread = Arc::clone(shared);
        match spawn_named("pagewell-io", move || for_thread.work()) {
            Ok(()) => state.nr_threads += 1,
            // The other threads do it. If there are none, this thread has to.
            Err(_) if state.nr_threads != 0 => {}
            Err(_) => {
                let job = state.queue.pop();
                drop(state);
                if let Some(job) = job {
                    shared.perform(job);
                }
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Next::Perform(job) = self.next() {
            self.perform(job);
        }
    }

    fn perform(&self, job: Task) {
        let key = job.key();
        job.perform();
        let mut state = self.lock();
        state.queue.done(key);
        // This thread takes one more. If the bound now admits more, wake another thread.
        let wakes = state.queue.nr_ready() > 1 && state.nr_idle != 0;
        drop(state);
        if wakes {
            self.changed.notify_one();
        }
    }

    fn next(&self) -> Next {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.queue.pop() {
                return Next::Perform(job);
            }
            if state.is_closed {
                break;
            }
            state.nr_idle += 1;
            let (guard, timeout) = self
                .changed
                .wait_timeout(state, self.settings.idle)
                .unwrap_or_else(PoisonError::into_inner);
            state = guard;
            state.nr_idle -= 1;
            if timeout.timed_out() && state.queue.nr_ready() == 0 {
                break;
            }
        }
        state.nr_threads -= 1;
        Next::End
    }
}

impl Sealed for WorkerEngine {}

impl Engine for WorkerEngine {
    fn name(&self) -> &'static str {
        "worker"
    }

    fn limits(&self) -> Limits {
        let settings = self.shared.settings;
        Limits {
            depth: settings.threads,
            per_storage: settings.per_storage,
            threads: settings.threads,
            spans: MOST_SPANS,
        }
    }

    fn submit(&self, job: Job) {
        match self.shared.owner.check() {
            Ok(()) => {
                if let Some(job) = job.defer() {
                    self.push(Task::Job(job));
                }
            }
            Err(error) => job.complete(Err(error)),
        }
    }

    fn lane(&self) -> Box<dyn Lane + '_> {
        Box::new(GroupLane::new(self))
    }
}

impl Drop for WorkerEngine {
    /// Submitted requests are still performed, without a wait: this may be one of the threads.
    fn drop(&mut self) {
        if self.shared.owner.check().is_err() {
            return;
        }
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
    }
}
