//! Who writes back, and when: writers that have made too much dirty, and a thread of the cache.
//!
//! At most half of the frames may hold bytes that the storage is not known to have. A writer that would exceed
//! that makes pages clean first, of its own file or of others: their pages are given to the storage, and made
//! durable, since only then they can be evicted. Before it comes to that, a thread of the cache gives dirty pages
//! to the storage, five times a second; and when a quarter of the frames are not clean it is woken, and makes pages
//! durable. So while the storage is at work on one quarter, writers fill the next.
//!
//! Both go through the open files, and *visit* them one at a time ([`crate::opened`]): they keep no file open that the
//! program has closed.

use std::cell::Cell;
use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::Weak;
use std::time::{Duration, Instant};

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::atomic::{AtomicUsize, Ordering};
use pagewell_sync::{Mutex, MutexGuard, lock};

use crate::error::{Error, ErrorKind, Op};
use crate::flush::Sync;
#[cfg(not(loom))]
use crate::index::PageNr;
use crate::mapping::Mapping;
use crate::opened::Opened;
use crate::shared::Shared;
use crate::writes::{Storage, Writeback, Writes};

/// How often the thread of the cache looks for dirty pages.
const INTERVAL: Duration = Duration::from_millis(200);

/// How long writers go on without asking a storage again that has failed.
const PAUSE: Duration = Duration::from_millis(100);

/// What the thread of the cache sleeps by. It is shared with the thread, which does not keep the cache.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    has_rung: std::sync::Mutex<bool>,
    rings: std::sync::Condvar,
}

impl Bell {
    /// Wakes the thread, or keeps it from going to sleep. Claims may be held: nobody waits for anything with the lock.
    #[cold]
    pub(crate) fn ring(&self) {
        // In a model there is no thread.
        if !cfg!(loom) {
            *self.lock() = true;
            self.rings.notify_one();
        }
    }

    /// Sleeps until somebody rings, or has rung since the last time, or an interval is over.
    #[cfg(not(loom))]
    fn wait(&self) {
        let waited = self
            .rings
            .wait_timeout_while(self.lock(), INTERVAL, |has_rung| !*has_rung);
        let (mut has_rung, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        *has_rung = false;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, bool> {
        self.has_rung
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// When the storage of some file has failed last while writers were throttled.
#[derive(Debug, Default)]
pub(crate) struct LastFailure(Mutex<Option<Instant>>);

impl LastFailure {
    fn note(&self) {
        // A model has no time.
        if !cfg!(loom) {
            *lock(&self.0) = Some(Instant::now());
        }
    }

    fn is_recent(&self) -> bool {
        lock(&self.0).is_some_and(|at| at.elapsed() < PAUSE)
    }
}

thread_local! {
    /// In how many hooks this thread is. It has no destructor, so it is there as long as the thread is: files may be closed
    /// by the destructors of the thread's other variables.
    static NR_HOOKS: Cell<usize> = const { Cell::new(0) };
}

/// Which thread has a lock, as far as that thread wants to know it: by an address that no other thread has which lives; 0 if
/// there is none.
#[derive(Debug, Default)]
pub(crate) struct ThreadMark(AtomicUsize);

impl ThreadMark {
    fn this_thread() -> usize {
        NR_HOOKS.with(|nr| std::ptr::from_ref(nr).addr())
    }

    /// This thread has taken the lock.
    fn set(&self) {
        // ORDERING: Relaxed; see `is_set`.
        self.0.store(Self::this_thread(), Ordering::Relaxed);
    }

    /// This thread is about to let go of the lock.
    fn clear(&self) {
        // ORDERING: Relaxed; see `is_set`.
        self.0.store(0, Ordering::Relaxed);
    }

    /// Whether this thread has the lock.
    fn is_set(&self) -> bool {
        // ORDERING: Relaxed; nobody but a thread itself stores what tells it, so by coherence it finds that if it has the
        // lock, and cannot once it has cleared it. A thread that has got the address of one that has ended comes after it.
        self.0.load(Ordering::Relaxed) == Self::this_thread()
    }
}

/// Held in each round of the thread that writes back, and by who keeps it from beginning one.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    lock: Mutex<()>,
    holder: ThreadMark,
}

/// [`Rounds`], held.
#[must_use]
pub(crate) struct Round<'r> {
    holder: &'r ThreadMark,
    _lock: MutexGuard<'r, ()>,
}

impl Rounds {
    /// Waits until no round is under way, and keeps the next one from beginning.
    pub(crate) fn hold(&self) -> Round<'_> {
        let round = Round {
            _lock: lock(&self.lock),
            holder: &self.holder,
        };
        self.holder.set();
        round
    }

    /// Whether this thread holds them: it is in a round, or keeps others from it.
    pub(crate) fn is_held_here(&self) -> bool {
        self.holder.is_set()
    }
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        self.holder.clear();
    }
}

