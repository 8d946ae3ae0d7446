//! Waiting for a word to change, for as long as I/O takes.
//!
//! Protocol.
//!
//! ```text
//! waiter                                        waker
//! 1 lock the bucket; count itself in            a change the word
//! 2 fence(SeqCst)                               b fence(SeqCst)
//! 3 look at the word; sleep if it must wait     c look at the count; done if it is 0
//! 4 woken: from 3 on; else count itself out     d lock the bucket, wake everybody in it
//! ```
//!
//! By the fences, either the waiter's load of the word (3) sees the change (a), or the waker's load of the count (c) sees the
//! waiter counted in (1). In the second case the waker locks the bucket after the waiter has gone to sleep,
//! which releases the lock, and wakes it. So if nobody waits, waking costs one fence.
//!
//! Words of one bucket share its wake-ups: a waiter that is woken for another word sleeps again.

use crate::atomic::{AtomicUsize, Ordering, fence};
use crate::shard::Padded;
use crate::{Condvar, Mutex, lock};

/// How many buckets a table has: enough that unrelated waits rarely meet.
#[cfg(not(loom))]
const BUCKETS: usize = 64;
#[cfg(loom)]
const BUCKETS: usize = 1;

#[derive(Debug, Default)]
struct Bucket {
    /// How many threads are between steps 1 and 4.
    nr_waiters: AtomicUsize,
    lock: Mutex<()>,
    changed: Condvar,
}

/// Where threads wait for words that other threads change.
#[derive(Debug)]
pub struct WaitTable {
    /// Each on lines of its own: a thread that has changed a word looks at the count of its bucket only.
    buckets: Box<[Padded<Bucket>]>,
}

impl Default for WaitTable {
    fn default() -> Self {
        Self::new()
    }
}

impl WaitTable {
    /// A table in which nobody waits.
    pub fn new() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| Padded::default()).collect(),
        }
    }

    fn bucket<T>(&self, word: &T) -> &Bucket {
        let address = std::ptr::from_ref(word).addr();
        // Fibonacci hashing: neighbouring words go to different buckets.
        let hash = (address >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as usize);
        &self.buckets[(hash >> 32) % self.buckets.len()]
    }

    /// Sleeps until `must_wait` returns false. It is called with the bucket locked, so it may only load
    /// the word.
    pub fn wait_while<T>(&self, word: &T, mut must_wait: impl FnMut(&T) -> bool) {
        let bucket = self.bucket(word);
        let mut guard = lock(&bucket.lock);
        // ORDERING: Relaxed; the fence orders the count before the look at the word.
        bucket.nr_waiters.fetch_add(1, Ordering::Relaxed);
        // ORDERING: SeqCst fence; pairs with the one in `wake` (store buffering, see the module's text).
        fence(Ordering::SeqCst);
        while must_wait(word) {
            guard = bucket
                .changed
                .wait(guard)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        // ORDERING: Relaxed; a waker that still sees us counted wakes nobody.
        bucket.nr_waiters.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes all threads that wait for `word`. The caller has changed the word before.
    pub fn wake<T>(&self, word: &T) {
        // ORDERING: SeqCst fence; pairs with the one in `wait_while`.
        fence(Ordering::SeqCst);
        let bucket = self.bucket(word);
        // ORDERING: Relaxed; ordered by the fence.
        if bucket.nr_waiters.load(Ordering::Relaxed) == 0 {
            return;
        }
        // Taking the lock orders this wake-up after the waiter has gone to sleep.
        drop(lock(&bucket.lock));
        bucket.changed.notify_all();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_waiter_sees_the_change_it_waited_for() {
        let table = WaitTable::new();
        let word = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        table.wait_while(&word, |w| w.load(Ordering::Acquire) == 0);
                        word.load(Ordering::Acquire)
                    })
                })
                .collect();
            word.store(7, Ordering::Release);
            table.wake(&word);
            for waiter in waiters {
                assert_eq!(waiter.join().unwrap(), 7);
            }
        });
    }
}
