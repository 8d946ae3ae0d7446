//! A request, and the storage that is to do it.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::queue::OfStorage;
use crate::backend::{Backend, Group, Kind, Panic, RawFile, Request};

/// A backend, and what engines have to know of it. The backend is asked once: what it answers later changes nothing.
#[derive(Clone)]
pub struct Target(Arc<Answers>);

struct Answers {
    file: Arc<dyn Backend>,
    raw: Option<Arc<dyn RawFile>>,
    /// Whether its calls complete later.
    is_deferred: bool,
}

impl Target {
    /// Asks `file` for its raw file, and whether its calls complete later.
    ///
    /// # Errors
    ///
    /// The backend panics.
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

    /// The backend.
    #[must_use]
    pub fn file(&self) -> &Arc<dyn Backend> {
        &self.0.file
    }

    /// Descriptor of the backend's file, if engines may use it directly.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.raw.as_ref().map(|raw| raw.descriptor())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Target").field(&self.0.file).finish()
    }
}

/// A request, and the storage that is to do it, which is kept until it is done.
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
    /// `request`, for a backend that is asked here what engines have to know of it. If it panics, its blocking calls are made.
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

    /// `request`, for `target`.
    pub fn of(target: Target, request: Request) -> Self {
        Self { target, request }
    }

    /// The request.
    pub fn request(&self) -> &Request {
        &self.request
    }

    pub(super) fn request_mut(&mut self) -> &mut Request {
        &mut self.request
    }

    pub(super) fn file(&self) -> &dyn Backend {
        &**self.target.file()
    }

    pub(super) fn join(&mut self, group: &Arc<Group>) {
        self.request.join(group);
    }

    /// The file of the operating system behind the backend, if there is one; always the same.
    pub(super) fn raw_file(&self) -> Option<&dyn RawFile> {
        self.target.0.raw.as_deref()
    }

    /// It is done. The storage is let go first: who is told may be about to close it.
    pub(super) fn complete(self, result: io::Result<usize>) {
        let_go(self.target);
        self.request.complete(result);
    }

    /// As [`complete`](Self::complete), for who counts by itself: returns what the completion panicked with.
    pub(super) fn complete_quietly(self, result: io::Result<usize>) -> Option<Panic> {
        let_go(self.target);
        self.request.complete_quietly(result)
    }

    /// Hands the request to a storage that completes it later, if it does; else gives the job back.
    pub(super) fn defer(self) -> Option<Self> {
        if !self.target.0.is_deferred {
            return Some(self);
        }
        let target = self.target.clone();
        let mut job = Some(self);
        // What a storage drops when it panics was given up.
        let _ = caught(|| {
            if let Some(deferred) = target.file().deferred()
                && let Some(Self { target, request }) = job.take()
            {
                // The storage keeps itself, if it has to.
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

    /// Does it by the storage's calls, which wait.
    pub(super) fn perform(self) {
        let Some(mut job) = self.defer() else {
            return;
        };
        let result = job.call();
        job.complete(result);
    }

    /// Does it by the storage's calls, for who waits for it: returns what the completion panicked with. Gives it back if the storage completes it later.
    pub(super) fn perform_here(mut self) -> Result<Option<Panic>, Self> {
        if self.target.0.is_deferred {
            return Err(self);
        }
        let result = self.call();
        Ok(self.complete_quietly(result))
    }

    /// Makes the call of the storage. A panic of it is an error.
    pub(super) fn call(&mut self) -> io::Result<usize> {
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
}

impl OfStorage for Job {
    fn key(&self) -> usize {
        Arc::as_ptr(self.target.file()).addr()
    }
}

/// Calls a backend, which is code of the program and may panic; nothing of the engine is half done then. A panic is an error.
fn caught<T>(call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        // It was shown by the panic hook. Its drop could panic again, so it is leaked.
        std::mem::forget(panic);
        Err(io::Error::other("the storage panicked"))
    })
}

/// Drops a reference to a backend, whose drop may panic.
fn let_go(target: Target) {
    let _ = caught(|| {
        drop(target);
        Ok(())
    });
}
