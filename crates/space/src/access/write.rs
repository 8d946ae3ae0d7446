//! Writing, and the faults that it takes.
//!
//! # Writing where the page is
//!
//! ```text
//! writer                                             fork of this space
//! 1 be a writer at work (a plain store)              a hold the structure lock for writing
//! 2 load the directory's entry: exclusive            b stop the writers (heavy fence; wait for those at work)
//! 3 load the table's entry: writable; claim it       c take `exclusive` off, share the tables
//! 4 fence(Release); write the bytes                  d let the writers go on
//! 5 end the claim: new version
//! 6 not at work any more (a plain store)
//! ```
//!
//! So every write is either wholly before b, and in the fork, or finds in step 2 that the table is not exclusive any
//! more, and is in none of the fork's pages. Between b and d no write is under way: the fork is that one point in time,
//! and if a write is ordered after another one by anything at all, the fork that has it has the other too.
//!
//! A writer at work neither waits nor allocates. If anything is not as it should be, it leaves, and the slow write
//! decides, which holds the structure lock for reading instead: that excludes forks as well.
//!
//! # The slow write
//!
//! 1. Find the area; ask whether it allows writes.
//! 2. Get a table of the space's own: make one, take over the one that has no other user left, or copy the one that has.
//! 3. An empty entry gets a new page of zeros; one that may not be written where it is is decided by [`crate::words::cow`], under
//!    its claim: written where it is after all, or copied to a new page. Frames are allocated before the claim.
//!    A migration entry is waited for, with no lock held.
//!    In an area that shows a file, the new page begins as a copy of the file's, or the write is one to the file
//!    ([`crate::access::files`]).
//!
//! Proved by `loom_fork_vs_two_writes_in_order`, `loom_write_vs_write`, `loom_migrate_vs_write`; by the histories of
//! `tests/histories.rs`.

use std::sync::Arc;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{Order, UniqueFrame};
use pagewell_sync::atomic::AtomicU64;
use pagewell_sync::bytes::RacyBytes;
use pagewell_sync::thread::Backoff;
use pagewell_sync::{lock, read};

use crate::access::files::Copied;
use crate::areas::area::{Area, Areas};
use crate::areas::file::{Fault, FileArea, Sharing};
use crate::error::{Error, ErrorKind, Op};
use crate::mm::mm::{Inner, Space};
use crate::pages::family::Family;
use crate::pages::frames::Binding;
use crate::supply::view;
use crate::tables::table::look;
use crate::words::claim::Claim;
use crate::words::counts::MAPPING;
use crate::words::cow::{Cow, decide};
use crate::words::geometry::{entry_of, offset_in_page, page_bytes};
use crate::words::pmd::Pmd;
use crate::words::pte::{Pte, State};

/// All that a new page takes, from before its entry is claimed (C1 of [`crate::words::claim`]).
struct NewPage<'s, S: RefScheme> {
    block: UniqueFrame<'s, S>,
    family: Arc<Family<S>>,
    index: u64,
    binding: Binding,
}

/// What came of one attempt at a slow write.
enum Attempt<'s, S: RefScheme, R> {
    Done(R),
    /// The page is being moved: wait for the entry to change, in the table that the directory has.
    Migrating(Pmd, &'s AtomicU64, Pte),
    /// The page is to be copied from a file, and is not in the cache.
    Missing(Fault<S>),
    /// The write goes to this file.
    OfFile(Arc<FileArea<S>>),
}

impl<S: RefScheme> Space<S> {
    /// Writes `bytes` from `addr` on.
    ///
    /// # Errors
    ///
    /// [`Unmapped`](ErrorKind::Unmapped), [`Protected`](ErrorKind::Protected),
    /// [`InvalidRange`](ErrorKind::InvalidRange), [`OutOfFrames`](ErrorKind::OutOfFrames),
    /// [`TooManyEntries`](ErrorKind::TooManyEntries). Where a file is mapped, [`PastEnd`](ErrorKind::PastEnd) beyond its
    /// end, or beyond its last page in a private area, and [`File`](ErrorKind::File) when it cannot be read or written. The
    /// pages before the one that the error names are written then, that one and those after it are not.
    #[inline]
    pub fn write(&self, addr: u64, bytes: &[u8]) -> Result<(), Error> {
        self.inner.write_pages(addr, bytes, 0)
    }

    /// As [`write`](Self::write), with the log sequence number of the write, which counts where it is one to a file: as
    /// of [`File::write_at_lsn`](pagewell_cache::File::write_at_lsn).
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn write_lsn(&self, addr: u64, bytes: &[u8], lsn: u64) -> Result<(), Error> {
        self.inner.write_pages(addr, bytes, lsn)
    }
}

