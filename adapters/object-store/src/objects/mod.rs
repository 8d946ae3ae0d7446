//! Known objects: this process has their metadata and an open file of the cache. A known object is
//! trusted for a limited time ([`Builder::trust`](crate::Builder::trust)), and then checked.
//!
//! - Owns: the table of known objects ([`table`]), openings ([`open`]) by a first request
//!   ([`learn`]), checks ([`check`]), the closing of unused files ([`closer`]), the forgetting of
//!   changed objects ([`changing`]).
//! - Promises: concurrent readers share one opening of an object, also if the first of them is
//!   dropped. If the object is forgotten, or observed in another state, while it is being opened,
//!   only readers that began before get the result. The number of known objects is bounded.

pub(crate) mod changing;
mod check;
pub(crate) mod closer;
pub(crate) mod known;
mod learn;
pub(crate) mod open;
pub(crate) mod table;
