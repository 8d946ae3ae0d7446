//! The order in which pages go: the eviction policy.
//!
//! Owns. The hands and the marks of CLOCK ([`clock`]), the baseline of other policies.
//!
//! Calls `base` and the pool. It says which frame is next; [`super::evict`] finds out whether its content can go.

pub(crate) mod clock;
