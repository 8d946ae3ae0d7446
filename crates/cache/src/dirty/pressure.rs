//! Numbers and limits of frames that are not clean, of all files of a cache and of each file.
//!
//! # Quotas
//!
//! All files together have a *limit* of frames that are not clean. The quota of one file is the
//! number of frames that the limit still leaves free. So a single file can use half of the limit, a
//! second file half of the rest, and so on. A file that cannot be cleaned, because its backend
//! hangs or its callback blocks or fails, keeps its frames and stops no other file.
//!
//! Source: dynamic thresholds (Choudhury and Hahne, "Dynamic queue length thresholds for
//! shared-memory packet switches", 1998), with a factor of 1. Above the limit there is a *ceiling*
//! of three quarters of the cache. Whatever the other files use, each file has a minimum quota: a
//! sixteenth of the frames that are free below the ceiling, and always one page.
//!
//! At its file's quota, a write that would make a clean page dirty waits until pages of *that file*
//! are clean, or fails. A write to a page that is not clean is always allowed. From half of the
//! quota on, the flushers clean the file's pages.
//!
//! A count is incremented before the page is dirty, and writers check it before they make a page
//! dirty. So each thread may exceed a quota by the pages that it makes dirty in one operation.

use std::sync::Arc;
use std::time::Duration;

use pagewell_sync::atomic::{AtomicUsize, Ordering};
use pagewell_sync::scaled;
use pagewell_sync::shard::Padded;
use pagewell_sync::time::Instant;

use crate::dirty::calls::Calls;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Limit of frames that are not clean, in all files.
    pub(crate) nr_frames: usize,
    /// Upper bound of the frames that are not clean, if many files use their minimum quotas.
    pub(crate) ceiling: usize,
    /// Age of a file's oldest write that is not durable, at which the flushers sync the file.
    pub(crate) age: Duration,
    /// Time for which a writer at its file's quota waits for a call that does not return.
    pub(crate) stall: Duration,
    /// Time for which the last close of a file is retried if it fails.
    pub(crate) close: Duration,
}

impl Limits {
    /// Age at which the kernel writes dirty pages back (`dirty_expire_centisecs`).
    pub(crate) const AGE: Duration = Duration::from_secs(30);

    /// Less than a second: a writer gets its error within a second if a call does not return.
    pub(crate) const STALL: Duration = Duration::from_millis(900);

    /// Time for which a failed close is retried: long enough for an interrupted call, or for a
    /// server that restarts its connection.
    pub(crate) const CLOSE: Duration = scaled(Duration::from_secs(1), Duration::ZERO);

    pub(crate) fn of_cache(nr_frames: usize) -> Self {
        Self {
            nr_frames: (nr_frames / 2).max(1),
            ceiling: nr_frames - nr_frames / 4,
            age: Self::AGE,
            stall: Self::STALL,
            close: Self::CLOSE,
        }
    }

    pub(crate) fn of_one_file(&self) -> usize {
        (self.nr_frames / 2).max(1)
    }
}

/// Divisor: the minimum quota is this part of the frames that are free below the ceiling.
const LEAST: usize = 16;

#[derive(Debug)]
pub(crate) struct Pressure {
    pub(crate) limits: Limits,
    nr_unclean: Padded<AtomicUsize>,
    nr_cleaned: Padded<AtomicUsize>,
    pub(crate) calls: Arc<Calls>,
    /// Notified after a call that may have made frames clean, and at the end of an attempt.
    pub(crate) changed: Padded<Changed>,
}

#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Share {
    nr: AtomicUsize,
    nr_cleaned: AtomicUsize,
}

impl Pressure {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            nr_unclean: Padded::default(),
            nr_cleaned: Padded::default(),
            calls: Arc::default(),
            changed: Padded::default(),
        }
    }

    pub(crate) fn nr_unclean(&self) -> usize {
        // ORDERING: Relaxed, here and below; the numbers guard no data.
        self.nr_unclean.load(Ordering::Relaxed)
    }

    pub(crate) fn nr_cleaned(&self) -> usize {
        self.nr_cleaned.load(Ordering::Relaxed)
    }

    /// Returns the previous count of the file.
    pub(crate) fn add(&self, share: &Share, nr: usize) -> usize {
        self.nr_unclean.fetch_add(nr, Ordering::Relaxed);
        share.nr.fetch_add(nr, Ordering::Relaxed)
    }

    pub(crate) fn sub(&self, share: &Share, nr: usize) {
        self.nr_unclean.fetch_sub(nr, Ordering::Relaxed);
        share.nr.fetch_sub(nr, Ordering::Relaxed);
        self.nr_cleaned.fetch_add(nr, Ordering::Relaxed);
        share.nr_cleaned.fetch_add(nr, Ordering::Relaxed);
    }

    /// Returns the quota of a file, in frames.
    fn most(&self) -> usize {
        let nr_unclean = self.nr_unclean();
        let free = self.limits.nr_frames.saturating_sub(nr_unclean);
        let least = self.limits.ceiling.saturating_sub(nr_unclean) / LEAST;
        free.max(least).max(1)
    }

    pub(crate) fn is_over(&self, share: &Share) -> bool {
        share.nr() >= self.most()
    }

    pub(crate) fn is_high(&self, share: &Share) -> bool {
        2 * share.nr() >= self.most()
    }
}

