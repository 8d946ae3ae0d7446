//! The engine: assigns jobs to its thread, to submission contexts, or to the workers.

use std::sync::Arc;

use super::lane::UringLane;
use super::pool::Pool;
use super::thread::{self, Handle};
use crate::backend::{Kind, Sealed};
use crate::engine::interface::{Engine, Lane, Limits, MOST_SPANS};
use crate::engine::job::Job;
use crate::engine::settings::{Refusal, UringSettings};
use crate::engine::worker::{WorkerEngine, WorkerSettings};
use crate::file::Owner;

/// Engine that submits concurrent transfers to the kernel by io_uring.
///
/// Threads perform everything else: requests to backends that are not files of the system, partial
/// blocks of direct transfers, syncs and changes of size.
#[derive(Debug)]
pub struct UringEngine {
    owner: Owner,
    settings: UringSettings,
    parts: Parts,
}

#[derive(Debug)]
struct Parts {
    pool: Arc<Pool>,
    /// `None` once the engine is dropped.
    thread: Option<Handle>,
}

impl UringEngine {
    /// Creates an engine whose ring has been tested. Fails if io_uring is unavailable.
    pub fn new(settings: UringSettings, workers: WorkerSettings) -> Result<Self, Refusal> {
        let settings = UringSettings {
            depth: settings.depth.clamp(8, 16384),
            per_storage: settings.per_storage.max(1),
            ..settings
        };
        let owner = Owner::this_process();
        let pool = Arc::new(Pool::new(owner, WorkerEngine::new(workers)));
        Ok(Self {
            owner,
            settings,
            parts: Parts {
                thread: Some(thread::start(settings, &pool)?),
                pool,
            },
        })
    }

    /// Passes jobs to the thread with the ring, or to the workers if it has no ring left.
    fn push(&self, jobs: impl IntoIterator<Item = Job>) {
        let Some(thread) = &self.parts.thread else {
            return;
        };
        for job in thread.inbox.push(jobs) {
            self.parts.pool.call(job, None);
        }
    }

    /// Routes a job. Returns it if it is for the ring.
    fn sort(&self, job: Job) -> Option<Job> {
        if let Err(error) = self.owner.check() {
            job.complete(Err(error));
            return None;
        }
        let job = job.defer()?;
        let is_transfer = matches!(job.request().kind(), Kind::Read | Kind::Write);
        if is_transfer && job.raw_file().is_some() {
            return Some(job);
        }
        self.parts.pool.call(job, None);
        None
    }
}

impl Sealed for UringEngine {}

impl Engine for UringEngine {
    fn name(&self) -> &'static str {
        "uring"
    }

    fn limits(&self) -> Limits {
        let workers = self.parts.pool.workers.limits();
        Limits {
            depth: self.settings.depth as usize,
            per_storage: self.settings.per_storage,
            threads: workers.threads,
            spans: MOST_SPANS,
        }
    }

    fn submit(&self, job: Job) {
        if let Some(job) = self.sort(job) {
            self.push([job]);
        }
    }

    fn submit_all(&self, jobs: &mut Vec<Job>) {
        let for_ring: Vec<Job> = jobs.drain(..).filter_map(|job| self.sort(job)).collect();
        if !for_ring.is_empty() {
            self.push(for_ring);
        }
    }

    fn lane(&self) -> Box<dyn Lane + '_> {
        match self.owner.check() {
            Ok(()) => Box::new(UringLane::new(&self.parts.pool)),
            // In a child, jobs fail, or this thread performs them (E7).
            Err(_) => self.parts.pool.workers.lane(),
        }
    }
}

impl Drop for UringEngine {
    /// Waits for the requests of the thread with the ring, at most
    /// [`UringSettings::close_timeout`], and then for its end, unless that thread itself drops the
    /// engine. Requests left are still performed. The program's completions may run after the drop.
    fn drop(&mut self) {
        if self.owner.check().is_err() {
            self.parts.pool.forget();
            // The thread is the parent's.
            std::mem::forget(self.parts.thread.take());
            return;
        }
        let timeout = self.settings.close_timeout;
        if let Some(thread) = self.parts.thread.take()
            && !thread.end(timeout)
        {
            use std::io::Write;
            // Standard error may be closed.
            let _ = writeln!(
                std::io::stderr(),
                "pagewell: the thread of a dropped io_uring engine continues: its requests are \
                 still in flight after {timeout:?}"
            );
        }
    }
}
