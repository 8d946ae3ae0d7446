//! The wrapper and its settings.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
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
use pagewell::frame::FRAME_BYTES;
use pagewell::{Cache, OpenOptions};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::error::{Shared, generic};
use crate::fetch::answer::is_encoded;
use crate::fetch::context;
use crate::fetch::traffic::Traffic;
use crate::identity::Verdict;
use crate::metrics::Metrics;
use crate::objects::changing::Changing;
use crate::objects::closer::Closer;
use crate::objects::known::Known;
use crate::objects::open::{MAX_OPENS, Opener, Source};
#[cfg(test)]
use crate::objects::table::Look;
use crate::objects::table::Table;
use crate::permits::Permits;
use crate::read::answer::Answers;
use crate::read::pieces::{end_of_piece, pieces, whole};
use crate::tier::Namespace;
use crate::tier::disk::Tier;

/// Maximum number of reads of an object that changes during the read.
const TRIES: u32 = 4;

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
    request_timeout: Duration,
    runtime: Option<Handle>,
    disk: Option<(PathBuf, u64)>,
    namespace: Option<String>,
}

impl<T: Wrapped + ?Sized> Builder<T> {
    /// Sets the memory of the cache in bytes, for pages and metadata, and for the tables of a
    /// second tier ([`disk`](Self::disk)). Default: 256 MiB. Each known object takes some 8 KiB
    /// more (see [`most_objects`](Self::most_objects)). The setting has no effect on a cache given
    /// by [`cache`](Self::cache).
    #[must_use]
    pub fn capacity(mut self, bytes: u64) -> Self {
        self.capacity = bytes;
        self
    }

    /// Uses an existing cache, so that several stores, files and spaces share one capacity.
    #[must_use]
    pub fn cache(mut self, cache: Cache) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Sets the page size, the unit in which bytes are read and evicted: 4, 8, 16, 32 or 64 KiB.
    /// Default: 64 KiB, since requests cost more than bytes.
    #[must_use]
    pub fn page_size(mut self, bytes: usize) -> Self {
        self.page_size = bytes;
        self
    }

    /// Sets the time for which the identity of an object is trusted. After that, the next read
    /// requests from the store whether the object is unchanged. Default: a minute. Use
    /// [`Duration::MAX`] for immutable objects, such as the data files of most table formats.
    #[must_use]
    pub fn trust(mut self, trust: Duration) -> Self {
        self.trust = trust;
        self
    }

    /// Sets the maximum number of known objects. If there are more, the least recently used ones
    /// are forgotten, with their pages. Default: 16384. Each object takes some 8 KiB outside the
    /// capacity, about 1.3 KiB of the capacity, and at most one memory mapping of the process. If
    /// the capacity has no space for another object, objects are forgotten, too.
    #[must_use]
    pub fn most_objects(mut self, nr: usize) -> Self {
        self.most_objects = nr;
        self
    }

    /// Sets the maximum number of concurrent requests for metadata and pages. Default: 64. Each
    /// runtime on which requests run has its own limit, since a runtime that does not run must not
    /// block the readers on others; a program with several runtimes has one limit if it sets
    /// [`runtime`](Self::runtime). Requests that are passed on to the store do not count.
    #[must_use]
    pub fn most_requests(mut self, nr: usize) -> Self {
        self.most_requests = nr;
        self
    }

    /// Sets the maximum number of bytes of pages that answers may pin. Answers beyond this limit
    /// are copies. Default: an eighth of the capacity, or 0 with a cache given by
    /// [`cache`](Self::cache).
    #[must_use]
    pub fn most_pinned(mut self, bytes: u64) -> Self {
        self.most_pinned = Some(bytes);
        self
    }

    /// Sets whether a request is sent a second time if it has no answer after three times the usual
    /// latency, but not before 5 ms, and if fewer than [`most_requests`](Self::most_requests) are
    /// in flight then. Default: no.
    #[must_use]
    pub fn hedge(mut self, hedge: bool) -> Self {
        self.hedge = hedge;
        self
    }

