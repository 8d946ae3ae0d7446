//! Pagewell: the fast paths of the Linux page cache as a library.
//!
//! A [`Cache`] holds pages of any number of files in a fixed amount of memory. Unless a cached page
//! keeps changing, a read takes no lock and no reference: it copies the bytes and then checks that
//! the page was neither changed nor evicted. It sets the page's accessed bit if that is clear, and
//! otherwise writes no shared memory. Programs can also pin a page and read it in place.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = std::env::temp_dir().join(format!("pagewell-doc-{}", std::process::id()));
//! # std::fs::write(&path, vec![7_u8; 10_000])?;
//! let cache = pagewell::Cache::builder().capacity(16 << 20).build()?;
//! let file = cache.open(&path)?;
//!
//! let mut buf = [0; 64];
//! let n = file.read_at(&mut buf, 5_000)?; // any offset, any length
//! assert_eq!(buf[..n], [7; 64]);
//!
//! let page = file.pin(2)?; // the bytes in place, up to the end of the file
//! assert_eq!(page.len(), 10_000 - 2 * 4096);
//! # drop(page);
//! # std::fs::remove_file(&path)?;
//! # Ok(())
//! # }
//! ```
//!
//! Programs can also write files through the cache ([`OpenOptions`]). A write is visible at once to
//! reads through all handles of the same cache, and durable after a successful [`File::sync_data`].
//!
//! A program can also read a page in place without a pin ([`File::view`]), and can check later that
//! the page has not changed since ([`File::is_unchanged`]), for example while it follows pointers
//! from page to page in a B-tree. `docs/guide/views-and-tokens.md` describes the protocol.
//!
//! [`File`] documents the guarantees of reads, `docs/durability.md` those of writes, and
//! `docs/ARCHITECTURE.md` the code.

#![forbid(unsafe_code)]

pub use pagewell_cache::{
    Advice, Append, BeforeWrite, Builder, Cache, CacheFrames, DetachedPageGuardMut, Error,
    ErrorKind, File, FileStats, Info, MAX_FILE_BYTES, Op, OpenOptions, OutgoingPage,
    OwnedPageGuard, PageGuard, PageGuardMut, PageHooks, PinPage, PublishedPage, Quiet, ReadAt,
    ReadMany, ReadRequest, Stats, SyncData, Token, TokenState, View, WriteAt, Writeback,
};
pub use pagewell_frame::{HugePages, Nodes, PageView, Torn};

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/durability.md")]
struct Durability;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/views-and-tokens.md")]
struct ViewsAndTokens;

/// Interface for mapping cached pages into an address space ([`File::mapped`]). The module
/// [`space`] uses it; programs need it only to implement an address space of their own.
pub mod mapped {
    pub use pagewell_cache::{FileUser, HeldPage, MappedFile, PageMove, Spare, Tried, Wait};
    pub use pagewell_frame::{ViewOutcome, WatchedWords, attempt_view};
}

/// Reference counts of pages, for programs that manage pages of their own.
pub mod refcount {
    pub use pagewell_frame::refcount::{LockBit, Put, RefCount, RefScheme, Scheme, TryGet};
}

/// Alternative implementations of reference counting, fork and migration, with which benchmarks and
/// tests compare the default ones (feature `baselines`).
///
/// The feature also adds `File::read_at_referenced`, `File::pin_counted`, `Space::fork_with` and
/// `Space::migrate_with`. `--cfg pagewell_ref_scheme="cas_loop"` makes
/// [`CasLoop`](baseline::CasLoop) the scheme of all frames ([`refcount::Scheme`]).
#[cfg(feature = "baselines")]
pub mod baseline {
    pub use pagewell_frame::refcount::{AssumeOne, CasLoop};
    pub use pagewell_space::{Engine, ForkMode};
}

