//! Pins: pages that C programs read where they are.
//!
//! - Owns: `pw_page`, the slots that pins are kept in.
//! - Calls: `error`, `handles`.
//! - Promises: a pin is given back once: a `pw_page` that was given back, or a copy of it, or any other bytes in its place, is an error. While a file has a
//!   pin its handle is not closed.
//!
//! # What
//!
//! A pin is kept in a *slot*, which is never given back to an allocator; the program has the slot's number and its *serial*, which does not repeat. Slots are taken
//! from a list of the thread's own, so a pin writes to no memory that threads share; and they may be given back by any thread, which puts another thread's slot on
//! that thread's second list. To give back is a compare-and-swap of the serial, so that of several tries one succeeds.
//!
//! # Invariants
//!
//! - I1. A slot's serial ends with its state: free (0), live (1), ending (2). Only its taker makes it live, and only who has swapped live for ending touches the pin.
//! - I2. The first list of a thread is that thread's alone, by the number of its line, which is handed on through a mutex; threads without a line have one under a mutex.
//!   The second list is pushed to, one slot at a time, and taken as a whole: so a slot that comes back meanwhile does no harm.
//!
//! # Ordering edges
//!
//! - E1. A live serial is stored (release) after the pin and its file. Who ends the pin acquires it by the swap, and a closer by a load.
//! - E2. A free serial is stored (release) after the pin was dropped: a closer that sees it (acquire) may close the file.
//!   A slot that is live for another file by then has that file's handle stored by a release, too: who finds it there (acquire) has seen the end of the pin before.
//! - E3. A closer looks here after it has found that no call with the file is under way: so it sees the pins that such calls have made (the line's store
//!   is a release, after the serial's).

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use library::{OwnedPageGuard, PageGuard};
use pagewell_sync::shard::Padded;

use crate::error::pw_error::*;
use crate::error::{Failure, Result};
use crate::handles::{Line, NR_LINES, is_forked, own_line};

/// A pinned page: ::pw_pin. Of the program's own memory, which it may copy and move; all copies are one and the same pin.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct pw_page {
    /// The page's bytes, which nobody changes until the page is unpinned. Null when it was.
    pub data: *const c_void,
    /// How many there are: the size of a page, or less in the last one of the file.
    pub size: usize,
    /// The number of the page.
    pub page: u64,
    /// Not for the program: which pin it is.
    pub opaque: [u64; 2],
}

impl pw_page {
    /// No pin.
    pub(crate) const NONE: Self = Self {
        data: ptr::null(),
        size: 0,
        page: 0,
        opaque: [0; 2],
    };
}

/// What keeps a page.
pub(crate) enum Pinned {
    /// It borrows from the file whose handle the slot has.
    OfFile(PageGuard<'static>),
    Owned(OwnedPageGuard),
}

const STATES: u64 = 4;
const LIVE: u64 = 1;
const ENDING: u64 = 2;

#[repr(align(64))]
struct Slot {
    serial: AtomicU64,
    /// The handle of the file.
    file: AtomicU64,
    pinned: UnsafeCell<MaybeUninit<Pinned>>,
    /// On a list: the next one, or none.
    next: AtomicPtr<Slot>,
    /// Whose list it is of.
    owner: u32,
    /// Its number, counted from 1.
    number: u32,
}

const _: () = assert!(size_of::<Slot>() == 64);

// SAFETY: the pin is touched by one thread at a time (I1), and may be sent.
unsafe impl Sync for Slot {}

const CHUNK: usize = 64;
const NR_CHUNKS: usize = 1 << 14;
type Chunk = [Slot; CHUNK];

static CHUNKS: [AtomicPtr<Chunk>; NR_CHUNKS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; NR_CHUNKS];
static NR_USED_CHUNKS: Mutex<usize> = Mutex::new(0);

/// The lists of a thread. Slots are never given back, so an address is that of a slot for ever.
struct Lists {
    mine: AtomicPtr<Slot>,
    from_others: AtomicPtr<Slot>,
}

const NR_THREADS: usize = NR_LINES;
static LISTS: [Padded<Lists>; NR_THREADS + 1] = [const {
    Padded(Lists {
        mine: AtomicPtr::new(ptr::null_mut()),
        from_others: AtomicPtr::new(ptr::null_mut()),
    })
}; NR_THREADS + 1];
/// For the last lists.
static OF_NOBODY: Mutex<()> = Mutex::new(());

/// The number of this thread's lists, and the right to use them.
#[inline(always)]
fn own_lists() -> (usize, Option<MutexGuard<'static, ()>>) {
    match own_line() {
        Some(line) => (line.number(), None),
        None => (
            NR_THREADS,
            Some(OF_NOBODY.lock().unwrap_or_else(PoisonError::into_inner)),
        ),
    }
}

/// The slot with a number from a list, or from a program, which may be any.
#[inline(always)]
fn slot(number: u64) -> Option<&'static Slot> {
    let index = usize::try_from(number.wrapping_sub(1)).ok()?;
    // ORDERING: Acquire; the chunk's slots were made before.
    let chunk = CHUNKS.get(index / CHUNK)?.load(Ordering::Acquire);
    // SAFETY: null, or a chunk, which is never given back.
    let chunk = unsafe { chunk.as_ref() }?;
    Some(&chunk[index % CHUNK])
}

