//! Slots that contain pins, and the lists of free ones. The parent module has invariants and edges.

use std::mem::MaybeUninit;
use std::ptr;

use pagewell_sync::atomic::{AtomicU64, Ordering};

use crate::handles::cell::{AtomicPtr, UnsafeCell};

const STATES: u64 = 4;
const LIVE: u64 = 1;
const ENDING: u64 = 2;

#[repr(align(64))]
pub(crate) struct Slot<P: 'static> {
    serial: AtomicU64,
    file: AtomicU64,
    pinned: UnsafeCell<MaybeUninit<P>>,
    next: AtomicPtr<Slot<P>>,
    owner: u32,
    number: u32,
}

// SAFETY: one thread at a time accesses the pin (I1), and the pin may be sent.
unsafe impl<P: Send> Sync for Slot<P> {}

impl<P> Slot<P> {
    /// Creates a free slot. Numbers are counted from 1.
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

    #[inline(always)]
    pub(crate) fn owner(&self) -> usize {
        self.owner as usize
    }

    #[cfg(not(loom))]
    #[inline(always)]
    pub(crate) fn file(&self) -> u64 {
        // ORDERING: Relaxed; the caller has the pin from the thread that stored the handle. If the
        // serial differs, the value only selects which error is returned.
        self.file.load(Ordering::Relaxed)
    }

    /// Stores a pin, and makes the slot live. Returns the slot's number and serial for the program.
    ///
    /// # Safety
    ///
    /// (a) The slot is free, and this thread has taken it off a list.
    #[inline(always)]
    pub(crate) unsafe fn fill(&self, file: u64, pinned: P) -> [u64; 2] {
        self.pinned.with_mut(|cell| {
            // SAFETY: (a); so no other thread accesses the cell (I1).
            unsafe { (*cell).write(pinned) };
        });
        // ORDERING: Release, E2: a closing thread that loads it has seen the earlier pin's end.
        self.file.store(file, Ordering::Release);
        // ORDERING: Relaxed; no other thread stores the serial while the slot is free.
        let serial = self.serial.load(Ordering::Relaxed) + LIVE;
        // ORDERING: Release, E1.
        self.serial.store(serial, Ordering::Release);
        [self.number.into(), serial]
    }

    /// Ends the pin with this serial by a call of `end`. The serial may be arbitrary. Returns
    /// whether the pin existed: if so, the slot is free, and the caller must put it on a list.
    #[inline(always)]
    pub(crate) fn empty(&self, serial: u64, end: impl FnOnce(P)) -> bool {
        if serial % STATES != LIVE {
            return false;
        }
        let ending = serial - LIVE + ENDING;
        // ORDERING: Acquire, E1. Relaxed on failure: there is no pin to access.
        let swapped =
            self.serial
                .compare_exchange(serial, ending, Ordering::Acquire, Ordering::Relaxed);
        if swapped.is_err() {
            return false;
        }
        let pinned = self.pinned.with_mut(|cell| {
            // SAFETY: the slot was live, so it contains a pin. Only this thread accesses it (I1).
            let cell = unsafe { &mut *cell };
            // SAFETY: as above; no thread reads the pin again.
            unsafe { cell.assume_init_read() }
        });
        end(pinned);
        // ORDERING: Release, E2.
        self.serial.store(serial - LIVE + STATES, Ordering::Release);
        true
    }

    /// Returns `true` if the slot has a pin of `file`. No call with this handle may be in progress.
    pub(crate) fn is_of(&self, file: u64) -> bool {
        // ORDERING: Acquire, E1 and E2.
        let state = self.serial.load(Ordering::Acquire) % STATES;
        // ORDERING: Acquire, E2: the slot may contain a pin of another file by now.
        state != 0 && self.file.load(Ordering::Acquire) == file
    }
}

/// Two lists of free slots, owned by one thread (I2). Other threads may only call `give`.
pub(crate) struct Lists<P: 'static> {
    mine: AtomicPtr<Slot<P>>,
    from_others: AtomicPtr<Slot<P>>,
}

#[inline(always)]
fn at<P>(slot: *mut Slot<P>) -> Option<&'static Slot<P>> {
    // SAFETY: lists contain addresses of slots that are never freed, and null at their ends.
    unsafe { slot.as_ref() }
}

/// Only the slot's atomics and its cell are written through this address.
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

    #[inline(always)]
    pub(crate) fn first(&self) -> Option<&'static Slot<P>> {
        // ORDERING: Relaxed; only this thread accesses the list (I2).
        at(self.mine.load(Ordering::Relaxed))
    }

    /// Takes `first`, the first slot, off the first list.
    #[inline(always)]
    pub(crate) fn take_off(&self, first: &'static Slot<P>) {
        // ORDERING: Relaxed, both; only this thread accesses them (I2).
        self.mine
            .store(first.next.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn put(&self, slot: &'static Slot<P>) {
        // ORDERING: Relaxed, all; only this thread accesses them (I2).
        slot.next
            .store(self.mine.load(Ordering::Relaxed), Ordering::Relaxed);
        self.mine.store(address(slot), Ordering::Relaxed);
    }

    #[inline(never)]
    pub(crate) fn give(&self, slot: &'static Slot<P>) {
        // ORDERING: Relaxed; the swap fails if the value has changed.
        let mut first = self.from_others.load(Ordering::Relaxed);
        loop {
            // ORDERING: Relaxed; the swap publishes it.
            slot.next.store(first, Ordering::Relaxed);
            // ORDERING: Release: pairs with the owner's swap, which then sees the store of `next`
            // and all earlier accesses. Retried only if another thread has put a slot there.
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

    /// Moves the second list to the first, which must be empty. Returns whether there are slots.
    pub(crate) fn take_over(&self) -> bool {
        // ORDERING: Acquire; pairs with the releases that put the slots on the list:
        // read-modify-writes that continue the earlier release sequences.
        let given_back = self.from_others.swap(ptr::null_mut(), Ordering::Acquire);
        // ORDERING: Relaxed; only this thread accesses the list (I2).
        self.mine.store(given_back, Ordering::Relaxed);
        !given_back.is_null()
    }
}
