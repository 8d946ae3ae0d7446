//! The wrapper, and its settings.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::try_join_all;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, RenameOptions, Result, UploadPart,
};
use pagewell::{Cache, OpenOptions};
use tokio::sync::Semaphore;

use crate::error::{Shared, generic};
use crate::fetch::same::is_same;
use crate::fetch::traffic::Traffic;
use crate::metrics::Metrics;
use crate::objects::closer::Closer;
use crate::objects::known::Known;
use crate::objects::open::Opener;
use crate::objects::table::Table;
use crate::read::answer::Answers;
use crate::read::pieces::{end_of_piece, pieces, whole};
use crate::tier::disk::Tier;

/// How often an object that changes while it is being read is read again.
const TRIES: u32 = 4;

/// A store that can be wrapped: any [`ObjectStore`], and `dyn ObjectStore` itself.
pub trait Wrapped: ObjectStore {
    /// The same store, of no particular type.
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

/// An object store behind a bounded cache of pages. It is cheap to clone; clones have one cache.
///
/// A store whose type is known only at run time is wrapped as it is:
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
    opener: Arc<Opener>,
    answers: Answers,
}

impl<T: ObjectStore + ?Sized> Clone for PagewellStore<T> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            opener: Arc::clone(&self.opener),
            answers: self.answers.clone(),
        }
    }
}

impl<T: ObjectStore + ?Sized> fmt::Debug for PagewellStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagewellStore")
            .field("store", &self.store)
            .field("objects", &self.opener.table.len())
            .finish_non_exhaustive()
    }
}

impl<T: ObjectStore + ?Sized> fmt::Display for PagewellStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pagewell({})", self.store)
    }
}

/// Settings of a [`PagewellStore`].
#[derive(Debug)]
pub struct Builder<T: ?Sized> {
    store: Arc<T>,
    cache: Option<Cache>,
    capacity: u64,
    page_size: usize,
    trust: Duration,
    most_objects: usize,
    most_requests: usize,
    most_pinned: Option<u64>,
    hedge: bool,
    disk: Option<(PathBuf, u64)>,
}

impl<T: Wrapped + ?Sized> Builder<T> {
    /// How many bytes of memory the cache takes: pages, and what is known of them. By default 256 MiB. Beside these, each object that is known takes some 8 KiB
    /// (see [`most_objects`](Self::most_objects)). Not asked for with [`cache`](Self::cache).
    #[must_use]
    pub fn capacity(mut self, bytes: u64) -> Self {
        self.capacity = bytes;
        self
    }

    /// A cache that others use too: several stores, files, spaces have one capacity then.
    #[must_use]
    pub fn cache(mut self, cache: Cache) -> Self {
        self.cache = Some(cache);
        self
    }

    /// How many bytes are read and evicted together: 4, 8, 16, 32 or 64 KiB. By default 64 KiB, since requests cost more than bytes.
    #[must_use]
    pub fn page_size(mut self, bytes: usize) -> Self {
        self.page_size = bytes;
        self
    }

    /// How long what is known of an object is believed before the store is asked whether it is still the same. By default a minute. [`Duration::MAX`] for objects that
    /// are never changed, as those of most tables are.
    #[must_use]
    pub fn trust(mut self, trust: Duration) -> Self {
        self.trust = trust;
        self
    }

    /// How many objects are known at once; of those beyond, the least recently used are forgotten, with their pages. By default 16384. Each takes some 8 KiB beside the
    /// capacity, at most a mapping of the process, and about 1.3 KiB of the capacity; if that does not suffice for one more, objects are forgotten too.
    #[must_use]
    pub fn most_objects(mut self, nr: usize) -> Self {
        self.most_objects = nr;
        self
    }

    /// How many requests for pages are made at once. By default 64.
    #[must_use]
    pub fn most_requests(mut self, nr: usize) -> Self {
        self.most_requests = nr;
        self
    }

    /// How many bytes of pages may be given without a copy at once. By default an eighth of the capacity, or nothing if the cache was given.
    #[must_use]
    pub fn most_pinned(mut self, bytes: u64) -> Self {
        self.most_pinned = Some(bytes);
        self
    }

    /// Whether a request that has had no answer for three times the usual time is made once more. By default not.
    #[must_use]
    pub fn hedge(mut self, hedge: bool) -> Self {
        self.hedge = hedge;
        self
    }

    /// A second tier: pages that were fetched are kept in `folder` too, at most so many bytes of them, and are found there again by the next process. Nobody else may use the folder.
    /// By default none.
    ///
    /// Copies of pages on their way there take memory beside the cache's: a sixteenth of [`capacity`](Self::capacity), or 64 pages. What comes
    /// while as many wait is not kept there.
    #[must_use]
    pub fn disk(mut self, folder: impl Into<PathBuf>, bytes: u64) -> Self {
        self.disk = Some((folder.into(), bytes));
        self
    }

