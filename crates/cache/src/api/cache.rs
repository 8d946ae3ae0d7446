//! Cache, and guard of a cache without background work of flushers ([`Quiet`]).
//!
//! # Quiet cache
//!
//! Place. A program that examines a whole cache, to count its frames or to
//! [`verify`](Cache::verify) it, holds a [`Quiet`], and keeps its own threads from using the cache.
//!
//! Protocol. Between requests a flusher holds no reference, and only free frames in its thread
//! cache. So once requests are stopped ([`crate::files::flushers`]) and those in progress have
//! ended, no flusher uses the cache. The holder then closes the files that were left to flushers.
//!
//! Locks. The quiet lock (`Rounds`) is acquired without any other lock of the cache, and never in a
//! callback or a codec. The holder waits for flushers, so no flusher that serves a request may
//! acquire it, not even in a call of a backend; `are_held_here` detects this.

use std::fmt;
use std::sync::Arc;

use pagewell_frame::refcount::{RefScheme, Scheme};
use pagewell_io::engine::{Chosen, Limits, Reason};
use pagewell_sync::lock;

use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page::PageSize;
use crate::dirty::hook::InHook;
use crate::files::flushers::Held;
use crate::files::serve::close_left;
use crate::files::state::{Companion, Files};
use crate::spaces::frames::CacheFrames;
use crate::supply::parts::Event;
use crate::supply::reclaim::reclaimer::Reclaimer;

/// Page cache: a fixed amount of memory that holds pages of any number of files.
///
/// Handles are cheap to clone. The cache exists as long as any handle of it or of its files.
///
/// # Threads and signals
///
/// A cache has threads of its own, for writeback and concurrent transfers, with all signals blocked
/// but those of faults (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS). So signal handlers run
/// in the program's threads, and a signal that these have blocked stays pending. Callbacks, page
/// codecs, wakers and backends may be called in threads of the cache; a child process started there
/// inherits the blocked signals. SIGPROF of a timer interrupts the program's threads only.
///
/// # Limits of the process
///
/// - Descriptors: one for each open file, and, if the file is open for writing, another for its
///   directory until the first sync. The io_uring engine uses two descriptors, and one for each
///   thread that waits for a batch of transfers; up to 16 of the latter stay open.
/// - Addresses: a file that is open for writing reserves 2.13 GiB (pages of 4 KiB) for its index,
///   to grow by 1 TiB, and 8.5 bytes for each page of four times its size; less with larger pages.
///   A file that is open for reading reserves 8 bytes for each page of four times its size plus 64
///   MiB. Under RLIMIT_AS or RLIMIT_DATA, a file reserves at most 1/32 of the limit for growth, and
///   less if the system refuses the addresses. It may then grow by less while it is open, but at
///   least by 64 MiB. After `mlockall(MCL_FUTURE)` these addresses are not locked, but the memory
///   of the capacity is. A later `mlockall(MCL_CURRENT)` locks and fills all of them, unless it is
///   called with `MCL_ONFAULT`. Without privilege, RLIMIT_MEMLOCK limits each reservation.
/// - Sizes of files (RLIMIT_FSIZE): a write that extends a file past the limit fails, and so does a
///   sync that writes past it. A thread of the program that writes back in a sync then gets
///   SIGXFSZ, as for `write(2)`; threads of the cache have it blocked.
/// - Stack: the creation of a cache needs 32 KiB, an open or a close of a file 16 KiB, any other
///   call 12 KiB (80 KiB without optimization), plus that of the program's callbacks and backends.
#[derive(Clone)]
pub struct Cache {
    pub(super) files: Arc<Files>,
    pub(super) page_size: PageSize,
}

/// Statistics of a cache. Hits are not counted, since a count would make each hit write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Number of frames of the cache.
    pub nr_frames: usize,
    /// Number of free frames, including those of closed files; 0 in a child made by `fork`.
    pub nr_free: usize,
    /// Number of pages read from files.
    pub nr_fills: u64,
    /// Number of failed reads from files.
    pub nr_failed_fills: u64,
    /// Number of pages evicted for other pages or by [`reclaim`](Cache::reclaim).
    pub nr_evictions: u64,
    /// Number of frames with bytes that are not known to be durable.
    pub nr_unclean: usize,
}

/// Engine of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info {
    /// Name of the engine for concurrent transfers: `uring`, `worker` or `sync`.
    pub engine: &'static str,
    /// Reason for this engine.
    pub engine_reason: Reason,
    /// Limits of the engine's concurrency.
    pub engine_limits: Limits,
}

impl Cache {
    pub(super) fn new(files: Arc<Files>, page_size: PageSize) -> Self {
        Self { files, page_size }
    }

    pub(crate) fn files(&self) -> &Arc<Files> {
        &self.files
    }

    /// Returns the frames of this cache, for users that share them.
    pub fn frames(&self) -> CacheFrames {
        CacheFrames::new(Arc::clone(&self.files))
    }

