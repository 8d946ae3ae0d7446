//! Writing back: giving dirty pages to the storage, and making sure that it keeps them.
//!
//! # Protocol of giving pages to the storage
//!
//! With the file's writeback lock held, for a run of neighbouring dirty pages:
//! 1. Claim each page's slot; its state becomes *written*; take a reference to its frame, so that a writer
//!    moves the page instead of changing its bytes; let the claim go.
//! 2. Ask the program's hook; give all of them to the storage in one request.
//! 3. Drop the references. If the storage failed or panicked, claim each slot again; the state becomes *dirty*
//!    again.
//!
//! A page that is written to between 1 and 3 is dirty and written: dirty for the next time.
//!
//! # Protocol of making durable
//!
//! 1. Write back everything that is dirty, with the lock held all along.
//! 2. Tell the storage the file's size, if it does not have the file at that ([`crate::storage_size`]).
//! 3. Tell the storage to make durable what it was given.
//! 4. If it says that it did, the pages that are *written* are no more, and may be evicted. If it says that it did
//!    not, all of them are *dirty* again: the storage may have dropped any of them and forgotten that it did, so
//!    the next sync writes them again.
//!
//! Invariants.
//! - W1: a page that is not clean is in the cache, and is not evicted; it is in the set `dirty`, or `written`, or
//!   both, as its state says.
//! - W2: the set `written` grows only with the writeback lock held.
//! - W3: one version of a page is on its way to the storage at a time, and versions go in order.
//!
//! Proved by `loom_write_vs_flush`, `loom_flush_fails_vs_*`, `loom_sync_vs_write`, `loom_sync_fails_vs_*`, `loom_hold_vs_flush`,
//! `loom_discard_vs_*`, `loom_flush_vs_truncate`; `crates/pagewell/tests/durability.rs`; `pagewell crash-test`.

use std::io;
use std::ops::Range;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameRef, TryGetFrame};
use pagewell_sync::bytes::RacySource;
use pagewell_sync::thread::Backoff;

use crate::claim::Claim;
use crate::error::{Error, ErrorKind, Op};
use crate::index::PageNr;
use crate::mapping::Mapping;
use crate::page_state::{Group, PageState};
use crate::slot::State;
use crate::writeback::InHook;
use crate::writes::{Storage, Writes};

/// The most bytes that are given to the storage in one request.
const MOST_BYTES: usize = 1 << 20;

/// What a sync has to make durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sync {
    /// The bytes, and what it takes to read them.
    Data,
    /// That, and what else the system keeps of the file.
    All,
}

/// What follows when pages were given to the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing now: what is written to them until then need not be written twice.
    Nothing,
    /// A sync. The storage begins with what it was given while the rest is given to it.
    Sync,
}

/// A page on its way to the storage.
struct Outgoing<'m, S: RefScheme> {
    page: PageNr,
    reference: FrameRef<'m, S>,
    /// How many bytes of it the file has.
    len: usize,
}

/// Neighbouring pages on their way to the storage. Unless it took them, they are dirty again when this is dropped,
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
    /// Asks the program's hook. The first page that it refuses is taken out, and those after it.
    fn ask_hook(&mut self) -> io::Result<()> {
        let Some(before_write) = &self.writes.before_write else {
            return Ok(());
        };
        let _in_hook = InHook::enter(self.writes);
        for nr in 0..self.outgoing.len() {
            let outgoing = &self.outgoing[nr];
            let [_, lsn] = outgoing.reference.meta().private();
            if let Err(error) = before_write(outgoing.page, lsn) {
                self.take_back(nr);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Takes the pages from number `first` of the batch on out: they are dirty again.
    fn take_back(&mut self, first: usize) {
        for outgoing in self.outgoing.drain(first..) {
            self.mapping
                .change_state(self.writes, outgoing.page, PageState::failed);
        }
    }
}

/// Changes the state of all pages that are written when it is dropped, also by a panic.
struct Settle<'m, S: RefScheme> {
    mapping: &'m Mapping<S>,
    writes: &'m Writes,
    /// None leaves them as they are.
    after: Option<fn(PageState) -> PageState>,
}

impl<S: RefScheme> Drop for Settle<'_, S> {
    fn drop(&mut self) {
        if let Some(after) = self.after {
            self.mapping.settle_written(self.writes, after);
        }
    }
}

