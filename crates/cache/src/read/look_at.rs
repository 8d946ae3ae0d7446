//! One attempt of a view with its outcome, shared by views of files and of memory spaces.

use pagewell_sync::bytes::RacySource;

use crate::read::look::{Look, STEP, Torn, WatchedWords, is_as_it_was};
use crate::read::page_view::PageView;

/// Outcome of an attempt.
#[derive(Debug)]
#[must_use]
pub enum Looked<R> {
    /// Result of the closure, from consistent bytes of the page.
    Done(R),
    /// Without a reference: the page was changing, or the closure made too many accesses.
    Again,
    /// Without a reference: the attempt had no result, and one with a reference must decide. With a
    /// reference: the page's contents are inconsistent.
    Fallback,
    /// With a reference: the closure made more than this number of accesses.
    TooLong(u64),
}

/// Makes one attempt on `bytes`, a page of `page_size` bytes or a part of it.
#[inline(always)]
pub fn look_at<'v, R>(
    bytes: RacySource<'v>,
    words: WatchedWords<'v>,
    page_size: usize,
    look: impl FnOnce(PageView<'_>) -> Result<R, Torn>,
) -> Looked<R> {
    let one = Look::new(words, page_size);
    let answer = look(PageView::new(bytes, &one));
    // The words by value, not those of `one`, whose address the closure may have passed on: so a
    // caller without a second word has no code for it.
    match (!one.has_failed() && is_as_it_was(words), answer) {
        (true, Ok(answer)) => Looked::Done(answer),
        (true, Err(Torn)) => Looked::Fallback,
        (false, _) if words[0].is_none() => Looked::TooLong(u64::from(STEP) * page_size as u64),
        (false, _) => Looked::Again,
    }
}
