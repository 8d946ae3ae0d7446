//! Table of handles: slots that contain objects. The parent module describes the protocol.

use std::collections::VecDeque;
use std::mem::forget;
use std::ops::Deref;
use std::ptr;
// `std`'s atomic even in models: it is accessed under a lock.
use std::sync::atomic::AtomicUsize;

use pagewell_sync::asymmetric::Refused;
use pagewell_sync::atomic::{AtomicU64, Ordering};

use super::cell::UnsafeCell;
use super::hazards::Announced;
use super::per_process::{PerProcess, this};

/// Layout of a handle: slot, generation, kind. Three more bits are set only in the word of a slot.
const SLOT_BITS: u32 = 16;
const KIND_SHIFT: u32 = 56;
const HANDLE_BITS: u32 = 61;
const GENERATIONS: u64 = 1 << (KIND_SHIFT - SLOT_BITS);
const CLOSING: u64 = 1 << HANDLE_BITS;
/// A call with the handle has panicked.
const DEAD: u64 = 1 << 62;
const FREE: u64 = 1 << 63;
/// Minimum number of free slots before one is reused, so that generations are used up slowly. Does
/// not apply once every slot was used.
const REST: usize = if cfg!(loom) { 1 } else { 64 };

/// Returns a handle. Kinds are 1 to 31, slots below 2^16.
const fn handle_of(kind: u64, generation: u64, slot: usize) -> u64 {
    kind << KIND_SHIFT | generation << SLOT_BITS | slot as u64
}

const fn generation_of(word: u64) -> u64 {
    (word >> SLOT_BITS) % GENERATIONS
}

/// Returns `true` if a number can be a handle: it is not zero (the word of a never-used slot), and
/// has none of the bits that only words have. Otherwise it could match the word of a slot that is
/// free or being closed. (`CLOSING` alone passes, but selects slot 0, whose word is always zero.)
#[inline(always)]
const fn may_be(handle: u64) -> bool {
    handle.wrapping_sub(1) >> HANDLE_BITS == 0
}

const fn has_more(handle: u64) -> bool {
    generation_of(handle) + 1 < GENERATIONS
}

/// Returns why `handle` is refused. `word` is the value that the caller compared with it. It is not
/// loaded again, since the handle may be open again by now.
const fn refusal(handle: u64, word: u64) -> Refusal {
    if handle == 0 {
        Refusal::Null
    } else if !may_be(handle) {
        Refusal::Closed
    } else if word & !CLOSING == handle | DEAD {
        Refusal::Dead
    } else if word & !CLOSING == handle {
        Refusal::Closing
    } else {
        Refusal::Closed
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Null,
    /// The handle is not open, or never existed.
    Closed,
    Dead,
    Closing,
    /// A call with the handle is published.
    InCall,
    /// Calls with the handle are counted, or other users keep it open.
    InUse,
    /// The system refused the heavy fence.
    NoFence,
    Full,
}

/// Free slots that were used before, oldest first, and the first never-used slot.
pub(crate) struct Free {
    used: PerProcess<VecDeque<usize>>,
    /// Stored under the lock of `used`. A child inherits the value.
    next: AtomicUsize,
}

impl Free {
    // Only initializes static tables.
    #[cfg(not(loom))]
    #[allow(clippy::declare_interior_mutable_const)]
    pub(crate) const NEW: Self = Self {
        used: PerProcess::new(),
        next: AtomicUsize::new(1),
    };

    /// State of a new table. Slot 0 is never used.
    #[cfg(loom)]
    pub(super) fn new() -> Self {
        Self {
            used: PerProcess::new(),
            next: AtomicUsize::new(1),
        }
    }
}

/// Slot of a table. Initially all zeros, so that a table uses memory only as it is filled.
#[repr(C, align(128))]
pub(crate) struct Slot<T> {
    /// 0 before the first use; then the handle, perhaps with `CLOSING`, `DEAD` or both, or the last
    /// handle with `FREE`.
    word: AtomicU64,
    /// The object, in a box of its own, as long as the slot is not free.
    object: UnsafeCell<*mut T>,
    /// Number of the process that created the last handle.
    process: AtomicU64,
    /// Number of counted calls and other users. A handle with users cannot be closed.
    users: Apart,
}

/// Counter on another cache line than the fields that published calls load.
#[repr(align(64))]
struct Apart(AtomicU64);

// SAFETY: the protocol passes the object between threads and shares it; nothing else accesses it.
unsafe impl<T: Send + Sync> Sync for Slot<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Send for Slot<T> {}

impl<T> Slot<T> {
    // Only initializes static tables.
    #[cfg(not(loom))]
    #[allow(clippy::declare_interior_mutable_const)]
    pub(crate) const NEW: Self = Self {
        word: AtomicU64::new(0),
        object: UnsafeCell::new(ptr::null_mut()),
        process: AtomicU64::new(0),
        users: Apart(AtomicU64::new(0)),
    };

    #[cfg(loom)]
    pub(super) fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            object: UnsafeCell::new(ptr::null_mut()),
            process: AtomicU64::new(0),
            users: Apart(AtomicU64::new(0)),
        }
    }

    /// # Safety
    ///
    /// (a) The slot is not free, and no thread takes the object out as long as the result is used.
    #[inline(always)]
    unsafe fn object<'o>(&self) -> &'o T {
        // SAFETY: (a); only a thread that fills the slot or takes the object out stores there.
        let object = self.object.with(|object| unsafe { *object });
        // SAFETY: (a); the object was made by `Box::into_raw` in `fill`.
        unsafe { &*object }
    }
}