/// Frame allocator, for programs that manage memory themselves.
///
/// ```
/// use pagewell::frame::{FramePool, FreeRange, Order, PoolConfig};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool: FramePool = FramePool::new(&PoolConfig::new(4096))?; // frames of 4 KiB
/// let block = pool.alloc(Order::PAGE_BLOCK).ok_or("no memory")?; // 2 MiB
/// block.bytes().copy_from(0, b"whatever");
///
/// let range = block.split(); // 512 frames, each with a reference of its own
/// let reader = range.get(7).ok_or("no such frame")?;
/// assert_eq!(range.free(FreeRange::default()), 1); // the reader holds one frame
/// drop(reader); // frees it
/// assert_eq!(pool.stats().nr_available(), 4096);
/// # Ok(())
/// # }
/// ```
pub mod frame {
    pub use pagewell_frame::{
        AllocError, AllocRequest, FRAME_BYTES, FrameKind, FrameMeta, FrameNr, FramePool,
        FrameRange, FrameRef, FrameView, FreeBlocks, FreeRange, Hold, HugePages, MAX_FRAMES, Nodes,
        Order, Place, PoolConfig, PoolError, PoolStats, Protected, TryGetFrame, UniqueFrame,
    };
}

/// Memory spaces: address spaces that a program reads and writes through calls. A fork is a
/// copy-on-write snapshot of a whole space at one point in time. A migration moves pages between
/// NUMA nodes while the program uses them.
///
/// ```
/// use pagewell::frame::{FramePool, Nodes, PoolConfig};
/// use pagewell::space::{Policy, Spaces};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut config = PoolConfig::new(4096); // frames of 4 KiB
/// config.nodes = Nodes::Unbound(2);
/// let spaces: Spaces = Spaces::new(FramePool::new(&config)?);
///
/// let space = spaces.space()?;
/// let area = space.map(1 << 20, Policy::Local)?;
/// space.write(area.start + 5000, b"before")?;
///
/// let snapshot = space.fork()?; // one point in time, and no page copied
/// space.write(area.start + 5000, b"after!")?;
///
/// let report = space.migrate(area.clone(), 1)?; // also while it is in use
/// assert_eq!(report.nr_moved, 1);
///
/// let mut buf = [0; 6];
/// snapshot.read(area.start + 5000, &mut buf)?;
/// assert_eq!(&buf, b"before");
/// # Ok(())
/// # }
/// ```
///
/// Spaces can also use the frames of a [`Cache`]; the capacity of the cache then covers its files
/// and the spaces together. This example maps the same file as a shared and as a private area:
///
/// ```
/// use pagewell::space::{CacheSpaces as _, Sharing};
/// use pagewell::{Cache, OpenOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = std::env::temp_dir().join(format!("pagewell-doc-space-{}", std::process::id()));
/// # std::fs::write(&path, vec![7_u8; 10_000])?;
/// let cache = Cache::builder().capacity(16 << 20).build()?;
/// let file = cache.open_with(&path, &OpenOptions::new().write())?;
/// let space = cache.space()?;
///
/// let live = space.map_file(&file, 0..10_000, Sharing::Shared)?;
/// space.write(live.start + 5000, b"to the file")?;
/// let mut buf = [0; 11];
/// file.read_at(&mut buf, 5000)?;
/// assert_eq!(&buf, b"to the file");
///
/// let draft = space.map_file(&file, 0..10_000, Sharing::Private)?;
/// space.write(draft.start + 5000, b"to a copy..")?;
/// file.sync_data()?; // syncs the writes to the shared area only
/// file.read_at(&mut buf, 5000)?;
/// assert_eq!(&buf, b"to the file");
///
/// space.unmap(live)?;
/// space.unmap(draft)?;
/// # drop((space, file));
/// # std::fs::remove_file(&path)?;
/// # Ok(())
/// # }
/// ```
pub mod space {
    pub use pagewell_space::{
        AreaInfo, CacheSpaces, DEFAULT_SPACE_BYTES, Error, ErrorKind, FrameSource, MAX_SPACE_BYTES,
        MapOptions, Migrated, NotMoved, Op, OwnedPin, Pin, Policy, Protection, Sharing, Space,
        Spaces,
    };
}

/// Backends for files and memory. Feature `testing`: backends that simulate I/O errors and power
/// failures.
pub mod io {
    pub use pagewell_io::{
        Backend, Buffered, Direct, FileBackend, FileId, FileLock, FileOptions, Forked,
        MemoryBackend, Transfers, UnlockedFile, engine, identity,
    };
    #[cfg(feature = "testing")]
    pub use pagewell_io_testing::{
        Fault, FaultBackend, Operation, SectorWrites, VolatileDevice, VolatileFile,
    };
    pub use pagewell_sync::bytes::{RacyBytes, RacySource};
}

/// NUMA nodes of the machine.
pub mod numa {
    pub use pagewell_frame::numa::online;
}
