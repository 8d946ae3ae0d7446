//! Making frames free when there are none left.
//!
//! Owns. Rounds over the frames until something was found, and when they end ([`reclaimer`]); how hard a round tries
//! ([`effort`]); blocks of several frames ([`block`]); frames on certain nodes ([`nodes`]).
//!
//! Calls the policy for what is next, and [`super::evict`] to evict it.

mod block;
pub(crate) mod effort;
pub(crate) mod nodes;
pub(crate) mod reclaimer;
