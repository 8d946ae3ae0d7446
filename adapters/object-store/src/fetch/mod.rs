//! Requests to the store for missing pages.
//!
//! - Owns: which missing pages go into one request ([`merge`]), how many requests there are at once and how long they take ([`traffic`]), what is done with
//!   the bytes that come ([`object`], [`filling`]), what makes two answers of one object ([`same`]).
//! - Calls: `error`, `metrics`.
//! - Promises: each request of the cache completes once. Bytes are of the object that is known, or an error. An error goes to all that wait for these
//!   pages, and is not kept. A reader that goes away stops nothing.

pub(crate) mod filling;
pub(crate) mod merge;
pub(crate) mod object;
pub(crate) mod same;
pub(crate) mod traffic;
