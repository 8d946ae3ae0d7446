//! A request, and the storage that is to do it.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::queue::OfStorage;
use crate::backend::{Backend, Group, Kind, Panic, RawFile, Request};

/// A request, and the storage that is to do it, which is kept until it is done.
#[must_use = "a job that is dropped fails"]
pub struct Job {
    file: Arc<dyn Backend>,
    request: Request,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Job").field(&self.request).finish()
    }
}

impl Job {
    /// `request`, for `file`.
    pub fn new(file: Arc<dyn Backend>, request: Request) -> Self {
        Self { file, request }
    }

    /// The request.
    pub fn request(&self) -> &Request {
        &self.request
    }

    pub(super) fn request_mut(&mut self) -> &mut Request {
        &mut self.request
    }

    pub(super) fn file(&self) -> &dyn Backend {
        &*self.file
    }

    pub(super) fn join(&mut self, group: &Arc<Group>) {
        self.request.join(group);
    }

    /// The file of the system behind the storage, if it has one.
    pub(super) fn raw_file(&self) -> Option<&dyn RawFile> {
        // The storage is safe code of somebody, and this may be the thread of an engine.
        let ask = || self.file.raw_file();
        catch_unwind(AssertUnwindSafe(ask)).unwrap_or_else(|panic| {
            forget(panic);
            None
        })
    }

    /// It is done. The storage is let go first: who is told may be about to close it.
    pub(super) fn complete(self, result: io::Result<usize>) {
        let_go(self.file);
        self.request.complete(result);
    }

    /// As [`complete`](Self::complete), for who counts by itself: returns what the completion panicked with.
    pub(super) fn complete_quietly(self, result: io::Result<usize>) -> Option<Panic> {
        let_go(self.file);
        self.request.complete_quietly(result)
    }

    /// Hands the request to a storage that completes it later, if it does; else gives the job back.
    pub(super) fn defer(self) -> Option<Self> {
        let file = Arc::clone(&self.file);
        let mut job = Some(self);
        let start = || {
            if let Some(deferred) = file.deferred()
                && let Some(Self { file, request }) = job.take()
            {
                // The storage keeps itself, if it has to.
                drop(file);
                deferred.start(request);
            }
        };
        // What a storage drops when it panics was given up.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(start)) {
            forget(panic);
        }
        if job.is_none() {
            let_go(file);
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
        if self.file.deferred().is_some() {
            return Err(self);
        }
        let result = self.call();
        Ok(self.complete_quietly(result))
    }

    /// Makes the call of the storage. A panic of it is an error.
    pub(super) fn call(&mut self) -> io::Result<usize> {
        let (file, request) = (&*self.file, &self.request);
        let nr_done = request.nr_done();
        let call = || match request.kind() {
            Kind::Read => Ok(nr_done + file.read_at(&request.buffers(), request.pos())?),
            Kind::Write => {
                file.write_at(&request.sources(), request.pos())?;
                Ok(nr_done + request.nr_left())
            }
            Kind::SyncData => file.sync_data().map(|()| 0),
            Kind::SyncAll => file.sync_all().map(|()| 0),
            Kind::SetSize(size) => file.set_size(size).map(|()| 0),
        };
        // The storage is safe code of somebody; nothing of ours is half done when it panics.
        catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
            forget(panic);
            Err(io::Error::other("the storage panicked"))
        })
    }
}

impl OfStorage for Job {
    fn key(&self) -> usize {
        Arc::as_ptr(&self.file).addr()
    }
}

/// Lets go of a storage, whose drop may panic.
fn let_go(file: Arc<dyn Backend>) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(file))) {
        forget(panic);
    }
}

/// A panic was shown by the panic hook. Its drop could panic again, so it is leaked.
fn forget(panic: Panic) {
    std::mem::forget(panic);
}
