//! Mapping, unmapping, protecting and moving: changes of areas, under the structure lock.
//!
//! A change first acquires all resources, such as exclusive tables, so it is all or nothing. A part
//! being moved is linked at both addresses (F1 of [`crate::pages::links`]).
//!
//! Unmapping. A table that no area uses any more leaves the directory while writers are stopped,
//! since a writer at work relies on its table. Entries in other tables are emptied one by one, each
//! under its claim. If the system refuses to stop the writers, exclusive tables stay: their entries
//! are emptied in the same way, and their addresses are not reused.

use std::ops::Range;
use std::sync::Arc;

use pagewell_cache::{File, MAX_FILE_BYTES, MappedFile};
use pagewell_sync::atomic::Ordering;
use pagewell_sync::{read, write};

use crate::areas::area::{Area, close};
use crate::areas::file::{Backing, FileArea, FileMaps, Sharing};
use crate::areas::options::{AreaInfo, MapOptions, Policy};
use crate::areas::set::Areas;
use crate::error::{Error, ErrorKind, Op};
use crate::mm::space::Space;
use crate::words::claim::{claim_used, look};
use crate::words::geometry::{TABLE_BYTES, entry_of};
use crate::words::pmd::Directory;
use crate::words::pte::Protection;

impl Space {
    /// As [`map_with`](Self::map_with), with pages of 4 KiB for reading and writing.
    pub fn map(&self, len: u64, policy: Policy) -> Result<Range<u64>, Error> {
        self.map_with(len, &MapOptions::new().policy(policy))
    }

    /// Maps an area of `len` bytes of zeros, rounded up to whole pages. Returns its addresses,
    /// which begin at a multiple of 2 MiB.
    ///
    /// # Errors
    ///
    /// [`ErrorKind`]: `InvalidRange` if `len` is 0, `InvalidConfig` for an invalid page size,
    /// `NoSuchNode` or `OutOfAddresses`.
    pub fn map_with(&self, len: u64, options: &MapOptions) -> Result<Range<u64>, Error> {
        let failed = |kind| Error::new(kind, Op::Map);
        let order = options
            .order()
            .ok_or_else(|| failed(ErrorKind::InvalidConfig))?;
        let nr_nodes = self.mm.shared.pool().nr_nodes();
        options.policy.check(nr_nodes).map_err(failed)?;
        if len == 0 {
            return Err(failed(ErrorKind::InvalidRange));
        }
        let len = len
            .checked_next_multiple_of(options.page_bytes as u64)
            .ok_or_else(|| failed(ErrorKind::OutOfAddresses))?;
        let mut areas = write(&self.mm.structure);
        let start = areas
            .find_room(len)
            .ok_or_else(|| failed(ErrorKind::OutOfAddresses))?;
        let range = start..start + len;
        let id = self.mm.shared.next_id();
        areas.insert(Area::new(
            range.clone(),
            order,
            options.protection,
            options.policy,
            id,
        ));
        Ok(range)
    }

    /// As [`map_file_with`](Self::map_file_with), for reading and writing.
    pub fn map_file(
        &self,
        file: &File,
        range: Range<u64>,
        sharing: Sharing,
    ) -> Result<Range<u64>, Error> {
        self.map_file_with(file, range, sharing, &MapOptions::new())
    }

    /// Maps the bytes `range` of a file, rounded up to whole pages of the file. Returns the
    /// addresses, which begin at a multiple of 2 MiB. The range may exceed the file.
    ///
    /// The page size is that of the file, whatever the options are. The file stays open, with the
    /// rights of this handle, until the whole area is unmapped in this space and in its forks.
    ///
    /// - [`Sharing::Shared`]: reads return the file's current bytes. Writes go to the file, whose
    ///   pages become dirty, and are durable after a sync of it. A fork maps the same file.
    /// - [`Sharing::Private`]: reads return the file's current bytes, until the first write to a
    ///   page, which copies it to a node of the policy. The copy belongs to the space and to later
    ///   forks.
    ///
    /// Where the file has no page, accesses fail with [`PastEnd`](ErrorKind::PastEnd). In its last
    /// page, bytes past the end read as zeros. They can be neither written in a shared area, nor
    /// pinned unless they are in a private copy. A truncation removes the pages past the new end,
    /// including private copies. If the file grows again, these pages read as zeros.
    ///
    /// # Errors
    ///
    /// [`ErrorKind`]: `InvalidRange` if the range is empty or exceeds the largest file;
    /// `Misaligned` unless it begins at a page of the file; `OtherFrames` if the space's frames are
    /// not those of the file's cache; `ReadOnly` for a shared writable area of a read-only handle;
    /// `NoSuchNode` or `OutOfAddresses`.
    pub fn map_file_with(
        &self,
        file: &File,
        range: Range<u64>,
        sharing: Sharing,
        options: &MapOptions,
    ) -> Result<Range<u64>, Error> {
        self.map_mapped(file.mapped(), range, sharing, options)
    }