/// The slot at the begin of a list, or none.
#[inline(always)]
fn at(slot: *mut Slot) -> Option<&'static Slot> {
    // SAFETY: lists have addresses of slots of chunks, which are never given back, or null at their ends.
    unsafe { slot.as_ref() }
}

/// Takes the first slot off a list that is this thread's.
#[inline(always)]
fn pop(lists: &Lists) -> Option<&'static Slot> {
    // ORDERING: Relaxed, all; this thread's alone (I2).
    let first = at(lists.mine.load(Ordering::Relaxed))?;
    lists
        .mine
        .store(first.next.load(Ordering::Relaxed), Ordering::Relaxed);
    Some(first)
}

/// Takes a free slot of this thread's.
fn claim() -> Result<&'static Slot> {
    let (number, _guard) = own_lists();
    let lists = &LISTS[number].0;
    if let Some(slot) = pop(lists) {
        return Ok(slot);
    }
    refill(number)?;
    pop(lists).ok_or(Failure::Outcome(PW_ERROR_LIMIT))
}

/// Fills a thread's list, which is empty: with the slots that others have given back, or else with a new chunk.
#[cold]
#[inline(never)]
fn refill(owner: usize) -> Result<()> {
    let lists = &LISTS[owner].0;
    // ORDERING: Acquire; the slots were put there by releases, each of which goes on in the next (a sequence of swaps).
    let given_back = lists.from_others.swap(ptr::null_mut(), Ordering::Acquire);
    if !given_back.is_null() {
        // ORDERING: Relaxed; this thread's alone (I2).
        lists.mine.store(given_back, Ordering::Relaxed);
        return Ok(());
    }
    let mut nr_used = NR_USED_CHUNKS
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let Some(place) = CHUNKS.get(*nr_used) else {
        return Err(Failure::Ours(
            PW_ERROR_LIMIT,
            format!("{} pins", NR_CHUNKS * CHUNK).into(),
        ));
    };
    let base = *nr_used * CHUNK;
    let chunk: &'static Chunk = Box::leak(Box::new(std::array::from_fn(|at| Slot {
        serial: AtomicU64::new(0),
        file: AtomicU64::new(0),
        pinned: UnsafeCell::new(MaybeUninit::uninit()),
        next: AtomicPtr::new(ptr::null_mut()),
        owner: owner as u32,
        number: (base + at + 1) as u32,
    })));
    for two in chunk.windows(2) {
        // ORDERING: Relaxed; this thread's alone so far.
        two[0].next.store(address(&two[1]), Ordering::Relaxed);
    }
    // ORDERING: Release; the slots are made.
    place.store(ptr::from_ref(chunk).cast_mut(), Ordering::Release);
    *nr_used += 1;
    // ORDERING: Relaxed; this thread's alone (I2).
    lists.mine.store(address(&chunk[0]), Ordering::Relaxed);
    Ok(())
}

/// A slot as lists have it: nothing but its atomics and its cell is written to through that.
#[inline(always)]
fn address(slot: &'static Slot) -> *mut Slot {
    ptr::from_ref(slot).cast_mut()
}

/// Puts a free slot on its owner's list.
#[inline(always)]
fn give_back(slot: &'static Slot) {
    let owner = slot.owner as usize;
    let lists = &LISTS[owner].0;
    if own_line().is_some_and(|line| line.number() == owner) {
        // ORDERING: Relaxed, all; this thread's alone (I2).
        slot.next
            .store(lists.mine.load(Ordering::Relaxed), Ordering::Relaxed);
        lists.mine.store(address(slot), Ordering::Relaxed);
    } else {
        give_to(lists, slot);
    }
}

