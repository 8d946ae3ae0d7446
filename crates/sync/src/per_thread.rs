//! One value for each thread, used without atomic read-modify-writes. Other threads can access it.
//!
//! Each value is guarded like a lock biased to its owner. The owner sets a flag with a plain store,
//! then checks whether a scanner (`visitor` in identifiers) requests the values. A scanner sets a
//! flag in every slot, executes one heavy fence ([`crate::asymmetric`]), and waits for busy owners.
//!
//! # Protocol
//!
//! Owner ([`PerThread::with_mine`]):
//! 1. `busy` := true; light fence;
//! 2. load `wanted`; if set: `busy` := false, and do the work under the mutex instead;
//! 3. work on the value;
//! 4. `busy` := false (release).
//!
//! [`PerThread::try_enter`] executes steps 1 and 2, and fails if `wanted` is set.
//!
//! Scanner ([`PerThread::with_all`]):
//! 1. lock the mutex, so that there is one scanner at a time;
//! 2. `wanted` := true in every slot; heavy fence;
//! 3. wait in every used slot until `busy` is false (acquire);
//! 4. work on the values;
//! 5. `wanted` := false (release) in every slot; unlock the mutex.
//!
//! # Invariants
//!
//! - I1. At any moment a slot has at most one owner: numbers of live threads are distinct, and one
//!   thread's uses of a number happen before the next one's ([`crate::shard::own_number`]).
//! - I2. Only the owner writes `busy`; only the holder of the mutex writes `wanted`.
//! - I3. The value is accessed by the owner between its steps 2 and 4, by the mutex holder between
//!   a scanner's steps 3 and 5, or by an owner that holds the mutex; never by two at once.
//!
//! # Ordering edges
//!
//! - E1. The owner stores `busy` and then loads `wanted`; the scanner stores `wanted` and then
//!   loads `busy` (store buffering). By the two fences, the owner sees `wanted`, or the scanner
//!   sees `busy`.
//! - E2. The owner's step 4 (release) synchronizes with the scanner's step 3 (acquire): the scanner
//!   sees the owner's work.
//! - E3. The scanner's step 5 (release) synchronizes with a later step 2 of the owner (acquire):
//!   the owner sees the scanner's work. If an owner loads an older `false`, it has already set
//!   `busy`, and the scanner waits for it (E1).
//!
//! # Progress and failure
//!
//! The owner is wait-free while no scan is in progress. A scanner waits for busy owners, so an
//! owner's work must be short, and real-time threads must not starve the owner. If the system
//! refuses the heavy fence, the scanner gets at most its own value.
//!
//! Verified by `tests/loom_per_thread.rs`, which fails with the mutants of `verify/mutants`, and by
//! `tests/per_thread.rs` with both kinds of fences.

#![allow(unsafe_code)] // The value behind the lock.

use std::fmt;
use std::marker::PhantomData;
use std::mem::offset_of;

use crate::asymmetric::Fences;
use crate::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::cell::UnsafeCell;
use crate::shard::{Padded, is_apart, own_number};
use crate::thread::Backoff;
use crate::{Mutex, lock};

/// Values that a scanner gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The values of all threads that ever used one.
    All,
    /// At most this thread's own value: the system refused the heavy fence, or this thread is
    /// already using its value or scanning.
    Own,
}

/// One value for each thread number below a limit, by the protocol of the module.
pub struct PerThread<T> {
    slots: Box<[Padded<Slot<T>>]>,
    fences: Fences,
    /// Number of slots up to the last one that any thread has used. Only owners raise it.
    nr_used: Padded<AtomicUsize>,
    visitor: Padded<Mutex<()>>,
}

const _: () = {
    type P = PerThread<u64>;
    let (slots, len) = (offset_of!(P, slots), size_of::<Box<[u64]>>());
    assert!(is_apart::<P>(slots, len, offset_of!(P, nr_used)));
    assert!(is_apart::<P>(slots, len, offset_of!(P, visitor)));
    assert!(is_apart::<P>(
        offset_of!(P, fences),
        size_of::<Fences>(),
        offset_of!(P, visitor)
    ));
};

