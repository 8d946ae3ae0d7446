//! I/O engine and helper threads of a cache, and calls that they make for tasks ([`Errand`]).
//!
//! An engine with a fallback is created at its first use, since hits and single transfers need
//! none. If io_uring is refused for lack of descriptors, threads or memory, the thread engine
//! serves in its place, and the creation of io_uring is tried again, at most once a second.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, OnceLock, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use std::{mem, thread};

use pagewell_sync::parking::Courier;
use pagewell_sync::{Mutex, lock};

use crate::engine::{
    Chosen, Engine, Reason, Refusal, Settings, WakerThreads, WorkerEngine, WorkerSettings,
};

/// Handle of an offloaded call, held by its task. After the handle's drop, the call is still made.
#[derive(Debug)]
pub struct Errand<T>(Arc<Mutex<State<T>>>);

#[derive(Debug)]
enum State<T> {
    /// The call is queued or running. Holds the waker of the task that polled last.
    Begun(Option<Waker>),
    /// Result or panic of the call. `None` if the call was never made, or its result was taken.
    Done(Option<thread::Result<T>>),
}

struct Caller<T> {
    state: Arc<Mutex<State<T>>>,
    waking: WakerThreads,
}

impl<T> Caller<T> {
    fn finish(&self, outcome: Option<thread::Result<T>>) {
        let mut state = lock(&self.state);
        let before = match &*state {
            State::Begun(_) => mem::replace(&mut *state, State::Done(outcome)),
            State::Done(_) => return,
        };
        drop(state);
        if let State::Begun(Some(waker)) = before {
            self.waking.deliver(vec![waker]);
        }
    }
}

impl<T> Drop for Caller<T> {
    /// Completes the call without a result if it was never made, so that no task waits for it.
    fn drop(&mut self) {
        self.finish(None);
    }
}

impl<T: Send + 'static> Errand<T> {
    /// Submits `call` to the threads for offloaded calls. `key` identifies the file. When the call
    /// is made, its captures are dropped before the task is woken.
    pub fn begin(engines: &Engines, key: usize, call: impl FnOnce() -> T + Send + 'static) -> Self {
        let state = Arc::new(Mutex::new(State::Begun(None)));
        let caller = Caller {
            state: Arc::clone(&state),
            waking: engines.waking().clone(),
        };
        let call = move || caller.finish(Some(catch_unwind(AssertUnwindSafe(call))));
        engines.call(key, Box::new(call));
        Self(state)
    }

    /// Returns the result of the call, once; `None` if the call was never made, or its result was
    /// already returned. While the call is pending, stores the waker. Resumes a panic of the call.
    pub fn poll(&self, context: &Context<'_>) -> Poll<Option<T>> {
        // The clone and the drop of a waker run code of the program, so the lock is not held.
        let mut waker = None;
        let mut state = lock(&self.0);
        let is_same = |waker: &Waker| waker.will_wake(context.waker());
        if matches!(&*state, State::Begun(waker) if !waker.as_ref().is_some_and(is_same)) {
            drop(state);
            waker = Some(context.waker().clone());
            state = lock(&self.0);
        }
        match &mut *state {
            State::Begun(before) => {
                // If no waker was cloned, the task's is stored already.
                if waker.is_some() {
                    mem::swap(before, &mut waker);
                }
                Poll::Pending
            }
            State::Done(outcome) => {
                let outcome = outcome.take();
                drop(state);
                let result = |outcome: thread::Result<T>| {
                    outcome.unwrap_or_else(|panic| resume_unwind(panic))
                };
                Poll::Ready(outcome.map(result))
            }
        }
    }
}

/// The I/O engine, and three sets of threads. `callers` make offloaded calls, which may wait for
/// transfers, syncs and locked pages, and so for a decoder or for a task that must be woken. So
/// other threads decode pages (`restorers`) and call wakers (`waking`).
#[derive(Debug, Default)]
pub struct Engines {
    settings: Settings,
    chosen: OnceLock<Chosen>,
    interim: OnceLock<Chosen>,
    /// Time of the last attempt to create the engine. Locked during an attempt.
    tried: std::sync::Mutex<Option<Instant>>,
    callers: OnceLock<WorkerEngine>,
    restorers: OnceLock<WorkerEngine>,
    waking: WakerThreads,
}

/// Interval between attempts to create the engine.
const RETRY: Duration = Duration::from_secs(1);

/// Maximum number of threads that make offloaded calls: in total, and for one file while no other
/// file has calls ([`WorkerEngine::for_calls`]). The limit for one file also bounds the number of
/// offloaded syncs in one group commit. Even if 16 files have 64 hanging calls each, another file
/// gets a thread.
const CALLERS: usize = 256;
const CALLERS_OF_FILE: usize = 64;

/// Maximum number of decoder threads: in total, and for one file while no other file needs any.
/// Codecs that block delay other files only if they occupy all these threads.
const RESTORERS: usize = 128;
const RESTORERS_OF_FILE: usize = 8;

