//! How many frames are not clean, in all files of a cache and in each; the limit of both.
//!
//! # Shares of the limit
//!
//! All files together may have so many frames that are not clean (*the limit*). One file may have as many as the limit leaves
//! free, so a file alone gets half of it, and the other half stays for others; a second one gets a half of that. A file that cannot
//! be cleaned (its storage hangs, its hook blocks or refuses) keeps its share, and no other file comes to a stop: what is
//! free is divided among the rest.
//!
//! Source: dynamic thresholds (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998),
//! with a factor of 1. Beyond the limit there is a ceiling, three quarters of the cache. Up to there each file may have a few
//! frames (*the least*: a sixteenth of what is left), whatever the others have, and in any case one page.
//!
//! A write that makes a page dirty at its file's share waits until pages of *that file* were made clean; a page that is not clean
//! already may be written to at any time. From half of the share on the threads of the cache make the file's pages clean, so that
//! writers do not reach it.
//!
//! A number goes up before the page is dirty, and writers look before they dirty a page. So each thread may exceed a share by the
//! pages that it dirties at once.

use std::sync::Arc;
use std::time::Duration;

use pagewell_sync::atomic::{AtomicUsize, Ordering};
use pagewell_sync::shard::Padded;
#[cfg(not(loom))]
use pagewell_sync::time::Instant;

use crate::dirty::calls::Calls;

/// Settings of a cache's write-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// How many frames of all files may be not clean.
    pub(crate) nr_frames: usize,
    /// How many at the most, if there are many files: see [`Pressure`].
    pub(crate) ceiling: usize,
    /// How long a page is not durable at most, if the storage works.
    pub(crate) age: Duration,
    /// How long a writer at its file's share waits for a call that does not return.
    pub(crate) stall: Duration,
    /// How long a last close that fails is tried again.
    pub(crate) close: Duration,
}

impl Limits {
    /// The age at which the kernel writes dirty pages back (`dirty_expire_centisecs`).
    pub(crate) const AGE: Duration = Duration::from_secs(30);

    /// The answer of a writer comes within a second.
    pub(crate) const STALL: Duration = Duration::from_millis(900);

    /// Long enough for what an interrupted call, or a server that restarts its connection, takes.
    pub(crate) const CLOSE: Duration = Duration::from_secs(1);

    /// The defaults for a cache of `nr_frames` frames: half of them may be not clean.
    pub(crate) fn of_cache(nr_frames: usize) -> Self {
        Self {
            nr_frames: (nr_frames / 2).max(1),
            ceiling: nr_frames - nr_frames / 4,
            age: Self::AGE,
            stall: Self::STALL,
            close: Self::CLOSE,
        }
    }

    /// How many frames a file may have that are not clean if no other file has any.
    pub(crate) fn of_one_file(&self) -> usize {
        (self.nr_frames / 2).max(1)
    }
}

/// The part of what is left up to the ceiling that a file may use whatever others have: one of so many.
const LEAST: usize = 16;

/// What writers of all files share.
#[derive(Debug)]
pub(crate) struct Pressure {
    pub(crate) limits: Limits,
    /// How many frames are not clean, in all files.
    nr_unclean: Padded<AtomicUsize>,
    /// How many have become clean so far.
    nr_cleaned: Padded<AtomicUsize>,
    /// For the threads of the cache.
    pub(crate) calls: Arc<Calls>,
    /// For writers, and others who want frames: something has become clean, or a call has returned.
    #[cfg(not(loom))]
    pub(crate) changed: Padded<Changed>,
}

/// How many frames of one file are not clean.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Share {
    nr: AtomicUsize,
    /// How many have become clean so far.
    nr_cleaned: AtomicUsize,
}

