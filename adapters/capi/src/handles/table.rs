//! Tables of handles, a kind each. The module's text has the protocol.

use std::collections::VecDeque;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::hazards::{Announced, is_announced, own_line};
use crate::error::pw_error::*;
use crate::error::{Failure, Result};

/// A handle's bits: slot, generation, kind; and three that only the word of a slot has.
const SLOT_BITS: u32 = 16;
const KIND_SHIFT: u32 = 56;
const GENERATIONS: u64 = 1 << (KIND_SHIFT - SLOT_BITS);
const CLOSING: u64 = 1 << 61;
/// A call with it has panicked.
const DEAD: u64 = 1 << 62;
const FREE: u64 = 1 << 63;
/// So many slots rest before one of them is used again, so that their generations last.
const REST: usize = 64;

/// A kind of handles: the type of their objects.
pub(crate) trait Kind: Sized + 'static {
    /// Which; 1 to 31.
    const NUMBER: u64;
    /// How it is called in errors.
    const NAME: &'static str;
    /// The slots: as many as a power of two, 2^16 at the most.
    fn slots() -> &'static [Slot<Self>];
    fn free() -> &'static Mutex<Free>;
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
#[repr(align(64))]
pub(crate) struct Slot<T> {
    /// 0 before the first use; the handle, with `CLOSING` or `DEAD` maybe; or the last one and `FREE`.
    word: AtomicU64,
    object: AtomicPtr<T>,
    /// Calls that are counted, and what else keeps the handle from being closed.
    users: AtomicU64,
}

impl<T> Slot<T> {
    // Only to fill static tables with.
    #[allow(clippy::declare_interior_mutable_const)]
    pub(crate) const NEW: Self = Self {
        word: AtomicU64::new(0),
        object: AtomicPtr::new(ptr::null_mut()),
        users: AtomicU64::new(0),
    };
}

/// Tables, each of a kind: its type, number, name and how many slots.
macro_rules! tables {
    ($($kind:ty: $number:literal, $name:literal, $nr:expr;)*) => {$(
        impl $crate::handles::Kind for $kind {
            const NUMBER: u64 = $number;
            const NAME: &'static str = $name;

            #[inline(always)]
            fn slots() -> &'static [$crate::handles::Slot<Self>] {
                static SLOTS: [$crate::handles::Slot<$kind>; $nr] = [const { $crate::handles::Slot::NEW }; $nr];
                const { assert!($nr >= 2 && $nr <= 1 << 16 && usize::is_power_of_two($nr)) };
                &SLOTS
            }

            fn free() -> &'static std::sync::Mutex<$crate::handles::Free> {
                static FREE: std::sync::Mutex<$crate::handles::Free> = std::sync::Mutex::new($crate::handles::Free::NEW);
                &FREE
            }
        }
    )*};
}
pub(crate) use tables;

/// The slot that a handle names, if it were one of this kind.
#[inline(always)]
fn slot_of<T: Kind>(handle: u64) -> &'static Slot<T> {
    let slots = T::slots();
    &slots[handle as usize & (slots.len() - 1)]
}

/// Why a handle is none.
#[cold]
#[inline(never)]
fn refused<T: Kind>(handle: u64) -> Failure {
    let word = slot_of::<T>(handle).word.load(Ordering::Relaxed);
    let name = T::NAME;
    let (code, detail) = if handle == 0 {
        (PW_ERROR_HANDLE, format!("the {name} is null"))
    } else if word == handle | DEAD || word == handle | DEAD | CLOSING {
        (
            PW_ERROR_PANIC,
            format!("an earlier call with the {name} has failed inside of the library"),
        )
    } else if word == handle | CLOSING {
        (PW_ERROR_BUSY, format!("the {name} is being closed"))
    } else {
        (
            PW_ERROR_HANDLE,
            format!("the {name} was closed, or never was one"),
        )
    };
    Failure::Ours(code, detail.into())
}

/// Makes a handle of `object`.
pub(crate) fn add<T: Kind>(object: T) -> Result<u64> {
    super::prepare();
    let mut free = T::free().lock().unwrap_or_else(PoisonError::into_inner);
    let slots = T::slots();
    let is_all_used = free.next == slots.len();
    let (number, generation) = if is_all_used || free.used.len() >= REST {
        match free.used.pop_front() {
            Some(number) => {
                // ORDERING: Relaxed; the mutex orders it after the store that has freed the slot.
                let last = slots[number].word.load(Ordering::Relaxed);
                (number, (last >> SLOT_BITS) % GENERATIONS + 1)
            }
            None => (0, 0),
        }
    } else {
        free.next += 1;
        (free.next - 1, 1)
    };
    if number == 0 {
        let detail = format!("{} of the kind {}", slots.len() - 1, T::NAME);
        return Err(Failure::Ours(PW_ERROR_LIMIT, detail.into()));
    }
    drop(free);
    let handle = T::NUMBER << KIND_SHIFT | generation << SLOT_BITS | number as u64;
    let slot = &slots[number];
    // ORDERING: Relaxed; the store of the word publishes it (E3).
    slot.object
        .store(Box::into_raw(Box::new(object)), Ordering::Relaxed);
    // ORDERING: Release, E3.
    slot.word.store(handle, Ordering::Release);
    Ok(handle)
}

