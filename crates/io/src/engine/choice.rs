//! Which engine it is to be, and why it is not io_uring.

use std::fmt;
use std::sync::Arc;

use super::interface::Engine;
use super::settings::{Refusal, UringSettings};
use super::sync::SyncEngine;
use super::worker::{WorkerEngine, WorkerSettings};

/// Which engine it is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Choice {
    /// io_uring; where there is none, threads.
    #[default]
    Auto,
    /// io_uring, or none.
    Uring,
    /// Threads.
    Worker,
    /// Each thread does what it gives.
    Sync,
}

impl Choice {
    /// Whether there may be no such engine.
    #[must_use]
    pub const fn may_fail(self) -> bool {
        matches!(self, Self::Uring)
    }
}

/// What engines are made with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Which one.
    pub choice: Choice,
    /// For io_uring.
    pub uring: UringSettings,
    /// For threads, which io_uring has too.
    pub workers: WorkerSettings,
}

impl Settings {
    /// Settings for `choice`, with defaults for the rest.
    #[must_use]
    pub fn new(choice: Choice) -> Self {
        Self {
            choice,
            ..Self::default()
        }
    }
}

/// An engine, and why it is this one.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// Why.
    pub reason: Reason,
}

/// Why it is this engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// It was asked for.
    Asked,
    /// It is the best that there is.
    Best,
    /// There is no io_uring.
    NoUring(Refusal),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("asked for"),
            Self::Best => f.write_str("the fastest one of this system"),
            Self::NoUring(refusal) => refusal.fmt(f),
        }
    }
}

impl Chosen {
    /// Makes an engine.
    ///
    /// # Errors
    ///
    /// Why there is no io_uring, if nothing else will do.
    pub fn new(settings: Settings) -> Result<Self, Refusal> {
        match settings.choice {
            Choice::Uring => Ok(Self {
                engine: uring(settings)?,
                reason: Reason::Asked,
            }),
            _ => Ok(Self::or_threads(settings)),
        }
    }

    /// Makes an engine; where there is no io_uring, one of threads, whatever was asked for.
    #[must_use]
    pub fn or_threads(settings: Settings) -> Self {
        let (engine, reason): (Arc<dyn Engine>, _) = match settings.choice {
            Choice::Sync => (Arc::new(SyncEngine::new()), Reason::Asked),
            Choice::Worker => (workers(settings), Reason::Asked),
            Choice::Auto | Choice::Uring => match uring(settings) {
                Ok(engine) => (engine, Reason::Best),
                Err(refusal) => (workers(settings), Reason::NoUring(refusal)),
            },
        };
        Self { engine, reason }
    }
}

fn workers(settings: Settings) -> Arc<dyn Engine> {
    Arc::new(WorkerEngine::new(settings.workers))
}

#[cfg(target_os = "linux")]
fn uring(settings: Settings) -> Result<Arc<dyn Engine>, Refusal> {
    let engine = super::uring::UringEngine::new(settings.uring, settings.workers)?;
    Ok(Arc::new(engine))
}

#[cfg(not(target_os = "linux"))]
fn uring(_: Settings) -> Result<Arc<dyn Engine>, Refusal> {
    Err(Refusal::NotHere)
}
