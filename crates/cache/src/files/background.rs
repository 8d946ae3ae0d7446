//! The thread that writes back: when it runs, and who keeps it from running. What it does is [`super::rounds`].

use std::fmt;
use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::Weak;

use pagewell_sync::{Mutex, MutexGuard, lock};

use crate::dirty::bell::Bell;
use crate::dirty::hook::ThreadMark;

/// The thread of a cache, for what is one for the cache (`T`).
pub(crate) struct Background<T> {
    /// What wakes it.
    bell: Arc<Bell>,
    /// What it does in a round.
    round: fn(&Arc<T>),
    /// Whether it was started.
    pub(super) is_started: Mutex<bool>,
}

impl<T> fmt::Debug for Background<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> Background<T> {
    /// A thread that is not started yet, is woken by `bell`, and does `round`.
    pub(super) fn new(bell: Arc<Bell>, round: fn(&Arc<T>)) -> Self {
        Self {
            bell,
            round,
            is_started: Mutex::new(false),
        }
    }

    /// Starts the thread, for as long as `owner`, which has this, lives, unless it was started before.
    ///
    /// # Errors
    ///
    /// What the system says.
    #[cfg(not(loom))]
    pub(crate) fn start(&self, owner: &Arc<T>) -> std::io::Result<()> {
        let mut is_started = lock(&self.is_started);
        if !*is_started {
            let bell = Arc::clone(&self.bell);
            let (owner, round) = (Arc::downgrade(owner), self.round);
            std::thread::Builder::new()
                .name("pagewell-writeback".into())
                .spawn(move || run(&owner, &bell, round))?;
            *is_started = true;
        }
        Ok(())
    }

    /// Wakes the thread, or keeps it from going to sleep.
    pub(crate) fn wake(&self) {
        self.bell.ring();
    }
}

#[cfg(not(loom))]
fn run<T>(owner: &Weak<T>, bell: &Bell, round: fn(&Arc<T>)) {
    loop {
        bell.wait();
        match owner.upgrade() {
            Some(owner) => {
                // A backend or a hook that panics has said so; the pages are dirty again, and the others are not
                // to be left to it.
                let round = std::panic::AssertUnwindSafe(|| round(&owner));
                let _ = std::panic::catch_unwind(round);
            }
            None => return,
        }
    }
}

/// Held in each round of the thread that writes back, and by who keeps it from beginning one.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    lock: Mutex<()>,
    holder: ThreadMark,
}

/// [`Rounds`], held.
#[must_use]
pub(crate) struct Round<'r> {
    holder: &'r ThreadMark,
    _lock: MutexGuard<'r, ()>,
}

impl Rounds {
    /// Waits until no round is under way, and keeps the next one from beginning.
    pub(crate) fn hold(&self) -> Round<'_> {
        let round = Round {
            _lock: lock(&self.lock),
            holder: &self.holder,
        };
        self.holder.set();
        round
    }

    /// Whether this thread holds them: it is in a round, or keeps others from it.
    pub(crate) fn is_held_here(&self) -> bool {
        self.holder.is_set()
    }
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        self.holder.clear();
    }
}
