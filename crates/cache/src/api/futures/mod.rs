//! Futures: operations of tasks that do not block the thread.
//!
//! The futures work in any executor. The engine reads missing pages, and threads of the cache make
//! other calls that wait ([`pagewell_io::pools::Errand`]).
//!
//! A future owns its buffer, so it can be dropped at any time. A started read then fills the cache,
//! and a write or sync that was passed to a thread of the cache is completed.

mod read;
mod write;

use std::task::{Context, Poll, ready};
use std::{fmt, io, mem};

use pagewell_io::pools::Errand;
use pagewell_sync::Arc;

pub use self::read::{PinPage, ReadAt, ReadMany};
pub use self::write::{Append, SyncData, WriteAt};
use crate::api::file::File;
use crate::base::error::{Error, Op};
use crate::mapping::record::Mapping;
use crate::mapping::visitor::Visitor;
use crate::read::task::Waiting;

/// Buffer of the caller, and the result.
type Outcome<T> = (Vec<u8>, Result<T, Error>);

/// State that the futures share. The drop removes the registration of the waker.
struct Task<'f, T> {
    file: &'f File,
    /// Buffer of the caller, if the operation has one. An offloaded call owns it.
    buf: Vec<u8>,
    waiting: Waiting,
    errand: Option<Errand<Outcome<T>>>,
}

impl<'f, T: Send + 'static> Task<'f, T> {
    fn new(file: &'f File, buf: Vec<u8>) -> Self {
        Self {
            file,
            buf,
            waiting: Waiting::default(),
            errand: None,
        }
    }

    fn mapping(&self) -> &'f Arc<Mapping> {
        self.file.mapping()
    }

    /// Submits an offloaded call, and polls it. Its weak reference delays a close of the file until
    /// the call returns.
    #[cold]
    fn offload(
        &mut self,
        op: Op,
        context: &Context<'_>,
        call: impl FnOnce(&Arc<Mapping>, &mut [u8]) -> Result<T, Error> + Send + 'static,
    ) -> Poll<Result<T, Error>> {
        let mapping = self.mapping();
        self.waiting.take_out(mapping);
        // Without a strong reference to the file there is no call.
        self.errand = Visitor::of(mapping).map(|visitor| {
            let key = std::ptr::from_ref::<Mapping>(mapping).addr();
            let mut buf = mem::take(&mut self.buf);
            Errand::begin(mapping.engines(), key, move || {
                let result = call(visitor.mapping(), &mut buf);
                // Before the task is woken, since it may drop the last handle of the file.
                drop(visitor);
                (buf, result)
            })
        });
        self.poll_call(op, context)
    }

    /// Polls the offloaded call, and drops it once it is ready.
    fn poll_call(&mut self, op: Op, context: &Context<'_>) -> Poll<Result<T, Error>> {
        let outcome = match &self.errand {
            Some(errand) => ready!(errand.poll(context)),
            None => None,
        };
        self.errand = None;
        let Some((buf, result)) = outcome else {
            let cause = io::Error::other("the call was abandoned before it started");
            let error = Error::from_io(op, cause);
            return Poll::Ready(Err(error.with_path(self.mapping().path())));
        };
        self.buf = buf;
        Poll::Ready(result)
    }
}

impl<T> Drop for Task<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.waiting.take_out(self.file.mapping());
    }
}

impl<T> fmt::Debug for Task<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("file", self.file)
            .finish_non_exhaustive()
    }
}

/// Adds the `done` bytes before to the result. A later call reports an error that follows some.
fn after(done: usize, result: Result<usize, Error>) -> Result<usize, Error> {
    match result {
        Err(_) if done != 0 => Ok(done),
        result => result.map(|nr| done + nr),
    }
}
