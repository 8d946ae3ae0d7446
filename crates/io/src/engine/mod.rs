//! Engines: many requests to storages at once.
//!
//! - Owns: the interface of submission and completion (`interface`, `job`); the engines; the choice between them.
//! - Calls: `backend`, `file`, and of `doubles` the random decisions.
//! - Promises: the contract of [`Engine`]; `README.md` beside this file says how it is kept.
//!
//! | module | what |
//! |---|---|
//! | `interface` | [`Engine`], [`Lane`], [`Limits`]: the contract |
//! | `job` | [`Job`]: a request and its [`Target`], a backend and what it has answered |
//! | `queue` | jobs that wait; storages take turns |
//! | `group_lane` | a lane that counts |
//! | `sync` | [`SyncEngine`]: the thread itself, the baseline |
//! | `worker` | [`WorkerEngine`]: threads |
//! | `waker_threads` | [`WakerThreads`]: threads that call the wakers of tasks |
//! | `settings` | [`UringSettings`]; [`Refusal`]: why there is no io_uring |
//! | `uring` | [`UringEngine`]: io_uring |
//! | `sim` | `SimEngine`, a simulator: one order that a seed decides, and what goes wrong (feature `sim`) |
//! | `choice` | [`Chosen`]: which one, and why |
//!
//! Proved by: `tests/engines.rs`, `tests/refused.rs`, `tests/forked.rs`, `tests/simulated.rs`.

mod choice;
mod group_lane;
mod interface;
mod job;
mod queue;
mod settings;
#[cfg(feature = "sim")]
pub mod sim;
mod sync;
#[cfg(target_os = "linux")]
mod uring;
mod waker_threads;
mod worker;

pub use self::choice::{Choice, Chosen, Reason, Settings};
pub use self::interface::{Engine, Lane, Limits};
pub use self::job::{Job, Target};
pub use self::settings::{Refusal, UringSettings};
pub use self::sync::SyncEngine;
#[cfg(target_os = "linux")]
pub use self::uring::UringEngine;
pub use self::waker_threads::WakerThreads;
pub use self::worker::{WorkerEngine, WorkerSettings};
pub use crate::backend::{Completion, Deferred, GivenUp, Kind, RawFile, Request, Span, Spans};
