//! A request, and the backend that performs it.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pagewell_sync::ledger::{self, Resource};

use crate::backend::{Backend, Group, Kind, Panic, RawFile, Request};

/// A backend with its properties, which are queried once.
#[derive(Clone)]
pub struct Target(Arc<Answers>);

struct Answers {
    file: Arc<dyn Backend>,
    raw: Option<Arc<dyn RawFile>>,
    is_deferred: bool,
}

impl Target {
    /// Queries the properties of `file`. Fails if the backend panics.
    pub fn new(file: Arc<dyn Backend>) -> io::Result<Self> {
        let (raw, is_deferred) = caught(|| {
            let raw = Arc::clone(&file).raw_file();
            Ok((raw, file.deferred().is_some()))
        })?;
        let answers = Answers {
            file,
            raw,
            is_deferred,
        };
        Ok(Self(Arc::new(answers)))
    }

    /// Returns the backend.
    #[must_use]
    pub fn file(&self) -> &Arc<dyn Backend> {
        &self.0.file
    }

    /// Returns the descriptor of the backend's file, if engines may use it directly.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.raw.as_ref().map(|raw| raw.descriptor())
    }

    /// Returns `true` if the backend has a descriptor, and the write lock of the file.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.0.raw.as_ref().is_some_and(|raw| raw.is_locked())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Target").field(&self.0.file).finish()
    }
}

/// A request, and a reference to the backend that performs it.
#[must_use = "a job that is dropped fails"]
pub struct Job {
    target: Target,
    request: Request,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Job").field(&self.request).finish()
    }
}

impl Job {
    /// Creates a job. If a query of the backend panics, the job makes the backend's blocking calls.
    pub fn new(file: Arc<dyn Backend>, request: Request) -> Self {
        let target = Target::new(Arc::clone(&file)).unwrap_or_else(|_| {
            Target(Arc::new(Answers {
                file,
                raw: None,
                is_deferred: false,
            }))
        });
        Self { target, request }
    }

    /// Creates a job for `target`.
    pub fn of(target: Target, request: Request) -> Self {
        Self { target, request }
    }

    /// Returns the request to perform.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Returns the key of the backend in a [`Queue`](super::queue::Queue).
    pub(super) fn key(&self) -> usize {
        Arc::as_ptr(self.target.file()).addr()
    }

    /// Returns the same result on each call.
    pub(super) fn raw_file(&self) -> Option<&dyn RawFile> {
        self.target.0.raw.as_deref()
    }

    /// Like [`complete`](Self::complete), but returns a panic and does not notify the group.
    pub(super) fn complete_quietly(self, result: io::Result<usize>) -> Option<Panic> {
        let_go(self.target);
        self.request.complete_quietly(result)
    }

    /// Performs the request by the backend's blocking calls, or defers it.
    pub(super) fn perform(self) {
        let Some(mut job) = self.defer() else {
            return;
        };
        let result = job.call();
        job.complete(result);
    }

    /// Like [`perform`](Self::perform), for a thread that waits for this job, and returns the
    /// completion's panic. Returns the job as an error if the backend completes requests later.
    pub(super) fn perform_here(mut self) -> Result<Option<Panic>, Self> {
        if self.target.0.is_deferred {
            return Err(self);
        }
        let result = self.call();
        Ok(self.complete_quietly(result))
    }
}

/// Steps of an engine. Other crates reach them only through `testing`.
pub trait Steps: Sized {
    /// Returns the backend.
    fn file(&self) -> &dyn Backend;

    /// Returns the request, to count transferred bytes.
    fn request_mut(&mut self) -> &mut Request;

    /// Counts the completion in `group`.
    fn join(&mut self, group: &Arc<Group>);

    /// Submits the request if the backend completes requests later, or else returns the job.
    fn defer(self) -> Option<Self>;

    /// Performs the request by calls of the backend, whose panic becomes an error.
    fn call(&mut self) -> io::Result<usize>;

    /// Releases the backend, then completes the request: a woken thread may close the backend.
    fn complete(self, result: io::Result<usize>);
}

impl Steps for Job {
    fn file(&self) -> &dyn Backend {
        &**self.target.file()
    }

    fn request_mut(&mut self) -> &mut Request {
        &mut self.request
    }

    fn join(&mut self, group: &Arc<Group>) {
        self.request.join(group);
    }

    fn defer(self) -> Option<Self> {
        if !self.target.0.is_deferred {
            return Some(self);
        }
        let target = self.target.clone();
        let mut job = Some(self);
        // If the backend panics while it owns the request, the request is dropped and so fails.
        let _ = caught(|| {
            if let Some(deferred) = target.file().deferred()
                && let Some(Self { target, request }) = job.take()
            {
                drop(target);
                deferred.start(request);
            }
            Ok(())
        });
        if job.is_none() {
            let_go(target);
        }
        job
    }

    fn call(&mut self) -> io::Result<usize> {
        let (file, request) = (self.file(), &self.request);
        let nr_done = request.nr_done();
        caught(|| match request.kind() {
            Kind::Read => Ok(nr_done + file.read_at(&request.buffers(), request.pos())?),
            Kind::Write => {
                file.write_at(&request.sources(), request.pos())?;
                Ok(nr_done + request.nr_left())
            }
            Kind::SyncData => file.sync_data().map(|()| 0),
            Kind::SyncAll => file.sync_all().map(|()| 0),
            Kind::SetSize(size) => file.set_size(size).map(|()| 0),
        })
    }

    fn complete(self, result: io::Result<usize>) {
        let_go(self.target);
        self.request.complete(result);
    }
}

/// Calls a backend, and converts its panic to an error. The engine's state must be consistent.
pub fn caught<T>(call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let _in_program = ledger::enter("a backend", &Resource::ALL);
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        // The panic hook has reported the panic. Leak its payload, whose drop could panic again.
        std::mem::forget(panic);
        Err(io::Error::other("the backend panicked"))
    })
}

/// Drops a reference to a backend, whose drop may panic.
fn let_go(target: Target) {
    let _ = caught(|| {
        drop(target);
        Ok(())
    });
}
