//! The size at which the storage has a file that is written to, and how it is kept in step with the file's size.
//!
//! The storage has less than the file while pages past its end are dirty; readers see the gap as zeros
//! (`read::fill`). A failed call may have changed the size all the same. Then the storage is asked,
//! and if it does not answer, its size is set before it is given anything else. A backend that panics in such a call has not
//! answered: the panic goes on once everything is in step with that.
//!
//! Invariants, with the writeback lock held, and the size known.
//! - S1: fills go by the size that the storage has. So no byte that was cut off is read, now or after the file has
//!   been opened again.
//! - S2: the storage has more than the file only after a growth that failed, until the next sync.
//!
//! If the size is not known, the storage may have more than fills go by: bytes that were cut off. It is cut before it is given
//! anything, and no failure of that makes fills go by these bytes again.
//!
//! # Files in whole pages
//!
//! A file with hooks on its bytes is stored in whole pages, and the storage's size tells the file's ([`crate::base::layout`]). So the storage has to be longer before a page is
//! written past its end, and is told the end of the file afterwards: a part of a page past the end would make the storage's size that of a *shorter* file.
//! - P1: a page is written only where the storage has room for all of it. Before the first page of a flush the storage gets the size of all pages that may follow
//!   ([`reach_pages`](StorageSize::reach_pages)); after the last, the size that tells the end of the file ([`know_size`](StorageSize::know_size)). In between the size is *not known*, but
//!   is that of a longer file: more pages, of which those that were not written are holes.
//! - P2: where a new page comes to be, the storage has zeros, whatever of the earlier changes survives a loss of power. The bytes past the last whole page, which only tell the
//!   size, would otherwise be those of a page that was cut off, and a part of a page once the storage grows. So a cut is first one to whole pages; and a cut is made durable before
//!   the storage grows again. A file that is opened for writing may have others there from an earlier program: it is looked at before it grows, at the latest ([`settle_rest`](StorageSize::settle_rest)).
//! - P3: what was cut off of the last page is in the storage until the page is written again, which the cut sees to; fills do not look at it, and the file grows past it only when it is
//!   gone ([`super::tail`]).
//!
//! Each of these sizes in between is that of a file at least as long as the last one that was made durable, unless the file was cut; then as long as what the cut leaves, at least.
//!
//! Proved by: `crates/pagewell/tests/durability`, `crates/pagewell/tests/page_hooks`.

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
use crate::dirty::storage::Storage;
use crate::mapping::record::Mapping;
use crate::writeback::durable::Durable;

/// The storage has failed to set its size.
#[derive(Debug)]
#[must_use]
pub(crate) struct SizeNotSet {
    /// Whether the storage may have the requested size all the same: it has that size, or does not tell.
    pub(crate) may_be_set: bool,
    why: Failure,
}

impl SizeNotSet {
    /// The storage's error; a panic goes on.
    pub(crate) fn error_or_unwind(self) -> io::Error {
        match self.why {
            Failure::Error(error) => error,
            Failure::Panic(panic) => resume_unwind(panic),
        }
    }
}

/// How a call of the storage has failed.
#[derive(Debug)]
enum Failure {
    Error(io::Error),
    Panic(Box<dyn Any + Send>),
}

/// Calls the storage, and catches its panic.
fn caught<T>(call: impl FnOnce() -> io::Result<T>) -> Result<T, Failure> {
    // The call changes nothing of ours, and a backend has seen its own state unwind.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(Failure::Error),
        Err(panic) => Err(Failure::Panic(panic)),
    }
}

/// Keeps the size that the storage has in step with the file's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StorageSize<'m, S: RefScheme>(pub(crate) &'m Mapping<S>);

