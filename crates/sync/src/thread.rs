//! Giving way to other threads while a short wait lasts; sleeping; threads of a cache.

#[cfg(all(feature = "simulated", not(loom)))]
pub use crate::simulated::{sleep, spawn_named};
#[cfg(not(any(feature = "simulated", loom)))]
pub use std::thread::sleep;

/// How many times a [`Backoff`] spins before it starts to yield the processor.
#[cfg(not(loom))]
const SPINS: u32 = 6;

/// A short wait for a step that another thread is about to finish: spins a little, then yields.
///
/// Only for steps of a few instructions (a claim that is about to be released, a count that is frozen
/// for a moment). Waits that can take as long as I/O use [`crate::parking`].
#[derive(Debug, Default)]
pub struct Backoff {
    rounds: u32,
}

impl Backoff {
    /// A wait that has not begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits a little; longer with every call.
    pub fn wait(&mut self) {
        // Under loom every wait is a yield: the model must run the other thread to make progress.
        #[cfg(loom)]
        loom::thread::yield_now();
        #[cfg(all(feature = "simulated", not(loom)))]
        if crate::simulated::give_way() {
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

    /// How many times [`wait`](Self::wait) was called.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }
}

/// Starts a thread that nobody joins.
///
/// # Errors
///
/// The system's error.
#[cfg(not(any(feature = "simulated", loom)))]
pub fn spawn_named(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map(drop)
}
