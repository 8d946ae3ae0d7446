//! The atomic types and fences, of `std` or of `loom`; or those of `counted`, for the test that counts their uses.

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
