//! Amount that is written to a file's backend between two syncs.
//!
//! A sync makes everything durable that was written since the last one, so its duration grows with
//! that amount. A call that exceeds a time limit counts as stalled, since it cannot be
//! distinguished from one that never returns. Therefore a file with background writeback is also
//! synced as soon as a sync of the amount written so far would take a quarter of the time limit,
//! according to earlier syncs.
//!
//! The duration may depend on the number of bytes or of requests (a disk seeks), so both are
//! bounded. A bound starts low, and is doubled while syncs of nearly the bounded amount are fast. A
//! slow sync lowers it at once to the amount that would have taken the intended time. On a fast
//! backend a bound soon exceeds the file's quota and has no effect.
//!
//! A sync may also take long regardless of the amount, for example because a journal is committed.
//! If a sync of a smaller amount takes about as long, the bounds are not lowered further, and are
//! raised again while the duration is short enough.

use std::time::Duration;

/// Divisor: a sync should take one `PART`th of the time limit, so that it returns in time even if
/// the backend has become several times slower since the last sync.
const PART: u32 = 4;

/// Bound before the first sync. That sync may count as stalled on a backend that makes fewer than
/// 300 KB, or some 70 requests, durable per second.
const FIRST: Amount = Amount {
    bytes: 256 << 10,
    requests: 64,
};

/// Number of bytes and of requests that were given to a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    bytes: u64,
    requests: u64,
}

/// The amount since the last sync, and its bound.
#[derive(Debug)]
pub struct Pace {
    given: Amount,
    /// The bound. At least one in each field.
    most: Amount,
    /// Duration of the slow sync that lowered the bounds; `None` after a fast sync.
    slow: Option<Duration>,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            given: Amount::default(),
            most: FIRST,
            slow: None,
        }
    }
}

impl Pace {
    /// Adds a write of `bytes` to the amount.
    pub fn note_request(&mut self, bytes: u64) {
        self.given.bytes = self.given.bytes.saturating_add(bytes);
        self.given.requests = self.given.requests.saturating_add(1);
    }

    /// Returns the bound of the number of requests.
    #[must_use]
    pub fn most_requests(&self) -> u64 {
        self.most.requests
    }

    /// Returns `true` if the amount has reached a bound.
    #[must_use]
    pub fn is_sync_due(&self) -> bool {
        self.given.bytes >= self.most.bytes || self.given.requests >= self.most.requests
    }

    /// Returns the amount written since the last sync, and resets it. Pages of a failed sync are
    /// counted when they are written again.
    #[must_use]
    pub fn begin_sync(&mut self) -> Amount {
        std::mem::take(&mut self.given)
    }

    /// Adapts the bounds to a sync of `given` that took `took`. `stall` is the time limit.
    pub fn learn(&mut self, given: Amount, took: Duration, stall: Duration) {
        let target = stall / PART;
        if took <= target {
            self.slow = None;
            if took < target / 4 * 3 {
                self.most.grow(given);
            }
            return;
        }
        match self.slow {
            // The duration does not depend on the amount.
            Some(before) if took > before / 4 * 3 && took < before / 4 * 5 => {
                if took < stall / 8 * 3 {
                    self.most.grow(given);
                }
            }
            _ => {
                self.slow = Some(took);
                self.most
                    .shrink(given, target.as_secs_f64() / took.as_secs_f64());
            }
        }
    }
}

impl Amount {
    /// Doubles a bound if `given` is at least half of it.
    fn grow(&mut self, given: Self) {
        let grow = |most: &mut u64, given: u64| {
            if given >= *most / 2 {
                *most = (*most).max(given).saturating_mul(2);
            }
        };
        grow(&mut self.bytes, given.bytes);
        grow(&mut self.requests, given.requests);
    }