impl Engines {
    /// If `settings` name an I/O engine whose creation may fail, creates it now.
    ///
    /// # Errors
    ///
    /// The reason for which the system refuses it.
    pub fn new(settings: Settings) -> Result<Self, Refusal> {
        let mut engines = Self::default();
        engines.settings = settings;
        if settings.choice.may_fail() {
            let _ = engines.chosen.set(Chosen::new(settings)?);
        }
        Ok(engines)
    }

    /// Creates the pools of a simulation, with `engine`. No engine is chosen later, so simulations
    /// do not use the locks and times of `std` above.
    #[cfg(feature = "simulated")]
    pub fn of(engine: Arc<dyn Engine>) -> Self {
        let engines = Self::default();
        let reason = Reason::Asked;
        let _ = engines.chosen.set(Chosen { engine, reason });
        engines
    }

    /// Returns the I/O engine, and why it was chosen.
    pub fn chosen(&self) -> &Chosen {
        match self.chosen.get() {
            Some(chosen) => chosen,
            None => self.choose(),
        }
    }

    #[cold]
    fn choose(&self) -> &Chosen {
        let is_tried_now = matches!(self.tried.try_lock(), Err(TryLockError::WouldBlock));
        if let (Some(interim), true) = (self.interim.get(), is_tried_now) {
            return interim;
        }
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(chosen) = self.chosen.get() {
            return chosen;
        }
        if let (Some(interim), Some(tried)) = (self.interim.get(), &*tried)
            && tried.elapsed() < RETRY
        {
            return interim;
        }
        let chosen = Chosen::or_threads(self.settings);
        *tried = Some(Instant::now());
        match chosen.reason {
            Reason::NoUring(refusal) if refusal.may_pass() => self.interim.get_or_init(|| chosen),
            _ => self.chosen.get_or_init(|| chosen),
        }
    }

    /// Submits an offloaded call. `key` identifies the file ([`WorkerEngine::call`]).
    pub fn call(&self, key: usize, call: Box<dyn FnOnce() + Send>) {
        // The closure acquires no lock, so no other thread of a simulation runs during it.
        let callers = self
            .callers
            .get_or_init(|| threads(CALLERS, CALLERS_OF_FILE));
        callers.call(key, call);
    }

    /// Submits a call of a page codec to the decoder threads. `key` identifies the file.
    pub fn restore(&self, key: usize, call: Box<dyn FnOnce() + Send>) {
        let restorers = || threads(RESTORERS, RESTORERS_OF_FILE);
        self.restorers.get_or_init(restorers).call(key, call);
    }

    /// Returns the threads that call wakers.
    pub fn waking(&self) -> &WakerThreads {
        &self.waking
    }

    /// Returns the I/O engine.
    pub fn engine(&self) -> &dyn Engine {
        &*self.chosen().engine
    }
}

fn threads(threads: usize, per_storage: usize) -> WorkerEngine {
    WorkerEngine::for_calls(WorkerSettings {
        threads,
        per_storage,
        ..WorkerSettings::default()
    })
}

impl Drop for Engines {
    /// No task is waiting: a future borrows its file, and all files were dropped.
    fn drop(&mut self) {
        self.waking.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::Wake;

    use super::*;

    fn poll<T: Send + 'static>(errand: &Errand<T>) -> Poll<Option<T>> {
        errand.poll(&Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_call_is_told_once_with_its_panic() {
        let engines = Engines::default();
        let one = Errand::begin(&engines, 1, || 7);
        let outcome = loop {
            if let Poll::Ready(outcome) = poll(&one) {
                break outcome;
            }
        };
        assert_eq!(outcome, Some(7));
        assert_eq!(poll(&one), Poll::Ready(None));
        let panics = Errand::begin(&engines, 1, || -> u32 { panic!("on purpose") });
        let panic = catch_unwind(AssertUnwindSafe(|| while poll(&panics).is_pending() {}));
        assert!(panic.is_err());
    }

    /// A waker may block, so the thread that has made the call does not call it.
    #[test]
    fn the_waker_of_a_call_is_called_by_a_waker_thread() {
        struct Tell(Mutex<mpsc::Sender<Option<String>>>);
        impl Wake for Tell {
            fn wake(self: Arc<Self>) {
                let name = thread::current().name().map(str::to_owned);
                lock(&self.0).send(name).unwrap();
            }
        }
        let engines = Engines::default();
        let (begin, is_begun) = mpsc::channel::<()>();
        let errand = Errand::begin(&engines, 1, move || is_begun.recv());
        let (tell, is_told) = mpsc::channel();
        let waker = Waker::from(Arc::new(Tell(Mutex::new(tell))));
        assert!(errand.poll(&Context::from_waker(&waker)).is_pending());
        begin.send(()).unwrap();
        let name = is_told.recv().unwrap();
        assert_eq!(name.as_deref(), Some("pagewell-wakers"));
        assert_eq!(poll(&errand), Poll::Ready(Some(Ok(()))));
    }

    #[test]
    fn a_call_that_is_never_made_is_told_too() {
        let state = Arc::new(Mutex::new(State::<u32>::Begun(None)));
        let errand = Errand(Arc::clone(&state));
        let waking = WakerThreads::new();
        let caller = Caller { state, waking };
        assert!(poll(&errand).is_pending());
        drop(caller);
        assert_eq!(poll(&errand), Poll::Ready(None));
    }
}
