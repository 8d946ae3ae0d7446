//! Requests to the store for missing pages.
//!
//! - Owns: the merging of pages into requests ([`merge`]), limits of requests ([`traffic`]), the
//!   use of received bytes ([`answer`], [`object`], [`filling`]), extensions of gets ([`context`]),
//!   readers that wait ([`readers`]).
//! - Promises: each request of the cache completes once, in a limited time after it is sent, with
//!   bytes of the known state or an error. If it times out, all readers that wait for its pages get
//!   the error. Any other error is returned to the reader that began the request, and the other
//!   readers repeat it. Later reads send new requests. Dropping a reader cancels no request.

pub(crate) mod answer;
pub(crate) mod context;
pub(crate) mod filling;
pub(crate) mod merge;
pub(crate) mod object;
pub(crate) mod readers;
pub(crate) mod traffic;
