//! Readers that wait for pages of an object, for the errors of requests that time out.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::{Either, select};
use tokio::sync::oneshot;

use crate::error::Shared;

#[derive(Default)]
pub(crate) struct Readers(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    next: u64,
    /// Range of each reader and the channel for its error, by the number of the reader.
    readers: HashMap<u64, (Range<u64>, oneshot::Sender<Shared>)>,
}

/// Entry of a reader in [`Readers`].
struct Reader<'r> {
    readers: &'r Readers,
    nr: u64,
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.readers.waiting().readers.remove(&self.nr);
    }
}

impl Readers {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drives a read of pages in `range`. If a request for one of them times out, returns its
    /// error, also if another reader has begun it: the cache reports an error only to the reader
    /// that has begun the request, and the others would repeat the request one after the other.
    pub(crate) async fn unless_timed_out<T>(
        &self,
        range: Range<u64>,
        read: impl Future<Output = Result<T, Shared>> + Unpin,
    ) -> Result<T, Shared> {
        let (sender, timeout) = oneshot::channel();
        let _reader = self.register(range, sender);
        match select(timeout, read).await {
            Either::Left((Ok(error), _)) => Err(error),
            // The sender is dropped only with `_reader`, so this does not occur.
            Either::Left((Err(_), read)) => read.await,
            Either::Right((result, _)) => result,
        }
    }

    fn register(&self, range: Range<u64>, sender: oneshot::Sender<Shared>) -> Reader<'_> {
        let mut waiting = self.waiting();
        waiting.next += 1;
        let nr = waiting.next;
        waiting.readers.insert(nr, (range, sender));
        Reader { readers: self, nr }
    }

    /// Sends the error of a request for `range` to the readers that wait for bytes in it.
    pub(super) fn report_timeout(&self, range: &Range<u64>, error: &Shared) {
        let is_in_range = |_: &u64, reader: &mut (Range<u64>, _)| {
            reader.0.start < range.end && range.start < reader.0.end
        };
        let mut waiting = self.waiting();
        let readers: Vec<_> = waiting.readers.extract_if(is_in_range).collect();
        // The sends wake tasks, so the lock is released first.
        drop(waiting);
        for (_, (_, sender)) in readers {
            // The send fails if the reader was dropped.
            let _ = sender.send(error.clone());
        }
    }
}
