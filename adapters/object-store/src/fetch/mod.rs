//! Requests to the store for missing pages.
//!
//! - Owns: the merging of pages into requests ([`merge`]), the number of concurrent requests and
//!   their duration ([`traffic`]), the use of received bytes ([`object`], [`filling`]), the
//!   identity of objects ([`same`]).
//! - Calls: `error`, `metrics`.
//! - Promises: each request of the cache completes once. Its bytes are of the known state of the
//!   object, or it fails. An error is returned to all that wait for these pages, and is not stored.
//!   A dropped reader cancels nothing.

pub(crate) mod filling;
pub(crate) mod merge;
pub(crate) mod object;
pub(crate) mod same;
pub(crate) mod traffic;
