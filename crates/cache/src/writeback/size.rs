//! Size of the backend of a file that is written to, and its relation to the file's size.
//!
//! The backend is shorter than the file while pages past its end are dirty; readers see the gap as
//! zeros (`read::fill`). A failed call may have changed the size nevertheless. Then the size is
//! requested from the backend; if that fails, its size is set before anything else is written.
//! After a panic of the backend in such a call, its size counts as unknown and is not requested:
//! the panic resumes once the state is consistent with that.
//!
//! Invariants, with the writeback lock held, and the size known.
//! - S1: fills use the size of the backend. So no byte that was truncated is read, now or after the
//!   file has been opened again.
//! - S2: the backend is longer than the file only after a growth that failed, until the next sync.
//!
//! If the size is not known, the backend may be longer than the size that fills use, with bytes
//! that were truncated. It is truncated before anything is written to it, and a failure of that
//! does not make fills use these bytes again.
//!
//! # Files in whole pages
//!
//! A file with a page codec is stored in whole pages, and the backend's size encodes the file's
//! ([`crate::base::layout`]). So the backend must be extended before a page is written past its
//! end, and then set to the size that encodes the end of the file: a part of a page past the end
//! would make the backend's size that of a *shorter* file.
//! - P1: a page is written only where the backend has space for all of it. Before the first page of
//!   a flush the backend gets the size of all pages that may follow
//!   ([`reach_pages`](StorageSize::reach_pages)); after the last one, the size that encodes the end
//!   of the file ([`know_size`](StorageSize::know_size)). In between the size is *not known*, but
//!   is that of a longer file, in which pages that were not written are holes.
//! - P2: where a new page is created, the backend has zeros, whatever part of the earlier changes
//!   survives a power loss. The bytes past the last whole page, which only encode the size, would
//!   otherwise be those of a truncated page, and become part of a page once the backend grows. So a
//!   truncation first sets a size of whole pages, and is made durable before the backend grows
//!   again. A file that is opened for writing may have other bytes there from an earlier program;
//!   they are checked at the latest before it grows ([`settle_rest`](StorageSize::settle_rest)).
//! - P3: truncated bytes of the last page stay in the backend until the page is written again,
//!   which the truncation ensures. Fills do not read them, and the file grows past them only once
//!   they are zeros ([`super::tail`]).
//!
//! Each of these intermediate sizes is that of a file at least as long as the last one made
//! durable. If the file was truncated, it is at least as long as what the truncation leaves.
//!
//! Verified by: `crates/pagewell/tests/durability`, `crates/pagewell/tests/page_hooks`.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::bytes::RacySource;

use crate::base::aligned::Aligned;
use crate::base::page::PageNr;
use crate::base::page_hooks::is_zeros;
use crate::dirty::commits::Sync;
use crate::dirty::service::{InStep, Step};
use crate::dirty::storage::{Durability, Storage};
use crate::mapping::record::Mapping;
use crate::writeback::durable::Durable;

/// Failure of the backend to set its size.
#[derive(Debug)]
#[must_use]
pub(crate) struct SizeNotSet {
    /// Whether the backend may have the requested size nevertheless: it returned that size; its
    /// size is unknown, after an error or a panic; or a file in whole pages was truncated in part.
    pub(crate) may_be_set: bool,
    why: Failure,
}

impl SizeNotSet {
    /// Returns the backend's error, or resumes its panic.
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

/// Calls the backend, and catches its panic.
fn caught<T>(call: impl FnOnce() -> io::Result<T>) -> Result<T, Failure> {
    // The call changes no state of the cache, and the backend's own state has unwound.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(Failure::Error),
        Err(panic) => Err(Failure::Panic(panic)),
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct StorageSize<'m, S: RefScheme>(pub(crate) &'m Mapping<S>);

impl<S: RefScheme> StorageSize<'_, S> {
    /// Writes `bufs` to the backend from byte `start` on; their bytes of the file end at `end`.
    pub(super) fn write_storage(
        self,
        storage: &mut Storage,
        bufs: &[RacySource<'_>],
        start: u64,
        end: u64,
    ) -> io::Result<()> {
        let layout = self.0.layout();
        // In a file in whole pages the backend has space for the pages already.
        if !layout.is_of_pages() {
            self.know_size(storage)?;
        }
        let was_known = std::mem::replace(&mut storage.is_size_known, false);
        storage.durability = Durability::Changed;
        storage.pace.note_request(end - start);
        // Stays `true` unless the call succeeds, also after a panic.
        let had_dirty = std::mem::replace(&mut storage.may_have_dirty, true);
        let _step = self.begin_step(Step::Write);
        match self.0.backend().write_at(bufs, start) {
            Ok(()) => {
                let has = self.0.fill_size();
                self.0.store_fill_size(has.max(end));
                // In a file in whole pages the end is set later.
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
                    // The backend is as long as the pages take, and fills use the previous size.
                } else if let Ok(size) = self.0.backend().size() {
                    self.0.store_fill_size(self.0.fill_size().max(size));
                    storage.is_size_known = true;
                }
                Err(error)
            }
        }
    }

