//! Hazard slots (`Line`), one per thread until the thread ends, in which threads publish their
//! calls. A thread counts its calls if it is ending, no slot is free, or the system lacks
//! `membarrier(2)`.

// `std`'s atomic even in models: it is accessed under a lock.
use std::sync::atomic::AtomicUsize;

use pagewell_sync::asymmetric::{Fences, Refused};
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::shard::Padded;
use pagewell_sync::thread::Backoff;

use super::per_process::PerProcess;

/// Maximum number of times that a closing thread reloads a hazard slot that contains the handle. A
/// call that only reads cached pages normally ends earlier.
const PATIENCE: u32 = if cfg!(loom) { 1 } else { 20 };

/// Light fence, paired with the closing thread's `membarrier(2)`.
#[inline(always)]
fn light() {
    // ORDERING: keeps the compiler from moving the store to the hazard slot behind the load of the
    // word; the heavy fence keeps them in order in the processor (E1).
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    // ORDERING: SeqCst, E1; in models, the heavy fence is a SeqCst fence, too.
    #[cfg(loom)]
    pagewell_sync::atomic::fence(Ordering::SeqCst);
}

pub(crate) struct Line {
    /// Handle of the call that the thread is in, or 0.
    handle: AtomicU64,
    number: AtomicU64,
}

impl Line {
    #[inline(always)]
    pub(crate) fn number(&self) -> usize {
        // ORDERING: Relaxed; the thread of the hazard slot has stored it.
        self.number.load(Ordering::Relaxed) as usize
    }
}

/// Numbers of the hazard slots that were returned, and the lowest number that was never assigned. A
/// child of `fork` cannot assign the slots that are in its parent's list or belong to other threads
/// of its parent, so it may run out of slots.
struct Numbers {
    free: PerProcess<Vec<usize>>,
    /// Stored under the lock of `free`. A child inherits the value.
    next: AtomicUsize,
}

pub(super) struct Lines<const N: usize> {
    lines: [Padded<Line>; N],
    numbers: Numbers,
}

impl<const N: usize> Lines<N> {
    #[cfg(not(loom))]
    pub(super) const fn new() -> Self {
        Self {
            lines: [const {
                Padded(Line {
                    handle: AtomicU64::new(0),
                    number: AtomicU64::new(0),
                })
            }; N],
            numbers: Numbers {
                free: PerProcess::new(),
                next: AtomicUsize::new(0),
            },
        }
    }

    #[cfg(loom)]
    pub(super) fn new() -> Self {
        Self {
            lines: std::array::from_fn(|_| {
                Padded(Line {
                    handle: AtomicU64::new(0),
                    number: AtomicU64::new(0),
                })
            }),
            numbers: Numbers {
                free: PerProcess::new(),
                next: AtomicUsize::new(0),
            },
        }
    }

    /// Assigns a hazard slot to a thread, unless all are in use.
    pub(super) fn lend(&self) -> Option<&Line> {
        let mut free = self.numbers.free.lock(Vec::new);
        // ORDERING: Relaxed, also of the store below; both are under the lock.
        let next = self.numbers.next.load(Ordering::Relaxed);
        let number = match free.pop() {
            Some(number) => number,
            None if next < N => {
                self.numbers.next.store(next + 1, Ordering::Relaxed);
                next
            }
            None => return None,
        };
        drop(free);
        let line = &self.lines[number].0;
        // ORDERING: Relaxed; the mutex orders the store after the accesses of the previous thread.
        line.number.store(number as u64, Ordering::Relaxed);
        Some(line)
    }

    /// Frees the hazard slot of a thread that is in no call.
    pub(super) fn take_back(&self, line: &Line) {
        let number = line.number();
        self.numbers.free.lock(Vec::new).push(number);
    }

    /// Steps c and d: returns whether a call with `handle`, which is being closed, is published.
    pub(super) fn is_announced(&self, handle: u64, fences: Fences) -> Result<bool, Refused> {
        fences.heavy()?;
        // A thread that gets a never-used hazard slot afterwards acquires the mutex after this
        // thread, and so sees the changed word.
        let free = self.numbers.free.lock(Vec::new);
        // ORDERING: Relaxed; under the lock.
        let nr = self.numbers.next.load(Ordering::Relaxed);
        drop(free);
        for Padded(line) in &self.lines[..nr] {
            let mut backoff = Backoff::new();
            // ORDERING: Acquire, E2, also if the next call's handle has replaced the handle.
            while line.handle.load(Ordering::Acquire) == handle {
                if backoff.rounds() >= PATIENCE {
                    return Ok(true);
                }
                backoff.wait();
            }
        }
        Ok(false)
    }
}

/// Published call: its hazard slot contains the handle.
pub(super) struct Announced<'l> {
    line: &'l Line,
    handle: u64,
}

impl<'l> Announced<'l> {
    /// Steps 1 and 2, by the slot's thread. Returns `None` if the thread is already in a call: the
    /// new call must then be counted.
    #[inline(always)]
    pub(super) fn begin(line: &'l Line, handle: u64) -> Option<Self> {
        // ORDERING: Relaxed; only this thread stores to its hazard slot.
        if line.handle.load(Ordering::Relaxed) != 0 {
            return None;
        }
        // ORDERING: Release, E2: a thread that closes the handle of an earlier call may load this
        // handle instead of that call's zero. The fence ensures E1.
        line.handle.store(handle, Ordering::Release);
        light();
        Some(Self { line, handle })
    }

    #[inline(always)]
    pub(super) fn handle(&self) -> u64 {
        self.handle
    }
}

impl Drop for Announced<'_> {
    /// Step 5.
    #[inline(always)]
    fn drop(&mut self) {
        // ORDERING: Release, E2.
        self.line.handle.store(0, Ordering::Release);
    }
}
