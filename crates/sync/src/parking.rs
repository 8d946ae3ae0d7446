//! Waits for a change of a word, perhaps as long as I/O. A thread sleeps; a task stores a waker.
//!
//! A word is hashed to a bit of the *filter*, and the bit to the *stripe* whose lock protects the
//! bit. A bit is set while a waiter is registered for a word of that bit.
//!
//! ```text
//! waiter                                        waker
//! 1 lock the stripe; set the bit                a change the word
//! 2 fence(SeqCst)                               b fence(SeqCst)
//! 3 load the word; register if it must wait     c load the bit; done if it is clear
//! 4 sleep, which unlocks; woken: from 1 on      d lock the stripe, remove the word's waiters,
//!   else clear the bit if no waiter needs it      clear the bit if no waiter needs it, wake them
//! ```
//!
//! Because of the two fences, either the waiter's load of the word (3) sees the change (a), or the
//! waker's load of the bit (c) sees the bit set (1). In the second case the waker acquires the
//! stripe's lock after the waiter has registered and unlocked, finds the waiter, and wakes it. This
//! holds also if words share a bit: the bit is cleared only under the lock, and only if no waiter
//! of any of these words is registered.
//!
//! # Cost of a wake-up
//!
//! Without waiters, a wake-up takes one fence and one load. The threads that wait for one word
//! share a condition variable, so a wake-up neither wakes nor examines waiters of other words. If a
//! waiter of another word has set the shared bit, the waker also locks the stripe and searches it
//! for the changed word, in time logarithmic in the stripe's waiters, without a system call. With
//! 20 000 awaited words, 22 to 31 % of all words have a set bit. A larger filter would reduce that,
//! but evict more of the L1 data cache. A table has 8 KiB of filter and 8 KiB of stripes.
//!
//! # Tasks
//!
//! A task does steps 1 to 3 too ([`WaitTable::leave_waker`]), but registers its waker instead of
//! sleeping. The waker stays registered until step d or the task itself ([`Left`]) removes it.
//!
//! A waker is user code, which may run the task at once. So a thread with a lock or another
//! resource for which the program could wait calls one only if no other thread can. Step d passes
//! the wakers to the table's [`Courier`], within [`keep_wakers`] only at the end of the work.
//!
//! Verified by `tests/loom_parking.rs`, which fails with the mutants of `verify/mutants`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use crate::atomic::{AtomicU64, Ordering, fence};
use crate::ledger::{self, Resource};
use crate::shard::Padded;
use crate::{Condvar, Mutex, MutexGuard, lock};

/// Binary logarithm of the number of bits in the filter.
#[cfg(not(any(loom, feature = "simulated")))]
const FILTER_BITS_LOG2: u32 = 16;
/// One bit, which all words share, so that no simulation or model depends on addresses.
#[cfg(any(loom, feature = "simulated"))]
const FILTER_BITS_LOG2: u32 = 0;

const NR_FILTER_WORDS: usize = (1_usize << FILTER_BITS_LOG2).div_ceil(u64::BITS as usize);

/// Number of stripes. It divides the number of filter words, or there is one of each.
const NR_STRIPES: usize = if NR_FILTER_WORDS < 64 { 1 } else { 64 };

/// Hash of a word's address. Different addresses have different hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WordHash(u64);