impl<S: RefScheme> StorageSize<'_, S> {
    /// Gives the storage `bufs`, which end at byte `end` of the file.
    pub(super) fn write_storage(
        self,
        storage: &mut Storage,
        bufs: &[RacySource<'_>],
        start: u64,
        end: u64,
    ) -> io::Result<()> {
        let layout = self.0.layout();
        // Of a file in whole pages the pages are there already.
        if !layout.is_of_pages() {
            self.know_size(storage)?;
        }
        let was_known = std::mem::replace(&mut storage.is_size_known, false);
        storage.is_synced = false;
        storage.pace.note_request(end - start);
        // Stays so unless the call succeeds, also if it panics.
        let had_dirty = std::mem::replace(&mut storage.may_have_dirty, true);
        let _step = self.begin_step(Step::Write);
        match self.0.backend().write_at(bufs, start) {
            Ok(()) => {
                let has = self.0.fill_size();
                self.0.store_fill_size(has.max(end));
                // Of a file in whole pages the end is told later.
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
                    // It is as long as the pages take, and fills go by what was there before.
                } else if let Ok(size) = self.0.backend().size() {
                    self.0.store_fill_size(self.0.fill_size().max(size));
                    storage.is_size_known = true;
                }
                Err(error)
            }
        }
    }

    /// Sets the size of the storage. After an error fills go by the size that the storage has, as far as its bytes
    /// are the file's.
    ///
    /// `when_set` is called when the storage has the size, or may have it, and before fills go by that size.
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
        storage.is_synced = false;
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
        // A file in whole pages that was cut in part: the rest can be done at any time, and what is gone is gone.
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
            // More than fills go by, and its size was unknown before: these bytes were cut off, and the storage still has to cut
            // them.
            Some(now) if now > self.0.fill_size() && !was_known => {}
            // More, and its size was known before: zeros. Less, and not the requested size: somebody else has cut the
            // file, and a reader of the missing bytes is told.
            Some(now) => {
                self.0.store_fill_size(self.0.fill_size().max(now));
                storage.is_size_known = true;
            }
            // The size that it has for certain. A cut that may have been done counts as done.
            None => self.0.store_fill_size(self.0.fill_size().min(size)),
        }
        Err(SizeNotSet { may_be_set, why })
    }

    /// The storage is called, until the answer is dropped.
    fn begin_step(&self, step: Step) -> Option<InStep<'_>> {
        let writes = self.0.writes_if_any()?;
        Some(writes.service.begin_step(&self.0.shared().pressure, step))
    }

    /// Sets the storage's size to the one that fills go by, if it is not known. Bytes that the storage may have
    /// past it were cut off, or were never the file's, or are dirty.
    pub(super) fn know_size(self, storage: &mut Storage) -> io::Result<()> {
        if !storage.is_size_known {
            storage.is_synced = false;
            let _step = self.begin_step(Step::Resize);
            self.set_stored(storage, self.0.fill_size())?;
            storage.is_size_known = true;
        }
        Ok(())
    }

    /// Makes the storage of a file in whole pages as long as its first `end` pages take, if it is shorter (P1). Nothing of the file is on its way.
    pub(super) fn reach_pages(self, storage: &mut Storage, end: PageNr) -> io::Result<()> {
        let wanted = end * self.0.page_size() as u64;
        if wanted <= self.0.layout().pages_end(self.0.fill_size()) {
            return self.know_size(storage);
        }
        self.settle_cut(storage)?;
        storage.is_synced = false;
        storage.is_size_known = false;
        storage.pages_end = storage.pages_end.max(wanted);
        let _step = self.begin_step(Step::Resize);
        self.0.backend().set_size(wanted)
    }

    /// Before a file in whole pages gets more of them: checks the bytes past the last page of a file that was opened, and makes an
    /// earlier cut durable (P2).
    pub(crate) fn settle_cut(self, storage: &mut Storage) -> io::Result<()> {
        self.settle_rest(storage)?;
        match self.0.writes_if_any() {
            Some(writes) if storage.is_cut => {
                Durable(self.0).sync_storage(writes, storage, Sync::Data)
            }
            _ => Ok(()),
        }
    }

    /// Cuts the bytes past the last whole page, which only tell the size, if an earlier program left others than zeros there. It looks
    /// once: a look that fails is repeated before the next growth.
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

    /// Gives the storage the size of a file of `size` bytes. Of a file in whole pages that has to be one with as many pages, or fewer, or no cut may have
    /// to be made durable.
    fn set_stored(self, storage: &mut Storage, size: u64) -> io::Result<()> {
        let layout = self.0.layout();
        if layout.is_of_pages() {
            let pages_end = layout.pages_end(size);
            let has = layout.pages_end(self.0.fill_size());
            // A change within the last page cuts some of the rest, too, which may be what nobody has looked at.
            storage.is_cut |= storage.may_have_rest;
            if storage.pages_end.max(has) > pages_end {
                // Nothing of the pages that go may be left past the last page.
                storage.pages_end = storage.pages_end.max(has);
                storage.is_cut = true;
                self.0.backend().set_size(pages_end)?;
                storage.may_have_rest = false;
            }
            storage.pages_end = pages_end;
        }
        self.0.backend().set_size(layout.stored(size))
    }

    /// Makes sure that the storage has the file at its size: at least `size`, which the file had a moment ago.
    pub(super) fn tell_size(self, storage: &mut Storage, size: u64) -> io::Result<()> {
        self.know_size(storage)?;
        let fill = self.0.fill_size();
        if fill < size {
            return self
                .set_storage_size(storage, size, || {})
                .map_err(SizeNotSet::error_or_unwind);
        }
        // The file does not shrink while the writeback lock is held, and nothing past its end is given to the
        // storage. So this cuts nothing of the file.
        let size = self.0.size();
        if fill > size {
            self.set_storage_size(storage, size, || {})
                .map_err(SizeNotSet::error_or_unwind)?;
        }
        Ok(())
    }
}
