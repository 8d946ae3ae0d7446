//! The order in which pages go: the eviction policy.
//!
//! Owns. The queues of the default policy, with what the crate `pagewell-policy` does not know ([`queues`]); the hands and the marks of
//! CLOCK ([`clock`]), the baseline.
//!
//! Calls `base` and the pool. It says which frame is next; [`super::evict`] finds out whether its content can go.

pub(crate) mod clock;
pub(crate) mod queues;

/// The policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Eviction {
    /// A window, a main queue, and ghosts: a page that comes back soon stays longer ([`pagewell_policy`]).
    #[cfg_attr(not(loom), default)]
    Queues,
    /// CLOCK: one hand, and a mark a page. Models and unit tests use it: it shares less, all of that in loom's atomics.
    #[cfg_attr(loom, default)]
    #[cfg_attr(not(any(test, loom)), allow(dead_code))]
    Clock,
}
