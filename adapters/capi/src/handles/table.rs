//! A table of handles: slots, in which objects are. The module's text has the protocol.

use std::collections::VecDeque;
use std::mem::forget;
use std::ops::Deref;
use std::ptr;
use std::sync::PoisonError;

use pagewell_sync::asymmetric::Refused;
use pagewell_sync::atomic::{AtomicU64, Ordering};

use super::cell::{Mutex, UnsafeCell};
use super::hazards::Announced;

/// A handle's bits: slot, generation, kind; and three that only the word of a slot has.
const SLOT_BITS: u32 = 16;
const KIND_SHIFT: u32 = 56;
const HANDLE_BITS: u32 = 61;
const GENERATIONS: u64 = 1 << (KIND_SHIFT - SLOT_BITS);
const CLOSING: u64 = 1 << HANDLE_BITS;
/// A call with it has panicked.
const DEAD: u64 = 1 << 62;
const FREE: u64 = 1 << 63;
/// So many slots rest before one of them is used again, so that their generations last.
const REST: usize = if cfg!(loom) { 1 } else { 64 };

/// A handle. Kinds are 1 to 31, slots below 2^16.
const fn handle_of(kind: u64, generation: u64, slot: usize) -> u64 {
    kind << KIND_SHIFT | generation << SLOT_BITS | slot as u64
}

/// The generation of a handle, or of a word.
const fn generation_of(word: u64) -> u64 {
    (word >> SLOT_BITS) % GENERATIONS
}

/// Whether a number could be a handle: not zero, which is the word of a slot that was never used, and none of the bits that only words have. Or else a program could name a slot
/// that is free or being closed, by the very word that says so.
#[inline(always)]
const fn may_be(handle: u64) -> bool {
    handle.wrapping_sub(1) >> HANDLE_BITS == 0
}

/// Whether a slot may be used again after this handle: its generations are not used up.
const fn has_more(handle: u64) -> bool {
    generation_of(handle) + 1 < GENERATIONS
}

/// Why a handle is none, of a slot with this word. Of the word that was found wanting, and not of another look: that may find the handle open again.
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

/// Why a handle cannot be used, closed or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is zero.
    Null,
    /// It is not open, or never was.
    Closed,
    /// A call with it has panicked.
    Dead,
    /// Somebody is closing it.
    Closing,
    /// A call with it is announced.
    InCall,
    /// Calls with it are counted, or what else keeps it open.
    InUse,
    /// The heavy fence was refused.
    NoFence,
    /// All slots are taken.
    Full,
}

/// The slots that were used and are free, the one that is free for the longest time first; and the first that was never used.
pub(crate) struct Free {
    used: VecDeque<usize>,
    next: usize,
}

impl Free {
    /// That of a new table. Slot 0 is never used.
    pub(crate) const NEW: Self = Self {
        used: VecDeque::new(),
        next: 1,
    };
}

/// All zeros at first, so that a table takes memory as it is used.
#[repr(C, align(128))]
pub(crate) struct Slot<T> {
    /// 0 before the first use; the handle, with `CLOSING` or `DEAD` maybe; or the last one and `FREE`.
    word: AtomicU64,
    /// The object, in a box of its own, as long as the slot is not free.
    object: UnsafeCell<*mut T>,
    /// Calls that are counted, and what else keeps the handle from being closed.
    users: Apart,
}

/// On another cache line than what announced calls load.
#[repr(align(64))]
struct Apart(AtomicU64);

// SAFETY: the object is reached by the protocol alone, which hands it from thread to thread and shares it.
unsafe impl<T: Send + Sync> Sync for Slot<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Send for Slot<T> {}

impl<T> Slot<T> {
    // Only to fill static tables with.
    #[cfg(not(loom))]
    #[allow(clippy::declare_interior_mutable_const)]
    pub(crate) const NEW: Self = Self {
        word: AtomicU64::new(0),
        object: UnsafeCell::new(ptr::null_mut()),
        users: Apart(AtomicU64::new(0)),
    };

