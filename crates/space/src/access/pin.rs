//! Pins: bytes of a page in place, as they were when it was pinned.
//!
//! A pin claims the entry, takes a reference to the frame, and clears the writable bit, so a later
//! write finds the reference and goes to a copy. A pinned page is not migrated: the first walk
//! prevents new pins, and a later step finds earlier ones.
//!
//! A page of a file without a private copy is pinned in the cache: a write to the file then
//! replaces the frame to which the pin has a reference.
//!
//! P1: a pin acquires its reference under the claim of an entry that names the frame. A thread that
//! later claims all entries of the page, or its only one, sees the reference.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use pagewell_frame::{FrameNr, FrameRef, TryGetFrame};
use pagewell_sync::read;
use pagewell_sync::thread::Backoff;

use crate::access::files::{Copied, Fault};
use crate::error::{Error, ErrorKind, Op};
use crate::mm::space::{Shared, Space};
use crate::supply::view;
use crate::words::claim::{Claim, look};
use crate::words::geometry::{entry_of, offset_in_page, page_bytes};
use crate::words::pmd::Directory;
use crate::words::pte::State;

/// Bytes of a page of a space, which do not change while this value exists.
pub struct Pin<'s> {
    reference: FrameRef<'s>,
    shared: &'s Arc<Shared>,
    off: usize,
    len: usize,
}

/// [`Pin`] that keeps the frames of its space alive, instead of borrowing the space.
pub struct OwnedPin {
    shared: Arc<Shared>,
    frame: FrameNr,
    off: usize,
    len: usize,
}

enum Tried<'s> {
    Pinned(FrameRef<'s>, usize),
    /// The page was never written.
    Zeros,
    Missing(Fault),
}

impl Space {
    /// Pins the `len` bytes at `addr`, in one page. While the pin exists, writes go to a copy of
    /// the page.
    ///
    /// # Errors
    ///
    /// [`ErrorKind`]: `Misaligned` if the bytes are in several pages; `OutOfFrames` if the page was
    /// never written and no frame is free for its zeros; `Unmapped`, `Protected`, `InvalidRange`,
    /// `TooManyEntries` or `TooManyPins`. Where a file is mapped, `PastEnd` past its end, and
    /// `File` if it cannot be read.
    #[inline]
    pub fn pin(&self, addr: u64, len: usize) -> Result<Pin<'_>, Error> {
        let (reference, off) = self.pin_frame(addr, len)?;
        Ok(Pin {
            reference,
            shared: &self.mm.shared,
            off,
            len,
        })
    }

    /// Acquires the reference of a pin. Returns it, and the offset of the bytes in the page.
    #[inline(always)]
    pub(crate) fn pin_frame(&self, addr: u64, len: usize) -> Result<(FrameRef<'_>, usize), Error> {
        loop {
            let fault = match self.mm.with_room(|| self.try_pin::<true>(addr, len))? {
                Tried::Pinned(reference, off) => return Ok((reference, off)),
                // Impossible: `try_pin` creates such a page.
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

    /// As [`pin_frame`](Self::pin_frame), but creates no page. Returns `None` if, at a moment
    /// during the call, the page had never been written: the bytes are zeros.
    pub(crate) fn pin_frame_if_any(
        &self,
        addr: u64,
        len: usize,
    ) -> Result<Option<(FrameRef<'_>, usize)>, Error> {
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

    /// Pins the bytes, without fills of files. If `MAKE`, creates a page that was never written.
    #[inline]
    fn try_pin<const MAKE: bool>(&self, addr: u64, len: usize) -> Result<Tried<'_>, Error> {
        let failed = |kind| Error::at(kind, Op::Pin, addr);
        let supply = &self.mm.shared.supply;
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
            let Some(table) = supply.hold_table(pmd_word) else {
                if let Some(file) = &area.file {
                    let is_absent = || !Directory::look(pmd_word).is_present();
                    let pinned = self.mm.pin_file(file, addr, len, is_absent);
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
                self.mm.make_page(area, addr).map_err(failed)?;
                continue;
            };
            let word = self.mm.tables.entry(table.pmd, entry_of(addr, order));
            let entry = look(word);
            match entry.state() {
                State::Empty => {
                    if let Some(file) = &area.file {
                        let is_absent =
                            || look(word) == entry && Directory::look(pmd_word) == table.pmd;
                        let pinned = self.mm.pin_file(file, addr, len, is_absent);
                        match pinned.map_err(failed)? {
                            Copied::Done(reference) => return Ok(Tried::Pinned(reference, off)),
                            Copied::Again => backoff.wait(),
                            Copied::Missing(fault) => return Ok(Tried::Missing(fault)),
                        }
                        continue;
                    }
                    if !MAKE {
                        // The directory still names the table: the empty entry was this space's.
                        if Directory::look(pmd_word) == table.pmd {
                            return Ok(Tried::Zeros);
                        }
                        backoff.wait();
                        continue;
                    }
                    drop(table);
                    self.mm.make_page(area, addr).map_err(failed)?;
                }
                State::Migration(_) => {
                    let pmd = table.pmd;
                    drop(table);
                    drop(areas);
                    supply.wait_for_migration((pmd_word, pmd), (word, entry));
                }
                State::Present(frame) => {
                    let Some(claim) = Claim::try_new(word, entry) else {
                        continue;
                    };
                    // Detects that the table now belongs to another space (`Mm::read_locked`).
                    if Directory::look(pmd_word) != table.pmd {
                        continue;
                    }
                    let reference = match supply.pool().try_get(frame) {
                        TryGetFrame::Taken(reference) => reference,
                        // An entry names the frame, so it is not locked: its count is at the limit.
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

impl Pin<'_> {
    /// Converts the pin to one that is independent of the space's lifetime.
    pub fn into_owned(self) -> OwnedPin {
        let shared = Arc::clone(self.shared);
        OwnedPin {
            shared,
            frame: self.reference.into_raw(),
            off: self.off,
            len: self.len,
        }
    }
}

impl Drop for OwnedPin {
    fn drop(&mut self) {
        drop(view::pins_reference(self.shared.pool(), self.frame));
    }
}

impl Deref for Pin<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        view::pinned_slice(
            self.reference.pool(),
            self.reference.frame(),
            self.off,
            self.len,
        )
    }
}

impl Deref for OwnedPin {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        view::pinned_slice(self.shared.pool(), self.frame, self.off, self.len)
    }
}

impl fmt::Debug for Pin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pin")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for OwnedPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedPin")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}
