//! Registry of shared values, which the first user opens and the last user closes.
//!
//! This module depends on neither files nor SQLite, so that its models run without them.
//!
//! # Protocol
//!
//! ```text
//! 1 enter    closed:  claim the key, open the value without the mutex (2)
//!            claimed: wait until the claim ends, then repeat this step
//!            in use:  count in as a candidate; get a reference to the value (3). If the last user
//!                     waits for candidates (5): wait, then repeat this step
//! 2 publish  the claim ends, the value is in use by one (4); wake all waiting threads
//!   release  the open has failed: the claim ends, the key is closed; wake all waiting threads
//! 3 join     the value is the one to open: count as a user (4)
//!   withdraw the open has failed: drop the reference, then count out
//!            either one wakes all waiting threads if the last user waits for it (5)
//! 4 leave    drop the reference, then lock the mutex and count out (5)
//! 5          other users remain: done
//!            last user, candidates exist: wait until they have joined or withdrawn, then repeat
//!            this step
//!            last user: claim the key, take the value out, close it without the mutex (6)
//! 6 release  as above, also if the close fails or panics
//! ```
//!
//! # Invariants
//!
//! - I1. A key has at most one claim, and no users beside it ([`entry`]).
//! - I2. The last user gets the value itself. Each candidate that withdraws and each user drops its
//!   reference before it counts out (steps 3, 4). So in step 5 the entry has the only reference.
//! - I3. The resources of a value, such as the lock of a file, are acquired and released under the
//!   claim: after step 1, and before step 6 or, if the open fails, the release of step 2. So an
//!   open finds them free, unless another process or other code holds them.
//! - I4. A thread that waits in step 1 or 5 has no claim, and is no candidate. So each claim and
//!   each candidate belongs to a thread that does not wait in this module, and each wait ends.
//! - I5. Each end of a claim, and of the last user's wait, wakes all threads: they share one
//!   condition variable, so a single woken thread might be one that waits for another key.
//! - I6. Only a user closes the value, never a candidate. So it is closed once the last user has
//!   left, even if opens of candidates have failed.
//!
//! A claim ends when its guard is dropped ([`Claim`]), so a panic ends it, too. The mutex is held
//! for the steps of [`entry`] only, which neither block nor call other code.
//!
//! Verified by the exhaustive test of [`entry`], and by `models`, which reject the mutants of
//! `verify/mutants/sqlite.mutants`.

mod entry;
#[cfg(all(test, loom))]
mod models;

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Deref;
#[cfg(not(loom))]
use std::sync::Arc;
use std::sync::PoisonError;

// Models explore the drops of references, too.
#[cfg(loom)]
use loom::sync::Arc;

use pagewell_sync::{Condvar, Mutex, MutexGuard, lock};

use self::entry::{Entering, Entry, Leaving, Wake};

type Entries<K, V> = HashMap<K, Entry<Arc<V>>>;

#[derive(Debug)]
pub(crate) struct Registry<K, V> {
    entries: Mutex<Entries<K, V>>,
    /// Notified when a claim ends, or the wait of a last user.
    changed: Condvar,
}

#[derive(Debug)]
#[must_use]
pub(crate) enum Entered<'r, K: Copy + Eq + Hash, V> {
    /// The value is open. The caller checks whether it is the value to open.
    Candidate(Candidate<'r, K, V>),
    /// The key was closed. The caller opens the value.
    Claimed(Claim<'r, K, V>),
}

impl<K: Copy + Eq + Hash, V> Registry<K, V> {
    pub(crate) fn new() -> Self {
        Self {
            entries: Mutex::new(HashMap::new()),
            changed: Condvar::new(),
        }
    }

    /// Returns the value of `key`, or claims the key if no value is open. Waits while another
    /// thread has the claim or will get it. The caller must have no claim and be no candidate (I4).
    pub(crate) fn enter(&self, key: K) -> Entered<'_, K, V> {
        let place = Place {
            registry: self,
            key,
        };
        let mut entries = lock(&self.entries);
        loop {
            match entries.entry(key).or_default().enter() {
                Entering::Candidate(value) => {
                    let counted = Withdrawing(place);
                    return Entered::Candidate(Candidate { value, counted });
                }
                Entering::Claimed => return Entered::Claimed(Claim(place)),
                Entering::MustWait => entries = self.wait(entries),
            }
        }
    }

    fn wait<'e>(&self, entries: MutexGuard<'e, Entries<K, V>>) -> MutexGuard<'e, Entries<K, V>> {
        let entries = self.changed.wait(entries);
        entries.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of keys that are in use or claimed.
    pub(crate) fn nr_entries(&self) -> usize {
        lock(&self.entries).len()
    }
}

