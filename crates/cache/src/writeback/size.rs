//! Size of the backend of a file that is written to, and its relation to the file's size.
//!
//! While pages past the backend's end are dirty, the backend is shorter than the file, and readers
//! see the gap as zeros (`read::fill`). After a failed call, the size is queried from the backend.
//! If the query fails too, or the backend panics in such a call, the size is *unknown*, and is set
//! before anything else is written. A panic resumes once the recorded state is consistent.
//!
//! Invariants while a thread holds the writeback lock and the size is known.
//! - S1: the size that fills use is the size of the backend. So no fill reads a byte that was
//!   truncated, neither now nor after the file is opened again.
//! - S2: the backend is longer than the file only after a growth that failed, until the next sync.
//!
//! If the size is unknown, the backend may be longer than the size that fills use, with bytes that
//! were truncated. Fills do not read them, and the backend is truncated before a write.
//!
//! # Files in whole pages
//!
//! A file with a page codec is stored in whole pages, and the backend's size encodes the file's
//! ([`crate::base::layout`]). If a write of part of a page extended the backend, its size would be
//! that of a *shorter* file.
//! - P1: a page is written only where the backend has space for all of it. Before the first page of
//!   a flush, the backend is extended to hold all pages that may follow
//!   ([`reach_pages`](StorageSize::reach_pages)). After the last page, its size is set to the one
//!   that encodes the end of the file ([`know_size`](StorageSize::know_size)). In between, it is
//!   that of a longer file with holes, and counts as *not known*.
//! - P2: where a new page is created, the backend has zeros, whatever part of the earlier changes
//!   survives a power loss. Otherwise the bytes past the last whole page, which only encode the
//!   size, could be those of a truncated page, and become part of a page when the backend grows. So
//!   a truncation first sets a size of whole pages, and is made durable before the backend grows
//!   again. When a file was opened for writing, nonzero bytes of an earlier program are removed
//!   before the file grows ([`settle_rest`](StorageSize::settle_rest)).
//! - P3: truncated bytes of the last page stay in the backend until the page, which the truncation
//!   makes dirty, is written again. Readers do not get them, and the file grows past them only
//!   after they are zeroed ([`super::tail`]).
//!
//! Each intermediate size of the backend encodes a file size not less than the last durable one or,
//! if the file was truncated since then, than the size after the truncation.
//!
//! Verified by: `crates/pagewell/tests/durability`, `crates/pagewell/tests/page_hooks`.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pagewell_io::Aligned;
use pagewell_sync::bytes::RacySource;

use crate::base::error::Op;
use crate::base::page::PageNr;
use crate::base::page_hooks::is_zeros;
use crate::dirty::commits::Sync;
use crate::dirty::service::Step;
use crate::dirty::writes::{Durability, Storage};
use crate::mapping::record::Mapping;
use crate::writeback::durable::Durable;

#[derive(Debug)]
#[must_use]
pub(crate) struct SizeNotSet {
    /// Whether the backend may have the requested size nevertheless: a query returned it, the size
    /// is unknown, or a file in whole pages was truncated in part.
    pub(crate) may_be_set: bool,
    why: Failure,
}

impl SizeNotSet {
    pub(crate) fn error_or_unwind(self) -> io::Error {
        match self.why {
            Failure::Error(error) => error,
            Failure::Panic(panic) => resume_unwind(panic),
        }
    }
}

#[derive(Debug)]
enum Failure {
    Error(io::Error),
    Panic(Box<dyn Any + Send>),
}

fn caught<T>(call: impl FnOnce() -> io::Result<T>) -> Result<T, Failure> {
    // Unwind safe: the recorded state is valid at each call of the backend, which restores its own.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(Failure::Error),
        Err(panic) => Err(Failure::Panic(panic)),
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct StorageSize<'m>(pub(crate) &'m Mapping);

