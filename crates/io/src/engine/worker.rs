//! Threads for the blocking calls of backends.
//!
//! They start on demand, and end when idle. Each backend may occupy a bounded number, so a few hung
//! backends leave threads for others. In a child of `fork`, the threads do not exist and the lock
//! may stay locked, so public functions that lock, except `nr_threads`, check the process first.

use std::fmt;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use pagewell_sync::process::ProcessId;
use pagewell_sync::thread::spawn_named;
use pagewell_sync::{Condvar, Mutex, lock};

use super::interface::{Engine, Lane, Limits, MOST_SPANS};
use super::job::{Job, Steps as _};
use super::queue::Queue;
use super::sync::GroupLane;
use crate::backend::Sealed;
use crate::file::check_process;

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

/// Engine with threads for the calls of backends.
pub struct WorkerEngine {
    shared: Arc<Shared>,
}

impl fmt::Debug for WorkerEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = &self.shared.settings;
        f.debug_tuple("WorkerEngine").field(settings).finish()
    }
}

type Call = Box<dyn FnOnce() + Send>;

struct Shared {
    process: ProcessId,
    settings: WorkerSettings,
    state: Mutex<State>,
    changed: Condvar,
    /// The next `nr_failing` attempts to start a thread fail.
    #[cfg(test)]
    nr_failing: std::sync::atomic::AtomicUsize,
}

struct State {
    queue: Queue<Call>,
    nr_threads: usize,
    /// Number of threads that will look for a call: they wait, were notified, or are starting.
    nr_idle: usize,
    /// Set by the drop: threads end when no call is ready.
    is_closed: bool,
}

impl WorkerEngine {
    /// Creates an engine, which starts threads on demand.
    #[must_use]
    pub fn new(settings: WorkerSettings) -> Self {
        Self::with(settings, |settings| Queue::new(settings.per_storage))
    }

    /// Creates an engine for [`call`](Self::call). If calls with several keys are in progress, each
    /// key may occupy fewer threads than [`per_storage`](WorkerSettings::per_storage): a quota of
    /// the threads that other keys leave free. So more keys may hang before no thread remains.
    #[must_use]
    pub fn for_calls(settings: WorkerSettings) -> Self {
        Self::with(settings, |settings| {
            Queue::sharing(settings.threads, settings.per_storage)
        })
    }

    fn with(settings: WorkerSettings, queue: impl FnOnce(&WorkerSettings) -> Queue<Call>) -> Self {
        let settings = WorkerSettings {
            threads: settings.threads.max(1),
            per_storage: settings.per_storage.max(1),
            ..settings
        };
        Self {
            shared: Arc::new(Shared {
                process: ProcessId::current(),
                settings,
                state: Mutex::new(State {
                    queue: queue(&settings),
                    nr_threads: 0,
                    nr_idle: 0,
                    is_closed: false,
                }),
                changed: Condvar::new(),
                #[cfg(test)]
                nr_failing: std::sync::atomic::AtomicUsize::new(0),
            }),
        }
    }

    /// Returns the current number of threads.
    #[must_use]
    pub fn nr_threads(&self) -> usize {
        lock(&self.shared.state).nr_threads
    }

    /// Executes `call`, which may block, on one of the threads. At most
    /// [`per_storage`](WorkerSettings::per_storage) calls with the same key, the address of an
    /// object that the call owns, run concurrently. If no thread exists and none can be started,
    /// the caller executes all calls that may start. A forked child drops the call.
    pub fn call(&self, key: usize, call: Box<dyn FnOnce() + Send>) {
        let shared = &self.shared;
        if !shared.process.is_current() {
            return;
        }
        let mut state = lock(&shared.state);
        state.queue.push(key, call);
        shared.bring_thread(&mut state);
        while state.nr_threads == 0
            && let Some((key, call)) = state.queue.pop()
        {
            drop(state);
            if !shared.perform(key, call) {
                return;
            }
            state = lock(&shared.state);
            shared.bring_thread(&mut state);
        }
    }
}

impl Shared {
    /// If calls are ready, notifies an idle thread. If more calls are ready than threads are idle,
    /// first starts a thread, unless the maximum is reached.
    ///
    /// Called after each push, and by each thread that takes a call, because the end of one call
    /// may make several others ready (under a quota). A ready call therefore never waits while a
    /// thread is idle or can be started. Otherwise the next thread that completes a call takes it,
    /// or, if no thread exists, `push` performs it.
    fn bring_thread(self: &Arc<Self>, state: &mut State) {
        let nr_ready = state.queue.nr_ready();
        if nr_ready == 0 {
            return;
        }
        if nr_ready > state.nr_idle
            && state.nr_threads < self.settings.threads
            && self.start_thread().is_ok()
        {
            state.nr_threads += 1;
            state.nr_idle += 1;
        }
        if state.nr_idle != 0 {
            self.changed.notify_one();
        }
    }

