//! Partial tail page of a file in whole pages: the backend's bytes after the end of the file.
//!
//! When a page is written to the backend, these bytes are zeros. They may be nonzero nevertheless:
//! - after a truncation, until the page is written again;
//! - after an opening, if an earlier program had stored the page, but not yet the size, when it
//!   ended or the power failed.
//!
//! No reader sees these bytes, since fills use the size, but they would become part of the file if
//! it grew. So a thread that extends the file, or opens it for writing, checks the page first.
//! Until then the end is *loose* ([`Writes::loose_end`]).
//!
//! Protocol, with the size lock held, before the file grows past a loose end:
//! 1. Fill the page.
//! 2. Acquire the writeback lock. If the page is dirty, write it, which zeros the bytes.
//! 3. Otherwise claim the page, so that it stays resident and no other thread reads it from the
//!    backend. Read and decode it. If the bytes after the end are zeros, which is nearly always the
//!    case, or the page is a hole, the check is complete.
//! 4. Otherwise zero these bytes, encode the page, write it, and make it durable: a power loss must
//!    not leave the old page together with a later size. If this fails, the page becomes dirty, so
//!    none of its bytes are lost.
//!
//! The claim is held for at most two transfers and two codec calls, which wait for no other claim:
//! in a codec, any call of a cache that may wait fails.
//!
//! Verified by: `crates/pagewell/tests/page_hooks` (`what_was_cut_off_does_not_come_back*`,
//! `a_page_that_was_written_before_its_size*`).

use pagewell_io::Aligned;

use crate::base::error::{Error, ErrorKind, Failure, Op};
use crate::base::page::PageNr;
use crate::base::page_hooks::{Hooks, OutgoingPage, call_page_hook, is_zeros};
use crate::dirty::commits::Sync;
use crate::dirty::writes::{Storage, Writes};
use crate::mapping::record::Mapping;
use crate::writeback::durable::Durable;
use crate::writeback::flush::Flusher;
use crate::writeback::run::{refused, stored_as_zeros};
use crate::writeback::size::StorageSize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Tail {
    Settled,
    Missing,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TailKeeper<'m>(pub(crate) &'m Mapping);

impl TailKeeper<'_> {
    /// Steps 2 to 4 for the page with the end of the file, `at`. The caller holds the size lock.
    pub(crate) fn settle(self, writes: &Writes, at: u64, op: Op) -> Result<Tail, Error> {
        let Some(hooks) = self.0.hooks() else {
            return Ok(Tail::Settled);
        };
        let page = at >> self.0.page_shift();
        let mut storage = self.0.lock_storage(writes, op)?;
        if writes.any_dirty(page..page + 1).is_some() {
            // Even if the page cannot be written (the callback may refuse it), continue below.
            let _ = Flusher(self.0).flush_page(writes, &mut storage, page);
        }
        if writes.loose_end() != Some(at) {
            return Ok(Tail::Settled);
        }
        let Some((claim, _, record, before)) = self.0.claim_page(page) else {
            return Ok(Tail::Missing);
        };
        let used = (at - (page << self.0.page_shift())) as usize;
        let mut is_changed = false;
        if let Some(mut bytes) = self.stored(hooks, page, op)?
            && !is_zeros(&bytes[used..])
        {
            is_changed = true;
            bytes[used..].fill(0);
            if let Err(failure) = self.write(hooks, &mut storage, (page, used), &mut bytes) {
                // The bytes of the page in the backend are unknown.
                if !before.is_dirty() {
                    let after = match before.is_unclean() {
                        true => before.failed(),
                        false => before.dirtied(),
                    };
                    self.0.note_state(writes, page, before, after);
                    after.store(record);
                }
                drop(claim);
                return Err(self.0.write_failed(writes, op, failure));
            }
        }
        drop(claim);
        if is_changed {
            Durable(self.0)
                .sync_storage(writes, &mut storage, Sync::Data)
                .map_err(|error| self.0.write_failed(writes, op, error))?;
        }
        writes.set_loose_end(None);
        Ok(Tail::Settled)
    }

    /// Returns `None` if `page` is a hole in the backend.
    fn stored(self, hooks: &Hooks, page: PageNr, op: Op) -> Result<Option<Vec<u8>>, Error> {
        let memory = Aligned::new(self.0.page_size(), Aligned::MOST_UNIT);
        let pos = page << self.0.page_shift();
        let nr = self
            .0
            .call_backend(|backend| backend.read_at(&[memory.bytes()], pos))
            .map_err(|error| Error::from_io(op, error).with_path(self.0.path()))?;
        if nr < self.0.page_size() {
            return Err(self.0.error(ErrorKind::Truncated, op));
        }
        let mut bytes = vec![0; nr];
        memory.bytes().copy_to(0, &mut bytes);
        if is_zeros(&bytes) {
            return Ok(None);
        }
        call_page_hook(|| hooks.0.after_read(page, &mut bytes)).map_err(|error| {
            self.0
                .error(ErrorKind::Corrupt, op)
                .with_page(page)
                .with_source(error)
        })?;
        Ok(Some(bytes))
    }

    /// Encodes and writes the page, whose first `used` bytes are within the file.
    fn write(
        self,
        hooks: &Hooks,
        storage: &mut Storage,
        (page, used): (PageNr, usize),
        bytes: &mut [u8],
    ) -> Result<(), Failure> {
        let were_zeros = is_zeros(bytes);
        let mut outgoing = [OutgoingPage::new(page, 0, used, bytes)];
        let changed = call_page_hook(|| hooks.0.before_write(&mut outgoing));
        changed.map_err(|error| refused(Some(page), error))?;
        let [outgoing] = outgoing;
        if !were_zeros && is_zeros(outgoing.bytes()) {
            return Err(refused(Some(page), stored_as_zeros()));
        }
        let memory = Aligned::new(self.0.page_size(), Aligned::MOST_UNIT);
        memory.bytes().copy_from(0, outgoing.bytes());
        let pos = page << self.0.page_shift();
        let end = pos + used as u64;
        StorageSize(self.0).write_storage(storage, &[memory.bytes().into()], pos, end)?;
        Ok(())
    }
}
