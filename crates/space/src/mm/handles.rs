//! Public handles: [`Spaces`] and [`Space`].

use std::fmt;
use std::sync::Arc;

use pagewell_cache::{Cache, companion_or_else};
use pagewell_frame::{FramePool, Order, Place, UniqueFrame};
use pagewell_sync::scaled;

use crate::areas::set::Areas;
use crate::error::{Error, ErrorKind, Op};
use crate::mm::space::{Mm, Shared};
use crate::supply::source::FrameSource;
use crate::words::geometry::{TABLE_BYTES, table_of};

/// Default number of bytes of addresses of a space: 1 TiB. Unmapped addresses cost nothing.
pub const DEFAULT_SPACE_BYTES: u64 = scaled(1 << 40, 8 * TABLE_BYTES);

/// Maximum number of bytes of addresses of a space: 64 TiB.
pub const MAX_SPACE_BYTES: u64 = 1 << 46;

/// Shared state of spaces: the frames of their pages and tables. The last handle or space drops it.
#[derive(Clone)]
pub struct Spaces {
    pub(crate) shared: Arc<Shared>,
}

impl Spaces {
    /// Creates the shared state of spaces whose pages and tables are in frames of `pool`.
    pub fn new(pool: FramePool) -> Self {
        Self::from_source(pool)
    }

    /// Creates the shared state of spaces in frames of `source`, which may have other users.
    pub fn from_source(source: impl FrameSource + 'static) -> Self {
        Self {
            shared: Arc::new(Shared::new(Arc::new(source))),
        }
    }

    /// Creates a space with [`DEFAULT_SPACE_BYTES`] of addresses. Fails with
    /// [`OutOfMemory`](ErrorKind::OutOfMemory) if no addresses are left for the directory.
    pub fn space(&self) -> Result<Space, Error> {
        self.space_of(DEFAULT_SPACE_BYTES)
    }

    /// As [`space`](Self::space), with `bytes` of addresses, rounded up to a multiple of 2 MiB.
    /// Fails with [`ErrorKind::InvalidConfig`] for 0 or more than [`MAX_SPACE_BYTES`].
    pub fn space_of(&self, bytes: u64) -> Result<Space, Error> {
        if bytes == 0 || bytes > MAX_SPACE_BYTES {
            return Err(Error::new(ErrorKind::InvalidConfig, Op::Build));
        }
        let limit = bytes.next_multiple_of(TABLE_BYTES);
        let mm = Mm::new(&self.shared, Areas::new(limit), table_of(limit) as usize)
            .ok_or_else(|| Error::new(ErrorKind::OutOfMemory, Op::Build))?;
        Ok(Space { mm })
    }

    /// Allocates a block of `order` on any node. If none is free, moves pages, as a migration does.
    /// Fails with [`OutOfFrames`](ErrorKind::OutOfFrames) if too few frames are free, or every
    /// place for such a block contains a frame that cannot be moved.
    pub fn alloc_block(&self, order: Order) -> Result<UniqueFrame<'_>, Error> {
        let shared = &self.shared;
        shared.supply.with_room(
            |_| (order, Place::Anywhere),
            || {
                let block = shared.alloc(order, Place::Anywhere);
                block.ok_or_else(|| Error::new(ErrorKind::OutOfFrames, Op::Compact))
            },
        )
    }

    /// Returns the pool of the frames.
    pub fn pool(&self) -> &FramePool {
        self.shared.pool()
    }
}

impl fmt::Debug for Spaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spaces").field("pool", self.pool()).finish()
    }
}

/// Memory space: areas at addresses, whose pages are shared copy-on-write with its forks.
///
/// # Guarantees
///
/// - A read or an atomic operation within one page sees every other write or atomic operation
///   within that page entirely or not at all. An access of several pages is a separate access of
///   each. A thread reads its own writes.
/// - [`fork`](Self::fork) is one point in time for all pages but those of files: a fork that
///   contains a write also contains all writes that were complete before that write began.
/// - Pages without a file are zeros until they are written. The bytes of a [`pin`](Self::pin) do
///   not change.
/// - Migration and compaction change no readable byte. Accesses of a page being moved wait.
/// - Dropping a space frees all memory that it does not share with other spaces or pins.
#[repr(align(128))] // Hits load it: the count of a program's `Arc` around it is on other lines.
pub struct Space {
    pub(crate) mm: Arc<Mm>,
}

impl Space {
    /// Returns the id of the space, unique among all earlier and later spaces of the same frames.
    pub fn id(&self) -> u64 {
        self.mm.id
    }

    /// Returns the shared state that this space uses.
    pub fn spaces(&self) -> Spaces {
        Spaces {
            shared: Arc::clone(&self.mm.shared),
        }
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        self.mm.tear_down();
    }
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space").finish_non_exhaustive()
    }
}

/// Memory spaces in the frames of a cache, into which its files can be mapped.
pub trait CacheSpaces {
    /// Returns the shared state of all spaces of this cache. All calls return the same state while
    /// a handle of it or one of its spaces exists. While the cache has a companion of another
    /// crate, each call returns a new state.
    fn spaces(&self) -> Spaces;

    /// Creates a space in the frames of this cache, as [`Spaces::space`].
    fn space(&self) -> Result<Space, Error>;
}

impl CacheSpaces for Cache {
    fn spaces(&self) -> Spaces {
        let shared = companion_or_else(self, |frames| Arc::new(Shared::new(Arc::new(frames))));
        match shared {
            Some(shared) => Spaces { shared },
            // The cache's companion has another type, so these spaces get a state of their own.
            None => Spaces::from_source(self.frames()),
        }
    }

    fn space(&self) -> Result<Space, Error> {
        self.spaces().space()
    }
}
