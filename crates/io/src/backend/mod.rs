//! Contract between the cache and every backend.
//!
//! The cache relies on no property of a backend except the contract of [`Backend`].

mod contract;
mod deferred;
mod group;
mod request;
mod spans;
mod transfers;

pub(crate) use self::contract::read_only;
pub use self::contract::{Backend, FileId, gather, scatter, too_large, total_len};
pub use self::deferred::{Deferred, RawFile, Sealed};
pub use self::group::Group;
pub(crate) use self::group::Panic;
pub use self::request::{Completion, GivenUp, Kind, Request};
pub use self::spans::{Span, Spans};
pub use self::transfers::{Buffered, Transfers};
