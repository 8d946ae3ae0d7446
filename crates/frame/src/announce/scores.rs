//! Scores of the frames to which a thread repeatedly acquires references.

use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::scaled;

use crate::words::FrameNr;

const NR: usize = 8;

/// Score at which a frame should be protected.
const ENOUGH: u32 = scaled(16, 2);

/// Score of a reference that was acquired while other threads held references. Others score 1.
const CONTENDED: u32 = 4;

/// Entries, each with a frame (upper half) and its score (lower half; 0 if there is no frame).
#[derive(Debug, Default)]
pub(super) struct Scores([AtomicU64; NR]);

impl Scores {
    pub(super) fn clear(&self) {
        for place in &self.0 {
            // ORDERING: Relaxed; one thread at a time accesses the scores, as in `note`.
            place.store(0, Ordering::Relaxed);
        }
    }

    /// Records a counted reference of the owner thread: raises the score of `frame`, or lowers that
    /// of another frame in the entry. Returns `true`, and removes the score, if `frame` should be
    /// protected.
    #[inline]
    pub(super) fn note(&self, frame: FrameNr, is_contended: impl FnOnce() -> bool) -> bool {
        let Some(place) = self.0.get(frame.index() % NR) else {
            return false;
        };
        // ORDERING: Relaxed, all of them; only the owner accesses the scores, and later its
        // successor, after the reuse of the thread number.
        let word = place.load(Ordering::Relaxed);
        let after = if word as u32 == 0 {
            u64::from(frame.get()) << u32::BITS | 1
        } else if (word >> u32::BITS) as u32 != frame.get() {
            word - 1
        } else {
            let more = if is_contended() { CONTENDED } else { 1 };
            if word as u32 + more >= ENOUGH {
                place.store(0, Ordering::Relaxed);
                return true;
            }
            word + u64::from(more)
        };
        place.store(after, Ordering::Relaxed);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(nr: usize) -> FrameNr {
        FrameNr::new(nr as u32)
    }

    #[test]
    fn what_comes_again_and_again_is_worth_a_mark() {
        let scores = Scores::default();
        let nr = (1..100).find(|_| scores.note(frame(3), || false)).unwrap();
        assert_eq!(nr, ENOUGH);
        let nr = (1..100).find(|_| scores.note(frame(3), || true)).unwrap();
        assert!(nr < ENOUGH / 2, "{nr}");
    }

    #[test]
    fn what_comes_once_is_not_and_does_not_push_out_what_comes_often() {
        let scores = Scores::default();
        assert!(!(0..10_000).any(|nr| scores.note(frame(nr), || true)));
        // Like the root of a tree, with a different leaf each time.
        let nr = (1..1000).find(|nr| {
            let is_worth = scores.note(frame(8), || false);
            assert!(!scores.note(frame(8 + 3 * nr), || false));
            is_worth
        });
        assert!(nr.is_some_and(|nr| nr < 100), "{nr:?}");
    }
}