impl Pressure {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            nr_unclean: Padded::default(),
            nr_cleaned: Padded::default(),
            calls: Arc::default(),
            #[cfg(not(loom))]
            changed: Padded::default(),
        }
    }

    /// How many frames of all files are not clean.
    pub(crate) fn nr_unclean(&self) -> usize {
        // ORDERING: Relaxed, here and below; the numbers set limits, and guard nothing.
        self.nr_unclean.load(Ordering::Relaxed)
    }

    /// How many frames have become clean so far, in all files.
    pub(crate) fn nr_cleaned(&self) -> usize {
        self.nr_cleaned.load(Ordering::Relaxed)
    }

    /// Counts `nr` frames of a file more; how many it had.
    pub(crate) fn add(&self, share: &Share, nr: usize) -> usize {
        self.nr_unclean.fetch_add(nr, Ordering::Relaxed);
        share.nr.fetch_add(nr, Ordering::Relaxed)
    }

    /// Counts `nr` frames of a file no more.
    pub(crate) fn sub(&self, share: &Share, nr: usize) {
        self.nr_unclean.fetch_sub(nr, Ordering::Relaxed);
        share.nr.fetch_sub(nr, Ordering::Relaxed);
        self.nr_cleaned.fetch_add(nr, Ordering::Relaxed);
        share.nr_cleaned.fetch_add(nr, Ordering::Relaxed);
    }

    /// The maximum number of frames of one file that are not clean.
    fn most(&self) -> usize {
        let nr_unclean = self.nr_unclean();
        let free = self.limits.nr_frames.saturating_sub(nr_unclean);
        let least = self.limits.ceiling.saturating_sub(nr_unclean) / LEAST;
        free.max(least).max(1)
    }

    /// Whether a file has its share: no more of its pages may be made dirty.
    pub(crate) fn is_over(&self, share: &Share) -> bool {
        share.nr() >= self.most()
    }

    /// Whether the threads of the cache are to make pages of the file clean.
    pub(crate) fn is_high(&self, share: &Share) -> bool {
        2 * share.nr() >= self.most()
    }
}

impl Share {
    pub(crate) fn nr(&self) -> usize {
        self.nr.load(Ordering::Relaxed)
    }

    /// How many have become clean so far.
    pub(crate) fn nr_cleaned(&self) -> usize {
        self.nr_cleaned.load(Ordering::Relaxed)
    }
}

/// Told of each change for which somebody may wait at a limit.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub(crate) struct Changed {
    nr_waiters: AtomicUsize,
    lock: pagewell_sync::Mutex<()>,
    told: pagewell_sync::Condvar,
}

/// A thread that waits for a change.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct Waiter<'c>(&'c Changed);

#[cfg(not(loom))]
impl Changed {
    /// Counts a waiter. It looks at what it waits for only after this.
    pub(crate) fn waiter(&self) -> Waiter<'_> {
        // ORDERING: Relaxed. What the waiter looks at is guarded by locks of its own: if it has not seen a change, its look
        // came before the change under that lock, so the count is seen by who tells of the change after it. A change that is
        // not so guarded may be missed; no wait is longer than its bound.
        self.nr_waiters.fetch_add(1, Ordering::Relaxed);
        Waiter(self)
    }

    /// Wakes the waiters.
    pub(crate) fn tell(&self) {
        // ORDERING: Relaxed; see `waiter`.
        if self.nr_waiters.load(Ordering::Relaxed) != 0 {
            drop(pagewell_sync::lock(&self.lock));
            self.told.notify_all();
        }
    }
}

#[cfg(not(loom))]
impl Waiter<'_> {
    /// Sleeps until a change is told that `look` wants, or it says that it need not wait any more (none). What `look` answers is
    /// how long to sleep at most before it looks again.
    pub(crate) fn wait(&self, mut look: impl FnMut() -> Option<Duration>) {
        let changed = self.0;
        let mut guard = pagewell_sync::lock(&changed.lock);
        while let Some(most) = look() {
            let waited = changed.told.wait_timeout(guard, most);
            (guard, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}

#[cfg(not(loom))]
impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        // ORDERING: Relaxed; see `Changed::waiter`.
        self.0.nr_waiters.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Since when a file has pages that are not clean.
#[derive(Debug, Default)]
pub(crate) struct Since {
    #[cfg(not(loom))]
    at: pagewell_sync::Mutex<Option<Instant>>,
}

#[cfg(loom)]
impl Since {
    pub(crate) fn begin(&self) {}
}

#[cfg(not(loom))]
impl Since {
    /// The first page has become dirty.
    pub(crate) fn begin(&self) {
        *self.lock() = Some(Instant::now());
    }

    /// Everything that was written before `at` is durable.
    pub(crate) fn renew(&self, at: Instant) {
        *self.lock() = Some(at);
    }

    /// Whether it is longer ago than `age`.
    pub(crate) fn is_before(&self, age: Duration) -> bool {
        self.lock().is_some_and(|at| at.elapsed() >= age)
    }

    fn lock(&self) -> pagewell_sync::MutexGuard<'_, Option<Instant>> {
        pagewell_sync::lock(&self.at)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn pressure(nr_frames: usize) -> Pressure {
        Pressure::new(Limits::of_cache(nr_frames))
    }

    /// Adds frames one by one until the share is full.
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
        // The first is cleaned, and may have what is free now.
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
