//! Views: a closure looks at a page where it is, and its answer counts if the page did not change meanwhile.
//!
//! # Protocol
//!
//! That of the optimistic read ([`crate::read::reader`]), with the closure in place of the copy.
//!
//! ```text
//! 1 load the slot (acquire); 2 give up unless it is hot; 3 load the file's size: where the view ends
//! 4 the closure looks (and checks now and then: 5 and 6)
//! 5 fence(Acquire)
//! 6 load the slot again: unchanged?
//! ```
//!
//! The edges are the same. If step 4 has loaded any byte that another page's filler or a writer has stored, step 6 sees another
//! word. So the answer of a look that ends with the slot unchanged was made of the bytes of the page alone, all of one moment.
//! Nothing else of the look matters: it cannot leave the page, it ends ([`crate::read::look`]), and its answer is dropped where
//! it began.
//!
//! The slot may be changed by the closure itself, which may write to the page, or have it evicted: then the look is torn as by
//! anybody else.
//!
//! # Again, and with a reference
//!
//! A look that was torn, or that met a claim, is repeated up to [`TRIES`] times: a writer is done in a moment, and a reference
//! would make the next one move the page (`docs/adr/0007-*`). A page that is missing or not marked is looked up, filled and
//! marked as by any referenced read, and then the look has a reference; so has the last one. The bytes of a page with a reference
//! do not change. So what sends a closure out of the page then is in the page, and the view fails ([`ErrorKind::Malformed`]).
//!
//! Failure. Nothing is held while a closure looks without a reference, and the reference is a guard: a closure may panic.
//!
//! Proved by `loom_view_vs_evict_and_reuse`, `loom_view_vs_write`, `loom_view_that_goes_round_in_circles_ends`; by the mutants
//! `view-*`.

use pagewell_frame::FrameRef;
use pagewell_frame::refcount::RefScheme;
use pagewell_sync::bytes::RacySource;
use pagewell_sync::thread::Backoff;

use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page::PageNr;
use crate::base::slot::State;
use crate::index::token::Token;
use crate::mapping::record::Mapping;
use crate::read::look::{OfFile, STEP, Torn};
use crate::read::look_at::{Looked, look_at};
use crate::read::lookup::Lookup;
use crate::read::raw;
use crate::read::view::View;

/// How many looks without a reference follow the first one.
const TRIES: u32 = if cfg!(loom) { 1 } else { 4 };

/// Views of pages of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Viewer<'m, S: RefScheme>(pub(crate) &'m Mapping<S>);

/// What a look needs: bytes, and what says whether they are the page's.
type Ground<'g> = (RacySource<'g>, OfFile<'g>);

/// A page with a reference, of which the file has so many bytes.
#[derive(Debug)]
pub(crate) struct Held<'m, S: RefScheme> {
    reference: FrameRef<'m, S>,
    token: Token,
    len: usize,
}

