//! Selection of an engine, and the reason for it.

use std::fmt;
use std::sync::Arc;

use super::interface::Engine;
use super::settings::{Choice, Refusal, Settings};
use super::sync::SyncEngine;
use super::worker::WorkerEngine;

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

#[cfg(not(loom))]
fn uring(settings: Settings) -> Result<Arc<dyn Engine>, Refusal> {
    let engine = super::uring::UringEngine::new(settings.uring, settings.workers)?;
    Ok(Arc::new(engine))
}

#[cfg(loom)]
fn uring(_: Settings) -> Result<Arc<dyn Engine>, Refusal> {
    Err(Refusal::Refused(libc::ENOSYS))
}
