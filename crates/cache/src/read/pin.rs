//! Pins: references to pages, as guards that give access to the bytes.

use std::fmt;
use std::ops::Deref;

use pagewell_frame::refcount::{LockBit, RefScheme};
use pagewell_frame::{FrameRef, Hold, OwnedHold};

use crate::base::error::{Error, Op};
use crate::base::page::PageNr;
use crate::mapping::record::Mapping;
use crate::mapping::shared::Shared;
use crate::read::lookup::Lookup;
use crate::read::pinner::Pinner;
use crate::read::raw;

/// A pinned page of a file: derefs to its bytes, which do not change while the guard exists.
///
/// Borrows from its [`File`](crate::File). A pinned page is not evicted; if it is
/// invalidated meanwhile, the guard keeps its bytes.
///
/// For code in C that reads a little past what it was given: the memory after the page can be read too, 4 KiB of it at least, as long as the guard
/// exists. What is there is promised to nobody, and others may be writing it.
pub struct PageGuard<'f, S: RefScheme = LockBit> {
    hold: Hold<'f, S>,
    len: usize,
}

/// A pinned page of a file: as [`PageGuard`], without the borrow.
///
/// The bytes stay as they are while the guard exists, whatever becomes of the page, of the file and of the cache: it keeps the memory that they are
/// in. It does not keep the file open: that is closed when its last handle goes ([`File`](crate::File)).
pub struct OwnedPageGuard<S: RefScheme = LockBit> {
    hold: OwnedHold<Shared<S>>,
    len: usize,
}

/// A reference to the frame of `page`, and how many bytes of it the file has.
///
/// In line: what is returned in memory, and stored and loaded there in pieces of other sizes, the processor waits for.
#[inline(always)]
fn pin<S: RefScheme>(
    mapping: &Mapping<S>,
    page: PageNr,
) -> Result<(FrameRef<'_, S>, usize), Error> {
    mapping.check_home(Op::Pin)?;
    Lookup(mapping).hold(page, Op::Pin, &|| 1)
}

impl<'f, S: RefScheme> PageGuard<'f, S> {
    /// A pin that is announced, if those of the page may be: nothing that threads share is written.
    #[inline(always)]
    pub(crate) fn announced(mapping: &'f Mapping<S>, page: PageNr) -> Option<Self> {
        let (hold, len) = Pinner(mapping).announced(page)?;
        Some(Self { hold, len })
    }

    /// A pin that is counted. If the page is pinned again and again, the next ones may be announced.
    pub(crate) fn new(mapping: &'f Mapping<S>, page: PageNr) -> Result<Self, Error> {
        let (reference, len) = pin(mapping, page)?;
        Pinner(mapping).note_counted(page, &reference);
        let hold = reference.into();
        Ok(Self { hold, len })
    }

    /// A pin that is counted, and nothing else: the baseline.
    #[cfg(feature = "baselines")]
    pub(crate) fn counted(mapping: &'f Mapping<S>, page: PageNr) -> Result<Self, Error> {
        let (reference, len) = pin(mapping, page)?;
        let hold = reference.into();
        Ok(Self { hold, len })
    }
}

#[cfg(feature = "baselines")]
impl<S: RefScheme> PageGuard<'_, S> {
    /// Whether the pin is announced in memory of the thread that has made it, and not counted: for tests and benchmarks.
    pub fn is_announced(&self) -> bool {
        self.hold.is_announced()
    }
}

impl<S: RefScheme> OwnedPageGuard<S> {
    /// As [`PageGuard::announced`].
    #[inline(always)]
    pub(crate) fn announced(mapping: &Mapping<S>, page: PageNr) -> Option<Self> {
        let (hold, len) = Pinner(mapping).announced_owned(page)?;
        Some(Self { hold, len })
    }

    /// As [`PageGuard::new`].
    pub(crate) fn new(mapping: &Mapping<S>, page: PageNr) -> Result<Self, Error> {
        let (reference, len) = pin(mapping, page)?;
        Ok(Self::of(mapping, page, reference, len))
    }

    /// A guard of `page`, which has `len` bytes, by a counted reference to its frame. If the page is pinned again and again, the next ones may be
    /// announced.
    pub(crate) fn of(
        mapping: &Mapping<S>,
        page: PageNr,
        reference: FrameRef<'_, S>,
        len: usize,
    ) -> Self {
        Pinner(mapping).note_counted(page, &reference);
        let hold = raw::owned_counted(mapping, reference);
        Self { hold, len }
    }

    /// As [`PageGuard::counted`].
    #[cfg(feature = "baselines")]
    pub(crate) fn counted(mapping: &Mapping<S>, page: PageNr) -> Result<Self, Error> {
        let (reference, len) = pin(mapping, page)?;
        let hold = raw::owned_counted(mapping, reference);
        Ok(Self { hold, len })
    }
}

#[cfg(feature = "baselines")]
impl<S: RefScheme> OwnedPageGuard<S> {
    /// Whether the pin is announced in memory of the thread that has made it, and not counted: for tests and benchmarks.
    pub fn is_announced(&self) -> bool {
        self.hold.is_announced()
    }
}

impl<S: RefScheme> Deref for PageGuard<'_, S> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        raw::pinned_slice(self.hold.pool(), self.hold.frame(), self.len)
    }
}

impl<S: RefScheme> Deref for OwnedPageGuard<S> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        raw::pinned_slice(self.hold.pool(), self.hold.frame(), self.len)
    }
}

impl<S: RefScheme> AsRef<[u8]> for PageGuard<'_, S> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<S: RefScheme> AsRef<[u8]> for OwnedPageGuard<S> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<S: RefScheme> fmt::Debug for PageGuard<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageGuard({} bytes)", self.len)
    }
}

impl<S: RefScheme> fmt::Debug for OwnedPageGuard<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnedPageGuard({} bytes)", self.len)
    }
}
