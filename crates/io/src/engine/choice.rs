//! Selection of an engine, and the reason for the selection.

use std::fmt;
use std::sync::Arc;

use super::interface::Engine;
use super::settings::{Refusal, UringSettings};
use super::sync::SyncEngine;
use super::worker::{WorkerEngine, WorkerSettings};

/// Requested kind of engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Choice {
    /// io_uring, or threads where it is unavailable.
    #[default]
    Auto,
    /// io_uring only.
    Uring,
    /// Threads.
    Worker,
    /// No threads: the submitting thread makes the backend's calls.
    Sync,
}

impl Choice {
    /// Returns `true` if [`Chosen::new`] can fail for this choice, because it has no fallback.
    #[must_use]
    pub const fn may_fail(self) -> bool {
        matches!(self, Self::Uring)
    }
}

/// Settings of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Kind of engine.
    pub choice: Choice,
    /// Settings of io_uring.
    pub uring: UringSettings,
    /// Settings of the threads. The io_uring engine uses them for calls that may block.
    pub workers: WorkerSettings,
}

impl Settings {
    /// Creates settings with this `choice`, and defaults for the rest.
    #[must_use]
    pub fn new(choice: Choice) -> Self {
        Self {
            choice,
            ..Self::default()
        }
    }
}

/// The selected engine, and the reason for its selection.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// Reason for the selection.
    pub reason: Reason,
}

/// Reason for selecting an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The caller requested this engine.
    Asked,
    /// This engine is the fastest one available.
    Best,
    /// io_uring is unavailable.
    NoUring(Refusal),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("asked for"),
            Self::Best => f.write_str("the fastest engine available"),
            Self::NoUring(refusal) => refusal.fmt(f),
        }
    }
}

impl Chosen {
    /// Creates an engine. Fails if [`Choice::Uring`] is requested and io_uring is unavailable.
    pub fn new(settings: Settings) -> Result<Self, Refusal> {
        match settings.choice {
            Choice::Uring => Ok(Self {
                engine: uring(settings)?,
                reason: Reason::Asked,
            }),
            _ => Ok(Self::or_threads(settings)),
        }
    }

    /// Like [`new`](Self::new), but falls back to threads even for [`Choice::Uring`].
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

#[cfg(all(target_os = "linux", not(loom)))]
fn uring(settings: Settings) -> Result<Arc<dyn Engine>, Refusal> {
    let engine = super::uring::UringEngine::new(settings.uring, settings.workers)?;
    Ok(Arc::new(engine))
}

#[cfg(not(all(target_os = "linux", not(loom))))]
fn uring(_: Settings) -> Result<Arc<dyn Engine>, Refusal> {
    Err(Refusal::NotHere)
}
