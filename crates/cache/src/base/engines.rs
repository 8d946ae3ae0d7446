//! The engine of a cache: what does many transfers at once.
//!
//! It is made when it is first used, since a program that only hits, or only has one transfer at a time, needs none: an engine of
//! io_uring has a thread and a ring.

#[cfg(not(loom))]
mod imp {
    #[cfg(feature = "simulated")]
    use std::sync::Arc;
    use std::sync::OnceLock;

    use pagewell_io::engine::{
        Chosen, Engine, Refusal, Settings, WakerThreads, WorkerEngine, WorkerSettings,
    };

    /// The engine of a cache, once it is made, and its settings; and three sets of threads that are not the engine's:
    /// - `callers` make calls for tasks, and block: in transfers, in syncs, at pages that a program has locked;
    /// - `restorers` call the hooks on bytes for pages that the engine has read. All callers may be waiting for such pages;
    /// - `waking` calls the wakers of tasks. All callers may be waiting for such a task, which has a page locked.
    #[derive(Debug, Default)]
    pub(crate) struct Engines {
        settings: Settings,
        chosen: OnceLock<Chosen>,
        callers: OnceLock<WorkerEngine>,
        restorers: OnceLock<WorkerEngine>,
        waking: WakerThreads,
    }

    /// How many threads make calls for tasks, and how many those of one file: as many as a group commit is of.
    const CALLERS: usize = 128;
    const CALLERS_OF_FILE: usize = 64;

    /// How many threads call hooks on bytes for pages that were read, and how many those of one file: so many files may have hooks that block before others wait.
    const RESTORERS: usize = 64;
    const RESTORERS_OF_FILE: usize = 8;

    impl Engines {
        /// What `settings` say. Where these name an engine that may be refused, it is made now.
        ///
        /// # Errors
        ///
        /// Why the engine that they name is not to be had.
        pub(crate) fn new(settings: Settings) -> Result<Self, Refusal> {
            let mut engines = Self::default();
            engines.settings = settings;
            if settings.choice.may_fail() {
                // Nobody else has it yet, so it is the first.
                let _ = engines.chosen.set(Chosen::new(settings)?);
            }
            Ok(engines)
        }

        /// This engine, whatever the settings say.
        #[cfg(feature = "simulated")]
        pub(crate) fn of(engine: Arc<dyn Engine>) -> Self {
            let engines = Self::default();
            let reason = pagewell_io::engine::Reason::Asked;
            // Nobody else has it yet.
            let _ = engines.chosen.set(Chosen { engine, reason });
            engines
        }

        /// The engine, and why it is this one.
        pub(crate) fn chosen(&self) -> &Chosen {
            self.chosen
                .get_or_init(|| Chosen::or_threads(self.settings))
        }

        /// Has a thread make a call that may wait, one of those with this key ([`WorkerEngine::call`]).
        pub(crate) fn call(&self, key: usize, call: Box<dyn FnOnce() + Send>) {
            let callers = self.callers.get_or_init(|| {
                // (It takes no lock: in a simulation no other thread has its turn meanwhile.)
                WorkerEngine::new(WorkerSettings {
                    threads: CALLERS,
                    per_storage: CALLERS_OF_FILE,
                    ..WorkerSettings::default()
                })
            });
            callers.call(key, call);
        }

        /// Has a thread make a call of the hooks of a file, with this key. It waits for nothing else.
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

        /// The threads that call wakers.
        pub(crate) fn waking(&self) -> &WakerThreads {
            &self.waking
        }

        /// The engine.
        pub(crate) fn engine(&self) -> &dyn Engine {
            &*self.chosen().engine
        }
    }

    impl Drop for Engines {
        /// No cache and no file is left, and so no task that waits for one: a future borrows its file.
        fn drop(&mut self) {
            self.waking.close();
        }
    }
}

#[cfg(loom)]
mod imp {
    /// A model has no engine: each thread does its own transfers.
    #[derive(Debug, Default)]
    pub(crate) struct Engines;
}

pub(crate) use imp::Engines;
