//! Mapping, unmapping, protecting and moving: changes of areas, under the structure lock.
//!
//! What a change needs (tables of the space's own where it ends within one) is got first, so that it happens whole or
//! not at all.
//!
//! Unmapping. A table that no area is left for is taken out of the directory, while writers are stopped for a moment:
//! a writer at work relies on its table. Entries in tables that stay are emptied one by one, each under its claim; so
//! are those of tables that have to stay since the system refuses to stop writers, whose addresses are not used again.
//!
//! Links. Areas are linked before entries can name their pages and unlinked after the last one is gone
//! ([`crate::pages::family`], F1); where a part of an area moves, it is linked at both places while it does.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FRAME_BYTES, Order};
use pagewell_sync::atomic::Ordering;
use pagewell_sync::{read, write};

use crate::areas::area::{Area, Areas, Policy};
use crate::areas::file::Sharing;
use crate::error::{Error, ErrorKind, Op};
use crate::mm::mm::{Inner, Space};
use crate::tables::table::{claim_used, look};
use crate::words::geometry::{MAX_PAGE_ORDER, TABLE_BYTES, entry_of};
use crate::words::pte::{Protection, State};

/// How an area is mapped.
#[derive(Clone, Copy, Debug)]
pub struct MapOptions {
    pub(crate) policy: Policy,
    pub(crate) protection: Protection,
    page_bytes: usize,
}

impl Default for MapOptions {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            protection: Protection::default(),
            page_bytes: FRAME_BYTES,
        }
    }
}

impl MapOptions {
    /// Pages of 4 KiB on the writer's node, for reading and writing.
    pub fn new() -> Self {
        Self::default()
    }

    /// On which nodes its pages are to be. Default: [`Policy::Local`].
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// What may be done. Default: [`Protection::ReadWrite`].
    #[must_use]
    pub fn protection(mut self, protection: Protection) -> Self {
        self.protection = protection;
        self
    }

    /// The size of its pages in bytes: a power of two from 4 KiB to 2 MiB. A page is made, copied and moved as one.
    /// Default: 4 KiB.
    #[must_use]
    pub fn page_bytes(mut self, bytes: usize) -> Self {
        self.page_bytes = bytes;
        self
    }

    pub(crate) fn check_node(&self, nr_nodes: usize) -> Result<(), ErrorKind> {
        self.policy.check(nr_nodes)
    }

    fn order(&self) -> Option<Order> {
        let frames = self.page_bytes / FRAME_BYTES;
        if !self.page_bytes.is_power_of_two() || frames == 0 {
            return None;
        }
        Order::new(frames.trailing_zeros() as u8).filter(|order| *order <= MAX_PAGE_ORDER)
    }
}

impl<S: RefScheme> Space<S> {
    /// Maps an area of `len` bytes of zeros, rounded up to whole pages of 4 KiB, for reading and writing. Returns its
    /// addresses.
    ///
    /// # Errors
    ///
    /// As [`map_with`](Self::map_with).
    pub fn map(&self, len: u64, policy: Policy) -> Result<Range<u64>, Error> {
        self.map_with(len, &MapOptions::new().policy(policy))
    }

    /// Maps an area of `len` bytes of zeros, rounded up to whole pages. Returns its addresses, which begin at a multiple
    /// of 2 MiB.
    ///
    /// # Errors
    ///
    /// [`InvalidRange`](ErrorKind::InvalidRange) when `len` is 0, [`InvalidConfig`](ErrorKind::InvalidConfig) for a page
    /// size that there is not, [`NoSuchNode`](ErrorKind::NoSuchNode),
    /// [`OutOfAddresses`](ErrorKind::OutOfAddresses).
    pub fn map_with(&self, len: u64, options: &MapOptions) -> Result<Range<u64>, Error> {
        let failed = |kind| Error::new(kind, Op::Map);
        let order = options
            .order()
            .ok_or_else(|| failed(ErrorKind::InvalidConfig))?;
        options
            .check_node(self.inner.shared.pool().nr_nodes())
            .map_err(failed)?;
        if len == 0 {
            return Err(failed(ErrorKind::InvalidRange));
        }
        let len = len
            .checked_next_multiple_of(options.page_bytes as u64)
            .ok_or_else(|| failed(ErrorKind::OutOfAddresses))?;
        let mut areas = write(&self.inner.structure);
        let start = areas
            .find_room(len)
            .ok_or_else(|| failed(ErrorKind::OutOfAddresses))?;
        let range = start..start + len;
        let id = self.inner.shared.next_id();
        areas.insert(Area::new(
            range.clone(),
            order,
            options.protection,
            options.policy,
            id,
        ));
        Ok(range)
    }

