//! Giving dirty pages to the storage: the first protocol of [`super`].

use std::io;
use std::ops::Range;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameRef, TryGetFrame};
use pagewell_sync::bytes::RacySource;

use crate::base::error::{Cause, Error, Failure, Op};
use crate::base::page::PageNr;
use crate::base::page_state::{Group, PageState};
use crate::dirty::commits::Sync;
use crate::dirty::hook::InHook;
use crate::dirty::service::Step;
use crate::dirty::storage::Storage;
use crate::dirty::writes::Writes;
use crate::mapping::record::Mapping;
use crate::writeback::durable::Durable;
use crate::writeback::most_pages;
use crate::writeback::size::StorageSize;
use crate::writeback::states::States;

/// The step that follows when pages were given to the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing now: pages that are written to until that step need not be written twice.
    Nothing,
    /// A sync, some time. The storage is given no more than it makes durable soon ([`crate::dirty::pace`]).
    SyncLater,
    /// A sync. The storage begins with the pages that it was given while the rest is given to it, and is synced in between, as for
    /// one that comes later.
    Sync,
}

/// A page on its way to the storage.
struct Outgoing<'m, S: RefScheme> {
    page: PageNr,
    reference: FrameRef<'m, S>,
    /// How many of its bytes are the file's.
    len: usize,
}

/// Neighbouring pages on their way to the storage. Unless it took them, dropping this makes them dirty again,
/// also by a panic.
struct Batch<'m, S: RefScheme> {
    mapping: &'m Mapping<S>,
    writes: &'m Writes,
    outgoing: Vec<Outgoing<'m, S>>,
    is_given: bool,
}

impl<S: RefScheme> Drop for Batch<'_, S> {
    fn drop(&mut self) {
        if !self.is_given {
            self.take_back(0);
        }
    }
}

impl<S: RefScheme> Batch<'_, S> {
    /// Asks the program's hook. The first page that it refuses is taken out, with those after it.
    fn ask_hook(&mut self) -> Result<(), Failure> {
        let Some(before_write) = &self.writes.before_write else {
            return Ok(());
        };
        let pressure = &self.mapping.shared().pressure;
        let _in_hook = InHook::enter(&self.writes.in_hook);
        for nr in 0..self.outgoing.len() {
            let outgoing = &self.outgoing[nr];
            let [_, lsn] = outgoing.reference.meta().private();
            let step = self.writes.service.begin_step(pressure, Step::Hook);
            let answer = before_write(outgoing.page, lsn);
            drop(step);
            if let Err(error) = answer {
                self.take_back(nr);
                let cause = Cause::Hook;
                return Err(Failure { cause, error });
            }
        }
        Ok(())
    }

    /// Takes the pages from number `first` of the batch on out: they are dirty again.
    fn take_back(&mut self, first: usize) {
        for outgoing in self.outgoing.drain(first..) {
            States(self.mapping).change_state(self.writes, outgoing.page, PageState::failed);
        }
    }
}

/// Gives pages to the storage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Giver<'m, S: RefScheme>(pub(super) &'m Mapping<S>);

impl<'m, S: RefScheme> Giver<'m, S> {
    /// Gives the dirty pages of `group` in `pages` to the storage, except those that are held; returns how many it
    /// took. After a failure it goes on with the others, and returns the first; all are noted.
    pub(super) fn give_dirty(
        self,
        writes: &Writes,
        storage: &mut Storage,
        pages: Range<PageNr>,
        (group, next): (Group, Next),
    ) -> Result<usize, Error> {
        let mut nr_taken = 0;
        let mut from = pages.start;
        let mut first_failure: Option<Failure> = None;
        // A writer that makes the file longer all the time does not keep this from ending.
        let end = self.0.nr_pages().min(pages.end);
        while let Some(first) = writes.dirty(group).next(from, end) {
            let (mut batch, gathered) = self.gather(writes, storage, first..end, group);
            let asked = batch.ask_hook();
            // Go on after the last page that is given, or after the one that is refused.
            let nr_given = batch.outgoing.len() as u64;
            let is_refused = asked.is_err() || nr_given == 0;
            from = first + nr_given + u64::from(is_refused);
            // G3, whatever the storage answers. A write that was under way during the barrier may have stored its state after
            // the earlier group was made durable.
            storage.is_split |= nr_given != 0 && group == writes.groups.earlier();
            let given = self.give(storage, &mut batch, next);
            if given.is_ok() {
                nr_taken += batch.outgoing.len();
            }
            drop(batch);
            let synced = match next {
                Next::SyncLater | Next::Sync => self.keep_pace(writes, storage),
                Next::Nothing => Ok(()),
            };
            let results = [gathered, asked, given, synced];
            for failure in results.into_iter().filter_map(Result::err) {
                match &first_failure {
                    None => first_failure = Some(failure),
                    Some(first) if first.cause == failure.cause => {}
                    // The first is returned; this one is told later.
                    Some(_) => writes.errors.note(&failure),
                }
            }
        }
        match first_failure {
            None => Ok(nr_taken),
            Some(failure) => Err(self.0.write_failed(writes, Op::Flush, failure)),
        }
    }

