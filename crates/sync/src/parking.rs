//! Waits for a change of a word, for waits that may last as long as I/O. A thread sleeps; a task
//! registers a waker.
//!
//! ```text
//! waiter                                        waker
//! 1 lock the bucket; count itself in            a change the word
//! 2 fence(SeqCst)                               b fence(SeqCst)
//! 3 load the word; sleep if it must wait        c load the count; done if it is 0
//! 4 woken: from 3 on; else count itself out     d lock the bucket, wake all waiters in it
//! ```
//!
//! Because of the two fences, either the waiter's load of the word (3) sees the change (a), or the
//! waker's load of the count (c) sees the waiter counted in (1). In the second case the waker
//! acquires the bucket's lock only after the waiter has gone to sleep, which releases the lock, and
//! then wakes the waiter. A wake-up without waiters costs one fence and one load. Words of one
//! bucket share its wake-ups: a thread that is woken for another word loads its own word and sleeps
//! again.
//!
//! # Tasks
//!
//! A task does steps 1 to 3 too ([`WaitTable::leave_waker`]), but registers its waker instead of
//! sleeping. The task stays counted until its waker is removed, either by step d or by the task
//! itself ([`Left`]), so the same argument applies.
//!
//! A task's waker is user code and may do anything, such as run the task at once. Therefore no
//! waker is called by a thread that holds a lock or another resource that the program could wait
//! for. Step d passes the wakers to the table's [`Courier`], which calls them in a thread that
//! holds no such resource. Within [`keep_wakers`] the wakers are passed on only when the work has
//! ended.
//!
//! Verified by `tests/loom_parking.rs`, which fails with the mutants of `verify/mutants`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use crate::atomic::{AtomicUsize, Ordering, fence};
use crate::shard::Padded;
use crate::{Condvar, Mutex, lock};

/// Number of buckets, so large that waits for different words rarely share one.
#[cfg(not(any(loom, feature = "simulated")))]
const BUCKETS: usize = 64;
/// One bucket, so that nothing in a simulation or a model depends on addresses.
#[cfg(any(loom, feature = "simulated"))]
const BUCKETS: usize = 1;

#[derive(Debug, Default)]
struct Bucket {
    /// Number of threads between steps 1 and 4, plus the number of registered wakers.
    nr_waiters: AtomicUsize,
    lock: Mutex<Wakers>,
    changed: Condvar,
}

/// Wakers registered in a bucket, by registration number. Each is stored with the address of its
/// word.
#[derive(Debug, Default)]
struct Wakers {
    left: BTreeMap<u64, (usize, Waker)>,
    next: u64,
}

impl Wakers {
    /// Removes and returns the wakers for the word at `address`, oldest first.
    fn take(&mut self, address: usize) -> Vec<Waker> {
        let taken = self.left.extract_if(.., |_, (word, _)| *word == address);
        taken.map(|(_, (_, waker))| waker).collect()
    }
}

/// Calls wakers in a context that holds no resource that a program could wait for.
pub trait Courier: fmt::Debug + Send + Sync {
    /// Schedules prompt calls of all `wakers`. The calling thread does not call them before this
    /// function returns, unless no other thread can.
    fn deliver(&self, wakers: Vec<Waker>);
}

thread_local! {
    /// Wakers that wake-ups of this thread removed, and that [`keep_wakers`] defers. `None` outside
    /// [`keep_wakers`].
    static KEPT: RefCell<Option<Vec<Batch>>> = const { RefCell::new(None) };
}