/// This thread is in a hook of the program: it holds the writeback lock of a file, so what it writes to other files
/// must not make it write back that one.
pub(crate) struct InHook<'w>(&'w Writes);

impl<'w> InHook<'w> {
    /// The file's writeback lock is held, so one thread at a time is in its hook.
    pub(crate) fn enter(writes: &'w Writes) -> Self {
        NR_HOOKS.set(NR_HOOKS.get() + 1);
        writes.in_hook.set();
        Self(writes)
    }

    pub(crate) fn is_so() -> bool {
        NR_HOOKS.get() != 0
    }

    /// Whether this thread is in a hook of the file: then it holds the file's writeback lock.
    fn is_of(writes: &Writes) -> bool {
        Self::is_so() && writes.in_hook.is_set()
    }
}

impl Drop for InHook<'_> {
    fn drop(&mut self) {
        self.0.in_hook.clear();
        NR_HOOKS.set(NR_HOOKS.get() - 1);
    }
}

impl<S: RefScheme> Mapping<S> {
    /// Takes the file's writeback lock.
    ///
    /// # Errors
    ///
    /// If this thread holds it, because it is in a hook of the file.
    pub(crate) fn lock_storage<'w>(
        &self,
        writes: &'w Writes,
        op: Op,
    ) -> Result<MutexGuard<'w, Storage>, Error> {
        self.check_no_hook(writes, op)?;
        Ok(lock(&writes.writeback))
    }

    /// Takes the lock of the file's size, which comes before the writeback lock.
    ///
    /// # Errors
    ///
    /// If this thread is in a hook of the file: who has the lock of the size may be waiting for it.
    pub(crate) fn lock_size(&self, writes: &Writes, op: Op) -> Result<MutexGuard<'_, ()>, Error> {
        self.check_no_hook(writes, op)?;
        Ok(lock(self.resize_lock()))
    }

    fn check_no_hook(&self, writes: &Writes, op: Op) -> Result<(), Error> {
        if InHook::is_of(writes) {
            return Err(self.error(ErrorKind::Deadlock, op));
        }
        Ok(())
    }
}

impl<S: RefScheme> Shared<S> {
    /// Counts frames that are not clean any more.
    pub(crate) fn count_unclean(&self, nr_frames: usize) {
        if self.unclean.add(nr_frames) {
            self.bell.ring();
        }
    }

    /// Makes pages clean until fewer than the limit are not, as far as the storage lets it. Errors are told by the
    /// files' next syncs, and keep other writers from asking for a while: they go on, as far as there are frames. No lock of any file is held.
    #[cold]
    pub(crate) fn make_clean(&self) {
        if InHook::is_so() || self.last_failure.is_recent() {
            return;
        }
        // The error is kept for the handles of the file.
        if self.make_clean_until(|| !self.unclean.is_over()).is_some() {
            self.last_failure.note();
        }
    }

    /// Makes all pages clean of files that are written back in the background, for who has failed for lack of
    /// frames. No lock of any file is held.
    ///
    /// # Errors
    ///
    /// If there are no fewer than before that are not clean: `error`, and what the storage says if that is why.
    #[cold]
    pub(crate) fn make_room(&self, error: Error) -> Result<(), Error> {
        let before = self.unclean.nr();
        if error.kind() != ErrorKind::OutOfFrames || before == 0 || InHook::is_so() {
            return Err(error);
        }
        let why = self.make_clean_until(|| false);
        if self.unclean.nr() < before {
            return Ok(());
        }
        Err(match why {
            Some(why) => error.with_source(why),
            None => error,
        })
    }