impl<S: RefScheme> Inner<S> {
    #[inline]
    fn write_pages(self: &Arc<Self>, addr: u64, bytes: &[u8], lsn: u64) -> Result<(), Error> {
        let mut done = 0;
        while done < bytes.len() {
            let at = addr.checked_add(done as u64).ok_or(Error::at(
                ErrorKind::InvalidRange,
                Op::Write,
                addr,
            ))?;
            let rest = &bytes[done..];
            let len = rest.len().min(self.bytes_to_page_end(at));
            let change = |page: RacyBytes<'_>| page.copy_from(0, &rest[..len]);
            self.edit((Op::Write, lsn), at, len, change)?;
            done += len;
        }
        Ok(())
    }

    /// How many bytes there are from `addr` to the end of its page; of the smallest page where nothing is mapped.
    #[inline]
    fn bytes_to_page_end(&self, addr: u64) -> usize {
        let pmd = self.pmd_word(addr).map(Self::look);
        let order = match pmd.filter(|pmd| pmd.is_present()) {
            Some(pmd) => pmd.order(),
            None => self.order_of_area(addr),
        };
        (page_bytes(order) - offset_in_page(addr, order) as u64) as usize
    }

    /// The order of the pages at `addr`, where there is no table that says it. A write that was cut by a guess would be
    /// torn.
    #[cold]
    #[inline(never)]
    fn order_of_area(&self, addr: u64) -> u32 {
        if let Some(order) = self.order_of_file(addr) {
            return order;
        }
        let areas = read(&self.structure);
        let area = areas.area_of(addr);
        area.map_or(0, |area| u32::from(area.order.get()))
    }

