//! Views: a closure reads a page in place, and its result is valid if the page has not changed.
//!
//! # Protocol
//!
//! As the optimistic read ([`crate::read::reader`]), with the closure in place of the copy.
//!
//! ```text
//! 1 load the slot (acquire)
//! 2 give up unless it is hot
//! 3 load the file's size: the end of the view
//! 4 call the closure (its accesses occasionally check: 5 and 6)
//! 5 fence(Acquire)
//! 6 reload the slot: unchanged?
//! ```
//!
//! The ordering edges are the same: if step 4 has loaded any byte that a fill of another page or a
//! later write has stored, step 6 sees another word. So if the slot is unchanged, the closure's
//! result was computed only from bytes that the page had at one moment. A failed attempt cannot
//! access memory outside the page, it ends ([`attempt_view`]), and its result is dropped.
//! Effects of the closure are not undone; among them may be a change of this slot.
//!
//! # Retries, and the attempt with a reference
//!
//! An attempt that is inconsistent or finds the slot claimed is repeated up to [`TRIES`] times: a
//! writer finishes within a few steps, and a reference would make the next writer move the page
//! (`docs/adr/0007-*`). A page that is missing or whose accessed bit is clear is looked up with a
//! reference. So is the page for the last attempt: its bytes then do not change, so an access
//! outside the page is caused by its contents, and the view fails ([`ErrorKind::Malformed`]).
//!
//! A panic of the closure needs no cleanup: an attempt holds at most a reference.
//!
//! Verified by `loom_view_vs_evict_and_reuse`, `loom_view_vs_write`,
//! `loom_view_that_goes_round_in_circles_ends`; by the mutants `view-*`.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Deref, Range};

use pagewell_frame::{FrameRef, PageView, Torn, ViewOutcome, WatchedWords, attempt_view};
use pagewell_sync::bytes::RacySource;
use pagewell_sync::scaled;
use pagewell_sync::thread::Backoff;

use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page::PageNr;
use crate::base::slot::State;
use crate::index::file_index::Seen;
use crate::index::token::{Origin, Token};
use crate::mapping::record::Mapping;
use crate::read::lookup::Lookup;
use crate::read::raw;

const TRIES: u32 = scaled(4, 1);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Viewer<'m>(pub(crate) &'m Mapping);

type Ground<'g> = (RacySource<'g>, Watched<'g>);

#[derive(Debug)]
pub(crate) struct Held<'m> {
    reference: FrameRef<'m>,
    token: Token,
    len: usize,
}

impl<'m> Viewer<'m> {
    #[inline(always)]
    fn begin<R>(self, page: PageNr) -> Result<Ground<'m>, ViewOutcome<R>> {
        // Loaded before the first atomic access, as in [`crate::read::reader`].
        let view = self.0.index().view();
        let page_size = self.0.page_size();
        let start = page.wrapping_shl(self.0.page_shift());
        // 1.
        let Some(seen) = self.0.index().look(page) else {
            return Err(ViewOutcome::Fallback);
        };
        // 2.
        if !seen.slot.is_hot() {
            return Err(if seen.slot.is_busy() {
                ViewOutcome::Again
            } else {
                ViewOutcome::Fallback
            });
        }
        // 3. The size is loaded after the slot: if step 6 finds the slot unchanged, the file had
        //    this size while the page had these bytes. (`start` does not wrap: no slot lies beyond
        //    `MAX_FILE_BYTES`.)
        let rest = self.0.size().saturating_sub(start);
        if rest == 0 {
            return Err(ViewOutcome::Fallback);
        }
        let len = rest.min(page_size as u64) as usize;
        let bytes = raw::racy_page(view, seen.slot.frame(), len);
        Ok((bytes, Watched::Slot(seen, self.0.origin(), page, len)))
    }

    /// Makes one attempt on `page`, with the reference in `held` if any.
    #[inline(always)]
    pub(crate) fn look<R, F>(
        self,
        page: PageNr,
        held: Option<&Held<'_>>,
        look: &mut F,
    ) -> ViewOutcome<R>
    where
        F: FnMut(&View<'_>) -> Result<R, Torn>,
    {
        let (bytes, watched) = match held {
            Some(held) => held.ground(),
            None => match self.begin(page) {
                Ok(ground) => ground,
                Err(missed) => return missed,
            },
        };
        // 4, and then 5 and 6.
        attempt_view(bytes, watched.words(), self.0.page_size(), &mut |page| {
            look(&View::new(page, &watched))
        })
    }

    /// Makes one attempt without a reference. Returns `None` if it misses or has no result.
    #[inline(always)]
    pub(crate) fn view_once<R, F>(self, page: PageNr, look: &mut F) -> Option<R>
    where
        F: FnMut(&View<'_>) -> Result<R, Torn>,
    {
        match self.look(page, None, look) {
            ViewOutcome::Done(answer) => Some(answer),
            _ => None,
        }
    }

    /// Retries the view, at last with a reference to the frame. A miss fills up to `ahead` pages.
    #[inline]
    pub(crate) fn view<R, F, A>(self, page: PageNr, mut look: F, ahead: A) -> Result<R, Error>
    where
        F: FnMut(&View<'_>) -> Result<R, Torn>,
        A: Fn() -> usize,
    {
        match self.look(page, None, &mut look) {
            ViewOutcome::Done(answer) => Ok(answer),
            _ => self.again(page, &mut look, &ahead),
        }
    }

    #[cold]
    #[inline(never)]
    fn again<R, F>(self, page: PageNr, look: &mut F, ahead: &dyn Fn() -> usize) -> Result<R, Error>
    where
        F: FnMut(&View<'_>) -> Result<R, Torn>,
    {
        self.0.check_home(Op::View)?;
        let mut backoff = Backoff::new();
        for nr in 0..TRIES {
            if nr > 0 {
                backoff.wait();
            }
            match self.look(page, None, look) {
                ViewOutcome::Done(answer) => return Ok(answer),
                ViewOutcome::Again => {}
                ViewOutcome::Fallback | ViewOutcome::TooLong(_) => break,
            }
        }
        let held = self.hold(page, ahead)?;
        let error = || self.0.error(ErrorKind::Malformed, Op::View).with_page(page);
        match self.look(page, Some(&held), look) {
            ViewOutcome::Done(answer) => Ok(answer),
            ViewOutcome::TooLong(most) => Err(error().with_detail(format!(
                "the closure has not returned after {most} accesses"
            ))),
            ViewOutcome::Again | ViewOutcome::Fallback => Err(error()),
        }
    }

    fn hold(self, page: PageNr, ahead: &dyn Fn() -> usize) -> Result<Held<'m>, Error> {
        let (reference, len) = Lookup(self.0)
            .hold(page, Op::View, ahead)
            .map_err(|error| error.with_op(Op::View))?;
        // While a frame is referenced, a slot that names it is that of its page, and the bytes do
        // not change. If no slot names it (the page was moved or removed), or the slot is claimed,
        // the token counts as changed.
        let token = match self.0.index().look(page) {
            Some(seen) if seen.slot.state() == State::Present(reference.frame()) => {
                self.0.origin().token(page, seen)
            }
            _ => self.0.origin().gone(page),
        };
        Ok(Held {
            reference,
            // If the end of the file has changed since the lookup, the token counts as changed.
            token: token.of_len(len),
            len,
        })
    }
}

impl Held<'_> {
    fn ground(&self) -> Ground<'_> {
        let bytes = self.reference.bytes().slice(0, self.len);
        (bytes, Watched::Held(&self.token))
    }
}