    /// Sets the size of the backend. After an error fills use the backend's actual size, as far as
    /// its bytes are the file's.
    ///
    /// Calls `when_set` once the backend has the size, or may have it, and before fills use that
    /// size.
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
        let _step = self.begin_step(Step::Resize);
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
            Failure::Error(_) => match caught(|| self.0.ask_size()) {
                Ok(now) => (Some(now), why),
                Err(Failure::Error(_)) => (None, why),
                Err(panic) => (None, panic),
            },
        };
        // A file in whole pages that was truncated in part: the rest can be truncated at any time,
        // and the lost bytes are lost.
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
            // Longer than the size that fills use, and its size was unknown before: these bytes
            // were truncated, and the backend still has to be truncated.
            Some(now) if now > self.0.fill_size() && !was_known => {}
            // Longer, and its size was known before: zeros. Shorter, and not the requested size:
            // the file was truncated outside the cache, and a reader of the missing bytes gets an
            // error.
            Some(now) => {
                self.0.store_fill_size(self.0.fill_size().max(now));
                storage.is_size_known = true;
            }
            // The size that it is certain to have. A truncation that may have been done counts as
            // done.
            None => self.0.store_fill_size(self.0.fill_size().min(size)),
        }
        Err(SizeNotSet { may_be_set, why })
    }

    /// Records a backend call until the guard is dropped.
    fn begin_step(&self, step: Step) -> Option<InStep<'_>> {
        let writes = self.0.writes_if_any()?;
        Some(writes.service.begin_step(&self.0.shared().pressure, step))
    }

    /// Sets the backend's size to the one that fills use, if it is not known. Bytes that the
    /// backend may have past it were truncated, were never the file's, or are dirty.
    pub(super) fn know_size(self, storage: &mut Storage) -> io::Result<()> {
        if !storage.is_size_known {
            storage.durability = Durability::Changed;
            let _step = self.begin_step(Step::Resize);
            self.set_stored(storage, self.0.fill_size())?;
            storage.is_size_known = true;
        }
        Ok(())
    }

    /// Extends the backend of a file in whole pages to its first `end` pages, if it is shorter
    /// (P1). No page of the file is in flight.
    pub(super) fn reach_pages(self, storage: &mut Storage, end: PageNr) -> io::Result<()> {
        let wanted = end * self.0.page_size() as u64;
        if wanted <= self.0.layout().pages_end(self.0.fill_size()) {
            return self.know_size(storage);
        }
        self.settle_cut(storage)?;
        storage.durability = Durability::Changed;
        storage.is_size_known = false;
        storage.pages_end = storage.pages_end.max(wanted);
        let _step = self.begin_step(Step::Resize);
        self.0.backend().set_size(wanted)
    }

    /// Prepares a file in whole pages for more pages: checks the bytes past the last page of a file
    /// that was opened, and makes an earlier truncation durable (P2).
    pub(crate) fn settle_cut(self, storage: &mut Storage) -> io::Result<()> {
        self.settle_rest(storage)?;
        match self.0.writes_if_any() {
            Some(writes) if storage.is_cut => {
                Durable(self.0).sync_storage(writes, storage, Sync::Data)
            }
            _ => Ok(()),
        }
    }

    /// Removes the bytes past the last whole page, which only encode the size, if an earlier
    /// program left others than zeros there. They are checked once; a check that fails is repeated
    /// before the next growth.
    fn settle_rest(self, storage: &mut Storage) -> io::Result<()> {
        if !storage.may_have_rest {
            return Ok(());
        }
        let (layout, size) = (self.0.layout(), self.0.fill_size());
        let start = layout.pages_end(size);
        let memory = Aligned::new(self.0.page_size());
        let bytes = memory
            .bytes()
            .slice(0, (layout.stored(size) - start) as usize);
        let nr = self.0.backend().read_at(&[bytes], start)?;
        let mut rest = vec![0; nr];
        memory.bytes().copy_to(0, &mut rest);
        if !is_zeros(&rest) {
            // As if a page had been there.
            storage.pages_end = start + 1;
            storage.is_size_known = false;
            self.know_size(storage)?;
        }
        storage.may_have_rest = false;
        Ok(())
    }

    /// Sets the backend to the size that encodes a file of `size` bytes. For a file in whole pages,
    /// the number of pages must not grow, or no truncation may be waiting to be made durable.
    fn set_stored(self, storage: &mut Storage, size: u64) -> io::Result<()> {
        let layout = self.0.layout();
        if layout.is_of_pages() {
            let pages_end = layout.pages_end(size);
            let has = layout.pages_end(self.0.fill_size());
            // A change within the last page also removes some of the rest, which may not have been
            // checked.
            storage.is_cut |= storage.may_have_rest;
            if storage.pages_end.max(has) > pages_end {
                // No bytes of the removed pages may be left past the last page.
                storage.pages_end = storage.pages_end.max(has);
                storage.is_cut = true;
                self.0.backend().set_size(pages_end)?;
                storage.may_have_rest = false;
            }
            storage.pages_end = pages_end;
        }
        self.0.backend().set_size(layout.stored(size))
    }

    /// Sets the backend to the size of the file: at least `size`, an earlier size of the file.
    pub(super) fn tell_size(self, storage: &mut Storage, size: u64) -> io::Result<()> {
        self.know_size(storage)?;
        let fill = self.0.fill_size();
        if fill < size {
            return self
                .set_storage_size(storage, size, || {})
                .map_err(SizeNotSet::error_or_unwind);
        }
        // The file does not shrink while the writeback lock is held, and nothing past its end is
        // written to the backend. So this removes no byte of the file.
        let size = self.0.size();
        if fill > size {
            self.set_storage_size(storage, size, || {})
                .map_err(SizeNotSet::error_or_unwind)?;
        }
        Ok(())
    }
}
