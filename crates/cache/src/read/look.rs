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
//!
//! What is watched meanwhile is a slot of a file's index ([`OfFile`]), or what a memory space has of a page: a [`Watch`].

use std::cell::Cell;
use std::fmt;

use pagewell_sync::atomic::{AtomicU64, Ordering, fence};

use crate::base::page::PageNr;
use crate::index::file_index::Seen;
use crate::index::token::{Origin, Token};

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

/// What says whether a page that is looked at is as it was when the look began.
pub trait Watch: Copy {
    /// The words that have to stay as they are; none if there is a reference to the page, which keeps it as it is.
    fn words(&self) -> Option<Words<'_>>;
}

/// A word that says where a page is, and what it was.
type Word<'w> = (&'w AtomicU64, u64);

/// One word or two that say where a page is, and what they were.
#[derive(Clone, Copy, Debug)]
pub struct Words<'w> {
    first: Word<'w>,
    second: Option<Word<'w>>,
}

impl<'w> Words<'w> {
    /// These words, each with what it was.
    #[inline(always)]
    #[must_use]
    pub fn new(first: (&'w AtomicU64, u64), second: Option<(&'w AtomicU64, u64)>) -> Self {
        Self { first, second }
    }
}

/// Of a view: its bytes are a page of a file.
#[derive(Clone, Copy, Debug)]
pub struct OfFile<'i> {
    /// None if there is a reference.
    seen: Option<Seen<'i>>,
    tokens: Tokens<'i>,
}

/// Where tokens of a page come from.
#[derive(Clone, Copy, Debug)]
enum Tokens<'i> {
    /// They are made of the slot that was seen, of this page, of which the file has so many bytes.
    Of(&'i Origin, PageNr, usize),
    /// There is one already.
    Made(&'i Token),
}

impl<'i> OfFile<'i> {
    /// A look without a reference, at a page whose slot was `seen`.
    #[inline(always)]
    pub(crate) fn seen(seen: Seen<'i>, origin: &'i Origin, page: PageNr, len: usize) -> Self {
        Self {
            seen: Some(seen),
            tokens: Tokens::Of(origin, page, len),
        }
    }

    /// A look with a reference, at a page of which there is a token.
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

/// One look at a page.
#[derive(Debug)]
pub(crate) struct Look<W> {
    /// What has to stay as it is.
    pub(crate) watch: W,
    /// How many accesses are left before the next check.
    accesses: Cell<u32>,
    /// How many checks are left; 0 once one has failed.
    checks: Cell<u32>,
}

impl<W: Watch> Look<W> {
    /// A look at a page of so many bytes.
    #[inline(always)]
    pub(crate) fn new(watch: W, page_size: usize) -> Self {
        Self {
            watch,
            accesses: Cell::new(STEP),
            // One more if the number is even, as sizes of pages are: the compiler sees that these are some.
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

    /// Whether what was seen is the page's: it is as it was when the look began, and no check has failed.
    #[inline(always)]
    pub(crate) fn is_whole(&self) -> bool {
        let (first, second) = words(&self.watch);
        !self.has_failed() && is_as_it_was(first, second)
    }

    /// Whether a check has failed; of a page to which there is a reference, whether the look was too long.
    #[inline(always)]
    pub(crate) fn has_failed(&self) -> bool {
        self.checks.get() == 0
    }
}

/// The words of `watch`, each as two values that fit into registers.
#[inline(always)]
fn words<W: Watch>(watch: &W) -> (Option<Word<'_>>, Option<Word<'_>>) {
    let words = watch.words();
    (
        words.map(|words| words.first),
        words.and_then(|words| words.second),
    )
}

/// How many checks are left of `checks` after this one; 0 if it fails.
#[cold]
#[inline(never)]
fn checks_left(first: Option<Word<'_>>, second: Option<Word<'_>>, checks: u32, more: u32) -> u32 {
    match checks.saturating_sub(1 + more / STEP) {
        0 => 0,
        left if is_as_it_was(first, second) => left,
        _ => 0,
    }
}

/// Whether the page is as it was when the look began: what was loaded from it in between is what it had all along.
#[inline(always)]
fn is_as_it_was(first: Option<Word<'_>>, second: Option<Word<'_>>) -> bool {
    // ORDERING: Acquire fence; as step 5 of the optimistic read ([`crate::read::reader`]): pairs with the release fence of the
    // thread that overwrites the frame's bytes, through the bytes, and keeps the loads below from being done before theirs.
    fence(Ordering::Acquire);
    // ORDERING: Acquire; who goes on from an unchanged page must not have loaded what it names before this.
    let is = |(word, bits): Word<'_>| word.load(Ordering::Acquire) == bits;
    first.is_none_or(is) && second.is_none_or(is)
}