/// Watched slot and tokens of one attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Watched<'v> {
    /// Without a reference: the loaded slot of this page, which has this many of the file's bytes.
    Slot(Seen<'v>, &'v Origin, PageNr, usize),
    /// With a reference, and a token that was made after it.
    Held(&'v Token),
}

impl<'v> Watched<'v> {
    #[inline(always)]
    pub(crate) fn words(self) -> WatchedWords<'v> {
        match self {
            Self::Slot(seen, ..) => [Some(seen.as_it_was()), None],
            Self::Held(_) => [None, None],
        }
    }
}

/// Bytes of a page of a file, or of a part of it, in the closure of
/// [`File::view`](crate::File::view). It dereferences to [`PageView`], which has the accesses, and
/// documents their rules and errors.
pub struct View<'v> {
    bytes: PageView<'v>,
    watched: &'v Watched<'v>,
}

#[allow(clippy::missing_errors_doc)] // Documented at `PageView`.
impl<'v> View<'v> {
    #[inline(always)]
    pub(crate) fn new(bytes: PageView<'v>, watched: &'v Watched<'v>) -> Self {
        Self { bytes, watched }
    }

    /// Returns a token of the whole page's state, for a later comparison
    /// ([`File::is_unchanged`](crate::File::is_unchanged)).
    ///
    /// Return the token together with the result: if the page changes before the attempt ends, the
    /// closure is called again, and only a token from the successful attempt is of use.
    #[must_use]
    #[inline]
    pub fn token(&self) -> Token {
        match *self.watched {
            Watched::Slot(seen, origin, page, len) => origin.token(page, seen).of_len(len),
            Watched::Held(token) => *token,
        }
    }

    /// Returns the part in `range` as a view of its own. It belongs to the same attempt.
    #[inline(always)]
    pub fn part(&self, range: Range<usize>) -> Result<Self, Torn> {
        Ok(View::new(self.bytes.part(range)?, self.watched))
    }

    /// Searches slots by binary search, as [`PageView::search`] does.
    #[inline]
    pub fn search<F>(
        &self,
        at: usize,
        width: usize,
        count: usize,
        mut compare: F,
    ) -> Result<Result<usize, usize>, Torn>
    where
        F: FnMut(&Self, usize) -> Result<Ordering, Torn>,
    {
        let compare = |_: &_, at| compare(self, at);
        self.bytes.search(at, width, count, compare)
    }
}

impl<'v> Deref for View<'v> {
    type Target = PageView<'v>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.bytes
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({} bytes)", self.len())
    }
}
