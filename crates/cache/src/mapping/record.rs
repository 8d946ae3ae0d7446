//! The record of an open file: its index, its size, its storage, and what takes no more than these.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FRAME_BYTES, FramePool, Order};
use pagewell_io::{Backend, FileId};
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::thread::Backoff;
use pagewell_sync::{Mutex, MutexGuard, lock};

use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page::{MAX_FILE_BYTES, PageNr, PageSize};
use crate::base::page_state::PageState;
use crate::base::slot::{Slot, State};
use crate::dirty::hook::InHook;
use crate::dirty::options::Access;
use crate::dirty::storage::Storage;
use crate::dirty::writes::Writes;
use crate::index::claim::Claim;
use crate::index::claims::Claims;
use crate::index::file_index::Index;
use crate::index::leaf::Leaf;
use crate::mapping::keeper::Keeper;
use crate::mapping::shared::Shared;
use crate::mapping::user::User;
use crate::mapping::users::Users;
use crate::supply::charge::Charges;
use crate::supply::parts::Supply;

/// The most bytes that one transfer from the storage is asked for.
const MOST_BYTES: usize = 1 << 20;

/// For how many pages of a file's size a cache must have room.
const MIN_PAGES: usize = if cfg!(loom) { 1 } else { 4 };

/// How far beyond its present size a file's index reaches, at least, so that the file can grow.
const HEADROOM_BYTES: u64 = if cfg!(loom) { 0 } else { 64 << 20 };

/// The same for a file that is written to here: 1 TiB, for which two thousandths of that are reserved as addresses.
const HEADROOM_OF_WRITERS: u64 = if cfg!(loom) { 0 } else { 1 << 40 };

/// One file's cached pages: the index, and all that reading the file takes.
///
/// Every handle of the file shares one. When the last handle goes, the pages do.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Mapping<S: RefScheme> {
    // What a hit needs, together in one cache line, and written only when the file is resized.
    index: Index<S>,
    size: AtomicU64,
    page_size: usize,
    page_shift: u32,
    order: Order,
    // What only misses need.
    /// The size that fills take for the file's: ahead of `size` while the file is found to have grown.
    fill_size: AtomicU64,
    /// Held while the size changes.
    pub(super) resize: Mutex<()>,
    path: PathBuf,
    backend: Box<dyn Backend>,
    // Dropped after the backend, and before what the program has given: whoever opens the file anew waits no longer than that.
    entry: Entry,
    /// Some if the file may be written to.
    writes: Option<Box<Writes>>,
    /// Who shows its pages at addresses.
    user: User,
    /// Who keeps it, and who looks at it.
    users: Arc<Users>,
    shared: Arc<Shared<S>>,
}

/// The mapping's place among the open files. It is there as long as the storage may be open: whoever finds that locked
/// knows by whom.
#[derive(Debug)]
struct Entry {
    keeper: Arc<dyn Keeper>,
    number: u64,
    id: FileId,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.keeper.forget(self.id, self.number);
    }
}

impl<S: RefScheme> Mapping<S> {
    /// What the record itself is charged: its fields, and about as much again for what they own.
    pub(super) const RECORD_BYTES: usize = if cfg!(loom) { 0 } else { 2 * size_of::<Self>() };

    /// An empty mapping of `backend`'s file, which is called `path` in errors. The registry knows it by `id`,
    /// which the backend was asked for once, and `number`.
    pub(crate) fn new(
        (shared, keeper): (Arc<Shared<S>>, Arc<dyn Keeper>),
        backend: Box<dyn Backend>,
        path: PathBuf,
        page_size: PageSize,
        (id, number): (FileId, u64),
        access: Access,
    ) -> Result<Self, Error> {
        let fail = |kind| Error::new(kind, Op::Open).with_path(&path);
        let size = backend
            .size()
            .map_err(|error| Error::from_io(Op::Open, error).with_path(&path))?;
        if size > MAX_FILE_BYTES {
            return Err(fail(ErrorKind::FileTooLarge)
                .with_detail(format!("{size} bytes; at most {MAX_FILE_BYTES}")));
        }
        let order = page_size.order();
        // Room for a few pages besides the index, or nothing could ever be replaced.
        let nr_blocks = shared.supply.pool().nr_blocks(order);
        if nr_blocks < MIN_PAGES {
            return Err(fail(ErrorKind::InvalidConfig).with_detail(format!(
                "a cache of {} frames has room for {nr_blocks} pages of {} bytes; it must have room for {MIN_PAGES}",
                shared.supply.pool().nr_frames(),
                page_size.bytes()
            )));
        }
        let headroom = match access {
            Access::Read => HEADROOM_BYTES,
            Access::Write(_) => HEADROOM_OF_WRITERS,
        };
        let reach = (4 * size + headroom).min(MAX_FILE_BYTES);
        let nr_pages = reach.div_ceil(page_size.bytes() as u64);
        let index = Index::new(nr_pages, shared.supply.pool().view())
            .ok_or_else(|| fail(ErrorKind::OutOfMemory))?;
        let writes = match access {
            Access::Read => None,
            Access::Write(options) => {
                let writes = Writes::new(index.capacity(), options);
                Some(Box::new(
                    writes.ok_or_else(|| fail(ErrorKind::OutOfMemory))?,
                ))
            }
        };
        Charges(&shared.supply)
            .charge(Self::RECORD_BYTES)
            .map_err(|reason| fail(ErrorKind::OutOfFrames).with_detail(reason.to_string()))?;
        Ok(Self {
            index,
            size: AtomicU64::new(size),
            fill_size: AtomicU64::new(size),
            page_size: page_size.bytes(),
            page_shift: page_size.bytes().trailing_zeros(),
            order,
            resize: Mutex::new(()),
            path,
            backend,
            writes,
            user: User::default(),
            users: Arc::default(),
            entry: Entry { keeper, number, id },
            shared,
        })
    }

