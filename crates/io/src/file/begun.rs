//! Ranges of a file that the system was told to write, and is not known to have written.
//!
//! The system accepts any number of them at once, and a sync then waits for all in one call: on a
//! slow device, as long as the whole file needs. The number is therefore limited. A thread that
//! starts another range waits for the oldest: many short calls, and little left for the sync.

use std::collections::VecDeque;
use std::ops::Range;

/// Maximum number of bytes in flight: 4 ms, the latency of one request, at 1 GB/s.
const MOST_BYTES: u64 = 4 << 20;

/// Maximum number of ranges in flight: a device can reorder and overlap them.
const MOST_RANGES: usize = 64;

/// Ranges in flight, in the order in which they were started.
#[derive(Debug, Default)]
pub(super) struct Begun {
    ranges: VecDeque<Range<u64>>,
    nr_bytes: u128,
}

impl Begun {
    /// Adds `range`, which the system was told to write.
    pub(super) fn add(&mut self, range: Range<u64>) {
        self.nr_bytes += u128::from(range.end.saturating_sub(range.start));
        self.ranges.push_back(range);
    }

    /// Removes the oldest range, for the caller to wait for, if the limits are exceeded. Keeps one.
    pub(super) fn take_surplus(&mut self) -> Option<Range<u64>> {
        let nr = self.ranges.len();
        if nr <= MOST_RANGES && (nr <= 1 || self.nr_bytes <= u128::from(MOST_BYTES)) {
            return None;
        }
        let first = self.ranges.pop_front()?;
        self.nr_bytes -= u128::from(first.end.saturating_sub(first.start));
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_waited_for_when_there_are_many_or_they_are_large() {
        let mut begun = Begun::default();
        for nr in 0..64 {
            begun.add(nr..nr + 1);
            assert_eq!(begun.take_surplus(), None);
        }
        begun.add(64..65);
        assert_eq!(begun.take_surplus(), Some(0..1));
        assert_eq!(begun.take_surplus(), None);
        begun.add(0..MOST_BYTES);
        for nr in 1..65 {
            assert_eq!(begun.take_surplus(), Some(nr..nr + 1));
        }
        assert_eq!(begun.take_surplus(), None);
        // A single range is left to the sync, whatever its size.
        let mut begun = Begun::default();
        begun.add(0..u64::MAX);
        assert_eq!(begun.take_surplus(), None);
        begun.add(0..u64::MAX);
        assert_eq!(begun.take_surplus(), Some(0..u64::MAX));
    }
}
