//! One value for each thread. Its thread uses it without any atomic read-modify-write, and other threads
//! can still reach it when they must.
//!
//! What. A lock that is biased to one thread. The owner announces itself with a plain store and checks
//! whether a visitor wants the values; while there is none, that is all. A visitor announces itself,
//! makes every owner see that with one heavy fence for all of them ([`crate::asymmetric`]), and waits for
//! the owners at work.
//!
//! Place. The front caches of the frame pool.
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
//! Visitor ([`PerThread::with_all`]):
//! 1. take the mutex, so that there is one visitor at a time;
//! 2. `wanted` := true in every slot; heavy fence;
//! 3. wait in every slot until `busy` is false (acquire);
//! 4. work on the values;
//! 5. `wanted` := false (release) in every slot; release the mutex.
//!
//! # Invariants
//!
//! - I1. At any moment a slot has at most one owner: thread numbers of live threads are distinct
//!   ([`crate::shard::own_number`]), and what a thread did with a
//!   number happens before what the next one does with it.
//! - I2. Only the owner writes `busy`; only the holder of the mutex writes `wanted`.
//! - I3. The value is touched by the owner between its steps 2 and 4, or by the holder of the mutex
//!   between a visitor's steps 3 and 5, or by an owner that holds the mutex; never by two of them.
//!
//! # Ordering edges
//!
//! - E1. Store buffering between owner's `busy`, `wanted` and visitor's `wanted`, `busy`: the two fences.
//!   Either the owner sees that it is wanted, or the visitor sees that it is busy.
//! - E2. Owner's step 4 (release) to visitor's step 3 (acquire): the visitor sees the owner's work.
//! - E3. Visitor's step 5 (release) to a later step 2 of the owner (acquire): the owner sees the visitor's
//!   work. An owner that reads an older "not wanted" is a busy one, which the visitor waits for (E1).
//!
//! # Progress and failure
//!
//! The owner is wait-free while there is no visitor. A visitor waits for owners at work, so work under
//! the lock has to be short. Threads of real-time priorities must not starve an owner that
//! a visitor waits for. If the heavy fence is refused, the visitor visits its own value only.
//!
//! Proved by: `tests/loom_per_thread.rs`, which fails with the mutants of `verify/mutants`; `tests/per_thread.rs`, with both
//! kinds of fences.

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

/// The values that a visitor is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Those of all threads.
    All,
    /// This thread's own at the most: the system has refused the fence that is needed to reach the others, or
    /// this thread is already at work on its own.
    Own,
}

/// A value for each of the first threads of the process; see the module's text.
pub struct PerThread<T> {
    slots: Box<[Padded<Slot<T>>]>,
    fences: Fences,
    /// No slot from this one on was ever used. Owners load it, visitors do not write it.
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
    /// Whether the owner is at work (I2).
    busy: AtomicBool,
    /// Whether a visitor wants the value (I2).
    wanted: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the values are handed out as `&mut` to one thread at a time (I3), so they have to be `Send`;
// no two threads get a `&T`.
unsafe impl<T: Send> Sync for PerThread<T> {}

impl<T> PerThread<T> {
    /// `nr` values. Threads beyond them have none.
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

    /// Does `work` on this thread's value.
    ///
    /// None, and nothing is done, if the thread has no value: there are more threads than values, its
    /// thread-local variables are being destroyed, or it is already at work on its value, further up the stack.
    #[inline]
    pub fn with_mine<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let (slot, at_work, is_wanted) = self.announce()?;
        if is_wanted {
            drop(at_work);
            return Some(self.with_mine_slowly(slot, work));
        }
        let result = {
            let value = slot.value.get_mut();
            // SAFETY: I3: this thread is the slot's owner and busy, and every visitor waits for
            // it. It is not at work on the value further up the stack, since it would be busy then.
            work(unsafe { value.deref() })
        };
        drop(at_work);
        Some(result)
    }

