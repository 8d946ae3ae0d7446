//! The ranges of a file that the system was told to write, and is not known to have written.
//!
//! The system takes any number of them at once, and the sync then waits for all, in one call: on a slow device for as long as the
//! whole file needs. So there are only so many. Who begins one more waits for the first one before; that is one short call
//! after the other while the device works, and little is left to the sync.

use std::collections::VecDeque;
use std::ops::Range;

/// So many bytes may be on their way: what a device with a gigabyte a second writes while it answers one request in 4 ms.
const MOST_BYTES: u64 = 4 << 20;

/// So many ranges may be: enough for a device to choose an order, and to work on several at once.
const MOST_RANGES: usize = 64;

/// The ranges that are on their way, in the order of their beginnings.
#[derive(Debug, Default)]
pub(super) struct Begun {
    ranges: VecDeque<Range<u64>>,
    nr_bytes: u128,
}

impl Begun {
    /// The system was told to write `range`.
    pub(super) fn add(&mut self, range: Range<u64>) {
        self.nr_bytes += u128::from(range.end.saturating_sub(range.start));
        self.ranges.push_back(range);
    }

    /// Takes the range out that is to be waited for first, if there are too many; but not the last one.
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
        // It alone is left to the sync, however large it is.
        let mut begun = Begun::default();
        begun.add(0..u64::MAX);
        assert_eq!(begun.take_surplus(), None);
        begun.add(0..u64::MAX);
        assert_eq!(begun.take_surplus(), Some(0..u64::MAX));
    }
}
