//! One file's cached pages.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FRAME_WORDS, Order};
use pagewell_io::{Backend, FileId};
use pagewell_sync::atomic::{AtomicU64, Ordering, fence};
use pagewell_sync::thread::Backoff;
use pagewell_sync::{Mutex, lock};

use crate::claim::Claim;
use crate::error::{Error, ErrorKind, Op};
use crate::index::{Index, Leaf, PageNr};
use crate::mapped::User;
use crate::opened::Users;
use crate::page_size::PageSize;
use crate::page_state::PageState;
use crate::shared::Shared;
use crate::slot::{Slot, State};
use crate::writes::{Access, Writes};

/// The largest file that can be indexed, in bytes: 256 TiB.
pub const MAX_FILE_BYTES: u64 = 1 << 48;

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
    number: u64,
    /// Held while the size changes.
    resize: Mutex<()>,
    path: PathBuf,
    backend: Box<dyn Backend>,
    // Dropped when the backend is, and before what the program has given: who opens the file anew waits for that no longer.
    _entry: Entry<S>,
    /// Some if the file may be written to.
    writes: Option<Box<Writes>>,
    /// Who shows its pages at addresses.
    pub(crate) user: User,
    /// Who keeps it, and who looks at it.
    users: Arc<Users>,
    shared: Arc<Shared<S>>,
}

/// The mapping's place among the open files. It is there as long as the storage may be open: whoever finds that locked
/// knows by whom.
#[derive(Debug)]
struct Entry<S: RefScheme> {
    shared: Arc<Shared<S>>,
    number: u64,
    id: FileId,
}

impl<S: RefScheme> Drop for Entry<S> {
    fn drop(&mut self) {
        // In a child, another thread of the parent may have had the lock.
        if self.shared.is_home() {
            self.shared.forget(self.id, self.number);
        }
    }
}

/// What happens to a page that the storage does not have, or that is about to be replaced, when pages are taken
/// out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unclean {
    /// It stays.
    Keep,
    /// It goes, and what was written to it with it.
    Drop,
}

impl<S: RefScheme> Mapping<S> {
    /// What the record itself is charged: its fields, and about as much again for what they own.
    const RECORD_BYTES: usize = if cfg!(loom) { 0 } else { 2 * size_of::<Self>() };

    /// An empty mapping of `backend`'s file, which is called `path` in errors. The registry knows it by `id`,
    /// which the backend was asked for once, and `number`.
    pub(crate) fn new(
        shared: Arc<Shared<S>>,
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
        let nr_blocks = shared.pool.nr_blocks(order);
        if nr_blocks < MIN_PAGES {
            return Err(fail(ErrorKind::InvalidConfig).with_detail(format!(
                "a cache of {} frames has room for {nr_blocks} pages of {} bytes; it must have room for {MIN_PAGES}",
                shared.pool.nr_frames(),
                page_size.bytes()
            )));
        }
        let headroom = match access {
            Access::Read => HEADROOM_BYTES,
            Access::Write(_) => HEADROOM_OF_WRITERS,
        };
        let reach = (4 * size + headroom).min(MAX_FILE_BYTES);
        let nr_pages = reach.div_ceil(page_size.bytes() as u64);
        let index =
            Index::new(nr_pages, shared.pool.view()).ok_or_else(|| fail(ErrorKind::OutOfMemory))?;
        let writes = match access {
            Access::Read => None,
            Access::Write(options) => {
                let writes = Writes::new(index.capacity(), options);
                Some(Box::new(
                    writes.ok_or_else(|| fail(ErrorKind::OutOfMemory))?,
                ))
            }
        };
        shared
            .charge(Self::RECORD_BYTES)
            .map_err(|reason| fail(ErrorKind::OutOfFrames).with_detail(reason.to_string()))?;
        Ok(Self {
            index,
            size: AtomicU64::new(size),
            fill_size: AtomicU64::new(size),
            page_size: page_size.bytes(),
            page_shift: page_size.bytes().trailing_zeros(),
            order,
            number,
            resize: Mutex::new(()),
            path,
            backend,
            writes,
            user: User::default(),
            users: Arc::default(),
            _entry: Entry {
                shared: Arc::clone(&shared),
                number,
                id,
            },
            shared,
        })
    }

    /// Whether this process is the one that made the cache.
    #[inline]
    pub(crate) fn check_home(&self, op: Op) -> Result<(), Error> {
        self.shared
            .check_home(op)
            .map_err(|error| error.with_path(&self.path))
    }

