//! The index of a file, and the one choke point that changes it.
//!
//! Owns. The array of slots of each file ([`file_index`]), leaves ([`leaf`]), which parts of the arrays are in use ([`extents`]),
//! and the claim ([`claim`]), through which every
//! change of a slot goes; what is remembered of a page for longer than a look ([`token`]), and how often versions start over
//! ([`lives`]). Claims need one value of the cache ([`Claims`](claims::Claims)): the frames that slots name, and the places to
//! wait for a claim to end.
//!
//! Calls `base`. The room that has frames (`supply`) hands in those for leaves.
//!
//! Promises. A word of a slot with a page does not repeat (I5 of [`file_index`]), so a thread that loads it twice knows that the
//! page was there all along. A thread that holds a claim never waits for another one (C3 of [`claim`]).

pub(crate) mod claim;
pub(crate) mod claims;
pub(crate) mod extents;
pub(crate) mod file_index;
pub(crate) mod leaf;
pub(crate) mod lives;
pub(crate) mod publish;
pub(crate) mod raw;
pub(crate) mod token;
