//! Handles and areas that may write to a file, and whether one open excludes the others.

use pagewell_sync::atomic::{AtomicUsize, Ordering};

/// Number of handles and areas for writing. They are counted in addition to the handles of the
/// file, which may be for reading.
///
/// The word has the number, and [`EXCLUSIVE`](Self::EXCLUSIVE) if all of them come from one open
/// that excludes others. Without a writer, the bit has no meaning.
#[derive(Debug, Default)]
pub(crate) struct Writers(AtomicUsize);

impl Writers {
    const EXCLUSIVE: usize = 1 << (usize::BITS - 1);

    /// Counts the handle of a new open, or returns `false` if it is excluded, or would exclude
    /// others that exist.
    #[must_use]
    pub(crate) fn open(&self, is_exclusive: bool) -> bool {
        // ORDERING: Relaxed; the word publishes no other memory. What earlier writers have written
        // is ordered by the locks of the pages.
        let opened = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                let nr_writers = word & !Self::EXCLUSIVE;
                match (nr_writers, is_exclusive) {
                    (0, true) => Some(Self::EXCLUSIVE | 1),
                    (0, false) => Some(1),
                    (_, true) => None,
                    (_, false) => (nr_writers == word).then_some(word + 1),
                }
            });
        opened.is_ok()
    }

    /// Counts a clone of a handle, or an area.
    pub(crate) fn add(&self) {
        // ORDERING: Relaxed, as in `open`. The caller has a handle, so the bit has a meaning.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self) {
        // ORDERING: Relaxed, as in `open`.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_exclusive_open_is_the_only_one() {
        let writers = Writers::default();
        assert!(writers.open(true));
        assert!(!writers.open(true));
        assert!(!writers.open(false));
        writers.add();
        writers.remove();
        assert!(!writers.open(false));
        writers.remove();
        assert!(writers.open(false));
        assert!(writers.open(false));
        assert!(!writers.open(true));
        writers.remove();
        assert!(!writers.open(true));
        writers.remove();
        assert!(writers.open(true));
    }
}
