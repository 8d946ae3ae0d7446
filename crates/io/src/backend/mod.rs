//! Contract between the cache and every backend.
//!
//! The cache relies on no property of a backend except the contract of [`Backend`].

mod contract;
mod request;
mod spans;

pub use self::contract::{
    Backend, Buffered, Deferred, FileId, RawFile, Transfers, gather, scatter, too_large, total_len,
};
pub(crate) use self::contract::{Sealed, read_only};
pub(crate) use self::request::Panic;
pub use self::request::{Completion, GivenUp, Group, Kind, Request};
pub use self::spans::{Span, Spans};
