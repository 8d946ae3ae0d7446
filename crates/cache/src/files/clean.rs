//! Waiting for pages to be made clean.
//!
//! A writer at its file's share ([`crate::dirty::pressure`]), and a thread that finds no frame since unclean pages are in the way,
//! have flushers clean files ([`super::flushers`]) and wait. They call neither a storage nor a hook themselves: a hook runs on
//! the thread that has asked for its very file, or on a flusher. And they do not wait for a call that does not return: they
//! give up with an error that says which.
//!
//! | who | waits for | gives up |
//! |---|---|---|
//! | a writer at its file's share | that file | when an attempt has failed; when a call of the storage or the hook has not returned for nine tenths of a second |
//! | a thread without a frame | the first file that is cleaned | as above, for all of them; when a call that was under way before does not return within a fifth of a second |
//!
//! While the calls are stopped ([`crate::Cache::quiesce`]) no flusher is at work, and none hangs: then a writer cleans its own file
//! itself, and a thread without a frame has none.

use std::collections::HashSet;
#[cfg(not(loom))]
use std::time::Duration;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameKind, FrameNr, FramePool, Order, Place, TryGetFrame};
#[cfg(not(loom))]
use pagewell_sync::time::Instant;

use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page_state::PageState;
use crate::dirty::commits::Sync;
#[cfg(not(loom))]
use crate::dirty::errors::Noted;
use crate::dirty::hook::InHook;
use crate::dirty::options::Writeback;
#[cfg(not(loom))]
use crate::dirty::service::{Finding, Obstacle, Patience};
use crate::files::state::Files;
use crate::files::visit::visit;
use crate::index::leaf::Leaf;
use crate::mapping::record::Mapping;
use crate::supply::reclaim::nodes::{frames_at, simplest};
use crate::writeback::flush::Flusher;

/// How long a thread without a frame waits for a call that was under way before.
#[cfg(not(loom))]
const FOR_OLD_CALLS: Duration = Duration::from_millis(200);

/// How long a thread that wants a block of several frames goes on waiting when the first pages have become clean.
#[cfg(not(loom))]
const FOR_MORE: Duration = Duration::from_millis(200);

/// Waits for pages to be made clean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cleaner<'f, S: RefScheme>(pub(crate) &'f Files<S>);