pub(crate) struct Table<'t, T> {
    kind: u64,
    slots: &'t [Slot<T>],
    free: &'t Free,
}

impl<T> Clone for Table<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Table<'_, T> {}

impl<'t, T> Table<'t, T> {
    /// The number of slots is a power of two, at most 2^16.
    #[inline(always)]
    pub(crate) fn new(kind: u64, slots: &'t [Slot<T>], free: &'t Free) -> Self {
        Self { kind, slots, free }
    }

    /// Returns the slot that `handle`, which may be any number, selects. The caller compares the
    /// slot's word with `handle`.
    #[inline(always)]
    fn slot(self, handle: u64) -> &'t Slot<T> {
        &self.slots[handle as usize & (self.slots.len() - 1)]
    }

    #[cfg(test)]
    pub(super) fn add(self, object: T) -> Result<u64, Refusal> {
        Ok(self.reserve()?.fill(Box::new(object)))
    }

    pub(super) fn reserve(self) -> Result<Reserved<'t, T>, Refusal> {
        let mut used = self.free.used.lock(|| self.freed());
        // ORDERING: Relaxed, also of the store below; both are under the lock.
        let next = self.free.next.load(Ordering::Relaxed);
        let is_all_used = next == self.slots.len();
        let (number, generation) = if is_all_used || used.len() >= REST {
            let number = used.pop_front().ok_or(Refusal::Full)?;
            // ORDERING: Relaxed; the mutex orders the load after the store that freed the slot.
            let last = self.slots[number].word.load(Ordering::Relaxed);
            (number, generation_of(last) + 1)
        } else {
            self.free.next.store(next + 1, Ordering::Relaxed);
            (next, 1)
        };
        drop(used);
        Ok(Reserved {
            table: self,
            number,
            generation,
        })
    }

    /// Returns a process's initial list of free slots: in a child of `fork`, those that its
    /// ancestors have freed. A slot that another thread had reserved or was filling at the fork is
    /// free, too; the child leaks the object. A slot with a counted call of another thread stays
    /// unused: its count never returns to 0.
    fn freed(self) -> VecDeque<usize> {
        // ORDERING: Relaxed, all; the list is used only if this process has stored to no slot yet.
        let is_free = |slot: &Slot<T>| {
            let word = slot.word.load(Ordering::Relaxed);
            let is_unused = slot.users.0.load(Ordering::Relaxed) == 0;
            is_unused && (word == 0 || word & FREE != 0) && has_more(word)
        };
        let next = self.free.next.load(Ordering::Relaxed);
        (1..next).filter(|nr| is_free(&self.slots[*nr])).collect()
    }

    /// Returns the number of the process that created the handle, if open, dead or being closed.
    #[cfg(not(loom))]
    pub(super) fn process_of(self, handle: u64) -> Option<u64> {
        let slot = self.slot(handle);
        // ORDERING: Acquire, E3.
        let word = slot.word.load(Ordering::Acquire);
        let is_in_slot = may_be(handle) && word & !(CLOSING | DEAD) == handle;
        // ORDERING: Relaxed; ordered by the load of the word. If the slot is reused in between, the
        // handle was one of this process, and the reuse stores the same number.
        is_in_slot.then(|| slot.process.load(Ordering::Relaxed))
    }

    /// Step 3: returns the object for as long as the call is published.
    #[inline(always)]
    pub(super) fn announced<'a>(self, announced: &'a Announced<'_>) -> Result<&'a T, Refusal> {
        let handle = announced.handle();
        let slot = self.slot(handle);
        // ORDERING: Acquire, E3.
        let word = slot.word.load(Ordering::Acquire);
        if word != handle || !may_be(handle) {
            return Err(refusal(handle, word));
        }
        // SAFETY: (a) the slot had the handle after this thread published the call, so the object
        // was present. A thread that closes the handle later finds the published call (E1), which
        // lasts as long as the returned reference, and does not free the object.
        Ok(unsafe { slot.object() })
    }

    pub(super) fn counted(self, handle: u64) -> Result<Counted<'t, T>, Refusal> {
        let slot = self.slot(handle);
        // Checked first, so that stale handles do not increment the count of another handle.
        // ORDERING: Relaxed; the word is loaded again.
        let word = slot.word.load(Ordering::Relaxed);
        if !may_be(handle) || word != handle {
            return Err(refusal(handle, word));
        }
        // ORDERING: AcqRel, E1: acquires step a if step b came first. Nothing is released, but the
        // read-modify-write continues the release sequences of other threads (E2).
        slot.users.0.fetch_add(1, Ordering::AcqRel);
        let counted = Counted { slot };
        // ORDERING: Acquire, E3; comes after the increment above, which acquires (E1).
        let word = slot.word.load(Ordering::Acquire);
        if word != handle {
            return Err(refusal(handle, word));
        }
        Ok(counted)
    }

    /// Marks the handle of a call that has panicked as dead, if it is open or being closed.
    #[cold]
    pub(super) fn mark_dead(self, handle: u64) {
        let mark = |word: u64| (may_be(handle) && word & !CLOSING == handle).then_some(word | DEAD);
        // ORDERING: Relaxed, both; the mark publishes nothing, and continues the release sequence.
        let marked =
            self.slot(handle)
                .word
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, mark);
        // Otherwise the handle was closed, or is already dead.
        let _ = marked.is_err();
    }

    /// Steps a to d: takes the object out, if no call uses it. `is_announced` executes steps c and
    /// d. An error leaves the handle as it was.
    pub(super) fn take(
        self,
        handle: u64,
        is_announced: impl FnOnce(u64) -> Result<bool, Refused>,
    ) -> Result<Taken<'t, T>, Refusal> {
        let slot = self.slot(handle);
        if !may_be(handle) {
            return Err(refusal(handle, 0));
        }
        let swap = |before| {
            // ORDERING: AcqRel: acquires earlier changes of the object, and is ordered before step
            // b and the heavy fence (E1). Relaxed on failure: the word is only reported.
            slot.word.compare_exchange(
                before,
                before | CLOSING,
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
        };
        if let Err(word) = swap(handle).or_else(|_| swap(handle | DEAD)) {
            return Err(match word == handle | DEAD | CLOSING {
                true => Refusal::Closing,
                false => refusal(handle, word),
            });
        }
        let taken = Taken {
            table: self,
            slot,
            handle,
            was_panicking: std::thread::panicking(),
        };
        // ORDERING: AcqRel, E1: a read-modify-write, and not a load, so that a call that is counted
        // later acquires step a. It also acquires the ends of calls that were counted earlier (E2).
        if slot.users.0.fetch_add(0, Ordering::AcqRel) != 0 {
            return Err(Refusal::InUse);
        }
        match is_announced(handle) {
            Ok(false) => Ok(taken),
            Ok(true) => Err(Refusal::InCall),
            Err(Refused) => Err(Refusal::NoFence),
        }
    }
}

