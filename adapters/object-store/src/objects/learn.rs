//! First requests for bytes of an object, which also open it.

use std::sync::Arc;
use std::time::SystemTime;

use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, GetResult};
use tokio::sync::OwnedSemaphorePermit;

use super::known::{Known, MAX_FIRST_BYTES, OpenedBy};
use super::open::Opener;
use super::table::Outcome;
use crate::error::{Shared, generic};
use crate::fetch::answer::{collect, is_encoded};
use crate::fetch::context;
use crate::identity::State;

/// Answer to a request of an opening.
pub(super) struct Received {
    pub(super) requested: SystemTime,
    pub(super) result: GetResult,
    /// Dropped at the end of the body, and always before the opener waits for memory or sends
    /// another request: the reads for which it then waits need permits, too.
    permit: OwnedSemaphorePermit,
}

impl Opener {
    /// Requests the first bytes that are needed, and opens the object with the answer. If the range
    /// may be why the request failed, requests the whole object.
    pub(super) async fn learn(
        &self,
        location: &Path,
        range: Option<GetRange>,
        before: Option<Arc<Known>>,
    ) -> Outcome {
        let mut wanted = self.first_range(range);
        loop {
            let error = match self.request(location, Some(wanted.clone())).await {
                Ok(received) => {
                    let result = &received.result;
                    let size = result.meta.size;
                    let expected = wanted.as_range(size).ok();
                    if result.range == (0..size) && expected.as_ref() != Some(&result.range) {
                        let why = format!("{location}: the store returned all for {wanted}");
                        let why = Some(Shared::uncacheable(generic(why)));
                        return self.take_all(location, received, before, why).await;
                    }
                    if expected.as_ref() != Some(&result.range) {
                        return Err(Shared::broken(format!(
                            "{location}: a request for {wanted} returned bytes {:?} of {size}",
                            result.range
                        )));
                    }
                    // A whole object does not prove that the store supports ranges.
                    let opened_by = match result.range == (0..size) {
                        true => OpenedBy::Whole,
                        false => OpenedBy::Part,
                    };
                    return self.take(location, received, before, opened_by).await;
                }
                Err(error) => error,
            };
            match (&error, &wanted) {
                (
                    Error::NotFound { .. }
                    | Error::PermissionDenied { .. }
                    | Error::Unauthenticated { .. }
                    | Error::InvalidPath { .. },
                    _,
                ) => return Err(Shared::new(error)),
                // Azure does not support suffixes. The first page suffices: its answer has the
                // size.
                (Error::NotSupported { .. }, GetRange::Suffix(_)) => {
                    wanted = GetRange::Bounded(0..self.page_size);
                }
                // The object may end before the range, or the server may not support ranges. Only
                // `NotSupported` proves the latter, and then a large object cannot be cached.
                _ => {
                    let has_none = matches!(error, Error::NotSupported { .. });
                    let why = has_none.then(|| Shared::uncacheable(error));
                    let received = self.request(location, None).await.map_err(Shared::new)?;
                    return self.take_all(location, received, before, why).await;
                }
            }
        }
    }

    async fn request(
        &self,
        location: &Path,
        range: Option<GetRange>,
    ) -> object_store::Result<Received> {
        let options = GetOptions {
            range,
            extensions: context::extensions(),
            ..GetOptions::default()
        };
        let answer = async {
            self.traffic.counters.nr_requests.add(1);
            self.store.get_opts(location, options).await
        };
        self.send(location, answer).await
    }

    /// Waits for a permit, then sends a request of an opening by polling `answer`.
    pub(super) async fn send(
        &self,
        location: &Path,
        answer: impl Future<Output = object_store::Result<GetResult>>,
    ) -> object_store::Result<Received> {
        let permit = self.traffic.permits.acquire().await;
        let requested = SystemTime::now();
        Ok(Received {
            requested,
            result: self.traffic.timed(location, answer).await?,
            permit,
        })
    }

    /// Opens the object with an answer that is the whole object. `uncacheable` is set if the store
    /// has ignored a range or supports none. The body of an object above [`MAX_FIRST_BYTES`] is not
    /// received: returns `uncacheable` if it is set, and else opens the object without bytes.
    async fn take_all(
        &self,
        location: &Path,
        received: Received,
        before: Option<Arc<Known>>,
        uncacheable: Option<Shared>,
    ) -> Outcome {
        let result = &received.result;
        let size = result.meta.size;
        if result.range != (0..size) {
            return Err(Shared::broken(format!(
                "{location}: a request for all bytes returned bytes {:?} of {size}",
                result.range
            )));
        }
        if size <= MAX_FIRST_BYTES {
            return self.take(location, received, before, OpenedBy::Whole).await;
        }
        if let Some(error) = uncacheable {
            return Err(error);
        }
        if let Some(before) = self.still(before, result) {
            return Ok(before);
        }
        let (meta, attributes) = (result.meta.clone(), result.attributes.clone());
        let requested = received.requested;
        drop(received);
        let state = State::new(meta, requested);
        let opened_by = OpenedBy::Whole;
        self.know(location, state, attributes, opened_by, None)
            .await
    }

    /// Opens the object with the bytes of an answer.
    async fn take(
        &self,
        location: &Path,
        received: Received,
        before: Option<Arc<Known>>,
        opened_by: OpenedBy,
    ) -> Outcome {
        let Received {
            requested,
            result,
            permit,
        } = received;
        if let Some(before) = self.still(before, &result) {
            return Ok(before);
        }
        let (meta, attributes, range) = (
            result.meta.clone(),
            result.attributes.clone(),
            result.range.clone(),
        );
        let len = range.end - range.start;
        let bytes = self.traffic.timed(location, collect(result, len)).await;
        drop(permit);
        let bytes = bytes.map_err(Shared::new)?;
        if len != bytes.len() as u64 {
            let error = generic(format!(
                "{location}: a request for bytes {range:?} returned {} bytes",
                bytes.len()
            ));
            return Err(if is_encoded(&attributes) {
                Shared::uncacheable(error)
            } else {
                Shared::new(error)
            });
        }
        self.traffic.counters.bytes_fetched.add(bytes.len() as u64);
        let state = State::new(meta, requested);
        let come = Some((range.start, bytes));
        self.know(location, state, attributes, opened_by, come)
            .await
    }

    /// Returns `range`, extended to whole pages (the size is unknown), up to [`MAX_FIRST_BYTES`].
    fn first_range(&self, range: Option<GetRange>) -> GetRange {
        let page = self.page_size;
        let from = |start: u64| {
            let start = start - start % page;
            start..start.saturating_add(MAX_FIRST_BYTES)
        };
        match range {
            Some(GetRange::Bounded(range)) => {
                let all = from(range.start);
                let end = range
                    .end
                    .checked_next_multiple_of(page)
                    .unwrap_or(range.end);
                GetRange::Bounded(all.start..end.min(all.end).max(all.start + 1))
            }
            Some(GetRange::Offset(start)) => GetRange::Bounded(from(start)),
            // The suffix may begin within a page, which must be requested as a whole.
            Some(GetRange::Suffix(len)) if len <= MAX_FIRST_BYTES => GetRange::Suffix(len + page),
            Some(GetRange::Suffix(_)) => GetRange::Suffix(MAX_FIRST_BYTES),
            None => GetRange::Bounded(from(0)),
        }
    }
}
