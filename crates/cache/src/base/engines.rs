//! The engine of a cache: what does many transfers at once.
//!
//! It is made when it is first used, since a program that only hits, or only has one transfer at a time, needs none: an engine of
//! io_uring has a thread and a ring.

#[cfg(not(loom))]
mod imp {
    use std::sync::OnceLock;

    use pagewell_io::engine::{Chosen, Engine, Refusal, Settings};

    /// The engine of a cache, once it is made, and what it is made with.
    #[derive(Debug, Default)]
    pub(crate) struct Engines {
        settings: Settings,
        chosen: OnceLock<Chosen>,
    }

    impl Engines {
        /// What `settings` say. Where these name an engine that may be refused, it is made now.
        ///
        /// # Errors
        ///
        /// Why the engine that they name is not to be had.
        pub(crate) fn new(settings: Settings) -> Result<Self, Refusal> {
            let engines = Self {
                settings,
                chosen: OnceLock::new(),
            };
            if settings.choice.may_fail() {
                // Nobody else has it yet, so it is the first.
                let _ = engines.chosen.set(Chosen::new(settings)?);
            }
            Ok(engines)
        }

        /// The engine, and why it is this one.
        pub(crate) fn chosen(&self) -> &Chosen {
            self.chosen
                .get_or_init(|| Chosen::or_threads(self.settings))
        }

        /// The engine.
        pub(crate) fn engine(&self) -> &dyn Engine {
            &*self.chosen().engine
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