impl<'m, S: RefScheme> Viewer<'m, S> {
    /// What one look at `page` without a reference needs; if there can be none, the outcome. The numbers are those of the module's text.
    #[inline(always)]
    fn begin<R>(self, page: PageNr) -> Result<Ground<'m>, Looked<R>> {
        // Loaded before the first atomic access, as for a read.
        let view = self.0.index().view();
        let page_size = self.0.page_size();
        let start = page.wrapping_shl(self.0.page_shift());
        // 1.
        let Some(seen) = self.0.index().look(page) else {
            return Err(Looked::Fallback);
        };
        // 2.
        if !seen.slot.is_hot() {
            return Err(if seen.slot.is_busy() {
                Looked::Again
            } else {
                Looked::Fallback
            });
        }
        // 3. After the slot: the file had this size while this was its page, if the slot turns out unchanged. (An index has no slots
        // beyond `MAX_FILE_BYTES`, so `start` is where the page begins.)
        let rest = self.0.size().saturating_sub(start);
        if rest == 0 {
            return Err(Looked::Fallback);
        }
        let len = rest.min(page_size as u64) as usize;
        let bytes = raw::racy_page(view, seen.slot.frame(), len);
        Ok((bytes, OfFile::seen(seen, self.0.origin(), page, len)))
    }

    /// One look at `page`: at what is held of it, or without a reference.
    ///
    /// It is called where a view begins and from [`Self::again`]. Whether it goes in line is the compiler's choice: a short closure goes into
    /// whatever calls the view, with all that it has captured in registers; a long one stands once, in this function, which is called.
    #[inline]
    pub(crate) fn look<R, F>(
        self,
        page: PageNr,
        held: Option<&Held<'_, S>>,
        look: &mut F,
    ) -> Looked<R>
    where
        F: FnMut(&View<'_>) -> Result<R, Torn>,
    {
        let (bytes, watch) = match held {
            Some(held) => held.ground(),
            None => match self.begin(page) {
                Ok(ground) => ground,
                Err(missed) => return missed,
            },
        };
        // 4, and then 5 and 6.
        look_at(bytes, watch, self.0.page_size(), &mut |v| look(v))
    }

    /// One look at `page` without a reference; none if it misses, or has no answer.
    #[inline(always)]
    pub(crate) fn view_once<R, F>(self, page: PageNr, look: &mut F) -> Option<R>
    where
        F: FnMut(&View<'_>) -> Result<R, Torn>,
    {
        match self.look(page, None, look) {
            Looked::Done(answer) => Some(answer),
            _ => None,
        }
    }

    /// Looks at `page` until the answer is the page's. `ahead` says how many pages to fill from a missing page on.
    #[inline]
    pub(crate) fn view<R, F, A>(self, page: PageNr, mut look: F, ahead: A) -> Result<R, Error>
    where
        F: FnMut(&View<'_>) -> Result<R, Torn>,
        A: Fn() -> usize,
    {
        match self.look(page, None, &mut look) {
            Looked::Done(answer) => Ok(answer),
            _ => self.again(page, &mut look, &ahead),
        }
    }

    /// Goes on after a first look that has missed. It is made again, whatever it has met, and without waiting.
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
                Looked::Done(answer) => return Ok(answer),
                Looked::Again => {}
                Looked::Fallback | Looked::TooLong => break,
            }
        }
        let held = self.hold(page, ahead)?;
        match self.look(page, Some(&held), look) {
            Looked::Done(answer) => Ok(answer),
            missed => Err(self.malformed(page, matches!(missed, Looked::TooLong))),
        }
    }

    /// A reference to `page`, which is filled if it is missing.
    fn hold(self, page: PageNr, ahead: &dyn Fn() -> usize) -> Result<Held<'m, S>, Error> {
        let (reference, len) = Lookup(self.0)
            .hold(page, Op::View, ahead)
            .map_err(|error| error.with_op(Op::View))?;
        // While there is a reference to a frame, a slot that names it is of a page with the bytes that it has: they do not change, and the
        // frame is no other page's. If the page is in another one by now, or gone, no slot names this one.
        let token = match self.0.index().look(page) {
            Some(seen) if seen.slot.state() == State::Present(reference.frame()) => {
                self.0.origin().token(page, seen)
            }
            _ => self.0.origin().gone(page),
        };
        Ok(Held {
            reference,
            // If the file ends elsewhere by now, the token has changed already.
            token: token.of_len(len),
            len,
        })
    }

    /// What `page` says led the closure of a look, which had a reference, nowhere; in too many steps, or out of it.
    fn malformed(self, page: PageNr, is_too_long: bool) -> Error {
        let error = self.0.error(ErrorKind::Malformed, Op::View).with_page(page);
        if is_too_long {
            let most = u64::from(STEP) * self.0.page_size() as u64;
            error.with_detail(format!(
                "it was still being looked at after {most} accesses"
            ))
        } else {
            error
        }
    }
}

impl<S: RefScheme> Held<'_, S> {
    /// What a look at it needs.
    fn ground(&self) -> Ground<'_> {
        let bytes = self.reference.bytes().slice(0, self.len);
        (bytes, OfFile::held(&self.token))
    }
}
