//! Waiting for a word to change, for as long as I/O takes: by a thread, which sleeps, or by a task, which leaves its waker.
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
//!
//! # Tasks
//!
//! A task does 1 to 3 too ([`WaitTable::leave_waker`]), and leaves its waker instead of going to sleep; it stays counted until the waker is
//! taken out, by the waker of step d or by the task itself ([`Left`]). So the argument is the same one.
//!
//! A task's waker is code of the program: it may do anything, such as run the task at once. So no waker is called under a lock, nor
//! where a thread has something in hand that the program could wait for. Step d gives the wakers it finds to the *courier* of the table,
//! which calls them where nothing is in hand; or, if this thread said so ([`keep_wakers`]), keeps them, with the courier, until it is
//! done.
//!
//! Proved by: `tests/loom_parking.rs`, which fails with the mutants of `verify/mutants`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use crate::atomic::{AtomicUsize, Ordering, fence};
use crate::shard::Padded;
use crate::{Condvar, Mutex, lock};

/// How many buckets a table has: enough that unrelated waits rarely meet.
#[cfg(not(any(loom, feature = "simulated")))]
const BUCKETS: usize = 64;
/// In a simulation nothing depends on addresses.
#[cfg(any(loom, feature = "simulated"))]
const BUCKETS: usize = 1;

#[derive(Debug, Default)]
struct Bucket {
    /// How many threads are between steps 1 and 4, and how many wakers there are.
    nr_waiters: AtomicUsize,
    lock: Mutex<Wakers>,
    changed: Condvar,
}

/// The wakers that were left in a bucket: by the number of the leaving, with the address of the word.
#[derive(Debug, Default)]
struct Wakers {
    left: BTreeMap<u64, (usize, Waker)>,
    next: u64,
}

impl Wakers {
    /// Takes out those that wait for the word at `address`, the first that came first.
    fn take(&mut self, address: usize) -> Vec<Waker> {
        let taken = self.left.extract_if(.., |_, (word, _)| *word == address);
        taken.map(|(_, (_, waker))| waker).collect()
    }
}

/// Calls wakers where nothing is in hand that a program could wait for.
pub trait Courier: fmt::Debug + Send + Sync {
    /// Has all of `wakers` called, soon; not by this thread before this call returns, unless no other thread is to be had.
    fn deliver(&self, wakers: Vec<Waker>);
}

thread_local! {
    /// What this thread's wake-ups have found, while it keeps them.
    static KEPT: RefCell<Option<Vec<Batch>>> = const { RefCell::new(None) };
}

/// Wakers that were taken out of a table, and the courier of that table.
#[derive(Debug)]
struct Batch {
    /// None: the thread calls them itself.
    courier: Option<Arc<dyn Courier>>,
    wakers: Vec<Waker>,
}

impl Batch {
    fn deliver(self) {
        match self.courier {
            Some(courier) => courier.deliver(self.wakers),
            None => self.wakers.into_iter().for_each(call_waker),
        }
    }

    fn is_for(&self, courier: Option<&Arc<dyn Courier>>) -> bool {
        match (&self.courier, courier) {
            (Some(mine), Some(other)) => Arc::ptr_eq(mine, other),
            (None, None) => true,
            _ => false,
        }
    }
}

/// Calls `waker`, and returns also if it panics: the panic hook has shown the panic, and its payload, whose drop could panic again, is
/// leaked.
pub fn call_waker(waker: Waker) {
    let call = AssertUnwindSafe(|| waker.wake());
    catch_unwind(call).unwrap_or_else(std::mem::forget);
}

/// Does `work`, and delivers the wakers that it finds afterwards, when it has let go of whatever it had in hand. If the calling thread is
/// within another call of this function, they are delivered at the end of that call.
pub fn keep_wakers<R>(work: impl FnOnce() -> R) -> R {
    /// Delivers the wakers also when `work` panics.
    struct Deliver;
    impl Drop for Deliver {
        fn drop(&mut self) {
            let kept = KEPT.try_with(RefCell::take).unwrap_or_default();
            kept.into_iter().flatten().for_each(Batch::deliver);
        }
    }
    let is_kept_already = KEPT.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        let is_so = kept.is_some();
        kept.get_or_insert_default();
        is_so
    });
    let _deliver = (is_kept_already == Ok(false)).then(|| Deliver);
    work()
}

/// Where threads and tasks wait for words that other threads change.
pub struct WaitTable {
    /// Each on lines of its own: a thread that has changed a word looks at the count of its bucket only.
    buckets: Box<[Padded<Bucket>; BUCKETS]>,
    courier: Option<Arc<dyn Courier>>,
}

