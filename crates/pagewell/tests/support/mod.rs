//! What the tests of the facade share: caches of a size in frames, and backends with hooks.

// Each test file uses its own part of it.
#![allow(dead_code, unused_imports, unused_macros)]

use std::fmt;
use std::io;
use std::sync::Arc;

use pagewell::io::{Backend, Fault, FaultBackend, FileId, MemoryBackend, RacyBytes};
use pagewell::{Builder, Cache, Nodes, OpenOptions};

/// The size of the smallest page, and of a frame.
pub(crate) const PAGE: usize = 4096;

/// What one frame costs of the capacity: its bytes, its record, and what the eviction policy knows of it.
pub(crate) const FRAME_COST: u64 = PAGE as u64 + 64 + 12;

/// What buffers are filled with before a read, to see what it has touched.
pub(crate) const UNTOUCHED: u8 = 0xA5;

/// A cache of `nr_frames` frames, in one node.
pub(crate) fn cache(nr_frames: u64) -> Cache {
    builder(nr_frames)
        .build()
        .expect("a cache of a sensible size")
}

/// Options to open a file for writing.
pub(crate) fn writable() -> OpenOptions {
    OpenOptions::new().write()
}

/// As [`cache`]; no call of a backend, however late the system runs its thread, makes a writer fail as stalled.
pub(crate) fn cache_without_stalls(nr_frames: u64) -> Cache {
    builder(nr_frames)
        .stall_timeout(pagewell_testkit::wait::limit())
        .build()
        .expect("a cache of a sensible size")
}

/// The options of the tests' caches.
pub(crate) fn builder(nr_frames: u64) -> Builder {
    Cache::builder()
        .capacity(nr_frames * FRAME_COST)
        .nodes(Nodes::Unbound(1))
        // Many tests close files whose storage fails for good.
        .close_timeout(std::time::Duration::from_millis(10))
}

/// Checks that nothing is lost when every handle has been dropped.
#[track_caller]
pub(crate) fn assert_all_free(cache: &Cache) {
    cache.verify().expect("a cache in order");
    let stats = cache.stats();
    assert_eq!(stats.nr_free, stats.nr_frames, "{stats:?}");
}

/// A share of a backend, so that a test keeps its hands on it.
#[derive(Debug)]
pub(crate) struct Share<B>(pub(crate) Arc<B>);

impl<B> Share<B> {
    pub(crate) fn new(backend: B) -> Self {
        Self(Arc::new(backend))
    }
}

impl<B> Clone for Share<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B> std::ops::Deref for Share<B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.0
    }
}

impl<B: Backend> Backend for Share<B> {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        self.0.read_at(bufs, pos)
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn id(&self) -> FileId {
        self.0.id()
    }
}

/// Bytes in memory with a script before every read.
pub(crate) fn scripted(
    bytes: &[u8],
    script: impl Fn(u64, usize) -> Fault + Send + Sync + 'static,
) -> Share<FaultBackend<MemoryBackend>> {
    Share::new(FaultBackend::new(
        MemoryBackend::new(bytes.to_vec()),
        script,
    ))
}

type Hook = dyn Fn(u64) + Send + Sync;

/// Bytes in memory with a hook after every read, and one after every look at the size.
pub(crate) struct Hooked {
    pub(crate) inner: MemoryBackend,
    after_read: Box<Hook>,
    after_size: Box<Hook>,
}

impl Hooked {
    /// `after_read` is called with the position of a read, `after_size` with the size.
    pub(crate) fn new(
        bytes: &[u8],
        after_read: impl Fn(u64) + Send + Sync + 'static,
        after_size: impl Fn(u64) + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner: MemoryBackend::new(bytes.to_vec()),
            after_read: Box::new(after_read),
            after_size: Box::new(after_size),
        }
    }
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooked").finish_non_exhaustive()
    }
}

impl Backend for Hooked {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        let n = self.inner.read_at(bufs, pos)?;
        (self.after_read)(pos);
        Ok(n)
    }

    fn size(&self) -> io::Result<u64> {
        let size = self.inner.size()?;
        (self.after_size)(size);
        Ok(size)
    }

    fn id(&self) -> FileId {
        self.inner.id()
    }
}