/// The number of the slot of a handle.
fn number_of(handle: u64) -> usize {
    (handle & ((1 << SLOT_BITS) - 1)) as usize
}

/// An object that is in use by a counted call; as long as this exists it is not closed.
pub(crate) struct Counted<T: Kind> {
    slot: &'static Slot<T>,
    handle: u64,
}

impl<T: Kind> Counted<T> {
    /// Counts; fails if the word is not the handle, with some of `bits` maybe.
    fn begin(handle: u64) -> Result<Self> {
        let slot = slot_of::<T>(handle);
        // First, so that stale handles do not count in the way of whoever has the slot now.
        // ORDERING: Relaxed; it is loaded again.
        if handle == 0 || slot.word.load(Ordering::Relaxed) != handle {
            return Err(refused::<T>(handle));
        }
        // ORDERING: SeqCst, E1: either the load that follows sees that somebody closes, or the closer sees the count.
        slot.users.fetch_add(1, Ordering::SeqCst);
        let counted = Self { slot, handle };
        // ORDERING: SeqCst, E1; and E3, as it acquires.
        if slot.word.load(Ordering::SeqCst) != handle {
            return Err(refused::<T>(handle));
        }
        Ok(counted)
    }

    /// Another one.
    pub(crate) fn again(&self) -> Self {
        // ORDERING: Relaxed; there is one already.
        self.slot.users.fetch_add(1, Ordering::Relaxed);
        Self {
            slot: self.slot,
            handle: self.handle,
        }
    }
}

impl<T: Kind> Drop for Counted<T> {
    fn drop(&mut self) {
        // ORDERING: Release, E2.
        self.slot.users.fetch_sub(1, Ordering::Release);
    }
}

impl<T: Kind> Deref for Counted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // ORDERING: Relaxed; it was stored before the word that `begin` has loaded (E3).
        let object = self.slot.object.load(Ordering::Relaxed);
        // SAFETY: the slot had the handle after the count was up, so the object was there and no closer had it; a closer that came later has
        // found the count, and left the object where it is.
        unsafe { &*object }
    }
}

// SAFETY: it refers to an object that may be shared between threads.
unsafe impl<T: Kind + Sync> Send for Counted<T> {}
// SAFETY: as above.
unsafe impl<T: Kind + Sync> Sync for Counted<T> {}

/// An object that is in use by an announced call, or else by a counted one.
pub(crate) enum Used<T: Kind> {
    Announced(&'static T, #[allow(dead_code)] Announced),
    Counted(Counted<T>),
}

impl<T: Kind> Deref for Used<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        match self {
            Self::Announced(object, _) => object,
            Self::Counted(counted) => counted,
        }
    }
}

/// The object of a handle, for a call that calls nothing of the program's.
#[inline(always)]
pub(crate) fn used<T: Kind>(handle: u64) -> Result<Used<T>> {
    let Some(announced) = Announced::begin(handle) else {
        return used_counted(handle).map(Used::Counted);
    };
    let slot = slot_of::<T>(handle);
    // ORDERING: Acquire, E3.
    if slot.word.load(Ordering::Acquire) != handle || handle == 0 {
        return Err(refused::<T>(handle));
    }
    // ORDERING: Relaxed; it was stored before the word (E3).
    let object = slot.object.load(Ordering::Relaxed);
    // SAFETY: the slot had the handle after the announcement, so the object was there and no closer had it; a closer that comes later finds the
    // announcement (E1), which lasts as long as the reference is used: both are in the answer, and it gives out references to itself only.
    let object = unsafe { &*object };
    Ok(Used::Announced(object, announced))
}

