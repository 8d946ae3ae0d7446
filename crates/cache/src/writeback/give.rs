//! Writing dirty pages to the backend: the first protocol of [`super`].

use std::io;
use std::ops::Range;

use pagewell_frame::TryGetFrame;

use crate::base::error::{Cause, Error, Failure, Op};
use crate::base::page::PageNr;
use crate::base::page_hooks::Hooks;
use crate::dirty::commits::Sync;
use crate::dirty::writes::{Storage, Writes};
use crate::mapping::record::Mapping;
use crate::writeback::durable::{Durable, Unstarted};
use crate::writeback::flight::Flight;
use crate::writeback::most_pages;
use crate::writeback::run::{Outgoing, Run};
use crate::writeback::size::StorageSize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// No sync. None is started early either: the device might then write a page twice.
    Nothing,
    /// A sync by a later call, and syncs in between, so that no more is written than one sync can
    /// make durable in a limited time ([`pagewell_policy::pace`]).
    SyncLater,
    /// A sync by this call, and syncs in between, as for `SyncLater`. While more pages are written,
    /// the backend already starts to sync earlier ones, a [`MIN_BYTES`] at a time (the last ones
    /// are left to the sync itself).
    ///
    /// [`MIN_BYTES`]: Unstarted::MIN_BYTES
    Sync,
}

/// First failure of several calls, and number of pages of the successful calls. A later failure of
/// another cause than the first is recorded for the handles.
struct FirstFailure<'w> {
    writes: &'w Writes,
    failure: Option<Failure>,
    nr_taken: usize,
}

impl FirstFailure<'_> {
    fn note<T>(&mut self, result: Result<T, impl Into<Failure>>) -> Option<T> {
        let failure = match result {
            Ok(value) => return Some(value),
            Err(failure) => failure.into(),
        };
        match &self.failure {
            None => self.failure = Some(failure),
            Some(first) if first.cause == failure.cause => {}
            Some(_) => self.writes.errors.note(&failure),
        }
        None
    }

    fn settled(&mut self, nr_pages: usize, result: Result<(), Failure>) {
        if self.note(result).is_some() {
            self.nr_taken += nr_pages;
        }
    }
}

#[derive(Default)]
struct Changes {
    /// Pages below this one are written one by one, after a failure of the codec.
    alone_up_to: PageNr,
}

impl Changes {
    fn most_pages(&self, mapping: &Mapping, writes: &Writes, first: PageNr) -> usize {
        let most = most_pages(mapping.page_size());
        match &writes.reserve {
            None => most,
            Some(_) if first < self.alone_up_to => 1,
            Some(reserve) => most.min(reserve.most_pages()),
        }
    }

    /// Encodes the pages of `run`. If the codec fails on several pages, encodes only the first, and
    /// removes the others from `run`; they are dirty again.
    fn change(&mut self, hooks: &Hooks, run: &mut Run<'_>) -> Result<(), Failure> {
        match run.change_bytes(hooks) {
            Err(_) if run.nr_pages() > 1 => {
                let first = run.outgoing.first().map_or(0, |outgoing| outgoing.page);
                self.alone_up_to = first + run.nr_pages() as u64;
                run.keep_first();
                run.change_bytes(hooks)
            }
            changed => changed,
        }
    }
}

pub(super) fn is_interrupted(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Giver<'m>(pub(super) &'m Mapping);

