//! Ranges of a file whose writeback was started and may still be in flight.
//!
//! A sync would wait for any number of ranges in one call. So a thread that starts a range, and
//! thereby exceeds a limit, waits for the oldest ranges.

use std::collections::VecDeque;
use std::ops::Range;

/// Limit of bytes in flight. A device of 1 GB/s writes them in about 4 ms.
const MOST_BYTES: u64 = 4 << 20;

/// Limit of ranges in flight, enough for a device to reorder and overlap writes.
const MOST_RANGES: usize = 64;

/// Ranges in flight, in the order in which they were started.
#[derive(Debug, Default)]
pub(super) struct Begun {
    ranges: VecDeque<Range<u64>>,
    nr_bytes: u128,
}

impl Begun {
    pub(super) fn add(&mut self, range: Range<u64>) {
        self.nr_bytes += u128::from(range.end.saturating_sub(range.start));
        self.ranges.push_back(range);
    }

    /// If a limit is exceeded (not by a single range), removes the oldest, which the caller awaits.
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
        let mut begun = Begun::default();
        begun.add(0..u64::MAX);
        assert_eq!(begun.take_surplus(), None);
        begun.add(0..u64::MAX);
        assert_eq!(begun.take_surplus(), Some(0..u64::MAX));
    }
}