    /// Unmaps the pages of `range`, all of which must be mapped: in one area or in several, or parts of them.
    ///
    /// # Errors
    ///
    /// [`InvalidRange`](ErrorKind::InvalidRange), [`Misaligned`](ErrorKind::Misaligned) unless it begins and ends where
    /// pages do, [`Unmapped`](ErrorKind::Unmapped), [`OutOfFrames`](ErrorKind::OutOfFrames) and
    /// [`TooManyEntries`](ErrorKind::TooManyEntries) when a table that is shared with a fork has to be copied, since a
    /// part of it stays mapped, and [`Refused`](ErrorKind::Refused) where a file is mapped. Nothing was unmapped then.
    pub fn unmap(&self, range: Range<u64>) -> Result<(), Error> {
        let unmapped = self.inner.with_room(|| {
            let mut areas = write(&self.inner.structure);
            self.inner.check(&areas, &range, Op::Unmap)?;
            self.inner.unmap(&mut areas, &range, Op::Unmap)
        })?;
        // Without the lock: the last area of a file closes it, which may take as long as the storage does.
        drop(unmapped);
        Ok(())
    }

    /// Sets what may be done with the pages of `range`, all of which must be mapped.
    ///
    /// # Errors
    ///
    /// As [`unmap`](Self::unmap), and [`ReadOnly`](ErrorKind::ReadOnly) when writes would go to a file that is open for
    /// reading only; nothing has changed then.
    pub fn protect(&self, range: Range<u64>, protection: Protection) -> Result<(), Error> {
        self.inner.with_room(|| {
            let mut areas = write(&self.inner.structure);
            self.inner.check(&areas, &range, Op::Protect)?;
            self.inner.protect(&mut areas, &range, protection)
        })
    }

    /// Moves the pages of `range`, all of which must be mapped, to other addresses, which are returned; the old ones are
    /// not mapped afterwards.
    ///
    /// # Errors
    ///
    /// As [`unmap`](Self::unmap), and [`OutOfAddresses`](ErrorKind::OutOfAddresses); nothing has moved then.
    pub fn move_to_free(&self, range: Range<u64>) -> Result<Range<u64>, Error> {
        self.inner.with_room(|| {
            let mut areas = write(&self.inner.structure);
            self.inner.check(&areas, &range, Op::Move)?;
            self.inner.move_to_free(&mut areas, &range)
        })
    }

    /// The areas of the space, in ascending order: addresses, protection, policy, and the size of a page in bytes.
    pub fn areas(&self) -> Vec<AreaInfo> {
        read(&self.inner.structure)
            .iter()
            .map(|area| AreaInfo {
                range: area.range.clone(),
                protection: area.protection,
                policy: area.policy,
                page_bytes: area.page_bytes(),
                file: area.file.as_ref().map(|file| FileInfo {
                    path: file.file().path().to_path_buf(),
                    first_byte: file.first_byte,
                    sharing: file.sharing,
                }),
            })
            .collect()
    }
}

/// What there is to know of an area.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AreaInfo {
    /// Its addresses.
    pub range: Range<u64>,
    /// What may be done.
    pub protection: Protection,
    /// On which nodes its pages are to be.
    pub policy: Policy,
    /// The size of its pages in bytes.
    pub page_bytes: u64,
    /// Which file it shows, if it does.
    pub file: Option<FileInfo>,
}

/// What an area shows of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileInfo {
    /// The path that the file was first opened with.
    pub path: PathBuf,
    /// Which byte of the file the area begins with.
    pub first_byte: u64,
    /// What writes do.
    pub sharing: Sharing,
}

impl<S: RefScheme> Inner<S> {
    /// Checks that `range` is of whole pages that are mapped.
    pub(crate) fn check(&self, areas: &Areas<S>, range: &Range<u64>, op: Op) -> Result<(), Error> {
        let limit = self.directory.len() as u64 * TABLE_BYTES;
        if range.start >= range.end || range.end > limit {
            return Err(Error::at(ErrorKind::InvalidRange, op, range.start));
        }
        if let Some(addr) = areas.first_gap(range) {
            return Err(Error::at(ErrorKind::Unmapped, op, addr));
        }
        for (addr, at) in [(range.start, range.start), (range.end, range.end - 1)] {
            if let Some(area) = areas.area_of(at)
                && !addr.is_multiple_of(area.page_bytes())
            {
                return Err(Error::at(ErrorKind::Misaligned, op, addr));
            }
        }
        Ok(())
    }

