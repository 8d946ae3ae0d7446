//! Bytes written to the backend whose writeback to the device was not started.

use std::ops::Range;

/// Bytes that were written in ascending order. The range that contains them may have gaps, whose
/// bytes are not dirty in the backend, or are written too.
#[derive(Debug, Default)]
pub(super) struct Unstarted {
    range: Option<Range<u64>>,
    nr_bytes: u64,
    /// Number of contiguous parts, each a request to the device.
    nr_parts: u64,
}

impl Unstarted {
    /// Number of bytes for which a call is worth its cost while more is written. Dirty pages of a
    /// database are scattered, so a call for each contiguous range would be one for every few
    /// pages. (With 1 MiB, a load of redb made 5 000 calls in 30 s.)
    pub(super) const MIN_BYTES: u64 = 4 << 20;

    pub(super) fn add(&mut self, bytes: Range<u64>) {
        self.nr_bytes += bytes.end - bytes.start;
        let range = self.range.get_or_insert(bytes.start..bytes.start);
        self.nr_parts += u64::from(self.nr_parts == 0 || range.end != bytes.start);
        range.end = bytes.end;
    }

    /// Returns the range, and begins a new one, if it has `min_bytes` or `max_parts`. If the
    /// backend makes few requests durable per second, few parts let each call return in time
    /// ([`crate::dirty::pace`]).
    pub(super) fn take_if_many(&mut self, min_bytes: u64, max_parts: u64) -> Option<Range<u64>> {
        if self.nr_bytes < min_bytes && self.nr_parts < max_parts {
            return None;
        }
        (self.nr_bytes, self.nr_parts) = (0, 0);
        self.range.take()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn scattered_ranges_are_started_together() {
        let mut unstarted = Unstarted::default();
        assert_eq!(unstarted.take_if_many(1, 1), None);
        let page = |nr: u64| nr * 4096..(nr + 1) * 4096;
        for nr in 0..255 {
            unstarted.add(page(10 * nr));
            assert_eq!(unstarted.take_if_many(1 << 20, 256), None);
        }
        unstarted.add(page(2550));
        assert_eq!(unstarted.take_if_many(1 << 20, 1000), Some(0..2551 * 4096));
        assert_eq!(unstarted.take_if_many(1, 1), None);
        unstarted.add(8..9);
        assert_eq!(unstarted.take_if_many(1, 2), Some(8..9));
    }

    #[test]
    fn contiguous_ranges_are_one_part() {
        let mut unstarted = Unstarted::default();
        for pages in [0..2, 2..3, 5..6, 6..7] {
            unstarted.add(pages.start * 4096..pages.end * 4096);
            assert_eq!(unstarted.take_if_many(1 << 20, 3), None);
        }
        unstarted.add(8 * 4096..9 * 4096);
        assert_eq!(unstarted.take_if_many(1 << 20, 3), Some(0..9 * 4096));
    }
}