impl Share {
    pub(crate) fn nr(&self) -> usize {
        self.nr.load(Ordering::Relaxed)
    }

    pub(crate) fn nr_cleaned(&self) -> usize {
        self.nr_cleaned.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Changed {
    nr_waiters: AtomicUsize,
    lock: pagewell_sync::Mutex<()>,
    told: pagewell_sync::Condvar,
}

#[derive(Debug)]
pub(crate) struct Waiter<'c>(&'c Changed);

impl Changed {
    /// The waiter must check its condition only after this call.
    pub(crate) fn waiter(&self) -> Waiter<'_> {
        // ORDERING: Relaxed. Locks guard the state that the waiter checks. If the check did not see
        // a change, it held the lock before the change was made, so the thread that notifies after
        // the change sees the count of waiters. The notification of a change without such a lock
        // may be missed, but every wait has a time limit.
        self.nr_waiters.fetch_add(1, Ordering::Relaxed);
        Waiter(self)
    }

    pub(crate) fn tell(&self) {
        // ORDERING: Relaxed; see `waiter`.
        if self.nr_waiters.load(Ordering::Relaxed) != 0 {
            drop(pagewell_sync::lock(&self.lock));
            self.told.notify_all();
        }
    }
}

impl Waiter<'_> {
    /// Calls `look` now, after each notification, and after the time that `look` returned, until
    /// `look` returns `None`.
    pub(crate) fn wait(&self, mut look: impl FnMut() -> Option<Duration>) {
        let changed = self.0;
        let mut guard = pagewell_sync::lock(&changed.lock);
        while let Some(most) = look() {
            let waited = changed.told.wait_timeout(guard, most);
            (guard, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        // ORDERING: Relaxed; see `Changed::waiter`.
        self.0.nr_waiters.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Since {
    at: pagewell_sync::RecordMutex<Option<Instant>>,
}

impl Since {
    pub(crate) fn begin(&self) {
        *self.lock() = Some(Instant::now());
    }

    /// Records that everything written before `at` is durable.
    pub(crate) fn renew(&self, at: Instant) {
        *self.lock() = Some(at);
    }

    pub(crate) fn is_before(&self, age: Duration) -> bool {
        self.lock().is_some_and(|at| at.elapsed() >= age)
    }

    fn lock(&self) -> pagewell_sync::RecordGuard<'_, Option<Instant>> {
        pagewell_sync::lock_record(&self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressure(nr_frames: usize) -> Pressure {
        Pressure::new(Limits::of_cache(nr_frames))
    }

    fn fill(pressure: &Pressure, share: &Share) -> usize {
        while !pressure.is_over(share) {
            pressure.add(share, 1);
        }
        share.nr()
    }

    #[test]
    fn each_file_gets_half_of_what_the_others_leave() {
        let pressure = pressure(1024);
        let files: [Share; 4] = Default::default();
        assert_eq!(
            files.each_ref().map(|file| fill(&pressure, file)),
            [256, 128, 64, 32]
        );
        pressure.sub(&files[0], 256);
        assert_eq!(fill(&pressure, &files[0]), 144);
        assert!(pressure.nr_unclean() < 512);
    }

    #[test]
    fn a_file_may_have_a_few_frames_whatever_others_have_up_to_a_ceiling() {
        let pressure = pressure(1024);
        let files: Vec<Share> = (0..64).map(|_| Share::default()).collect();
        for file in &files {
            assert!(fill(&pressure, file) >= 1);
        }
        assert!(files[9].nr() > 8, "{}", files[9].nr());
        assert!(pressure.nr_unclean() < 768 + files.len());
        let pressure = self::pressure(1);
        let (one, two) = (Share::default(), Share::default());
        assert_eq!([fill(&pressure, &one), fill(&pressure, &two)], [1, 1]);
    }

    #[test]
    fn the_threads_of_the_cache_begin_at_half_of_a_share() {
        let pressure = pressure(1024);
        let file = Share::default();
        while !pressure.is_high(&file) {
            pressure.add(&file, 1);
        }
        assert_eq!(file.nr(), 171);
    }
}