impl<S: RefScheme> Cleaner<'_, S> {
    fn pool(&self) -> &FramePool<S> {
        self.0.supply().pool()
    }

    /// See [`Keeper::throttle`](crate::mapping::keeper::Keeper::throttle).
    #[cold]
    pub(crate) fn throttle(self, number: u64) -> Result<(), Error> {
        let Some(mapping) = visit(self.0, number) else {
            return Ok(());
        };
        let writes = mapping.writes(Op::Write)?;
        // What a hook writes to its own file cannot wait for that file.
        if InHook::is_of(&writes.in_hook) {
            return Ok(());
        }
        if writes.mode == Writeback::Manual {
            return Err(throttled(
                &mapping,
                "it is written back by the program alone",
            ));
        }
        self.throttle_background(&mapping)
    }

    /// In a model there is no thread.
    #[cfg(loom)]
    fn throttle_background(self, mapping: &Mapping<S>) -> Result<(), Error> {
        self.clean_here(mapping)
    }

    #[cfg(not(loom))]
    fn throttle_background(self, mapping: &Mapping<S>) -> Result<(), Error> {
        let pressure = &self.0.shared.pressure;
        let writes = mapping.writes(Op::Write)?;
        let patience = Patience {
            with_old: pressure.limits.stall,
            with_new: pressure.limits.stall,
        };
        let waiter = pressure.changed.waiter();
        let is_done = || !mapping.is_at_share(writes) || pressure.calls.are_stopped();
        loop {
            // A storage that has failed is not asked again at once.
            let next = Instant::now() + writes.service.pause(true);
            waiter.wait(|| {
                let rest = next.saturating_duration_since(Instant::now());
                (!is_done() && rest != Duration::ZERO).then_some(rest)
            });
            if !mapping.is_at_share(writes) {
                return Ok(());
            }
            if pressure.calls.are_stopped() {
                return self.clean_here(mapping);
            }
            let (began, before) = (Instant::now(), writes.share.nr_cleaned());
            let nr = writes.call_now(pressure);
            let mut found = Finding::Cleaned;
            waiter.wait(|| {
                found = writes.service.look(began, nr, patience);
                match found {
                    Finding::Wait(most) if !is_done() => Some(most),
                    _ => None,
                }
            });
            // Others may have dirtied as much since.
            let has_progress = writes.share.nr_cleaned() != before;
            if let Some(error) = error_of(found, mapping).filter(|_| !has_progress && !is_done()) {
                return Err(error);
            }
        }
    }

    /// Makes a file clean on this thread.
    fn clean_here(self, mapping: &Mapping<S>) -> Result<(), Error> {
        let pressure = &self.0.shared.pressure;
        let writes = mapping.writes(Op::Write)?;
        let cleaned = Flusher(mapping).sync_unless(Sync::Data, || !pressure.is_over(&writes.share));
        match cleaned {
            // What the hook refuses may be the rest.
            Err(error) if pressure.is_over(&writes.share) => {
                let noted = error.noted_cause();
                let throttled = throttled(mapping, "it cannot be written back").with_source(error);
                Err(match noted {
                    Some(cause) => throttled.noted(cause),
                    None => throttled,
                })
            }
            _ => Ok(()),
        }
    }

    /// See [`Keeper::make_room`](crate::mapping::keeper::Keeper::make_room).
    #[cold]
    pub(crate) fn make_room(self, error: Error, order: Order) -> Result<(), Error> {
        let pressure = &self.0.shared.pressure;
        let nr_cleaned = || pressure.nr_cleaned();
        let before = nr_cleaned();
        let is_out = error.kind() == ErrorKind::OutOfFrames;
        if is_out && pressure.nr_unclean() < error.nr_unclean() {
            // A flusher has been faster. (It may have cleaned other pages; then the caller fails once more.)
            return Ok(());
        }
        if !is_out || pressure.nr_unclean() == 0 || InHook::is_so() {
            return Err(error);
        }
        let numbers = self.0.registry.numbers();
        let why = self.clean_any(numbers, (&nr_cleaned, before), order);
        if nr_cleaned() != before {
            return Ok(());
        }
        Err(match why {
            Some(why) => error.with_source(why),
            None => error,
        })
    }

    /// Makes pages clean that are in frames of `place`, for a caller that has found nothing to evict there: all pages of one file
    /// that is written back in the background; for a block of several frames, of all those files. Returns whether any were made
    /// clean.
    ///
    /// No lock is held: this waits for storages and hooks. In a hook nothing is done.
    #[cold]
    pub(crate) fn make_clean_at(self, order: Order, place: Place) -> bool {
        if !self.0.shared.home.is_here() || InHook::is_so() {
            return false;
        }
        let nr_cleaned = || self.0.shared.pressure.nr_cleaned();
        let before = nr_cleaned();
        let numbers = self.unclean_files(simplest(self.pool(), place));
        // An error is kept for the handles of its file. Some pages may be clean all the same, if the
        // hook refuses others.
        let _ = self.clean_any(numbers, (&nr_cleaned, before), order);
        nr_cleaned() != before
    }

    /// Makes the files with these numbers durable, as far as they are written back in the background, until pages were cleaned
    /// beyond `before`, by this count; returns the first error.
    #[cfg(loom)]
    fn clean_any(
        self,
        numbers: impl IntoIterator<Item = u64>,
        (nr_cleaned, before): (&dyn Fn() -> usize, usize),
        order: Order,
    ) -> Option<Error> {
        let is_enough = || order == Order::ZERO && nr_cleaned() != before;
        let mut first_error = None;
        for number in numbers {
            if !is_enough()
                && let Some(mapping) = visit(self.0, number)
                && is_background(&mapping)
                && let Err(error) = Flusher(&mapping).sync_unless(Sync::Data, is_enough)
            {
                first_error.get_or_insert(error);
            }
        }
        first_error
    }

    /// Has flushers make the files with these numbers durable, as far as they are written back in the background. Waits until pages
    /// were cleaned beyond `before`, by this count; for a block of several frames, a little longer, since a few pages may not do. Gives up when
    /// all have failed, or do not come to an end. Returns why the first of those was not cleaned that were not.
    #[cfg(not(loom))]
    fn clean_any(
        self,
        numbers: impl IntoIterator<Item = u64>,
        (nr_cleaned, before): (&dyn Fn() -> usize, usize),
        order: Order,
    ) -> Option<Error> {
        let pressure = &self.0.shared.pressure;
        if pressure.calls.are_stopped() {
            return None;
        }
        let patience = Patience {
            with_old: FOR_OLD_CALLS,
            with_new: pressure.limits.stall,
        };
        let waiter = pressure.changed.waiter();
        let began = Instant::now();
        let mut first_error = None;
        let mut called = Vec::new();
        for number in numbers {
            let Some(mapping) = visit(self.0, number).filter(|mapping| is_background(mapping))
            else {
                continue;
            };
            let Some(writes) = mapping.writes_if_any() else {
                continue;
            };
            if writes.share.nr() == 0 {
                continue;
            }
            match writes.service.recent_obstacle() {
                Some(obstacle) => {
                    _ = first_error.get_or_insert(error_of_obstacle(obstacle, &mapping))
                }
                None => called.push((number, writes.call_now(pressure))),
            }
        }
        let mut first_cleaned = None;
        waiter.wait(|| {
            if nr_cleaned() != before {
                let at = *first_cleaned.get_or_insert_with(Instant::now);
                if order == Order::ZERO || at.elapsed() >= FOR_MORE {
                    return None;
                }
            }
            let mut longest = None;
            called.retain(|(number, nr)| {
                // Who closes the file makes it durable, or loses it.
                let Some(mapping) = visit(self.0, *number) else {
                    return false;
                };
                let Some(writes) = mapping.writes_if_any() else {
                    return false;
                };
                match writes.service.look(began, *nr, patience) {
                    Finding::Wait(most) => {
                        longest = longest.max(Some(most));
                        return true;
                    }
                    finding => {
                        if let Some(error) = error_of(finding, &mapping) {
                            first_error.get_or_insert(error);
                        }
                    }
                }
                false
            });
            longest.map(|most| most.min(FOR_MORE))
        });
        first_error
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
        // Until the leaf is held, a record is a hint.
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

/// Whether a file is written to, and written back without a request.
pub(crate) fn is_background<S: RefScheme>(mapping: &Mapping<S>) -> bool {
    mapping
        .writes_if_any()
        .is_some_and(|writes| writes.mode == Writeback::Background)
}

/// The error of a writer at its file's share.
fn throttled<S: RefScheme>(mapping: &Mapping<S>, why: impl Into<String>) -> Error {
    mapping
        .error(ErrorKind::Throttled, Op::Write)
        .with_detail(why)
}

/// What has kept an attempt from cleaning a file.
#[cfg(not(loom))]
pub(super) fn obstacle_of(error: &Error) -> Obstacle {
    let source = std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<std::io::Error>())
        .map(Noted::new);
    Obstacle {
        noted: error.noted_cause(),
        text: error.to_string(),
        source,
    }
}

/// The error of a thread that has waited for an attempt.
#[cfg(not(loom))]
fn error_of_obstacle<S: RefScheme>(obstacle: Obstacle, mapping: &Mapping<S>) -> Error {
    let error = throttled(mapping, obstacle.text);
    let error = match obstacle.noted {
        Some(cause) => error.noted(cause),
        None => error,
    };
    match obstacle.source {
        Some(source) => error.with_source(source.error()),
        None => error,
    }
}

/// The error of a thread that waits no more, if the file was not cleaned.
#[cfg(not(loom))]
fn error_of<S: RefScheme>(finding: Finding, mapping: &Mapping<S>) -> Option<Error> {
    let why = match finding {
        Finding::Cleaned | Finding::Wait(_) => return None,
        Finding::Failed(obstacle) => return Some(error_of_obstacle(obstacle, mapping)),
        Finding::Stalled(step, time) => format!("{step} for {:.1} s", time.as_secs_f64()),
        Finding::Blocked => "its write-back waits for another operation on it".to_owned(),
        Finding::NoThread => "no thread of the cache is free to write it back".to_owned(),
    };
    Some(throttled(mapping, why))
}
