//! I/O engine and helper threads of a cache.
//!
//! An engine with a fallback is created at its first use, since hits and single transfers need
//! none. If io_uring is refused for lack of descriptors, threads or memory, the thread engine
//! serves in its place, and the creation of io_uring is tried again, at most once a second.

#[cfg(feature = "simulated")]
use std::sync::Arc;
use std::sync::{Mutex, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::engine::{
    Chosen, Engine, Reason, Refusal, Settings, WakerThreads, WorkerEngine, WorkerSettings,
};

/// The I/O engine, and three sets of threads. `callers` make offloaded calls, which may wait for
/// transfers, syncs and locked pages, and so for a decoder or for a task that must be woken. So
/// other threads decode pages (`restorers`) and call wakers (`waking`).
#[derive(Debug, Default)]
pub struct Engines {
    settings: Settings,
    chosen: OnceLock<Chosen>,
    interim: OnceLock<Chosen>,
    /// Time of the last attempt to create the engine. Locked during an attempt.
    tried: Mutex<Option<Instant>>,
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
        let callers = self.callers.get_or_init(|| {
            // The closure acquires no lock, so no other thread of a simulation runs during it.
            WorkerEngine::for_calls(WorkerSettings {
                threads: CALLERS,
                per_storage: CALLERS_OF_FILE,
                ..WorkerSettings::default()
            })
        });
        callers.call(key, call);
    }

    /// Submits a call of a page codec to the decoder threads. `key` identifies the file.
    pub fn restore(&self, key: usize, call: Box<dyn FnOnce() + Send>) {
        let restorers = self.restorers.get_or_init(|| {
            WorkerEngine::for_calls(WorkerSettings {
                threads: RESTORERS,
                per_storage: RESTORERS_OF_FILE,
                ..WorkerSettings::default()
            })
        });
        restorers.call(key, call);
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

impl Drop for Engines {
    /// No task is waiting: a future borrows its file, and all files were dropped.
    fn drop(&mut self) {
        self.waking.close();
    }
}
