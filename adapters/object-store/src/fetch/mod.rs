//! Requests to the store for missing pages.
//!
//! - Owns: the merging of pages into requests ([`merge`]), the number of concurrent requests and
//!   their duration ([`traffic`]), the use of received bytes ([`answer`], [`object`],
//!   [`filling`]), extensions of gets ([`context`]), the readers that wait ([`readers`]).
//! - Calls: `tier`, `identity`, `error`, `metrics`.
//! - Promises: each request of the cache completes once. It gets bytes of the known state of the
//!   object, or fails, in a limited time after it is sent. All readers that wait for the pages get
//!   the error, which is not stored. The drop of a reader cancels no request.

pub(crate) mod answer;
pub(crate) mod context;
pub(crate) mod filling;
pub(crate) mod merge;
pub(crate) mod object;
pub(crate) mod readers;
pub(crate) mod traffic;
