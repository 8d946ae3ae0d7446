//! Making pages clean, of whatever file.
//!
//! At most half of the frames may hold bytes that the storage is not known to have. A writer that would exceed that makes pages
//! clean first, of its own file or of others: they are given to the storage and made durable, since only then they can be
//! evicted. The thread that writes back ([`super::rounds`]) keeps writers away from that limit: five times a second it gives dirty
//! pages to the storage, and from a quarter of the frames on it is woken, and makes pages durable. So while the storage is at work
//! on one quarter, writers fill the next.
//!
//! Writers and the thread go through the open files, and *visit* them one at a time ([`super::visit`]): they keep no file open that
//! the program has closed.

use std::collections::HashSet;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameKind, FrameNr, FramePool, Order, Place, TryGetFrame};

use crate::base::error::{Error, ErrorKind};
use crate::base::page_state::PageState;
use crate::dirty::hook::InHook;
use crate::dirty::options::Writeback;
use crate::files::state::Files;
use crate::files::visit::visit;
use crate::index::leaf::Leaf;
use crate::mapping::record::Mapping;
use crate::supply::reclaim::nodes::{frames_at, simplest};
use crate::writeback::durable::Sync;
use crate::writeback::flush::Flusher;

/// Makes pages of any file clean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cleaner<'f, S: RefScheme>(pub(crate) &'f Files<S>);

impl<S: RefScheme> Cleaner<'_, S> {
    fn pool(&self) -> &FramePool<S> {
        self.0.supply().pool()
    }

    /// See [`Keeper::make_clean`](crate::mapping::keeper::Keeper::make_clean).
    #[cold]
    pub(crate) fn make_clean(self) {
        if InHook::is_so() || self.0.shared.pressure.last_failure.is_recent() {
            return;
        }
        // The error is kept for the handles of the file.
        if self
            .make_clean_until(|| !self.0.shared.pressure.unclean.is_over())
            .is_some()
        {
            self.0.shared.pressure.last_failure.note();
        }
    }

    /// See [`Keeper::make_room`](crate::mapping::keeper::Keeper::make_room).
    #[cold]
    pub(crate) fn make_room(self, error: Error) -> Result<(), Error> {
        let before = self.0.shared.pressure.unclean.nr();
        if error.kind() != ErrorKind::OutOfFrames || before == 0 || InHook::is_so() {
            return Err(error);
        }
        let why = self.make_clean_until(|| false);
        if self.0.shared.pressure.unclean.nr() < before {
            return Ok(());
        }
        Err(match why {
            Some(why) => error.with_source(why),
            None => error,
        })
    }

    /// Makes pages clean; the first error, of which the handles of the file are told too.
    pub(super) fn make_clean_until(self, is_enough: impl Fn() -> bool) -> Option<Error> {
        let mut first_error = None;
        for number in self.0.registry.numbers() {
            // One at a time: who closes a file waits for nobody who is at work on another one.
            if !is_enough()
                && let Some(mapping) = visit(self.0, number)
                && is_background(&mapping)
                && let Err(error) = Flusher(&mapping).sync_unless(Sync::Data, &is_enough)
            {
                first_error.get_or_insert(error);
            }
        }
        first_error
    }

    /// Makes pages clean that are in frames of `place`, for who has found nothing to evict there: all of some file's that is
    /// written back in the background, or for a block of several frames, of all those files. Whether any were made.
    ///
    /// No lock is held: it waits for the storage, and calls the program's hooks. In a hook nothing is done.
    #[cold]
    pub(crate) fn make_clean_at(self, order: Order, place: Place) -> bool {
        if !self.0.shared.home.is_here() || InHook::is_so() {
            return false;
        }
        let mut is_any = false;
        for number in self.unclean_files(simplest(self.pool(), place)) {
            let Some(mapping) = visit(self.0, number) else {
                continue;
            };
            if is_background(&mapping) {
                let before = self.0.shared.pressure.unclean.nr();
                // An error is kept for the handles of the file. There may be fewer all the same, if pages are held.
                let synced = Flusher(&mapping).sync_unless(Sync::Data, || false);
                is_any |= synced.is_ok() || self.0.shared.pressure.unclean.nr() < before;
            }
            if is_any && order == Order::ZERO {
                break;
            }
        }
        is_any
    }

    /// The numbers of the files that have pages at `place` which are not clean, as far as can be seen.
    fn unclean_files(self, place: Place) -> HashSet<u64> {
        let leaves: HashSet<u64> = frames_at(self.pool(), place)
            .map(|nr| self.pool().meta(FrameNr::new(nr)))
            .filter(|record| {
                record.kind().0 == FrameKind::Page && PageState::of(*record).is_unclean()
            })
            .map(|record| record.owner().0)
            .collect();
        // What records say is a hint until the leaf is held.
        let files = leaves.into_iter().filter_map(|leaf| {
            let leaf = FrameNr::new(u32::try_from(leaf).ok()?);
            let TryGetFrame::Taken(reference) = self.pool().try_get(leaf) else {
                return None;
            };
            let leaf = Leaf::from_reference(reference)?;
            Some(leaf.reference.meta().owner().0)
        });
        files.collect()
    }
}

/// Whether a file is written to, and written back without being asked to.
pub(crate) fn is_background<S: RefScheme>(mapping: &Mapping<S>) -> bool {
    mapping
        .writes_if_any()
        .is_some_and(|writes| writes.mode == Writeback::Background)
}
