//! One attempt of a view with its outcome, shared by views of files and of memory spaces.

use pagewell_sync::bytes::RacySource;

use crate::read::look::{Look, Torn, Watch};
use crate::read::view::View;

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
    /// With a reference: the closure made too many accesses.
    TooLong,
}

/// Makes one attempt on `bytes`, a page of `page_size` bytes or a part of it.
#[inline(always)]
pub fn look_at<'v, R, W, F>(
    bytes: RacySource<'v>,
    watch: W,
    page_size: usize,
    look: &mut F,
) -> Looked<R>
where
    W: Watch,
    F: FnMut(&View<'_, W>) -> Result<R, Torn>,
{
    let one = Look::new(watch, page_size);
    let answer = look(&View::new(bytes, &one));
    match (one.is_whole(), answer) {
        (true, Ok(answer)) => Looked::Done(answer),
        (true, Err(Torn)) => Looked::Fallback,
        (false, _) if watch.words().is_none() => Looked::TooLong,
        (false, _) => Looked::Again,
    }
}
