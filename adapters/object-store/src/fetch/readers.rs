//! Readers that wait for pages of an object, and get the errors of requests that time out.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::{Either, select};
use tokio::sync::oneshot;

use crate::error::Shared;

#[derive(Default)]
pub(crate) struct Readers {
    waiting: Mutex<Waiting>,
    /// Number of reported timeouts. Changed only under the lock.
    nr_timeouts: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    /// Range and error channel of each reader, by the number of the reader.
    readers: HashMap<u64, (Range<u64>, oneshot::Sender<Shared>)>,
    /// Ranges and error of the last timeout.
    last: Option<(Vec<Range<u64>>, Shared)>,
}

struct Reader<'r> {
    readers: &'r Readers,
    nr: u64,
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.readers.waiting().readers.remove(&self.nr);
    }
}

fn overlap(ranges: &[Range<u64>], range: &Range<u64>) -> bool {
    let mut ranges = ranges.iter();
    ranges.any(|other| other.start < range.end && range.start < other.end)
}

impl Readers {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of timeouts. A reader calls this before the first poll of its read.
    pub(crate) fn nr_timeouts(&self) -> u64 {
        // ORDERING: Relaxed; a reader that begins after the report of a timeout (in the order of
        // happens-before) gets a number that includes it. Either number is right for other readers.
        self.nr_timeouts.load(Ordering::Relaxed)
    }

    /// Drives `read`, for pages in `range`, first polled after `nr_timeouts` timeouts. If a request
    /// for one of the pages times out, returns its error, even if another reader began it: the
    /// cache returns the error only to that reader, and the others would repeat the request.
    pub(crate) async fn unless_timed_out<T>(
        &self,
        range: Range<u64>,
        nr_timeouts: u64,
        read: impl Future<Output = Result<T, Shared>> + Unpin,
    ) -> Result<T, Shared> {
        let (sender, timeout) = oneshot::channel();
        let _reader = self.register(range, nr_timeouts, sender)?;
        match select(timeout, read).await {
            Either::Left((Ok(error), _)) => Err(error),
            // Cannot happen: the sender is dropped only with `_reader`.
            Either::Left((Err(_), read)) => read.await,
            Either::Right((result, _)) => result,
        }
    }

    /// Registers a reader. Returns the error if a request for its pages has timed out since the
    /// reader called [`Self::nr_timeouts`]. Only the last timeout is stored: if the reader's
    /// request timed out before that one, the reader repeats the request.
    fn register(
        &self,
        range: Range<u64>,
        nr_timeouts: u64,
        sender: oneshot::Sender<Shared>,
    ) -> Result<Reader<'_>, Shared> {
        let mut waiting = self.waiting();
        if let Some((ranges, error)) = &waiting.last
            && self.nr_timeouts() != nr_timeouts
            && overlap(ranges, &range)
        {
            return Err(error.clone());
        }
        waiting.next += 1;
        let nr = waiting.next;
        waiting.readers.insert(nr, (range, sender));
        Ok(Reader { readers: self, nr })
    }

    /// Sends the error of a request for `ranges` to all readers of bytes in them.
    pub(super) fn report_timeout(&self, ranges: Vec<Range<u64>>, error: &Shared) {
        let is_in_ranges = |_: &u64, reader: &mut (Range<u64>, _)| overlap(&ranges, &reader.0);
        let mut waiting = self.waiting();
        let readers: Vec<_> = waiting.readers.extract_if(is_in_ranges).collect();
        waiting.last = Some((ranges, error.clone()));
        // ORDERING: Relaxed; as in `nr_timeouts`.
        self.nr_timeouts.fetch_add(1, Ordering::Relaxed);
        // Release the lock first, since the sends wake tasks.
        drop(waiting);
        for (_, (_, sender)) in readers {
            let _ = sender.send(error.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures_util::FutureExt as _;

    use super::*;

    fn read(readers: &Readers, range: Range<u64>, nr: u64) -> Option<Result<(), Shared>> {
        let read = readers.unless_timed_out(range, nr, pending());
        read.now_or_never()
    }

    #[test]
    fn timeout_before_registration_is_reported() {
        let readers = Readers::default();
        let before = readers.nr_timeouts();
        readers.report_timeout(vec![0..10, 20..30], &Shared::timeout("late".into()));
        let error = read(&readers, 25..40, before).unwrap().unwrap_err();
        assert!(error.is_timeout());
        assert!(read(&readers, 10..20, before).is_none());
        // This reader began after the timeout.
        assert!(read(&readers, 25..40, readers.nr_timeouts()).is_none());
        assert!(readers.waiting().readers.is_empty());
    }

    #[test]
    fn timeout_is_reported_to_readers_of_its_ranges() {
        let readers = Readers::default();
        let nr = readers.nr_timeouts();
        let reads = [5..6, 10..20, 29..31].map(|range| {
            let read = readers.unless_timed_out(range, nr, pending::<Result<(), Shared>>());
            Box::pin(read)
        });
        let mut reads = reads.map(futures_util::FutureExt::fuse);
        for read in &mut reads {
            assert!(read.now_or_never().is_none());
        }
        readers.report_timeout(vec![0..10, 20..30], &Shared::timeout("late".into()));
        let got = reads.each_mut().map(|read| read.now_or_never().is_some());
        assert_eq!(got, [true, false, true]);
        let done = readers.unless_timed_out(0..1, nr + 1, ready(Ok(())));
        assert!(done.now_or_never().unwrap().is_ok());
    }
}