    /// The wrapper.
    ///
    /// # Errors
    ///
    /// When a setting is out of its range, there is no memory for the cache, or the folder of the second tier cannot be used, or is used by another process.
    pub fn build(self) -> Result<PagewellStore<T>> {
        let zero = |what: &str| generic(format!("{what} must not be 0"));
        let most_objects =
            NonZeroUsize::new(self.most_objects).ok_or_else(|| zero("the number of objects"))?;
        if self.most_requests == 0 {
            return Err(zero("the number of requests"));
        }
        let most_pinned = match (self.most_pinned, &self.cache) {
            (Some(bytes), _) => bytes,
            (None, Some(_)) => 0,
            (None, None) => self.capacity / 8,
        };
        let cache = match self.cache {
            Some(cache) => cache,
            None => Cache::builder()
                .capacity(self.capacity)
                .build()
                .map_err(generic)?,
        };
        let page_size = self.page_size as u64;
        if !self.page_size.is_power_of_two() || !(4096..=65536).contains(&self.page_size) {
            return Err(generic(format!(
                "a page of {page_size} bytes; it can have 4, 8, 16, 32 or 64 KiB"
            )));
        }
        let most_requests = self.most_requests.min(Semaphore::MAX_PERMITS);
        let traffic = Arc::new(Traffic::new(most_requests, self.hedge));
        let nr_pins = usize::try_from(most_pinned / page_size).unwrap_or(usize::MAX);
        let answers = Answers {
            traffic: Arc::clone(&traffic),
            pins: Arc::new(Semaphore::new(nr_pins.min(Semaphore::MAX_PERMITS))),
        };
        let tier = match &self.disk {
            Some((folder, bytes)) => {
                let counters = Arc::clone(&traffic.counters);
                let most_waiting = most_waiting(self.capacity, page_size);
                let tier = Tier::open(folder, *bytes, page_size as u32, most_waiting, counters);
                let failed = |error| {
                    generic(format!(
                        "cannot use {} as a second tier: {error}",
                        folder.display()
                    ))
                };
                Some(Arc::new(tier.map_err(failed)?))
            }
            None => None,
        };
        let opener = Opener {
            store: T::any(Arc::clone(&self.store)),
            cache,
            options: OpenOptions::new().page_size(self.page_size),
            page_size,
            table: Table::new(most_objects, self.trust, Arc::clone(&traffic)),
            traffic,
            closer: Closer::new()?,
            tier,
        };
        Ok(PagewellStore {
            store: self.store,
            opener: Arc::new(opener),
            answers,
        })
    }
}

/// What a get has come to so far.
enum Begun {
    /// Of a known object: this range of it, which begins with these bytes.
    Known(Arc<Known>, Range<u64>, Bytes),
    /// The object has no such range, as far as is known, and the store gave this of the same object.
    OfStore(GetResult),
}

/// How many pages may be on their way to the second tier, beside a cache of so many bytes.
fn most_waiting(capacity: u64, page_size: u64) -> usize {
    let pages = capacity / 16 / page_size;
    usize::try_from(pages.clamp(64, 1 << 16)).unwrap_or(64)
}

impl<T: Wrapped + ?Sized> PagewellStore<T> {
    /// Settings for a cache in front of `store`.
    pub fn builder(store: Arc<T>) -> Builder<T> {
        Builder {
            store,
            cache: None,
            capacity: 256 << 20,
            page_size: 64 << 10,
            trust: Duration::from_mins(1),
            most_objects: 16 << 10,
            most_requests: 64,
            most_pinned: None,
            hedge: false,
            disk: None,
        }
    }
}

impl<T: ObjectStore + ?Sized> PagewellStore<T> {
    /// The store behind.
    pub fn inner(&self) -> &Arc<T> {
        &self.store
    }

    /// What was done so far.
    pub fn metrics(&self) -> Metrics {
        self.opener.traffic.counters.read()
    }

    /// Forgets what is known of `location`, with its pages: after a change that did not go through this.
    pub fn forget(&self, location: &Path) {
        self.opener.table.forget(location);
    }

    /// Reads the beginning of `range`, and again if the object is found to be another one.
    async fn begin(&self, location: &Path, range: Option<&GetRange>) -> Result<Begun> {
        let mut nr_tries = 0;
        loop {
            nr_tries += 1;
            let opened = self.opener.open(location, range).await;
            let known = opened.map_err(Shared::into_store_error)?;
            let size = known.meta.size;
            let range = match range {
                None => 0..size,
                Some(range) => match range.as_range(size) {
                    Ok(range) => range,
                    // For the store itself to say.
                    Err(_) => {
                        let result = self.ask(location, range).await?;
                        if nr_tries < TRIES && !is_same(&known.meta, &result.meta) {
                            self.opener.table.forget_state(&known);
                            continue;
                        }
                        return Ok(Begun::OfStore(result));
                    }
                },
            };
            let first = range.start..end_of_piece(range.start, range.end);
            let read = if first.is_empty() {
                Ok(Bytes::new())
            } else {
                self.answers.read(&known, first).await
            };
            match read {
                Ok(bytes) => return Ok(Begun::Known(known, range, bytes)),
                Err(error) if error.is_of_change() && nr_tries < TRIES => {
                    self.opener.table.forget_state(&known);
                }
                Err(error) => {
                    if error.is_of_change() {
                        self.opener.table.forget_state(&known);
                    }
                    return Err(error.into_store_error());
                }
            }
        }
    }

