//! The engine itself: what goes to the thread, what to lanes, what to threads that call.

use std::sync::Arc;

use super::lane::UringLane;
use super::pool::Pool;
use super::thread::{self, Inbox};
use crate::backend::{Kind, Sealed};
use crate::engine::interface::{Engine, Lane, Limits, MOST_SPANS};
use crate::engine::job::Job;
use crate::engine::settings::{Refusal, UringSettings};
use crate::engine::worker::{WorkerEngine, WorkerSettings};
use crate::file::Owner;

/// The engine that gives transfers to the kernel, many at once, by io_uring.
///
/// What is not for a ring is done by threads: storages that are no files of the system, parts of blocks of files that are transferred directly, syncs and
/// sizes.
#[derive(Debug)]
pub struct UringEngine {
    owner: Owner,
    settings: UringSettings,
    parts: Parts,
}

#[derive(Debug)]
struct Parts {
    pool: Arc<Pool>,
    inbox: Arc<Inbox>,
}

impl UringEngine {
    /// An engine whose ring was seen to work.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub fn new(settings: UringSettings, workers: WorkerSettings) -> Result<Self, Refusal> {
        let settings = UringSettings {
            depth: settings.depth.clamp(8, 16384),
            per_storage: settings.per_storage.max(1),
        };
        let owner = Owner::this_process();
        let pool = Arc::new(Pool::new(owner, WorkerEngine::new(workers)));
        Ok(Self {
            owner,
            settings,
            parts: Parts {
                inbox: thread::start(settings, &pool)?,
                pool,
            },
        })
    }

    /// Gives jobs to the thread with the ring, or to the others, if it has none any more.
    fn push(&self, jobs: impl IntoIterator<Item = Job>) {
        for job in self.parts.inbox.push(jobs) {
            self.parts.pool.call(job, None);
        }
    }

    /// Sorts a job: returns it if it is for the ring.
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
            // It makes jobs fail, and nothing else.
            Err(_) => self.parts.pool.workers.lane(),
        }
    }
}

impl Drop for UringEngine {
    /// What was submitted is still done; nobody waits for it here, since this may be the thread of the engine.
    fn drop(&mut self) {
        match self.owner.check() {
            Ok(()) => self.parts.inbox.close(),
            Err(_) => self.parts.pool.forget(),
        }
    }
}
