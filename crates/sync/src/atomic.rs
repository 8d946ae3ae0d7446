//! Atomic types and fences of `std`, of `loom`, or of `pagewell-sync-testing`.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(all(feature = "simulated", not(loom)))]
pub use pagewell_sync_testing::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};
#[cfg(all(feature = "simulated", not(loom)))]
pub use std::sync::atomic::Ordering;
#[cfg(not(any(loom, feature = "simulated")))]
pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
