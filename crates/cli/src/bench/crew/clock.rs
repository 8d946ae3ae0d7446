//! One clock for all workers, threads and processes alike.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the machine's monotonic clock. Processes agree on it, which
/// `std::time::Instant` does not let them use.
#[inline]
pub(in crate::bench) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // The clock counts from the start of the machine: neither part is negative.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Nanoseconds of processor time that all threads of this process have taken so far, in user and in system mode: what `getrusage` counts
/// too, in microseconds.
pub(in crate::bench) fn process_cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A duration in nanoseconds; 584 years at most.
pub(in crate::bench) fn to_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
