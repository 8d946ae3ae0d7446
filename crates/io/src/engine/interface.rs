//! Interface of all engines: submission and completion of requests.

use std::fmt::Debug;
use std::panic::resume_unwind;

use super::job::Job;
use crate::backend::Sealed;

/// Executor of requests to backends. Safe code outside this crate cannot implement engines, because
/// unsafe code relies on the drop of [`Lane`].
///
/// [`submit`](Self::submit) is for readahead and futures. [`run`](Self::run) and
/// [`lane`](Self::lane) are for threads that wait for their requests: blocking reads, writeback.
///
/// # Contract
///
/// - E1: Unless its backend hangs, a request completes exactly once, even if it fails, if a child
///   of `fork` submitted it, if the engine is dropped first, or if the backend panics.
/// - E2: Requests may complete in any order. For an order, submit the second request after the
///   first has completed. A sync covers the requests that completed before it was submitted.
/// - E3: No lock of the engine is held while a completion runs.
/// - E4: The engine drops its `Arc` of the backend, which may be the last, before the completion,
///   or for a [`Deferred`](super::Deferred) backend once [`start`](super::Deferred::start) returns.
/// - E5: In an engine with threads, a backend that hangs blocks only its own requests, as long as
///   the number of backends that hang is less than `threads / per_storage` of
///   [`WorkerSettings`](super::WorkerSettings). With io_uring, it must also be less than
///   `depth / per_storage` of [`UringSettings`](super::UringSettings). Keys of
///   [`WorkerEngine::call`](super::WorkerEngine::call) count as backends.
/// - E6: An engine without requests uses no CPU time, once idle threads have ended.
/// - E7: In a child of `fork`, requests fail with [`Forked`](crate::Forked), or the calling thread
///   performs them if the backend permits use in a child. The parent's requests are unaffected.
pub trait Engine: Sealed + Debug + Send + Sync + 'static {
    /// Returns the name: `sync`, `worker` or `uring`.
    fn name(&self) -> &'static str;

    /// Returns the bounds on concurrency.
    fn limits(&self) -> Limits;

    /// Submits a request, which may complete before this function returns. Any number of requests
    /// is accepted: those that exceed the limits wait, in an order that is fair to backends.
    fn submit(&self, job: Job);

    /// Submits and removes all of `jobs`, like [`submit`](Self::submit) but perhaps cheaper.
    fn submit_all(&self, jobs: &mut Vec<Job>) {
        for job in jobs.drain(..) {
            self.submit(job);
        }
    }

    /// Creates a submission context, with which this thread waits for its own requests.
    fn lane(&self) -> Box<dyn Lane + '_>;

    /// Performs `jobs`, and returns when all are completed. A single job usually needs no other
    /// thread and no ring. If a completion panics, this call panics once all are completed.
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

/// Submission context: the requests of one thread, which waits for them. A context stays on its
/// thread, and its drop waits for its requests. In a child forked later, requests in flight belong
/// to the parent, and requests that were not started fail.
///
/// While a context has writes in flight, its thread must not call the same backend directly or
/// through another context. A call that needs exclusive access to the file (a change of its size, a
/// direct write of a partial block) would wait for writes whose completions only this thread reaps.
pub trait Lane: Sealed {
    /// Submits a request. Its start may be delayed until the thread calls [`wait`](Self::wait).
    fn submit(&mut self, job: Job);

    /// Waits until `nr` more requests of this context (or all, if fewer are in flight) are
    /// completed, and may itself perform requests. With `nr` 0, starts submitted requests as far as
    /// it can without a wait. Returns the number of requests completed since the last call. If a
    /// completion panicked, this call panics, and the context stays usable.
    fn wait(&mut self, nr: usize) -> usize;

    /// Returns the number of submitted requests that [`wait`](Self::wait) has not yet counted.
    fn nr_in_flight(&self) -> usize;
}

/// Bounds on the concurrency of an engine. Requests beyond the bounds wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum number of requests in progress for which no thread waits.
    pub depth: usize,
    /// Maximum number of these requests of one backend.
    pub per_storage: usize,
    /// Maximum number of threads for blocking calls.
    pub threads: usize,
    /// Maximum number of spans per system call; a longer list takes several calls.
    pub spans: usize,
}

/// Maximum number of spans that the system accepts per call.
pub(crate) const MOST_SPANS: usize = 1024;