/// Does `work`, which neither waits nor panics, with the object of a handle; none, and nothing was done, where that takes more than an announcement: the handle is none, or
/// the thread has no line, or is in a call.
#[inline(always)]
pub(crate) fn used_shortly<T: Kind, R>(handle: u64, work: impl FnOnce(&T) -> R) -> Option<R> {
    let announced = Announced::on(own_line()?, handle)?;
    let slot = slot_of::<T>(handle);
    // ORDERING: Acquire, E3.
    if slot.word.load(Ordering::Acquire) != handle || handle == 0 {
        return None;
    }
    // ORDERING: Relaxed; it was stored before the word (E3).
    let object = slot.object.load(Ordering::Relaxed);
    // SAFETY: as in `used`; the announcement is dropped after the work.
    let answer = work(unsafe { &*object });
    drop(announced);
    Some(answer)
}

/// The object of a handle, for any call.
#[inline(never)]
pub(crate) fn used_counted<T: Kind>(handle: u64) -> Result<Counted<T>> {
    Counted::begin(handle)
}

/// Makes the handle of a call that has panicked a dead one.
#[cold]
pub(crate) fn mark_dead<T: Kind>(handle: u64) {
    // ORDERING: Relaxed, both; it publishes nothing. A handle that is not open any more stays as it is.
    let _ = slot_of::<T>(handle).word.compare_exchange(
        handle,
        handle | DEAD,
        Ordering::Relaxed,
        Ordering::Relaxed,
    );
}

/// An object that nobody else can reach any more; goes back to its slot when this is dropped, unless it is taken out.
pub(crate) struct Taken<T: Kind> {
    slot: &'static Slot<T>,
    /// The word to go back to.
    before: u64,
    handle: u64,
}

/// Steps a to c: takes the object out, if nobody is using it.
pub(crate) fn take<T: Kind>(handle: u64) -> Result<Taken<T>> {
    let slot = slot_of::<T>(handle);
    if handle == 0 {
        return Err(refused::<T>(handle));
    }
    // ORDERING: SeqCst, E1: before the load of the count, and of the lines. Failures are told, and order nothing.
    let swap = |before| {
        slot.word.compare_exchange(
            before,
            before | CLOSING,
            Ordering::SeqCst,
            Ordering::Relaxed,
        )
    };
    let before = match swap(handle).or_else(|_| swap(handle | DEAD)) {
        Ok(before) => before,
        Err(word) if word == handle | DEAD | CLOSING => {
            return Err(Failure::Ours(
                PW_ERROR_BUSY,
                format!("the {} is being closed", T::NAME).into(),
            ));
        }
        Err(_) => return Err(refused::<T>(handle)),
    };
    let taken = Taken {
        slot,
        before,
        handle,
    };
    let busy = |what: &str| {
        Err(Failure::Ours(
            PW_ERROR_BUSY,
            format!("{} with the {}", what, T::NAME).into(),
        ))
    };
    // ORDERING: SeqCst, E1 and E2.
    match (slot.users.load(Ordering::SeqCst), is_announced(handle)) {
        (0, Ok(false)) => Ok(taken),
        (0, Ok(true)) => busy("a thread is in a call"),
        (_, Ok(_)) => busy("calls, edits, files or requests are under way"),
        (_, Err(_)) => Err(Failure::Ours(
            PW_ERROR_UNAVAILABLE,
            "the system refuses membarrier(2), which it has granted before".into(),
        )),
    }
}

impl<T: Kind> Taken<T> {
    /// The object, which nobody else uses.
    pub(crate) fn object(&mut self) -> &mut T {
        // ORDERING: Relaxed; the compare-and-swap that has taken it has acquired it.
        let object = self.slot.object.load(Ordering::Relaxed);
        // SAFETY: the word says that it is being closed, no call is counted or announced, and no other closer gets past the word: the
        // object is this value's alone.
        unsafe { &mut *object }
    }

    /// Ends the handle, and gives the object out.
    pub(crate) fn end(self) -> T {
        // ORDERING: Relaxed; as in `object`.
        let object = self.slot.object.swap(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: as in `object`; it was made by `Box::into_raw` in `add`, and the slot has it no more.
        let object = unsafe { Box::from_raw(object) };
        let number = number_of(self.handle);
        // ORDERING: Relaxed; whoever fills the slot next has the mutex first.
        self.slot.word.store(self.handle | FREE, Ordering::Relaxed);
        // A slot that has used up its generations is left alone: its handles would repeat.
        if (self.handle >> SLOT_BITS) % GENERATIONS != GENERATIONS - 1 {
            let mut free = T::free().lock().unwrap_or_else(PoisonError::into_inner);
            free.used.push_back(number);
        }
        std::mem::forget(self);
        *object
    }
}

impl<T: Kind> Drop for Taken<T> {
    fn drop(&mut self) {
        // ORDERING: Release; what was done to the object meanwhile comes before (E3).
        self.slot.word.store(self.before, Ordering::Release);
    }
}