impl<S: RefScheme> Mapping<S> {
    /// Gives the dirty pages in `pages` to the storage, but for those that are held; returns how many
    /// pages it took. It may not have made them durable.
    pub(crate) fn flush(&self, pages: Range<PageNr>) -> Result<usize, Error> {
        let writes = self.writes(Op::Flush)?;
        let mut storage = self.lock_storage(writes, Op::Flush)?;
        self.flush_locked(writes, &mut storage, pages, Next::Nothing)
    }

    /// Makes everything that was written before durable.
    pub(crate) fn sync(&self, what: Sync) -> Result<(), Error> {
        let writes = self.writes(Op::Sync)?;
        let mut storage = self.lock_storage(writes, Op::Sync)?;
        self.sync_locked(writes, &mut storage, what)
    }

    /// As [`sync`](Self::sync), unless it turns out, once it is this caller's turn, that there is nothing to make
    /// durable, or that others have done enough.
    pub(crate) fn sync_unless(
        &self,
        what: Sync,
        is_enough: impl Fn() -> bool,
    ) -> Result<(), Error> {
        let writes = self.writes(Op::Sync)?;
        let mut storage = self.lock_storage(writes, Op::Sync)?;
        if is_enough() || self.is_durable(writes, &storage) {
            return Ok(());
        }
        self.sync_locked(writes, &mut storage, what)
    }

    /// Whether there is nothing that the storage is not known to keep.
    fn is_durable(&self, writes: &Writes, storage: &Storage) -> bool {
        storage.is_synced
            && storage.is_size_known
            && self.size() == self.fill_size()
            && writes.any_dirty(0..self.nr_pages()).is_none()
            && writes.written.next(0, self.nr_pages()).is_none()
    }

    /// Makes everything durable when the last handle goes. If that fails nobody is left to be told but the
    /// program's standard error.
    pub(crate) fn save_at_the_end(&self) {
        if let Err(error) = self.sync_unless(Sync::All, || false) {
            eprintln!(
                "pagewell: what was written to {} is lost: {error}",
                self.path().display()
            );
        }
    }

    fn sync_locked(&self, writes: &Writes, storage: &mut Storage, what: Sync) -> Result<(), Error> {
        // Of before: pages that make the file longer from now on are not waited for.
        let size = self.size();
        storage.passed_over = None;
        self.flush_locked(writes, storage, 0..PageNr::MAX, Next::Sync)?;
        // Those that were held when they were looked at: they may have been released since.
        let held = storage.passed_over;
        if storage.is_split && self.fill_size() != size {
            // The size is that of the current group.
            self.settle_earlier(writes, storage)?;
        }
        self.tell_size(storage, size)
            .and_then(|()| self.sync_storage(writes, storage, what))
            .map_err(|error| self.write_failed(writes, Op::Sync, error))?;
        match held {
            None => {
                // All that a sync has failed for was written again.
                storage.is_doubtful = false;
                Ok(())
            }
            Some(page) => Err(self
                .error(ErrorKind::Held, Op::Sync)
                .with_detail(format!("page {page}"))),
        }
    }

    /// Steps 3 and 4 of the protocol.
    pub(crate) fn sync_storage(
        &self,
        writes: &Writes,
        storage: &mut Storage,
        what: Sync,
    ) -> io::Result<()> {
        let mut settle = Settle {
            mapping: self,
            writes,
            after: Some(PageState::failed),
        };
        let was_doubtful = std::mem::replace(&mut storage.is_doubtful, true);
        match what {
            Sync::Data => self.backend().sync_data()?,
            Sync::All => self.backend().sync_all()?,
        }
        settle.after = Some(PageState::synced);
        storage.is_synced = true;
        storage.may_have_dirty = false;
        storage.is_doubtful = was_doubtful;
        Ok(())
    }

    /// Asks the storage to begin with a sync of `bytes`, which it was given. After an error, or a panic, all pages that are
    /// written are dirty, and nothing may be concluded, as from a sync that failed.
    fn begin_sync(
        &self,
        writes: &Writes,
        storage: &mut Storage,
        bytes: Range<u64>,
    ) -> io::Result<()> {
        let mut settle = Settle {
            mapping: self,
            writes,
            after: Some(PageState::failed),
        };
        let had_dirty = std::mem::replace(&mut storage.may_have_dirty, true);
        let was_doubtful = std::mem::replace(&mut storage.is_doubtful, true);
        self.backend().begin_sync(bytes)?;
        settle.after = None;
        storage.may_have_dirty = had_dirty;
        storage.is_doubtful = was_doubtful;
        Ok(())
    }