    /// Makes the tables of `range` the space's own, except those for which `is_left_out` says so.
    fn own_tables(
        &self,
        areas: &Areas<S>,
        range: &Range<u64>,
        op: Op,
        mut is_left_out: impl FnMut(u64) -> bool,
    ) -> Result<(), Error> {
        for area in areas.overlapping(range) {
            let part = area.range.start.max(range.start)..area.range.end.min(range.end);
            let mut start = part.start & !(TABLE_BYTES - 1);
            while start < part.end {
                let word = &self.tables_of(&(start..start + 1))[0];
                if Self::look(word).is_present() && !is_left_out(start) {
                    self.own_table(area.order, start)
                        .map_err(|kind| Error::at(kind, op, start))?;
                }
                start += TABLE_BYTES;
            }
        }
        Ok(())
    }

    /// Calls `visit` with the word of every entry of `range` whose table is there.
    pub(crate) fn for_each_entry(
        &self,
        areas: &Areas<S>,
        range: &Range<u64>,
        mut visit: impl FnMut(&pagewell_sync::atomic::AtomicU64, u64),
    ) {
        for area in areas.overlapping(range) {
            let end = area.range.end.min(range.end);
            let mut addr = area.range.start.max(range.start);
            while addr < end {
                let word = &self.tables_of(&(addr..addr + 1))[0];
                let Some(table) = Self::look(word).table() else {
                    addr = (addr + 1).next_multiple_of(TABLE_BYTES);
                    continue;
                };
                let entry = entry_of(addr, u32::from(area.order.get()));
                visit(&self.shared.entries(table)[entry], addr);
                addr += area.page_bytes();
            }
        }
    }

    fn unmap(
        self: &Arc<Self>,
        areas: &mut Areas<S>,
        range: &Range<u64>,
        op: Op,
    ) -> Result<Vec<Area<S>>, Error> {
        self.own_tables(areas, range, op, |start| {
            areas.is_table_free_but(start, range)
        })?;
        self.forget_files(areas, range, op)?;
        areas.split_at_ends(range, self, || self.shared.next_id());
        self.take_tables(areas, range);
        self.for_each_entry(areas, range, |word, _| self.shared.empty(word));
        let starts = areas.starts_within(range).into_iter();
        let unmapped: Vec<Area<S>> = starts.filter_map(|start| areas.remove(start)).collect();
        unmapped.iter().for_each(Area::unlink);
        Ok(unmapped)
    }

    /// Takes the tables out of which no part stays mapped when the areas within `range` are gone, with all that is
    /// mapped in them.
    fn take_tables(&self, areas: &mut Areas<S>, range: &Range<u64>) {
        let first = range.start & !(TABLE_BYTES - 1);
        let free: Vec<_> = self
            .tables_of(range)
            .iter()
            .zip((first..).step_by(TABLE_BYTES as usize))
            .filter(|(word, start)| {
                Self::look(word).is_present() && areas.is_table_free_but(*start, range)
            })
            .collect();
        let mut tables = Vec::with_capacity(free.len());
        // A writer at work may be about to claim an entry of one of them.
        let stopped = self.shared.stop_writers(|| {
            for (word, _) in &free {
                let pmd = Self::look(word);
                Self::set(word, pmd.emptied());
                tables.extend(pmd.table());
            }
        });
        if stopped.is_err() {
            // They stay, and their addresses are not used again. A shared one has to go all the same, as its entries are
            // not to be emptied one by one; no writer of this space relies on it.
            for (word, start) in free {
                let pmd = Self::look(word);
                if pmd.is_exclusive() {
                    areas.leave_table(start);
                } else {
                    Self::set(word, pmd.emptied());
                    tables.extend(pmd.table());
                }
            }
        }
        for table in tables {
            self.shared.drop_share(table);
        }
    }