impl StorageSize<'_> {
    /// Writes `bufs` to the backend from byte `start` on. Their bytes within the file end at `end`.
    /// The caller holds the writeback lock.
    pub(super) fn write_storage(
        self,
        storage: &mut Storage,
        bufs: &[RacySource<'_>],
        start: u64,
        end: u64,
    ) -> io::Result<()> {
        let layout = self.0.layout();
        // The backend of a file in whole pages has space for the pages.
        if !layout.is_of_pages() {
            self.know_size(storage)?;
        }
        let was_known = std::mem::replace(&mut storage.is_size_known, false);
        storage.durability = Durability::Changed;
        storage.pace.note_request(end - start);
        // Stays `true` unless the call succeeds, also on unwind.
        let had_dirty = std::mem::replace(&mut storage.may_have_dirty, true);
        let _step = self.0.begin_step(Step::Write);
        match self.0.call_backend(|backend| backend.write_at(bufs, start)) {
            Ok(()) => {
                let has = self.0.fill_size();
                self.0.store_fill_size(has.max(end));
                storage.is_size_known = !layout.is_of_pages() || (was_known && end <= has);
                storage.may_have_dirty = had_dirty;
                if let Some(writes) = self.0.writes_if_any()
                    && layout.is_of_pages()
                {
                    writes.note_whole_pages(start, layout.pages_end(end));
                }
                Ok(())
            }
            Err(error) => {
                if layout.is_of_pages() {
                    // The space in the backend and the size for fills are unchanged.
                } else {
                    self.find_size(storage);
                }
                Err(error)
            }
        }
    }

    /// Queries the size of a backend without a codec, after a write that has failed.
    pub(super) fn find_size(self, storage: &mut Storage) {
        if let Ok(size) = self.0.call_backend(|backend| backend.size()) {
            self.0.store_fill_size(self.0.fill_size().max(size));
            storage.is_size_known = true;
        }
    }

    /// Sets the size of the backend. Calls `when_set` once the backend has, or may have, the size,
    /// before fills use it. After an error, fills use the actual size as far as its bytes belong to
    /// the file. The caller holds the writeback lock.
    pub(crate) fn set_storage_size(
        self,
        storage: &mut Storage,
        size: u64,
        when_set: impl FnOnce(),
    ) -> Result<(), SizeNotSet> {
        if size > self.0.fill_size() {
            self.know_size(storage).map_err(|error| SizeNotSet {
                may_be_set: false,
                why: Failure::Error(error),
            })?;
        }
        let writes = self.0.writes_if_any();
        let _cutting = writes
            .filter(|_| size < self.0.fill_size())
            .map(|writes| writes.cutting(&self.0.claims().waits));
        let layout = self.0.layout();
        if layout.pages_end(size) > layout.pages_end(self.0.fill_size()) {
            self.settle_cut(storage).map_err(|error| SizeNotSet {
                may_be_set: false,
                why: Failure::Error(error),
            })?;
        }
        storage.durability = Durability::Changed;
        let was_known = std::mem::replace(&mut storage.is_size_known, false);
        let _step = self.0.begin_step(Step::Resize);
        let why = match caught(|| self.set_stored(storage, size)) {
            Ok(()) => {
                when_set();
                self.0.store_fill_size(size);
                storage.is_size_known = true;
                return Ok(());
            }
            Err(why) => why,
        };
        let (now, why) = match why {
            Failure::Panic(_) => (None, why),
            Failure::Error(_) => match caught(|| Ok(self.0.asked_size(Op::Resize).ok())) {
                Ok(now) => (now, why),
                Err(panic) => (None, panic),
            },
        };
        // If the backend of a file in whole pages got shorter, but not short enough, some bytes are
        // lost. The truncation counts as done, and is completed later.
        let has_lost = |now: &u64| layout.is_of_pages() && size < *now && *now < self.0.fill_size();
        let now = now.filter(|now| !has_lost(now));
        let may_be_set = now.is_none_or(|now| now == size);
        if may_be_set {
            when_set();
        }
        match now {
            Some(now) if now == size => {
                self.0.store_fill_size(size);
                storage.is_size_known = true;
            }
            // The size was unknown: the additional bytes must still be truncated.
            Some(now) if now > self.0.fill_size() && !was_known => {}
            // If the backend is longer, the additional bytes are zeros. If it is shorter, but not
            // of the requested size, the file was truncated outside the cache, and readers of the
            // missing bytes get an error.
            Some(now) => {
                self.0.store_fill_size(self.0.fill_size().max(now));
                storage.is_size_known = true;
            }
            // Fills use a size that the backend has in any case, so a truncation counts as done.
            None => self.0.store_fill_size(self.0.fill_size().min(size)),
        }
        Err(SizeNotSet { may_be_set, why })
    }

    /// If the size of the backend is unknown, sets it to the size that fills use. Bytes that the
    /// backend may have past it were truncated, never belonged to the file, or are in dirty pages.
    pub(super) fn know_size(self, storage: &mut Storage) -> io::Result<()> {
        if !storage.is_size_known {
            storage.durability = Durability::Changed;
            let _step = self.0.begin_step(Step::Resize);
            self.set_stored(storage, self.0.fill_size())?;
            storage.is_size_known = true;
        }
        Ok(())
    }

    /// Extends the backend of a file in whole pages to `end` pages (P1). No page may be in flight.
    pub(super) fn reach_pages(self, storage: &mut Storage, end: PageNr) -> io::Result<()> {
        let wanted = end * self.0.page_size() as u64;
        if wanted <= self.0.layout().pages_end(self.0.fill_size()) {
            return self.know_size(storage);
        }
        self.settle_cut(storage)?;
        storage.durability = Durability::Changed;
        storage.is_size_known = false;
        storage.pages_end = storage.pages_end.max(wanted);
        let _step = self.0.begin_step(Step::Resize);
        self.0.call_backend(|backend| backend.set_size(wanted))
    }

    /// Prepares a file in whole pages for growth (P2): checks the bytes past the last page, and
    /// makes an earlier truncation durable.
    pub(crate) fn settle_cut(self, storage: &mut Storage) -> io::Result<()> {
        self.settle_rest(storage)?;
        match self.0.writes_if_any() {
            Some(writes) if storage.is_cut => {
                Durable(self.0).sync_storage(writes, storage, Sync::Data)
            }
            _ => Ok(()),
        }
    }

    /// Zeros bytes that an earlier program left past the last whole page. If this fails, the next
    /// growth tries again.
    fn settle_rest(self, storage: &mut Storage) -> io::Result<()> {
        if !storage.may_have_rest {
            return Ok(());
        }
        let (layout, size) = (self.0.layout(), self.0.fill_size());
        let start = layout.pages_end(size);
        let memory = Aligned::new(self.0.page_size(), Aligned::MOST_UNIT);
        let bytes = memory
            .bytes()
            .slice(0, (layout.stored(size) - start) as usize);
        let nr = self
            .0
            .call_backend(|backend| backend.read_at(&[bytes], start))?;
        let mut rest = vec![0; nr];
        memory.bytes().copy_to(0, &mut rest);
        if !is_zeros(&rest) {
            // As if there were one more page, so that `know_size` first truncates to whole pages.
            storage.pages_end = start + 1;
            storage.is_size_known = false;
            self.know_size(storage)?;
        }
        storage.may_have_rest = false;
        Ok(())
    }

    /// Sets the backend to the size that encodes a file of `size` bytes. Earlier truncations must
    /// be durable if its number of pages grows.
    fn set_stored(self, storage: &mut Storage, size: u64) -> io::Result<()> {
        let layout = self.0.layout();
        if layout.is_of_pages() {
            let pages_end = layout.pages_end(size);
            let has = layout.pages_end(self.0.fill_size());
            // A change within the last page also removes the unchecked bytes past it, if any.
            storage.is_cut |= storage.may_have_rest;
            if storage.pages_end.max(has) > pages_end {
                // First truncate to whole pages; otherwise bytes of removed pages would stay.
                storage.pages_end = storage.pages_end.max(has);
                storage.is_cut = true;
                self.0.call_backend(|backend| backend.set_size(pages_end))?;
                storage.may_have_rest = false;
            }
            storage.pages_end = pages_end;
        }
        self.0
            .call_backend(|backend| backend.set_size(layout.stored(size)))
    }

    /// Sets the backend to at least `size`, which the file had, and at most to the file's size now.
    pub(super) fn tell_size(self, storage: &mut Storage, size: u64) -> io::Result<()> {
        self.know_size(storage)?;
        let fill = self.0.fill_size();
        if fill < size {
            return self
                .set_storage_size(storage, size, || {})
                .map_err(SizeNotSet::error_or_unwind);
        }
        // The writeback lock keeps the file from shrinking: no byte of it is removed.
        let size = self.0.size();
        if fill > size {
            self.set_storage_size(storage, size, || {})
                .map_err(SizeNotSet::error_or_unwind)?;
        }
        Ok(())
    }
}
