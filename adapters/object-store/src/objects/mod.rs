//! Known objects, and the trust in them.
//!
//! - Owns: the table of known objects ([`table`]), the opening of new ones ([`open`]), the thread
//!   that closes unused ones ([`closer`]).
//! - Calls: `fetch`, `error`, `metrics`.
//! - Promises: concurrent readers share one opening of an object, even if the first is dropped. If
//!   the object is forgotten while it is being opened, only earlier readers get the result. The
//!   number of known objects is bounded; the least recently used is forgotten first.

pub(crate) mod closer;
pub(crate) mod known;
pub(crate) mod open;
pub(crate) mod table;
