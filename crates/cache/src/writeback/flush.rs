//! Flushes and syncs of one file, and removal of unwritten bytes.

use std::io;
use std::ops::Range;

use pagewell_frame::FRAME_BYTES;
use pagewell_sync::ledger;

use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page::PageNr;
use crate::dirty::commits::{Lead, Role, Sync, Unwound};
use crate::dirty::service::Step;
use crate::dirty::writes::{Durability, Storage, Writes};
use crate::mapping::record::Mapping;
use crate::mapping::remove::{Remover, Unclean};
use crate::writeback::durable::Durable;
use crate::writeback::give::{Giver, Next, is_interrupted};
use crate::writeback::size::StorageSize;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Flusher<'m>(pub(crate) &'m Mapping);

impl Flusher<'_> {
    pub(crate) fn flush(self, pages: Range<PageNr>) -> Result<usize, Error> {
        let writes = self.0.writes(Op::Flush)?;
        let mut storage = self.0.lock_storage(writes, Op::Flush)?;
        Giver(self.0).give_dirty(writes, &mut storage, pages, Next::Nothing)
    }

    pub(super) fn flush_page(
        self,
        writes: &Writes,
        storage: &mut Storage,
        page: PageNr,
    ) -> Result<usize, Error> {
        Giver(self.0).give_dirty(writes, storage, page..page + 1, Next::Nothing)
    }

    /// Writes the dirty pages to the backend. A later call syncs them.
    pub(crate) fn flush_in_background(self) -> Result<(), Error> {
        let writes = self.0.writes(Op::Flush)?;
        let mut storage = self.0.lock_storage(writes, Op::Flush)?;
        Giver(self.0)
            .give_dirty(writes, &mut storage, 0..PageNr::MAX, Next::SyncLater)
            .map(drop)
    }

    /// Makes all earlier writes durable, by this sync or by one of another thread that begins after
    /// this call ([`crate::dirty::commits`]).
    pub(crate) fn sync(self, what: Sync) -> Result<(), Error> {
        let writes = self.0.writes(Op::Sync)?;
        // Before the join, so that no thread follows a leader that fails here.
        self.0.check_no_hook(writes, Op::Sync)?;
        let mut lead = match writes.commits.join(what) {
            Role::Lead(lead) => lead,
            Role::Follow(commit) => {
                // A follower waits for its leader, and thereby for the writeback lock.
                let _record = ledger::before_lock_of(self.0);
                return commit.wait().unwrap_or_else(|Unwound| {
                    Err(Error::from_failure(Op::Sync, panicked().into()).with_path(self.0.path()))
                });
            }
        };
        let result = self.lead(writes, &mut lead);
        lead.end(&result);
        result
    }

    /// Steps 2 to 5 of the protocol of commits.
    fn lead(self, writes: &Writes, lead: &mut Lead<'_>) -> Result<(), Error> {
        let mut storage = self.0.lock_storage(writes, Op::Sync)?;
        let what = lead.close();
        self.sync_locked(writes, &mut storage, what)
    }

    /// As [`sync`](Self::sync), unless everything is durable or `is_enough` returns `true` once
    /// this thread has the writeback lock.
    pub(crate) fn sync_unless(self, what: Sync, is_enough: impl Fn() -> bool) -> Result<(), Error> {
        let writes = self.0.writes(Op::Sync)?;
        let mut storage = self.0.lock_storage(writes, Op::Sync)?;
        if is_enough() || self.is_durable(writes, &storage) {
            return Ok(());
        }
        self.sync_locked(writes, &mut storage, what)
    }

    fn is_durable(self, writes: &Writes, storage: &Storage) -> bool {
        storage.durability == Durability::Durable && self.has_no_changes(writes, storage)
    }

    /// Whether neither the opening of the backend nor the cache has changed the file.
    fn is_as_found(self, writes: &Writes) -> Result<bool, Error> {
        let storage = self.0.lock_storage(writes, Op::Sync)?;
        Ok(storage.durability == Durability::AsOpened
            && !storage.is_doubtful
            && self.has_no_changes(writes, &storage)
            && self.0.call_backend(|backend| backend.is_as_found()))
    }

    /// Whether the backend has the file's bytes and size, and no page is unsynced.
    fn has_no_changes(self, writes: &Writes, storage: &Storage) -> bool {
        storage.is_size_known
            && self.0.size() == self.0.fill_size()
            && writes.any_dirty(0..self.0.nr_pages()).is_none()
            && writes.written().next(0, self.0.nr_pages()).is_none()
    }

    /// Makes everything durable at the last close, unless the file was only read. Retries failures
    /// for some time.
    pub(crate) fn save_at_the_end(self) -> Result<(), Error> {
        let mut tries = Tries::begin(self.0.shared.pressure.limits.close);
        loop {
            // The thread that closes a file may already be unwinding.
            match self.caught(|flusher| flusher.save()) {
                Err(error) if error.may_pass() && tries.pause() => {}
                result => return result.map_err(|error| error.and_detail(self.what_is_lost())),
            }
        }
    }

    fn save(self) -> Result<(), Error> {
        match self.is_as_found(self.0.writes(Op::Sync)?)? {
            true => Ok(()),
            false => self.sync_unless(Sync::All, || false),
        }
    }

    /// Converts a panic of the program's code into an error, and records it for the handles. The
    /// drops during the unwinding keep the file's state consistent.
    pub(crate) fn caught(self, work: impl FnOnce(Self) -> Result<(), Error>) -> Result<(), Error> {
        let work = std::panic::AssertUnwindSafe(|| work(self));
        std::panic::catch_unwind(work).unwrap_or_else(|_| {
            Err(self
                .0
                .write_failed(self.0.writes(Op::Sync)?, Op::Sync, panicked()))
        })
    }

    pub(crate) fn would_lose(self) -> bool {
        let Some(writes) = self.0.writes_if_any() else {
            return false;
        };
        let is_changed = self
            .0
            .lock_storage(writes, Op::Sync)
            .map_or(true, |storage| storage.durability == Durability::Changed);
        is_changed || writes.share.nr() != 0 || self.0.size() != self.0.fill_size()
    }

    fn what_is_lost(self) -> String {
        let nr_frames = self.0.writes_if_any().map_or(0, |writes| writes.share.nr());
        format!(
            "{} KiB are not known to be durable",
            nr_frames * FRAME_BYTES / 1024
        )
    }

    pub(crate) fn sync_range(self, pages: Range<PageNr>) -> Result<(), Error> {
        let writes = self.0.writes(Op::Sync)?;
        let mut storage = self.0.lock_storage(writes, Op::Sync)?;
        self.sync_pages(writes, &mut storage, pages, Sync::Data)
            .map(drop)
    }

    fn sync_locked(self, writes: &Writes, storage: &mut Storage, what: Sync) -> Result<(), Error> {
        let began = pagewell_sync::time::Instant::now();
        /// The drop records whether everything is durable.
        struct Ending<'w>(&'w Writes, bool);
        impl Drop for Ending<'_> {
            fn drop(&mut self) {
                match self.1 {
                    true => self.0.oldest.end_durable(),
                    false => self.0.oldest.end_failed(),
                }
            }
        }
        writes.oldest.begin();
        let mut ending = Ending(writes, false);
        self.sync_pages(writes, storage, 0..PageNr::MAX, what)?;
        writes.since.renew(began);
        ending.1 = true;
        storage.is_doubtful = false;
        Ok(())
    }

    /// Writes the dirty pages in `pages`. Then makes everything durable that the backend has, and
    /// the size needed to read `pages`.
    fn sync_pages(
        self,
        writes: &Writes,
        storage: &mut Storage,
        pages: Range<PageNr>,
        what: Sync,
    ) -> Result<(), Error> {
        let end = pages.end.saturating_mul(self.0.page_size() as u64);
        // Pages that extend the file later are not waited for.
        let size = self.0.size().min(end);
        for _ in 0..MAX_INTERRUPTED {
            match self.try_sync_pages(writes, storage, pages.clone(), what, size) {
                // A signal handler ran. The pages are dirty, as after any failed sync.
                Err(Failed::Interrupted) => {}
                Err(Failed::With(error)) => return Err(error),
                Ok(()) => return Ok(()),
            }
        }
        Err(self.0.write_failed(
            writes,
            Op::Sync,
            io::Error::from(io::ErrorKind::Interrupted),
        ))
    }

    fn try_sync_pages(
        self,
        writes: &Writes,
        storage: &mut Storage,
        pages: Range<PageNr>,
        what: Sync,
        size: u64,
    ) -> Result<(), Failed> {
        let refused = match Giver(self.0).give_dirty(writes, storage, pages, Next::Sync) {
            Ok(_) => None,
            // The callback or the codec refused some pages, which stay dirty. Sync the others.
            Err(error) if error.kind() == ErrorKind::Refused => Some(error),
            Err(error) if error.is_interrupted() => return Err(Failed::Interrupted),
            Err(error) => return Err(Failed::With(error)),
        };
        let synced = StorageSize(self.0)
            .tell_size(storage, size)
            .and_then(|()| Durable(self.0).sync_storage(writes, storage, what));
        match synced {
            Ok(()) => refused.map_or(Ok(()), |error| Err(Failed::With(error))),
            Err(error) if is_interrupted(&error) => Err(Failed::Interrupted),
            Err(error) => Err(Failed::With(self.0.write_failed(writes, Op::Sync, error))),
        }
    }
}

