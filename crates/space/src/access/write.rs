//! Writes, and their faults.
//!
//! # Writes in place
//!
//! ```text
//! writer                                             fork of this space
//! 1 be a writer at work (a plain store)              a hold the structure lock for writing
//! 2 load the directory's entry: exclusive            b stop the writers (heavy fence, wait)
//! 3 load the table's entry: writable; claim it       c clear `exclusive`, share the tables
//! 4 fence(Release); write the bytes                  d release the writers
//! 5 end the claim: new version
//! 6 not at work any more (a plain store)
//! ```
//!
//! Either a write ends before b does, and is in the fork; or its step 2 finds that the table is not
//! exclusive, and it is in no page of the fork. Between b and d no write is in progress: this is
//! the fork's point in time. A fork that contains a write therefore contains all earlier ones. A
//! writer at work neither waits nor allocates. If a check fails, it ends its work and makes a slow
//! write, which excludes forks by the structure lock, held for reading.
//!
//! # The slow write
//!
//! 1. Find the area, and check that it permits writes.
//! 2. Obtain an exclusive table: create one, take one over, or copy a shared one.
//! 3. An empty entry gets a new page of zeros, or in a private area of a file a copy of the file's
//!    page. A page that is not writable is written in place after all if it is unshared
//!    ([`is_unshared`](crate::supply::frames::Supply::is_unshared)), or else to a new copy. Frames
//!    are allocated before the claim. At a migration entry, the write releases all locks and waits.
//!    In a shared area, it goes to the file ([`crate::access::files`]).
//!
//! Verified by `loom_fork_vs_two_writes_in_order`, `loom_write_vs_write`, `loom_migrate_vs_write`;
//! by the histories of `tests/histories.rs`.

use std::sync::Arc;

use pagewell_frame::FRAME_BYTES;
use pagewell_sync::atomic::AtomicU64;
use pagewell_sync::bytes::RacyBytes;
use pagewell_sync::read;
use pagewell_sync::thread::Backoff;

use crate::access::fault::NewPage;
use crate::access::files::{Copied, Fault};
use crate::areas::file::{FileArea, Sharing};
use crate::areas::set::Areas;
use crate::error::{Error, ErrorKind, Op};
use crate::mm::space::{Mm, Space};
use crate::supply::view;
use crate::words::claim::{Claim, look};
use crate::words::geometry::{entry_of, offset_in_page, page_bytes};
use crate::words::pmd::{Directory, Pmd};
use crate::words::pte::{Pte, State};

enum Attempt<'s, R> {
    Done(R),
    /// The page is being moved: wait until the entry changes, or its table leaves the directory.
    Migrating(Pmd, &'s AtomicU64, Pte),
    Missing(Fault),
    OfFile(Arc<FileArea>),
}

impl Space {
    /// Writes `bytes` at `addr`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind`]: `Unmapped`, `Protected`, `InvalidRange`, `OutOfFrames` or `TooManyEntries`.
    /// Where a file is mapped, `PastEnd` past its end, or past its last page in a private area,
    /// `TooManyPins`, and `File` if it cannot be read or written. After an error, the pages before
    /// its address have been written, and the page at this address and later ones have not.
    #[inline]
    pub fn write(&self, addr: u64, bytes: &[u8]) -> Result<(), Error> {
        self.write_lsn(addr, bytes, 0)
    }

    /// As [`write`](Self::write), with a log sequence number for writes to a file: see
    /// [`File::write_at_lsn`](pagewell_cache::File::write_at_lsn).
    #[inline]
    pub fn write_lsn(&self, addr: u64, bytes: &[u8], lsn: u64) -> Result<(), Error> {
        let mut done = 0;
        while done < bytes.len() {
            let at = addr.checked_add(done as u64).ok_or(Error::at(
                ErrorKind::InvalidRange,
                Op::Write,
                addr,
            ))?;
            let rest = &bytes[done..];
            let len = self.mm.len_in_page(at, rest.len());
            let change = |page: RacyBytes<'_>| page.copy_from(0, &rest[..len]);
            self.mm.edit((Op::Write, lsn), at, len, change)?;
            done += len;
        }
        Ok(())
    }
}

