//! What all engines have in common: requests go in, and complete.

use std::fmt::Debug;
use std::panic::resume_unwind;

use super::job::Job;
use crate::backend::Sealed;

/// What takes requests to storages, and sees to it that each completes exactly once.
///
/// Only this crate has engines: unsafe code relies on their contract, as on that of [`Lane`]'s drop.
///
/// | given by | completes | for |
/// |---|---|---|
/// | [`submit`](Self::submit) | on any thread, whether or not anybody waits | reading ahead, writing back, futures |
/// | [`run`](Self::run), [`lane`](Self::lane) | at the latest while its thread waits, which does the work of the engine meanwhile | calls that wait |
///
/// # Contract
///
/// - E1: a request completes exactly once, also if it fails, if it was given by a child of `fork`, if the engine is dropped meanwhile, or if the storage panics.
/// - E2: requests may complete in any order. Who needs an order gives the second request when the first is completed. A sync covers what completed before it was given.
/// - E3: no lock of the engine is held while a completion runs.
/// - E4: the engine has let go of the storage when the completion is called: if that was the last `Arc` of it, it is dropped.
/// - E5: a storage that hangs keeps its own requests. Those of others go on, as long as no more storages hang than [`Limits::threads`] divided by
///   [`Limits::per_storage`] (of those that are read and written by calls that wait).
/// - E6: an engine without requests uses no processor.
/// - E7: in a child of `fork` requests fail with [`Forked`](crate::Forked), or are done by the thread itself if the storage lets it; the parent's are not touched.
pub trait Engine: Sealed + Debug + Send + Sync + 'static {
    /// Its name: `sync`, `worker`, `uring` or `sim`.
    fn name(&self) -> &'static str;

    /// How much it does at once.
    fn limits(&self) -> Limits;

    /// Takes a request. It completes sooner or later, perhaps before this returns. There may be any number: what is too much to be done at once
    /// waits, in an order that is fair to storages.
    fn submit(&self, job: Job);

    /// Takes all of `jobs`, as [`submit`](Self::submit), and leaves the vector empty; for the engine it is less work than one after the other.
    fn submit_all(&self, jobs: &mut Vec<Job>) {
        for job in jobs.drain(..) {
            self.submit(job);
        }
    }

    /// A way for this thread to wait for requests of its own.
    fn lane(&self) -> Box<dyn Lane + '_>;

    /// Does all of `jobs`, and returns when all of them are completed. One alone is done by this thread as by a call of the storage, with no
    /// other thread and no ring.
    ///
    /// # Panics
    ///
    /// When a completion panics; after all are completed.
    fn run(&self, jobs: &mut Vec<Job>) {
        if jobs.len() == 1
            && let Some(job) = jobs.pop()
        {
            match job.perform_here() {
                Ok(None) => return,
                Ok(Some(panic)) => resume_unwind(panic),
                Err(job) => jobs.push(job),
            }
        }
        let mut lane = self.lane();
        for job in jobs.drain(..) {
            lane.submit(job);
        }
        let nr = lane.nr_in_flight();
        lane.wait(nr);
    }
}

/// Requests of one thread, which waits for them. It stays on its thread. Its drop waits for all that are left.
///
/// While it has writes, its thread may not make calls of the same storage by itself, nor by another lane: a call that wants the file for itself (a change of
/// its size, a write of a part of a block of a file that is transferred directly) waits for the writes, and only this thread sees their end.
///
/// In a child that was forked meanwhile, what the lane had under way is the parent's; what it was not begun fails.
pub trait Lane: Sealed {
    /// Takes a request. It need not be begun before the thread waits.
    fn submit(&mut self, job: Job);

    /// Waits until `nr` more requests of this lane are completed, or as many as there are, and does the engine's work meanwhile. Returns how many
    /// were completed since the last call. With `nr` 0, begins what was submitted, and looks.
    ///
    /// # Panics
    ///
    /// When a completion panicked. The lane is good for more.
    fn wait(&mut self, nr: usize) -> usize;

    /// How many were submitted and are not known to be completed.
    fn nr_in_flight(&self) -> usize;
}

/// How much an engine does at once. What comes beyond that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Requests, of those that no thread waits for.
    pub depth: usize,
    /// Requests of one storage.
    pub per_storage: usize,
    /// Threads that make calls that wait.
    pub threads: usize,
    /// Spans that go to the system at once; a longer list takes several calls.
    pub spans: usize,
}

/// How many spans the system takes at once.
pub(super) const MOST_SPANS: usize = 1024;
