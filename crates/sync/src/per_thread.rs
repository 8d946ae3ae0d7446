//! One value for each thread: used by its owner without any atomic read-modify-write, and still
//! accessible to other threads.
//!
//! It works as a lock biased to one thread. The owner sets a flag with a plain store and checks
//! whether a scanner (`visitor` in identifiers) wants the values. A scanner sets its flags, makes
//! them visible to all owners with one heavy fence ([`crate::asymmetric`]), and waits for busy
//! ones.
//!
//! Place. The thread caches of the frame pool.
//!
//! # Protocol
//!
//! Owner ([`PerThread::with_mine`]):
//! 1. `busy` := true; light fence;
//! 2. load `wanted`; if set: `busy` := false, and do the work under the mutex instead;
//! 3. work on the value;
//! 4. `busy` := false (release).
//!
//! [`PerThread::try_enter`] is the same without the value, and gives up in step 2.
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
//! - I1. At any moment a slot has at most one owner: thread numbers of live threads are distinct
//!   ([`crate::shard::own_number`]), and uses of a number by one thread happen before those by the
//!   next.
//! - I2. Only the owner writes `busy`; only the holder of the mutex writes `wanted`.
//! - I3. The value is accessed by the owner between its steps 2 and 4, or by the holder of the
//!   mutex between a scanner's steps 3 and 5, or by an owner that holds the mutex; never by two of
//!   them.
//!
//! # Ordering edges
//!
//! - E1. Store buffering between the owner's `busy`, `wanted` and the scanner's `wanted`, `busy`:
//!   the two fences. Either the owner sees `wanted`, or the scanner sees `busy`.
//! - E2. Owner's step 4 (release) to scanner's step 3 (acquire): the scanner sees the owner's work.
//! - E3. Scanner's step 5 (release) to a later step 2 of the owner (acquire): the owner sees the
//!   scanner's work. An owner that loads an older `false` is busy: the scanner waits (E1).
//!
//! # Progress and failure
//!
//! The owner is wait-free while there is no scanner. A scanner waits for busy owners, so their work
//! must be short, and real-time threads must not starve an owner that a scanner waits for. If the
//! heavy fence is refused, the scanner gets at most its own value.
//!
//! Verified by `tests/loom_per_thread.rs`, which fails with the mutants of `verify/mutants`, and
//! `tests/per_thread.rs`, with both kinds of fences.

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
    /// Those of all threads that ever used one.
    All,
    /// At most this thread's own: the system refused the heavy fence, or this thread is already
    /// using its value or scanning.
    Own,
}

/// One value for each of the first threads of the process; see the module text.
pub struct PerThread<T> {
    slots: Box<[Padded<Slot<T>>]>,
    fences: Fences,
    /// All slots from this one on are unused. Owners load it, scanners do not write it.
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
    /// Whether the owner is using the value (I2).
    busy: AtomicBool,
    /// Whether a scanner wants the value (I2).
    wanted: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the values are lent as `&mut` to one thread at a time (I3), so `T` must be `Send`. No two
// threads get a `&T`.
unsafe impl<T: Send> Sync for PerThread<T> {}

impl<T> PerThread<T> {
    /// Creates `nr` values. Threads with higher numbers have none.
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

    /// Runs `work` on this thread's value.
    ///
    /// Returns `None` without running it if the thread has no value (its number is too high, or its
    /// thread-locals are being destroyed), or is already using it further up the stack.
    #[inline]
    pub fn with_mine<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let (slot, at_work, is_wanted) = self.announce()?;
        if is_wanted {
            drop(at_work);
            return Some(self.with_mine_slowly(slot, work));
        }
        let result = {
            let value = slot.value.get_mut();
            // SAFETY: I3: this thread is the owner and busy, so scanners wait for it. It is not
            // using the value further up the stack, since it would have been busy.
            work(unsafe { value.deref() })
        };
        drop(at_work);
        Some(result)
    }

