//! State of one space ([`Mm`]) and of all spaces of a pool ([`Shared`]); their public handles
//! ([`Space`], [`Spaces`]), also of the spaces of a cache ([`CacheSpaces`]).

use std::fmt;
use std::mem::offset_of;
use std::ops::Range;
use std::sync::Arc;

use pagewell_cache::{Cache, companion_or_else};
use pagewell_frame::{FrameNr, FramePool, Order, Place, UniqueFrame};
use pagewell_sync::atomic::AtomicU64;
use pagewell_sync::shard::{LINES, Padded, is_apart};
use pagewell_sync::{RwLock, read, scaled, write};

use crate::areas::area::{Area, close};
use crate::areas::file::{Backing, FileArea, FileMaps, LinkedSpace, Sharing};
use crate::areas::noted::NotedFiles;
use crate::areas::set::Areas;
use crate::error::{Error, ErrorKind, Op};
use crate::supply::frames::Supply;
use crate::supply::source::FrameSource;
use crate::supply::writers::Writers;
use crate::tables::of_space::PageTables;
use crate::words::geometry::{TABLE_BYTES, entry_of, table_of};
use crate::words::pmd::{Directory, Pmd};

pub(crate) struct Mm {
    /// Tables. They contain a view of the pool, which `shared` keeps alive.
    pub(crate) tables: PageTables,
    pub(crate) shared: Arc<Shared>,
    /// Structure lock. While it is held for reading, tables are replaced only by their copies.
    pub(crate) structure: Padded<RwLock<Areas>>,
    pub(crate) files: NotedFiles,
    pub(crate) id: u64,
}

// Hits load tables and noted files, which share no cache line with the lock or an `Arc`'s counts.
const _: () = {
    type M = Mm;
    let (lock, shared) = (offset_of!(M, structure), offset_of!(M, shared));
    let (tables, files) = (offset_of!(M, tables), offset_of!(M, files));
    assert!(is_apart::<M>(tables, size_of::<PageTables>(), lock));
    assert!(is_apart::<M>(files, size_of::<NotedFiles>(), lock));
    assert!(is_apart::<M>(shared, size_of::<Arc<()>>(), lock));
    assert!(align_of::<FileArea>() == LINES && align_of::<Backing>() == LINES);
};

impl Mm {
    pub(crate) fn new(shared: &Arc<Shared>, areas: Areas, nr_tables: usize) -> Option<Arc<Self>> {
        Some(Arc::new(Self {
            tables: PageTables::new(Directory::new(nr_tables)?, *shared.supply.view()),
            shared: Arc::clone(shared),
            structure: Padded(RwLock::new(areas)),
            files: NotedFiles::default(),
            id: shared.next_id(),
        }))
    }

    pub(crate) fn unmapped(&self, addr: u64) -> ErrorKind {
        match self.tables.pmd_word(addr) {
            Some(_) => ErrorKind::Unmapped,
            None => ErrorKind::InvalidRange,
        }
    }

    pub(crate) fn own_table(&self, order: Order, addr: u64) -> Result<Pmd, ErrorKind> {
        self.tables.own(&self.shared.supply, order, addr)
    }

    pub(crate) fn forget_files(
        &self,
        areas: &Areas,
        range: &Range<u64>,
        op: Op,
    ) -> Result<(), Error> {
        self.files.forget(&self.shared.writers, areas, range, op)
    }

    /// Calls `visit`, with entry and address, for each page of `range` for which there is a table.
    pub(crate) fn for_each_entry(
        &self,
        areas: &Areas,
        range: &Range<u64>,
        mut visit: impl FnMut(&AtomicU64, u64),
    ) {
        for area in areas.overlapping(range) {
            let end = area.range.end.min(range.end);
            let mut addr = area.range.start.max(range.start);
            while addr < end {
                let word = self.tables.word_of(addr);
                let Some(table) = Directory::look(word).table() else {
                    addr = (addr + 1).next_multiple_of(TABLE_BYTES);
                    continue;
                };
                let entry = entry_of(addr, u32::from(area.order.get()));
                visit(&self.shared.supply.table_entries(table)[entry], addr);
                addr += area.page_bytes();
            }
        }
    }