    pub(crate) fn map_mapped(
        &self,
        file: MappedFile,
        range: Range<u64>,
        sharing: Sharing,
        options: &MapOptions,
    ) -> Result<Range<u64>, Error> {
        let failed = |kind| Error::new(kind, Op::Map);
        let shared = &self.mm.shared;
        let page_bytes = file.page_size() as u64;
        let nr_nodes = shared.pool().nr_nodes();
        options.policy.check(nr_nodes).map_err(failed)?;
        if !file.is_in(shared.pool()) {
            return Err(failed(ErrorKind::OtherFrames));
        }
        if range.start >= range.end || range.end > MAX_FILE_BYTES {
            return Err(failed(ErrorKind::InvalidRange));
        }
        if !range.start.is_multiple_of(page_bytes) {
            return Err(failed(ErrorKind::Misaligned));
        }
        let maps = file
            .user_or_else(Arc::<FileMaps>::default)
            .ok_or_else(|| failed(ErrorKind::OtherFrames))?;
        // Declared before the lock, so that an error drops it after the unlock: closing a file may
        // take long.
        let backing = Arc::new(Backing { file, maps });
        let len = (range.end - range.start).next_multiple_of(page_bytes);
        let mut areas = write(&self.mm.structure);
        let start = areas
            .find_room(len)
            .ok_or_else(|| failed(ErrorKind::OutOfAddresses))?;
        let addresses = start..start + len;
        let protection = options.protection;
        let shown = FileArea {
            backing: Arc::clone(&backing),
            sharing,
            range: addresses.clone(),
            first_byte: range.start,
            protection,
            page_shift: page_bytes.trailing_zeros(),
        };
        if !shown.may_be(protection) {
            return Err(failed(ErrorKind::ReadOnly));
        }
        let (order, id) = (shown.order(), shared.next_id());
        let mut area = Area::new(addresses.clone(), order, protection, options.policy, id);
        area.file = Some(Arc::new(shown));
        // F3 of `areas::file`: the area is linked before it can have an entry.
        area.link(&self.mm);
        areas.insert(area);
        Ok(addresses)
    }

    /// Unmaps the pages of `range`, which must be mapped completely, by any number of areas.
    ///
    /// # Errors
    ///
    /// [`ErrorKind`]: `Misaligned` unless the range begins and ends at page boundaries;
    /// `InvalidRange` if it is empty or exceeds the addresses of the space; `Unmapped` unless all
    /// its pages are mapped; `OutOfFrames` or `TooManyEntries` if a table that is shared with a
    /// fork must be copied, since it stays in use in part; `Refused` where a file is mapped.
    pub fn unmap(&self, range: Range<u64>) -> Result<(), Error> {
        let unmapped = self.mm.with_room_for_tables(|| {
            let mut areas = write(&self.mm.structure);
            areas.check(&range, Op::Unmap)?;
            self.unmap_locked(&mut areas, &range, Op::Unmap)
        })?;
        // After the lock is released: closing a file calls the backend.
        close(unmapped);
        Ok(())
    }

    /// Sets the permitted accesses of the pages of `range`, which must be mapped completely. Fails
    /// as [`unmap`](Self::unmap) does, or with `ReadOnly` if writes would go to a read-only file.
    pub fn protect(&self, range: Range<u64>, protection: Protection) -> Result<(), Error> {
        self.mm.with_room_for_tables(|| {
            let mut areas = write(&self.mm.structure);
            areas.check(&range, Op::Protect)?;
            self.protect_locked(&mut areas, &range, protection)
        })
    }

