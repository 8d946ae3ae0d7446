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

/// Why a look has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missed {
    Again,
    Fallback,
    TooLong,
}

/// Where a view stands after its first look.
struct Later<'m, S: RefScheme> {
    stage: Stage,
    held: Option<Held<'m, S>>,
}

enum Stage {
    /// There was the first look only.
    First,
    /// There were so many more.
    Tried(u32, Backoff),
    /// There is a reference.
    Held,
}

/// A page with a reference, of which the file has so many bytes.
struct Held<'m, S: RefScheme> {
    reference: FrameRef<'m, S>,
    token: Token,
    len: usize,
}

impl<'m, S: RefScheme> Viewer<'m, S> {
    /// What one look at `page` without a reference needs. The numbers are those of the module's text.
    #[inline(always)]
    fn begin(self, page: PageNr) -> Result<Ground<'m>, Missed> {
        // Loaded before the first atomic access, as for a read.
        let view = self.0.index().view();
        let page_size = self.0.page_size();
        let start = page.wrapping_shl(self.0.page_shift());
        // 1.
        let Some(seen) = self.0.index().look(page) else {
            return Err(Missed::Fallback);
        };
        // 2.
        if !seen.slot.is_hot() {
            return Err(if seen.slot.is_busy() {
                Missed::Again
            } else {
                Missed::Fallback
            });
        }
        // 3. After the slot: the file had this size while this was its page, if the slot turns out unchanged. (An index has no slots
        // beyond `MAX_FILE_BYTES`, so `start` is where the page begins.)
        let rest = self.0.size().saturating_sub(start);
        if rest == 0 {
            return Err(Missed::Fallback);
        }
        let len = rest.min(page_size as u64) as usize;
        let bytes = raw::racy_page(view, seen.slot.frame(), len);
        Ok((bytes, OfFile::seen(seen, self.0.origin(), page, len)))
    }

    /// One look at `page` without a reference.
    #[cfg(loom)]
    pub(crate) fn look<R, F>(self, page: PageNr, look: &mut F) -> Looked<R>
    where
        F: FnMut(&View<'_>) -> Result<R, Torn>,
    {
        match self.begin(page) {
            Ok((bytes, watch)) => look_at(bytes, watch, self.0.page_size(), &mut |v| look(v)),
            Err(Missed::Again) => Looked::Again,
            Err(Missed::Fallback | Missed::TooLong) => Looked::Fallback,
        }
    }

    /// One look at `page` without a reference; none if it misses, or has no answer.
    #[inline(always)]
    pub(crate) fn view_once<R, F>(self, page: PageNr, look: &mut F) -> Option<R>
    where
        F: FnMut(&View<'_>) -> Result<R, Torn>,
    {
        let (bytes, watch) = self.begin(page).ok()?;
        match look_at(bytes, watch, self.0.page_size(), &mut |v| look(v)) {
            Looked::Done(answer) => Some(answer),
            Looked::Again | Looked::Fallback | Looked::TooLong => None,
        }
    }

    /// Looks at `page` until the answer is the page's. `ahead` says how many pages to fill from a missing page on.
    ///
    /// The first look and all later ones are one call of the closure in the machine code. So the compiler puts a closure that nobody else calls in line,
    /// however long it is.
    #[inline(always)]
    pub(crate) fn view<R, F>(
        self,
        page: PageNr,
        look: &mut F,
        ahead: &dyn Fn() -> usize,
    ) -> Result<R, Error>
    where
        F: FnMut(&View<'_>) -> Result<R, Torn>,
    {
        let mut later = Later {
            stage: Stage::First,
            held: None,
        };
        let mut ground = self.begin(page);
        loop {
            let missed = match ground {
                // 4, and then 5 and 6.
                Ok((bytes, watch)) => {
                    match look_at(bytes, watch, self.0.page_size(), &mut |v| look(v)) {
                        Looked::Done(answer) => return Ok(answer),
                        Looked::Again => Missed::Again,
                        Looked::Fallback => Missed::Fallback,
                        Looked::TooLong => Missed::TooLong,
                    }
                }
                Err(missed) => missed,
            };
            ground = Ok(later.next(self, page, missed, ahead)?);
        }
    }

    /// What `page` says led the closure of a look, which had a reference, nowhere; in too many steps, or out of it.
    #[cold]
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

impl<'m, S: RefScheme> Later<'m, S> {
    /// What the next look needs, after one that has missed.
    #[cold]
    #[inline(never)]
    fn next(
        &mut self,
        viewer: Viewer<'m, S>,
        page: PageNr,
        missed: Missed,
        ahead: &dyn Fn() -> usize,
    ) -> Result<Ground<'_>, Error> {
        let mut missed = match self.stage {
            Stage::First => {
                viewer.0.check_home(Op::View)?;
                self.stage = Stage::Tried(0, Backoff::new());
                // The first look is made again, whatever it has met.
                None
            }
            Stage::Tried(..) => Some(missed),
            Stage::Held => return Err(viewer.malformed(page, missed == Missed::TooLong)),
        };
        while let Stage::Tried(nr_tries, backoff) = &mut self.stage
            && *nr_tries < TRIES
            && matches!(missed, None | Some(Missed::Again))
        {
            if missed.is_some() {
                backoff.wait();
            }
            *nr_tries += 1;
            match viewer.begin(page) {
                Ok(ground) => return Ok(ground),
                Err(again) => missed = Some(again),
            }
        }
        self.stage = Stage::Held;
        let (reference, len) = Lookup(viewer.0).hold(page, Op::View, ahead)?;
        // While there is a reference to a frame, a slot that names it is of a page with the bytes that it has: they do not change, and the
        // frame is no other page's. If the page is in another one by now, or gone, no slot names this one.
        let token = match viewer.0.index().look(page) {
            Some(seen) if seen.slot.state() == State::Present(reference.frame()) => {
                viewer.0.origin().token(page, seen)
            }
            _ => viewer.0.origin().gone(page),
        };
        // If the file ends elsewhere by now, the token has changed already.
        let token = token.of_len(len);
        let held = self.held.insert(Held {
            reference,
            token,
            len,
        });
        let bytes = held.reference.bytes().slice(0, held.len);
        Ok((bytes, OfFile::held(&held.token)))
    }
}
