//! Who is writing a page where it is, of any space of a pool; and how forks and unmapping stop them for a moment.
//!
//! A writer is *at work* between looking at the directory and the end of the claim, and it waits for nothing meanwhile. Whoever
//! stops the writers knows that none is at work, and that none begins before they are let go on. For a writer this costs two plain
//! stores ([`pagewell_sync::per_thread`]).

use std::fmt;

use pagewell_sync::asymmetric::Fences;
use pagewell_sync::per_thread::{AtWork, PerThread, Reach};

/// The writers of all spaces of a pool.
pub(crate) struct Writers(PerThread<()>);

/// The system refused to stop the writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused;

impl Writers {
    pub(crate) fn new() -> Self {
        let nr_writers = if cfg!(loom) {
            3
        } else {
            std::thread::available_parallelism().map_or(1, usize::from) * 2
        };
        Self(PerThread::new(nr_writers, Fences::new(), || ()))
    }

    /// Does `work` as a writer that [`stop`](Self::stop) waits for; none, and nothing is done, if this thread cannot be one
    /// (there are more threads than places).
    #[inline(always)]
    pub(crate) fn at_work<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        self.0.with_mine(|()| work())
    }

    /// As [`at_work`](Self::at_work), until the answer is dropped; none while there is a visitor too.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Option<AtWork<'_>> {
        self.0.try_enter()
    }

    /// Does `work` while no writer is at work. It must neither wait nor allocate.
    pub(crate) fn stop<R>(&self, work: impl FnOnce() -> R) -> Result<R, Refused> {
        self.0.with_all(|_, reach| match reach {
            Reach::All => Ok(work()),
            Reach::Own => Err(Refused),
        })
    }
}

impl fmt::Debug for Writers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writers").finish_non_exhaustive()
    }
}