    /// Has the `len` bytes from `addr` on, which are of one page, changed by `change`: nobody else changes the page
    /// meanwhile, nobody reads the change half done, and no fork is taken within it. It may be called again after it was
    /// called on bytes that nobody gets to see. `op` is what it is in errors, and its log sequence number.
    #[inline]
    pub(crate) fn edit<R>(
        self: &Arc<Self>,
        op: (Op, u64),
        addr: u64,
        len: usize,
        mut change: impl FnMut(RacyBytes<'_>) -> R,
    ) -> Result<R, Error> {
        let in_place = self
            .shared
            .as_writer(|| self.edit_in_place(addr, len, &mut change));
        match in_place {
            Some(Some(result)) => Ok(result),
            _ => self.edit_slowly(op, addr, len, &mut change),
        }
    }

    /// The numbers are those of the module's text.
    #[inline(always)]
    fn edit_in_place<R>(
        &self,
        addr: u64,
        len: usize,
        change: &mut impl FnMut(RacyBytes<'_>) -> R,
    ) -> Option<R> {
        // 2.
        let pmd = Self::look(self.pmd_word(addr)?);
        if !pmd.is_exclusive() {
            return None;
        }
        let order = pmd.order();
        let off = offset_in_page(addr, order);
        if off as u64 + len as u64 > page_bytes(order) {
            return None;
        }
        // 3. The table stays the space's own for as long as this is a writer at work.
        let word = view::entry(&self.shared.view, pmd.frame(), entry_of(addr, order));
        let entry = look(word);
        if !entry.may_write_in_place() {
            return None;
        }
        let claim = Claim::try_new(word, entry)?;
        Some(self.write_claimed(claim, off, len, change))
    }

    /// 4 and 5.
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
            &self.shared.view,
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
        self: &Arc<Self>,
        op: (Op, u64),
        addr: u64,
        len: usize,
        change: &mut impl FnMut(RacyBytes<'_>) -> R,
    ) -> Result<R, Error> {
        self.with_room(|| self.try_edit_slowly(op, addr, len, change))
    }

    /// The slow write, but for making room by what takes waiting.
    fn try_edit_slowly<R>(
        self: &Arc<Self>,
        (op, lsn): (Op, u64),
        addr: u64,
        len: usize,
        change: &mut impl FnMut(RacyBytes<'_>) -> R,
    ) -> Result<R, Error> {
        let failed = |kind| Error::at(kind, op, addr);
        if let Some(result) = self.edit_file_hit(addr, len, lsn, change).map_err(failed)? {
            return Ok(result);
        }
        loop {
            let areas = read(&self.structure);
            let attempt = self.edit_locked(&areas, op, addr, len, change)?;
            drop(areas);
            match attempt {
                Attempt::Done(result) => return Ok(result),
                Attempt::Migrating(pmd, word, entry) => {
                    // The slow write has found the directory's entry, so there is one.
                    if let Some(pmd_word) = self.pmd_word(addr) {
                        self.wait_for_migration((pmd_word, pmd), (word, entry));
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

    /// The slow write, but for waiting. The structure lock is held.
    fn edit_locked<'s, R>(
        self: &'s Arc<Self>,
        areas: &Areas<S>,
        op: Op,
        addr: u64,
        len: usize,
        change: &mut impl FnMut(RacyBytes<'_>) -> R,
    ) -> Result<Attempt<'s, S, R>, Error> {
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
            // Pages were larger when the write was cut into pages: that area is gone.
            return Err(failed(ErrorKind::Unmapped));
        }
        if let Some(file) = &area.file
            && file.sharing == Sharing::Shared
        {
            return Ok(Attempt::OfFile(Arc::clone(file)));
        }
        let pmd = self.own_table(area.order, addr).map_err(failed)?;
        let word = view::entry(&self.shared.view, pmd.frame(), entry_of(addr, order));
        // A new page, from when it turned out that one is needed.
        let mut spare: Option<NewPage<'_, S>> = None;
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
                    let counts = self.shared.counts(frame);
                    let copy = match decide(counts, self.shared.references(frame)) {
                        Cow::Reuse => {
                            claim.before_writing();
                            let bytes =
                                view::page_bytes_of(&self.shared.view, entry.frame(), off, len);
                            let result = change(bytes);
                            claim.end(entry.reused());
                            return Ok(Attempt::Done(result));
                        }
                        Cow::Copy => spare.take(),
                    };
                    let Some(copy) = copy else {
                        // Allocated without the claim.
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
                    self.shared.drop_entry(entry);
                    return Ok(Attempt::Done(result));
                }
            }
        }
    }

    /// Makes the page of `addr`, of zeros, if there is none. The structure lock is held.
    pub(crate) fn make_page(self: &Arc<Self>, area: &Area<S>, addr: u64) -> Result<(), ErrorKind> {
        let pmd = self.own_table(area.order, addr)?;
        let entry = entry_of(addr, u32::from(area.order.get()));
        let word = view::entry(&self.shared.view, pmd.frame(), entry);
        let mut spare = None;
        loop {
            let entry = look(word);
            if entry.state() != State::Empty {
                // There, or being made.
                return Ok(());
            }
            let made = match spare.take() {
                Some(made) => made,
                None => {
                    let made = self.new_page(area, addr)?;
                    let bytes = made.block.bytes();
                    bytes.zero(0, bytes.len());
                    made
                }
            };
            if let Some(claim) = Claim::try_new(word, entry) {
                let frame = self.publish(made);
                claim.end(entry.made(frame, area.protection));
                return Ok(());
            }
            spare = Some(made);
        }
    }

    /// Why there is no area at `addr`.
    pub(crate) fn unmapped(&self, addr: u64) -> ErrorKind {
        match self.pmd_word(addr) {
            Some(_) => ErrorKind::Unmapped,
            None => ErrorKind::InvalidRange,
        }
    }

    /// What a page at `addr` takes; its bytes are whatever was in the block last.
    fn new_page(self: &Arc<Self>, area: &Area<S>, addr: u64) -> Result<NewPage<'_, S>, ErrorKind> {
        let index = area.index_of(addr);
        let place = area.place(index, self.shared.pool().nr_nodes());
        let block = self
            .shared
            .alloc(area.order, place)
            .ok_or(ErrorKind::OutOfFrames)?;
        let family = area.own_family(self);
        Ok(NewPage {
            block,
            family,
            index,
            binding: area.binding(),
        })
    }

    /// Makes it a page that is mapped once: by the entry that the caller has claimed.
    fn publish(&self, made: NewPage<'_, S>) -> pagewell_frame::FrameNr {
        let NewPage {
            block,
            family,
            index,
            binding,
        } = made;
        self.shared
            .publish_page(block, family, index, binding, MAPPING)
    }

    /// The directory's entry for `addr` with a table that is this space's alone, for pages of `order`. The structure lock
    /// is held, for reading at the least; so the table stays in the directory, and the space's alone.
    pub(crate) fn own_table(&self, order: Order, addr: u64) -> Result<Pmd, ErrorKind> {
        let word = self.pmd_word(addr).ok_or(ErrorKind::InvalidRange)?;
        let pmd = Self::look(word);
        if pmd.is_exclusive() {
            return Ok(pmd);
        }
        let _unsharing = lock(&self.unsharing);
        let pmd = Self::look(word);
        if pmd.is_exclusive() {
            return Ok(pmd);
        }
        let own = match pmd.table() {
            None => {
                let table = self.shared.new_table().ok_or(ErrorKind::OutOfFrames)?;
                pmd.with_table(table, order)
            }
            Some(table) if self.shared.is_only_share(table) => pmd.taken_over(),
            Some(table) => pmd.with_table(self.shared.copy_table(table)?, order),
        };
        Self::set(word, own);
        if own.table() != pmd.table()
            && let Some(old) = pmd.table()
        {
            self.shared.drop_share(old);
        }
        Ok(own)
    }
}
