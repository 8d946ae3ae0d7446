//! Pins: references to pages, as guards that give access to the bytes.

use std::fmt;
use std::ops::Deref;

use pagewell_frame::{FrameRef, Hold, OwnedHold};

use crate::base::error::{Error, Op};
use crate::base::page::PageNr;
use crate::mapping::record::Mapping;
use crate::mapping::shared::Shared;
use crate::read::lookup::Lookup;
use crate::read::pinner::Pinner;
use crate::read::raw;

/// Pinned page of a file. Dereferences to its bytes, which do not change while the guard exists.
///
/// Borrows from its [`File`](crate::File). A pinned page is not evicted. If it is invalidated, the
/// guard keeps its bytes.
///
/// For C code that reads a little past the end of its input, at least 4 KiB of memory after the
/// page are readable too while the guard exists. Their contents are unspecified, and may change.
pub struct PageGuard<'f> {
    hold: Hold<'f>,
    len: usize,
}

/// Pinned page of a file: a [`PageGuard`] without a lifetime parameter.
///
/// The bytes do not change while the guard exists, whatever happens to the page, the file and the
/// cache: the guard keeps the memory that contains them. It does not keep the file open.
pub struct OwnedPageGuard {
    hold: OwnedHold<Shared>,
    len: usize,
}

/// Returns a reference to the frame of `page`, and the number of the page's bytes within the file.
#[cold]
#[inline(never)]
fn look_up(mapping: &Mapping, page: PageNr) -> Result<(FrameRef<'_>, usize), Error> {
    mapping.check_home(Op::Pin)?;
    Lookup(mapping).hold(page, Op::Pin, &|| 1)
}

/// As [`look_up`], of pages that are probably hot. Inlined: a result stored and loaded in pieces of
/// different sizes stalls the processor.
#[inline(always)]
fn pin_counted(mapping: &Mapping, page: PageNr) -> Result<(FrameRef<'_>, usize), Error> {
    match Pinner(mapping).counted(page) {
        Some(pinned) => Ok(pinned),
        None => look_up(mapping, page),
    }
}

impl<'f> PageGuard<'f> {
    /// Pins a page by a hazard. Returns `None` if the pin must be counted.
    #[inline(always)]
    pub(crate) fn announced(mapping: &'f Mapping, page: PageNr) -> Option<Self> {
        let (hold, len) = Pinner(mapping).announced(page)?;
        Some(Self { hold, len })
    }

    /// Pins a page that is hot, by a hazard or a counted reference. On `None`, for any reason, the
    /// caller calls [`new`](Self::new).
    #[inline(always)]
    pub(crate) fn of_hot(mapping: &'f Mapping, page: PageNr) -> Option<Self> {
        let (hold, len) = Pinner(mapping).pin(page)?;
        Some(Self { hold, len })
    }

    /// Pins a page by a counted reference. After many such pins, later ones may use hazards.
    pub(crate) fn new(mapping: &'f Mapping, page: PageNr) -> Result<Self, Error> {
        let (reference, len) = look_up(mapping, page)?;
        Pinner(mapping).note_counted(page, &reference);
        let hold = reference.into();
        Ok(Self { hold, len })
    }

    /// Pins by a counted reference only: the baseline.
    #[cfg(feature = "baselines")]
    #[inline]
    pub(crate) fn counted(mapping: &'f Mapping, page: PageNr) -> Result<Self, Error> {
        let (reference, len) = pin_counted(mapping, page)?;
        let hold = reference.into();
        Ok(Self { hold, len })
    }
}

#[cfg(feature = "baselines")]
impl PageGuard<'_> {
    /// Whether the pin is a hazard, for tests and benchmarks.
    pub fn is_announced(&self) -> bool {
        self.hold.is_announced()
    }
}

impl OwnedPageGuard {
    #[inline(always)]
    pub(crate) fn announced(mapping: &Mapping, page: PageNr) -> Option<Self> {
        let (hold, len) = Pinner(mapping).announced_owned(page)?;
        Some(Self { hold, len })
    }

    pub(crate) fn new(mapping: &Mapping, page: PageNr) -> Result<Self, Error> {
        let (reference, len) = pin_counted(mapping, page)?;
        Ok(Self::of(mapping, page, reference, len))
    }

    pub(crate) fn of(mapping: &Mapping, page: PageNr, reference: FrameRef<'_>, len: usize) -> Self {
        Pinner(mapping).note_counted(page, &reference);
        let hold = raw::owned_counted(mapping, reference);
        Self { hold, len }
    }

    #[cfg(feature = "baselines")]
    #[inline]
    pub(crate) fn counted(mapping: &Mapping, page: PageNr) -> Result<Self, Error> {
        let (reference, len) = pin_counted(mapping, page)?;
        let hold = raw::owned_counted(mapping, reference);
        Ok(Self { hold, len })
    }
}

#[cfg(feature = "baselines")]
impl OwnedPageGuard {
    /// Whether the pin is a hazard, for tests and benchmarks.
    pub fn is_announced(&self) -> bool {
        self.hold.is_announced()
    }
}

impl Deref for PageGuard<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        raw::pinned_slice(self.hold.pool(), self.hold.frame(), self.len)
    }
}

impl Deref for OwnedPageGuard {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        raw::pinned_slice(self.hold.pool(), self.hold.frame(), self.len)
    }
}

impl AsRef<[u8]> for PageGuard<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsRef<[u8]> for OwnedPageGuard {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for PageGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageGuard({} bytes)", self.len)
    }
}

impl fmt::Debug for OwnedPageGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnedPageGuard({} bytes)", self.len)
    }
}
