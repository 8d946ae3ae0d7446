//! Pins: the bytes of a page where they are, as they were when it was pinned.
//!
//! Protocol. A pin claims the entry, takes a reference to the frame, and takes the mark off that the page may be written
//! where it is. So the next write asks ([`crate::words::cow`]), finds the reference, and writes to a copy; the pinned bytes
//! stay what they are, and nobody waits for anybody. A page that is pinned is not migrated: its first walk takes the
//! entries, after which there are no new pins, and then finds the reference.
//!
//! In an area that shows a file, a page that is not a copy is pinned in the cache: a reference to the frame that the file
//! has it in, which a write to the file leaves to the pin.
//!
//! P1: a pin's reference was taken under the claim of an entry that named the frame; so whoever has claimed all entries
//! since, or the only one, sees it.

use std::fmt;
#[cfg(not(loom))]
use std::ops::Deref;
use std::sync::Arc;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameNr, FrameRef, TryGetFrame};
use pagewell_sync::read;
use pagewell_sync::thread::Backoff;

use crate::access::fault::Faulter;
use crate::access::files::{Copied, Fault, FileAccess};
use crate::error::{Error, ErrorKind, Op};
use crate::mm::shared::Shared;
use crate::mm::space::Mm;
use crate::supply::raw;
use crate::words::claim::{Claim, look};
use crate::words::directory::Directory;
use crate::words::geometry::{entry_of, offset_in_page, page_bytes};
use crate::words::pte::State;

/// Bytes of a page of a space, which do not change for as long as this exists.
pub struct Pin<'s, S: RefScheme> {
    reference: FrameRef<'s, S>,
    shared: &'s Arc<Shared<S>>,
    off: usize,
    len: usize,
}

/// As [`Pin`], for keeping.
pub struct OwnedPin<S: RefScheme> {
    shared: Arc<Shared<S>>,
    frame: FrameNr,
    off: usize,
    len: usize,
}

/// What came of trying to pin.
enum Tried<'s, S: RefScheme> {
    Pinned(FrameRef<'s, S>, usize),
    /// The page was never written.
    Zeros,
    /// The page is one of a file, and not in the cache.
    Missing(Fault<S>),
}

/// Pins pages of a space.
#[derive(Clone, Copy)]
pub(crate) struct Pinner<'m, S: RefScheme> {
    mm: &'m Arc<Mm<S>>,
}

impl<'m, S: RefScheme> Pinner<'m, S> {
    #[inline(always)]
    pub(crate) fn of(mm: &'m Arc<Mm<S>>) -> Self {
        Self { mm }
    }

