//! A store that counts how long its readers wait for bytes.

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

/// How long readers have waited, all together.
#[derive(Debug, Default)]
pub(crate) struct Waited {
    nanoseconds: AtomicU64,
}

impl Waited {
    async fn during<F: Future>(&self, future: F) -> F::Output {
        let begun = Instant::now();
        let output = future.await;
        let nanoseconds = begun.elapsed().as_nanos() as u64;
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        output
    }

    pub(crate) fn all(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }
}

/// A store whose reads are timed, from the call to the last byte.
#[derive(Debug)]
pub(crate) struct Reads {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) waited: Arc<Waited>,
}

impl fmt::Display for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for Reads {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.store.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (is_head, is_range) = (options.head, options.range.is_some());
        let mut result = self
            .waited
            .during(self.store.get_opts(location, options))
            .await?;
        if is_head {
            return Ok(result);
        }
        if is_range && matches!(result.payload, GetResultPayload::File(..)) {
            // A range of a file is read at once.
            let (meta, attributes, range) = (
                result.meta.clone(),
                result.attributes.clone(),
                result.range.clone(),
            );
            let bytes = self.waited.during(result.bytes()).await?;
            let payload = GetResultPayload::Stream(stream::once(async { Ok(bytes) }).boxed());
            return Ok(GetResult {
                payload,
                meta,
                range,
                attributes,
            });
        }
        if let GetResultPayload::Stream(stream) = result.payload {
            let state = (stream, Arc::clone(&self.waited));
            let timed = stream::unfold(state, |(mut stream, waited)| async move {
                let next = waited.during(stream.next()).await?;
                Some((next, (stream, waited)))
            });
            result.payload = GetResultPayload::Stream(timed.boxed());
        }
        Ok(result)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.waited
            .during(self.store.get_ranges(location, ranges))
            .await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.store.rename_opts(from, to, options).await
    }
}