    /// Evicts up to `nr_pages` pages that are neither pinned nor dirty nor unsynced. Returns the
    /// number of evicted pages. Recently accessed pages are evicted last.
    pub fn reclaim(&self, nr_pages: usize) -> usize {
        if !self.files.shared.home.is_here() {
            return 0;
        }
        Reclaimer(self.files.supply()).evict_pages(nr_pages)
    }

    /// Returns the statistics of the cache.
    pub fn stats(&self) -> Stats {
        let nr_free = if self.files.shared.home.is_here() {
            self.files.supply().pool().stats().nr_available()
        } else {
            0
        };
        let counters = &self.files.supply().counters;
        Stats {
            nr_frames: self.files.supply().pool().nr_frames(),
            nr_free,
            nr_fills: counters.get(Event::Fill),
            nr_failed_fills: counters.get(Event::FailedFill),
            nr_evictions: counters.get(Event::Eviction),
            nr_unclean: self.files.shared.pressure.nr_unclean(),
        }
    }

    /// Returns the engine of the cache. Creates the engine if it was not used yet.
    pub fn info(&self) -> Info {
        let Chosen { engine, reason, .. } = self.files.engines.chosen();
        Info {
            engine: engine.name(),
            engine_reason: *reason,
            engine_limits: engine.limits(),
        }
    }

    /// Returns the number of memory nodes over which the cache is spread.
    pub fn nr_nodes(&self) -> usize {
        self.files.supply().pool().nr_nodes()
    }

    /// Checks the cache's frames, lists and counts, for tests. No other thread of the program may
    /// use the cache. If an open file has background writeback, the threads of the cache must be
    /// stopped too ([`quiesce`](Self::quiesce)).
    ///
    /// # Errors
    ///
    /// A sentence that describes the inconsistency.
    pub fn verify(&self) -> Result<(), String> {
        self.files
            .shared
            .home
            .check(Op::Build)
            .map_err(|error| error.to_string())?;
        self.files.supply().pool().verify()
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("scheme", &Scheme::NAME)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// Returns the companion of `cache`, which `make` creates from the cache's frames if there is none.
/// It exists as long as a caller keeps an `Arc` to it. Returns `None` if it is not a `T`.
///
/// `make` is called with the companion's lock held. It must use no part of the cache except the
/// frames; a nested call of this function would deadlock.
pub fn companion_or_else<T: Send + Sync + 'static>(
    cache: &Cache,
    make: impl FnOnce(CacheFrames) -> Arc<T>,
) -> Option<Arc<T>> {
    let mut companion = lock(&cache.files().companion);
    match companion.upgrade() {
        Some(known) => known.downcast().ok(),
        None => {
            let made = make(cache.frames());
            let known: Arc<Companion> = Arc::clone(&made) as _;
            *companion = Arc::downgrade(&known);
            Some(made)
        }
    }
}

/// Guard that keeps the threads of a cache from background work. Returned by [`Cache::quiesce`].
#[must_use = "the drop restarts the threads of the cache"]
pub struct Quiet<'c> {
    cache: &'c Cache,
    held: Option<Held<'c>>,
}

impl Cache {
    /// Waits, without a limit, until the flushers of the cache have finished their current calls,
    /// and stops them until the guard is dropped. Closes the files that were left to them.
    ///
    /// Call this before a call of [`stats`](Self::stats) that counts frames, or of
    /// [`verify`](Self::verify). While the guard exists, only the program's threads, and readahead
    /// and futures begun by them, change the cache. To close files, the call is needed only if
    /// their last handle was dropped in a page codec or a callback
    /// ([`OpenOptions::before_write`](crate::OpenOptions::before_write)).
    ///
    /// Until the guard is dropped, no file is written back in the background. A writer reaches its
    /// file's quota of dirty frames sooner, and then writes the file back itself. Another call of
    /// this function waits.
    ///
    /// # Errors
    ///
    /// - [`Deadlock`](ErrorKind::Deadlock) if this thread is in a callback or a page codec, has
    ///   another guard, or is in a call of a [`Backend`](pagewell_io::Backend) by the cache.
    /// - [`Forked`](ErrorKind::Forked).
    pub fn quiesce(&self) -> Result<Quiet<'_>, Error> {
        let files = self.files();
        files.shared.home.check(Op::Quiesce)?;
        if InHook::is_so() || files.flushers.are_held_here() {
            return Err(Error::new(ErrorKind::Deadlock, Op::Quiesce));
        }
        let quiet = Quiet {
            cache: self,
            held: Some(files.flushers.hold()),
        };
        // Writers that wait for flushers must now continue without them.
        files.shared.pressure.changed.tell();
        close_left(files);
        Ok(quiet)
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        if !self.cache.files().shared.home.is_here() {
            // In a fork, another thread of the parent may have held the locks.
            std::mem::forget(self.held.take());
        }
    }
}

impl fmt::Debug for Quiet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Quiet").field(self.cache).finish()
    }
}
