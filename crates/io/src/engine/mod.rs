//! I/O engines: concurrent requests to backends.
//!
//! All engines keep the contract of [`Engine`], as `README.md` beside this file explains. The
//! module calls `backend` and `file`. Tested by `tests/engines`, `tests/refused.rs`,
//! `tests/forked.rs`.

mod choice;
mod interface;
pub(crate) mod job;
mod queue;
mod settings;
mod sync;
#[cfg(not(loom))]
mod uring;
mod waker_threads;
mod worker;

pub use self::choice::{Chosen, Reason};
#[cfg(feature = "testing")]
pub(crate) use self::interface::MOST_SPANS;
pub use self::interface::{Engine, Lane, Limits};
pub use self::job::{Job, Target};
pub use self::settings::{Choice, Refusal, Settings, UringSettings};
pub use self::sync::SyncEngine;
#[cfg(not(loom))]
pub use self::uring::UringEngine;
pub use self::waker_threads::WakerThreads;
pub use self::worker::{WorkerEngine, WorkerSettings};
pub use crate::backend::{Completion, Deferred, GivenUp, Kind, RawFile, Request, Span, Spans};