    /// Whether this process is the one that made the cache.
    #[inline]
    pub(crate) fn check_home(&self, op: Op) -> Result<(), Error> {
        self.shared
            .home
            .check(op)
            .map_err(|error| error.with_path(&self.path))
    }

    /// What the mapping has for being written to, if it may be.
    pub(crate) fn writes_if_any(&self) -> Option<&Writes> {
        self.writes.as_deref()
    }

    /// How large the file may become while it is open.
    pub(crate) fn reach(&self) -> u64 {
        (self.index.capacity() << self.page_shift).min(MAX_FILE_BYTES)
    }

    /// Shows a new size to readers; the lock of the size is held.
    pub(crate) fn store_size(&self, size: u64) {
        // ORDERING: Release; pairs with the acquire in `size`: who sees that the file has grown sees the
        // pages that were written for it.
        self.size.store(size, Ordering::Release);
    }

    /// Notes how much of the file the storage has; the writeback lock is held, or for a file that is not written to here the lock
    /// of the size.
    pub(crate) fn store_fill_size(&self, size: u64) {
        // ORDERING: Release; pairs with the acquire in `fill_size`.
        self.fill_size.store(size, Ordering::Release);
    }

    pub(crate) fn index(&self) -> &Index<S> {
        &self.index
    }

    pub(crate) fn shared(&self) -> &Shared<S> {
        &self.shared
    }

    pub(crate) fn users(&self) -> &Arc<Users> {
        &self.users
    }

    /// Who shows its pages at addresses.
    pub(crate) fn user(&self) -> &User {
        &self.user
    }

    /// The cache's frames, and what bounds them.
    #[inline]
    pub(crate) fn supply(&self) -> &Supply<S> {
        &self.shared.supply
    }

    /// What claims of the file's slots need.
    #[inline]
    pub(crate) fn claims(&self) -> &Claims<S> {
        &self.shared.supply.claims
    }