impl fmt::Debug for WaitTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitTable")
            .field("buckets", &self.buckets)
            .finish_non_exhaustive()
    }
}

/// A waker that was left. Dropping this takes it out, if it is still there.
#[derive(Debug)]
#[must_use = "a waker that is dropped is taken out"]
pub struct Left {
    bucket: usize,
    nr: u64,
}

impl Left {
    /// Takes the waker out, if it was not called.
    pub fn take_out(self, table: &WaitTable) {
        let bucket = &table.buckets[self.bucket];
        let taken = lock(&bucket.lock).left.remove(&self.nr);
        if taken.is_some() {
            // ORDERING: Relaxed; as at the end of `wait_while`.
            bucket.nr_waiters.fetch_sub(1, Ordering::Relaxed);
        }
        // The waker, whose drop is code of the program, goes here, without the lock.
    }
}

impl Default for WaitTable {
    fn default() -> Self {
        Self::new()
    }
}

impl WaitTable {
    /// A table in which nobody waits. Wakers of tasks are called at once, by who wakes them: for tests.
    pub fn new() -> Self {
        Self::with(None)
    }

    /// A table in which nobody waits. Wakers of tasks go by `courier`.
    pub fn with_courier(courier: Arc<dyn Courier>) -> Self {
        Self::with(Some(courier))
    }

    fn with(courier: Option<Arc<dyn Courier>>) -> Self {
        Self {
            buckets: Box::new(std::array::from_fn(|_| Padded::default())),
            courier,
        }
    }

    fn bucket_nr<T>(&self, word: &T) -> usize {
        let address = std::ptr::from_ref(word).addr();
        // Fibonacci hashing: neighbouring words go to different buckets.
        let hash = (address >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as usize);
        (hash >> 32) % BUCKETS
    }

    fn bucket<T>(&self, word: &T) -> &Bucket {
        &self.buckets[self.bucket_nr(word)]
    }