    /// What the store gives itself.
    async fn ask(&self, location: &Path, range: &GetRange) -> Result<GetResult> {
        let options = GetOptions {
            range: Some(range.clone()),
            ..GetOptions::default()
        };
        self.store.get_opts(location, options).await
    }

    /// All of `ranges`, of one state of the object.
    async fn read_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let ranges: Vec<_> = ranges.iter().cloned().map(GetRange::Bounded).collect();
        let mut nr_tries = 0;
        loop {
            nr_tries += 1;
            let opened = self.opener.open(location, ranges.first()).await;
            let known = opened.map_err(Shared::into_store_error)?;
            let mut in_object = Vec::with_capacity(ranges.len());
            for range in &ranges {
                match range.as_range(known.meta.size) {
                    Ok(range) => in_object.push(range),
                    Err(_) => break,
                }
            }
            let error = if let Some(range) = ranges.get(in_object.len()) {
                // The object has no such range, as far as is known: for the store itself to say.
                self.ask(location, range).await?;
                Shared::changed(location)
            } else {
                // All at once, so that what is missing goes into as few requests as pay.
                let reads = in_object
                    .into_iter()
                    .map(|range| whole(&self.answers, &known, range));
                match try_join_all(reads).await {
                    Ok(all) => return Ok(all),
                    Err(error) => error,
                }
            };
            if error.is_of_change() {
                self.opener.table.forget_state(&known);
                if nr_tries < TRIES {
                    continue;
                }
            }
            return Err(error.into_store_error());
        }
    }
}

/// Whether a get asks for bytes of whatever the object is now.
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
        // Before and after: what is read meanwhile may be either, and an error says nothing of what was done.
        self.forget(location);
        let result = self.store.put_opts(location, payload, options).await;
        self.forget(location);
        result
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
            opener: Arc::clone(&self.opener),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if !is_plain(&options) {
            let is_of_now = options.version.is_none();
            let result = self.store.get_opts(location, options).await;
            match &result {
                Ok(result) if is_of_now => self.opener.table.observe(&result.meta),
                Err(Error::NotFound { .. }) if is_of_now => self.forget(location),
                _ => {}
            }
            return result;
        }
        match self.begin(location, options.range.as_ref()).await? {
            Begun::Known(known, range, first) => {
                let rest = range.start + first.len() as u64..range.end;
                let (meta, attributes) = (known.meta.clone(), known.attributes.clone());
                let stream = if rest.is_empty() {
                    stream::once(async { Ok(first) }).boxed()
                } else {
                    pieces(self.answers.clone(), known, first, rest)
                };
                Ok(GetResult {
                    payload: GetResultPayload::Stream(stream),
                    meta,
                    range,
                    attributes,
                })
            }
            Begun::OfStore(result) => Ok(result),
        }
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if ranges.is_empty() {
            return Ok(Vec::new());
        }
        self.read_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (before, after) = (Arc::clone(&self.opener), Arc::clone(&self.opener));
        let locations = locations.inspect_ok(move |location| before.table.forget(location));
        let deleted = self.store.delete_stream(locations.boxed());
        deleted
            .inspect_ok(move |location| after.table.forget(location))
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let opener = Arc::clone(&self.opener);
        let list = self.store.list(prefix);
        list.inspect_ok(move |meta| opener.table.observe(meta))
            .boxed()
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let opener = Arc::clone(&self.opener);
        let list = self.store.list_with_offset(prefix, offset);
        list.inspect_ok(move |meta| opener.table.observe(meta))
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let list = self.store.list_with_delimiter(prefix).await?;
        for meta in &list.objects {
            self.opener.table.observe(meta);
        }
        Ok(list)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.forget(to);
        let result = self.store.copy_opts(from, to, options).await;
        self.forget(to);
        result
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.forget(from);
        self.forget(to);
        let result = self.store.rename_opts(from, to, options).await;
        self.forget(from);
        self.forget(to);
        result
    }
}

/// An upload in parts, after which the object is another one.
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
        self.opener.table.forget(&self.location);
        let result = self.upload.complete().await;
        self.opener.table.forget(&self.location);
        result
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.abort().await
    }
}
