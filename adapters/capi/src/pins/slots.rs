//! Slots that pins are kept in, and the lists that free ones are on. The module's text has the protocol.

use std::mem::MaybeUninit;
use std::ptr;

use pagewell_sync::atomic::{AtomicU64, Ordering};

use crate::handles::cell::{AtomicPtr, UnsafeCell};

const STATES: u64 = 4;
const LIVE: u64 = 1;
const ENDING: u64 = 2;

/// A slot for a `P`. It is never given back to an allocator.
#[repr(align(64))]
pub(crate) struct Slot<P: 'static> {
    serial: AtomicU64,
    /// The handle of the file.
    file: AtomicU64,
    pinned: UnsafeCell<MaybeUninit<P>>,
    /// On a list: the next one, or none.
    next: AtomicPtr<Slot<P>>,
    /// Whose list it is of.
    owner: u32,
    number: u32,
}

// SAFETY: the pin is touched by one thread at a time (I1), and may be sent.
unsafe impl<P: Send> Sync for Slot<P> {}

impl<P> Slot<P> {
    /// A free one, of a thread's lists; numbers are counted from 1.
    pub(crate) fn new(owner: usize, number: usize) -> Self {
        Self {
            serial: AtomicU64::new(0),
            file: AtomicU64::new(0),
            pinned: UnsafeCell::new(MaybeUninit::uninit()),
            next: AtomicPtr::new(ptr::null_mut()),
            owner: owner as u32,
            number: number as u32,
        }
    }

    /// Whose list it is of.
    #[inline(always)]
    pub(crate) fn owner(&self) -> usize {
        self.owner as usize
    }

    /// Makes a slot a live one, with this pin, of the file with this handle. What the program knows it by: its number, and its serial.
    ///
    /// # Safety
    ///
    /// (a) The slot is free, and this thread has taken it off a list.
    #[inline(always)]
    pub(crate) unsafe fn fill(&self, file: u64, pinned: P) -> [u64; 2] {
        self.pinned.with_mut(|cell| {
            // SAFETY: (a); so nobody else touches the cell (I1).
            unsafe { (*cell).write(pinned) };
        });
        // ORDERING: Release, E2: who closes the file that the slot was live for before, and finds this one in its place, has seen the end of that pin.
        self.file.store(file, Ordering::Release);
        // ORDERING: Relaxed; nobody else stores it while the slot is free.
        let serial = self.serial.load(Ordering::Relaxed) + LIVE;
        // ORDERING: Release, E1.
        self.serial.store(serial, Ordering::Release);
        [self.number.into(), serial]
    }

    /// Ends the pin with this serial, which may be any number, by `end`; whether there was one. The slot is free then, and goes back to a list.
    #[inline(always)]
    pub(crate) fn empty(&self, serial: u64, end: impl FnOnce(P)) -> bool {
        if serial % STATES != LIVE {
            return false;
        }
        let ending = serial - LIVE + ENDING;
        // ORDERING: Acquire, E1. A failure orders nothing.
        let swapped =
            self.serial
                .compare_exchange(serial, ending, Ordering::Acquire, Ordering::Relaxed);
        if swapped.is_err() {
            return false;
        }
        let pinned = self.pinned.with_mut(|cell| {
            // SAFETY: it was live, so there is a pin; and this thread has ended it (I1): the cell is its own.
            let cell = unsafe { &mut *cell };
            // SAFETY: as above; nobody reads it again.
            unsafe { cell.assume_init_read() }
        });
        end(pinned);
        // ORDERING: Release, E2.
        self.serial.store(serial - LIVE + STATES, Ordering::Release);
        true
    }

    /// Whether it has a pin of the file with this handle, with which no call is under way.
    pub(crate) fn is_of(&self, file: u64) -> bool {
        // ORDERING: Acquire, E1 and E2.
        let state = self.serial.load(Ordering::Acquire) % STATES;
        // ORDERING: Acquire, E2: it may be another file by now.
        state != 0 && self.file.load(Ordering::Acquire) == file
    }
}

/// The lists of a thread: its own, and one for slots that others give back.
pub(crate) struct Lists<P: 'static> {
    mine: AtomicPtr<Slot<P>>,
    from_others: AtomicPtr<Slot<P>>,
}

/// The slot at the begin of a list, or none.
#[inline(always)]
fn at<P>(slot: *mut Slot<P>) -> Option<&'static Slot<P>> {
    // SAFETY: lists have addresses of slots that live for ever, or null at their ends.
    unsafe { slot.as_ref() }
}

/// A slot as lists have it: nothing but its atomics and its cell is written to through that.
#[inline(always)]
fn address<P>(slot: &'static Slot<P>) -> *mut Slot<P> {
    ptr::from_ref(slot).cast_mut()
}

impl<P> Lists<P> {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self {
            mine: AtomicPtr::new(ptr::null_mut()),
            from_others: AtomicPtr::new(ptr::null_mut()),
        }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self {
            mine: AtomicPtr::new(ptr::null_mut()),
            from_others: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The first slot of the first list, by the thread whose lists they are.
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<&'static Slot<P>> {
        // ORDERING: Relaxed; this thread's alone (I2).
        at(self.mine.load(Ordering::Relaxed))
    }

    /// Takes the first slot, which is this, off the first list, by the thread whose lists they are.
    #[inline(always)]
    pub(crate) fn take_off(&self, first: &'static Slot<P>) {
        // ORDERING: Relaxed, both; this thread's alone (I2).
        self.mine
            .store(first.next.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Puts a free slot on the first list, by the thread whose lists they are.
    #[inline(always)]
    pub(crate) fn put(&self, slot: &'static Slot<P>) {
        // ORDERING: Relaxed, all; this thread's alone (I2).
        slot.next
            .store(self.mine.load(Ordering::Relaxed), Ordering::Relaxed);
        self.mine.store(address(slot), Ordering::Relaxed);
    }

    /// Puts a free slot on the second list, by any thread.
    #[inline(never)]
    pub(crate) fn give(&self, slot: &'static Slot<P>) {
        // ORDERING: Relaxed; the swap says whether it is still so.
        let mut first = self.from_others.load(Ordering::Relaxed);
        loop {
            // ORDERING: Relaxed; the swap publishes it.
            slot.next.store(first, Ordering::Relaxed);
            // ORDERING: Release: the owner's swap acquires `next`, and what was done with the slot. Tried again only when somebody else has put one there.
            match self.from_others.compare_exchange_weak(
                first,
                address(slot),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => first = now,
            }
        }
    }

    /// Makes the second list the first one, which is empty, by the thread whose lists they are; whether it has any slot.
    pub(crate) fn take_over(&self) -> bool {
        // ORDERING: Acquire; the slots were put there by releases, each of which goes on in the next (a sequence of swaps).
        let given_back = self.from_others.swap(ptr::null_mut(), Ordering::Acquire);
        // ORDERING: Relaxed; this thread's alone (I2).
        self.mine.store(given_back, Ordering::Relaxed);
        !given_back.is_null()
    }
}