impl Mm {
    /// Returns the length of the part of `len` bytes at `addr` that lies in the first page. If that
    /// is not mapped, it counts as a small page.
    #[inline]
    fn len_in_page(&self, addr: u64, len: usize) -> usize {
        // Bytes within a small page are within one page of any order.
        if offset_in_page(addr, 0) + len <= FRAME_BYTES {
            return len;
        }
        let pmd = self.tables.pmd_word(addr).map(Directory::look);
        let order = match pmd.filter(|pmd| pmd.is_present()) {
            Some(pmd) => pmd.order(),
            None => self.order_of_area(addr),
        };
        len.min((page_bytes(order) - offset_in_page(addr, order) as u64) as usize)
    }

    /// Returns the order of the pages at `addr`, for which there is no table. An order that is too
    /// small would split a write to one page into several.
    #[cold]
    #[inline(never)]
    fn order_of_area(&self, addr: u64) -> u32 {
        if let Some(order) = self.file_order_at(addr) {
            return order;
        }
        let areas = read(&self.structure);
        let area = areas.area_of(addr);
        area.map_or(0, |area| u32::from(area.order.get()))
    }

    /// Calls `change` on the `len` bytes at `addr`, within one page, atomically with respect to
    /// other changes of the page, reads and forks. Of several calls, only the bytes of the last
    /// become visible. `op` has the operation and the log sequence number.
    #[inline]
    pub(crate) fn edit<R>(
        &self,
        op: (Op, u64),
        addr: u64,
        len: usize,
        mut change: impl FnMut(RacyBytes<'_>) -> R,
    ) -> Result<R, Error> {
        let at = &mut change;
        // `move` saves one instruction for each captured variable.
        let in_place = self
            .shared
            .writers
            .at_work(move || self.edit_in_place(addr, len, at));
        match in_place {
            Some(Some(result)) => Ok(result),
            _ => self.edit_slowly(op, addr, len, &mut change),
        }
    }

    #[inline(always)]
    fn edit_in_place<R>(
        &self,
        addr: u64,
        len: usize,
        change: &mut impl FnMut(RacyBytes<'_>) -> R,
    ) -> Option<R> {
        // 2.
        let pmd = Directory::look(self.tables.pmd_word(addr)?);
        if !pmd.is_exclusive() {
            return None;
        }
        let order = pmd.order();
        let off = offset_in_page(addr, order);
        if off as u64 + len as u64 > page_bytes(order) {
            return None;
        }
        // 3. The table stays exclusive while this thread is a writer at work.
        let word = self.tables.entry(pmd, entry_of(addr, order));
        let entry = look(word);
        if !entry.may_write_in_place() {
            return None;
        }
        let claim = Claim::try_new(word, entry)?;
        Some(self.write_claimed(claim, off, len, change))
    }

    #[inline(always)]
    fn write_claimed<R>(
        &self,
        claim: Claim<'_>,
        off: usize,
        len: usize,
        change: &mut impl FnMut(RacyBytes<'_>) -> R,
    ) -> R {
        let entry = claim.before();
        claim.before_writing();
        let result = change(view::page_bytes_of(
            &self.tables.view,
            entry.frame(),
            off,
            len,
        ));
        claim.end(entry.rewritten());
        result
    }

    #[cold]
    #[inline(never)]
    fn edit_slowly<R>(
        &self,
        op: (Op, u64),
        addr: u64,
        len: usize,
        change: &mut impl FnMut(RacyBytes<'_>) -> R,
    ) -> Result<R, Error> {
        self.with_room(move || self.try_edit_slowly(op, addr, len, change))
    }

    /// The slow write, without reclaim that waits: fails with `OutOfFrames` instead.
    fn try_edit_slowly<R>(
        &self,
        (op, lsn): (Op, u64),
        addr: u64,
        len: usize,
        change: &mut impl FnMut(RacyBytes<'_>) -> R,
    ) -> Result<R, Error> {
        let failed = |kind| Error::at(kind, op, addr);
        let hit = self.edit_file_hit(addr, len, lsn, change);
        if let Some(result) = hit.map_err(failed)? {
            return Ok(result);
        }
        loop {
            let areas = read(&self.structure);
            let attempt = self.edit_locked(&areas, op, addr, len, change)?;
            drop(areas);
            match attempt {
                Attempt::Done(result) => return Ok(result),
                Attempt::Migrating(pmd, word, entry) => {
                    // This is always `Some`: the slow write has loaded the directory's entry.
                    if let Some(pmd_word) = self.tables.pmd_word(addr) {
                        let supply = &self.shared.supply;
                        supply.wait_for_migration((pmd_word, pmd), (word, entry));
                    }
                }
                Attempt::Missing(fault) => {
                    let _held = fault.hold(len).map_err(failed)?;
                    let areas = read(&self.structure);
                    if let Attempt::Done(result) =
                        self.edit_locked(&areas, op, addr, len, change)?
                    {
                        return Ok(result);
                    }
                }
                Attempt::OfFile(file) => {
                    let edited = self.edit_file(&file, addr, (len, lsn), change);
                    if let Some(result) = edited.map_err(failed)? {
                        return Ok(result);
                    }
                }
            }
        }
    }

    /// A slow write that waits for no file or migration. The caller holds the structure lock.
    fn edit_locked<R>(
        &self,
        areas: &Areas,
        op: Op,
        addr: u64,
        len: usize,
        change: &mut impl FnMut(RacyBytes<'_>) -> R,
    ) -> Result<Attempt<'_, R>, Error> {
        let failed = |kind| Error::at(kind, op, addr);
        let area = areas
            .area_of(addr)
            .ok_or_else(|| failed(self.unmapped(addr)))?;
        if !area.protection.allows_writes() {
            return Err(failed(ErrorKind::Protected));
        }
        let order = u32::from(area.order.get());
        let off = offset_in_page(addr, order);
        if off as u64 + len as u64 > page_bytes(order) {
            // The write was split for an area of larger pages, which was unmapped since.
            return Err(failed(ErrorKind::Unmapped));
        }
        if let Some(file) = &area.file
            && file.sharing == Sharing::Shared
        {
            return Ok(Attempt::OfFile(Arc::clone(file)));
        }
        let pmd = self.own_table(area.order, addr).map_err(failed)?;
        let word = self.tables.entry(pmd, entry_of(addr, order));
        let supply = &self.shared.supply;
        let mut spare: Option<NewPage<'_>> = None;
        let mut backoff = Backoff::new();
        loop {
            let entry = look(word);
            match entry.state() {
                State::Busy => backoff.wait(),
                State::Migration(_) => return Ok(Attempt::Migrating(pmd, word, entry)),
                State::Empty => {
                    let made = match spare.take() {
                        Some(made) => made,
                        None => self.new_page(area, addr).map_err(failed)?,
                    };
                    let page = made.block.bytes();
                    if area.file.is_none() && len < page.len() {
                        page.zero(0, page.len());
                    }
                    let Some(claim) = Claim::try_new(word, entry) else {
                        spare = Some(made);
                        continue;
                    };
                    if let Some(file) = &area.file {
                        match self.copy_from_file(file, addr, page, len).map_err(failed)? {
                            Copied::Done(()) => {}
                            Copied::Again => {
                                drop(claim);
                                spare = Some(made);
                                backoff.wait();
                                continue;
                            }
                            Copied::Missing(fault) => return Ok(Attempt::Missing(fault)),
                        }
                    }
                    let result = change(page.slice(off, len));
                    let frame = self.publish(made);
                    claim.end(entry.owned(frame));
                    return Ok(Attempt::Done(result));
                }
                State::Present(_) if entry.is_writable() => {
                    if let Some(claim) = Claim::try_new(word, entry) {
                        return Ok(Attempt::Done(self.write_claimed(claim, off, len, change)));
                    }
                }
                State::Present(frame) => {
                    let Some(claim) = Claim::try_new(word, entry) else {
                        continue;
                    };
                    if supply.is_unshared(frame) {
                        claim.before_writing();
                        let bytes = view::page_bytes_of(&self.tables.view, entry.frame(), off, len);
                        let result = change(bytes);
                        claim.end(entry.reused());
                        return Ok(Attempt::Done(result));
                    }
                    let Some(copy) = spare.take() else {
                        // The claim ends before a page is allocated (C1 of `words::claim`).
                        drop(claim);
                        spare = Some(self.new_page(area, addr).map_err(failed)?);
                        continue;
                    };
                    let page = copy.block.bytes();
                    if len < page.len() {
                        let old = self.shared.pool().bytes(frame, page.len());
                        page.copy_from_racy(0, old);
                    }
                    let result = change(page.slice(off, len));
                    let copy = self.publish(copy);
                    claim.end(entry.owned(copy));
                    supply.drop_entry(entry);
                    return Ok(Attempt::Done(result));
                }
            }
        }
    }
}