    /// Marks this thread as busy until the result is dropped, without access to its value: for work
    /// that scanners must wait for. `None` where [`with_mine`](Self::with_mine) returns it, or if
    /// there is a scanner.
    #[inline(always)]
    pub fn try_enter(&self) -> Option<AtWork<'_>> {
        let (_, at_work, is_wanted) = self.announce()?;
        (!is_wanted).then_some(at_work)
    }

    /// Steps 1 and 2: returns this thread's slot, and whether a scanner wants it.
    #[inline(always)]
    fn announce(&self) -> Option<(&Slot<T>, AtWork<'_>, bool)> {
        let number = own_number()?;
        let slot = &self.slots.get(number)?.0;
        // ORDERING: Relaxed; only this thread writes it (I2).
        if slot.busy.load(Ordering::Relaxed) {
            return None;
        }
        self.note_use(number);
        // ORDERING: Relaxed; the fence that follows orders it before the load of `wanted` (E1).
        slot.busy.store(true, Ordering::Relaxed);
        let at_work = AtWork::new(&slot.busy);
        self.fences.light();
        // ORDERING: Acquire, E3.
        let is_wanted = slot.wanted.load(Ordering::Acquire);
        Some((slot, at_work, is_wanted))
    }

    /// The owner's work under the mutex: there is a scanner, or was one just before.
    #[cold]
    fn with_mine_slowly<R>(&self, slot: &Slot<T>, work: impl FnOnce(&mut T) -> R) -> R {
        let guard = lock(&self.visitor);
        // Marks this thread as busy to itself: `work` may call this type again.
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

    /// Records that the slots up to `number` are used.
    #[inline]
    fn note_use(&self, number: usize) {
        // ORDERING: Relaxed, both; the light fence that follows orders it before the load of
        // `wanted`, as it orders `busy`.
        if number >= self.nr_used.load(Ordering::Relaxed) {
            self.nr_used.fetch_max(number + 1, Ordering::Relaxed);
        }
    }

    /// Runs `work` on all values that were ever used, while no other thread uses its value.
    ///
    /// With [`Reach::Own`], `work` gets at most this thread's own value if the system refused the
    /// heavy fence, and none if this thread is already scanning or using its value.
    ///
    /// Two threads must not nest scans of two `PerThread`s in opposite orders: they would deadlock.
    /// A child of `fork(2)` must not scan: it does not have the busy owners of its parent.
    pub fn with_all<R>(&self, work: impl FnOnce(&mut [&mut T], Reach) -> R) -> R {
        let own = own_number().filter(|number| *number < self.slots.len());
        let own_busy = own.map(|number| &self.slots[number].0.busy);
        // ORDERING: Relaxed; this thread's own word (I2).
        if own_busy.is_some_and(|busy| busy.load(Ordering::Relaxed)) {
            return work(&mut [], Reach::Own);
        }
        let guard = lock(&self.visitor);
        // Marks this thread as busy to itself: `work` may call this type again.
        let at_work = own_busy.map(|busy| {
            // ORDERING: Relaxed; the mutex excludes other scanners; this one skips its own slot.
            busy.store(true, Ordering::Relaxed);
            AtWork::new(busy)
        });
        // In every slot, used or not: no thread starts to use its value during the scan.
        let visit = Visit(&self.slots);
        for slot in &self.slots {
            // ORDERING: Relaxed; the heavy fence orders it before the loads that follow (E1).
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
            // ORDERING: Acquire, E2.
            while !is_own && slot.0.busy.load(Ordering::Acquire) {
                backoff.wait();
            }
            cells.push(slot.0.value.get_mut());
        }
        let result = {
            let values = cells.iter().map(|cell| {
                // SAFETY: I3: this thread is the scanner. Each owner is this thread, or not busy
                // and sees `wanted`. Slots are distinct, and the references end before the scan.
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

/// Marks the owner as busy until it is dropped, also by unwinding.
#[derive(Debug)]
pub struct AtWork<'s> {
    busy: &'s AtomicBool,
    /// The owner writes `busy` (I2), so this stays on its thread.
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
        // ORDERING: Release, E2.
        self.busy.store(false, Ordering::Release);
    }
}

/// Clears `wanted` in all slots when dropped, also by unwinding.
struct Visit<'p, T>(&'p [Padded<Slot<T>>]);

impl<T> Drop for Visit<'_, T> {
    fn drop(&mut self) {
        for slot in self.0 {
            // ORDERING: Release, E3.
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