/// Maximum number of attempts at a sync that signals interrupt.
const MAX_INTERRUPTED: u32 = 100;

enum Failed {
    Interrupted,
    With(Error),
}

fn panicked() -> io::Error {
    io::Error::other("the writeback callback or the backend panicked")
}

struct Tries {
    began: pagewell_sync::time::Instant,
    most: std::time::Duration,
    pause: std::time::Duration,
}

impl Tries {
    fn begin(most: std::time::Duration) -> Self {
        Self {
            began: pagewell_sync::time::Instant::now(),
            most,
            pause: std::time::Duration::from_millis(1),
        }
    }

    /// Sleeps before the next attempt. Returns `false` if the time was used up before.
    fn pause(&mut self) -> bool {
        let rest = self.most.saturating_sub(self.began.elapsed());
        pagewell_sync::thread::sleep(self.pause.min(rest));
        self.pause *= 2;
        !rest.is_zero()
    }
}

/// Removes pages together with their unwritten bytes.
pub(crate) fn discard(mapping: &Mapping, pages: Range<PageNr>) -> Result<(), Error> {
    let writes = mapping.writes(Op::Invalidate)?;
    // With this lock, no page is in flight, so the backend's bytes do not change later.
    let mut storage = mapping.lock_storage(writes, Op::Invalidate)?;
    // Bytes that the backend may have must become durable now: they cannot be written again later.
    let was_given = writes.written().next(pages.start, pages.end).is_some();
    if was_given || (storage.may_have_dirty && writes.any_dirty(pages.clone()).is_some()) {
        Durable(mapping)
            .sync_storage(writes, &mut storage, Sync::Data)
            .map_err(|error| mapping.write_failed(writes, Op::Invalidate, error))?;
    }
    if storage.is_doubtful && writes.any_dirty(pages.clone()).is_some() {
        return Err(mapping.error(ErrorKind::Io, Op::Invalidate).with_detail(
            "an earlier sync failed, and the state of the backend is unknown until a sync of \
             the whole file succeeds",
        ));
    }
    let _step = mapping.begin_step(Step::Read);
    Remover(mapping).remove(pages.start, pages.end, Unclean::Drop);
    Ok(())
}
