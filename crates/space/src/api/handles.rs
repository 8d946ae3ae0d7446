//! What users hold: [`Spaces`] and [`Space`]. Their methods are in the files beside this one, by what they are for.

use std::fmt;
use std::sync::Arc;

use pagewell_frame::FramePool;
use pagewell_frame::refcount::{LockBit, RefScheme};

use crate::areas::set::Areas;
use crate::error::{Error, ErrorKind, Op};
use crate::mm::shared::Shared;
use crate::mm::space::Mm;
use crate::supply::source::FrameSource;
use crate::words::geometry::{TABLE_BYTES, table_of};

/// How many bytes of addresses a space has unless another number is asked for: 1 TiB. What is not mapped costs
/// nothing.
pub const DEFAULT_SPACE_BYTES: u64 = if cfg!(loom) { 8 * TABLE_BYTES } else { 1 << 40 };

/// The most bytes of addresses that a space can have: 64 TiB.
pub const MAX_SPACE_BYTES: u64 = 1 << 46;

/// Memory for spaces: the frames that their pages and tables are made of.
///
/// Handles are cheap to clone. What they stand for lives as long as any of them, or of their spaces.
pub struct Spaces<S: RefScheme = LockBit> {
    shared: Arc<Shared<S>>,
}

impl<S: RefScheme> Clone for Spaces<S> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<S: RefScheme> Spaces<S> {
    /// Spaces in the frames of `pool`, which bounds what all of them use: pages and tables.
    pub fn new(pool: FramePool<S>) -> Self
    where
        S: 'static,
    {
        Self::from_source(pool)
    }

    /// Spaces in frames that are shared with others, who make room when there is none.
    pub fn from_source(source: impl FrameSource<S> + 'static) -> Self {
        Self {
            shared: Arc::new(Shared::new(Arc::new(source))),
        }
    }

    /// A new space, with [`DEFAULT_SPACE_BYTES`] of addresses.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](ErrorKind::OutOfMemory) when the system gives no addresses for the directory.
    pub fn space(&self) -> Result<Space<S>, Error> {
        self.space_of(DEFAULT_SPACE_BYTES)
    }

    /// A new space with `bytes` of addresses, rounded up to a multiple of 2 MiB: at most [`MAX_SPACE_BYTES`].
    ///
    /// # Errors
    ///
    /// As [`space`](Self::space), and [`InvalidConfig`](ErrorKind::InvalidConfig).
    pub fn space_of(&self, bytes: u64) -> Result<Space<S>, Error> {
        if bytes == 0 || bytes > MAX_SPACE_BYTES {
            return Err(Error::new(ErrorKind::InvalidConfig, Op::Build));
        }
        let limit = bytes.next_multiple_of(TABLE_BYTES);
        let mm = Mm::new(&self.shared, Areas::new(limit), table_of(limit) as usize)
            .ok_or_else(|| Error::new(ErrorKind::OutOfMemory, Op::Build))?;
        Ok(Space { mm })
    }

    /// The pool that the frames are from.
    pub fn pool(&self) -> &FramePool<S> {
        self.shared.pool()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<S>> {
        &self.shared
    }

    pub(crate) fn from_shared(shared: Arc<Shared<S>>) -> Self {
        Self { shared }
    }
}

impl<S: RefScheme> fmt::Debug for Spaces<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spaces").field("pool", self.pool()).finish()
    }
}

/// A memory space: areas at addresses, whose pages are shared copy-on-write with forks of it.
///
/// All methods take `&self`, and may be called by any number of threads at once.
///
/// # What is promised
///
/// - A read within one page has all of a write within that page or nothing of it, as has an atomic operation; of accesses
///   that go over several pages each page is for itself. What a thread wrote, it reads.
/// - [`fork`](Self::fork) is one point in time for all pages: a fork that has a write has all that were finished
///   before that write began.
/// - Pages are zeros until they are written. The bytes of a [`pin`](Self::pin) do not change.
/// - Migration and compaction change nothing that can be read. An access that meets a page on its way waits.
/// - Dropping a space gives back all that no other has a share of.
#[repr(align(128))] // Hits load it: the count of an `Arc` that a program keeps it in is on other lines.
pub struct Space<S: RefScheme = LockBit> {
    pub(crate) mm: Arc<Mm<S>>,
}

impl<S: RefScheme> Space<S> {
    /// A number that no other space of the same frames has, however long it lives.
    pub fn id(&self) -> u64 {
        self.mm.id()
    }

    /// What this space shares its frames with.
    pub fn spaces(&self) -> Spaces<S> {
        Spaces::from_shared(Arc::clone(&self.mm.shared))
    }
}

impl<S: RefScheme> Drop for Space<S> {
    fn drop(&mut self) {
        self.mm.tear_down();
    }
}

impl<S: RefScheme> fmt::Debug for Space<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space").finish_non_exhaustive()
    }
}
