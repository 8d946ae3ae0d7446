//! Identity of the process that created a value, which none of its forks has.
//!
//! A child made by `fork` has a copy of the memory, and shares the open files. Changes that other
//! threads had begun stay incomplete in it: locks stay held, and transfers do not end. So a value
//! with threads, locks or files checks that the running process created it: [`ProcessId`].
//!
//! A check loads a word in a page that the kernel zeroes in a child, so it also detects a
//! grandchild with the process id of the creator. If the kernel cannot zero the page, a check
//! compares process ids, by a system call.

#![allow(unsafe_code)] // Maps and unmaps memory.

use std::process;
use std::ptr::NonNull;
// `std`'s atomics even in models, which do not fork.
use std::sync::atomic::{AtomicU64, Ordering};

use crate::raced::Raced;
use crate::system;

/// Identity of a process. None of its forks has the same one, whatever their process ids are, if
/// the kernel zeroes the page.
#[derive(Clone, Copy, Debug)]
pub struct ProcessId {
    /// The word with the number of the running process. `None` if the kernel could not zero it at
    /// its first use in this process.
    running: Option<&'static AtomicU64>,
    number: u64,
    id: u32,
}

impl ProcessId {
    /// Returns the identity of the running process.
    #[must_use]
    pub fn current() -> Self {
        Self {
            number: number(),
            running: running(),
            id: process::id(),
        }
    }

    /// Returns `true` in this process, and `false` in its forks.
    #[inline]
    #[must_use]
    pub fn is_current(&self) -> bool {
        match self.running {
            // ORDERING: Relaxed; the process stored the number before it created this value. In a
            // child, the word never has a number that a parent stored.
            Some(running) => running.load(Ordering::Relaxed) == self.number,
            None => process::id() == self.id,
        }
    }

    /// Returns the number that the system gives this process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }
}

/// Number of the running process. Zero in a child until the child calls [`number`].
static RUNNING: Raced<Option<WipedPage>> = Raced::new();

/// Largest assigned number. A child inherits it, so it never assigns a number of its ancestors.
static LAST: AtomicU64 = AtomicU64::new(0);

const FIRST: u64 = 1;

#[inline]
fn running() -> Option<&'static AtomicU64> {
    RUNNING
        .get_or_make(WipedPage::new)
        .as_ref()
        .map(WipedPage::word)
}

/// Returns the number of the running process, which differs from each number that an ancestor had
/// at the fork. If the kernel cannot zero memory in a child: the process id, which may be that of
/// an ancestor that has ended.
#[inline]
#[must_use]
pub fn number() -> u64 {
    let Some(running) = running() else {
        return process::id().into();
    };
    // ORDERING: Relaxed; the number publishes no other memory.
    match running.load(Ordering::Relaxed) {
        0 => assign(running),
        number => number,
    }
}

#[cold]
fn assign(running: &AtomicU64) -> u64 {
    // Threads that assign concurrently may propose different numbers; the compare-and-swap decides.
    // ORDERING: Relaxed, both; the fork orders them before the accesses of a child.
    let new = LAST.load(Ordering::Relaxed) + 1;
    LAST.fetch_max(new, Ordering::Relaxed);
    // ORDERING: Release, after the store to `LAST`: a child that inherits this number also inherits
    // a `LAST` that is at least as large. Relaxed on failure, as the load above.
    match running.compare_exchange(0, new, Ordering::Release, Ordering::Relaxed) {
        Ok(_) => new,
        Err(number) => number,
    }
}

/// Returns `true` only if no process that this one was forked from has called [`number`]. May be
/// `false` in the first process.
#[inline(always)]
#[must_use]
pub fn is_first() -> bool {
    match RUNNING.get() {
        // ORDERING: Relaxed, as in `number`.
        Some(Some(running)) => running.word().load(Ordering::Relaxed) == FIRST,
        _ => false,
    }
}

/// A page of memory that the kernel zeroes in a forked child.
#[derive(Debug)]
struct WipedPage {
    start: NonNull<AtomicU64>,
    bytes: usize,
}

// SAFETY: the value owns its mapping, in which only an atomic is used.
unsafe impl Send for WipedPage {}
// SAFETY: as above.
unsafe impl Sync for WipedPage {}

impl WipedPage {
    /// Maps a page of zeros. Returns `None` without memory or `MADV_WIPEONFORK`.
    fn new() -> Option<Self> {
        let bytes = system::page_bytes()?;
        // SAFETY: a new private mapping, at an address of the kernel's choice, affects no other.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        let page = Self {
            start: NonNull::new(start.cast())?,
            bytes,
        };
        // SAFETY: the advice covers exactly this mapping, and affects only children.
        if unsafe { libc::madvise(start, bytes, libc::MADV_WIPEONFORK) } != 0 {
            return None;
        }
        // Some emulators accept and ignore any advice, so one that does not exist must be refused.
        // SAFETY: as above; no advice has the number -1.
        if unsafe { libc::madvise(start, bytes, -1) } == 0 {
            return None;
        }
        Some(page)
    }

    fn word(&self) -> &AtomicU64 {
        // SAFETY: the page is mapped until `self` is dropped, aligned, and zeroed by the kernel.
        unsafe { self.start.as_ref() }
    }
}

impl Drop for WipedPage {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` created, of whose word no borrow exists.
        let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Forks, and returns the exit status of the child that runs `child`.
    fn in_a_child(child: impl FnOnce() -> bool) -> i32 {
        // SAFETY: the child calls only what needs no lock, and ends without destructors.
        match unsafe { libc::fork() } {
            0 => {
                let status = i32::from(!child());
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(status) }
            }
            child => {
                let mut status = -1;
                // SAFETY: a child of this process, and a variable of this function.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                status
            }
        }
    }

    #[test]
    fn process_is_current_in_itself_and_in_no_fork() {
        let parent = ProcessId::current();
        assert!(parent.is_current());
        assert_eq!(parent.id(), process::id());
        assert!(ProcessId::current().is_current());
        assert_eq!(number(), number());
        let status = in_a_child(|| {
            let is_parent = parent.is_current();
            let was_first = is_first();
            let child = ProcessId::current();
            let is_child = child.is_current() && !was_first && !is_first();
            let in_grandchild = in_a_child(|| {
                let grandchild = ProcessId::current();
                grandchild.is_current() && !child.is_current() && !parent.is_current()
            });
            !is_parent && !parent.is_current() && is_child && in_grandchild == 0
        });
        assert_eq!(status, 0);
        assert!(parent.is_current());
    }

    #[test]
    fn process_ids_decide_where_the_kernel_zeroes_no_page() {
        let here = ProcessId {
            running: None,
            number: 0,
            id: process::id(),
        };
        assert!(here.is_current());
        assert_eq!(in_a_child(|| !here.is_current()), 0);
    }
}
