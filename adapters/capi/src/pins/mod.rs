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
//!
//! Proved by: the models in `models`, one for each race (`cd models && cargo test --profile loom -p pagewell-capi-handles`, from the root of the repository), and the mutants
//! `pin-slot-*` of `verify/mutants/capi.mutants`, which they reject.

mod slots;

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
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
    /// In memory of its own, so that a slot is a line: these are pins of requests, which allocate anyhow.
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
static NR_USED_CHUNKS: Mutex<usize> = Mutex::new(0);

const NR_THREADS: usize = NR_LINES;
/// A thread's, by the number of its line; and those of threads without one.
static LISTS: [Padded<Lists>; NR_THREADS + 1] = [const { Padded(Lists::new()) }; NR_THREADS + 1];
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

/// Takes a free slot of this thread's.
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

/// Fills the lists of this thread, which are empty, with a new chunk.
#[cold]
#[inline(never)]
fn refill(lists: &Lists, owner: usize) -> Result<()> {
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
    let chunk: &'static Chunk = Box::leak(Box::new(std::array::from_fn(|at| {
        Slot::new(owner, base + at + 1)
    })));
    // ORDERING: Release; the slots are made.
    place.store(ptr::from_ref(chunk).cast_mut(), Ordering::Release);
    *nr_used += 1;
    for slot in chunk.iter().rev() {
        lists.put(slot);
    }
    Ok(())
}

/// Puts a free slot on its owner's list.
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
    // SAFETY: (a) it was claimed just now.
    let opaque = unsafe { slot.fill(file, pinned) };
    Ok(pw_page {
        data,
        size,
        page,
        opaque,
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
    let slot = lists.first()?;
    let guard = pin()?;
    let (data, size) = (guard.as_ptr().cast(), guard.len());
    lists.take_off(slot);
    // SAFETY: (a) it was taken off the list.
    let opaque = unsafe { slot.fill(file, Pinned::OfFile(guard)) };
    Some(pw_page {
        data,
        size,
        page,
        opaque,
    })
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
    let slot = slot(number).ok_or_else(none)?;
    // The file that a pin borrows from is open, since its closer finds this slot.
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

/// Apart, so that the other kind is dropped in line.
#[inline(never)]
fn drop_owned(guard: Box<OwnedPageGuard>) {
    drop(guard);
}

/// Whether pages are pinned by this handle of a file, with which no call is under way.
pub(crate) fn is_pinned(file: u64) -> bool {
    let nr_used = *NR_USED_CHUNKS
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    (1..=(nr_used * CHUNK) as u64)
        .filter_map(slot)
        .any(|slot| slot.is_of(file))
}
// Any thread may give a pin back.
const fn may_be_sent<T: Send>() {}
const _: () = may_be_sent::<Pinned>();