    #[cfg(loom)]
    pub(super) fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            object: UnsafeCell::new(ptr::null_mut()),
            users: Apart(AtomicU64::new(0)),
        }
    }

    /// The object.
    ///
    /// # Safety
    ///
    /// (a) The slot is not free, and nobody takes the object out as long as the answer is used.
    #[inline(always)]
    unsafe fn object<'o>(&self) -> &'o T {
        // SAFETY: (a); only who fills a slot or takes the object out stores to the cell.
        let object = self.object.with(|object| unsafe { *object });
        // SAFETY: (a); it was made by `Box::into_raw` in `add`.
        unsafe { &*object }
    }
}

/// A table of one kind.
pub(crate) struct Table<'t, T> {
    kind: u64,
    slots: &'t [Slot<T>],
    free: &'t Mutex<Free>,
}

impl<T> Clone for Table<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Table<'_, T> {}

impl<'t, T> Table<'t, T> {
    /// As many slots as a power of two, 2^16 at the most.
    #[inline(always)]
    pub(crate) fn new(kind: u64, slots: &'t [Slot<T>], free: &'t Mutex<Free>) -> Self {
        Self { kind, slots, free }
    }

    /// The slot that a handle names, if it were one of this kind.
    #[inline(always)]
    fn slot(self, handle: u64) -> &'t Slot<T> {
        &self.slots[handle as usize & (self.slots.len() - 1)]
    }

    /// Makes a handle of `object`.
    pub(super) fn add(self, object: T) -> Result<u64, Refusal> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let is_all_used = free.next == self.slots.len();
        let (number, generation) = if is_all_used || free.used.len() >= REST {
            let number = free.used.pop_front().ok_or(Refusal::Full)?;
            // ORDERING: Relaxed; the mutex orders it after the store that has freed the slot.
            let last = self.slots[number].word.load(Ordering::Relaxed);
            (number, generation_of(last) + 1)
        } else {
            free.next += 1;
            (free.next - 1, 1)
        };
        drop(free);
        let handle = handle_of(self.kind, generation, number);
        let slot = &self.slots[number];
        let object = Box::into_raw(Box::new(object));
        // SAFETY: the slot is free, and this thread has taken its number off the list: nobody else uses the cell before the word says so.
        slot.object.with_mut(|place| unsafe { *place = object });
        // ORDERING: Release, E3.
        slot.word.store(handle, Ordering::Release);
        Ok(handle)
    }

    /// Step 3: the object of an announced call, as long as that is.
    #[inline(always)]
    pub(super) fn announced<'a>(self, announced: &'a Announced<'_>) -> Result<&'a T, Refusal> {
        let handle = announced.handle();
        let slot = self.slot(handle);
        // ORDERING: Acquire, E3.
        let word = slot.word.load(Ordering::Acquire);
        if word != handle || !may_be(handle) {
            return Err(refusal(handle, word));
        }
        // SAFETY: (a) the slot had the handle after the announcement, so the object was there and no closer had it; a closer that comes later finds the
        // announcement (E1), which lasts as long as the answer does.
        Ok(unsafe { slot.object() })
    }

    /// The object of a handle, for a counted call.
    pub(super) fn counted(self, handle: u64) -> Result<Counted<'t, T>, Refusal> {
        let slot = self.slot(handle);
        // First, so that stale handles do not count in the way of whoever has the slot now.
        // ORDERING: Relaxed; it is loaded again.
        let word = slot.word.load(Ordering::Relaxed);
        if !may_be(handle) || word != handle {
            return Err(refusal(handle, word));
        }
        // ORDERING: AcqRel, E1: acquires the closing if a closer has looked at the count before; releases nothing that is needed, but goes on with what others
        // have released (E2).
        slot.users.0.fetch_add(1, Ordering::AcqRel);
        let counted = Counted { slot };
        // ORDERING: Acquire, E3; it comes after the count, which acquires (E1).
        let word = slot.word.load(Ordering::Acquire);
        if word != handle {
            return Err(refusal(handle, word));
        }
        Ok(counted)
    }

    /// Makes the handle of a call that has panicked a dead one, also while somebody tries to close it. One that is not open any more stays as it is.
    #[cold]
    pub(super) fn mark_dead(self, handle: u64) {
        let mark = |word: u64| (may_be(handle) && word & !CLOSING == handle).then_some(word | DEAD);
        // ORDERING: Relaxed, both; it publishes nothing, and hands on what the word has published (a read-modify-write).
        let marked =
            self.slot(handle)
                .word
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, mark);
        // It was closed, or is dead already.
        let _ = marked.is_err();
    }

    /// Steps a to d: takes the object out, if nobody is using it. `is_announced` passes the heavy fence, and says whether a line has the handle.
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
            // ORDERING: AcqRel: acquires what was done to the object before, and comes before step b and the heavy fence (E1). (The heavy fence would do for the
            // former, too.) Failures are told, and order nothing.
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
        };
        // ORDERING: AcqRel, E1: a change of the word, and not a load, so that a call that counts later acquires the closing; acquires the ends of those that
        // have counted earlier (E2).
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

