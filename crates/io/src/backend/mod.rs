//! The promises that every storage makes to the cache above it.
//!
//! - Owns: the [`Backend`] trait, its contract, and the answers that all implementations share (`contract`); what is to be done later, with all that
//!   it needs (`request`, `spans`, `group`), and the traits of storages that do it (`deferred`);
//!   how the bytes of a file of the system are transferred (`transfers`).
//! - Calls: nothing of this crate.
//! - Promises: the cache relies on the contract's table, and on nothing else. A request completes exactly once.

mod contract;
#[cfg(not(loom))]
mod deferred;
#[cfg(not(loom))]
mod group;
#[cfg(not(loom))]
mod request;
#[cfg(not(loom))]
mod spans;
#[cfg(not(loom))]
mod transfers;

pub use self::contract::{Backend, FileId};
pub(crate) use self::contract::{gather, read_only, scatter, too_large, total_len};
#[cfg(not(loom))]
pub(crate) use self::deferred::Sealed;
#[cfg(not(loom))]
pub use self::deferred::{Deferred, RawFile};
#[cfg(not(loom))]
pub(crate) use self::group::{Group, Panic};
#[cfg(not(loom))]
pub use self::request::{Completion, GivenUp, Kind, Request};
#[cfg(not(loom))]
pub use self::spans::{Span, Spans};
#[cfg(not(loom))]
pub use self::transfers::{Buffered, Transfers};