struct Slot<T> {
    busy: AtomicBool,
    /// Set while a scanner requests or uses the value (I2).
    wanted: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: each value is lent as `&mut` to one thread at a time (I3), so `T` must be `Send`. No
// value is lent as `&T` to several threads, so `T` need not be `Sync`.
unsafe impl<T: Send> Sync for PerThread<T> {}

impl<T> PerThread<T> {
    /// Creates `nr` values, for the threads with numbers below `nr`. Other threads have no value.
    pub fn new(nr: usize, fences: Fences, mut value: impl FnMut() -> T) -> Self {
        let slots = (0..nr).map(|_| {
            Padded(Slot {
                busy: AtomicBool::new(false),
                wanted: AtomicBool::new(false),
                value: UnsafeCell::new(value()),
            })
        });
        Self {
            slots: slots.collect(),
            fences,
            nr_used: Padded(AtomicUsize::new(0)),
            visitor: Padded(Mutex::new(())),
        }
    }

    /// Runs `work` on this thread's value, after any concurrent scan. Returns `None` without
    /// running it if the thread has no value (its number is too high, or its thread-locals are
    /// being destroyed), or is already using its value or scanning further up the stack.
    #[inline]
    pub fn with_mine<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let (slot, at_work, is_wanted) = self.announce()?;
        if is_wanted {
            drop(at_work);
            return Some(self.with_mine_slowly(slot, work));
        }
        let result = {
            let value = slot.value.get_mut();
            // SAFETY: I3: this thread is the owner and busy, so scanners wait for it. Further up
            // its stack it has no reference to the value: `announce` would have found it busy.
            work(unsafe { value.deref() })
        };
        drop(at_work);
        Some(result)
    }