    /// Sets the maximum duration of a request for pages, from the time when it is sent to its last
    /// byte, and of all requests together by which an object becomes known or is revalidated.
    /// Default: 30 seconds. A request that takes longer is dropped, and all readers that wait for
    /// it get an error. The time for which a request waits before it is sent does not count.
    /// Requests that are passed on to the store have no limit.
    ///
    /// Retries in the store count. The clients of `object_store` have a limit of 30 seconds for
    /// each try, too (`ClientOptions::with_timeout`). So with both defaults, an answer that does
    /// not come is not requested again: for that, set a shorter limit there or a longer one here.
    #[must_use]
    pub fn request_timeout(mut self, limit: Duration) -> Self {
        self.request_timeout = limit;
        self
    }

    /// Sets the runtime on which requests for metadata and pages run. It must have a timer.
    /// Default: none, so a request runs on the runtime of the reader that begins it. If that
    /// runtime is shut down, other readers repeat the request on theirs. If it is idle, as a
    /// current-thread runtime is outside of `block_on`, they wait until it runs again. So a program
    /// with several runtimes should set one that always runs.
    #[must_use]
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Adds a second tier: fetched pages are also stored in `folder`, at most `bytes` bytes of
    /// them. An object with a strong entity tag is read there when it is opened again, in a later
    /// process if the store has a [`namespace`](Self::namespace). It is then opened by a head, and
    /// by a request for bytes only if the first pages of the read are not in the folder. No other
    /// process may use the folder at the same time. Default: none.
    ///
    /// The tables of these pages take 90 to 120 bytes of memory for each page of `bytes`. They are
    /// part of the capacity, and at most half of it, so a larger tier needs a larger
    /// [`capacity`](Self::capacity) or [`page_size`](Self::page_size). If the cache was given by
    /// [`cache`](Self::cache), they are additional, and at most half of its capacity.
    ///
    /// A thread reads which pages are in the folder. Until it has
    /// ([`nr_disk_loads`](Metrics::nr_disk_loads)), they are requested from the store.
    ///
    /// Copies of the pages to be written use memory in addition to that of the cache: at most a
    /// sixteenth of [`capacity`](Self::capacity), within the bounds of 64 and 65536 pages. Pages
    /// beyond this limit are not stored.
    #[must_use]
    pub fn disk(mut self, folder: impl Into<PathBuf>, bytes: u64) -> Self {
        self.disk = Some((folder.into(), bytes));
        self
    }

    /// Names the wrapped store in the second tier, so that a later process can use the pages that
    /// this one stored. The name must be different for stores with different objects, such as two
    /// buckets, two prefixes of a bucket, and the same bucket of two services: answers of the
    /// store do not distinguish them. A store that gives a tag again to other bytes after a
    /// restart, as [`InMemory`](object_store::memory::InMemory) does, must have no name. Default:
    /// none. Without a name, the folder of the second tier is emptied when it is opened, so no
    /// store gets pages of another.
    #[must_use]
    pub fn namespace(mut self, name: impl Into<String>) -> Self {
        self.namespace = Some(name.into());
        self
    }