    /// Lowers a bound to the fraction `part` of `given`. If `given` is less than half of the bound,
    /// does not lower it below the bound of a new file.
    fn shrink(&mut self, given: Self, part: f64) {
        let shrink = |most: &mut u64, given: u64, first: u64| {
            let least = if given >= *most / 2 {
                1
            } else {
                first.min(*most)
            };
            // Approximate: `given` may be too large for an exact f64, and the product is truncated.
            *most = ((given as f64 * part) as u64).clamp(least, *most);
        };
        shrink(&mut self.bytes, given.bytes, FIRST.bytes);
        shrink(&mut self.requests, given.requests, FIRST.requests);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Duration = Duration::from_millis(900);

    /// Gives `pace` requests of `len` bytes until a sync is due, on a backend that makes `speed`
    /// bytes and requests durable per second.
    fn sync(pace: &mut Pace, len: u64, speed: (u64, u64)) -> (Amount, Duration) {
        sync_after(pace, len, speed, Duration::ZERO)
    }

    /// As `sync`, for a backend on which every sync takes `fixed` longer.
    fn sync_after(
        pace: &mut Pace,
        len: u64,
        (bytes, requests): (u64, u64),
        fixed: Duration,
    ) -> (Amount, Duration) {
        while !pace.is_sync_due() {
            pace.note_request(len);
        }
        let given = pace.begin_sync();
        assert!(!pace.is_sync_due());
        let seconds =
            (given.bytes as f64 / bytes as f64).max(given.requests as f64 / requests as f64);
        let took = fixed + Duration::from_secs_f64(seconds);
        pace.learn(given, took, STALL);
        (given, took)
    }

    #[test]
    fn no_sync_takes_long_on_a_slow_storage_and_none_is_tiny() {
        for len in [4096, 1 << 20] {
            for speed in [(20 << 20, u64::MAX), (2 << 20, u64::MAX), (u64::MAX, 200)] {
                let mut pace = Pace::default();
                let times: Vec<_> = (0..100).map(|_| sync(&mut pace, len, speed).1).collect();
                assert!(
                    times.iter().all(|time| *time < STALL),
                    "{speed:?}: {times:?}"
                );
                let long = |time: &Duration| *time >= STALL / 10;
                assert!(times[20..].iter().all(long), "{speed:?}: {times:?}");
            }
        }
    }

    #[test]
    fn a_fast_storage_is_soon_synced_by_its_own_needs_only() {
        let mut pace = Pace::default();
        let fast = (4 << 30, 1 << 20);
        let nr = (0..).find(|_| sync(&mut pace, 1 << 20, fast).0.bytes > 256 << 20);
        assert!(nr.unwrap() < 12, "{nr:?}");
    }

    #[test]
    fn a_storage_that_becomes_slower_is_synced_in_time_after_one_sync() {
        let mut pace = Pace::default();
        let disk = (100 << 20, 100);
        for _ in 0..20 {
            sync(&mut pace, 1 << 20, disk);
        }
        let (_, took) = sync(&mut pace, 4096, disk);
        assert!(took < STALL, "{took:?}");
        sync(&mut pace, 1 << 20, (5 << 20, 100));
        let (_, took) = sync(&mut pace, 1 << 20, (5 << 20, 100));
        assert!(took < STALL, "{took:?}");
    }

    /// Regression test: with journal commits of 0.3 s, the bounds fell to a page per sync.
    #[test]
    fn a_storage_whose_every_sync_takes_long_is_not_given_ever_less() {
        for (fixed, least) in [
            (100, 4 << 20),
            (300, 1 << 20),
            (400, 64 << 10),
            (600, 16 << 10),
        ] {
            for len in [4096, 1 << 20] {
                let mut pace = Pace::default();
                let syncs: Vec<_> = (0..100)
                    .map(|_| {
                        let fixed = Duration::from_millis(fixed);
                        sync_after(&mut pace, len, (50 << 20, 20_000), fixed)
                    })
                    .collect();
                assert!(syncs.iter().all(|(_, took)| *took < STALL), "{syncs:?}");
                let given = syncs[20..].iter().map(|(given, _)| given.bytes);
                let mean = given.sum::<u64>() / 80;
                assert!(mean >= least, "{fixed} ms, requests of {len} bytes: {mean}");
            }
        }
    }

    #[test]
    fn a_sync_of_little_says_nothing_of_much() {
        let mut pace = Pace::default();
        for _ in 0..100 {
            pace.note_request(4096);
            let given = pace.begin_sync();
            pace.learn(given, Duration::from_micros(1), STALL);
        }
        assert_eq!(pace.most, FIRST);
        pace.note_request(1);
        let given = pace.begin_sync();
        pace.learn(given, Duration::from_secs(3600), STALL);
        assert_eq!(pace.most, FIRST);
        for (took, stall) in [(3600, STALL), (0, STALL), (3600, Duration::ZERO)] {
            pace.learn(Amount::default(), Duration::from_secs(took), stall);
        }
        assert_eq!(pace.most, FIRST);
    }
}
