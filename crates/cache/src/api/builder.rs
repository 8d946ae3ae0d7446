use std::time::Duration;

use pagewell_frame::{
    FRAME_BYTES, FrameMeta, FramePool, HugePages, MAX_FRAMES, Nodes, PoolConfig, PoolError,
};
use pagewell_io::engine::Settings;
use pagewell_io::pools::Engines;

use crate::api::cache::Cache;
use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page::PageSize;
use crate::base::system;
use crate::dirty::pressure::Limits;
use crate::files::serve::files_with;
use crate::supply::queues::{Eviction, Queues};

/// Minimum number of frames. In a smaller cache, a few threads could hold all frames at once.
const MIN_FRAMES: u64 = 16;

/// Memory for one frame, in bytes: its bytes, its metadata, and the state of the eviction policy.
const FRAME_COST: u64 = (FRAME_BYTES + size_of::<FrameMeta>() + Queues::FRAME_COST) as u64;

/// Settings of a cache.
#[derive(Clone, Debug)]
pub struct Builder {
    capacity: u64,
    page_size: usize,
    huge_pages: HugePages,
    nodes: Nodes,
    dirty_limit: Option<u64>,
    max_dirty_age: Duration,
    stall_timeout: Duration,
    close_timeout: Duration,
    engine: Settings,
    #[cfg(feature = "simulated")]
    given: Option<std::sync::Arc<dyn pagewell_io::engine::Engine>>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            capacity: 64 << 20,
            page_size: PageSize::SMALLEST.bytes(),
            huge_pages: HugePages::default(),
            nodes: Nodes::default(),
            dirty_limit: None,
            max_dirty_age: Limits::AGE,
            stall_timeout: Limits::STALL,
            close_timeout: Limits::CLOSE,
            engine: Settings::default(),
            #[cfg(feature = "simulated")]
            given: None,
        }
    }
}

impl Builder {
    /// Sets the memory that the cache may use, in bytes: pages, index and metadata together, not
    /// counting a few hundred bytes for each handle and the stacks of the threads. Default: 64 MiB.
    /// Minimum: 16 frames (65 KiB). Maximum: the memory of the machine, or the limit of the
    /// process's control group (versions 1 and 2) if that is smaller.
    #[must_use]
    pub fn capacity(mut self, bytes: u64) -> Self {
        self.capacity = bytes;
        self
    }

    /// Sets the default page size of files in bytes: 4 (the default), 8, 16, 32 or 64 KiB.
    #[must_use]
    pub fn page_size(mut self, bytes: usize) -> Self {
        self.page_size = bytes;
        self
    }

    /// Sets whether the cache requests huge pages for its memory. Default: [`HugePages::Advise`].
    ///
    /// Huge pages cause fewer TLB misses, which saves 2 to 29 % of the time of random reads and
    /// pins in caches of 16 MiB to 1 GiB (`docs/benchmarks.md`), but none of repeated reads of a
    /// few pages. While the cache fills, it uses more memory than its pages need, by up to 2 MiB
    /// for each memory node. The first use of each 2 MiB takes longer: the system zeroes them, and
    /// may have to compact memory before. A program that has many small caches, or cannot accept
    /// these delays, sets [`HugePages::Never`].
    #[must_use]
    pub fn huge_pages(mut self, huge_pages: HugePages) -> Self {
        self.huge_pages = huge_pages;
        self
    }

    /// Sets the memory nodes over which the cache is spread. Default: [`Nodes::Machine`].
    #[must_use]
    pub fn nodes(mut self, nodes: Nodes) -> Self {
        self.nodes = nodes;
        self
    }

    /// Sets the number of bytes of all files together that may be dirty or unsynced (written, and
    /// not known to be durable). Default: half of the capacity. Maximum: three quarters. The quota
    /// of one file is the part of this limit that is still free: one file gets half of the limit, a
    /// second a quarter, so a file that cannot be written back leaves space for others. The quota
    /// is at least one page, and usually a few while less than three quarters of the capacity is
    /// not durable. At the quota, a write to a clean page waits until other pages are durable.
    #[must_use]
    pub fn dirty_limit(mut self, bytes: u64) -> Self {
        self.dirty_limit = Some(bytes);
        self
    }

    /// Sets the age at which the cache makes written data durable on its own, so that pages can be
    /// evicted ([`Writeback::Background`](crate::Writeback::Background)). Default: 30 seconds, as
    /// for Linux's `dirty_expire_centisecs`. The cache checks five times a second.
    #[must_use]
    pub fn max_dirty_age(mut self, age: Duration) -> Self {
        self.max_dirty_age = age;
        self
    }

    /// Sets the time after which a call of a backend or of a writeback callback counts as stalled.
    /// If a file is at its quota of dirty bytes ([`dirty_limit`](Self::dirty_limit)) and a call for
    /// it is stalled, a write to it fails with [`Throttled`](ErrorKind::Throttled). If calls
    /// return, however slowly, the write waits. So that calls return in time, the cache syncs a
    /// file with background writeback whenever a sync of the bytes written so far would take about
    /// a quarter of this time. Default: 0.9 seconds.
    #[must_use]
    pub fn stall_timeout(mut self, timeout: Duration) -> Self {
        self.stall_timeout = timeout;
        self
    }