    /// Creates the wrapper.
    ///
    /// # Errors
    ///
    /// A setting is out of range, the namespace is empty, there is not enough memory for the cache,
    /// the folder of the second tier cannot be used or is used by another process, or the tables of
    /// the second tier take more than half of the capacity.
    pub fn build(self) -> Result<PagewellStore<T>> {
        let zero = |what: &str| generic(format!("{what} must not be 0"));
        let most_objects =
            NonZeroUsize::new(self.most_objects).ok_or_else(|| zero("the number of objects"))?;
        if self.most_requests == 0 {
            return Err(zero("the number of requests"));
        }
        if self.request_timeout.is_zero() {
            return Err(zero("the maximum duration of a request"));
        }
        if self.namespace.as_deref() == Some("") {
            return Err(generic("the namespace must not be empty"));
        }
        let most_pinned = match (self.most_pinned, &self.cache) {
            (Some(bytes), _) => bytes,
            (None, Some(_)) => 0,
            (None, None) => self.capacity / 8,
        };
        let page_size = self.page_size as u64;
        if !self.page_size.is_power_of_two() || !(4096..=65536).contains(&self.page_size) {
            return Err(generic(format!(
                "invalid page size of {page_size} bytes: must be 4, 8, 16, 32 or 64 KiB"
            )));
        }
        let capacity = match &self.cache {
            Some(cache) => cache.stats().nr_frames as u64 * FRAME_BYTES as u64,
            None => self.capacity,
        };
        let table_bytes = match &self.disk {
            Some((folder, bytes)) => table_bytes(folder, *bytes, page_size as u32, capacity)?,
            None => 0,
        };
        let cache = match self.cache {
            Some(cache) => cache,
            None => Cache::builder()
                .capacity(capacity - table_bytes)
                .build()
                .map_err(generic)?,
        };
        let traffic = Arc::new(Traffic::new(
            self.most_requests,
            self.hedge,
            self.request_timeout,
            self.runtime,
        ));
        let nr_pins = usize::try_from(most_pinned / page_size).unwrap_or(usize::MAX);
        let answers = Answers {
            traffic: Arc::clone(&traffic),
            pins: Arc::new(Semaphore::new(nr_pins.min(Semaphore::MAX_PERMITS))),
        };
        let namespace = Namespace::new(self.namespace);
        let tier = match &self.disk {
            Some((folder, bytes)) => {
                let counters = Arc::clone(&traffic.counters);
                let most_waiting = most_waiting(self.capacity, page_size);
                let tier = Tier::open(
                    folder,
                    *bytes,
                    page_size as u32,
                    namespace.stored(),
                    most_waiting,
                    counters,
                );
                Some(Arc::new(tier.map_err(|error| unusable(folder, error))?))
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
            namespace,
            opens: Permits::new(MAX_OPENS),
            distrusts_heads: AtomicBool::new(false),
        };
        Ok(PagewellStore {
            store: self.store,
            opener: Arc::new(opener),
            answers,
        })
    }
}

enum Begun {
    /// Known object, the requested range of the object, and the first bytes of this range.
    Known(Arc<Known>, Range<u64>, Bytes),
    /// Answer of the store, passed on unchanged because the range is not within the known size of
    /// the object.
    OfStore(GetResult),
}

/// Next step after a failed read of a known object.
enum Next {
    Repeat,
    /// The store is to answer the request itself.
    PassOn,
    Fail,
}

/// Returns the source of pages for a try to read an object.
fn source(nr_tries: u32) -> Source {
    match nr_tries {
        1 => Source::Any,
        _ => Source::Store,
    }
}

/// Returns the answer with a body that ends with an error if it has another length than declared.
/// The length of encoded bytes is not checked.
fn checked(result: GetResult) -> GetResult {
    let GetResult {
        payload,
        meta,
        range,
        attributes,
    } = result;
    let payload = match payload {
        GetResultPayload::Stream(stream) if !is_encoded(&attributes) => {
            let what = format!("{}: bytes {range:?}", meta.location);
            let left = range.end - range.start;
            let checked = stream::unfold(Some((stream, what, left)), |state| async move {
                // `None` after an error.
                let (mut stream, what, left) = state?;
                let failed = |what| generic(format!("{what} were returned with another length"));
                match stream.next().await {
                    Some(Ok(bytes)) => match left.checked_sub(bytes.len() as u64) {
                        Some(left) => Some((Ok(bytes), Some((stream, what, left)))),
                        None => Some((Err(failed(what)), None)),
                    },
                    Some(Err(error)) => Some((Err(error), None)),
                    None if left == 0 => None,
                    None => Some((Err(failed(what)), None)),
                }
            });
            GetResultPayload::Stream(checked.boxed())
        }
        payload => payload,
    };
    GetResult {
        payload,
        meta,
        range,
        attributes,
    }
}

/// Maximum share of the capacity for the tables of the second tier: one half.
const MAX_TABLES: u64 = 2;

/// Returns the memory of the tables of a second tier of `bytes` bytes. Fails if it exceeds its
/// share of `capacity`.
fn table_bytes(folder: &FilePath, bytes: u64, page_size: u32, capacity: u64) -> Result<u64> {
    let table_bytes =
        Tier::table_bytes(bytes, page_size).map_err(|error| unusable(folder, error))?;
    if table_bytes > capacity / MAX_TABLES {
        let error = format!(
            "the tables of {bytes} bytes of pages of {page_size} bytes take {table_bytes} bytes, \
             more than half of the capacity of {capacity} bytes"
        );
        return Err(unusable(folder, error));
    }
    Ok(table_bytes)
}

fn unusable(folder: &FilePath, error: impl fmt::Display) -> Error {
    let folder = folder.display();
    generic(format!(
        "cannot use folder {folder} as second tier: {error}"
    ))
}

/// Returns the maximum number of pages that may wait to be written to the second tier, for a cache
/// of this capacity.
fn most_waiting(capacity: u64, page_size: u64) -> usize {
    let pages = capacity / 16 / page_size;
    usize::try_from(pages.clamp(64, 1 << 16)).unwrap_or(64)
}

impl<T: Wrapped + ?Sized> PagewellStore<T> {
    /// Returns the settings for a cache in front of `store`.
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
            request_timeout: Duration::from_secs(30),
            runtime: None,
            disk: None,
            namespace: None,
        }
    }
}

