//! Waiting for pages to be cleaned.
//!
//! Two kinds of threads request that flushers clean files ([`super::flushers`]), and wait: a writer
//! at its file's quota ([`crate::dirty::pressure`]), and a thread that finds no frame because pages
//! are not clean. While requests are served, these threads call neither a backend nor a callback: a
//! callback runs only on a thread that operates on its file, or on a flusher. The error of a
//! waiting thread names the call that does not return.
//! - A writer waits for its file. It gives up if no page became clean and one of these holds: an
//!   attempt has failed; a call of the backend or the callback has not returned for 0.9 s
//!   (`Builder::stall_timeout`); no attempt or call has begun for this time.
//! - A thread without a frame waits for the first file that is cleaned. It gives up when each file
//!   has failed or stalled as above; a call already in progress counts as stalled after 0.2 s.
//!
//! While requests are stopped ([`crate::Cache::quiesce`]), a writer cleans its file itself, and a
//! thread without a frame fails.

use std::collections::HashSet;
use std::time::Duration;

use pagewell_frame::{FrameKind, FrameNr, FramePool, Order, Place, TryGetFrame};
use pagewell_sync::time::Instant;

use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page_state::PageState;
use crate::dirty::commits::Sync;
use crate::dirty::errors::Noted;
use crate::dirty::hook::InHook;
use crate::dirty::service::{Finding, Obstacle, Patience};
use crate::dirty::writes::Writeback;
use crate::files::state::{Files, visit};
use crate::index::claim::Leaf;
use crate::mapping::record::Mapping;
use crate::supply::reclaim::nodes::{frames_at, simplest};
use crate::writeback::flush::Flusher;

const FOR_OLD_CALLS: Duration = Duration::from_millis(200);

/// Time for which a thread that needs a block continues to wait after the first pages are clean.
const FOR_MORE: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cleaner<'f>(pub(crate) &'f Files);

impl Cleaner<'_> {
    fn pool(&self) -> &FramePool {
        self.0.supply().pool()
    }

    #[cold]
    pub(crate) fn throttle(self, number: u64) -> Result<(), Error> {
        let Some(mapping) = visit(self.0, number) else {
            return Ok(());
        };
        let writes = mapping.writes(Op::Write)?;
        if InHook::is_of(&writes.in_hook) {
            return Ok(());
        }
        if writes.mode == Writeback::Manual {
            return Err(throttled(
                &mapping,
                "only the program makes its pages durable, and its quota is used up",
            ));
        }
        self.throttle_background(&mapping)
    }

    fn throttle_background(self, mapping: &Mapping) -> Result<(), Error> {
        let pressure = &self.0.shared.pressure;
        let writes = mapping.writes(Op::Write)?;
        let patience = Patience {
            with_old: pressure.limits.stall,
            with_new: pressure.limits.stall,
        };
        let waiter = pressure.changed.waiter();
        let is_done = || !mapping.is_at_share(writes) || pressure.calls.are_stopped();
        loop {
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
            // Pages may have become clean even if other writers have made as many dirty since.
            let has_progress = writes.share.nr_cleaned() != before;
            if let Some(error) = error_of(found, mapping).filter(|_| !has_progress && !is_done()) {
                return Err(error);
            }
        }
    }

    fn clean_here(self, mapping: &Mapping) -> Result<(), Error> {
        let pressure = &self.0.shared.pressure;
        let writes = mapping.writes(Op::Write)?;
        let cleaned = Flusher(mapping).sync_unless(Sync::Data, || !pressure.is_over(&writes.share));
        match cleaned {
            // Some pages may be clean nevertheless, so the quota decides.
            Err(error) if pressure.is_over(&writes.share) => {
                let noted = error.noted_cause();
                let throttled = throttled(mapping, "writeback failed").with_source(error);
                Err(throttled.noted(noted))
            }
            _ => Ok(()),
        }
    }

    #[cold]
    pub(crate) fn make_room(self, error: Error, order: Order) -> Result<(), Error> {
        let pressure = &self.0.shared.pressure;
        let nr_cleaned = || pressure.nr_cleaned();
        let before = nr_cleaned();
        let is_out = error.kind() == ErrorKind::OutOfFrames;
        if is_out && pressure.nr_unclean() < error.nr_unclean() {
            // Pages were cleaned or removed in between. (If that does not help, the retry fails.)
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

    /// Requests the cleaning of all files with background writeback that have pages in frames of
    /// `place` which are not clean, and waits as `clean_any` does. Returns `true` if any page
    /// became clean. In a callback, a codec or a fork, and while requests are stopped, does
    /// nothing. The caller must hold no lock, since the call waits for backends and callbacks.
    #[cold]
    pub(crate) fn make_clean_at(self, order: Order, place: Place) -> bool {
        if !self.0.shared.home.is_here() || InHook::is_so() {
            return false;
        }
        let nr_cleaned = || self.0.shared.pressure.nr_cleaned();
        let before = nr_cleaned();
        let numbers = self.unclean_files(simplest(self.pool(), place));
        // The error is recorded for the file's handles, and some pages may be clean.
        let _ = self.clean_any(numbers, (&nr_cleaned, before), order);
        nr_cleaned() != before
    }

    /// Requests that flushers make the files `numbers` with background writeback durable. Waits
    /// until `nr_cleaned` differs from `before`, and up to [`FOR_MORE`] longer for a block. Stops
    /// waiting when each file was cleaned, has failed or stalled, or is being closed. A file that
    /// failed shortly before the call is not tried again. Returns the first error. While requests
    /// are stopped, does nothing.
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
                // The thread that closes the file makes it durable, or reports the loss.
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

    /// Returns the numbers of the files that appear to have pages at `place` which are not clean.
    fn unclean_files(self, place: Place) -> HashSet<u64> {
        let leaves: HashSet<u64> = frames_at(self.pool(), place)
            .map(|nr| self.pool().meta(FrameNr::new(nr)))
            .filter(|record| {
                record.kind().0 == FrameKind::Page && PageState::of(record).is_unclean()
            })
            .map(|record| record.owner().0)
            .collect();
        // A frame's metadata is only a hint. So check, with a reference, that the frame is a leaf.
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

pub(crate) fn is_background(mapping: &Mapping) -> bool {
    mapping
        .writes_if_any()
        .is_some_and(|writes| writes.mode == Writeback::Background)
}

fn throttled(mapping: &Mapping, why: impl Into<String>) -> Error {
    mapping
        .error(ErrorKind::Throttled, Op::Write)
        .with_detail(why)
}

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

fn error_of_obstacle(obstacle: Obstacle, mapping: &Mapping) -> Error {
    let error = throttled(mapping, obstacle.text).noted(obstacle.noted);
    match obstacle.source {
        Some(source) => error.with_source(source.error()),
        None => error,
    }
}

/// Returns `None` if the file was cleaned or the thread must wait.
fn error_of(finding: Finding, mapping: &Mapping) -> Option<Error> {
    let why = match finding {
        Finding::Cleaned | Finding::Wait(_) => return None,
        Finding::Failed(obstacle) => return Some(error_of_obstacle(obstacle, mapping)),
        Finding::Stalled(step, time) => format!("{step} for {:.1} s", time.as_secs_f64()),
        Finding::Blocked => "its writeback waits for another operation on the file".to_owned(),
        Finding::NoThread => "all flushers are busy".to_owned(),
    };
    Some(throttled(mapping, why))
}