    /// Sets the time for which the last close of a file, or the drop of its last handle, retries if
    /// the backend, the writeback callback or the page codec fails. The time runs from the first
    /// attempt, but calls in progress are not interrupted. The drop of the cache waits for io_uring
    /// requests in flight for the same time. Default: one second.
    #[must_use]
    pub fn close_timeout(mut self, timeout: Duration) -> Self {
        self.close_timeout = timeout;
        self
    }

    /// Sets the engine for concurrent transfers: batches of reads, readahead, futures, writeback.
    /// Default: io_uring, or threads if the system has none ([`Cache::info`] returns the reason).
    /// It is created at its first use, or by [`build`](Self::build) if it has no fallback. A thread
    /// that misses a single page performs the transfer itself.
    /// [`close_timeout`](Self::close_timeout) replaces the timeout in the settings for io_uring.
    #[must_use]
    pub fn engine(mut self, settings: Settings) -> Self {
        self.engine = settings;
        self
    }

    /// Sets the engine as an object, for simulations.
    #[cfg(feature = "simulated")]
    #[must_use]
    pub fn given_engine(mut self, engine: std::sync::Arc<dyn pagewell_io::engine::Engine>) -> Self {
        self.given = Some(engine);
        self
    }

    /// Creates the cache. Its address space is reserved now, and memory is used as pages are read.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) or
    /// [`InvalidPageSize`](ErrorKind::InvalidPageSize) if a setting is out of range,
    /// [`OutOfMemory`](ErrorKind::OutOfMemory) if the system refuses memory,
    /// [`Unavailable`](ErrorKind::Unavailable) if it refuses an [engine](Self::engine) without
    /// fallback.
    pub fn build(self) -> Result<Cache, Error> {
        let invalid =
            |detail: String| Error::new(ErrorKind::InvalidConfig, Op::Build).with_detail(detail);
        let page_size = PageSize::checked(self.page_size, Op::Build)?;
        let nr_frames = self.capacity / FRAME_COST;
        if nr_frames < MIN_FRAMES {
            return Err(invalid(format!(
                "a capacity of {} bytes; must be at least {}",
                self.capacity,
                MIN_FRAMES * FRAME_COST
            )));
        }
        // If the limit is unknown, only `MAX_FRAMES` bounds the capacity.
        let memory = system::memory_limit().unwrap_or(u64::MAX);
        if self.capacity > memory || nr_frames > MAX_FRAMES as u64 {
            return Err(invalid(format!(
                "a capacity of {} bytes; must be at most {}, the memory of the machine or the \
                 limit of the process's control group",
                self.capacity,
                memory.min(MAX_FRAMES as u64 * FRAME_COST)
            )));
        }
        let limits = self.limits(nr_frames as usize).map_err(invalid)?;
        let pool = FramePool::new(&PoolConfig {
            nr_frames: nr_frames as usize,
            huge_pages: self.huge_pages,
            nodes: self.nodes,
        })
        .map_err(|error| {
            let kind = match error {
                PoolError::Memory { .. } => ErrorKind::OutOfMemory,
                _ => ErrorKind::InvalidConfig,
            };
            Error::new(kind, Op::Build)
                .with_detail(error.to_string())
                .with_source(error)
        })?;
        let mut engine = self.engine;
        engine.uring.close_timeout = self.close_timeout;
        let engines = Engines::new(engine).map_err(|refusal| {
            Error::new(ErrorKind::Unavailable, Op::Build)
                .with_detail(refusal.to_string())
                .with_source(refusal)
        })?;
        #[cfg(feature = "simulated")]
        let engines = match self.given {
            Some(engine) => Engines::of(engine),
            None => engines,
        };
        Ok(Cache::new(
            files_with(pool, limits, Eviction::default(), engines),
            page_size,
        ))
    }
}

impl Builder {
    fn limits(&self, nr_frames: usize) -> Result<Limits, String> {
        let of_cache = Limits::of_cache(nr_frames);
        let most = (nr_frames - nr_frames / 4) as u64;
        let invalid = |bound: String| {
            let bytes = self.dirty_limit.unwrap_or_default();
            Err(format!(
                "a dirty limit of {bytes} bytes; must be at {bound}"
            ))
        };
        let nr_frames = match self.dirty_limit.map(|bytes| bytes / FRAME_BYTES as u64) {
            None => of_cache.nr_frames,
            Some(0) => return invalid("least one frame".into()),
            Some(nr) if nr > most => {
                let bytes = most * FRAME_BYTES as u64;
                return invalid(format!("most {bytes}, three quarters of the cache"));
            }
            Some(nr) => nr as usize,
        };
        Ok(Limits {
            nr_frames,
            ceiling: of_cache.ceiling,
            age: self.max_dirty_age,
            stall: self.stall_timeout,
            close: self.close_timeout,
        })
    }
}

impl Cache {
    /// Returns a builder for a cache with the default settings.
    pub fn builder() -> Builder {
        Builder::default()
    }
}
