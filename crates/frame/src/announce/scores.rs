//! Which frames a thread takes references to again and again: a few scores, in memory of its own.

use pagewell_sync::atomic::{AtomicU64, Ordering};

use crate::words::FrameNr;

/// How many frames a thread keeps a score of.
const NR: usize = 8;

/// The score at which a frame is worth a mark: so many counted references in a short while, fewer if others had some at the same time.
const ENOUGH: u32 = if cfg!(loom) { 2 } else { 16 };

/// What a reference counts for that was taken while others had one.
const CONTENDED: u32 = 4;

/// Each a frame, and its score: a frame in the upper half, since a score of 0 is that of none.
#[derive(Debug, Default)]
pub(super) struct Scores([AtomicU64; NR]);

impl Scores {
    /// Forgets everything: the thread is gone, and so is the pool.
    #[cfg(not(loom))]
    pub(super) fn clear(&self) {
        for place in &self.0 {
            // ORDERING: Relaxed; as in `note`.
            place.store(0, Ordering::Relaxed);
        }
    }

    /// Notes a counted reference; whether the frame is worth a mark. Only the owner calls it.
    ///
    /// A frame that comes gains, and the one that is in its place loses: so what comes often among many that come once stays.
    #[inline]
    pub(super) fn note(&self, frame: FrameNr, is_contended: bool) -> bool {
        let Some(place) = self.0.get(frame.index() % NR) else {
            return false;
        };
        // ORDERING: Relaxed, all of them; only the owner uses it, and its successor, which the number was handed on to by a lock.
        let word = place.load(Ordering::Relaxed);
        let (of, score) = ((word >> u32::BITS) as u32, word as u32);
        let after = if score == 0 {
            (frame.get(), 1)
        } else if of == frame.get() {
            let more = if is_contended { CONTENDED } else { 1 };
            if score + more >= ENOUGH {
                place.store(0, Ordering::Relaxed);
                return true;
            }
            (of, score + more)
        } else {
            (of, score - 1)
        };
        place.store(
            u64::from(after.0) << u32::BITS | u64::from(after.1),
            Ordering::Relaxed,
        );
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn frame(nr: usize) -> FrameNr {
        FrameNr::new(nr as u32)
    }

    #[test]
    fn what_comes_again_and_again_is_worth_a_mark() {
        let scores = Scores::default();
        let nr = (1..100).find(|_| scores.note(frame(3), false)).unwrap();
        assert_eq!(nr, ENOUGH);
        let nr = (1..100).find(|_| scores.note(frame(3), true)).unwrap();
        assert!(nr < ENOUGH / 2, "{nr}");
    }

    #[test]
    fn what_comes_once_is_not_and_does_not_push_out_what_comes_often() {
        let scores = Scores::default();
        assert!(!(0..10_000).any(|nr| scores.note(frame(nr), true)));
        // The root of a tree, and a leaf that is another one each time.
        let nr = (1..1000).find(|nr| {
            let is_worth = scores.note(frame(8), false);
            assert!(!scores.note(frame(8 + 3 * nr), false));
            is_worth
        });
        assert!(nr.is_some_and(|nr| nr < 100), "{nr:?}");
    }
}