    /// Pins the `len` bytes from `addr` on.
    pub(crate) fn pin(self, addr: u64, len: usize) -> Result<Pin<'m, S>, Error> {
        let (reference, off) = self.pin_frame(addr, len)?;
        Ok(Pin {
            reference,
            shared: &self.mm.shared,
            off,
            len,
        })
    }

    /// The reference of a pin, and where its bytes begin.
    pub(crate) fn pin_frame(
        self,
        addr: u64,
        len: usize,
    ) -> Result<(FrameRef<'m, S>, usize), Error> {
        loop {
            let fault = match self.mm.with_room(|| self.try_pin::<true>(addr, len))? {
                Tried::Pinned(reference, off) => return Ok((reference, off)),
                // It is never that: such a page is made.
                Tried::Zeros => continue,
                Tried::Missing(fault) => fault,
            };
            let failed = |kind| Error::at(kind, Op::Pin, addr);
            let _held = fault.hold(len).map_err(failed)?;
            if let Tried::Pinned(reference, off) = self.try_pin::<true>(addr, len)? {
                return Ok((reference, off));
            }
        }
    }

    /// As [`pin_frame`](Self::pin_frame); none if the page was never written, so that the bytes are zeros, at a moment of the call.
    pub(crate) fn pin_frame_if_any(
        self,
        addr: u64,
        len: usize,
    ) -> Result<Option<(FrameRef<'m, S>, usize)>, Error> {
        loop {
            let fault = match self.mm.with_room(|| self.try_pin::<false>(addr, len))? {
                Tried::Pinned(reference, off) => return Ok(Some((reference, off))),
                Tried::Zeros => return Ok(None),
                Tried::Missing(fault) => fault,
            };
            let failed = |kind| Error::at(kind, Op::Pin, addr);
            let _held = fault.hold(len).map_err(failed)?;
            match self.try_pin::<false>(addr, len)? {
                Tried::Pinned(reference, off) => return Ok(Some((reference, off))),
                Tried::Zeros => return Ok(None),
                Tried::Missing(_) => {}
            }
        }
    }

    /// Pins, but for getting pages of files. A page that was never written is made if `MAKE`: a parameter that the compiler knows, so
    /// that a pin is compiled as if there were no other kind.
    fn try_pin<const MAKE: bool>(self, addr: u64, len: usize) -> Result<Tried<'m, S>, Error> {
        let failed = |kind| Error::at(kind, Op::Pin, addr);
        let mut backoff = Backoff::new();
        loop {
            let areas = read(&self.mm.structure);
            let area = areas
                .area_of(addr)
                .ok_or_else(|| failed(self.mm.unmapped(addr)))?;
            if !area.protection.allows_reads() {
                return Err(failed(ErrorKind::Protected));
            }
            let order = u32::from(area.order.get());
            let off = offset_in_page(addr, order);
            if len as u64 > page_bytes(order) - off as u64 {
                return Err(failed(ErrorKind::Misaligned));
            }
            let pmd_word = self
                .mm
                .tables
                .pmd_word(addr)
                .ok_or_else(|| failed(ErrorKind::InvalidRange))?;
            let Some(table) = self.mm.shared.tables().hold(pmd_word) else {
                if let Some(file) = &area.file {
                    let is_absent = || !Directory::look(pmd_word).is_present();
                    let pinned = FileAccess::of(self.mm).pin(file, addr, len, is_absent);
                    match pinned.map_err(failed)? {
                        Copied::Done(reference) => return Ok(Tried::Pinned(reference, off)),
                        Copied::Again => backoff.wait(),
                        Copied::Missing(fault) => return Ok(Tried::Missing(fault)),
                    }
                    continue;
                }
                if !MAKE {
                    return Ok(Tried::Zeros);
                }
                Faulter::of(self.mm).make_page(area, addr).map_err(failed)?;
                continue;
            };
            let word = self.mm.tables.entry(table.pmd, entry_of(addr, order));
            let entry = look(word);
            match entry.state() {
                State::Empty => {
                    if let Some(file) = &area.file {
                        let is_absent =
                            || look(word) == entry && Directory::look(pmd_word) == table.pmd;
                        let pinned = FileAccess::of(self.mm).pin(file, addr, len, is_absent);
                        match pinned.map_err(failed)? {
                            Copied::Done(reference) => return Ok(Tried::Pinned(reference, off)),
                            Copied::Again => backoff.wait(),
                            Copied::Missing(fault) => return Ok(Tried::Missing(fault)),
                        }
                        continue;
                    }
                    if !MAKE {
                        // As in a slow read: it was this space's table when the entry was empty.
                        if Directory::look(pmd_word) == table.pmd {
                            return Ok(Tried::Zeros);
                        }
                        backoff.wait();
                        continue;
                    }
                    drop(table);
                    Faulter::of(self.mm).make_page(area, addr).map_err(failed)?;
                }
                State::Migration(_) => {
                    let pmd = table.pmd;
                    drop(table);
                    drop(areas);
                    self.mm
                        .shared
                        .tables()
                        .wait_for_migration((pmd_word, pmd), (word, entry));
                }
                State::Present(frame) => {
                    let Some(claim) = Claim::try_new(word, entry) else {
                        continue;
                    };
                    // The claim sees what the last one did, and with it the change of the directory, if the table
                    // became somebody else's before.
                    if Directory::look(pmd_word) != table.pmd {
                        continue;
                    }
                    let reference = match self.mm.shared.pool().try_get(frame) {
                        TryGetFrame::Taken(reference) => reference,
                        // The frames of pages are never locked while entries name them.
                        TryGetFrame::Locked | TryGetFrame::Saturated => {
                            return Err(failed(ErrorKind::TooManyPins));
                        }
                    };
                    if entry.is_writable() {
                        claim.end(entry.shared());
                    }
                    return Ok(Tried::Pinned(reference, off));
                }
                State::Busy => backoff.wait(),
            }
        }
    }
}

impl<S: RefScheme> Pin<'_, S> {
    /// The pin for keeping, independent of the space.
    pub fn into_owned(self) -> OwnedPin<S> {
        let shared = Arc::clone(self.shared);
        OwnedPin {
            shared,
            frame: self.reference.into_raw(),
            off: self.off,
            len: self.len,
        }
    }
}

impl<S: RefScheme> Drop for OwnedPin<S> {
    fn drop(&mut self) {
        drop(raw::pins_reference(self.shared.pool(), self.frame));
    }
}

#[cfg(not(loom))]
impl<S: RefScheme> Deref for Pin<'_, S> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        raw::pinned_slice(
            self.reference.pool(),
            self.reference.frame(),
            self.off,
            self.len,
        )
    }
}

#[cfg(not(loom))]
impl<S: RefScheme> Deref for OwnedPin<S> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        raw::pinned_slice(self.shared.pool(), self.frame, self.off, self.len)
    }
}

impl<S: RefScheme> fmt::Debug for Pin<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pin")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl<S: RefScheme> fmt::Debug for OwnedPin<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedPin")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}
