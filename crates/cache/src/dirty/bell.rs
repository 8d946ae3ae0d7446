//! What the thread that writes back sleeps by.

#[cfg(not(loom))]
use std::time::Duration;

/// How often the thread of the cache looks for dirty pages.
#[cfg(not(loom))]
const INTERVAL: Duration = Duration::from_millis(200);

/// What the thread of the cache sleeps by. It is shared with the thread, which does not keep the cache.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    has_rung: std::sync::Mutex<bool>,
    rings: std::sync::Condvar,
}

impl Bell {
    /// Wakes the thread, or keeps it from going to sleep. Claims may be held: nobody waits for anything with the lock.
    #[cold]
    pub(crate) fn ring(&self) {
        // In a model there is no thread.
        if !cfg!(loom) {
            *self.lock() = true;
            self.rings.notify_one();
        }
    }

    /// Sleeps until somebody rings, or has rung since the last time, or an interval is over.
    #[cfg(not(loom))]
    pub(crate) fn wait(&self) {
        let waited = self
            .rings
            .wait_timeout_while(self.lock(), INTERVAL, |has_rung| !*has_rung);
        let (mut has_rung, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        *has_rung = false;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, bool> {
        self.has_rung
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