/// Wakers removed from a table, and the courier of that table.
#[derive(Debug)]
struct Batch {
    /// `None`: the thread that delivers the batch calls the wakers itself.
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

/// Calls `waker`, and returns even if the call panics: the panic hook has then reported the panic.
/// The payload is leaked, because its drop could panic again.
pub fn call_waker(waker: Waker) {
    let call = AssertUnwindSafe(|| waker.wake());
    catch_unwind(call).unwrap_or_else(std::mem::forget);
}

/// Runs `work`, then delivers the wakers that wake-ups in `work` removed, even if `work` panics. A
/// nested call leaves the delivery to the outermost call.
pub fn keep_wakers<R>(work: impl FnOnce() -> R) -> R {
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

/// Threads and tasks that wait for words to change, in buckets by the word's address.
pub struct WaitTable {
    /// Padded, because a thread that has changed a word usually loads nothing but the count of the
    /// word's bucket.
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

/// Registration of a waker. Dropping it leaves the waker registered.
#[derive(Debug)]
#[must_use = "a waker stays registered until it is called or taken out"]
pub struct Left {
    bucket: usize,
    nr: u64,
}

impl Left {
    /// Removes the waker, unless a wake-up has removed it already.
    pub fn take_out(self, table: &WaitTable) {
        let bucket = &table.buckets[self.bucket];
        let taken = lock(&bucket.lock).left.remove(&self.nr);
        if taken.is_some() {
            // ORDERING: Relaxed; a waker that still sees the old count locks the bucket
            // unnecessarily, but misses no waiter.
            bucket.nr_waiters.fetch_sub(1, Ordering::Relaxed);
        }
        // The waker is dropped here, after the lock is released, because its drop is user code.
    }
}

impl Default for WaitTable {
    fn default() -> Self {
        Self::new()
    }
}

impl WaitTable {
    /// Creates a table without a courier: the thread that wakes tasks calls their wakers itself.
    /// For words for which only threads wait, for models and for tests.
    pub fn new() -> Self {
        Self::with(None)
    }

    /// Creates a table whose task wakers are called by `courier`.
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
        // Fibonacci hashing: adjacent words map to different buckets.
        let hash = (address >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as usize);
        (hash >> 32) % BUCKETS
    }

    fn bucket<T>(&self, word: &T) -> &Bucket {
        &self.buckets[self.bucket_nr(word)]
    }

    /// Registers `waker` for the next [`wake`](Self::wake) of `word`. Returns `None`, and registers
    /// nothing, if `must_wait` returns `false`. `must_wait` runs with the bucket locked, so it may
    /// only load the word. While the waker is registered, the word's address must not be reused for
    /// another word.
    pub fn leave_waker<T>(
        &self,
        word: &T,
        waker: &Waker,
        must_wait: impl FnOnce(&T) -> bool,
    ) -> Option<Left> {
        let bucket_nr = self.bucket_nr(word);
        let bucket = &self.buckets[bucket_nr];
        // `clone` is user code, so it runs before the lock is acquired.
        let waker = waker.clone();
        let mut wakers = lock(&bucket.lock);
        // ORDERING: Relaxed; as in `wait_while`.
        bucket.nr_waiters.fetch_add(1, Ordering::Relaxed);
        // ORDERING: SeqCst fence; pairs with the fence in `wake`, as in `wait_while`.
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

    /// Sleeps until `must_wait` returns `false`. `must_wait` runs with the bucket locked, so it may
    /// only load the word.
    pub fn wait_while<T>(&self, word: &T, mut must_wait: impl FnMut(&T) -> bool) {
        let bucket = self.bucket(word);
        let mut guard = lock(&bucket.lock);
        // ORDERING: Relaxed; the fence orders the count before the load of the word.
        bucket.nr_waiters.fetch_add(1, Ordering::Relaxed);
        // ORDERING: SeqCst fence; pairs with the one in `wake` (store buffering).
        fence(Ordering::SeqCst);
        while must_wait(word) {
            guard = bucket
                .changed
                .wait(guard)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        // ORDERING: Relaxed; a waker that still sees this thread counted locks the bucket
        // unnecessarily, but misses no waiter.
        bucket.nr_waiters.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes all threads and tasks that wait for `word`. The caller changes the word before this
    /// call, in any memory order.
    #[inline]
    pub fn wake<T>(&self, word: &T) {
        // ORDERING: SeqCst fence; pairs with the fences in `wait_while` and `leave_waker` (store
        // buffering).
        fence(Ordering::SeqCst);
        let bucket = self.bucket(word);
        // ORDERING: Relaxed; the fence orders this load after the caller's change of the word.
        if bucket.nr_waiters.load(Ordering::Relaxed) != 0 {
            self.wake_waiters(bucket, std::ptr::from_ref(word).addr());
        }
    }

    /// Wakes all threads of the bucket, and the tasks that wait for the word at `addr`.
    #[cold]
    #[inline(never)]
    fn wake_waiters(&self, bucket: &Bucket, addr: usize) {
        // A waiter counts itself in, and sleeps or registers its waker, under one acquisition of
        // this lock. Once this thread holds the lock, each waiter that it saw counted sleeps, has
        // registered its waker, or no longer waits.
        let mut left = lock(&bucket.lock);
        let wakers = left.take(addr);
        drop(left);
        bucket.changed.notify_all();
        if !wakers.is_empty() {
            // ORDERING: Relaxed; a waker that still sees the old count locks the bucket
            // unnecessarily, but misses no waiter.
            bucket.nr_waiters.fetch_sub(wakers.len(), Ordering::Relaxed);
            self.deliver(wakers);
        }
    }

    /// Number of waiting threads and registered wakers in all buckets, for tests.
    #[cfg(any(test, loom))]
    pub fn nr_waiters(&self) -> usize {
        let of_bucket = |bucket: &Padded<Bucket>| bucket.nr_waiters.load(Ordering::Relaxed);
        self.buckets.iter().map(of_bucket).sum()
    }

    /// Passes the wakers to the courier, or defers them within [`keep_wakers`].
    #[cold]
    fn deliver(&self, wakers: Vec<Waker>) {
        let mut found = Some(wakers);
        let batch = |wakers| Batch {
            courier: self.courier.clone(),
            wakers,
        };
        // A thread whose thread-locals are being destroyed has no `KEPT`, and so defers no waker.
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
                panic!("this waker panics on purpose");
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
