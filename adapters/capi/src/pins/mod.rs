//! Pins: pages that C programs read in place.
//!
//! - Owns: `pw_page`, the slots that contain pins.
//! - Calls: `error`, `handles`.
//! - Promises: a pin is released once; a release without a live pin is an error. A handle with
//!   pinned pages is not closed.
//!
//! # Concepts
//!
//! A pin is stored in a *slot*, which is never freed; the program has the slot's number and its
//! *serial*, which does not repeat. A thread takes slots from a list of its own, so storing a pin
//! writes no memory that other threads write, except when they return slots. Any thread may release
//! a pin, by a compare-and-swap of the serial; the slot returns to its owner's second list.
//!
//! # Invariants
//!
//! - I1. A slot's serial ends with its state: free (0), live (1), ending (2). Only the thread that
//!   took the slot makes it live, and only the one that swapped live for ending accesses the pin.
//! - I2. A thread owns two lists, selected by the number of its hazard slot. A mutex orders the use
//!   of a hazard slot by one thread and by the next. Threads without a hazard slot share two lists,
//!   whose owner is the holder of a mutex. Only the owner accesses the first list, and takes slots
//!   from it. Other threads push single slots to the second list, and the owner takes it as a
//!   whole, so ABA does no harm. A child of `fork` has a mutex of its own, and inherits the lists.
//!   They are consistent, since each change is one store. The child cannot use the slots that other
//!   threads of the parent were taking or returning, or have on their lists: the hazard slots of
//!   these threads are not assigned again.
//!
//! # Ordering edges
//!
//! - E1. The thread that makes a pin stores the pin and its file, and then the live serial
//!   (release). The thread that ends the pin swaps the serial (acquire), and a thread that closes
//!   the file loads it (acquire), so both see the pin and its file.
//! - E2. A free serial is stored (release) after the drop of the pin: a closing thread that sees it
//!   (acquire) may close the file. The same holds if the slot already has a pin of another file:
//!   the store of that file's handle is a release, too, and comes after the end of the earlier pin.
//!   So a closing thread that loads that handle (acquire) has seen this end.
//! - E3. A closing thread checks the slots after it has found no call in progress with the file. So
//!   it sees the pins of earlier calls: the release that ends a call follows the serial's store.
//!
//! Verified by the models in `models`, which reject the mutants `pin-slot-*` of
//! `verify/mutants/capi.mutants`. The command is that of the models of `handles`.

mod slots;

use std::ffi::c_void;
use std::ptr;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use library::{OwnedPageGuard, PageGuard};
use pagewell_sync::shard::Padded;

use crate::error::pw_error::*;
use crate::error::{Failure, Result};
use crate::handles::{Kind, Line, NR_LINES, PerProcess, check_process, own_line};

/// Pinned page: ::pw_pin. All copies of the structure denote the same pin.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct pw_page {
    /// The page's bytes, which do not change until the page is unpinned. Null afterwards.
    pub data: *const c_void,
    /// Number of bytes: the page size, or less in the last page of the file.
    pub size: usize,
    /// Number of the page.
    pub page: u64,
    /// Internal: identifies the pin.
    pub opaque: [u64; 2],
}

impl pw_page {
    pub(crate) const NONE: Self = Self {
        data: ptr::null(),
        size: 0,
        page: 0,
        opaque: [0; 2],
    };
}

pub(crate) enum Pinned {
    /// Borrows from the file whose handle the slot contains.
    OfFile(PageGuard<'static>),
    /// Guard from an asynchronous request, boxed so that a slot is one cache line.
    Owned(Box<OwnedPageGuard>),
}

type Slot = slots::Slot<Pinned>;
type Lists = slots::Lists<Pinned>;

const _: () = assert!(size_of::<Slot>() == 64);

const CHUNK: usize = 64;
const NR_CHUNKS: usize = 1 << 14;
type Chunk = [Slot; CHUNK];

static CHUNKS: [AtomicPtr<Chunk>; NR_CHUNKS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; NR_CHUNKS];
/// Number of chunks that were allocated, or are about to be.
static NR_USED_CHUNKS: AtomicUsize = AtomicUsize::new(0);

const NR_THREADS: usize = NR_LINES;
/// Lists of free pin slots: two for each thread, by the number of its hazard slot, and at the last
/// index two for all threads without a hazard slot (I2).
static LISTS: [Padded<Lists>; NR_THREADS + 1] = [const { Padded(Lists::new()) }; NR_THREADS + 1];
static OF_NOBODY: PerProcess<()> = PerProcess::new();

/// Returns the index in `LISTS` of this thread's lists, and the guard if they are the shared ones.
#[inline(always)]
fn own_lists() -> (usize, Option<MutexGuard<'static, ()>>) {
    match own_line() {
        Some(line) => (line.number(), None),
        None => (NR_THREADS, Some(OF_NOBODY.lock(|| ()))),
    }
}

/// Returns the slot with `number`, which may be arbitrary, since programs pass it.
#[inline(always)]
fn slot(number: u64) -> Option<&'static Slot> {
    let index = usize::try_from(number.wrapping_sub(1)).ok()?;
    // ORDERING: Acquire; pairs with the release in `refill`, after the initialization of the slots.
    let chunk = CHUNKS.get(index / CHUNK)?.load(Ordering::Acquire);
    // SAFETY: null, or a chunk, which is never freed.
    let chunk = unsafe { chunk.as_ref() }?;
    Some(&chunk[index % CHUNK])
}

