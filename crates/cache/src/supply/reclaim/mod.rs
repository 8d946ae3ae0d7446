//! Reclaim: eviction of pages when no frame is free.
//!
//! Passes over the frames until one succeeds or the request fails ([`reclaimer`]); the effort of a
//! pass ([`effort`]); batches ([`batch`]); blocks ([`block`]); frames on certain nodes ([`nodes`]).

pub(crate) mod batch;
mod block;
pub(crate) mod effort;
pub(crate) mod nodes;
pub(crate) mod reclaimer;