impl<'m> Giver<'m> {
    /// Writes the dirty pages in `pages`, and returns their number. Continues after failures:
    /// records them by cause for the handles, and returns the first.
    pub(super) fn give_dirty(
        self,
        writes: &'m Writes,
        storage: &mut Storage,
        pages: Range<PageNr>,
        next: Next,
    ) -> Result<usize, Error> {
        let mut from = pages.start;
        let mut failures = FirstFailure {
            writes,
            failure: None,
            nr_taken: 0,
        };
        // The flush ends even if a writer keeps extending the file.
        let mut end = self.0.nr_pages().min(pages.end);
        // The backend is extended first, since a change of size waits for requests in flight.
        if self.0.hooks().is_some()
            && writes.dirty().next(from, end).is_some()
            && failures
                .note(StorageSize(self.0).reach_pages(storage, end))
                .is_none()
        {
            // Only these pages have space in the backend.
            end = end.min(self.0.fill_size().div_ceil(self.0.page_size() as u64));
        }
        let end = end;
        let is_deep = self.0.is_deep();
        let mut flight: Option<Flight<'m>> = None;
        let mut unstarted = Unstarted::default();
        let mut changes = Changes::default();
        while let Some(first) = writes.dirty().next(from, end) {
            let most = changes.most_pages(self.0, writes, first);
            let (mut run, gathered) = self.gather(writes, (first..end, most), is_deep);
            let asked = run.ask_hook();
            let nr_given = run.nr_pages() as u64;
            let is_refused = asked.is_err() || nr_given == 0;
            from = first + nr_given + u64::from(is_refused);
            failures.note(gathered);
            failures.note(asked);
            if nr_given == 0 {
                continue;
            }
            if let Some(hooks) = self.0.hooks() {
                if let Some(flight) = &mut flight {
                    flight.make_room(&mut |nr_pages, result| failures.settled(nr_pages, result));
                }
                let changed = changes.change(hooks, &mut run);
                if (run.nr_pages() as u64) < nr_given {
                    from = first + 1;
                }
                if failures.note(changed).is_none() {
                    // The drop of the range makes its pages dirty again.
                    continue;
                }
            }
            // The engine would not write a single range faster.
            let has_more = || writes.dirty().next(from, end).is_some();
            if is_deep && flight.is_none() && has_more() {
                flight = failures.note(Flight::begin(self.0, storage));
            }
            let mut settled = |nr_pages, result| failures.settled(nr_pages, result);
            if let Some(flight) = &mut flight {
                flight.give(storage, run, &mut settled);
            } else {
                if next == Next::Sync
                    && let Some(bytes) =
                        unstarted.take_if_many(Unstarted::MIN_BYTES, storage.pace.most_requests())
                {
                    let begun = Durable(self.0).begin_sync(writes, storage, bytes);
                    settled(0, begun.map_err(Failure::from));
                }
                let (nr_pages, bytes) = (run.nr_pages(), run.stored());
                let given = self.give(storage, &mut run);
                let given = given.map_err(|error| run.failed(error));
                drop(run);
                if given.is_ok() {
                    unstarted.add(bytes);
                }
                settled(nr_pages, given);
            }
            if next != Next::Nothing && Durable(self.0).is_sync_due(writes, storage) {
                if let Some(flight) = flight.take() {
                    flight.finish(storage, &mut settled);
                }
                unstarted = Unstarted::default();
                let synced = Durable(self.0).sync_storage(writes, storage, Sync::Data);
                settled(0, synced.map_err(Failure::from));
            }
        }
        if let Some(flight) = flight {
            let settled = &mut |nr_pages, result| failures.settled(nr_pages, result);
            flight.finish(storage, settled);
        }
        if self.0.hooks().is_some() {
            // The written pages do not encode the end of the file.
            failures.note(StorageSize(self.0).know_size(storage));
        }
        match failures.failure {
            None => Ok(failures.nr_taken),
            // The caller repeats the sync if the backend was interrupted. No refusal is repeated.
            Some(failure)
                if next == Next::Sync
                    && failure.cause == Cause::Storage
                    && is_interrupted(&failure.error) =>
            {
                Err(Error::from_failure(Op::Flush, failure).with_path(self.0.path()))
            }
            Some(failure) => Err(self.0.write_failed(writes, Op::Flush, failure)),
        }
    }

    /// Step 1 of the protocol, for consecutive dirty pages from the first of `pages` on.
    fn gather(
        self,
        writes: &'m Writes,
        (pages, most): (Range<PageNr>, usize),
        is_deep: bool,
    ) -> (Run<'m>, Result<(), Failure>) {
        let mut run = Run::new(self.0, writes);
        let size = self.0.size();
        // With direct I/O, a range with part of a page, which is no whole block, would be copied.
        // So the part gets a range of its own.
        let has_parts = is_deep && !self.0.layout().is_of_pages();
        for page in pages.take(most) {
            if has_parts && run.nr_pages() != 0 && self.0.len_of(page, size) < self.0.page_size() {
                break;
            }
            match self.take_dirty(writes, page) {
                Ok(Some(outgoing)) => run.push(outgoing),
                Ok(None) => break,
                Err(error) => return (run, Err(error)),
            }
        }
        (run, Ok(()))
    }

    /// Step 1 for `page`. Returns `None` if it is not dirty, not resident, or past the end.
    fn take_dirty(self, writes: &Writes, page: PageNr) -> Result<Option<Outgoing<'m>>, Failure> {
        let Some((claim, frame, record, before)) = self.0.claim_page(page) else {
            return Ok(None);
        };
        // A page past the end is that of a file that is growing or being truncated.
        let len = self.0.len_of(page, self.0.size());
        if !before.is_dirty() || len == 0 {
            return Ok(None);
        }
        // The count is full only if the program pins the page without bound.
        let TryGetFrame::Taken(reference) = self.0.pool().try_get(frame) else {
            let error = io::Error::other(format!(
                "cannot write page {page} to the backend: its frame has too many references"
            ));
            return Err(Failure {
                cause: Cause::Pins,
                error,
                page: None,
            });
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

    /// The rest of step 2. Dropping the range is step 3.
    fn give(self, storage: &mut Storage, run: &mut Run<'_>) -> io::Result<()> {
        let (start, end) = (run.start(), run.end());
        StorageSize(self.0).write_storage(storage, &run.sources(), start, end)?;
        run.is_given = true;
        Ok(())
    }
}