    /// Moves the pages of `range`, which must be mapped completely, and returns the new addresses.
    /// Fails as [`unmap`](Self::unmap) does, or with `OutOfAddresses`.
    pub fn move_to_free(&self, range: Range<u64>) -> Result<Range<u64>, Error> {
        self.mm.with_room_for_tables(|| {
            let mut areas = write(&self.mm.structure);
            areas.check(&range, Op::Move)?;
            self.move_locked(&mut areas, &range)
        })
    }

    /// Returns the areas of the space, in ascending order.
    pub fn areas(&self) -> Vec<AreaInfo> {
        read(&self.mm.structure)
            .iter()
            .map(|area| AreaInfo {
                range: area.range.clone(),
                protection: area.protection,
                policy: area.policy,
                page_bytes: area.page_bytes(),
            })
            .collect()
    }

    /// Sets the nodes for new pages of `range`, which must be mapped completely. Existing pages
    /// stay until [`migrate`](Self::migrate) moves them. Compaction follows the policy under which
    /// a page was created. Fails with [`ErrorKind`] `NoSuchNode`, `InvalidRange`, `Misaligned`,
    /// `Unmapped` or `Refused`.
    pub fn set_policy(&self, range: Range<u64>, policy: Policy) -> Result<(), Error> {
        let mm = &self.mm;
        policy
            .check(mm.shared.pool().nr_nodes())
            .map_err(|kind| Error::at(kind, Op::SetPolicy, range.start))?;
        let mut areas = write(&mm.structure);
        areas.check(&range, Op::SetPolicy)?;
        mm.forget_files(&areas, &range, Op::SetPolicy)?;
        areas.split_at_ends(&range, mm, || mm.shared.next_id());
        areas.set_policy(&range, policy);
        Ok(())
    }

    /// Makes the tables of `range` exclusive, except those that `is_left_out` accepts.
    pub(super) fn own_tables(
        &self,
        areas: &Areas,
        range: &Range<u64>,
        op: Op,
        mut is_left_out: impl FnMut(u64) -> bool,
    ) -> Result<(), Error> {
        for area in areas.overlapping(range) {
            let part = area.range.start.max(range.start)..area.range.end.min(range.end);
            for (word, start) in self.mm.tables.directory.words_at(&part) {
                if Directory::look(word).is_present() && !is_left_out(start) {
                    let owned = self.mm.own_table(area.order, start);
                    owned.map_err(|kind| Error::at(kind, op, start))?;
                }
            }
        }
        Ok(())
    }

    fn unmap_locked(
        &self,
        areas: &mut Areas,
        range: &Range<u64>,
        op: Op,
    ) -> Result<Vec<Area>, Error> {
        self.own_tables(areas, range, op, |start| {
            areas.is_table_free_but(start, range)
        })?;
        self.mm.forget_files(areas, range, op)?;
        areas.split_at_ends(range, &self.mm, || self.mm.shared.next_id());
        self.take_tables(areas, range);
        self.mm.for_each_entry(areas, range, |word, _| {
            self.mm.shared.supply.empty_entry(word)
        });
        let unmapped = areas.remove_within(range);
        unmapped.iter().for_each(Area::unlink);
        Ok(unmapped)
    }

    /// Removes the tables that only areas within `range` use. Records those that stay.
    fn take_tables(&self, areas: &mut Areas, range: &Range<u64>) {
        let words = self.mm.tables.directory.words_at(range);
        let free: Vec<_> = words
            .filter(|(word, start)| {
                Directory::look(word).is_present() && areas.is_table_free_but(*start, range)
            })
            .collect();
        let mut tables = Vec::with_capacity(free.len());
        // A writer at work may be about to claim an entry of one of these tables.
        let stopped = self.mm.shared.writers.stop(|| {
            tables.extend(free.iter().filter_map(|(word, _)| self.mm.take_table(word)));
        });
        if stopped.is_err() {
            // Exclusive tables stay. Shared ones are removed nevertheless: other spaces use their
            // entries, and no writer in place uses a shared table.
            for (word, start) in free {
                if Directory::look(word).is_exclusive() {
                    areas.left.push(start);
                } else {
                    tables.extend(self.mm.take_table(word));
                }
            }
        }
        for table in tables {
            self.mm.shared.supply.drop_share(table);
        }
    }

