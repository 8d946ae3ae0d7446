//! The order in which pages go: the eviction policy.
//!
//! Owns. The hands and the marks of CLOCK ([`clock`]), the baseline that others are compared with.
//!
//! Calls `base` and the pool. It says which frame is next; whether what is in it can go is [`super::evict`]'s to find out.

pub(crate) mod clock;