    /// Announces that this thread is at work, until the answer is dropped, without giving out its value: for work that visitors
    /// have to wait for. None where [`with_mine`](Self::with_mine) does nothing, and while there is a visitor.
    #[inline(always)]
    pub fn try_enter(&self) -> Option<AtWork<'_>> {
        let (_, at_work, is_wanted) = self.announce()?;
        (!is_wanted).then_some(at_work)
    }

    /// Steps 1 and 2: this thread's slot, and whether a visitor wants it.
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

    /// The owner's work while there is a visitor, or was one just now.
    #[cold]
    fn with_mine_slowly<R>(&self, slot: &Slot<T>, work: impl FnOnce(&mut T) -> R) -> R {
        let guard = lock(&self.visitor);
        // Marks this thread as at work, for itself: `work` may come here again.
        // ORDERING: Relaxed; visitors are kept out by the mutex.
        slot.busy.store(true, Ordering::Relaxed);
        let at_work = AtWork::new(&slot.busy);
        let result = {
            let value = slot.value.get_mut();
            // SAFETY: I3: visitors need the mutex, and the owner is this thread.
            work(unsafe { value.deref() })
        };
        drop(at_work);
        drop(guard);
        result
    }

    /// Remembers that slots up to this one are used.
    #[inline]
    fn note_use(&self, number: usize) {
        // ORDERING: Relaxed, both; the light fence that follows orders it before the load of `wanted`, as
        // it orders `busy`.
        if number >= self.nr_used.load(Ordering::Relaxed) {
            self.nr_used.fetch_max(number + 1, Ordering::Relaxed);
        }
    }

    /// Does `work` on the values of all threads at once: on each value that was ever used. No thread is at work on its own
    /// meanwhile.
    ///
    /// With [`Reach::Own`] there is this thread's own value at the most: either the system has refused the heavy
    /// fence; or there is no value, since this thread is already visiting, or at work on its own value, further up
    /// the stack.
    ///
    /// Visits of two `PerThread`s may not be nested crosswise: they would wait for each other. A child of
    /// `fork(2)` must not visit: other threads may have been at work, and are not there to finish.
    pub fn with_all<R>(&self, work: impl FnOnce(&mut [&mut T], Reach) -> R) -> R {
        let own = own_number().filter(|number| *number < self.slots.len());
        let own_busy = own.map(|number| &self.slots[number].0.busy);
        // ORDERING: Relaxed; this thread's own word (I2).
        if own_busy.is_some_and(|busy| busy.load(Ordering::Relaxed)) {
            return work(&mut [], Reach::Own);
        }
        let guard = lock(&self.visitor);
        // This thread marks itself as at work, for itself: `work` may come here again.
        let at_work = own_busy.map(|busy| {
            // ORDERING: Relaxed; visitors are kept out by the mutex, and this one does not wait for itself.
            busy.store(true, Ordering::Relaxed);
            AtWork::new(busy)
        });
        // In every slot, used or not: no thread begins to work while this lasts.
        let visit = Visit(&self.slots);
        for slot in &self.slots {
            // ORDERING: Relaxed; the heavy fence orders it before the loads that follow (E1).
            slot.0.wanted.store(true, Ordering::Relaxed);
        }
        let reach = match self.fences.heavy() {
            Ok(()) => Reach::All,
            Err(_) => Reach::Own,
        };
        // ORDERING: Relaxed; an owner that did not see `wanted` has noted the use before its
        // light fence, so the use is seen after the heavy one (E1).
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
                // SAFETY: I3: this thread is the visitor; every owner sees that it is wanted, and none is
                // busy. The slots are distinct, and the references end before the visit does.
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

/// The owner is at work. Dropping this ends that, also when the work unwinds.
#[derive(Debug)]
pub struct AtWork<'s> {
    busy: &'s AtomicBool,
    /// The value stays with its thread (I2).
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

/// Dropping this clears `wanted` everywhere, also when the work unwinds.
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