fn claim() -> Result<&'static Slot> {
    let (number, _guard) = own_lists();
    let lists = &LISTS[number].0;
    if lists.first().is_none() && !lists.take_over() {
        refill(lists, number)?;
    }
    let slot = lists.first().ok_or(Failure::Outcome(PW_ERROR_LIMIT))?;
    lists.take_off(slot);
    Ok(slot)
}

/// Puts a new chunk on this thread's first list, which is empty.
#[cold]
#[inline(never)]
fn refill(lists: &Lists, owner: usize) -> Result<()> {
    // ORDERING: Relaxed, both; the number publishes nothing, and only this thread gets it.
    let number = NR_USED_CHUNKS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |nr_used| {
        (nr_used < NR_CHUNKS).then_some(nr_used + 1)
    });
    let Ok(number) = number else {
        return Err(Failure::Ours(
            PW_ERROR_LIMIT,
            format!("all {} slots for pins are allocated", NR_CHUNKS * CHUNK).into(),
        ));
    };
    let base = number * CHUNK;
    let chunk: &'static Chunk = Box::leak(Box::new(std::array::from_fn(|at| {
        Slot::new(owner, base + at + 1)
    })));
    // ORDERING: Release; publishes the initialized slots.
    CHUNKS[number].store(ptr::from_ref(chunk).cast_mut(), Ordering::Release);
    for slot in chunk.iter().rev() {
        lists.put(slot);
    }
    Ok(())
}

#[inline(always)]
fn give_back(slot: &'static Slot) {
    let owner = slot.owner();
    let lists = &LISTS[owner].0;
    if own_line().is_some_and(|line| line.number() == owner) {
        lists.put(slot);
    } else {
        lists.give(slot);
    }
}

/// # Safety
///
/// (a) If the pin borrows, it borrows from the file with handle `file`, in a call with this handle.
pub(crate) unsafe fn keep(file: u64, page: u64, pinned: Pinned) -> Result<pw_page> {
    let slot = claim()?;
    let bytes: &[u8] = match &pinned {
        Pinned::OfFile(guard) => guard,
        Pinned::Owned(guard) => guard,
    };
    let (data, size) = (bytes.as_ptr().cast(), bytes.len());
    // SAFETY: (a) the slot was claimed just now.
    let opaque = unsafe { slot.fill(file, pinned) };
    Ok(pw_page {
        data,
        size,
        page,
        opaque,
    })
}

/// As [`keep`], but moves the pin only once: a wide load of bytes that narrower stores have just
/// written stalls the processor (failed store forwarding). Calls `pin` only if the list has a slot.
///
/// # Safety
///
/// (a) As [`keep`]. (b) `line` is this thread's.
#[inline(always)]
pub(crate) unsafe fn keep_shortly(
    line: &Line,
    file: u64,
    page: u64,
    pin: impl FnOnce() -> Option<PageGuard<'static>>,
) -> Option<pw_page> {
    // By (b) the list is this thread's.
    let lists = &LISTS.get(line.number())?.0;
    let slot = lists.first()?;
    let guard = pin()?;
    let (data, size) = (guard.as_ptr().cast(), guard.len());
    lists.take_off(slot);
    // SAFETY: (a) the slot was taken off the list.
    let opaque = unsafe { slot.fill(file, Pinned::OfFile(guard)) };
    Some(pw_page {
        data,
        size,
        page,
        opaque,
    })
}

/// Ends a pin. Fails if there is none, or an ancestor of this process created the file's handle.
#[inline(always)]
pub(crate) fn end<F: Kind>(page: &mut pw_page) -> Result<()> {
    let [number, serial] = page.opaque;
    let none = || {
        Failure::Ours(
            PW_ERROR_HANDLE,
            "the page was already unpinned, or never pinned".into(),
        )
    };
    let slot = slot(number).ok_or_else(none)?;
    // While the slot has a pin, the handle of its file is not closed.
    check_process::<F>(|| slot.file())?;
    // The file that a pin borrows from is open, since a closing thread finds this slot.
    let ended = slot.empty(serial, |pinned| match pinned {
        Pinned::OfFile(guard) => drop(guard),
        Pinned::Owned(guard) => drop_owned(guard),
    });
    if !ended {
        return Err(none());
    }
    give_back(slot);
    *page = pw_page::NONE;
    Ok(())
}

/// Not inlined, so that callers inline only the drop of the frequent `OfFile`.
#[inline(never)]
fn drop_owned(guard: Box<OwnedPageGuard>) {
    drop(guard);
}

/// Returns `true` if a page is pinned through the handle `file`. No call with it is in progress.
pub(crate) fn is_pinned(file: u64) -> bool {
    // ORDERING: Relaxed; the increments for all pins that this thread must find happen before (E3).
    let nr_used = NR_USED_CHUNKS.load(Ordering::Relaxed);
    (1..=(nr_used * CHUNK) as u64)
        .filter_map(slot)
        .any(|slot| slot.is_of(file))
}
const fn may_be_sent<T: Send>() {}
const _: () = may_be_sent::<Pinned>();