impl WordHash {
    #[inline]
    fn of<T>(word: &T) -> Self {
        // Fibonacci hashing: an odd factor makes the hash injective, and the upper bits of the
        // product depend on all bits of the address.
        let address = std::ptr::from_ref(word).addr() as u64;
        Self(address.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// Number of the word's bit in the filter: the upper bits of the hash.
    #[inline]
    fn bit_nr(self) -> usize {
        let shifted = self.0.checked_shr(u64::BITS - FILTER_BITS_LOG2);
        shifted.map_or(0, |nr| nr as usize)
    }

    #[inline]
    fn filter_word_nr(self) -> usize {
        self.bit_nr() / u64::BITS as usize
    }

    #[inline]
    fn filter_bit(self) -> u64 {
        1 << (self.bit_nr() % u64::BITS as usize)
    }

    #[allow(clippy::modulo_one)] // Models and simulations have one stripe.
    fn stripe_nr(self) -> usize {
        self.filter_word_nr() % NR_STRIPES
    }

    /// Keys of all waiters whose words have this word's bit.
    fn keys_of_bit(self) -> RangeInclusive<WaiterKey> {
        let lower = u64::MAX.checked_shr(FILTER_BITS_LOG2).unwrap_or(0);
        (Self(self.0 & !lower), 0)..=(Self(self.0 | lower), u64::MAX)
    }

    fn keys(self) -> RangeInclusive<WaiterKey> {
        (self, 0)..=(self, u64::MAX)
    }
}

/// Word and registration number of a waiter. Numbers of tasks have [`TASK`] set, so they come last.
type WaiterKey = (WordHash, u64);

const TASK: u64 = 1 << 63;

#[derive(Debug)]
enum Waiter {
    /// A sleeping thread. All registered threads of a word have the same condition variable.
    Thread(Arc<Condvar>),
    Task(Waker),
}

impl Waiter {
    fn into_waker(self) -> Option<Waker> {
        match self {
            Self::Thread(_) => None,
            Self::Task(waker) => Some(waker),
        }
    }
}

/// Registered waiters of the words of one stripe, by word and then in the order of registration.
#[derive(Debug, Default)]
struct Stripe {
    waiters: BTreeMap<WaiterKey, Waiter>,
    next_nr: u64,
}

impl Stripe {
    fn insert_task(&mut self, word: WordHash, waker: Waker) -> WaiterKey {
        let key = (word, self.next_nr | TASK);
        self.next_nr += 1;
        self.waiters.insert(key, Waiter::Task(waker));
        key
    }

    /// Registers the calling thread. Returns the condition variable with which it must sleep.
    fn insert_thread(&mut self, word: WordHash) -> (WaiterKey, Arc<Condvar>) {
        let key = (word, self.next_nr);
        self.next_nr += 1;
        let woken = match self.waiters.range(word.keys()).next() {
            Some((_, Waiter::Thread(woken))) => Arc::clone(woken),
            _ => Arc::new(Condvar::new()),
        };
        self.waiters.insert(key, Waiter::Thread(Arc::clone(&woken)));
        (key, woken)
    }

    /// Removes and returns the waiters for `word`: threads, then tasks, oldest first.
    fn take(&mut self, word: WordHash) -> Vec<Waiter> {
        let taken = self.waiters.extract_if(word.keys(), |_, _| true);
        taken.map(|(_, waiter)| waiter).collect()
    }

    /// Returns `true` if a waiter is registered for any word with the bit of `word`.
    fn need_bit_of(&self, word: WordHash) -> bool {
        self.waiters.range(word.keys_of_bit()).next().is_some()
    }
}

/// Calls wakers in a context that holds no resource that a program could wait for.
pub trait Courier: fmt::Debug + Send + Sync {
    /// Schedules prompt calls of all `wakers`. The calling thread does not call them before this
    /// function returns, unless no other thread can.
    fn deliver(&self, wakers: Vec<Waker>);
}

thread_local! {
    /// Wakers that this thread's wake-ups removed within [`keep_wakers`]. `None` outside of it.
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

/// Calls `waker`, and returns even if the call panics: the panic hook reports it, and the payload,
/// whose drop could panic, is leaked. In debug builds, panics if this thread holds anything
/// ([`ledger`]).
pub fn call_waker(waker: Waker) {
    call_waker_with(waker, &[]);
}

/// Calls `waker` as [`call_waker`] does, whatever this thread holds: no other thread can call it.
pub fn call_waker_unchecked(waker: Waker) {
    call_waker_with(waker, &Resource::ALL);
}

fn call_waker_with(waker: Waker, allowed: &[Resource]) {
    let _in_program = ledger::enter("a waker", allowed);
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

/// Threads and tasks that wait for words to change, by the address of the word.
pub struct WaitTable {
    /// Bits of the words with waiters. Usually a wake-up loads nothing else of the table.
    filter: Box<Padded<[AtomicU64; NR_FILTER_WORDS]>>,
    stripes: Box<[Padded<Mutex<Stripe>>; NR_STRIPES]>,
    courier: Option<Arc<dyn Courier>>,
}

impl fmt::Debug for WaitTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitTable")
            .field("stripes", &self.stripes)
            .finish_non_exhaustive()
    }
}

/// Registration of a waker. Dropping it leaves the waker registered.
#[derive(Debug)]
#[must_use = "a waker stays registered until it is called or taken out"]
pub struct Left(WaiterKey);

impl Left {
    /// Removes the waker, unless a wake-up has removed it already.
    pub fn take_out(self, table: &WaitTable) {
        let (word, _) = self.0;
        let mut stripe = table.lock_stripe(word);
        let taken = stripe.waiters.remove(&self.0);
        if taken.is_some() {
            table.clear_unneeded_bit(&stripe, word);
        }
        drop(stripe);
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
            filter: Box::new(Padded(std::array::from_fn(|_| AtomicU64::new(0)))),
            stripes: Box::new(std::array::from_fn(|_| Padded::default())),
            courier,
        }
    }

    #[inline]
    fn filter_word(&self, word: WordHash) -> &AtomicU64 {
        &self.filter[word.filter_word_nr()]
    }

    fn lock_stripe(&self, word: WordHash) -> MutexGuard<'_, Stripe> {
        lock(&self.stripes[word.stripe_nr()])
    }

