//! Which thread is in which call: a line a thread. The module's text has the protocol.
//!
//! A line is lent to a thread until that ends, and then to another one. A thread without a line counts: there are so many more, it is ending, or the system
//! has no `membarrier(2)`.

use std::sync::PoisonError;

use pagewell_sync::asymmetric::{Fences, Refused};
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::shard::Padded;
use pagewell_sync::thread::Backoff;

use super::cell::Mutex;

/// How often a closer looks at a line that has its handle before it gives up. Calls that are hits are over in a moment.
const PATIENCE: u32 = if cfg!(loom) { 1 } else { 20 };

/// The light fence, for which the closer's `membarrier(2)` pays: lines are lent only where there is that call.
#[inline(always)]
fn light() {
    // ORDERING: the compiler may not move the store of the line behind the load of the word; the heavy fence makes the processor keep them in order (E1).
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    // ORDERING: SeqCst, E1; under loom the heavy fence is one alike.
    #[cfg(loom)]
    pagewell_sync::atomic::fence(Ordering::SeqCst);
}

pub(crate) struct Line {
    /// The handle of the call that the thread is in, or 0.
    handle: AtomicU64,
    /// The line's number, once it was lent.
    number: AtomicU64,
}

impl Line {
    /// Which one it is.
    #[inline(always)]
    pub(crate) fn number(&self) -> usize {
        // ORDERING: Relaxed; its thread has stored it.
        self.number.load(Ordering::Relaxed) as usize
    }
}

/// The lines that were lent and belong to nobody, and the first that was never lent.
struct Numbers {
    free: Vec<usize>,
    next: usize,
}

/// Lines for so many threads.
pub(super) struct Lines<const N: usize> {
    lines: [Padded<Line>; N],
    numbers: Mutex<Numbers>,
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
            numbers: Mutex::new(Numbers {
                free: Vec::new(),
                next: 0,
            }),
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
            numbers: Mutex::new(Numbers {
                free: Vec::new(),
                next: 0,
            }),
        }
    }

    /// Lends a line to a thread, if there is one.
    pub(super) fn lend(&self) -> Option<&Line> {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let number = match numbers.free.pop() {
            Some(number) => number,
            None if numbers.next < N => {
                numbers.next += 1;
                numbers.next - 1
            }
            None => return None,
        };
        drop(numbers);
        let line = &self.lines[number].0;
        // ORDERING: Relaxed; for this thread alone, and the mutex orders it after what the one before has done.
        line.number.store(number as u64, Ordering::Relaxed);
        Some(line)
    }

    /// Takes a line back from the thread that it was lent to, which is in no call.
    pub(super) fn take_back(&self, line: &Line) {
        let number = line.number();
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.free.push(number);
    }

    /// Steps c and d: whether a call with `handle`, which is being closed, is announced.
    pub(super) fn is_announced(&self, handle: u64, fences: Fences) -> Result<bool, Refused> {
        fences.heavy()?;
        // A thread that is lent a new line only now has the mutex after us, and sees the word changed.
        let nr = self
            .numbers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .next;
        for Padded(line) in &self.lines[..nr] {
            let mut backoff = Backoff::new();
            // ORDERING: Acquire, E2: of whatever the line has in place of the handle.
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

/// A thread's line has a handle, as long as this exists.
pub(super) struct Announced<'l> {
    line: &'l Line,
    handle: u64,
}

impl<'l> Announced<'l> {
    /// Steps 1 and 2, by the thread whose line it is. None if that is in a call already: then this one has to be counted.
    #[inline(always)]
    pub(super) fn begin(line: &'l Line, handle: u64) -> Option<Self> {
        // ORDERING: Relaxed; only this thread stores to its line.
        if line.handle.load(Ordering::Relaxed) != 0 {
            return None;
        }
        // ORDERING: Release, E2: a closer of the handle of an earlier call may find this one in its place. E1 is by the fence.
        line.handle.store(handle, Ordering::Release);
        light();
        Some(Self { line, handle })
    }

    /// Which handle.
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
