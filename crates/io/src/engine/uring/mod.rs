//! The io_uring engine. A thread that waits enters its own ring (`lane`). The engine's thread has a
//! ring for requests without a waiter (`thread`).

mod lane;
mod ring;
mod thread;

use std::sync::Arc;

use pagewell_sync::process::ProcessId;

use self::lane::{Pool, UringLane};
use self::thread::Handle;
use crate::backend::{Kind, Sealed};
use crate::engine::interface::{Engine, Lane, Limits, MOST_SPANS};
use crate::engine::job::{Job, Steps as _};
use crate::engine::settings::{Refusal, UringSettings};
use crate::engine::worker::{WorkerEngine, WorkerSettings};
use crate::file::check_process;

/// Engine that submits transfers of files to the kernel by io_uring. Worker threads perform partial
/// blocks of direct transfers, syncs, changes of size, and the requests of other backends. A
/// [`Deferred`](crate::engine::Deferred) backend receives its requests directly. For any other
/// backend, the caller of [`run`](Engine::run) performs a single request by a blocking call.
#[derive(Debug)]
pub struct UringEngine {
    settings: UringSettings,
    pool: Arc<Pool>,
    thread: Option<Handle>,
}

impl UringEngine {
    /// Creates an engine, and tests its ring. Fails if io_uring is unavailable.
    pub fn new(settings: UringSettings, workers: WorkerSettings) -> Result<Self, Refusal> {
        let settings = UringSettings {
            depth: settings.depth.clamp(8, 16384),
            per_storage: settings.per_storage.max(1),
            ..settings
        };
        let pool = Arc::new(Pool::new(ProcessId::current(), WorkerEngine::new(workers)));
        Ok(Self {
            settings,
            thread: Some(thread::start(settings, &pool)?),
            pool,
        })
    }

    /// Passes jobs to the ring's thread, or to the workers if the kernel rejects calls on its ring.
    fn push(&self, jobs: impl IntoIterator<Item = Job>) {
        let Some(thread) = &self.thread else {
            return;
        };
        for job in thread.inbox.push(jobs) {
            self.pool.workers.submit(job);
        }
    }

    /// Returns `job` if the ring is to perform it. Fails, defers or passes on any other job.
    fn sort(&self, job: Job) -> Option<Job> {
        if let Err(error) = check_process(self.pool.process) {
            job.complete(Err(error));
            return None;
        }
        let job = job.defer()?;
        let is_transfer = matches!(job.request().kind(), Kind::Read | Kind::Write);
        if is_transfer && job.raw_file().is_some() {
            return Some(job);
        }
        self.pool.workers.submit(job);
        None
    }
}

impl Sealed for UringEngine {}

impl Engine for UringEngine {
    fn name(&self) -> &'static str {
        "uring"
    }

    fn limits(&self) -> Limits {
        let workers = self.pool.workers.limits();
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
        match check_process(self.pool.process) {
            Ok(()) => Box::new(UringLane::new(&self.pool)),
            // E7: in a child of `fork`, jobs fail, or this thread performs them.
            Err(_) => self.pool.workers.lane(),
        }
    }
}

impl Drop for UringEngine {
    /// Waits until the ring's thread has completed its requests and ended, but at most for
    /// [`UringSettings::close_timeout`], raised to at least a second if no request is left. Does
    /// not wait if that thread executes the drop. Remaining requests are still performed.
    fn drop(&mut self) {
        if !self.pool.process.is_current() {
            self.pool.forget();
            std::mem::forget(self.thread.take());
            return;
        }
        let timeout = self.settings.close_timeout;
        if let Some(thread) = self.thread.take()
            && !thread.end(timeout)
        {
            use std::io::Write;
            let _ = writeln!(
                std::io::stderr(),
                "pagewell: the thread of a dropped io_uring engine continues: its requests are \
                 still in flight after {timeout:?}"
            );
        }
    }
}
