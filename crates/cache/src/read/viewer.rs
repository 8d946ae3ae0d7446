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

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::thread::Backoff;

use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page::PageNr;
use crate::base::slot::State;
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

impl<S: RefScheme> Viewer<'_, S> {
    /// One look at `page` without a reference. The numbers are those of the module's text.
    #[inline(always)]
    pub(crate) fn look<R, F>(self, page: PageNr, look: &mut F) -> Looked<R>
    where
        F: FnMut(&View<'_>) -> Result<R, Torn>,
    {
        // Loaded before the first atomic access, as for a read.
        let view = self.0.index().view();
        let page_size = self.0.page_size();
        let start = page.wrapping_shl(self.0.page_shift());
        // 1.
        let Some(seen) = self.0.index().look(page) else {
            return Looked::Fallback;
        };
        // 2.
        if !seen.slot.is_hot() {
            return if seen.slot.is_busy() {
                Looked::Again
            } else {
                Looked::Fallback
            };
        }
        // 3. After the slot: the file had this size while this was its page, if the slot turns out unchanged. (An index has no slots
        // beyond `MAX_FILE_BYTES`, so `start` is where the page begins.)
        let rest = self.0.size().saturating_sub(start);
        if rest == 0 {
            return Looked::Fallback;
        }
        let len = rest.min(page_size as u64) as usize;
        // 4, and then 5 and 6.
        let bytes = raw::racy_page(view, seen.slot.frame(), len);
        let watch = OfFile::seen(seen, self.0.origin(), page, len);
        look_at(bytes, watch, page_size, &mut |v| look(v))
    }

    /// Looks at `page` until the answer is the page's. `ahead` says how many pages to fill from a missing page on.
    #[inline(never)]
    pub(crate) fn view<R, F>(
        self,
        page: PageNr,
        look: &mut F,
        ahead: &dyn Fn() -> usize,
    ) -> Result<R, Error>
    where
        F: FnMut(&View<'_>) -> Result<R, Torn>,
    {
        self.0.check_home(Op::View)?;
        let mut backoff = Backoff::new();
        for _ in 0..TRIES {
            match self.look(page, look) {
                Looked::Done(answer) => return Ok(answer),
                Looked::Again => backoff.wait(),
                Looked::Fallback | Looked::TooLong => break,
            }
        }
        let (reference, len) = Lookup(self.0).hold(page, Op::View, ahead)?;
        // While there is a reference to a frame, a slot that names it is of a page with the bytes that it has: they do not change, and the
        // frame is not used for anything else. If the page is in another one by now, or gone, no slot names this one.
        let token = match self.0.index().look(page) {
            Some(seen) if seen.slot.state() == State::Present(reference.frame()) => {
                self.0.origin().token(page, seen)
            }
            _ => self.0.origin().gone(page),
        };
        // If the file ends elsewhere by now, the token has changed already.
        let token = token.of_len(len);
        let watch = OfFile::held(&token);
        let bytes = reference.bytes().slice(0, len);
        match look_at(bytes, watch, self.0.page_size(), &mut |v| look(v)) {
            Looked::Done(answer) => Ok(answer),
            Looked::TooLong => Err(self.malformed(page, true)),
            Looked::Again | Looked::Fallback => Err(self.malformed(page, false)),
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
