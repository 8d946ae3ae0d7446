//! Backoff for short waits, sleeping, and starting a cache's threads.

#[cfg(loom)]
pub use crate::modelled::{sleep, spawn_named};
pub use crate::signals::spawn;
#[cfg(all(feature = "simulated", not(loom)))]
pub use pagewell_sync_testing::sleep;
#[cfg(not(any(feature = "simulated", loom)))]
pub use std::thread::sleep;

#[cfg(not(loom))]
const SPINS: u32 = 6;

/// Bounded spinning, then yielding, while another thread finishes a step of a few instructions,
/// such as ending a claim or unfreezing a count. Longer waits use [`crate::parking`].
#[derive(Debug, Default)]
pub struct Backoff {
    rounds: u32,
}

impl Backoff {
    /// Creates a backoff that has not waited yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Spins, twice as long with each call, and yields the processor after `SPINS` calls.
    pub fn wait(&mut self) {
        // The other thread must run for the model to make progress.
        #[cfg(loom)]
        loom::thread::yield_now();
        #[cfg(all(feature = "simulated", not(loom)))]
        if pagewell_sync_testing::give_way() {
            self.rounds = self.rounds.saturating_add(1);
            return;
        }
        #[cfg(not(loom))]
        if self.rounds < SPINS {
            for _ in 0..1_u32 << self.rounds {
                std::hint::spin_loop();
            }
        } else {
            std::thread::yield_now();
        }
        self.rounds = self.rounds.saturating_add(1);
    }

    /// Number of calls of [`wait`](Self::wait).
    pub fn rounds(&self) -> u32 {
        self.rounds
    }
}

/// Starts a detached thread, as [`spawn`] does. It belongs to this thread's simulation, if any.
#[cfg(not(loom))]
pub fn spawn_named(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    #[cfg(feature = "simulated")]
    if pagewell_sync_testing::is_here() {
        return pagewell_sync_testing::spawn_named(name, work);
    }
    spawn(name, work).map(drop)
}
