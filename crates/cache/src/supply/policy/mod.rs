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
#[cfg_attr(not(feature = "baselines"), allow(dead_code, unreachable_pub))]
pub enum Eviction {
    /// A window, a main queue, and ghosts: a page that comes back soon stays longer ([`pagewell_policy`]).
    #[cfg_attr(not(loom), default)]
    Queues,
    /// CLOCK, the baseline: one hand, and a mark a page. Models use it: what it shares is less, and all of it is in atomics of theirs.
    #[cfg_attr(loom, default)]
    Clock,
}
