//! Eviction policy: the order in which pages are evicted.
//!
//! Owns. The queues of the default policy, with the leaves without pages, which the crate
//! `pagewell-policy` does not handle ([`queues`]); and the clock hands ([`clock`]) of the policy
//! CLOCK, and of reclaim passes under either policy.
//!
//! Calls the pool and `pagewell-policy`. This module selects the next frame; [`super::evict`]
//! determines whether the frame's content can be evicted.

pub(crate) mod clock;
pub(crate) mod queues;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Eviction {
    /// A probation queue, a protected queue, and ghosts: a page that is soon read again stays
    /// longer ([`pagewell_policy`]).
    #[cfg_attr(not(loom), default)]
    Queues,
    /// CLOCK: clock hands, and an accessed bit for each page. Models and many unit tests use this
    /// policy, since it shares less state, all of it in loom's atomics.
    #[cfg_attr(loom, default)]
    #[cfg_attr(not(any(test, loom)), allow(dead_code))]
    Clock,
}
