//! Threads for the blocking calls of backends.
//!
//! They are started on demand, and end after a period without work. A backend that hangs leaves
//! threads for the others, since each may occupy only a bounded number.
//!
//! In a child of `fork`, the threads do not exist and the lock may never be released. Every
//! function except `nr_threads` therefore checks the process before it locks.

use std::fmt;
use std::io;
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
    /// 64 threads in all and 16 for one backend, and an idle time of 5 seconds.
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
    /// Set by the drop: threads end when the queue is empty.
    is_closed: bool,
}

enum Next {
    Perform(Task),
    End,
}

enum Task {
    Job(Job),
    /// The number is the key of [`WorkerEngine::call`].
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
    /// Never unwinds (see `Job::call` and `Request::complete`).
    fn perform(self) {
        match self {
            Self::Job(job) => job.perform(),
            // Leak the reported panic, whose drop could panic again.
            Self::Call(_, call) => catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(mem::forget),
        }
    }
}

impl WorkerEngine {
    /// Creates an engine, which starts threads on demand.
    #[must_use]
    pub fn new(settings: WorkerSettings) -> Self {
        Self::with(settings, |settings| Queue::new(settings.per_storage))
    }

    /// Creates an engine for [`call`](Self::call). If calls with several keys are in progress, each
    /// key may occupy fewer threads than [`per_storage`](WorkerSettings::per_storage): a quota of
    /// the threads that other keys leave free. Even if many keys have calls that hang, threads
    /// remain for other keys.
    #[must_use]
    pub fn for_calls(settings: WorkerSettings) -> Self {
        Self::with(settings, |settings| {
            Queue::sharing(settings.threads, settings.per_storage)
        })
    }

    fn with(settings: WorkerSettings, queue: impl FnOnce(&WorkerSettings) -> Queue<Task>) -> Self {
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
                    queue: queue(&settings),
                    nr_threads: 0,
                    nr_idle: 0,
                    is_closed: false,
                }),
                changed: Condvar::new(),
            }),
        }
    }

    /// Returns the current number of threads.
    #[must_use]
    pub fn nr_threads(&self) -> usize {
        self.shared.lock().nr_threads
    }

    /// Executes `call`, which may block, on one of the threads. At most
    /// [`per_storage`](WorkerSettings::per_storage) calls with the same key run concurrently. The
    /// key is the address of an object that the call owns, so it is unique. If no thread exists and
    /// none can be started, the caller executes a queued call. A forked child drops the call.
    pub fn call(&self, key: usize, call: Box<dyn FnOnce() + Send>) {
        if self.shared.owner.check().is_ok() {
            self.push(Task::Call(key, call));
        }
    }

    fn push(&self, job: Task) {
        let shared = &self.shared;
        let mut state = shared.lock();
        state.queue.push(job);
        if shared.add_thread(&mut state).is_err() && state.nr_threads == 0 {
            // No thread exists, so this one performs the tasks.
            while state.nr_threads == 0
                && let Some(job) = state.queue.pop()
            {
                drop(state);
                shared.perform(job);
                state = shared.lock();
            }
            return;
        }
        let has_idle = state.nr_idle != 0;
        drop(state);
        if has_idle {
            shared.changed.notify_one();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread if more tasks are ready than threads are idle, up to the maximum.
    fn add_thread(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        let suffice = state.queue.nr_ready() <= state.nr_idle;
        if suffice || state.nr_threads == self.settings.threads {
            return Ok(());
        }
        let shared = Arc::clone(self);
        spawn_named("pagewell-io", move || shared.work())?;
        state.nr_threads += 1;
        Ok(())
    }

    fn work(self: &Arc<Self>) {
        while let Next::Perform(job) = self.next() {
            self.perform(job);
        }
    }

    fn perform(self: &Arc<Self>, job: Task) {
        let key = job.key();
        job.perform();
        let mut state = self.lock();
        state.queue.done(key);
        // This thread takes one ready task. A second one needs another thread.
        let has_more = state.queue.nr_ready() > 1;
        let has_idle = state.nr_idle != 0;
        if has_more && !has_idle && state.queue.is_sharing() {
            // Under a quota, two tasks may start now. For one of them no thread was started when it
            // was pushed. If none can be started, the next thread that is done takes the task.
            let _ = self.add_thread(&mut state);
        }
        drop(state);
        if has_more && has_idle {
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
    /// Submitted requests are still performed. The drop does not wait for them, because one of the
    /// engine's threads may execute the drop.
    fn drop(&mut self) {
        if self.shared.owner.check().is_err() {
            return;
        }
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
    }
}
