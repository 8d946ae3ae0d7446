//! View of a page of a file, with tokens.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Deref, Range};

use pagewell_frame::{PageView, Torn, WatchedWords};

use crate::base::page::PageNr;
use crate::index::file_index::Seen;
use crate::index::token::{Origin, Token};

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
