//! One attempt of a view with its outcome, shared by views of files and of memory spaces.

use pagewell_sync::bytes::RacySource;

use super::attempt::{Attempt, STEP, Torn, WatchedWords, is_as_it_was};
use super::page_view::PageView;

/// Outcome of an attempt.
#[derive(Debug)]
#[must_use]
pub enum ViewOutcome<R> {
    /// Result of the closure, from consistent bytes of the page.
    Done(R),
    /// Without a reference: the page was changing, or the closure made too many accesses.
    Again,
    /// Without a reference: the attempt had no result, and one with a reference must decide. With a
    /// reference: the page's contents are inconsistent.
    Fallback,
    /// With a reference: the closure did not return within this number of accesses, or within a
    /// number of checks that is the page's size in bytes.
    TooLong(u64),
}

/// Makes one attempt on `bytes`, a page of `page_size` bytes or a part of it.
///
/// The caller has loaded the values of `words` by acquire loads. A thread that overwrites the page
/// first changes a word, and then executes a release fence; no word returns to an earlier value
/// during the attempt. With a reference to the page, which prevents changes of the bytes, both
/// words are `None`.
///
/// After every 64 accesses the attempt checks the words, and it makes at most `page_size` checks.
/// After a check that fails, all accesses fail; so the attempt ends if `look` returns on [`Torn`].
#[inline(always)]
pub fn attempt_view<'v, R, F>(
    bytes: RacySource<'v>,
    words: WatchedWords<'v>,
    page_size: usize,
    look: &mut F,
) -> ViewOutcome<R>
where
    F: FnMut(PageView<'_>) -> Result<R, Torn>,
{
    let attempt = Attempt::new(words, page_size);
    let answer = look(PageView::new(bytes, &attempt));
    // The words by value, not those of `attempt`, which may be in memory: for a caller without a
    // second word, no code checks one.
    match (!attempt.has_failed() && is_as_it_was(words), answer) {
        (true, Ok(answer)) => ViewOutcome::Done(answer),
        (true, Err(Torn)) => ViewOutcome::Fallback,
        (false, _) if words[0].is_none() => {
            ViewOutcome::TooLong(u64::from(STEP) * page_size as u64)
        }
        (false, _) => ViewOutcome::Again,
    }
}