#[derive(Debug)]
struct Place<'r, K, V> {
    registry: &'r Registry<K, V>,
    key: K,
}

impl<K: Copy, V> Copy for Place<'_, K, V> {}

impl<K: Copy, V> Clone for Place<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Copy + Eq + Hash, V> Place<'_, K, V> {
    /// Applies a transition to the entry, and removes the entry if it is closed afterwards.
    fn change<R>(&self, transition: impl FnOnce(&mut Entry<Arc<V>>) -> R) -> R {
        let mut entries = lock(&self.registry.entries);
        let entry = entries.entry(self.key).or_default();
        let result = transition(entry);
        if entry.is_closed() {
            entries.remove(&self.key);
        }
        result
    }

    fn decide(&self, transition: impl FnOnce(&mut Entry<Arc<V>>) -> Wake) {
        if self.change(transition) == Wake::Yes {
            self.registry.changed.notify_all();
        }
    }
}

/// Exclusive right to open or close the value of a key. The drop ends the claim and closes the key.
#[derive(Debug)]
#[must_use]
pub(crate) struct Claim<'r, K: Copy + Eq + Hash, V>(Place<'r, K, V>);

impl<'r, K: Copy + Eq + Hash, V> Claim<'r, K, V> {
    pub(crate) fn key(&self) -> K {
        self.0.key
    }

    /// Ends the claim with an open value. The caller is its first user.
    pub(crate) fn publish(self, value: V) -> User<'r, K, V> {
        let place = self.0;
        std::mem::forget(self);
        let value = Arc::new(value);
        let own = Arc::clone(&value);
        place.change(|entry| entry.publish(own));
        place.registry.changed.notify_all();
        let counted = Counted(place);
        User { value, counted }
    }
}

impl<K: Copy + Eq + Hash, V> Drop for Claim<'_, K, V> {
    fn drop(&mut self) {
        self.0.change(Entry::release);
        self.0.registry.changed.notify_all();
    }
}

/// Reference to an open value, for checks: the caller joins, or withdraws by the drop. The last
/// user waits for that, so the checks must not wait for other users.
#[derive(Debug)]
#[must_use]
pub(crate) struct Candidate<'r, K: Copy + Eq + Hash, V> {
    /// Dropped before `counted` (I2).
    value: Arc<V>,
    counted: Withdrawing<'r, K, V>,
}

impl<'r, K: Copy + Eq + Hash, V> Candidate<'r, K, V> {
    pub(crate) fn join(self) -> User<'r, K, V> {
        let Self { value, counted } = self;
        let place = counted.0;
        std::mem::forget(counted);
        place.decide(Entry::join);
        let counted = Counted(place);
        User { value, counted }
    }
}

impl<K: Copy + Eq + Hash, V> Deref for Candidate<'_, K, V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.value
    }
}

#[derive(Debug)]
struct Withdrawing<'r, K: Copy + Eq + Hash, V>(Place<'r, K, V>);

impl<K: Copy + Eq + Hash, V> Drop for Withdrawing<'_, K, V> {
    fn drop(&mut self) {
        self.0.decide(Entry::withdraw);
    }
}

/// User of an open value. The drop leaves the value, and drops it if this is the last user.
#[derive(Debug)]
#[must_use]
pub(crate) struct User<'r, K: Copy + Eq + Hash, V> {
    /// Dropped before `counted` (I2).
    value: Arc<V>,
    counted: Counted<'r, K, V>,
}

impl<K: Copy + Eq + Hash, V> User<'_, K, V> {
    /// Leaves the value. The last user waits for candidates, calls `close` without the mutex, ends
    /// the claim, and returns the result of `close`. Returns `None` if other users remain.
    pub(crate) fn leave<R>(self, close: impl FnOnce(V) -> R) -> Option<R> {
        let Self { value, counted } = self;
        // Before the caller counts out (I2).
        drop(value);
        let place = counted.0;
        std::mem::forget(counted);
        place.count_out(close)
    }
}