impl<T: ObjectStore + ?Sized> PagewellStore<T> {
    /// Returns the wrapped store.
    pub fn inner(&self) -> &Arc<T> {
        &self.store
    }

    /// Returns the counters.
    pub fn metrics(&self) -> Metrics {
        self.opener.traffic.counters.read()
    }

    /// Forgets the object at `location` and its pages. Call this after a change that bypassed this
    /// wrapper.
    pub fn forget(&self, location: &Path) {
        self.opener.table.forget(location);
    }

    /// Returns an object that is known and trusted.
    #[cfg(test)]
    pub(crate) fn known(&self, location: &Path) -> Arc<Known> {
        match self.opener.table.look(location) {
            Look::Known(known) => known,
            _ => panic!("{location} is not known"),
        }
    }

    /// Reads the start of `range`. If the object was replaced, repeats the read.
    async fn begin(&self, location: &Path, range: Option<&GetRange>) -> Result<Begun> {
        let mut nr_tries = 0;
        loop {
            nr_tries += 1;
            let known = match self.opener.open(location, range, source(nr_tries)).await {
                Ok(known) => known,
                Err(error) if error.is_for_store() => {
                    return self.pass_on(location, range).await;
                }
                Err(error) => return Err(error.into_store_error()),
            };
            let size = known.state.meta.size;
            let wanted = match range {
                None => 0..size,
                Some(range) => match range.as_range(size) {
                    Ok(range) => range,
                    // The range is not within the known size of the object. The object may have
                    // been replaced since, so this requests the range from the store.
                    Err(_) => {
                        let result = self.ask(location, range).await?;
                        let verdict = known.state.compare(&result.meta);
                        if nr_tries < TRIES && verdict == Verdict::Different {
                            self.opener.table.forget_state(&known);
                            continue;
                        }
                        return Ok(Begun::OfStore(result));
                    }
                },
            };
            let first = wanted.start..end_of_piece(wanted.start, wanted.end);
            let read = if first.is_empty() {
                Ok(Bytes::new())
            } else {
                self.answers.read(&known, first).await
            };
            match read {
                Ok(bytes) => return Ok(Begun::Known(known, wanted, bytes)),
                Err(error) => match self.after(&known, &error, nr_tries) {
                    Next::Repeat => {}
                    Next::PassOn => return self.pass_on(location, range).await,
                    Next::Fail => return Err(error.into_store_error()),
                },
            }
        }
    }

