//! The referenced lookup: from a page to a reference to its frame, filling the page if it is missing.
//!
//! Place. Pins, the referenced read, and whatever the optimistic read gives up on.
//!
//! Protocol. Load the slot; take a reference to the frame that the slot names; check
//! that it is unchanged; then the reference is to the page. It is not one if the check fails, since
//! the frame may have been reused between the load and the `try_get`: it is dropped again, and
//! whoever drops the last one frees the frame.
//!
//! The bytes of a frame with a reference do not change (a page is written before it is
//! published), so a copy under the reference needs no validation of its own.
//!
//! Progress. A round is repeated only after another thread has changed the slot or is about to: a fill
//! is waited for asleep, everything else lasts a few steps.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameRef, TryGetFrame};
use pagewell_sync::atomic::Ordering;
use pagewell_sync::thread::Backoff;

use crate::error::{Error, ErrorKind, Op};
use crate::fill::Fill;
use crate::index::{Leaf, PageNr, Seen};
use crate::mapping::Mapping;
use crate::slot::State;

/// How many rounds a claimed slot is watched before the thread sleeps: an eviction's claim is over
/// in a moment, a fill's is not.
const WATCHES: u32 = if cfg!(loom) { 0 } else { 4 };

impl<S: RefScheme> Mapping<S> {
    /// A reference to the frame of `page`. If it is missing, it is filled, along with missing neighbours
    /// up to as many pages in all as `ahead` says, which is asked once and only then.
    pub(crate) fn get(
        &self,
        page: PageNr,
        ahead: impl Fn() -> usize,
    ) -> Result<FrameRef<'_, S>, Error> {
        let mut want = None;
        let mut backoff = Backoff::new();
        loop {
            if let Some(seen) = self.index().look(page) {
                match seen.slot.state() {
                    State::Present(_) => {
                        if let Some(reference) = self.try_get_seen(seen)? {
                            self.mark_referenced(page, seen);
                            return Ok(reference);
                        }
                        backoff.wait();
                        continue;
                    }
                    State::Busy if backoff.rounds() < WATCHES => {
                        backoff.wait();
                        continue;
                    }
                    State::Busy => {
                        seen.wait_while_busy(self.shared());
                        continue;
                    }
                    State::Empty => {}
                }
            }
            let want = *want.get_or_insert_with(&ahead);
            let filled = self.fill(page, want);
            // No claim is held here: the place to tear down what an eviction was the last to hold.
            self.shared().bury();
            if let Fill::Filled(reference) = filled? {
                return Ok(reference);
            }
        }
    }

    /// A reference to the frame that was `seen` in the slot, if it still is the page's.
    pub(crate) fn try_get_seen(&self, seen: Seen<'_>) -> Result<Option<FrameRef<'_, S>>, Error> {
        let frame = pagewell_frame::FrameNr::new(seen.slot.frame());
        match self.shared().pool.try_get(frame) {
            TryGetFrame::Taken(reference) => {
                // `try_get` acquires, so these loads come after the reference was taken.
                let is_pages = seen.is_unchanged();
                Ok(is_pages.then_some(reference))
            }
            TryGetFrame::Locked => Ok(None),
            TryGetFrame::Saturated => Err(self.error(ErrorKind::TooManyPins, Op::Read)),
        }
    }

    /// Notes for the eviction policy that `page` was used. Writes only if that is not noted yet.
    fn mark_referenced(&self, page: PageNr, seen: Seen<'_>) {
        if seen.slot.is_hot() {
            return;
        }
        // Storing to a slot takes a hold of its leaf (I3 of the index).
        if let Some(leaf) = self.index().leaf(self.shared(), page) {
            // ORDERING: Relaxed; the mark is a hint, and a read-modify-write passes on what the slot's
            // publisher released. If the slot has changed, so has the page, and the mark is void.
            let _ = leaf.slot(Leaf::<S>::slot_of(page)).compare_exchange(
                seen.slot.bits(),
                seen.slot.with_referenced().bits(),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }
}
