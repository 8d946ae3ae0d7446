//! Writers in place, of all spaces of a pool. Forks and changes of areas stop them briefly.
//!
//! A writer is *at work* from before its load of the directory until after the end of its claim,
//! and so is a thread that accesses a noted file without a lock ([`crate::areas::noted`]). It does
//! not wait in between. While writers are stopped, none is at work. A writer pays two plain stores
//! ([`pagewell_sync::per_thread`]).

use pagewell_sync::asymmetric::{Fences, Refused};
use pagewell_sync::per_thread::{AtWork, PerThread, Reach};
use pagewell_sync::scaled;

pub(crate) struct Writers(PerThread<()>);

impl Writers {
    pub(crate) fn new() -> Self {
        let nr_processors = std::thread::available_parallelism().map_or(1, usize::from);
        let nr_writers = scaled(nr_processors * 2, 3);
        Self(PerThread::new(nr_writers, Fences::new(), || ()))
    }

    /// Runs `work` as a writer at work, for which [`stop`](Self::stop) waits. Returns `None`,
    /// without running `work`, if there are more threads than slots.
    #[inline(always)]
    pub(crate) fn at_work<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        self.0.with_mine(|()| work())
    }

    /// Makes this thread a writer at work until the result is dropped, as
    /// [`at_work`](Self::at_work). Also returns `None` while writers are stopped.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Option<AtWork<'_>> {
        self.0.try_enter()
    }

    /// Runs `work`, which must neither wait nor allocate, while no writer is at work. After an
    /// error, it was not run: the system refused the fence that stops the writers.
    pub(crate) fn stop<R>(&self, work: impl FnOnce() -> R) -> Result<R, Refused> {
        self.0.with_all(|_, reach| match reach {
            Reach::All => Ok(work()),
            Reach::Own => Err(Refused),
        })
    }
}
