//! Giving way to other threads while a short wait lasts.

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
