//! A look with its outcome: what views of files and of memory spaces have in common.

use pagewell_sync::bytes::RacySource;

use crate::read::look::{Look, Torn, Watch};
use crate::read::view::View;

/// The outcome of a look.
#[derive(Debug)]
#[must_use]
pub enum Looked<R> {
    /// The answer, which is of the page.
    Done(R),
    /// The page was changing.
    Again,
    /// A look with a reference has to decide; or, if this one had a reference, the page leads nowhere.
    Fallback,
    /// It has lasted too long, with a reference.
    TooLong,
}

/// One look at the bytes of a page of so many bytes, or at a part of it, which `watch` watches.
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