    fn start_thread(self: &Arc<Self>) -> io::Result<()> {
        #[cfg(test)]
        {
            use std::sync::atomic::Ordering::Relaxed;
            let nr = &self.nr_failing;
            if nr
                .fetch_update(Relaxed, Relaxed, |nr| nr.checked_sub(1))
                .is_ok()
            {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        let shared = Arc::clone(self);
        spawn_named("pagewell-io", move || shared.work())
    }

    fn work(self: &Arc<Self>) {
        lock(&self.state).nr_idle -= 1;
        while let Some((key, call)) = self.next() {
            if !self.perform(key, call) {
                return;
            }
        }
    }

    /// Returns `false` in a child of `fork` that `call` has created.
    fn perform(&self, key: usize, call: Call) -> bool {
        // Leak the reported panic, whose drop could panic again.
        catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(mem::forget);
        if !self.process.is_current() {
            return false;
        }
        lock(&self.state).queue.done(key);
        true
    }

    /// Waits for the next call. Returns `None` if the thread is to end.
    fn next(self: &Arc<Self>) -> Option<(usize, Call)> {
        let mut state = lock(&self.state);
        loop {
            if let Some(next) = state.queue.pop() {
                self.bring_thread(&mut state);
                return Some(next);
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
        None
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
        match check_process(self.shared.process) {
            Ok(()) => {
                if let Some(job) = job.defer() {
                    self.call(job.key(), Box::new(move || job.perform()));
                }
            }
            Err(error) => job.complete(Err(error)),
        }
    }

    fn lane(&self) -> Box<dyn Lane + '_> {
        Box::new(GroupLane::new(|job| self.submit(job)))
    }
}

impl Drop for WorkerEngine {
    /// Submitted requests are performed. The drop, perhaps on an engine's thread, does not wait.
    fn drop(&mut self) {
        if !self.shared.process.is_current() {
            return;
        }
        lock(&self.shared.state).is_closed = true;
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use pagewell_testkit::wait::{Gate, OpenAtEnd, until};

    use super::*;

    fn engine(threads: usize, per_storage: usize) -> WorkerEngine {
        WorkerEngine::for_calls(WorkerSettings {
            threads,
            per_storage,
            // A thread that is not notified does not look for a call by itself.
            idle: Duration::from_secs(3600),
        })
    }

    /// With three of four threads in use, no key may start a second call. When the call of key 0
    /// ends, key 1 may start one, and then key 0 too. The same thread takes only the first.
    #[test]
    fn the_end_of_one_call_starts_two() {
        let engine = engine(4, 2);
        let gates: [Arc<Gate>; 3] = Default::default();
        let _open = gates.each_ref().map(|gate| OpenAtEnd(gate));
        let together = Arc::new(Gate::new());
        let _open_together = OpenAtEnd(&together);
        for (key, gate) in gates.iter().enumerate() {
            let held = Arc::clone(gate);
            engine.call(key, Box::new(move || held.pass()));
            gate.wait_for(1);
        }
        for key in [1, 0] {
            let held = Arc::clone(&together);
            engine.call(key, Box::new(move || held.pass()));
        }
        assert_eq!(together.nr_arrived(), 0);
        gates[0].open();
        together.wait_for(2);
    }

    /// The caller performs calls until a thread exists, which then performs the delayed call.
    #[test]
    fn a_thread_takes_over_from_a_caller_that_had_none() {
        let engine = Arc::new(engine(2, 1));
        engine.shared.nr_failing.store(1, Ordering::Relaxed);
        let nr_done = Arc::new(AtomicUsize::new(0));
        let (of_first, of_engine) = (Arc::clone(&nr_done), Arc::clone(&engine));
        let call = Box::new(move || {
            let other = Arc::clone(&of_first);
            of_engine.call(
                2,
                Box::new(move || _ = other.fetch_add(1, Ordering::Relaxed)),
            );
            until("the other call is done", || {
                of_first.load(Ordering::Relaxed) == 1
            });
            until("its thread is idle", || {
                lock(&of_engine.shared.state).nr_idle == 1
            });
            // Delayed, since a call of the key is in progress.
            let same = Arc::clone(&of_first);
            of_engine.call(
                1,
                Box::new(move || _ = same.fetch_add(1, Ordering::Relaxed)),
            );
        });
        engine.call(1, call);
        until("the delayed call is done", || {
            nr_done.load(Ordering::Relaxed) == 2
        });
        assert_eq!(engine.nr_threads(), 1);
    }

    #[test]
    fn a_caller_without_threads_performs_all_calls() {
        let engine = engine(2, 1);
        engine
            .shared
            .nr_failing
            .store(usize::MAX, Ordering::Relaxed);
        let nr_done = Arc::new(AtomicUsize::new(0));
        for nr in 0..10 {
            let done = Arc::clone(&nr_done);
            engine.call(
                nr % 3,
                Box::new(move || _ = done.fetch_add(1, Ordering::Relaxed)),
            );
            assert_eq!(nr_done.load(Ordering::Relaxed), nr + 1);
        }
        assert_eq!(engine.nr_threads(), 0);
    }
}