/// Slot reserved for an object. A drop without [`fill`](Self::fill) frees it. In a child of `fork`
/// the slot counts as free: the forking thread, if it reserved the slot, is in a callback, which
/// may not return in the child.
pub(crate) struct Reserved<'t, T> {
    table: Table<'t, T>,
    number: usize,
    generation: u64,
}

impl<T> Reserved<'_, T> {
    /// Stores the object, whose address stays the same, and returns its handle.
    pub(crate) fn fill(self, object: Box<T>) -> u64 {
        let handle = handle_of(self.table.kind, self.generation, self.number);
        let slot = &self.table.slots[self.number];
        forget(self);
        let object = Box::into_raw(object);
        // SAFETY: the slot is off the list: only this thread uses the cell until the word is set.
        slot.object.with_mut(|place| unsafe { *place = object });
        // ORDERING: Relaxed; E3 orders it as the object.
        slot.process.store(this(), Ordering::Relaxed);
        // ORDERING: Release, E3.
        slot.word.store(handle, Ordering::Release);
        handle
    }
}

impl<T> Drop for Reserved<'_, T> {
    fn drop(&mut self) {
        // `reserve` has made the list of this process.
        let mut used = self.table.free.used.lock(|| self.table.freed());
        used.push_front(self.number);
    }
}