/// An object that is in use by a counted call; as long as this exists it is not closed.
pub(crate) struct Counted<'t, T> {
    slot: &'t Slot<T>,
}

impl<T> Counted<'_, T> {
    /// Another one.
    pub(crate) fn again(&self) -> Self {
        // ORDERING: Relaxed; there is one already.
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
        // SAFETY: (a) the slot had the handle after the count was up, so the object was there and no closer had it; a closer that comes later
        // finds the count (E1), and leaves the object where it is.
        unsafe { self.slot.object() }
    }
}

/// An object that nobody else can reach; goes back to its slot when this is dropped, unless it is taken out.
pub(crate) struct Taken<'t, T> {
    table: Table<'t, T>,
    slot: &'t Slot<T>,
    handle: u64,
}

impl<T> Taken<'_, T> {
    /// The object, which nobody else uses.
    pub(crate) fn object(&mut self) -> &mut T {
        self.slot.object.with_mut(|object| {
            // SAFETY: the word says that it is being closed, no call is counted or announced (steps a to d), and no other closer gets past the word: the cell
            // is this value's alone.
            let object = unsafe { *object };
            // SAFETY: as above, of the object.
            unsafe { &mut *object }
        })
    }

    /// Step e: ends the handle, and gives the object out.
    pub(crate) fn end(self) -> T {
        // SAFETY: as in `object`.
        let object = self
            .slot
            .object
            .with_mut(|object| unsafe { ptr::replace(object, ptr::null_mut()) });
        // SAFETY: as in `object`; it was made by `Box::into_raw` in `add`, and the slot has it no more.
        let object = unsafe { Box::from_raw(object) };
        // A swap, as a call that has panicked may be marking the word.
        // ORDERING: Relaxed; whoever fills the slot next has the mutex first.
        self.slot.word.swap(self.handle | FREE, Ordering::Relaxed);
        if has_more(self.handle) {
            let mut free = self
                .table
                .free
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            free.used
                .push_back(self.handle as usize & (self.table.slots.len() - 1));
        }
        forget(self);
        *object
    }
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        // ORDERING: Release; what was done to the object meanwhile comes before (E3). The mark of a call that has panicked meanwhile stays.
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

    /// The words of slots, whatever they say, are handles to nobody.
    #[test]
    fn no_word_that_is_not_a_handle_is_taken_for_one() {
        let slots = [const { Slot::NEW }; 4];
        let free = Mutex::new(Free::NEW);
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

    /// A slot whose generations are used up is never used again: its handles would repeat.
    #[test]
    fn generations_do_not_repeat() {
        let slots = [const { Slot::NEW }; 2];
        let free = Mutex::new(Free::NEW);
        let table = Table::new(1, &slots, &free);
        let first = table.add(()).unwrap();
        assert_eq!(generation_of(first), 1);
        table.take(first, |_| Ok(false)).unwrap().end();
        // As if it had been used so often.
        let last = handle_of(1, GENERATIONS - 2, 1);
        slots[1].word.store(last | FREE, Ordering::Relaxed);
        let last = table.add(()).unwrap();
        assert_eq!(generation_of(last), GENERATIONS - 1);
        table.take(last, |_| Ok(false)).unwrap().end();
        assert_eq!(table.add(()), Err(Refusal::Full));
    }
}