    fn protect_locked(
        &self,
        areas: &mut Areas,
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
        self.mm.forget_files(areas, range, Op::Protect)?;
        areas.split_at_ends(range, &self.mm, || self.mm.shared.next_id());
        areas.set_protection(range, protection);
        self.mm.for_each_entry(areas, range, |word, _| {
            if let Some(claim) = claim_used(word) {
                let before = claim.before();
                claim.end(before.protected(protection));
                self.mm.shared.supply.wake_entry(word, before);
            }
        });
        Ok(())
    }

    fn move_locked(&self, areas: &mut Areas, range: &Range<u64>) -> Result<Range<u64>, Error> {
        let failed = |kind| Error::at(kind, Op::Move, range.start);
        // The same offset in a table keeps pages aligned, and entries at their indices.
        let lead = range.start & (TABLE_BYTES - 1);
        let room = areas
            .find_room(lead + (range.end - range.start))
            .ok_or_else(|| failed(ErrorKind::OutOfAddresses))?;
        // The shift wraps around if the new range is below the old one.
        let shift = (room + lead).wrapping_sub(range.start);
        let shifted = |addr: u64| addr.wrapping_add(shift);
        self.own_tables(areas, range, Op::Move, |_| false)?;
        self.mm.forget_files(areas, range, Op::Move)?;
        self.make_tables(areas, range, shift).map_err(failed)?;
        areas.split_at_ends(range, &self.mm, || self.mm.shared.next_id());
        let moved: Vec<Area> = areas
            .overlapping(range)
            .map(|area| area.moved(shifted(area.range.start), self.mm.shared.next_id()))
            .collect();
        for area in &moved {
            area.link(&self.mm);
        }
        self.mm.for_each_entry(areas, range, |from, addr| {
            let addr = shifted(addr);
            let pmd = Directory::look(self.mm.tables.word_of(addr));
            let Some(table) = pmd.table() else {
                return;
            };
            let Some(claim) = claim_used(from) else {
                return;
            };
            let before = claim.before();
            let to = &self.mm.shared.supply.table_entries(table)[entry_of(addr, pmd.order())];
            // The entry is stored at its new place first, so that a table always has it. It is
            // counted and converted once: a walk that finds the old entry waits for its claim.
            // ORDERING: Release; publishes the page that the entry names.
            to.store(look(to).moved_here(before).bits(), Ordering::Release);
            claim.end(before.emptied());
            self.mm.shared.supply.wake_entry(from, before);
        });
        self.take_tables(areas, range);
        areas.remove_within(range).iter().for_each(Area::unlink);
        for area in moved {
            areas.insert(area);
        }
        Ok(shifted(range.start)..shifted(range.end))
    }

    /// Creates tables for the new addresses of `range`, `shift` bytes further, where the old ones
    /// have tables and the new ones have none. An error removes them again.
    fn make_tables(&self, areas: &Areas, range: &Range<u64>, shift: u64) -> Result<(), ErrorKind> {
        let mut made = Vec::new();
        for area in areas.overlapping(range) {
            let part = area.range.start.max(range.start)..area.range.end.min(range.end);
            for (word, start) in self.mm.tables.directory.words_at(&part) {
                let to = self.mm.tables.word_of(start.wrapping_add(shift));
                if !Directory::look(word).is_present() || Directory::look(to).is_present() {
                    continue;
                }
                let Some(table) = self.mm.shared.supply.make_table() else {
                    // No writer is about to claim an entry: the tables never had one.
                    made.into_iter().for_each(|word| self.mm.drop_table(word));
                    return Err(ErrorKind::OutOfFrames);
                };
                let with_table = Directory::look(to).with_table(table, area.order);
                self.mm.tables.set(to, with_table);
                made.push(to);
            }
        }
        Ok(())
    }
}