    fn protect(
        self: &Arc<Self>,
        areas: &mut Areas<S>,
        range: &Range<u64>,
        protection: Protection,
    ) -> Result<(), Error> {
        let refused = areas.overlapping(range).find(|area| {
            let file = area.file.as_ref();
            file.is_some_and(|file| !file.may_be(protection))
        });
        if let Some(area) = refused {
            let addr = area.range.start.max(range.start);
            return Err(Error::at(ErrorKind::ReadOnly, Op::Protect, addr));
        }
        self.own_tables(areas, range, Op::Protect, |_| false)?;
        self.forget_files(areas, range, Op::Protect)?;
        areas.split_at_ends(range, self, || self.shared.next_id());
        areas.set_protection(range, protection);
        self.for_each_entry(areas, range, |word, _| {
            if let Some(claim) = claim_used(word) {
                let before = claim.before();
                claim.end(before.protected(protection));
                if let State::Migration(_) = before.state() {
                    self.shared.pool().waits().wake(word);
                }
            }
        });
        Ok(())
    }

    fn move_to_free(
        self: &Arc<Self>,
        areas: &mut Areas<S>,
        range: &Range<u64>,
    ) -> Result<Range<u64>, Error> {
        let failed = |kind| Error::at(kind, Op::Move, range.start);
        // At the same place within a table, so that pages stay aligned and entries keep their places.
        let lead = range.start & (TABLE_BYTES - 1);
        let room = areas
            .find_room(lead + (range.end - range.start))
            .ok_or_else(|| failed(ErrorKind::OutOfAddresses))?;
        // The room may be below: addresses are shifted around the end of the numbers then.
        let shift = (room + lead).wrapping_sub(range.start);
        let shifted = |addr: u64| addr.wrapping_add(shift);
        self.own_tables(areas, range, Op::Move, |_| false)?;
        self.forget_files(areas, range, Op::Move)?;
        // Where there are pages, the new place needs tables.
        self.make_tables(areas, range, shift).map_err(failed)?;
        areas.split_at_ends(range, self, || self.shared.next_id());
        let moved: Vec<Area<S>> = areas
            .overlapping(range)
            .map(|area| area.moved(shifted(area.range.start), self.shared.next_id()))
            .collect();
        for area in &moved {
            area.link(self);
        }
        self.for_each_entry(areas, range, |from, addr| {
            let addr = shifted(addr);
            let pmd = Self::look(&self.tables_of(&(addr..addr + 1))[0]);
            let Some(table) = pmd.table() else {
                return;
            };
            let Some(claim) = claim_used(from) else {
                return;
            };
            let before = claim.before();
            let to = &self.shared.entries(table)[entry_of(addr, pmd.order())];
            // The new place first, so that the entry is always somewhere; it is counted once, and the old place is
            // claimed, so nobody turns it twice: a walk that comes here in between waits for the claim.
            // ORDERING: Release; publishes what the entry names.
            to.store(look(to).moved_here(before).bits(), Ordering::Release);
            claim.end(before.emptied());
            if let State::Migration(_) = before.state() {
                self.shared.pool().waits().wake(from);
            }
        });
        // The old place has no entries any more, and its tables no use where nothing else is left in them.
        self.take_tables(areas, range);
        for start in areas.starts_within(range) {
            if let Some(area) = areas.remove(start) {
                area.unlink();
            }
        }
        for area in moved {
            areas.insert(area);
        }
        Ok(shifted(range.start)..shifted(range.end))
    }

    /// Makes tables for the pages of `range` to move to, `shift` bytes further, wherever there are tables now.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::OutOfFrames`]; none was made then.
    fn make_tables(
        &self,
        areas: &Areas<S>,
        range: &Range<u64>,
        shift: u64,
    ) -> Result<(), ErrorKind> {
        let mut made = Vec::new();
        for area in areas.overlapping(range) {
            let part = area.range.start.max(range.start)..area.range.end.min(range.end);
            let first = part.start & !(TABLE_BYTES - 1);
            for (word, start) in self
                .tables_of(&part)
                .iter()
                .zip((first..).step_by(TABLE_BYTES as usize))
            {
                let to = start.wrapping_add(shift);
                let to = &self.tables_of(&(to..to + 1))[0];
                if !Self::look(word).is_present() || Self::look(to).is_present() {
                    continue;
                }
                let Some(table) = self.shared.new_table() else {
                    for word in made {
                        let pmd = Self::look(word);
                        Self::set(word, pmd.emptied());
                        // It has never had an entry, so no writer at work can be about to claim one.
                        if let Some(table) = pmd.table() {
                            self.shared.drop_share(table);
                        }
                    }
                    return Err(ErrorKind::OutOfFrames);
                };
                Self::set(to, Self::look(to).with_table(table, area.order));
                made.push(to);
            }
        }
        Ok(())
    }
}
