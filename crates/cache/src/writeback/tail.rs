//! The end of a file that is stored in whole pages: what its last page has in the storage after the end.
//!
//! The bytes of a page after the end of the file are zeros when it is given to the storage. The storage may have others all the same:
//! - after a cut, what was cut off, until the page is written again;
//! - after an opening, what was written before a loss of power (or the end of the process) that kept the page and not the size.
//!
//! As long as the file ends there nobody sees them: fills go by the size. If the file becomes longer, they would be its bytes. So who makes it longer looks at the page first.
//! The end is *loose* until then ([`Writes::loose_end`]). Who opens the file for writing looks too, so that what an earlier program left is gone, for good, before this one writes anything.
//!
//! Protocol, with the lock of the file's size held, before a loose end is no end any more:
//! 1. The page is brought into the cache.
//! 2. Take the writeback lock. If the page is dirty, give it to the storage: then it has zeros there.
//! 3. Otherwise claim the page, so that it stays in the cache, and no other thread reads it from the storage while it changes there. Read what the storage has, and have the hook turn it
//!    back. If there are zeros after the end, or the page is a hole, that was all. So it is nearly always.
//! 4. If not: make them zeros, have the hook change the page, write it, and make that durable: a loss of power must not leave the old page and a later size. If
//!    that fails the page is dirty, so nothing of it is lost.
//!
//! The claim is held for two transfers and two calls of hooks, which wait for nothing (they are refused that), as a fill holds it for one.
//!
//! Proved by: `crates/pagewell/tests/page_hooks` (`what_was_cut_off_does_not_come_back*`, `a_page_that_was_written_before_its_size*`).

use pagewell_frame::refcount::RefScheme;

use crate::base::aligned::Aligned;
use crate::base::error::{Cause, Error, ErrorKind, Failure, Op};
use crate::base::page::PageNr;
use crate::base::page_hooks::{Hooks, OutgoingPage, call_page_hook, is_zeros};
use crate::base::page_state::PageState;
use crate::dirty::commits::Sync;
use crate::dirty::storage::Storage;
use crate::dirty::writes::Writes;
use crate::mapping::record::Mapping;
use crate::writeback::durable::Durable;
use crate::writeback::flush::Flusher;
use crate::writeback::run::stored_as_zeros;
use crate::writeback::size::StorageSize;

/// What has become of a loose end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Tail {
    /// It is none any more.
    Settled,
    /// The page is not in the cache.
    Missing,
}

/// Looks at the last page of a file that is about to become longer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TailKeeper<'m, S: RefScheme>(pub(crate) &'m Mapping<S>);

impl<S: RefScheme> TailKeeper<'_, S> {
    /// Steps 2 to 4, for the page with byte `at`, the end of the file. The lock of the size is held.
    pub(crate) fn settle(self, writes: &Writes, at: u64, op: Op) -> Result<Tail, Error> {
        let Some(hooks) = self.0.hooks() else {
            return Ok(Tail::Settled);
        };
        let page = at >> self.0.page_shift();
        let mut storage = self.0.lock_storage(writes, op)?;
        if writes.any_dirty(page..page + 1).is_some() {
            // If it does not go out, because the hook refuses it for example, the rest is done all
            // the same.
            let _ = Flusher(self.0).flush_page(writes, &mut storage, page);
        }
        if writes.loose_end() != Some(at) {
            return Ok(Tail::Settled);
        }
        let Some(claim) = self.0.claim_present(page) else {
            return Ok(Tail::Missing);
        };
        let Some(frame) = claim.frame() else {
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
                // What the storage has of it is not known now.
                let record = self.0.pool().meta(frame);
                let before = PageState::of(record);
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

    /// What the storage has of `page`, as it was before it was changed on its way; none if it is a hole.
    fn stored(self, hooks: &Hooks, page: PageNr, op: Op) -> Result<Option<Vec<u8>>, Error> {
        let memory = Aligned::new(self.0.page_size());
        let pos = page << self.0.page_shift();
        let nr = self
            .0
            .backend()
            .read_at(&[memory.bytes()], pos)
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

    /// Gives the page to the storage, of which `used` bytes are the file's.
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
        let refused = |error| Failure {
            cause: Cause::Hook,
            error,
            page: Some(page),
        };
        changed.map_err(refused)?;
        let [outgoing] = outgoing;
        if !were_zeros && is_zeros(outgoing.bytes()) {
            return Err(refused(stored_as_zeros()));
        }
        let memory = Aligned::new(self.0.page_size());
        memory.bytes().copy_from(0, outgoing.bytes());
        let pos = page << self.0.page_shift();
        let end = pos + used as u64;
        StorageSize(self.0).write_storage(storage, &[memory.bytes().into()], pos, end)?;
        Ok(())
    }
}