impl<K: Copy + Eq + Hash, V> Deref for User<'_, K, V> {
    type Target = V;

    #[inline]
    fn deref(&self) -> &V {
        &self.value
    }
}

#[derive(Debug)]
struct Counted<'r, K: Copy + Eq + Hash, V>(Place<'r, K, V>);

impl<K: Copy + Eq + Hash, V> Place<'_, K, V> {
    fn count_out<R>(self, close: impl FnOnce(V) -> R) -> Option<R> {
        let mut entries = lock(&self.registry.entries);
        let value = loop {
            match entries.entry(self.key).or_default().leave() {
                Leaving::Others => return None,
                Leaving::Last(value) => break value,
                Leaving::MustWait => entries = self.registry.wait(entries),
            }
        };
        drop(entries);
        // Ends the claim after `close` has returned or panicked. `close` must drop the value (I3).
        let _claim = Claim(self);
        let value = Arc::try_unwrap(value).ok();
        let value = value.expect("only the entry has a reference (I2)");
        Some(close(value))
    }
}

impl<K: Copy + Eq + Hash, V> Drop for Counted<'_, K, V> {
    fn drop(&mut self) {
        self.0.count_out(drop);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn opened(registry: &Registry<u8, u64>, key: u8) -> User<'_, u8, u64> {
        match registry.enter(key) {
            Entered::Candidate(candidate) => candidate.join(),
            Entered::Claimed(claim) => claim.publish(7),
        }
    }

    #[test]
    fn panics_of_opens_and_closes_leave_no_entry_and_wake_waiting_threads() {
        /// Panics without a message.
        fn panics() -> ! {
            resume_unwind(Box::new("intended"))
        }
        let registry = &Registry::new();
        let claim = || match registry.enter(1) {
            Entered::Claimed(claim) => claim,
            Entered::Candidate(_) => panic!("the key is closed"),
        };
        // Each case panics with the claim or as a user. The next case claims the key again.
        let during_open = |_claim: Claim<'_, u8, u64>| panics();
        let during_close = |claim: Claim<'_, u8, u64>| {
            claim.publish(7).leave(|_| panics());
        };
        let as_user = |claim: Claim<'_, u8, u64>| {
            let _user = claim.publish(7);
            panics();
        };
        type Case<'c> = &'c dyn Fn(Claim<'_, u8, u64>);
        let cases: [Case<'_>; 3] = [&during_open, &during_close, &as_user];
        for case in cases {
            // No other thread enters before the panic, so this thread is the last user.
            let result = catch_unwind(AssertUnwindSafe(|| case(claim())));
            assert!(result.is_err());
            assert_eq!(registry.nr_entries(), 0);
        }
        // The end of an open that panics wakes a thread that waits for the claim.
        let (entered, has_entered) = mpsc::channel();
        std::thread::scope(|scope| {
            let claim = claim();
            scope.spawn(move || {
                drop(opened(registry, 1));
                entered.send(()).unwrap();
            });
            let result = catch_unwind(AssertUnwindSafe(|| during_open(claim)));
            assert!(result.is_err());
            has_entered.recv_timeout(Duration::from_secs(60)).unwrap();
        });
        assert_eq!(registry.nr_entries(), 0);
    }

    #[test]
    fn last_user_closes_the_value_although_an_open_fails_later() {
        let registry = &Registry::new();
        let user = opened(registry, 1);
        let candidate = registry.enter(1);
        let (left, has_left) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || left.send(user.leave(|value| value)).unwrap());
            // If the thread did not wait, it would send a result at once.
            let early = has_left.recv_timeout(Duration::from_millis(50));
            assert!(early.is_err(), "{early:?}");
            drop(candidate);
            let late = has_left.recv_timeout(Duration::from_secs(60)).unwrap();
            assert_eq!(late, Some(7));
        });
        assert_eq!(registry.nr_entries(), 0);
    }

    #[test]
    fn claim_of_one_key_delays_no_thread_with_another() {
        let registry = &Registry::new();
        let Entered::Claimed(claim) = registry.enter(1) else {
            panic!("the key is closed");
        };
        let user = opened(registry, 2);
        assert_eq!(registry.nr_entries(), 2);
        assert_eq!(user.leave(|value| value), Some(7));
        assert_eq!(registry.nr_entries(), 1);
        drop(claim);
        assert_eq!(registry.nr_entries(), 0);
    }
}
