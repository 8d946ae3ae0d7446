//! Bytes that the backend has accepted, and whose sync was not started
//! ([`Backend::begin_sync`](pagewell_io::Backend::begin_sync)).

use std::ops::Range;

/// Writes in ascending order whose sync was not started. A sync is started for one range: the bytes
/// in its gaps are clean in the backend, or are to be synced too. During a flush, such calls only
/// keep the device busy, so few of them suffice ([`MIN_BYTES`](Self::MIN_BYTES)). Before a sync
/// that is due, throttled writers must see that calls return, so each call must be short
/// ([`MIN_BYTES_BEFORE_SYNC`](Self::MIN_BYTES_BEFORE_SYNC)).
#[derive(Debug, Default)]
pub(super) struct Unstarted {
    range: Option<Range<u64>>,
    nr_bytes: u64,
    /// Number of contiguous parts of these bytes. Each is at least one request to the device.
    nr_parts: u64,
}

impl Unstarted {
    /// Number of bytes at which a flush starts their sync. Dirty pages of a database are scattered,
    /// so a call for each contiguous part would be one for every few pages.
    pub(super) const MIN_BYTES: u64 = 4 << 20;

    /// Number of bytes at which their sync is started before a sync of the file that is due.
    pub(super) const MIN_BYTES_BEFORE_SYNC: u64 = 1 << 20;

    /// Adds bytes that the backend has accepted, after those added before.
    pub(super) fn add(&mut self, bytes: Range<u64>) {
        self.nr_bytes += bytes.end - bytes.start;
        let range = self.range.get_or_insert(bytes.start..bytes.start);
        self.nr_parts += u64::from(self.nr_parts == 0 || range.end != bytes.start);
        range.end = bytes.end;
    }

    /// Returns the range and begins a new one, if at least `min_bytes` or `max_parts` were added.
    /// On a slow backend, `max_parts` limits the duration of the call ([`pagewell_policy::pace`]).
    pub(super) fn take_if_many(&mut self, min_bytes: u64, max_parts: u64) -> Option<Range<u64>> {
        if self.nr_bytes < min_bytes && self.nr_parts < max_parts {
            return None;
        }
        (self.nr_bytes, self.nr_parts) = (0, 0);
        self.range.take()
    }
}

#[cfg(test)]
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
