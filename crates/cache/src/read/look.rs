//! The look: one call of a closure on a page, and what ends it.
//!
//! What a torn page says may send its reader anywhere, also round in a circle. So accesses are counted, and each [`STEP`]th finds
//! out whether the page is still as it was. A page that does not change may have a circle too: it comes from a disk. So the
//! number of such checks is bounded as well, by the size of the page in bytes. This leaves [`STEP`] accesses for each byte of the
//! page, more than any way through it takes: whoever compares every one of 500 slots with every other needs as many. The bound
//! costs nothing that the check does not cost already, and without it a file with a circle would keep a thread for ever.
//!
//! Once an access of a look has failed by a check, all later ones fail, and the look counts as torn, whatever its closure makes
//! of that.

use std::cell::Cell;
use std::fmt;

use pagewell_sync::atomic::{Ordering, fence};

use crate::index::file_index::Seen;

/// How many accesses there are from one check to the next.
pub(crate) const STEP: u32 = 64;

/// What was read of a page leads out of it, or the page has changed: leave the closure of the view.
///
/// The closure may return it by itself when it finds what no whole page has, a wrong checksum for example. Either way the look is
/// repeated if the page has changed, and [`File::view`](crate::File::view) fails with [`Malformed`](crate::ErrorKind::Malformed)
/// if it has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Torn;

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what was read leads out of the page, or the page has changed")
    }
}

impl std::error::Error for Torn {}

/// One look at a page.
#[derive(Debug)]
pub(crate) struct Look<'i> {
    /// The slot that has to stay as it is. None if there is a reference to the page, which keeps it as it is.
    seen: Option<Seen<'i>>,
    /// How many accesses are left before the next check.
    accesses: Cell<u32>,
    /// How many checks are left; 0 once one has failed.
    checks: Cell<u32>,
}

impl<'i> Look<'i> {
    /// A look at a page of so many bytes, with `seen` in its slot; or with a reference to it.
    #[inline(always)]
    pub(crate) fn new(seen: Option<Seen<'i>>, page_size: usize) -> Self {
        Self {
            seen,
            accesses: Cell::new(STEP),
            // A page has 64 KiB at the most. One more, so that the compiler sees that these are some.
            checks: Cell::new(page_size as u32 | 1),
        }
    }

    /// Counts an access.
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

    /// Counts an access of `len` bytes: one for each 64 of them.
    #[inline(always)]
    pub(crate) fn count_bytes(&self, len: usize) -> Result<(), Torn> {
        // What is too long for a page may be counted wrongly: it gets no further than its range.
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

    /// Checks that the page is as it was, for an access that counts as `more` beside itself.
    #[inline(always)]
    pub(crate) fn check(&self, more: u32) -> Result<(), Torn> {
        // By value: what is handed over by its address would have to be in memory all the time.
        let left = checks_left(self.seen, self.checks.get(), more);
        self.checks.set(left);
        if left == 0 {
            self.accesses.set(0);
            return Err(Torn);
        }
        self.accesses.set(STEP - 1);
        Ok(())
    }

    /// Whether what was seen is the page's: it is as it was when the look began, and no check has failed.
    #[inline(always)]
    pub(crate) fn is_whole(&self) -> bool {
        !self.has_failed() && self.seen.is_none_or(is_as_it_was)
    }

    /// Whether a check has failed; of a page to which there is a reference, whether the look was too long.
    #[inline(always)]
    pub(crate) fn has_failed(&self) -> bool {
        self.checks.get() == 0
    }
}

/// How many checks are left of `checks` after this one; 0 if it fails.
#[cold]
#[inline(never)]
fn checks_left(seen: Option<Seen<'_>>, checks: u32, more: u32) -> u32 {
    match checks.saturating_sub(1 + more / STEP) {
        0 => 0,
        left if seen.is_none_or(is_as_it_was) => left,
        _ => 0,
    }
}

/// Whether the page is as it was when its slot was `seen`: what was loaded from it in between is what it had all along.
#[inline(always)]
fn is_as_it_was(seen: Seen<'_>) -> bool {
    // ORDERING: Acquire fence; as step 5 of the optimistic read ([`crate::read::reader`]): pairs with the release fence of the
    // thread that overwrites the frame's bytes, through the bytes, and keeps the load below from being done before theirs.
    fence(Ordering::Acquire);
    seen.is_unchanged()
}
