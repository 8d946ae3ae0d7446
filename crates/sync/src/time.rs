//! Moments: the system's, or a simulation's.

#[cfg(feature = "simulated")]
pub use crate::simulated::Instant;
#[cfg(not(feature = "simulated"))]
pub use std::time::Instant;
