//! Pins: by a hazard, or by a counted reference.
//!
//! A hazard pin publishes its frame in a hazard slot, in a cache line of the thread's own. It
//! requires that the frame is *protected*: one counted reference then stands for all hazards of the
//! frame, so no thread can freeze it at a count of one. A thread that cannot freeze the frame
//! *queries* it: the next scan drops this reference, unless a hazard slot names the frame.
//!
//! # Protocol
//!
//! ```text
//! pin by a hazard                           write, eviction, truncation or move of the page
//! 1 load the slot: hot (acquire)            a claim the slot (`busy`)
//! 2 if the frame is protected, publish it   b freeze the frame at a count of one: fails while
//!                                             the frame is protected
//! 3 light fence; still protected?           c if it fails, copy to another frame, or let the
//!   (acquire)                                 page stay
//! 4 load the file's size                    d end the claim: new version, or as before
//! 5 reload the slot: unchanged?             e retire the frame: no more hazards; a scan frees it
//!                                             when there are none
//! ```
//!
//! The module `announce` of the frame crate shows that the frame keeps its bytes while the pin
//! exists. Steps 1 and 5 show that the frame is the page's: the word of a present slot does not
//! repeat, so the page was in this frame while step 3 loaded the protection and step 4 the size.
//!
//! A thread that has pinned a page often by counted pins protects the frame, under the claim of the
//! page's slot. So while a claim is held, no other thread protects the frame, but a scan may end
//! its protection ([`pagewell_frame::FrameMeta::is_marked`]).
//!
//! A counted pin executes step 1, acquires a reference and executes steps 4 and 5
//! ([`Lookup::check`]).
//!
//! A pin is counted if the page is missing, not hot or past the end of the file, if its slot has
//! changed by step 5, if its frame is not protected, or if no hazard slot is left.
//!
//! Verified by `loom_announced_pin_vs_write`, `loom_announced_pin_vs_evict`,
//! `loom_announced_pin_vs_cut`, `loom_announced_pin_vs_move`; the litmus tests `announce-*`; the
//! mutants `announce-*`, `emptied-without-retiring`.

use std::fmt;
use std::ops::Deref;

use pagewell_frame::{FrameNr, FrameRef, Hold, OwnedHold, Protected, TryGetFrame};

use crate::base::error::{Error, Op};
use crate::base::page::PageNr;
use crate::base::slot::State;
use crate::index::file_index::Seen;
use crate::mapping::record::Mapping;
use crate::mapping::shared::Shared;
use crate::read::lookup::{Found, Lookup};
use crate::read::raw;

/// Page whose slot was hot when it was loaded.
#[derive(Clone, Copy, Debug)]
struct Hot<'m> {
    page: PageNr,
    seen: Seen<'m>,
}

impl Hot<'_> {
    #[inline(always)]
    const fn frame(self) -> FrameNr {
        FrameNr::new(self.seen.slot.frame())
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pinner<'m>(pub(crate) &'m Mapping);

impl<'m> Pinner<'m> {
    /// Returns a hazard of `page` and the number of the page's bytes within the file, or `None` if
    /// the pin must be counted.
    #[inline(always)]
    pub(crate) fn announced(self, page: PageNr) -> Option<(Hold<'m>, usize)> {
        let hot = self.hot(page)?;
        self.announce(hot, self.0.pool().protected(hot.frame())?)
    }

    /// Pins `page` by a hazard if its frame is protected, else by a counted reference. On `None`,
    /// for any reason, the caller looks the page up ([`Lookup`]). Hooks may call it, since it waits
    /// for nothing.
    #[inline(always)]
    pub(crate) fn pin(self, page: PageNr) -> Option<(Hold<'m>, usize)> {
        let hot = self.hot(page)?;
        if let Some(frame) = self.0.pool().protected(hot.frame()) {
            return self.announce(hot, frame);
        }
        let (reference, len) = self.try_get(hot)?;
        self.note_counted(page, &reference);
        Some((reference.into(), len))
    }

    /// Pins `page` by a counted reference, and records nothing. On `None`, for any reason, the
    /// caller looks the page up.
    #[inline(always)]
    pub(crate) fn counted(self, page: PageNr) -> Option<(FrameRef<'m>, usize)> {
        self.try_get(self.hot(page)?)
    }

    #[inline(always)]
    pub(crate) fn announced_owned(self, page: PageNr) -> Option<(OwnedHold<Shared>, usize)> {
        let hot = self.hot(page)?;
        let mut rest = 0;
        let is_still = || self.is_still(hot, &mut rest);
        let hold = raw::try_announce_owned(self.0, hot.frame(), is_still)?;
        Some((hold, self.len(rest)))
    }

    #[inline(always)]
    fn announce(self, hot: Hot<'_>, frame: Protected<'m>) -> Option<(Hold<'m>, usize)> {
        let mut rest = 0;
        let is_still = || self.is_still(hot, &mut rest);
        let hold = frame.try_announce(is_still)?;
        Some((hold, self.len(rest)))
    }

    /// Acquires a counted reference, as a lookup does.
    #[inline(always)]
    fn try_get(self, hot: Hot<'_>) -> Option<(FrameRef<'m>, usize)> {
        let TryGetFrame::Taken(reference) = self.0.pool().try_get(hot.frame()) else {
            return None;
        };
        let Found { reference, end } = Lookup(self.0).check(hot.seen, reference)?;
        let rest = self.rest(hot, end);
        (rest != 0).then(|| (reference, self.len(rest)))
    }

    /// Executes step 1: returns the slot of `page` if it is hot.
    #[inline(always)]
    fn hot(self, page: PageNr) -> Option<Hot<'m>> {
        // In a fork, the lookup returns the error.
        if !self.0.shared.home.is_here() {
            return None;
        }
        let seen = self.0.index().look(page)?;
        seen.slot.is_hot().then_some(Hot { page, seen })
    }

    /// Executes steps 4 and 5, and stores the number of bytes from the start of the page to the end
    /// of the file.
    #[inline(always)]
    fn is_still(self, hot: Hot<'_>, rest: &mut u64) -> bool {
        // 4.
        *rest = self.rest(hot, self.0.size());
        // 5. Both loads acquire, so this one follows that of step 4.
        *rest != 0 && hot.seen.is_unchanged()
    }

    /// Returns the number of bytes from the start of the page to `end`.
    #[inline(always)]
    fn rest(self, hot: Hot<'_>, end: u64) -> u64 {
        // The shift does not overflow: an index has no slots beyond `MAX_FILE_BYTES`.
        end.saturating_sub(hot.page << self.0.page_shift())
    }

    #[inline(always)]
    fn len(self, rest: u64) -> usize {
        rest.min(self.0.page_size() as u64) as usize
    }

    /// Records a counted pin. If this thread pins `page` often, protects the frame for later pins.
    #[inline(always)]
    pub(crate) fn note_counted(self, page: PageNr, reference: &FrameRef<'_>) {
        if self.0.pool().note_counted(reference) {
            self.mark(page, reference);
        }
    }

    /// Protects the frame of `reference`, unless `page` is no longer in it or the slot is claimed.
    #[cold]
    pub(crate) fn mark(self, page: PageNr, reference: &FrameRef<'_>) {
        let Some(seen) = self.0.index().look(page) else {
            return;
        };
        if seen.slot.state() == State::Present(reference.frame())
            && let Some(claim) = seen.claim_present(self.0.claims())
        {
            self.0.pool().mark(reference);
            drop(claim);
        }
    }
}

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