    /// Makes pages clean; the first error, of which the handles of the file are told too.
    fn make_clean_until(&self, is_enough: impl Fn() -> bool) -> Option<Error> {
        let mut first_error = None;
        for number in self.numbers() {
            // One at a time: who closes a file waits for nobody who is at work on another one.
            if !is_enough()
                && let Some(mapping) = self.visit(number)
                && is_background(&mapping)
                && let Err(error) = mapping.sync_unless(Sync::Data, &is_enough)
            {
                first_error.get_or_insert(error);
            }
        }
        first_error
    }

    /// Drops the shares of files that were left to the thread of the cache ([`close_later`]).
    #[cfg(not(loom))]
    pub(crate) fn close_left(&self) {
        // One by one: if a backend panics, the others are still to be closed.
        loop {
            let share = lock(&self.to_close).pop();
            let Some(share) = share else {
                return;
            };
            if share.writes_if_any().is_some_and(Writes::is_unhandled) {
                share.save_at_the_end();
            }
        }
    }

    /// Gives the dirty pages of all files to the storage that are written back in the background, or makes them durable
    /// as long as there are many.
    #[cfg(not(loom))]
    fn write_back(&self) {
        self.close_left();
        let mut is_failing = self.last_failure.is_recent();
        while self.unclean.is_high() && !is_failing {
            let before = self.unclean.nr();
            is_failing = self.make_clean_until(|| !self.unclean.is_high()).is_some();
            if self.unclean.nr() >= before {
                // Of files that are not ours to write, or writers are as fast: they come to the limit then.
                break;
            }
        }
        for number in self.numbers() {
            if let Some(mapping) = self.visit(number)
                && is_background(&mapping)
            {
                // An error is kept for the handles of the file.
                let _ = mapping.flush(0..PageNr::MAX);
            }
        }
    }
}

/// Has the thread of the cache drop a share of a file, and make it durable before if no handle is left. Until it did the
/// share keeps the cache, so the thread does not end before.
pub(crate) fn close_later<S: RefScheme>(share: Opened<S>) {
    let shared = Arc::clone(share.shared_arc());
    lock(&shared.to_close).push(share);
    // In a model there is no thread. If none can be started now, the next one that is finds the file.
    #[cfg(not(loom))]
    let _ = start(&shared);
    shared.bell.ring();
}

/// Whether a file is written to, and written back without being asked to.
pub(crate) fn is_background<S: RefScheme>(mapping: &Mapping<S>) -> bool {
    mapping
        .writes_if_any()
        .is_some_and(|writes| writes.mode == Writeback::Background)
}

/// Starts the thread that writes back for a cache, for as long as the cache lives, unless it was started before.
///
/// # Errors
///
/// What the system says.
#[cfg(not(loom))]
pub(crate) fn start<S: RefScheme>(shared: &Arc<Shared<S>>) -> std::io::Result<()> {
    let mut is_started = lock(&shared.has_writeback);
    if !*is_started {
        let bell = Arc::clone(&shared.bell);
        let shared = Arc::downgrade(shared);
        std::thread::Builder::new()
            .name("pagewell-writeback".into())
            .spawn(move || run(&shared, &bell))?;
        *is_started = true;
    }
    Ok(())
}

#[cfg(not(loom))]
fn run<S: RefScheme>(shared: &Weak<Shared<S>>, bell: &Bell) {
    loop {
        bell.wait();
        match shared.upgrade() {
            Some(shared) => {
                // Dropped after the lock: it may be the last, and the program's memory then.
                let _round = shared.rounds.hold();
                // A backend or a hook that panics has said so; the pages are dirty again, and the others are not
                // to be left to it.
                let write_back = std::panic::AssertUnwindSafe(|| shared.write_back());
                let _ = std::panic::catch_unwind(write_back);
            }
            None => return,
        }
    }
}
