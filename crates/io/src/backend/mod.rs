//! Contract between the cache and every backend.
//!
//! The cache relies on no property of a backend except the contract of [`Backend`].

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

pub(crate) use self::contract::read_only;
pub use self::contract::{Backend, FileId, gather, scatter, too_large, total_len};
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