    /// Performs steps 1 to 3 of a waiter. After `true`, the caller registers the waiter in
    /// `stripe`, the stripe of `word`, before the unlock.
    fn begin_wait(
        &self,
        stripe: &Stripe,
        word: WordHash,
        must_wait: impl FnOnce() -> bool,
    ) -> bool {
        // ORDERING: Relaxed; the fence orders the bit before the load of the word. The bit is also
        // written if it is set already, so that the waker's load sees this write or a later one.
        self.filter_word(word)
            .fetch_or(word.filter_bit(), Ordering::Relaxed);
        // ORDERING: SeqCst fence; pairs with the one in `wake` (store buffering).
        fence(Ordering::SeqCst);
        let must_wait = must_wait();
        if !must_wait {
            self.clear_unneeded_bit(stripe, word);
        }
        must_wait
    }

    /// Clears the filter bit of `word` if no waiter in `stripe`, the stripe of `word`, needs it.
    fn clear_unneeded_bit(&self, stripe: &Stripe, word: WordHash) {
        if !stripe.need_bit_of(word) {
            // ORDERING: Relaxed; the stripe's lock orders all changes of the bit. A waker that
            // still sees the bit set locks the stripe unnecessarily, but misses no waiter.
            self.filter_word(word)
                .fetch_and(!word.filter_bit(), Ordering::Relaxed);
        }
    }

    /// Registers `waker` for the next [`wake`](Self::wake) of `word`. Returns `None`, and registers
    /// nothing, if `must_wait` (see [`wait_while`](Self::wait_while)) returns `false`. While the
    /// waker is registered, the address of `word` must not be reused for another word.
    pub fn leave_waker<T>(
        &self,
        word: &T,
        waker: &Waker,
        must_wait: impl FnOnce(&T) -> bool,
    ) -> Option<Left> {
        let hash = WordHash::of(word);
        // `clone` is user code, so it runs before the lock is acquired.
        let waker = waker.clone();
        let mut stripe = self.lock_stripe(hash);
        if !self.begin_wait(&stripe, hash, || must_wait(word)) {
            drop(stripe);
            return None;
        }
        Some(Left(stripe.insert_task(hash, waker)))
    }

    /// Sleeps until `must_wait` returns `false`. `must_wait` runs with the stripe locked: it may
    /// only load atomics, and must not lock, allocate, panic or call user code. If it loads other
    /// words too, a change of these must be followed by a wake-up of `word`.
    pub fn wait_while<T>(&self, word: &T, mut must_wait: impl FnMut(&T) -> bool) {
        let hash = WordHash::of(word);
        let mut stripe = self.lock_stripe(hash);
        while self.begin_wait(&stripe, hash, || must_wait(word)) {
            let (key, woken) = stripe.insert_thread(hash);
            while stripe.waiters.contains_key(&key) {
                stripe = woken
                    .wait(stripe)
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
            }
            // The usual end of a wait needs neither the bit nor the fence.
            if !must_wait(word) {
                return;
            }
        }
    }

