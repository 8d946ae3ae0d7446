//! One range of a known object as bytes: a pin of the page, or a copy.

use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use futures_util::poll;
use pagewell::{ErrorKind, OwnedPageGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::Shared;
use crate::fetch::traffic::Traffic;
use crate::objects::known::Known;
use crate::objects::open::MAX_ABANDONED;

#[derive(Clone, Debug)]
pub(crate) struct Answers {
    pub(crate) traffic: Arc<Traffic>,
    /// Permits for pinned pages.
    pub(crate) pins: Arc<Semaphore>,
}

/// Pinned page that owns the bytes of an answer (`Bytes::from_owner`).
struct Pinned {
    guard: OwnedPageGuard,
    range: Range<usize>,
    /// Dropped after `guard`, whose reference to the file must not be the last (its drop blocks).
    _known: Arc<Known>,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Pinned {
    fn as_ref(&self) -> &[u8] {
        // Checked on creation, and the length of a guard is constant.
        self.guard.get(self.range.clone()).unwrap_or_default()
    }
}

impl Answers {
    /// Returns the bytes in `range`. If the task of a request is dropped, for example with the
    /// runtime of another reader, repeats the request on the caller's runtime.
    pub(crate) async fn read(
        &self,
        known: &Arc<Known>,
        range: Range<u64>,
    ) -> Result<Bytes, Shared> {
        let readers = known.object.readers();
        let mut nr_tries = 0;
        loop {
            nr_tries += 1;
            let nr_timeouts = readers.nr_timeouts();
            let mut read = std::pin::pin!(self.read_once(known, range.clone()));
            let result = match poll!(&mut read) {
                Poll::Ready(result) => result,
                Poll::Pending => {
                    known.object.enter();
                    readers
                        .unless_timed_out(range.clone(), nr_timeouts, read)
                        .await
                }
            };
            match result {
                Err(error) if error.is_abandoned() && nr_tries < MAX_ABANDONED => {}
                Ok(bytes) => {
                    let counters = &self.traffic.counters;
                    counters.nr_reads.add(1);
                    counters.bytes_read.add(bytes.len() as u64);
                    return Ok(bytes);
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn read_once(&self, known: &Arc<Known>, range: Range<u64>) -> Result<Bytes, Shared> {
        match self.pin(known, &range).await? {
            Some(bytes) => Ok(bytes),
            None => self.copy(known, range).await,
        }
    }

    /// Pins the page if `range` lies in one page and is at least a quarter of it. Otherwise, or if
    /// no pin or frame is available, returns `None`, and the caller must copy the range.
    async fn pin(&self, known: &Arc<Known>, range: &Range<u64>) -> Result<Option<Bytes>, Shared> {
        let page_size = known.file.page_size() as u64;
        let page = range.start / page_size;
        let is_in_page = range.end <= (page + 1) * page_size;
        if !is_in_page || (range.end - range.start) * 4 < page_size {
            return Ok(None);
        }
        let Ok(permit) = Arc::clone(&self.pins).try_acquire_owned() else {
            self.traffic.counters.nr_copied_at_bound.add(1);
            return Ok(None);
        };
        let guard = match known.file.pin_async(page).await {
            Ok(guard) => guard,
            Err(error) if error.kind() == ErrorKind::OutOfFrames => return Ok(None),
            Err(error) => return Err(Shared::of_cache(error)),
        };
        let start = (range.start - page * page_size) as usize;
        let range = start..start + (range.end - range.start) as usize;
        if range.end > guard.len() {
            return Err(Shared::changed(&known.location));
        }
        self.traffic.counters.nr_pinned.add(1);
        let pinned = Pinned {
            guard,
            range,
            _known: Arc::clone(known),
            _permit: permit,
        };
        Ok(Some(Bytes::from_owner(pinned)))
    }

    async fn copy(&self, known: &Arc<Known>, range: Range<u64>) -> Result<Bytes, Shared> {
        let len = usize::try_from(range.end - range.start)
            .map_err(|_| Shared::broken(format!("cannot read {range:?}: too large for memory")))?;
        let page_size = known.file.page_size() as u64;
        if range.start / page_size != (range.end.max(1) - 1) / page_size {
            // Request all missing pages together.
            known
                .file
                .prefetch(std::slice::from_ref(&range))
                .map_err(Shared::of_cache)?;
        }
        let mut all = Vec::new();
        loop {
            let start = range.start + all.len() as u64;
            let (bytes, result) = known
                .file
                .read_at_async(vec![0; len - all.len()], start)
                .await;
            let nr = match result {
                Ok(nr) => nr,
                // All frames are pinned or in flight, so fetch the bytes without the cache.
                Err(error) if error.kind() == ErrorKind::OutOfFrames => {
                    self.traffic.counters.nr_around.add(1);
                    all.extend_from_slice(&known.object.fetch_around(start..range.end).await?);
                    return Ok(all.into());
                }
                Err(error) => return Err(Shared::of_cache(error)),
            };
            if nr == len {
                return Ok(bytes.into());
            }
            if nr == 0 {
                return Err(Shared::broken(format!(
                    "{}: a read of bytes {range:?} returned only {}",
                    known.location,
                    all.len()
                )));
            }
            // A read that fails at a later page returns the bytes before it. The next read starts
            // at that page and returns the error.
            all.extend_from_slice(&bytes[..nr]);
            if all.len() == len {
                return Ok(all.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use futures_util::FutureExt as _;
    use object_store::ObjectStoreExt as _;
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use tokio::runtime::Runtime;

    use crate::PagewellStore;

    fn runtime() -> Runtime {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    }

    #[test]
    fn only_a_read_that_waits_records_its_runtime() {
        let (first, second) = (runtime(), runtime());
        let memory = Arc::new(InMemory::new());
        let path = Path::from("a");
        let put = memory.put(&path, vec![7; 3 * 4096].into());
        first.block_on(put).unwrap();
        let store = PagewellStore::builder(memory).page_size(4096);
        let store = store.trust(Duration::MAX).build().unwrap();
        let read = |page: u64| store.get_range(&path, page * 4096..(page + 1) * 4096);
        first.block_on(read(0)).unwrap();
        let known = store.known(&path);
        assert_eq!(known.object.last_runtime(), first.handle().id());
        second
            .block_on(async { read(0).now_or_never() })
            .unwrap()
            .unwrap();
        assert_eq!(known.object.last_runtime(), first.handle().id());
        second.block_on(read(2)).unwrap();
        assert_eq!(known.object.last_runtime(), second.handle().id());
    }
}