    /// Forgets the state of an object that was replaced during a read, or whose ranges the store
    /// has never returned. Returns what follows the failed read.
    fn after(&self, known: &Arc<Known>, error: &Shared, nr_tries: u32) -> Next {
        let table = &self.opener.table;
        if error.is_of_change() {
            if nr_tries < TRIES {
                table.forget_state(known);
                return Next::Repeat;
            }
            // Servers may disagree about the tag.
            table.pass_on(known, error.clone().into_disputed());
            return Next::PassOn;
        }
        if !error.is_uncacheable() {
            if known.object.has_ranges() || error.is_abandoned() || error.is_timeout() {
                return Next::Fail;
            }
            if known.is_small() && nr_tries < TRIES {
                // The next opening requests the whole object.
                table.forget_state(known);
                return Next::Repeat;
            }
            if known.is_small() {
                return Next::PassOn;
            }
        }
        table.pass_on(known, error.clone().into_uncacheable());
        Next::PassOn
    }

    /// Requests `range` of an object that the cache cannot serve from the store. The answer ends
    /// with an error if it has another number of bytes than it declares.
    async fn pass_on(&self, location: &Path, range: Option<&GetRange>) -> Result<Begun> {
        let options = GetOptions {
            range: range.cloned(),
            extensions: context::extensions(),
            ..GetOptions::default()
        };
        let result = self.store.get_opts(location, options).await?;
        let size = result.meta.size;
        let expected = range.map_or(Ok(0..size), |range| range.as_range(size));
        if expected.map_err(generic)? != result.range {
            return Err(generic(format!(
                "{location}: a request for {range:?} returned bytes {:?} of {size}",
                result.range
            )));
        }
        Ok(Begun::OfStore(checked(result)))
    }

