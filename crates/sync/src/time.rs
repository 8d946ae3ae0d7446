//! Instants of the system or, with the feature `simulated`, of a simulation. In a model, the time
//! stands still.

#[cfg(loom)]
pub use crate::modelled::Instant;
#[cfg(all(feature = "simulated", not(loom)))]
pub use pagewell_sync_testing::Instant;
#[cfg(not(any(feature = "simulated", loom)))]
pub use std::time::Instant;