/// Counted use of an object. The handle cannot be closed as long as this value exists.
pub(crate) struct Counted<'t, T> {
    slot: &'t Slot<T>,
}

impl<T> Counted<'_, T> {
    pub(crate) fn again(&self) -> Self {
        // ORDERING: Relaxed; one use is already counted.
        self.slot.users.0.fetch_add(1, Ordering::Relaxed);
        Self { slot: self.slot }
    }
}

impl<T> Drop for Counted<'_, T> {
    fn drop(&mut self) {
        // ORDERING: Release, E2.
        self.slot.users.0.fetch_sub(1, Ordering::Release);
    }
}

impl<T> Deref for Counted<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: (a) the slot had the handle after the increment, so the object was present. A
        // thread that closes it later finds the count (E1), and leaves the object in place.
        unsafe { self.slot.object() }
    }
}

/// Object to which no other thread has access. A drop without [`end`](Self::end) clears `CLOSING`,
/// so that the handle is open or dead as before. If the thread unwinds, the handle is marked as
/// dead first: the work that has panicked may have dropped a part of the object.
pub(crate) struct Taken<'t, T> {
    table: Table<'t, T>,
    slot: &'t Slot<T>,
    handle: u64,
    was_panicking: bool,
}

impl<T> Taken<'_, T> {
    pub(crate) fn object(&mut self) -> &mut T {
        self.slot.object.with_mut(|object| {
            // SAFETY: the word is `CLOSING`, so no other thread passes step a, and no call is
            // counted or published (steps a to d).
            let object = unsafe { *object };
            // SAFETY: as above, for the object.
            unsafe { &mut *object }
        })
    }

    /// Step e: ends the handle, and returns the object.
    pub(crate) fn end(self) -> T {
        // SAFETY: as in `object`.
        let object = self
            .slot
            .object
            .with_mut(|object| unsafe { ptr::replace(object, ptr::null_mut()) });
        // SAFETY: as in `object`; made by `Box::into_raw` in `fill`, and no longer in the slot.
        let object = unsafe { Box::from_raw(object) };
        // Locked before the slot is free: the first lock of a process lists all free slots, and
        // would otherwise list this slot, too.
        let is_reusable = has_more(self.handle);
        let used = is_reusable.then(|| self.table.free.used.lock(|| self.table.freed()));
        // A swap and not a store, since a call that has panicked may concurrently mark the word.
        // ORDERING: Relaxed; the thread that fills the slot next acquires the mutex first.
        self.slot.word.swap(self.handle | FREE, Ordering::Relaxed);
        if let Some(mut used) = used {
            used.push_back(self.handle as usize & (self.table.slots.len() - 1));
        }
        forget(self);
        *object
    }
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.was_panicking {
            self.table.mark_dead(self.handle);
        }
        // ORDERING: Release, E3, also for the mark. `fetch_and` keeps a concurrent mark.
        self.slot.word.fetch_and(!CLOSING, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::hazards::Lines;
    use super::*;

    #[test]
    fn the_parts_of_a_handle_do_not_meet() {
        let all = handle_of(31, GENERATIONS - 1, (1 << SLOT_BITS) - 1);
        assert_eq!(all & (CLOSING | DEAD | FREE), 0);
        for (kind, generation, slot) in [(31, 0, 0), (0, GENERATIONS - 1, 0), (0, 0, 65535)] {
            let one = handle_of(kind, generation, slot);
            let others = all & !one;
            assert_eq!(one | others, all);
            assert_eq!(generation_of(one), generation);
        }
        assert_eq!(generation_of(all | FREE), GENERATIONS - 1);
    }

    #[test]
    fn no_word_that_is_not_a_handle_is_taken_for_one() {
        let slots = [const { Slot::NEW }; 4];
        let free = Free::NEW;
        let table = Table::new(1, &slots, &free);
        let refused = |number: u64, why: Refusal| {
            assert_eq!(table.counted(number).err(), Some(why), "{number:x}");
            let taken = table.take(number, |_| Ok(false)).err();
            assert_eq!(taken, Some(why), "{number:x}");
            let lines = Lines::<1>::new();
            let announced = Announced::begin(lines.lend().unwrap(), number).unwrap();
            assert_eq!(table.announced(&announced), Err(why), "{number:x}");
            table.mark_dead(number);
        };
        let closed = table.add(5).unwrap();
        table.take(closed, |_| Ok(false)).unwrap().end();
        let open = table.add(6).unwrap();
        for flags in 1..8 {
            for handle in [closed, open, 0, 2, u64::MAX >> 3] {
                refused(handle | flags << HANDLE_BITS, Refusal::Closed);
            }
        }
        refused(0, Refusal::Null);
        refused(closed, Refusal::Closed);
        assert_eq!(*table.counted(open).unwrap(), 6);
        let closing = table.take(open, |_| Ok(false)).unwrap();
        refused(open | CLOSING, Refusal::Closed);
        drop(closing);
        table.mark_dead(open);
        refused(open | DEAD, Refusal::Closed);
        assert_eq!(table.take(open, |_| Ok(false)).unwrap().end(), 6);
    }

    #[test]
    fn slot_that_was_reserved_and_not_filled_is_free() {
        let slots = [const { Slot::NEW }; 4];
        let free = Free::NEW;
        let table = Table::new(1, &slots, &free);
        let reserved = [(); 2].map(|()| table.reserve().unwrap());
        let first = table.add(1).unwrap();
        assert_eq!(table.add(2), Err(Refusal::Full));
        let [unused, other] = reserved;
        drop(unused);
        let second = table.add(2).unwrap();
        assert_eq!(table.add(3), Err(Refusal::Full));
        drop(other);
        assert_eq!(*table.counted(first).unwrap(), 1);
        assert_eq!(*table.counted(second).unwrap(), 2);
        table.take(second, |_| Ok(false)).unwrap().end();
        drop(table.reserve().unwrap());
        let third = table.reserve().unwrap().fill(Box::new(3));
        assert_ne!(third, second);
        assert_eq!(table.counted(second).err(), Some(Refusal::Closed));
        assert_eq!(*table.counted(third).unwrap(), 3);
    }

    #[test]
    fn generations_do_not_repeat() {
        let slots = [const { Slot::NEW }; 2];
        let free = Free::NEW;
        let table = Table::new(1, &slots, &free);
        let first = table.add(()).unwrap();
        assert_eq!(generation_of(first), 1);
        table.take(first, |_| Ok(false)).unwrap().end();
        // The state after all generations but one were used.
        let last = handle_of(1, GENERATIONS - 2, 1);
        slots[1].word.store(last | FREE, Ordering::Relaxed);
        let last = table.add(()).unwrap();
        assert_eq!(generation_of(last), GENERATIONS - 1);
        table.take(last, |_| Ok(false)).unwrap().end();
        assert_eq!(table.add(()), Err(Refusal::Full));
    }
}