    /// Wakes all waiters of `word`, which the caller has changed before, in any memory order.
    #[inline]
    pub fn wake<T>(&self, word: &T) {
        // ORDERING: SeqCst fence; pairs with the one in `begin_wait` (store buffering).
        fence(Ordering::SeqCst);
        let hash = WordHash::of(word);
        // ORDERING: Relaxed; the fence orders this load after the caller's change of the word.
        if self.filter_word(hash).load(Ordering::Relaxed) & hash.filter_bit() != 0 {
            self.wake_waiters(hash);
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_waiters(&self, word: WordHash) {
        // A waiter sets its bit and registers under one acquisition of this lock, so each waiter
        // whose bit this thread saw is registered or no longer waits.
        let mut stripe = self.lock_stripe(word);
        let taken = stripe.take(word);
        // Also if no waiter was found: a panic in `must_wait` leaves a bit that no waiter needs.
        self.clear_unneeded_bit(&stripe, word);
        drop(stripe);
        if let Some(Waiter::Thread(woken)) = taken.first() {
            woken.notify_all();
        }
        let wakers: Vec<_> = taken.into_iter().filter_map(Waiter::into_waker).collect();
        if !wakers.is_empty() {
            self.deliver(wakers);
        }
    }

    /// Number of registered waiters and of set filter bits, for tests.
    #[cfg(any(test, loom))]
    pub fn nr_waiters_and_bits(&self) -> (usize, u32) {
        let nr_waiters = |stripe: &Padded<Mutex<Stripe>>| lock(stripe).waiters.len();
        let nr_bits = |word: &AtomicU64| word.load(Ordering::Relaxed).count_ones();
        (
            self.stripes.iter().map(nr_waiters).sum(),
            self.filter.iter().map(nr_bits).sum(),
        )
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
    use crate::atomic::AtomicUsize;

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
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_waker_is_called_once_for_its_word_alone() {
        let table = WaitTable::new();
        let words = [const { AtomicU64::new(0) }; 200];
        let counts = words.each_ref().map(|_| Arc::<Count>::default());
        let left: Vec<_> = std::iter::zip(&words, &counts)
            .map(|(word, count)| {
                let waker = Waker::from(Arc::clone(count));
                table.leave_waker(word, &waker, |_| true).unwrap()
            })
            .collect();
        let not_left = table.leave_waker(&words[0], Waker::noop(), |_| false);
        assert!(not_left.is_none());
        for word in &words[..100] {
            table.wake(word);
            table.wake(word);
        }
        for (nr, count) in counts.iter().enumerate() {
            assert_eq!(count.nr(), usize::from(nr < 100));
        }
        assert_eq!(table.nr_waiters_and_bits().0, 100);
        left.into_iter().for_each(|left| left.take_out(&table));
        assert_eq!(table.nr_waiters_and_bits(), (0, 0));
        words.iter().for_each(|word| table.wake(word));
        assert_eq!(counts.iter().map(|count| count.nr()).sum::<usize>(), 100);
    }

    #[test]
    fn wake_up_clears_a_bit_that_a_panic_left() {
        let table = WaitTable::new();
        let word = AtomicU64::new(0);
        let panics = || table.leave_waker(&word, Waker::noop(), |_| panic!("on purpose"));
        catch_unwind(AssertUnwindSafe(panics)).expect_err("it panics");
        assert_eq!(table.nr_waiters_and_bits(), (0, 1));
        table.wake(&word);
        assert_eq!(table.nr_waiters_and_bits(), (0, 0));
    }

    #[test]
    fn a_thread_sleeps_through_wake_ups_of_other_words_of_its_bit() {
        let table = WaitTable::new();
        let words: Box<[AtomicU64]> = (0..NR_FILTER_WORDS * 256)
            .map(|_| AtomicU64::new(0))
            .collect();
        let bit_nr = |word| WordHash::of(word).bit_nr();
        let (word, others) = words.split_first().unwrap();
        let other = others.iter().find(|other| bit_nr(*other) == bit_nr(word));
        let other = other.expect("of so many words, one has the bit of the first");
        let nr_looks = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                table.wait_while(word, |word| {
                    nr_looks.fetch_add(1, Ordering::Relaxed);
                    word.load(Ordering::Acquire) == 0
                });
            });
            while table.nr_waiters_and_bits() != (1, 1) {
                std::thread::yield_now();
            }
            for _ in 0..1000 {
                table.wake(other);
            }
            assert_eq!(table.nr_waiters_and_bits(), (1, 1));
            assert_eq!(nr_looks.load(Ordering::Relaxed), 1);
            word.store(1, Ordering::Release);
            table.wake(word);
            waiter.join().unwrap();
        });
        assert_eq!(nr_looks.load(Ordering::Relaxed), 2);
        assert_eq!(table.nr_waiters_and_bits(), (0, 0));
    }

    #[test]
    fn wakers_are_kept_until_the_work_is_done_and_one_that_panics_keeps_no_other() {
        struct Panics;
        impl std::task::Wake for Panics {
            fn wake(self: Arc<Self>) {
                panic!("this waker panics on purpose");
            }
        }
        let table = WaitTable::new();
        let word = AtomicU64::new(0);
        let count = Arc::<Count>::default();
        let wakers = [
            Waker::from(Arc::new(Panics)),
            Waker::from(Arc::clone(&count)),
        ];
        let left = wakers.map(|waker| table.leave_waker(&word, &waker, |_| true).unwrap());
        let work = || {
            keep_wakers(|| table.wake(&word));
            assert_eq!(count.nr(), 0);
        };
        keep_wakers(work);
        assert_eq!(count.nr(), 1);
        left.into_iter().for_each(|left| left.take_out(&table));
        assert_eq!(table.nr_waiters_and_bits(), (0, 0));
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
