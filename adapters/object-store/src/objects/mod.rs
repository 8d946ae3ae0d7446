//! Known objects: objects for which this process keeps the metadata that the store has returned,
//! and an open file of the cache. A known object is trusted for a limited time
//! ([`Builder::trust`](crate::Builder::trust)); the next read after that checks with the store
//! whether the object has changed.
//!
//! - Owns: the table of known objects ([`table`]), the opening of new ones ([`open`]) by a first
//!   request ([`learn`]), checks of their state ([`check`]), the thread that closes unused ones
//!   ([`closer`]), the forgetting of changed ones ([`changing`]).
//! - Calls: `fetch`, `tier`, `identity`, `error`, `metrics`.
//! - Promises: concurrent readers share one opening of an object, even if the first of them is
//!   dropped. If the object is forgotten, or observed in another state, while it is being opened,
//!   only readers that began before get the result. The number of known objects is bounded; the
//!   least recently used is forgotten first.

pub(crate) mod changing;
mod check;
pub(crate) mod closer;
pub(crate) mod known;
mod learn;
pub(crate) mod open;
pub(crate) mod table;
