//! Waiting for a word to change, for as long as I/O takes.
//!
//! Protocol. A waiter locks the bucket of the word's address, looks at the word again, and sleeps if
//! it still has to wait. A waker changes the word first, then locks the bucket and wakes everybody in
//! it. Since both hold the bucket's lock, either the waiter sees the change, or it sleeps before the
//! waker gets the lock and is woken by it.
//!
//! Words of one bucket share its wake-ups: a waiter that was woken for another word sleeps again.

use crate::{Condvar, Mutex, lock};

/// How many buckets a table has: enough that unrelated waits rarely meet.
#[cfg(not(loom))]
const BUCKETS: usize = 64;
#[cfg(loom)]
const BUCKETS: usize = 1;

#[derive(Debug, Default)]
struct Bucket {
    lock: Mutex<()>,
    changed: Condvar,
}

/// Where threads wait for words that other threads change.
#[derive(Debug)]
pub struct WaitTable {
    buckets: Box<[Bucket]>,
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
            buckets: (0..BUCKETS).map(|_| Bucket::default()).collect(),
        }
    }

    fn bucket<T>(&self, word: &T) -> &Bucket {
        let address = std::ptr::from_ref(word).addr();
        // Fibonacci hashing: neighbouring words go to different buckets.
        let hash = (address >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as usize);
        &self.buckets[(hash >> 32) % self.buckets.len()]
    }

    /// Sleeps until `must_wait` says false. It is called with the bucket locked, so it may only look
    /// at the word.
    pub fn wait_while<T>(&self, word: &T, mut must_wait: impl FnMut(&T) -> bool) {
        let bucket = self.bucket(word);
        let mut guard = lock(&bucket.lock);
        while must_wait(word) {
            guard = bucket
                .changed
                .wait(guard)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// Wakes everybody who waits for `word`. To be called after the word was changed.
    pub fn wake<T>(&self, word: &T) {
        let bucket = self.bucket(word);
        // Taking the lock orders this wake-up after a waiter's last look at the word.
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
