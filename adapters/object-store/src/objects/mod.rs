//! Which objects are known, and until when that is believed.
//!
//! - Owns: the table of known objects ([`table`]), how one becomes known ([`open`]), the thread that closes those that nobody reads any more ([`closer`]).
//! - Calls: `fetch`, `error`, `metrics`.
//! - Promises: an object becomes known once, however many ask for it at the same time, also if the first of them goes away. What was forgotten while it was
//!   being opened is given to those that had asked before, and to nobody later. The number of known objects is bounded; the least recently used one goes.

pub(crate) mod closer;
pub(crate) mod known;
pub(crate) mod open;
pub(crate) mod table;
