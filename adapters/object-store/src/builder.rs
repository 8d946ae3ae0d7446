//! Settings of the wrapper.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use object_store::{Error, Result};
use pagewell::frame::FRAME_BYTES;
use pagewell::{Cache, OpenOptions};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::error::generic;
use crate::fetch::traffic::Traffic;
use crate::objects::closer::Closer;
use crate::objects::open::{MAX_OPENS, Opener};
use crate::objects::table::Table;
use crate::permits::Permits;
use crate::read::answer::Answers;
use crate::read::gets::Gets;
use crate::store::{PagewellStore, Wrapped};
use crate::tier::Namespace;
use crate::tier::disk::Tier;

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

impl<T: Wrapped + ?Sized> Builder<T> {
    /// Sets the memory of the cache in bytes, for pages and metadata, and for the tables of a
    /// second tier ([`disk`](Self::disk)). Default: 256 MiB. Each known object takes some 8 KiB
    /// more (see [`most_objects`](Self::most_objects)). Ignored if [`cache`](Self::cache) is set.
    #[must_use]
    pub fn capacity(mut self, bytes: u64) -> Self {
        self.capacity = bytes;
        self
    }

    /// Uses an existing cache, whose capacity several stores, files and spaces can share.
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

    /// Sets the time for which the known state of an object is trusted. The first read after that
    /// checks with the store whether the object is unchanged. Default: a minute. Use
    /// [`Duration::MAX`] for immutable objects, such as the data files of most table formats.
    #[must_use]
    pub fn trust(mut self, trust: Duration) -> Self {
        self.trust = trust;
        self
    }

    /// Sets the maximum number of known objects. Beyond it, or if the capacity has no space for
    /// another object, the least recently used ones are forgotten, with their pages. Default:
    /// 16384. Each object takes some 8 KiB outside the capacity, about 1.3 KiB of the capacity, and
    /// at most one memory mapping of the process.
    #[must_use]
    pub fn most_objects(mut self, nr: usize) -> Self {
        self.most_objects = nr;
        self
    }

    /// Sets the maximum number of concurrent requests for metadata and pages. Default: 64. Each
    /// runtime on which requests run has its own limit, so that an idle runtime does not block
    /// readers on others. A program with several runtimes has one limit if it sets
    /// [`runtime`](Self::runtime). Requests that are passed on to the store do not count.
    #[must_use]
    pub fn most_requests(mut self, nr: usize) -> Self {
        self.most_requests = nr;
        self
    }

    /// Sets the maximum number of bytes of pages that answers may pin. Further answers are copies.
    /// Default: an eighth of the capacity, or 0 with a cache given by [`cache`](Self::cache).
    #[must_use]
    pub fn most_pinned(mut self, bytes: u64) -> Self {
        self.most_pinned = Some(bytes);
        self
    }

    /// Sets whether a request is sent a second time if it has no answer after three times the usual
    /// latency, and at least 5 ms. It is sent again only if fewer than
    /// [`most_requests`](Self::most_requests) are in flight. Default: no.
    #[must_use]
    pub fn hedge(mut self, hedge: bool) -> Self {
        self.hedge = hedge;
        self
    }

    /// Sets the maximum duration of a request for pages, from its start to its last byte, and of
    /// all requests together that open or revalidate an object. Default: 30 seconds. A request that
    /// takes longer is dropped, and all readers that wait for it get an error. The wait for
    /// [`most_requests`](Self::most_requests) does not count. Passed-on requests have no limit.
    ///
    /// Retries in the store count. The clients of `object_store` limit each try to 30 seconds by
    /// default (`ClientOptions::with_timeout`), so with both defaults a request without an answer
    /// is not retried. To allow retries, set a shorter limit in the client or a longer one here.
    #[must_use]
    pub fn request_timeout(mut self, limit: Duration) -> Self {
        self.request_timeout = limit;
        self
    }

    /// Sets the runtime on which requests for metadata and pages run. It must have a timer.
    /// Default: none, so a request runs on the runtime of the reader that begins it. If that
    /// runtime is shut down, other readers repeat the request on theirs. If it is idle, as a
    /// current-thread runtime is outside of `block_on`, they wait for it. So a program with several
    /// runtimes should set one that always runs.
    #[must_use]
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Adds a second tier: at most `bytes` bytes of fetched pages are also stored in `folder`. If
    /// an object with a strong entity tag is opened again, its pages are read from there, by a
    /// later process only if the store has a [`namespace`](Self::namespace). Such an object is
    /// opened by a request for metadata, and bytes are requested only if the first pages of the
    /// read are not in the folder. No other process may use the folder. Default: none.
    ///
    /// The tables of these pages take 90 to 120 bytes of memory for each page that `bytes` can
    /// hold. They are part of the capacity, and at most half of it, so a larger tier needs a larger
    /// [`capacity`](Self::capacity) or [`page_size`](Self::page_size). With a cache given by
    /// [`cache`](Self::cache), they are additional, and at most half of its capacity.
    ///
    /// A thread reads the list of the pages in the folder. Until it has finished
    /// ([`nr_disk_loads`](crate::Metrics::nr_disk_loads)), all pages are requested from the store.
    ///
    /// Pages that wait to be written to the folder are copies outside the capacity. At most a
    /// sixteenth of the capacity (of the given cache's, with [`cache`](Self::cache)) waits; this
    /// limit is at least 64 and at most 65536 pages. Further pages are not stored.
    #[must_use]
    pub fn disk(mut self, folder: impl Into<PathBuf>, bytes: u64) -> Self {
        self.disk = Some((folder.into(), bytes));
        self
    }

    /// Names the wrapped store in the second tier, so that a later process can use the stored
    /// pages. Stores with different objects (two buckets, two prefixes of a bucket, the same bucket
    /// of two services) must have different names: their answers do not distinguish them. A store
    /// that reuses tags for other bytes after a restart, as
    /// [`InMemory`](object_store::memory::InMemory) does, must have no name. Default: none. If the
    /// store has no name, the folder of the tier is emptied when the wrapper is created.
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
    /// the folder of the second tier cannot be used or is in use, or its tables take more than half
    /// of the capacity.
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
            Some((folder, bytes)) => Tier::table_bytes(*bytes, page_size as u32, capacity)
                .map_err(|error| unusable(folder, error))?,
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
                let most_waiting = most_waiting(capacity, page_size);
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
        };
        let opener = Arc::new(opener);
        Ok(PagewellStore::new(self.store, Gets { opener, answers }))
    }
}

fn unusable(folder: &FilePath, error: impl fmt::Display) -> Error {
    let folder = folder.display();
    generic(format!(
        "cannot use folder {folder} as second tier: {error}"
    ))
}

/// Returns the maximum number of pages that may wait to be written to the second tier.
fn most_waiting(capacity: u64, page_size: u64) -> usize {
    let pages = capacity / 16 / page_size;
    usize::try_from(pages.clamp(64, 1 << 16)).unwrap_or(64)
}