    #[inline]
    pub(crate) fn pool(&self) -> &FramePool<S> {
        self.shared.supply.pool()
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Who has all the files.
    pub(crate) fn keeper(&self) -> &Arc<dyn Keeper> {
        &self.entry.keeper
    }

    pub(crate) fn number(&self) -> u64 {
        self.entry.number
    }

    pub(crate) fn order(&self) -> Order {
        self.order
    }

    #[inline]
    pub(crate) fn page_shift(&self) -> u32 {
        self.page_shift
    }

    #[inline]
    pub(crate) fn page_size(&self) -> usize {
        self.page_size
    }

    /// The size of the file in bytes, as far as the cache knows.
    #[inline]
    pub(crate) fn size(&self) -> u64 {
        // ORDERING: Acquire; pairs with the release in `store_size`. Who sees that the file has
        // grown sees that the page with the zeros past its old end is gone.
        self.size.load(Ordering::Acquire)
    }

    /// The size of the file that a fill goes by.
    pub(crate) fn fill_size(&self) -> u64 {
        // ORDERING: Acquire; pairs with the release in `store_fill_size`. What matters is the fence between
        // this load and the claim, see `read::fill`.
        self.fill_size.load(Ordering::Acquire)
    }

    /// An error of this file.
    #[cold]
    pub(crate) fn error(&self, kind: ErrorKind, op: Op) -> Error {
        Error::new(kind, op).with_path(&self.path)
    }

    /// What this mapping has for being written to.
    pub(crate) fn writes(&self, op: Op) -> Result<&Writes, Error> {
        self.writes_if_any()
            .ok_or_else(|| self.error(ErrorKind::ReadOnly, op))
    }

    /// Takes the file's writeback lock.
    ///
    /// # Errors
    ///
    /// If this thread holds it, because it is in a hook of the file.
    pub(crate) fn lock_storage<'w>(
        &self,
        writes: &'w Writes,
        op: Op,
    ) -> Result<MutexGuard<'w, Storage>, Error> {
        self.check_no_hook(writes, op)?;
        Ok(lock(&writes.writeback))
    }

    /// Takes the lock of the file's size, which comes before the writeback lock.
    ///
    /// # Errors
    ///
    /// If this thread is in a hook of the file: who has the lock of the size may be waiting for it.
    pub(crate) fn lock_size(&self, writes: &Writes, op: Op) -> Result<MutexGuard<'_, ()>, Error> {
        self.check_no_hook(writes, op)?;
        Ok(lock(&self.resize))
    }

    fn check_no_hook(&self, writes: &Writes, op: Op) -> Result<(), Error> {
        if InHook::is_of(&writes.in_hook) {
            return Err(self.error(ErrorKind::Deadlock, op));
        }
        Ok(())
    }

    /// How many pages the file has.
    pub(crate) fn nr_pages(&self) -> PageNr {
        self.size().div_ceil(self.page_size() as u64)
    }

    /// The most pages to read in one transfer: bounded in bytes, and to a sixteenth of the pool.
    pub(crate) fn most_pages(&self) -> usize {
        let pool = self.pool().nr_frames() / 16 * FRAME_BYTES;
        (MOST_BYTES.min(pool) / self.page_size()).max(1)
    }

    /// How many bytes of `page` a file of `size` bytes has.
    pub(crate) fn len_of(&self, page: PageNr, size: u64) -> usize {
        let start = page.checked_mul(self.page_size() as u64);
        start
            .and_then(|start| size.checked_sub(start))
            .map_or(0, |rest| rest.min(self.page_size() as u64) as usize)
    }

    /// Claims the slot of `page` in its `leaf`, if it is empty.
    pub(crate) fn claim_empty<'m>(
        &'m self,
        leaf: Leaf<'m, S>,
        page: PageNr,
    ) -> Option<(Claim<'m, S>, (u64, u64))> {
        let position = Leaf::<S>::slot_of(page);
        // ORDERING: Relaxed; the claim's compare-and-swap decides, and acquires.
        let seen = Slot::from_bits(leaf.slot(position).load(Ordering::Relaxed));
        if seen.state() != State::Empty {
            return None;
        }
        let place = (u64::from(leaf.reference.frame().get()), position as u64);
        let claim = Claim::try_new(self.claims(), leaf, position, seen).ok()?;
        Some((claim, place))
    }

    /// Claims the slot of `page`, waiting for whoever has it; none if the page is not in the cache.
    pub(crate) fn claim_present(&self, page: PageNr) -> Option<Claim<'_, S>> {
        let mut backoff = Backoff::new();
        loop {
            let seen = self.index().look(page)?;
            match seen.slot.state() {
                State::Empty => return None,
                State::Present(_) => {
                    if let Some(claim) = seen.claim_present(self.claims()) {
                        return Some(claim);
                    }
                }
                State::Busy => {}
            }
            self.wait_for_change(page, &mut backoff);
        }
    }

    /// Waits until the slot of `page`, which was seen changing, may have changed.
    pub(crate) fn wait_for_change(&self, page: PageNr, backoff: &mut Backoff) {
        match self.index().look(page) {
            Some(seen) if seen.slot.is_busy() => seen.wait_while_busy(self.claims()),
            _ => backoff.wait(),
        }
    }

    /// Brings what the file and the cache know of dirty pages into line with a change of a page's state; the caller has
    /// claimed the page's slot.
    pub(crate) fn note_state(
        &self,
        writes: &Writes,
        page: PageNr,
        before: PageState,
        after: PageState,
    ) {
        writes.note_state((&self.shared.pressure, self.order), page, before, after);
    }

    /// See [`Keeper::make_room`].
    pub(crate) fn make_room(&self, error: Error) -> Result<(), Error> {
        self.entry.keeper.make_room(error)
    }

    /// Keeps the number of frames that are not clean within its limit: a writer that would exceed it writes
    /// pages back first, of this file or of others. No lock of any file is held, since that takes others.
    pub(crate) fn throttle(&self) {
        if self.shared.pressure.unclean.is_over() {
            self.entry.keeper.make_clean();
        }
    }

    /// Does `what`, and once more if it failed for lack of frames: pages that are not clean may have been in the way,
    /// also where fewer than the limit are not. No lock of any file is held.
    pub(crate) fn with_room<T>(&self, what: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
        match what() {
            Err(error) => {
                self.entry.keeper.make_room(error)?;
                what()
            }
            done => done,
        }
    }

    pub(crate) fn write_failed(&self, writes: &Writes, op: Op, error: io::Error) -> Error {
        writes.errors.note(&error);
        Error::from_io(op, error).with_path(self.path()).noted()
    }
}
