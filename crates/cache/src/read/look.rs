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

use crate::base::page::PageNr;
use crate::index::file_index::Seen;
use crate::index::token::{Origin, Token};

pub(crate) const STEP: u32 = 64;

/// Error of an access outside a view's page, or to a page that has changed.
///
/// The closure of the view returns it, and may also return it for an inconsistency that it detects
/// itself, such as a wrong checksum. The attempt is repeated if the page has changed; otherwise
/// [`File::view`](crate::File::view) fails with [`Malformed`](crate::ErrorKind::Malformed).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Torn;

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("access outside the page, or the page has changed")
    }
}

impl std::error::Error for Torn {}

/// State that shows whether a page is unchanged since an attempt began.
pub trait Watch: Copy {
    /// Returns the words that must be unchanged. `None` if the attempt has a reference to the page.
    fn words(&self) -> Option<Words<'_>>;
}

type Word<'w> = (&'w AtomicU64, u64);

/// One or two words that identify the place of a page, and their initial values.
#[derive(Clone, Copy, Debug)]
pub struct Words<'w> {
    first: Word<'w>,
    second: Option<Word<'w>>,
}

impl<'w> Words<'w> {
    /// Creates the words to watch from their addresses and initial values.
    #[inline(always)]
    #[must_use]
    pub fn new(first: (&'w AtomicU64, u64), second: Option<(&'w AtomicU64, u64)>) -> Self {
        Self { first, second }
    }
}

/// Watched slot of a view of a file's page, and the source of its tokens.
#[derive(Clone, Copy, Debug)]
pub struct OfFile<'i> {
    seen: Option<Seen<'i>>,
    tokens: Tokens<'i>,
}

#[derive(Clone, Copy, Debug)]
enum Tokens<'i> {
    /// Tokens are made from the loaded slot of this page, which has this many of the file's bytes.
    Of(&'i Origin, PageNr, usize),
    Made(&'i Token),
}

impl<'i> OfFile<'i> {
    #[inline(always)]
    pub(crate) fn seen(seen: Seen<'i>, origin: &'i Origin, page: PageNr, len: usize) -> Self {
        Self {
            seen: Some(seen),
            tokens: Tokens::Of(origin, page, len),
        }
    }

    pub(crate) fn held(token: &'i Token) -> Self {
        Self {
            seen: None,
            tokens: Tokens::Made(token),
        }
    }

    #[inline(always)]
    pub(crate) fn token(&self) -> Token {
        match (self.tokens, self.seen) {
            (Tokens::Made(token), _) => *token,
            (Tokens::Of(origin, page, len), Some(seen)) => origin.token(page, seen).of_len(len),
            (Tokens::Of(origin, page, _), None) => origin.gone(page),
        }
    }
}

impl Watch for OfFile<'_> {
    #[inline(always)]
    fn words(&self) -> Option<Words<'_>> {
        self.seen.map(|seen| Words::new(seen.as_it_was(), None))
    }
}

#[derive(Debug)]
pub(crate) struct Look<W> {
    pub(crate) watch: W,
    accesses: Cell<u32>,
    /// Number of checks left; 0 once one has failed.
    checks: Cell<u32>,
}

impl<W: Watch> Look<W> {
    #[inline(always)]
    pub(crate) fn new(watch: W, page_size: usize) -> Self {
        Self {
            watch,
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
        // By value: words passed by address would have to be in memory all the time.
        let (first, second) = words(&self.watch);
        let left = checks_left(first, second, self.checks.get(), more);
        self.checks.set(left);
        if left == 0 {
            self.accesses.set(0);
            return Err(Torn);
        }
        self.accesses.set(STEP - 1);
        Ok(())
    }

    /// Whether the page is unchanged since the attempt began, and no check has failed.
    #[inline(always)]
    pub(crate) fn is_whole(&self) -> bool {
        let (first, second) = words(&self.watch);
        !self.has_failed() && is_as_it_was(first, second)
    }

    /// With a reference to the page, a check fails only if the attempt made too many accesses.
    #[inline(always)]
    pub(crate) fn has_failed(&self) -> bool {
        self.checks.get() == 0
    }
}

/// Returns each word of `watch` as an address and a value, which fit into registers.
#[inline(always)]
fn words<W: Watch>(watch: &W) -> (Option<Word<'_>>, Option<Word<'_>>) {
    let words = watch.words();
    (
        words.map(|words| words.first),
        words.and_then(|words| words.second),
    )
}

#[cold]
#[inline(never)]
fn checks_left(first: Option<Word<'_>>, second: Option<Word<'_>>, checks: u32, more: u32) -> u32 {
    match checks.saturating_sub(1 + more / STEP) {
        0 => 0,
        left if is_as_it_was(first, second) => left,
        _ => 0,
    }
}

/// Whether the page is unchanged since the attempt began, and with it all bytes loaded in between.
#[inline(always)]
fn is_as_it_was(first: Option<Word<'_>>, second: Option<Word<'_>>) -> bool {
    // ORDERING: Acquire fence; as step 5 of the optimistic read ([`crate::read::reader`]): pairs,
    // through the bytes, with the release fence of the thread that overwrites them, and orders the
    // loads below after those of the bytes.
    fence(Ordering::Acquire);
    // ORDERING: Acquire; data to which the page refers must not be loaded before this load.
    let is = |(word, bits): Word<'_>| word.load(Ordering::Acquire) == bits;
    first.is_none_or(is) && second.is_none_or(is)
}
