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

use pagewell_io::pools::Errand;
use pagewell_sync::Arc;

pub use self::read::{PinPage, ReadAt, ReadMany};
pub use self::write::{Append, SyncData, WriteAt};
use crate::base::error::{Error, Op};
use crate::mapping::record::Mapping;
use crate::mapping::visitor::Visitor;

/// Submits an offloaded call. Its weak reference delays a close of the file until the call returns.
/// Returns `None` if the file has no strong reference.
fn call<T: Send + 'static>(
    mapping: &Arc<Mapping>,
    call: impl FnOnce(&Arc<Mapping>) -> T + Send + 'static,
) -> Option<Errand<T>> {
    let visitor = Visitor::of(mapping)?;
    let key = std::ptr::from_ref::<Mapping>(mapping).addr();
    let engines = mapping.engines();
    Some(Errand::begin(engines, key, move || {
        let answer = call(visitor.mapping());
        // Dropped before the task is woken, since the task may drop the last handle of the file.
        drop(visitor);
        answer
    }))
}

#[cold]
fn given_up(mapping: &Mapping, op: Op) -> Error {
    Error::from_io(
        op,
        std::io::Error::other("the call was abandoned before it started"),
    )
    .with_path(mapping.path())
}

/// Polls an offloaded call, and drops it once it is ready. `None` if the call was not started.
fn poll_call<T: Send + 'static>(
    errand: &mut Option<Errand<T>>,
    context: &Context<'_>,
) -> Poll<Option<T>> {
    let outcome = match errand {
        Some(errand) => ready!(errand.poll(context)),
        None => None,
    };
    *errand = None;
    Poll::Ready(outcome)
}