    /// Marks this thread as busy until the result is dropped, for work that scanners must wait for.
    /// Returns `None` in the cases of [`with_mine`](Self::with_mine), and if a scan is in progress.
    #[inline(always)]
    pub fn try_enter(&self) -> Option<AtWork<'_>> {
        let (_, at_work, is_wanted) = self.announce()?;
        (!is_wanted).then_some(at_work)
    }

    /// Executes the owner's steps 1 and 2. Returns `true` if a scanner has set `wanted`. Returns
    /// `None`, and marks nothing, if the thread has no value or is busy.
    #[inline(always)]
    fn announce(&self) -> Option<(&Slot<T>, AtWork<'_>, bool)> {
        let number = own_number()?;
        let slot = &self.slots.get(number)?.0;
        // ORDERING: Relaxed; only this thread writes its `busy` (I2).
        if slot.busy.load(Ordering::Relaxed) {
            return None;
        }
        self.note_use(number);
        // ORDERING: Relaxed; the light fence orders this store before the load of `wanted` (E1).
        slot.busy.store(true, Ordering::Relaxed);
        let at_work = AtWork::new(&slot.busy);
        self.fences.light();
        // ORDERING: Acquire; pairs with the Release in the drop of `Visit` (E3).
        let is_wanted = slot.wanted.load(Ordering::Acquire);
        Some((slot, at_work, is_wanted))
    }

    /// Runs the owner's work under the mutex, as step 2 requires if `wanted` is set.
    #[cold]
    fn with_mine_slowly<R>(&self, slot: &Slot<T>, work: impl FnOnce(&mut T) -> R) -> R {
        let guard = lock(&self.visitor);
        // If `work` calls functions of this `PerThread`, they must find the thread busy.
        // ORDERING: Relaxed; the mutex excludes scanners.
        slot.busy.store(true, Ordering::Relaxed);
        let at_work = AtWork::new(&slot.busy);
        let result = {
            let value = slot.value.get_mut();
            // SAFETY: I3: scanners need the mutex, and this thread is the owner.
            work(unsafe { value.deref() })
        };
        drop(at_work);
        drop(guard);
        result
    }

    #[inline]
    fn note_use(&self, number: usize) {
        // ORDERING: Relaxed, both; the light fence orders the update before the load of `wanted`.
        if number >= self.nr_used.load(Ordering::Relaxed) {
            self.nr_used.fetch_max(number + 1, Ordering::Relaxed);
        }
    }

    /// Runs `work` on all values ever used, while no other thread uses its value ([`Reach::All`]).
    ///
    /// With [`Reach::Own`], `work` gets at most this thread's own value (the system refused the
    /// heavy fence), or none (this thread is already using its value or scanning). A thread without
    /// a value must not nest scans, and two threads must not nest scans of two `PerThread`s in
    /// opposite orders: they would deadlock. A child of `fork(2)` must not scan: owners that were
    /// busy in the parent would block it forever.
    pub fn with_all<R>(&self, work: impl FnOnce(&mut [&mut T], Reach) -> R) -> R {
        let own = own_number().filter(|number| *number < self.slots.len());
        let own_busy = own.map(|number| &self.slots[number].0.busy);
        // ORDERING: Relaxed; only this thread writes its `busy` (I2).
        if own_busy.is_some_and(|busy| busy.load(Ordering::Relaxed)) {
            return work(&mut [], Reach::Own);
        }
        let guard = lock(&self.visitor);
        // As in `with_mine_slowly`, `work` must find the thread busy.
        let at_work = own_busy.map(|busy| {
            // ORDERING: Relaxed; the mutex excludes other scanners, and this one skips its slot.
            busy.store(true, Ordering::Relaxed);
            AtWork::new(busy)
        });
        // Unused slots too, so that no thread starts to use its value during the scan.
        let visit = Visit(&self.slots);
        for slot in &self.slots {
            // ORDERING: Relaxed; the heavy fence orders this store before the loads of `busy` (E1).
            slot.0.wanted.store(true, Ordering::Relaxed);
        }
        let reach = match self.fences.heavy() {
            Ok(()) => Reach::All,
            Err(_) => Reach::Own,
        };
        // ORDERING: Relaxed; an owner that did not see `wanted` has recorded the use before its
        // light fence, so this load after the heavy fence sees it (E1).
        let nr_used = self.nr_used.load(Ordering::Relaxed).min(self.slots.len());
        let mut cells = Vec::new();
        for (number, slot) in self.slots[..nr_used].iter().enumerate() {
            let is_own = own == Some(number);
            if reach == Reach::Own && !is_own {
                continue;
            }
            let mut backoff = Backoff::new();
            // ORDERING: Acquire; pairs with the Release in the drop of `AtWork` (E2).
            while !is_own && slot.0.busy.load(Ordering::Acquire) {
                backoff.wait();
            }
            cells.push(slot.0.value.get_mut());
        }
        let result = {
            let values = cells.iter().map(|cell| {
                // SAFETY: I3: this thread is the scanner. Each owner is this thread, or is not busy
                // and will see `wanted`. The slots are distinct. The scan outlives the references.
                unsafe { cell.deref() }
            });
            work(&mut values.collect::<Vec<&mut T>>(), reach)
        };
        drop(cells);
        drop(visit);
        drop(at_work);
        drop(guard);
        result
    }
}

/// Marks the owner as busy until it is dropped, even by unwinding.
#[derive(Debug)]
pub struct AtWork<'s> {
    busy: &'s AtomicBool,
    /// Only the owner writes `busy` (I2), so the guard must stay on its thread.
    _not_send: PhantomData<*const ()>,
}

impl<'s> AtWork<'s> {
    #[inline(always)]
    fn new(busy: &'s AtomicBool) -> Self {
        Self {
            busy,
            _not_send: PhantomData,
        }
    }
}

impl Drop for AtWork<'_> {
    #[inline]
    fn drop(&mut self) {
        // ORDERING: Release; pairs with the Acquire in the scanner's step 3 (E2).
        self.busy.store(false, Ordering::Release);
    }
}

/// Clears `wanted` in all slots when it is dropped, even by unwinding.
struct Visit<'p, T>(&'p [Padded<Slot<T>>]);

impl<T> Drop for Visit<'_, T> {
    fn drop(&mut self) {
        for slot in self.0 {
            // ORDERING: Release; pairs with the Acquire in the owner's step 2 (E3).
            slot.0.wanted.store(false, Ordering::Release);
        }
    }
}

impl<T> fmt::Debug for PerThread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerThread")
            .field("nr_values", &self.slots.len())
            .finish_non_exhaustive()
    }
}
