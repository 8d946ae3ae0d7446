//! Spaces, and what they share: making them, and what their users hold.

use std::fmt;
use std::sync::Arc;

use pagewell_frame::FramePool;
use pagewell_frame::refcount::{LockBit, RefScheme};
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::{Mutex, RwLock, write};

use crate::access::files::Files;
use crate::areas::area::{Area, Areas};
use crate::error::{Error, ErrorKind, Op};
use crate::supply::source::{FrameSource, Shared};
use crate::supply::view::PoolView;
use crate::words::directory::Directory;
use crate::words::geometry::{TABLE_BYTES, TABLE_SHIFT, table_of};
use crate::words::pmd::Pmd;

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
        let inner = Inner::new(&self.shared, Areas::new(limit), table_of(limit) as usize)
            .ok_or_else(|| Error::new(ErrorKind::OutOfMemory, Op::Build))?;
        Ok(Space { inner })
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
pub struct Space<S: RefScheme = LockBit> {
    pub(crate) inner: Arc<Inner<S>>,
}

/// A space, as walks and its handle see it.
pub(crate) struct Inner<S: RefScheme> {
    /// For each 2 MiB of addresses, the table that has their entries.
    pub(crate) directory: Directory,
    /// A copy of the one in `shared`, which keeps the pool alive, in the same cache line as the directory.
    pub(crate) view: PoolView<S>,
    pub(crate) shared: Arc<Shared<S>>,
    /// The structure lock. For reading: faults, pins, slow accesses; no table is taken out of the directory meanwhile,
    /// but in exchange for a copy. For writing: changes of areas, forks.
    pub(crate) structure: RwLock<Areas<S>>,
    /// Held by whoever changes entries of the directory with the structure lock held for reading: one of them at a time.
    pub(crate) unsharing: Mutex<()>,
    /// For each 2 MiB of addresses, the file that was last read or written there; see [`crate::access::files`].
    pub(crate) files: Files,
    /// A number that no other space of the same frames has.
    pub(crate) id: u64,
}

impl<S: RefScheme> Inner<S> {
    pub(crate) fn new(
        shared: &Arc<Shared<S>>,
        areas: Areas<S>,
        nr_tables: usize,
    ) -> Option<Arc<Self>> {
        Some(Arc::new(Self {
            directory: Directory::new(nr_tables)?,
            view: shared.view,
            shared: Arc::clone(shared),
            structure: RwLock::new(areas),
            unsharing: Mutex::new(()),
            files: Files::default(),
            id: shared.next_id(),
        }))
    }

    /// The directory's entry for `addr`; none beyond the addresses of the space.
    #[inline(always)]
    pub(crate) fn pmd_word(&self, addr: u64) -> Option<&AtomicU64> {
        self.directory.get((addr >> TABLE_SHIFT) as usize)
    }

    /// Loads an entry of the directory.
    #[inline(always)]
    pub(crate) fn look(word: &AtomicU64) -> Pmd {
        // ORDERING: Acquire; pairs with the release that published the table.
        Pmd::from_bits(word.load(Ordering::Acquire))
    }

    /// Changes an entry of the directory, with the lock held that it takes.
    pub(crate) fn set(word: &AtomicU64, pmd: Pmd) {
        // ORDERING: Release; publishes the table, and orders the change before the share is dropped.
        word.store(pmd.bits(), Ordering::Release);
    }

    /// Unmaps everything and takes all links out. Nobody uses the space any more, but for walks of families.
    pub(crate) fn tear_down(&self) {
        let mut areas = write(&self.structure);
        let left = areas.take_left();
        let all = areas.take_all();
        let left = left.into_iter().map(|start| start..start + 1);
        for range in all.iter().map(|area| area.range.clone()).chain(left) {
            for word in self.tables_of(&range) {
                let pmd = Self::look(word);
                if let Some(table) = pmd.table() {
                    Self::set(word, pmd.emptied());
                    self.shared.drop_share(table);
                }
            }
        }
        // F1: nothing names a page of the families any more on behalf of these areas.
        all.iter().for_each(Area::unlink);
        drop(areas);
        // Without the lock: the last area of a file closes it.
        drop(all);
    }

    /// The directory's entries of the tables that span `range`.
    pub(crate) fn tables_of(&self, range: &std::ops::Range<u64>) -> &[AtomicU64] {
        let first = table_of(range.start) as usize;
        let end = range.end.div_ceil(TABLE_BYTES) as usize;
        &self.directory[first..end]
    }
}

impl<S: RefScheme> Space<S> {
    /// A number that no other space of the same frames has, however long it lives.
    pub fn id(&self) -> u64 {
        self.inner.id
    }

    /// What this space shares its frames with.
    pub fn spaces(&self) -> Spaces<S> {
        Spaces {
            shared: Arc::clone(&self.inner.shared),
        }
    }
}

impl<S: RefScheme> Drop for Space<S> {
    fn drop(&mut self) {
        self.inner.tear_down();
    }
}

impl<S: RefScheme> fmt::Debug for Space<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space").finish_non_exhaustive()
    }
}