    /// As [`Supply::with_room`](crate::supply::frames::Supply::with_room), for a page at the
    /// error's address.
    pub(crate) fn with_room<R>(
        &self,
        attempt: impl FnMut() -> Result<R, Error>,
    ) -> Result<R, Error> {
        let wanted = |error| self.wanted(error);
        self.shared.supply.with_room(wanted, attempt)
    }

    fn wanted(&self, error: Error) -> (Order, Place) {
        let areas = read(&self.structure);
        let area = error
            .addr()
            .and_then(|addr| Some((areas.area_of(addr)?, addr)));
        area.map_or((Order::ZERO, Place::Anywhere), |(area, addr)| {
            let place = area.place(area.index_of(addr), self.shared.pool().nr_nodes());
            (area.order, place)
        })
    }

    /// As [`with_room`](Self::with_room), for changes of areas, which allocate only tables.
    pub(crate) fn with_room_for_tables<R>(
        &self,
        attempt: impl FnMut() -> Result<R, Error>,
    ) -> Result<R, Error> {
        let wanted = |_| (Order::ZERO, Place::Anywhere);
        self.shared.supply.with_room(wanted, attempt)
    }

    /// Removes the table from the directory's entry `word`. The caller drops the space's share.
    pub(crate) fn take_table(&self, word: &AtomicU64) -> Option<FrameNr> {
        let pmd = Directory::look(word);
        self.tables.set(word, pmd.emptied());
        pmd.table()
    }

    pub(crate) fn drop_table(&self, word: &AtomicU64) {
        if let Some(table) = self.take_table(word) {
            self.shared.supply.drop_share(table);
        }
    }

    /// Unmaps everything and removes all links. Called when no handle is left: only walks of
    /// families and truncations may still access the space.
    pub(crate) fn tear_down(&self) {
        let mut areas = write(&self.structure);
        let left = std::mem::take(&mut areas.left);
        let all = areas.remove_within(&(0..u64::MAX));
        let left = left.into_iter().map(|start| start..start + 1);
        for range in all.iter().map(|area| area.range.clone()).chain(left) {
            let words = self.tables.directory.words(&range).iter();
            let with_table = words.filter(|word| Directory::look(word).is_present());
            with_table.for_each(|word| self.drop_table(word));
        }
        // F1 of `pages::links`: no entry of these areas names a page of the families any more.
        all.iter().for_each(Area::unlink);
        drop(areas);
        // After the lock is released: the drop of a file's last area closes the file.
        close(all);
    }
}

impl LinkedSpace for Mm {
    fn directory(&self) -> &Directory {
        &self.tables.directory
    }

    fn drop_copies(&self, maps: &FileMaps, size: u64) {
        // C1 of `areas::cut`: both locks are held.
        let areas = read(&self.structure);
        let _unsharing = self.tables.lock_unsharing();
        for area in areas.iter() {
            let Some(file) = &area.file else {
                continue;
            };
            let is_of_file = std::ptr::eq(&raw const *file.backing.maps, maps);
            if !is_of_file || file.sharing == Sharing::Shared {
                continue;
            }
            let end = size.next_multiple_of(area.page_bytes());
            let start = area.range.start + end.saturating_sub(file.first_byte);
            if start < area.range.end {
                self.for_each_entry(&areas, &(start..area.range.end), |word, _| {
                    self.shared.supply.empty_entry(word);
                });
            }
        }
    }
}

pub(crate) struct Shared {
    pub(crate) supply: Supply,
    pub(crate) writers: Writers,
}

impl Shared {
    pub(crate) fn new(source: Arc<dyn FrameSource>) -> Self {
        Self {
            supply: Supply::new(source),
            writers: Writers::new(),
        }
    }

    #[inline]
    pub(crate) fn pool(&self) -> &FramePool {
        self.supply.pool()
    }

    /// Allocates a block, if necessary by evictions, and for several frames by moves of pages.
    pub(crate) fn alloc(&self, order: Order, place: Place) -> Option<UniqueFrame<'_>> {
        let free = self.supply.alloc(order, place);
        if free.is_some() || order == Order::ZERO {
            return free;
        }
        self.supply.compact(order, place)
    }

    /// Returns a number that no other area or space of the pool has. A file identifies areas by it,
    /// even of different sources ([`crate::Spaces::from_source`]).
    pub(crate) fn next_id(&self) -> u64 {
        self.pool().next_number()
    }
}

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