    /// How many pages the file has.
    pub(crate) fn nr_pages(&self) -> PageNr {
        self.size().div_ceil(self.page_size() as u64)
    }

    /// Changes the state of all pages that are written.
    fn settle_written(&self, writes: &Writes, after: fn(PageState) -> PageState) {
        // Nothing past the end is given to the storage, and what is cut off is not written any more.
        let (mut from, end) = (0, self.nr_pages());
        while let Some(page) = writes.written.next(from, end) {
            from = page + 1;
            self.change_state(writes, page, after);
        }
    }

    /// Changes the state of a page, if it is in the cache.
    fn change_state(&self, writes: &Writes, page: PageNr, after: impl Fn(PageState) -> PageState) {
        let Some(claim) = self.claim_present(page) else {
            // It was dropped meanwhile, by a truncation: nothing of it is to be written or to be kept.
            return;
        };
        let Some(frame) = claim.frame() else {
            return;
        };
        let record = self.shared().pool.meta(frame);
        let before = PageState::of(record);
        let after = after(before);
        self.note_state(writes, page, before, after);
        after.store(record);
        // Dropping the claim restores the slot: the bytes are the same.
        drop(claim);
    }

    /// Brings the sets and the number of frames that are not clean into line with a change of a page's
    /// state; the caller has claimed the page's slot.
    pub(crate) fn note_state(
        &self,
        writes: &Writes,
        page: PageNr,
        before: PageState,
        after: PageState,
    ) {
        let sets = [before, after].map(|state| state.is_dirty().then(|| state.group()));
        match sets {
            [before, after] if before == after => {}
            [before, after] => {
                // In before out: a page that is dirty is found in one of the two.
                _ = after.map(|group| writes.dirty(group).insert(page));
                _ = before.map(|group| writes.dirty(group).remove(page));
            }
        }
        match (before.is_written(), after.is_written()) {
            (false, true) => _ = writes.written.insert(page),
            (true, false) => _ = writes.written.remove(page),
            _ => {}
        }
        let nr_frames = self.order().frames() as usize;
        match (before.is_unclean(), after.is_unclean()) {
            (false, true) => self.shared().count_unclean(nr_frames),
            (true, false) => self.shared().unclean.sub(nr_frames),
            _ => {}
        }
    }

    /// Gives the dirty pages in `pages` to the storage, group by group; returns how many of them it took.
    fn flush_locked(
        &self,
        writes: &Writes,
        storage: &mut Storage,
        pages: Range<PageNr>,
        next: Next,
    ) -> Result<usize, Error> {
        // They stay the same while the writeback lock is held.
        let (earlier, current) = (writes.groups.earlier(), writes.groups.current());
        let nr_earlier = self.give_dirty(writes, storage, pages.clone(), (earlier, next))?;
        let end = self.nr_pages().min(pages.end);
        if storage.is_split {
            if writes.dirty(current).next(pages.start, end).is_none() {
                // What is written from now on may be of the current group, and is not for this flush.
                return Ok(nr_earlier);
            }
            self.settle_earlier(writes, storage)?;
        }
        Ok(nr_earlier + self.give_dirty(writes, storage, pages, (current, next))?)
    }

    /// Gives the dirty pages of `group` in `pages` to the storage, but for those that are held; returns how many it
    /// took. After an error it goes on with the others, and tells the first one.
    pub(crate) fn give_dirty(
        &self,
        writes: &Writes,
        storage: &mut Storage,
        pages: Range<PageNr>,
        (group, next): (Group, Next),
    ) -> Result<usize, Error> {
        let mut nr_taken = 0;
        let mut from = pages.start;
        let mut first_error = None;
        // Who makes the file longer all the time does not keep this from ending.
        let end = self.nr_pages().min(pages.end);
        while let Some(first) = writes.dirty(group).next(from, end) {
            let (mut batch, gathered) = self.gather(writes, storage, first..end, group);
            let asked = batch.ask_hook();
            // After the last page that is given, or after the one that is not.
            let nr_given = batch.outgoing.len() as u64;
            let is_refused = asked.is_err() || nr_given == 0;
            from = first + nr_given + u64::from(is_refused);
            // G3, whatever comes of it. A write that was under way during the barrier may have stored its state after
            // what was before was durable.
            storage.is_split |= nr_given != 0 && group == writes.groups.earlier();
            let given = self.give(storage, &mut batch, next);
            if given.is_ok() {
                nr_taken += batch.outgoing.len();
            }
            if let Err(error) = gathered.and(asked).and(given) {
                first_error.get_or_insert(error);
            }
        }
        match first_error {
            None => Ok(nr_taken),
            Some(error) => Err(self.write_failed(writes, Op::Flush, error)),
        }
    }

