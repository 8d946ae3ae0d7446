//! Atomic types and fences of `std`, of `loom`, or of `pagewell-sync-testing`.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(all(feature = "simulated", not(loom)))]
pub use pagewell_sync_testing::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};
#[cfg(all(feature = "simulated", not(loom)))]
pub use std::sync::atomic::Ordering;
#[cfg(not(any(loom, feature = "simulated")))]
pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// Stores `value` with release ordering in a word that other threads change by read-modify-writes.
#[cfg_attr(feature = "simulated", track_caller)]
#[inline(always)]
pub fn store_release(word: &AtomicU32, value: u32) {
    // ORDERING: Release; the caller names the acquire that it pairs with.
    #[cfg(not(loom))]
    word.store(value, Ordering::Release);
    // loom may order a plain store inside a concurrent read-modify-write, which the memory model
    // excludes. A swap has the same outcomes without this one.
    // ORDERING: Release, as above.
    #[cfg(loom)]
    word.swap(value, Ordering::Release);
}