/// Puts a free slot on the second list of another thread, or of those that have no line.
#[inline(never)]
fn give_to(lists: &Lists, slot: &'static Slot) {
    // ORDERING: Relaxed; the swap says whether it is still so.
    let mut first = lists.from_others.load(Ordering::Relaxed);
    loop {
        // ORDERING: Relaxed; the swap publishes it.
        slot.next.store(first, Ordering::Relaxed);
        // ORDERING: Release: the owner's swap acquires `next`, and what was done with the slot. Tried again only when somebody else has put one there.
        match lists.from_others.compare_exchange_weak(
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

/// Keeps a pin of page number `page`, made by the file with this handle; says how the program sees it.
///
/// # Safety
///
/// (a) A pin that borrows does so from the file of `file`, with which the caller is in a call.
pub(crate) unsafe fn keep(file: u64, page: u64, pinned: Pinned) -> Result<pw_page> {
    let slot = claim()?;
    let bytes: &[u8] = match &pinned {
        Pinned::OfFile(guard) => guard,
        Pinned::Owned(guard) => guard,
    };
    let (data, size) = (bytes.as_ptr().cast(), bytes.len());
    // SAFETY: the slot is free, and this thread has claimed it (I1).
    unsafe { (*slot.pinned.get()).write(pinned) };
    Ok(pw_page {
        data,
        size,
        page,
        opaque: slot.show(file),
    })
}

/// As [`keep`], of a pin that `pin` makes, for a thread whose list has a slot; none if it has not, or there is no such pin.
///
/// It moves the pin once: what is stored in parts and loaded as a whole, as by a move, the processor waits for.
///
/// # Safety
///
/// (a) The pin borrows from the file of `file`, with which the caller is in a call. (b) `line` is this thread's.
#[inline(always)]
pub(crate) unsafe fn keep_shortly(
    line: &Line,
    file: u64,
    page: u64,
    pin: impl FnOnce() -> Option<PageGuard<'static>>,
) -> Option<pw_page> {
    // By (b) the list is this thread's.
    let lists = &LISTS.get(line.number())?.0;
    // ORDERING: Relaxed; this thread's alone (I2).
    let slot = at(lists.mine.load(Ordering::Relaxed))?;
    let guard = pin()?;
    let (data, size) = (guard.as_ptr().cast(), guard.len());
    // ORDERING: Relaxed, both; as above.
    lists
        .mine
        .store(slot.next.load(Ordering::Relaxed), Ordering::Relaxed);
    // SAFETY: the slot was on this thread's list, so it is free, and this thread has taken it off (I1).
    unsafe { (*slot.pinned.get()).write(Pinned::OfFile(guard)) };
    Some(pw_page {
        data,
        size,
        page,
        opaque: slot.show(file),
    })
}

impl Slot {
    /// Makes the slot, which has a pin by now, a live one, of the file with this handle. What the program knows it by.
    #[inline(always)]
    fn show(&self, file: u64) -> [u64; 2] {
        // ORDERING: Release, E2: who closes the file that the slot was live for before, and finds this one in its place, has seen the end of that pin.
        self.file.store(file, Ordering::Release);
        // ORDERING: Relaxed; nobody else stores it while the slot is free.
        let serial = self.serial.load(Ordering::Relaxed) + LIVE;
        // ORDERING: Release, E1.
        self.serial.store(serial, Ordering::Release);
        [self.number.into(), serial]
    }
}

/// Ends a pin, if the program's words are those of one.
#[inline(always)]
pub(crate) fn end(page: &mut pw_page) -> Result<()> {
    let [number, serial] = page.opaque;
    if is_forked() {
        // What the pin is announced in belongs to the parent.
        return Err(Failure::Outcome(PW_ERROR_FORKED));
    }
    let none = || {
        Failure::Ours(
            PW_ERROR_HANDLE,
            "the page was unpinned already, or never was pinned".into(),
        )
    };
    let slot = slot(number)
        .filter(|_| serial % STATES == LIVE)
        .ok_or_else(none)?;
    // ORDERING: Acquire, E1. A failure orders nothing.
    let swapped = slot.serial.compare_exchange(
        serial,
        serial - LIVE + ENDING,
        Ordering::Acquire,
        Ordering::Relaxed,
    );
    if swapped.is_err() {
        return Err(none());
    }
    // SAFETY: it was live, so there is a pin; and this thread has ended it (I1).
    let cell = unsafe { &*slot.pinned.get() };
    // SAFETY: as above; nobody reads it again. The file that it borrows from is open, since its closer finds this slot.
    match unsafe { cell.assume_init_read() } {
        Pinned::OfFile(guard) => drop(guard),
        Pinned::Owned(guard) => drop_owned(guard),
    }
    // ORDERING: Release, E2.
    slot.serial.store(serial - LIVE + STATES, Ordering::Release);
    give_back(slot);
    *page = pw_page::NONE;
    Ok(())
}

/// Apart, so that the other kind is dropped in line.
#[inline(never)]
fn drop_owned(guard: OwnedPageGuard) {
    drop(guard);
}

/// Whether pages are pinned by this handle of a file, with which no call is under way.
pub(crate) fn is_pinned(file: u64) -> bool {
    let nr_used = *NR_USED_CHUNKS
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    (1..=(nr_used * CHUNK) as u64).filter_map(slot).any(|slot| {
        // ORDERING: Acquire, E1 and E2.
        let state = slot.serial.load(Ordering::Acquire) % STATES;
        // ORDERING: Acquire, E2: it may be another file by now.
        state != 0 && slot.file.load(Ordering::Acquire) == file
    })
}

// Any thread may give a pin back.
const fn may_be_sent<T: Send>() {}
const _: () = may_be_sent::<Pinned>();
