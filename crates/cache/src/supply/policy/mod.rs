//! Eviction policy: the order in which pages are evicted.
//!
//! Owns. The queues of the default policy ([`queues`]), and the clock hands ([`clock`]) of the
//! policy CLOCK and of reclaim passes under either policy. [`super::evict`] determines whether a
//! frame's content can be evicted.

pub(crate) mod clock;
pub(crate) mod queues;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Eviction {
    /// Probation queue, protected queue, and ghosts ([`pagewell_policy`]).
    #[default]
    Queues,
    /// CLOCK. Models and many unit tests use it: it shares less state, all of it in loom's atomics.
    #[cfg_attr(not(test), allow(dead_code))]
    Clock,
}
