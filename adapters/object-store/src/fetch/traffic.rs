//! Limits of requests, and estimates of their duration.

use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, TryCurrentError};
use tokio::time::Instant;

use crate::error::{Shared, generic};
use crate::feature::Feature;
use crate::metrics::Counters;
use crate::permits::Permits;

/// Initial estimate: a store in the same region.
const FIRST: Pace = Pace {
    latency: 0.02,
    bytes_per_second: 50e6,
};

const WEIGHT: f64 = 0.2;

const MOST_GAP: u64 = 1 << 20;

/// Lower and upper bound of the maximum size of a request.
const MOST_BYTES: [u64; 2] = [1 << 20, 8 << 20];

#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) permits: Permits,
    pub(crate) counters: Arc<Counters>,
    pub(crate) hedge: bool,
    /// Maximum duration of a request for pages, and of all requests of an opening together.
    request_timeout: Duration,
    runtime: Option<Handle>,
    /// Heads, as checks of the state of an object.
    pub(crate) heads: Feature,
    /// Gets with the condition `If-Match`.
    pub(crate) tags: Feature,
    /// Gets of a version.
    pub(crate) versions: Feature,
    pace: Mutex<Pace>,
}

#[derive(Clone, Copy, Debug)]
struct Pace {
    latency: f64,
    bytes_per_second: f64,
}

tokio::task_local! {
    /// Remaining time for requests of the current opening.
    static REMAINING: Cell<Duration>;
}

impl Traffic {
    pub(crate) fn new(
        most: usize,
        hedge: bool,
        request_timeout: Duration,
        runtime: Option<Handle>,
    ) -> Self {
        Self {
            permits: Permits::new(most),
            counters: Arc::default(),
            hedge,
            request_timeout,
            runtime,
            heads: Feature::default(),
            tags: Feature::default(),
            versions: Feature::default(),
            pace: Mutex::new(FIRST),
        }
    }

    /// Returns the runtime that the user has set, or that of the caller.
    pub(crate) fn runtime(&self) -> Result<Handle, TryCurrentError> {
        self.runtime.clone().map_or_else(Handle::try_current, Ok)
    }

    /// Executes an opening, whose requests ([`timed`](Self::timed)) share the time of one request.
    pub(crate) async fn opening<F: Future>(&self, opening: F) -> F::Output {
        REMAINING
            .scope(Cell::new(self.request_timeout), opening)
            .await
    }

    /// Drives a request of an opening. When the time of the opening has passed, drops the request
    /// and fails. Requests after that fail without being polled.
    pub(crate) async fn timed<T>(
        &self,
        what: impl fmt::Display,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> object_store::Result<T> {
        let Ok(left) = REMAINING.try_with(Cell::get) else {
            return request.await;
        };
        let begun = Instant::now();
        let mut result = None;
        if !left.is_zero() {
            result = tokio::time::timeout(left, request).await.ok();
        }
        let left = match result {
            Some(_) => left.saturating_sub(begun.elapsed()),
            None => Duration::ZERO,
        };
        REMAINING.with(|cell| cell.set(left));
        result.unwrap_or_else(|| Err(generic(self.late_text(what))))
    }

    /// Executes optional requests of an opening, within a quarter of its remaining time.
    pub(crate) async fn optional<T>(
        &self,
        requests: impl Future<Output = object_store::Result<T>>,
    ) -> object_store::Result<T> {
        let Ok(left) = REMAINING.try_with(Cell::get) else {
            return requests.await;
        };
        let part = left / 4;
        let timed = async { (requests.await, REMAINING.with(Cell::get)) };
        let (result, rest) = REMAINING.scope(Cell::new(part), timed).await;
        REMAINING.with(|cell| cell.set(left.saturating_sub(part.saturating_sub(rest))));
        result
    }

    fn late_text(&self, what: impl fmt::Display) -> String {
        let limit = self.request_timeout;
        format!("{what}: the store took longer than {limit:?} (request_timeout)")
    }

    pub(crate) async fn limited<T>(
        &self,
        what: impl fmt::Display,
        request: impl Future<Output = Result<T, Shared>>,
    ) -> Result<T, Shared> {
        match tokio::time::timeout(self.request_timeout, request).await {
            Ok(result) => result,
            Err(_) => Err(Shared::timeout(self.late_text(what))),
        }
    }

    fn pace(&self) -> Pace {
        *self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request: time to the first bytes (`first`), from there to the last (`rest`), size.
    pub(crate) fn note(&self, first: Duration, rest: Duration, bytes: u64) {
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        pace.latency += WEIGHT * (first.as_secs_f64() - pace.latency);
        // Fewer bytes or a shorter time do not measure the throughput.
        if bytes >= 256 << 10 && rest >= Duration::from_micros(100) {
            let now = bytes as f64 / rest.as_secs_f64();
            pace.bytes_per_second += WEIGHT * (now - pace.bytes_per_second);
        }
    }

    /// Returns the maximum gap between two ranges that are requested together: the number of bytes
    /// that arrive in one latency, at most [`MOST_GAP`].
    pub(crate) fn gap(&self) -> u64 {
        let pace = self.pace();
        ((pace.latency * pace.bytes_per_second) as u64).min(MOST_GAP)
    }

    /// Returns the maximum size of a request: the number of bytes that arrive in four latencies,
    /// within [`MOST_BYTES`]. Above that, two concurrent requests are faster.
    pub(crate) fn most_bytes(&self) -> u64 {
        let pace = self.pace();
        let [least, most] = MOST_BYTES;
        ((4.0 * pace.latency * pace.bytes_per_second) as u64).clamp(least, most)
    }

    /// Returns the time after which a request without an answer may be sent again.
    pub(crate) fn late(&self) -> Duration {
        Duration::from_secs_f64((3.0 * self.pace().latency).max(0.005))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_and_sizes_follow_what_was_measured_within_bounds() {
        let traffic = Traffic::new(1, false, Duration::MAX, None);
        let near = Duration::from_micros(200);
        for _ in 0..50 {
            traffic.note(near, Duration::from_millis(1), 1 << 20);
        }
        // In 200 us, 200 KiB are received at 1 GiB per second.
        assert!(
            (150 << 10..250 << 10).contains(&traffic.gap()),
            "{}",
            traffic.gap()
        );
        assert_eq!(traffic.most_bytes(), MOST_BYTES[0]);
        assert!(traffic.late() >= Duration::from_millis(5));
        for _ in 0..50 {
            traffic.note(
                Duration::from_millis(50),
                Duration::from_millis(10),
                1 << 20,
            );
        }
        assert_eq!(traffic.gap(), MOST_GAP);
        assert_eq!(traffic.most_bytes(), MOST_BYTES[1]);
        let late = traffic.late();
        assert!(
            (Duration::from_millis(140)..=Duration::from_millis(151)).contains(&late),
            "{late:?}"
        );
    }
}
