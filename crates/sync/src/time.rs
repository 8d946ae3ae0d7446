//! Instants of the system or, with the feature `simulated`, of a simulation.

#[cfg(feature = "simulated")]
pub use pagewell_sync_testing::Instant;
#[cfg(not(feature = "simulated"))]
pub use std::time::Instant;