    /// Answers a get of the current state of an object, from the cache where possible.
    async fn answer(&self, location: &Path, range: Option<&GetRange>) -> Result<GetResult> {
        match self.begin(location, range).await? {
            Begun::Known(known, range, first) => {
                let rest = range.start + first.len() as u64..range.end;
                let (meta, attributes) = (known.state.meta.clone(), known.attributes.clone());
                let stream = if rest.is_empty() {
                    stream::once(async { Ok(first) }).boxed()
                } else {
                    pieces(
                        self.answers.clone(),
                        Arc::clone(&self.opener),
                        known,
                        first,
                        rest,
                    )
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

    async fn ask(&self, location: &Path, range: &GetRange) -> Result<GetResult> {
        let options = GetOptions {
            range: Some(range.clone()),
            extensions: context::extensions(),
            ..GetOptions::default()
        };
        self.store.get_opts(location, options).await
    }

    /// Returns the bytes of all `ranges`, which are of one state of the object. If a range is
    /// empty, returns the store's answer, since not all stores accept such a range: its separate
    /// requests may see two states.
    async fn read_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if let Some(Range { start, end }) = ranges.iter().find(|range| range.start > range.end) {
            return Err(generic(format!(
                "cannot read bytes {start}..{end} of {location}: the range ends before it starts"
            )));
        }
        let has_empty = ranges.iter().any(Range::is_empty);
        let first = ranges.iter().find(|range| !range.is_empty());
        let first = first.or(ranges.first()).cloned().map(GetRange::Bounded);
        let mut nr_tries = 0;
        loop {
            nr_tries += 1;
            let opened = self.opener.open(location, first.as_ref(), source(nr_tries));
            let known = match opened.await {
                Ok(known) => known,
                // The separate requests of the store may be answered from several states.
                Err(error) if error.is_disputed() && nr_tries < TRIES => {
                    self.opener.table.forget(location);
                    continue;
                }
                Err(error) if error.is_for_store() && !error.is_disputed() => {
                    return self.store.get_ranges(location, ranges).await;
                }
                Err(error) => return Err(error.into_store_error()),
            };
            let size = known.state.meta.size;
            let error = if self.is_longer_now(location, ranges, size).await? {
                Shared::changed(location)
            } else if has_empty {
                return self.store.get_ranges(location, ranges).await;
            } else {
                // The reads are concurrent, so that missing pages are merged into few requests.
                let reads = ranges
                    .iter()
                    .map(|range| whole(&self.answers, &known, range.start..range.end.min(size)));
                match try_join_all(reads).await {
                    Ok(all) => return Ok(all),
                    Err(error) => error,
                }
            };
            match self.after(&known, &error, nr_tries) {
                Next::Repeat => {}
                // As above.
                Next::PassOn if error.is_of_change() => return Err(error.into_store_error()),
                Next::PassOn => return self.store.get_ranges(location, ranges).await,
                Next::Fail => return Err(error.into_store_error()),
            }
        }
    }

    /// Requests from the store the ranges that start past `size`, the known size of the object; one
    /// byte of a range that is not empty. Returns the store's error, or whether the store has bytes
    /// there, since the object was replaced.
    async fn is_longer_now(
        &self,
        location: &Path,
        ranges: &[Range<u64>],
        size: u64,
    ) -> Result<bool> {
        let is_past =
            |range: &&Range<u64>| range.start >= size.saturating_add(range.is_empty().into());
        for range in ranges.iter().filter(is_past) {
            // Each is requested alone: the default `get_ranges` of `object_store` panics if it
            // merges such a range with another one.
            let end = range.end.min(range.start.saturating_add(1));
            let byte = range.start..end;
            let ranges = std::slice::from_ref(&byte);
            self.store.get_ranges(location, ranges).await?;
            if !range.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether a get is answered from the cache: it requests bytes of the current state, without a
/// condition, a version or `head`.
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
        let _changing = Changing::of(&self.opener, &[location]);
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
            opener: Arc::clone(&self.opener),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if !is_plain(&options) {
            let is_of_now = options.version.is_none();
            let result = self.store.get_opts(location, options).await;
            match &result {
                Ok(result) if is_of_now => {
                    let (meta, attributes) = (&result.meta, &result.attributes);
                    let table = &self.opener.table;
                    table.observe(location, meta, Some(attributes));
                }
                Err(Error::NotFound { .. }) if is_of_now => self.forget(location),
                _ => {}
            }
            return result;
        }
        let answer = self.answer(location, options.range.as_ref());
        context::scope(options.extensions, answer).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if ranges.is_empty() {
            // Some stores fail if the object does not exist.
            return self.store.get_ranges(location, ranges).await;
        }
        self.read_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let before = Arc::new(Changing::new(&self.opener));
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
        let opener = Arc::clone(&self.opener);
        let list = self.store.list(prefix);
        list.inspect_ok(move |meta| opener.table.observe(&meta.location, meta, None))
            .boxed()
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let opener = Arc::clone(&self.opener);
        let list = self.store.list_with_offset(prefix, offset);
        list.inspect_ok(move |meta| opener.table.observe(&meta.location, meta, None))
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let list = self.store.list_with_delimiter(prefix).await?;
        for meta in &list.objects {
            self.opener.table.observe(&meta.location, meta, None);
        }
        Ok(list)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let _changing = Changing::of(&self.opener, &[to]);
        self.store.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let _changing = Changing::of(&self.opener, &[from, to]);
        self.store.rename_opts(from, to, options).await
    }
}

/// Multipart upload. When it completes, it replaces the object, so the known state is forgotten.
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
