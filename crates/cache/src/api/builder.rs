//! How a cache is set up.

use std::marker::PhantomData;

use pagewell_frame::refcount::{LockBit, RefScheme};
use pagewell_frame::{
    FRAME_BYTES, FrameMeta, FramePool, HugePages, MAX_FRAMES, Nodes, PoolConfig, PoolError,
};

use crate::api::cache::Cache;
use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page::PageSize;
use crate::base::system;
use crate::files::setup::files_of;

/// The smallest cache, in frames: below this a handful of threads could hold all of it at once.
const MIN_FRAMES: u64 = 16;

/// What one frame costs: its bytes and its record.
const fn frame_cost<S: RefScheme>() -> u64 {
    (FRAME_BYTES + size_of::<FrameMeta<S>>()) as u64
}

/// How a cache is set up.
#[derive(Clone, Debug)]
pub struct Builder<S: RefScheme = LockBit> {
    capacity: u64,
    page_size: usize,
    huge_pages: HugePages,
    nodes: Nodes,
    scheme: PhantomData<fn() -> S>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            capacity: 64 << 20,
            page_size: PageSize::SMALLEST.bytes(),
            huge_pages: HugePages::default(),
            nodes: Nodes::default(),
            scheme: PhantomData,
        }
    }
}

impl<S: RefScheme> Builder<S> {
    /// How much memory the cache may use, in bytes: pages, index and records together. Default: 64 MiB.
    /// At least 16 frames (65 KiB), at most the memory of the machine.
    ///
    /// What is not counted: a few hundred bytes for each handle, and the stacks of the threads.
    #[must_use]
    pub fn capacity(mut self, bytes: u64) -> Self {
        self.capacity = bytes;
        self
    }

    /// The page size of files that are opened without saying: 4, 8, 16, 32 or 64 KiB, in bytes.
    /// Default: 4 KiB.
    #[must_use]
    pub fn page_size(mut self, bytes: usize) -> Self {
        self.page_size = bytes;
        self
    }

    /// Whether the memory is to be made of huge pages. Default: [`HugePages::System`].
    #[must_use]
    pub fn huge_pages(mut self, huge_pages: HugePages) -> Self {
        self.huge_pages = huge_pages;
        self
    }

    /// Over which memory nodes the cache is spread. Default: [`Nodes::Machine`].
    #[must_use]
    pub fn nodes(mut self, nodes: Nodes) -> Self {
        self.nodes = nodes;
        self
    }

    /// How pages are counted: [`LockBit`], or the baseline
    /// [`CasLoop`](pagewell_frame::refcount::CasLoop) to compare it with. Default: [`LockBit`].
    #[must_use]
    pub fn ref_scheme<T: RefScheme>(self) -> Builder<T> {
        Builder {
            capacity: self.capacity,
            page_size: self.page_size,
            huge_pages: self.huge_pages,
            nodes: self.nodes,
            scheme: PhantomData,
        }
    }

    /// Makes the cache. Its memory is reserved now and used as pages are read.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) or [`InvalidPageSize`](ErrorKind::InvalidPageSize)
    /// when a setting is out of its range, [`OutOfMemory`](ErrorKind::OutOfMemory) when the system
    /// refuses the memory.
    pub fn build(self) -> Result<Cache<S>, Error> {
        let invalid =
            |detail: String| Error::new(ErrorKind::InvalidConfig, Op::Build).with_detail(detail);
        let page_size = PageSize::checked(self.page_size, Op::Build)?;
        let nr_frames = self.capacity / frame_cost::<S>();
        if nr_frames < MIN_FRAMES {
            return Err(invalid(format!(
                "a capacity of {} bytes; must be at least {}",
                self.capacity,
                MIN_FRAMES * frame_cost::<S>()
            )));
        }
        let machine = machine_memory();
        if self.capacity > machine || nr_frames > MAX_FRAMES as u64 {
            return Err(invalid(format!(
                "a capacity of {} bytes; must be at most {}",
                self.capacity,
                machine.min(MAX_FRAMES as u64 * frame_cost::<S>())
            )));
        }
        let pool = FramePool::new(&PoolConfig {
            nr_frames: nr_frames as usize,
            huge_pages: self.huge_pages,
            nodes: self.nodes,
            ..PoolConfig::new(nr_frames as usize)
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
        Ok(Cache::new(files_of(pool), page_size))
    }
}

/// The memory of the machine in bytes; as much as can be when the system does not say.
fn machine_memory() -> u64 {
    system::machine_memory().unwrap_or(u64::MAX)
}

impl Cache {
    /// How a cache is set up: capacity, page size, huge pages, nodes.
    pub fn builder() -> Builder {
        Builder::default()
    }
}