    /// What the mapping has for being written to, if it may be.
    pub(crate) fn writes_if_any(&self) -> Option<&Writes> {
        self.writes.as_deref()
    }

    /// The lock of the file's size.
    pub(crate) fn resize_lock(&self) -> &Mutex<()> {
        &self.resize
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

    /// Notes how much of the file the storage has; the writeback lock is held.
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

    pub(crate) fn shared_arc(&self) -> &Arc<Shared<S>> {
        &self.shared
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
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
        // ORDERING: Acquire; pairs with the release stores in `refresh`. Who sees that the file has
        // grown sees that the page with the zeros past its old end is gone.
        self.size.load(Ordering::Acquire)
    }

    /// The size of the file that a fill goes by.
    pub(crate) fn fill_size(&self) -> u64 {
        // ORDERING: Acquire; pairs with the release store in `refresh`. What matters is the fence between
        // this load and the claim, see `Mapping::fill`.
        self.fill_size.load(Ordering::Acquire)
    }

    /// An error of this file.
    #[cold]
    pub(crate) fn error(&self, kind: ErrorKind, op: Op) -> Error {
        Error::new(kind, op).with_path(&self.path)
    }

    /// Asks the storage for the size of now, and takes out the pages that it makes wrong: those past
    /// the end, and the one that the old or the new end is in.
    pub(crate) fn refresh(&self, op: Op) -> Result<u64, Error> {
        if self.writes.is_some() {
            // The file is this mapping's alone; the storage may not know all of its size yet.
            return Ok(self.size());
        }
        let _resize = lock(&self.resize);
        let new = self
            .backend
            .size()
            .map_err(|error| Error::from_io(op, error).with_path(&self.path))?;
        let reach = self.reach();
        if new > reach {
            return Err(self
                .error(ErrorKind::FileTooLarge, op)
                .with_detail(format!("grown to {new} bytes; indexed up to {reach}")));
        }
        let old = self.size();
        if new != old {
            // 1. Readers must not go beyond an end that has come nearer.
            if new < old {
                // ORDERING: Release, as below.
                self.size.store(new, Ordering::Release);
            }
            // 2. No fill that starts from here on takes the old end for the end. Fills that have started
            // are waited for by `remove`, whose fence pairs with theirs.
            // ORDERING: Release, as below.
            self.fill_size.store(new, Ordering::Release);
            // 3. Take out what the change makes wrong.
            let first = old.min(new) >> self.page_shift;
            let end = old.max(new).div_ceil(self.page_size() as u64);
            self.remove(first, end, Unclean::Drop);
            if new < old {
                self.tell_cut(new);
            }
            // 4. Growth is shown to readers only when the page with the zeros past the old end is gone.
            // ORDERING: Release; pairs with the acquire in `size`, and publishes step 3.
            self.size.store(new, Ordering::Release);
        }
        Ok(new)
    }

    /// Takes the cached pages from `first` up to `end` out. Pages that are pinned live on under
    /// their guards; fills in progress are waited for.
    pub(crate) fn remove(&self, first: PageNr, end: PageNr, unclean: Unclean) {
        // ORDERING: SeqCst fence; pairs with the one in `Mapping::fill` (store buffering: the caller has
        // changed the file or its size, and we look for claims; they have claimed, and look at the size
        // and the file; one must see the other).
        fence(Ordering::SeqCst);
        let end = end.min(self.index.capacity());
        let mut page = first;
        while page < end {
            let Some(leaf) = self.index.next_leaf(leaf_of(page)) else {
                return;
            };
            page = page.max(first_page_of(leaf));
            while page < end.min(first_page_of(leaf + 1)) {
                self.remove_page(page, unclean);
                page += 1;
            }
        }
    }

    fn remove_page(&self, page: PageNr, unclean: Unclean) {
        while !self.try_remove_page(page, unclean) {
            if let Some(seen) = self.index.look(page)
                && seen.slot.is_busy()
            {
                seen.wait_while_busy(&self.shared);
            }
        }
    }

    /// Takes a page out; false if somebody has claimed it, maybe for as long as a transfer takes.
    fn try_remove_page(&self, page: PageNr, unclean: Unclean) -> bool {
        let mut backoff = Backoff::new();
        // A round is repeated when another thread has claimed the slot since it was looked at, or marked the page.
        while let Some(leaf) = self.index.leaf(&self.shared, page) {
            let position = Leaf::<S>::slot_of(page);
            // ORDERING: Acquire, as in `Index::look`.
            let seen = Slot::from_bits(leaf.slot(position).load(Ordering::Acquire));
            match seen.state() {
                State::Empty => return true,
                State::Busy => return false,
                State::Present(_) => {
                    if let Ok(claim) = Claim::try_new(&self.shared, leaf, position, seen) {
                        if self.forget_state(page, &claim, unclean) {
                            // Dropping the slot's reference frees the frame, or leaves it to its guards.
                            drop(claim.empty());
                        }
                        return true;
                    }
                    backoff.wait();
                }
            }
        }
        true
    }
}

impl<S: RefScheme> Mapping<S> {
    /// Makes a claimed page clean, so that it can be taken out; false if it is to be kept.
    fn forget_state(&self, page: PageNr, claim: &Claim<'_, S>, unclean: Unclean) -> bool {
        let (Some(writes), Some(frame)) = (self.writes_if_any(), claim.frame()) else {
            return true;
        };
        let record = self.shared.pool.meta(frame);
        let before = PageState::of(record);
        if !before.may_go() && unclean == Unclean::Keep {
            return false;
        }
        self.note_state(writes, page, before, PageState::CLEAN);
        PageState::CLEAN.store(record);
        if before.is_locked() {
            // Who waits for the lock is to look for the page again.
            self.shared.waits.wake(PageState::word(record));
        }
        true
    }

