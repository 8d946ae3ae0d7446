//! The wrapper.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
    UploadPart,
};

use crate::fetch::context;
use crate::metrics::Metrics;
use crate::objects::changing::Changing;
use crate::objects::open::Opener;
use crate::read::gets::Gets;

/// Store that can be wrapped: any [`ObjectStore`], and `dyn ObjectStore` itself.
pub trait Wrapped: ObjectStore {
    /// Returns the store as a trait object.
    fn any(self: Arc<Self>) -> Arc<dyn ObjectStore>;
}

impl<T: ObjectStore> Wrapped for T {
    fn any(self: Arc<Self>) -> Arc<dyn ObjectStore> {
        self
    }
}

impl Wrapped for dyn ObjectStore {
    fn any(self: Arc<Self>) -> Arc<dyn ObjectStore> {
        self
    }
}

/// Object store with a bounded page cache. Clones are cheap and share the cache.
///
/// A store whose type is known only at run time can be wrapped as well:
///
/// ```
/// # use std::sync::Arc;
/// # use object_store::{ObjectStore, memory::InMemory};
/// # use pagewell_object_store::PagewellStore;
/// let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
/// let store: PagewellStore<dyn ObjectStore> = PagewellStore::builder(store).build()?;
/// # Ok::<(), object_store::Error>(())
/// ```
pub struct PagewellStore<T: ObjectStore + ?Sized> {
    store: Arc<T>,
    gets: Gets,
}

impl<T: ObjectStore + ?Sized> Clone for PagewellStore<T> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            gets: self.gets.clone(),
        }
    }
}

impl<T: ObjectStore + ?Sized> fmt::Debug for PagewellStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagewellStore")
            .field("store", &self.store)
            .field("objects", &self.opener().table.len())
            .finish_non_exhaustive()
    }
}

impl<T: ObjectStore + ?Sized> fmt::Display for PagewellStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pagewell({})", self.store)
    }
}

impl<T: ObjectStore + ?Sized> PagewellStore<T> {
    pub(crate) fn new(store: Arc<T>, gets: Gets) -> Self {
        Self { store, gets }
    }

    fn opener(&self) -> &Arc<Opener> {
        &self.gets.opener
    }

    /// Returns the wrapped store.
    pub fn inner(&self) -> &Arc<T> {
        &self.store
    }

    /// Returns the counters.
    pub fn metrics(&self) -> Metrics {
        self.opener().traffic.counters.read()
    }

    /// Forgets the object at `location` and its pages, after a change that bypassed this wrapper.
    pub fn forget(&self, location: &Path) {
        self.opener().table.forget(location);
    }

    #[cfg(test)]
    pub(crate) fn known(&self, location: &Path) -> Arc<crate::objects::known::Known> {
        use crate::objects::table::Look;
        match self.opener().table.look(location) {
            Look::Known(known) => known,
            _ => panic!("{location} is not known"),
        }
    }
}

/// Returns `true` if the cache answers a get: it has no condition and no version, and is no head.
fn is_plain(options: &GetOptions) -> bool {
    options.if_match.is_none()
        && options.if_none_match.is_none()
        && options.if_modified_since.is_none()
        && options.if_unmodified_since.is_none()
        && options.version.is_none()
        && !options.head
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<T: ObjectStore + ?Sized> ObjectStore for PagewellStore<T> {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let _changing = Changing::of(self.opener(), &[location]);
        self.store.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let upload = self.store.put_multipart_opts(location, options).await?;
        Ok(Box::new(Upload {
            upload,
            location: location.clone(),
            opener: Arc::clone(self.opener()),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if !is_plain(&options) {
            let is_of_now = options.version.is_none();
            let result = self.store.get_opts(location, options).await;
            match &result {
                Ok(result) if is_of_now => {
                    let (meta, attributes) = (&result.meta, &result.attributes);
                    let table = &self.opener().table;
                    table.observe(location, meta, Some(attributes));
                }
                Err(Error::NotFound { .. }) if is_of_now => self.forget(location),
                _ => {}
            }
            return result;
        }
        let answer = self.gets.answer(location, options.range.as_ref());
        context::scope(options.extensions, answer).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if ranges.is_empty() {
            // Some stores fail if the object does not exist.
            return self.store.get_ranges(location, ranges).await;
        }
        self.gets.read_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let before = Arc::new(Changing::new(self.opener()));
        let after = Arc::clone(&before);
        let locations = locations.inspect_ok(move |location| before.begin(location));
        let deleted = self.store.delete_stream(locations.boxed());
        deleted
            .inspect(move |result| match result {
                Ok(location) => after.end(location),
                Err(_) => after.forget_all(),
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let opener = Arc::clone(self.opener());
        let list = self.store.list(prefix);
        list.inspect_ok(move |meta| opener.table.observe(&meta.location, meta, None))
            .boxed()
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let opener = Arc::clone(self.opener());
        let list = self.store.list_with_offset(prefix, offset);
        list.inspect_ok(move |meta| opener.table.observe(&meta.location, meta, None))
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let list = self.store.list_with_delimiter(prefix).await?;
        for meta in &list.objects {
            self.opener().table.observe(&meta.location, meta, None);
        }
        Ok(list)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let _changing = Changing::of(self.opener(), &[to]);
        self.store.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let _changing = Changing::of(self.opener(), &[from, to]);
        self.store.rename_opts(from, to, options).await
    }
}

/// Multipart upload, whose completion replaces the object.
struct Upload {
    upload: Box<dyn MultipartUpload>,
    location: Path,
    opener: Arc<Opener>,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.upload.fmt(f)
    }
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.upload.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let _changing = Changing::of(&self.opener, &[&self.location]);
        self.upload.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.abort().await
    }
}