    /// Step 1 of the protocol, for dirty pages of `group` from the first of `pages` on without a gap.
    fn gather<'m>(
        &'m self,
        writes: &'m Writes,
        storage: &mut Storage,
        pages: Range<PageNr>,
        group: Group,
    ) -> (Batch<'m, S>, io::Result<()>) {
        let most = (MOST_BYTES / self.page_size()).max(1);
        let mut batch = Batch {
            mapping: self,
            writes,
            outgoing: Vec::new(),
            is_given: false,
        };
        for page in pages.take(most) {
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
        &self,
        writes: &Writes,
        storage: &mut Storage,
        page: PageNr,
        group: Group,
    ) -> io::Result<Option<Outgoing<'_, S>>> {
        let Some(claim) = self.claim_present(page) else {
            return Ok(None);
        };
        let Some(frame) = claim.frame() else {
            return Ok(None);
        };
        let record = self.shared().pool.meta(frame);
        let before = PageState::of(record);
        // What is past the end is there because the file is just growing, or is being cut.
        let len = self.len_of(page, self.size());
        if !before.is_dirty() || before.group() != group || len == 0 {
            return Ok(None);
        }
        // With the claim in hand: what is written to the page after it was held is not in it yet then.
        if writes.is_held(page) {
            storage.passed_over = Some(page);
            return Ok(None);
        }
        // The slot's reference keeps the frame; it is full only if somebody pins it without end.
        let TryGetFrame::Taken(reference) = self.shared().pool.try_get(frame) else {
            return Err(io::Error::other(format!(
                "page {page} has as many references as it can count"
            )));
        };
        let after = before.written();
        self.note_state(writes, page, before, after);
        after.store(record);
        drop(claim);
        Ok(Some(Outgoing {
            page,
            reference,
            len,
        }))
    }

    /// The rest of step 2 of the protocol; step 3 is where the batch is dropped.
    fn give(&self, storage: &mut Storage, batch: &mut Batch<'_, S>, next: Next) -> io::Result<()> {
        let Some(first) = batch.outgoing.first() else {
            return Ok(());
        };
        let bufs: Vec<RacySource<'_>> = batch
            .outgoing
            .iter()
            .map(|outgoing| outgoing.reference.bytes().slice(0, outgoing.len))
            .collect();
        let start = first.page * self.page_size() as u64;
        let end = start + bufs.iter().map(|buf| buf.len() as u64).sum::<u64>();
        self.write_storage(storage, &bufs, start, end)?;
        if next == Next::Sync {
            self.begin_sync(batch.writes, storage, start..end)?;
        }
        batch.is_given = true;
        Ok(())
    }

    /// Claims the slot of `page`, waiting for whoever has it; none if the page is not in the cache.
    pub(crate) fn claim_present(&self, page: PageNr) -> Option<Claim<'_, S>> {
        let mut backoff = Backoff::new();
        loop {
            let seen = self.index().look(page)?;
            match seen.slot.state() {
                State::Empty => return None,
                State::Present(_) => {
                    if let Some(claim) = seen.claim_present(self.shared()) {
                        return Some(claim);
                    }
                }
                State::Busy => {}
            }
            self.wait_for_change(page, &mut backoff);
        }
    }

    pub(crate) fn write_failed(&self, writes: &Writes, op: Op, error: io::Error) -> Error {
        writes.errors.note(&error);
        Error::from_io(op, error).with_path(self.path()).noted()
    }

    /// Keeps the number of frames that are not clean within its limit: a writer that would exceed it writes
    /// pages back first, of this file or of others. No lock of any file is held, since that takes others.
    pub(crate) fn throttle(&self) {
        if self.shared().unclean.is_over() {
            self.shared().make_clean();
        }
    }
}