    /// Drops what lies in whole pages past `end`, the file's size.
    pub(crate) fn drop_past_end(&self, end: u64) {
        let first = end.div_ceil(self.page_size() as u64);
        self.remove(first, self.index.capacity(), Unclean::Drop);
    }
}

impl<S: RefScheme> Mapping<S> {
    /// Gives back what no pin needs. No share is left; the mapping is not torn down yet because it is pinned, and evictions
    /// of leaves do not come any more.
    ///
    /// If there is a share again, the file has been opened anew: its pages are that handle's then, and this ends. It waits
    /// for nothing but a few steps of others, since there are no transfers where there is no share.
    pub(crate) fn give_back(&self) {
        let mut from = 0;
        while let Some(leaf) = self.index.next_leaf(from) {
            from = leaf + 1;
            let mut backoff = Backoff::new();
            for page in first_page_of(leaf)..first_page_of(leaf + 1) {
                loop {
                    if self.users.has_share() {
                        return;
                    }
                    // What could not be made durable is kept to the end.
                    if self.try_remove_page(page, Unclean::Keep) {
                        break;
                    }
                    backoff.wait();
                }
            }
            // An eviction may hold the leaf for a moment.
            while let Some(held) = self.index.leaf_nr(&self.shared, leaf) {
                match self.index.take_empty_leaf(&self.shared, leaf, held) {
                    Ok(unique) => drop(unique),
                    Err(held) => drop(held),
                }
                if self.users.has_share() || self.is_leaf_in_use(leaf) {
                    break;
                }
                backoff.wait();
            }
        }
    }

    /// Whether a leaf has a slot that is not empty.
    fn is_leaf_in_use(&self, leaf: usize) -> bool {
        let mut pages = first_page_of(leaf)..first_page_of(leaf + 1);
        pages.any(|page| {
            let seen = self.index.look(page);
            seen.is_some_and(|seen| seen.slot.state() != State::Empty)
        })
    }
}

/// The number of the leaf that `page` belongs to.
fn leaf_of(page: PageNr) -> usize {
    (page / FRAME_WORDS as u64) as usize
}

/// The first page that belongs to leaf number `leaf`.
fn first_page_of(leaf: usize) -> PageNr {
    leaf as u64 * FRAME_WORDS as u64
}

impl<S: RefScheme> Drop for Mapping<S> {
    /// Gives all frames back. No handle is left, so nothing is filled or pinned any more; evictions may
    /// be under way, and are waited for. The last handle has made everything durable.
    fn drop(&mut self) {
        if !self.shared.is_home() {
            // Nothing that another thread of the parent was changing will ever be done.
            return;
        }
        let mut from = 0;
        while let Some(leaf) = self.index.next_leaf(from) {
            from = leaf + 1;
            self.remove(first_page_of(leaf), first_page_of(leaf + 1), Unclean::Drop);
            let mut backoff = Backoff::new();
            // An eviction may hold the leaf for a moment, or take it out before we do.
            while let Some(held) = self.index.leaf_nr(&self.shared, leaf) {
                match self.index.take_empty_leaf(&self.shared, leaf, held) {
                    Ok(unique) => drop(unique),
                    Err(held) => drop(held),
                }
                backoff.wait();
            }
        }
        self.shared.drain_leaf_stock();
        self.index.uncharge(&self.shared);
        self.shared.uncharge(Self::RECORD_BYTES);
    }
}
