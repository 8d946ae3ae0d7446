//! Atomic types and fences of `std`, of `loom`, or of `simulated` or `counted` in their tests.

#[cfg(all(pagewell_counted, not(loom)))]
pub use crate::counted::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};
#[cfg(all(feature = "simulated", not(any(loom, pagewell_counted))))]
pub use crate::simulated::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(all(pagewell_counted, not(loom)))]
pub use std::sync::atomic::Ordering;
#[cfg(all(feature = "simulated", not(any(loom, pagewell_counted))))]
pub use std::sync::atomic::Ordering;
#[cfg(not(any(loom, pagewell_counted, feature = "simulated")))]
pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
