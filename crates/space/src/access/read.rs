//! Reads that are too long for the inlined path, or are not hits.
//!
//! A read of each page first tries an optimistic read ([`crate::access::optimistic`]), then the
//! file that is noted for its address ([`crate::access::files`]), then the slow read. The slow read
//! holds the structure lock, and a reference to the table if there is one, and claims the entry if
//! that is present. A page that was never written is read as zeros, or from the area's file
//! ([`Mm::read_absent`]). At a migration entry, the slow read releases all locks and waits.
//!
//! Verified by `loom_wait_vs_table_reuse`, `loom_private_read_vs_first_write`.

use pagewell_sync::read;
use pagewell_sync::thread::Backoff;

use crate::access::files::Slow;
use crate::error::{Error, ErrorKind, Op};
use crate::mm::space::{Mm, Space};
use crate::supply::view;
use crate::words::claim::{Claim, look};
use crate::words::geometry::{entry_of, offset_in_page, page_bytes};
use crate::words::pmd::Directory;
use crate::words::pte::State;

impl Space {
    /// Fills `buf` with the bytes at `addr`. The bytes of each page are those of one moment. Bytes
    /// that were never written are zeros, or those of the mapped file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind`]: `Unmapped`, `Protected`, or `InvalidRange` past the addresses of the space.
    /// Where a file is mapped, `PastEnd` past its last page, `OutOfFrames`, `TooManyPins`, or
    /// `File` if it cannot be read. After an error, `buf` is zeros from the first unread page on.
    #[inline]
    pub fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), Error> {
        if self.mm.tables.read_short(addr, buf) {
            return Ok(());
        }
        self.mm.read_other(addr, buf)
    }
}

impl Mm {
    /// Performs the reads that [`Space::read`] does not inline, so that the caller's code
    /// contains only the short read and one call: first the other short reads, of a page of 2 MiB
    /// and of a file.
    #[inline(never)]
    fn read_other(&self, addr: u64, buf: &mut [u8]) -> Result<(), Error> {
        let is_hit = self.tables.read_huge(addr, buf) || self.read_file_short(addr, buf);
        if is_hit {
            return Ok(());
        }
        self.read_pages(addr, buf)
    }

    /// Reads any number of pages. It is not inlined, so that the short read saves few registers.
    #[inline(never)]
    fn read_pages(&self, addr: u64, buf: &mut [u8]) -> Result<(), Error> {
        let mut done = 0;
        while done < buf.len() {
            let result = addr
                .checked_add(done as u64)
                .ok_or(Error::at(ErrorKind::InvalidRange, Op::Read, addr))
                .and_then(|at| self.read_within_page(at, &mut buf[done..]));
            match result {
                Ok(n) => done += n,
                Err(error) => {
                    // A copy that failed its check may have left bytes of another page.
                    buf[done..].fill(0);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Fills the part of `buf` that lies in the page of `addr`. Returns the length of this part.
    fn read_within_page(&self, addr: u64, buf: &mut [u8]) -> Result<usize, Error> {
        let word =
            self.tables
                .pmd_word(addr)
                .ok_or(Error::at(ErrorKind::InvalidRange, Op::Read, addr))?;
        // Without a table, the slow read takes the order from the area.
        let pmd = Directory::look(word);
        if pmd.is_present() {
            let order = pmd.order();
            let rest = page_bytes(order) - offset_in_page(addr, order) as u64;
            let len = buf.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
            if self.tables.read_page(addr, &mut buf[..len]) {
                return Ok(len);
            }
        }
        if let Some(len) = self.read_file(addr, buf) {
            return Ok(len);
        }
        self.read_slowly(addr, buf)
    }

    /// The slow read, without fills of pages of files: returns [`Slow::Missing`] if one is needed.
    #[cold]
    fn read_locked(&self, addr: u64, buf: &mut [u8]) -> Result<Slow, Error> {
        let failed = |kind| Error::at(kind, Op::Read, addr);
        let supply = &self.shared.supply;
        let mut backoff = Backoff::new();
        loop {
            let areas = read(&self.structure);
            let area = areas
                .area_of(addr)
                .ok_or_else(|| failed(ErrorKind::Unmapped))?;
            if !area.protection.allows_reads() {
                return Err(failed(ErrorKind::Protected));
            }
            let order = u32::from(area.order.get());
            let off = offset_in_page(addr, order);
            let len = buf.len().min((page_bytes(order) - off as u64) as usize);
            let buf = &mut buf[..len];
            let pmd_word = self
                .tables
                .pmd_word(addr)
                .ok_or_else(|| failed(ErrorKind::InvalidRange))?;
            let Some(table) = supply.hold_table(pmd_word) else {
                let is_absent = || !Directory::look(pmd_word).is_present();
                match self
                    .read_absent(area, addr, buf, is_absent)
                    .map_err(failed)?
                {
                    Some(slow) => return Ok(slow),
                    None => continue,
                }
            };
            let word = self.tables.entry(table.pmd, entry_of(addr, order));
            let entry = look(word);
            let claim = match entry.state() {
                State::Empty if Directory::look(pmd_word) == table.pmd => {
                    let is_absent =
                        || look(word) == entry && Directory::look(pmd_word) == table.pmd;
                    match self
                        .read_absent(area, addr, buf, is_absent)
                        .map_err(failed)?
                    {
                        Some(slow) => return Ok(slow),
                        None => continue,
                    }
                }
                State::Migration(_) => {
                    let pmd = table.pmd;
                    drop(table);
                    drop(areas);
                    supply.wait_for_migration((pmd_word, pmd), (word, entry));
                    continue;
                }
                State::Present(_) => Claim::try_new(word, entry),
                State::Empty | State::Busy => None,
            };
            // If the table belongs to another space now, this check detects it: the directory was
            // changed before the stores of the previous holder, which the claim makes visible.
            if let Some(_claim) = claim
                && Directory::look(pmd_word) == table.pmd
            {
                view::page_bytes_of(&self.tables.view, entry.frame(), off, len).copy_to(0, buf);
                return Ok(Slow::Done(len));
            }
            drop(table);
            drop(areas);
            backoff.wait();
        }
    }

    #[cold]
    fn read_slowly(&self, addr: u64, buf: &mut [u8]) -> Result<usize, Error> {
        loop {
            let fault = match self.read_locked(addr, buf)? {
                Slow::Done(len) => return Ok(len),
                Slow::Missing(fault) => fault,
            };
            let held = fault.hold(buf.len());
            let _held = held.map_err(|kind| Error::at(kind, Op::Read, addr))?;
            if let Slow::Done(len) = self.read_locked(addr, buf)? {
                return Ok(len);
            }
        }
    }
}