    /// Makes durable what the storage was given, if otherwise the next sync would take long.
    fn keep_pace(self, writes: &Writes, storage: &mut Storage) -> Result<(), Failure> {
        if Durable(self.0).is_sync_due(writes, storage) {
            Durable(self.0).sync_storage(writes, storage, Sync::Data)?;
        }
        Ok(())
    }

    /// Step 1 of the protocol, for dirty pages of `group` from the first of `pages` on without a gap.
    fn gather(
        self,
        writes: &'m Writes,
        storage: &mut Storage,
        pages: Range<PageNr>,
        group: Group,
    ) -> (Batch<'m, S>, Result<(), Failure>) {
        let mut batch = Batch {
            mapping: self.0,
            writes,
            outgoing: Vec::new(),
            is_given: false,
        };
        for page in pages.take(most_pages(self.0.page_size())) {
            match self.take_dirty(writes, storage, page, group) {
                Ok(Some(outgoing)) => batch.outgoing.push(outgoing),
                Ok(None) => break,
                Err(error) => return (batch, Err(error)),
            }
        }
        (batch, Ok(()))
    }

    /// A page on its way to the storage, if it is a dirty one of `group`, and not held.
    fn take_dirty(
        self,
        writes: &Writes,
        storage: &mut Storage,
        page: PageNr,
        group: Group,
    ) -> Result<Option<Outgoing<'m, S>>, Failure> {
        let Some(claim) = self.0.claim_present(page) else {
            return Ok(None);
        };
        let Some(frame) = claim.frame() else {
            return Ok(None);
        };
        let record = self.0.pool().meta(frame);
        let before = PageState::of(record);
        // A page past the end is in a file that is just growing, or being cut.
        let len = self.0.len_of(page, self.0.size());
        if !before.is_dirty() || before.group() != group || len == 0 {
            return Ok(None);
        }
        // With the claim in hand, which keeps writers out: no write that follows a later hold is in the page.
        if writes.is_held(page) {
            storage.passed_over = Some(page);
            return Ok(None);
        }
        // The slot's reference keeps the frame. The count is full only if a program pins the page without end.
        let TryGetFrame::Taken(reference) = self.0.pool().try_get(frame) else {
            let error = io::Error::other(format!("page {page} cannot be given to the storage"));
            let cause = Cause::Pins;
            return Err(Failure { cause, error });
        };
        let after = before.written();
        self.0.note_state(writes, page, before, after);
        after.store(record);
        drop(claim);
        Ok(Some(Outgoing {
            page,
            reference,
            len,
        }))
    }

    /// The rest of step 2 of the protocol; dropping the batch is step 3.
    fn give(
        self,
        storage: &mut Storage,
        batch: &mut Batch<'_, S>,
        next: Next,
    ) -> Result<(), Failure> {
        let Some(first) = batch.outgoing.first() else {
            return Ok(());
        };
        let bufs: Vec<RacySource<'_>> = batch
            .outgoing
            .iter()
            .map(|outgoing| outgoing.reference.bytes().slice(0, outgoing.len))
            .collect();
        let start = first.page * self.0.page_size() as u64;
        let end = start + bufs.iter().map(|buf| buf.len() as u64).sum::<u64>();
        StorageSize(self.0).write_storage(storage, &bufs, start, end)?;
        if next == Next::Sync {
            Durable(self.0).begin_sync(batch.writes, storage, start..end)?;
        }
        batch.is_given = true;
        Ok(())
    }
}
