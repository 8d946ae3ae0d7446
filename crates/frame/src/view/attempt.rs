//! Bound on one attempt of a view: one call of its closure on a page.
//!
//! While a page changes, its inconsistent bytes may lead the closure to any position, and into a
//! cycle. Therefore after every [`STEP`] accesses the attempt checks whether the page is unchanged.
//! An unchanged page, whose bytes come from a disk, may contain a cycle too. Therefore at most as
//! many checks are made as the page has bytes: [`STEP`] accesses for each byte, more than any valid
//! traversal takes (comparing each of 500 slots with every other takes nearly as many).
//!
//! After a failed check, all later accesses of the attempt fail, and it counts as inconsistent,
//! whatever its closure returns.

use std::cell::Cell;
use std::fmt;

use pagewell_sync::atomic::{AtomicU64, Ordering, fence};

pub(crate) const STEP: u32 = 64;

/// Error of an access outside a view's page, or to a page that has changed.
///
/// The closure of the view returns it, and may also return it for an inconsistency that it detects
/// itself, such as a wrong checksum. The attempt is repeated if the page has changed; otherwise the
/// view fails with an error of kind `Malformed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Torn;

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("access outside the page, or the page has changed")
    }
}

impl std::error::Error for Torn {}

/// The words that identify the place of a page, with their values at the start of the attempt.
///
/// The page is unchanged while all words have these values. The second word may be absent. For an
/// attempt with a reference to the page, both are absent.
pub type WatchedWords<'w> = [Option<Word<'w>>; 2];

type Word<'w> = (&'w AtomicU64, u64);

#[derive(Debug)]
pub(crate) struct Attempt<'w> {
    words: WatchedWords<'w>,
    accesses: Cell<u32>,
    /// Number of checks left; 0 once one has failed.
    checks: Cell<u32>,
}

impl<'w> Attempt<'w> {
    #[inline(always)]
    pub(crate) fn new(words: WatchedWords<'w>, page_size: usize) -> Self {
        Self {
            words,
            accesses: Cell::new(STEP),
            // Page sizes are even. With `| 1`, the compiler can assume that the number is not zero.
            checks: Cell::new(page_size as u32 | 1),
        }
    }

    #[inline(always)]
    pub(crate) fn count(&self) -> Result<(), Torn> {
        match self.accesses.get().checked_sub(1) {
            Some(left) => {
                self.accesses.set(left);
                Ok(())
            }
            None => self.check(0),
        }
    }

    /// Counts an access of `len` bytes as one access, and one more for every 64 bytes.
    #[inline(always)]
    pub(crate) fn count_bytes(&self, len: usize) -> Result<(), Torn> {
        // A length past the page may be miscounted, but such an access fails at the range check.
        let more = (len / 64) as u32;
        let left = self.accesses.get().checked_sub(1);
        match left.and_then(|left| left.checked_sub(more)) {
            Some(left) => {
                self.accesses.set(left);
                Ok(())
            }
            None => self.check(more),
        }
    }

    /// Counts `1 + more` accesses. Fails if the page has changed or no check is left.
    #[inline(always)]
    pub(crate) fn check(&self, more: u32) -> Result<(), Torn> {
        // One by one: an array, passed by address, would have to be in memory all the time.
        let [first, second] = self.words;
        let left = checks_left(first, second, self.checks.get(), more);
        self.checks.set(left);
        if left == 0 {
            self.accesses.set(0);
            return Err(Torn);
        }
        self.accesses.set(STEP - 1);
        Ok(())
    }

    /// With a reference to the page, a check fails only if the attempt made too many accesses.
    #[inline(always)]
    pub(crate) fn has_failed(&self) -> bool {
        self.checks.get() == 0
    }
}

#[cold]
#[inline(never)]
fn checks_left(first: Option<Word<'_>>, second: Option<Word<'_>>, checks: u32, more: u32) -> u32 {
    match checks.saturating_sub(1 + more / STEP) {
        0 => 0,
        left if is_as_it_was([first, second]) => left,
        _ => 0,
    }
}

/// Whether the page is unchanged since the attempt began, and with it all bytes loaded in between.
#[inline(always)]
pub(crate) fn is_as_it_was([first, second]: WatchedWords<'_>) -> bool {
    // ORDERING: Acquire fence; pairs, through the bytes, with the release fence of the thread that
    // overwrites them after it has changed a watched word, and orders the loads below after those
    // of the bytes.
    fence(Ordering::Acquire);
    // ORDERING: Acquire; data to which the page refers must not be loaded before this load.
    let is = |(word, bits): Word<'_>| word.load(Ordering::Acquire) == bits;
    first.is_none_or(is) && second.is_none_or(is)
}
