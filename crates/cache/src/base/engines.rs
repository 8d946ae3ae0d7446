//! I/O engine and helper threads of a cache.
//!
//! The engine is created at its first use: a program that only hits, or that makes only one
//! transfer at a time, needs no engine. An engine of io_uring uses a thread and a ring. If it is
//! refused for lack of descriptors, threads or memory, threads serve in its place, and its creation
//! is tried again, at most once a second.

#[cfg(not(loom))]
mod imp {
    #[cfg(feature = "simulated")]
    use std::sync::Arc;
    use std::sync::{Mutex, OnceLock, PoisonError, TryLockError};
    use std::time::{Duration, Instant};

    use pagewell_io::engine::{
        Chosen, Engine, Reason, Refusal, Settings, WakerThreads, WorkerEngine, WorkerSettings,
    };

    /// Settings of the I/O engine, the engine once it is created, and three sets of threads that do
    /// not belong to the engine:
    /// - `callers` make offloaded calls and may block: in transfers, in syncs, at pages that a
    ///   program has locked;
    /// - `restorers` decode the pages that the engine has read. They are separate because all
    ///   callers may be waiting for such pages;
    /// - `waking` calls the wakers of tasks. It is separate because all callers may be waiting for
    ///   such a task, which has a page locked.
    #[derive(Debug, Default)]
    pub(crate) struct Engines {
        settings: Settings,
        chosen: OnceLock<Chosen>,
        /// Threads in place of an engine that a limit refuses for the time being.
        interim: OnceLock<Chosen>,
        /// Time of the last attempt to create the engine. Held during an attempt.
        tried: Mutex<Option<Instant>>,
        callers: OnceLock<WorkerEngine>,
        restorers: OnceLock<WorkerEngine>,
        waking: WakerThreads,
    }

    /// Minimum time between two attempts to create an engine that a limit has refused.
    const RETRY: Duration = Duration::from_secs(1);

    /// Maximum number of threads that make offloaded calls, in total and for one file. The limit
    /// for one file also bounds how many offloaded syncs can share one group commit.
    const CALLERS: usize = 128;
    const CALLERS_OF_FILE: usize = 64;

    /// Maximum number of decoder threads, in total and for one file. Codecs that block delay other
    /// files only if they occupy all threads.
    const RESTORERS: usize = 64;
    const RESTORERS_OF_FILE: usize = 8;

    impl Engines {
        /// Creates the engines with `settings`. If the settings name an I/O engine whose creation
        /// may fail, it is created now.
        ///
        /// # Errors
        ///
        /// The reason why the named engine cannot be created.
        pub(crate) fn new(settings: Settings) -> Result<Self, Refusal> {
            let mut engines = Self::default();
            engines.settings = settings;
            if settings.choice.may_fail() {
                // No other thread has access yet, so this is the first value.
                let _ = engines.chosen.set(Chosen::new(settings)?);
            }
            Ok(engines)
        }

        /// Creates the engines with the given I/O engine, which overrides the settings.
        #[cfg(feature = "simulated")]
        pub(crate) fn of(engine: Arc<dyn Engine>) -> Self {
            let engines = Self::default();
            let reason = pagewell_io::engine::Reason::Asked;
            // No other thread has access yet.
            let _ = engines.chosen.set(Chosen { engine, reason });
            engines
        }

        pub(crate) fn chosen(&self) -> &Chosen {
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
                Reason::NoUring(refusal) if refusal.may_pass() => {
                    self.interim.get_or_init(|| chosen)
                }
                _ => self.chosen.get_or_init(|| chosen),
            }
        }

        /// Submits `call`, which may wait, to the threads for offloaded calls. `key` identifies the
        /// file ([`WorkerEngine::call`]).
        pub(crate) fn call(&self, key: usize, call: Box<dyn FnOnce() + Send>) {
            let callers = self.callers.get_or_init(|| {
                // The initialization takes no lock, so no other thread of a simulation runs during
                // it.
                WorkerEngine::new(WorkerSettings {
                    threads: CALLERS,
                    per_storage: CALLERS_OF_FILE,
                    ..WorkerSettings::default()
                })
            });
            callers.call(key, call);
        }

        /// Submits `call`, which calls a page codec, to the decoder threads. `key` identifies the
        /// file. `call` waits for nothing but the codec.
        pub(crate) fn restore(&self, key: usize, call: Box<dyn FnOnce() + Send>) {
            let restorers = self.restorers.get_or_init(|| {
                WorkerEngine::new(WorkerSettings {
                    threads: RESTORERS,
                    per_storage: RESTORERS_OF_FILE,
                    ..WorkerSettings::default()
                })
            });
            restorers.call(key, call);
        }

        pub(crate) fn waking(&self) -> &WakerThreads {
            &self.waking
        }

        pub(crate) fn engine(&self) -> &dyn Engine {
            &*self.chosen().engine
        }
    }

    impl Drop for Engines {
        /// Closes the waker threads. All caches and files that used them were dropped. A future
        /// borrows its file, so no task is waiting either.
        fn drop(&mut self) {
            self.waking.close();
        }
    }
}

#[cfg(loom)]
mod imp {
    /// Empty, since each thread of a model does its own transfers.
    #[derive(Debug, Default)]
    pub(crate) struct Engines;
}

pub(crate) use imp::Engines;