    /// Leaves `waker`, to be called when `word` is changed, unless `must_wait` returns false: then there is nothing to wait for. It is
    /// called with the bucket locked, so it may only load the word. The word's address is not used for another one as long as the waker
    /// is left.
    pub fn leave_waker<T>(
        &self,
        word: &T,
        waker: &Waker,
        must_wait: impl FnOnce(&T) -> bool,
    ) -> Option<Left> {
        let bucket_nr = self.bucket_nr(word);
        let bucket = &self.buckets[bucket_nr];
        // Code of the program.
        let waker = waker.clone();
        let mut wakers = lock(&bucket.lock);
        // ORDERING: Relaxed; as in `wait_while`.
        bucket.nr_waiters.fetch_add(1, Ordering::Relaxed);
        // ORDERING: SeqCst fence; as in `wait_while`.
        fence(Ordering::SeqCst);
        if !must_wait(word) {
            // ORDERING: Relaxed; as in `wait_while`.
            bucket.nr_waiters.fetch_sub(1, Ordering::Relaxed);
            drop(wakers);
            return None;
        }
        let nr = wakers.next;
        wakers.next += 1;
        let address = std::ptr::from_ref(word).addr();
        wakers.left.insert(nr, (address, waker));
        Some(Left {
            bucket: bucket_nr,
            nr,
        })
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

    /// Wakes all threads and tasks that wait for `word`. The caller has changed the word before.
    #[inline]
    pub fn wake<T>(&self, word: &T) {
        // ORDERING: SeqCst fence; pairs with the one in `wait_while`.
        fence(Ordering::SeqCst);
        let bucket = self.bucket(word);
        // ORDERING: Relaxed; ordered by the fence.
        if bucket.nr_waiters.load(Ordering::Relaxed) != 0 {
            self.wake_waiters(bucket, std::ptr::from_ref(word).addr());
        }
    }

    /// Wakes who waits for the word at `addr`, if not for another one of the bucket.
    #[cold]
    #[inline(never)]
    fn wake_waiters(&self, bucket: &Bucket, addr: usize) {
        // Taking the lock orders this wake-up after the waiter has gone to sleep, or has left its waker.
        let mut left = lock(&bucket.lock);
        let wakers = left.take(addr);
        drop(left);
        bucket.changed.notify_all();
        if !wakers.is_empty() {
            // ORDERING: Relaxed; as at the end of `wait_while`.
            bucket.nr_waiters.fetch_sub(wakers.len(), Ordering::Relaxed);
            self.deliver(wakers);
        }
    }

    /// How many threads and tasks are counted; for tests.
    #[cfg(any(test, loom))]
    pub fn nr_waiters(&self) -> usize {
        let of_bucket = |bucket: &Padded<Bucket>| bucket.nr_waiters.load(Ordering::Relaxed);
        self.buckets.iter().map(of_bucket).sum()
    }

    /// Has wakers called where nothing is in hand.
    #[cold]
    fn deliver(&self, wakers: Vec<Waker>) {
        let mut found = Some(wakers);
        let batch = |wakers| Batch {
            courier: self.courier.clone(),
            wakers,
        };
        // (A thread that is ending has no such variable any more, and keeps none.)
        let _ = KEPT.try_with(|kept| {
            if let Some(kept) = kept.borrow_mut().as_mut()
                && let Some(wakers) = found.take()
            {
                match kept.last_mut() {
                    Some(last) if last.is_for(self.courier.as_ref()) => last.wakers.extend(wakers),
                    _ => kept.push(batch(wakers)),
                }
            }
        });
        if let Some(wakers) = found {
            batch(wakers).deliver();
        }
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

    /// A waker that counts its calls.
    #[derive(Default)]
    struct Count(std::sync::atomic::AtomicUsize);

    impl Count {
        fn nr(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    impl std::task::Wake for Count {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_waker_is_called_once_for_its_word_alone() {
        let table = WaitTable::new();
        let words = [const { AtomicU64::new(0) }; 200];
        let counts: Vec<_> = words
            .iter()
            .map(|_| std::sync::Arc::new(Count::default()))
            .collect();
        let left: Vec<_> = std::iter::zip(&words, &counts)
            .map(|(word, count)| {
                let waker = Waker::from(std::sync::Arc::clone(count));
                table.leave_waker(word, &waker, |_| true).unwrap()
            })
            .collect();
        assert!(
            table
                .leave_waker(&words[0], Waker::noop(), |_| false)
                .is_none()
        );
        for word in &words[..100] {
            table.wake(word);
            table.wake(word);
        }
        for (nr, count) in counts.iter().enumerate() {
            assert_eq!(count.nr(), usize::from(nr < 100));
        }
        assert_eq!(table.nr_waiters(), 100);
        left.into_iter().for_each(|left| left.take_out(&table));
        assert_eq!(table.nr_waiters(), 0);
        words.iter().for_each(|word| table.wake(word));
        assert_eq!(counts.iter().map(|count| count.nr()).sum::<usize>(), 100);
    }

    #[test]
    fn wakers_are_kept_until_the_work_is_done_and_one_that_panics_keeps_no_other() {
        struct Panics;
        impl std::task::Wake for Panics {
            fn wake(self: std::sync::Arc<Self>) {
                panic!("a waker that panics, as it is to");
            }
        }
        let table = WaitTable::new();
        let word = AtomicU64::new(0);
        let count = std::sync::Arc::new(Count::default());
        let wakers = [
            Waker::from(std::sync::Arc::new(Panics)),
            Waker::from(std::sync::Arc::clone(&count)),
        ];
        let left = wakers.map(|waker| table.leave_waker(&word, &waker, |_| true).unwrap());
        let work = || {
            keep_wakers(|| table.wake(&word));
            assert_eq!(count.nr(), 0);
        };
        keep_wakers(work);
        assert_eq!(count.nr(), 1);
        left.into_iter().for_each(|left| left.take_out(&table));
        assert_eq!(table.nr_waiters(), 0);
    }

    #[test]
    fn wakers_kept_for_two_tables_go_by_the_courier_of_each() {
        #[derive(Debug, Default)]
        struct Counts(AtomicUsize);
        impl Courier for Counts {
            fn deliver(&self, wakers: Vec<Waker>) {
                self.0.fetch_add(wakers.len(), Ordering::Relaxed);
            }
        }
        let couriers = [Counts::default(), Counts::default()].map(Arc::new);
        let tables = couriers.each_ref().map(|courier| {
            let courier: Arc<dyn Courier> = Arc::<Counts>::clone(courier);
            WaitTable::with_courier(courier)
        });
        let words = [const { AtomicU64::new(0) }; 5];
        let delivered = || couriers.each_ref().map(|all| all.0.load(Ordering::Relaxed));
        keep_wakers(|| {
            for (nr, word) in words.iter().enumerate() {
                let table = &tables[usize::from(nr == 2 || nr == 3)];
                let left = table.leave_waker(word, Waker::noop(), |_| true).unwrap();
                table.wake(word);
                left.take_out(table);
            }
            assert_eq!(delivered(), [0, 0]);
        });
        assert_eq!(delivered(), [3, 2]);
    }
}
