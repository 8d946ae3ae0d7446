//! Record of an open file: its index, size and backend, and operations on only these.

use std::io;
use std::mem::offset_of;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagewell_frame::{FRAME_BYTES, FrameMeta, FrameNr, FramePool, Order};
use pagewell_io::engine::{Job, Request, Target};
use pagewell_io::pools::Engines;
use pagewell_io::{Backend, FileId};
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::ledger::{self, LockRecord, Resource};
use pagewell_sync::shard::{LINES, Padded};
use pagewell_sync::thread::Backoff;
use pagewell_sync::{Mutex, MutexGuard, lock, scaled};

use crate::base::error::{Error, ErrorKind, Failure, Op};
use crate::base::home::check_may_wait;
use crate::base::layout::Layout;
use crate::base::page::{MAX_FILE_BYTES, PageNr, PageSize};
use crate::base::page_hooks::Hooks;
use crate::base::page_state::PageState;
use crate::base::slot::{Slot, State};
use crate::dirty::hook::InHook;
use crate::dirty::page_set::PageSets;
use crate::dirty::reserve::Reserve;
use crate::dirty::service::{InStep, Step};
use crate::dirty::writes::{Access, Storage, Writes};
use crate::index::claim::{Claim, Claims, Leaf};
use crate::index::file_index::Index;
use crate::index::token::{Origin, Token, TokenState};
use crate::mapping::arrays;
use crate::mapping::followers::Followers;
use crate::mapping::shared::{Keeper, Shared};
use crate::mapping::user::User;
use crate::mapping::users::Users;
use crate::supply::alloc::Charges;
use crate::supply::census::OutOfFrames;
use crate::supply::parts::Supply;
use crate::supply::permits::OfFile;

/// Maximum size of one read from the backend, in bytes.
const MOST_BYTES: usize = 1 << 20;

/// Minimum number of pages of a file's page size that the cache must be able to hold.
const MIN_PAGES: usize = scaled(4, 1);

/// Maximum number of waits for the quota by one extending write, if other writers use it up first.
const ROUNDS_WITHIN_SHARE: usize = scaled(16, 1);

/// The index of one file, and everything else that a read needs, shared by all its handles.
///
/// Layout (`docs/adr/0022-*`): the fields that hits load are written only when the file is opened,
/// and share no cache line with fields that change, such as the counts of the mapping's `Arc`. The
/// size, which hits load too, has cache lines of its own, so growth invalidates no other line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Mapping {
    hit: Hit,
    size: Padded<AtomicU64>,
    pub(super) growth: Padded<Growth>,
    // The fields from here on are not written after the file was opened.
    path: PathBuf,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) target: Target,
    // Dropped after the backend, since a thread that opens the file again waits for this drop, and
    // before the codec and other values of the program, whose drop may take long.
    entry: Entry,
    writes: Option<Box<Writes>>,
    pub(crate) users: pagewell_sync::Arc<Users>,
    hooks: Option<Hooks>,
    pub(crate) followers: pagewell_sync::Arc<Followers>,
    /// Number of bytes charged to the budget for this record and what it owns.
    pub(super) charged: usize,
    pub(crate) shared: pagewell_sync::Arc<Shared>,
}

#[derive(Debug)]
#[repr(C, align(128))]
struct Hit {
    // The index must not be the first field: its address would equal the mapping's, and the
    // compiler would then keep that address in two registers.
    order: Order,
    page_shift: u32,
    page_size: usize,
    index: Index,
    /// In the second cache line, since only tokens need it.
    origin: Origin,
}

#[derive(Debug)]
pub(super) struct Growth {
    /// The file's size for fills: the number of bytes of the file that the backend has (the decoded
    /// size, not the stored one). Stored before the size if the file is found to have grown.
    fill_size: AtomicU64,
    /// Size lock: held while the size changes.
    pub(super) resize: Mutex<()>,
    in_flight: OfFile,
    user: User,
}

const _: () = {
    type M = Mapping;
    type H = Hit;
    assert!(align_of::<M>() == LINES);
    assert!(offset_of!(M, hit).is_multiple_of(LINES) && size_of::<H>() == LINES);
    assert!(
        offset_of!(M, size).is_multiple_of(LINES) && offset_of!(M, growth).is_multiple_of(LINES)
    );
    // The fields of `H` that hits load are in the first of its two cache lines.
    assert!(offset_of!(H, index) + Index::HIT_BYTES <= LINES / 2);
};

/// Entry of the mapping among the open files. The entry exists as long as the backend may be open:
/// a thread that finds the backend locked uses it to determine the lock's owner.
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

pub(crate) struct How {
    pub(crate) access: Access,
    pub(crate) hooks: Option<Hooks>,
    /// The caller is about to truncate the file to zero, so its stored size need not be valid.
    pub(crate) truncates: bool,
}

impl How {
    #[cfg(any(test, loom))]
    pub(crate) fn of(access: Access) -> Self {
        Self {
            access,
            hooks: None,
            truncates: false,
        }
    }
}

/// Queries the backend's size, and returns the size of the file that it encodes.
fn told_size(backend: &dyn Backend, layout: Layout, op: Op) -> Result<u64, Error> {
    let stored = backend.size().map_err(|error| Error::from_io(op, error))?;
    layout.size(stored).ok_or_else(|| {
        let why = format!(
            "a stored size of {stored} bytes, less than a page, is invalid for a file with a page \
             codec"
        );
        let source = io::Error::new(io::ErrorKind::InvalidData, why);
        Error::new(ErrorKind::Corrupt, op).with_source(source)
    })
}

fn layout_of(hooks: Option<&Hooks>, page_size: usize) -> Layout {
    match hooks {
        None => Layout::Plain,
        Some(_) => Layout::Pages(page_size as u64),
    }
}

#[derive(Debug)]
#[must_use]
pub(crate) struct FileLock<'m, T> {
    guard: MutexGuard<'m, T>,
    _record: LockRecord,
}

impl<'m, T> FileLock<'m, T> {
    pub(super) fn of(mapping: &Mapping, mutex: &'m Mutex<T>) -> Self {
        let record = ledger::before_lock_of(mapping);
        Self {
            guard: lock(mutex),
            _record: record,
        }
    }
}

impl<T> Deref for FileLock<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for FileLock<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl Mapping {
    /// Budget charge in bytes: the record, and about as much again for what it owns.
    pub(super) const RECORD_BYTES: usize = scaled(2 * size_of::<Self>(), 0);

    /// Creates an empty mapping of the file of `backend`. `path` is its name in errors. The
    /// registry identifies the mapping by `id`, which the backend has returned, and by `number`.
    pub(crate) fn new(
        (shared, keeper): (pagewell_sync::Arc<Shared>, Arc<dyn Keeper>),
        backend: Arc<dyn Backend>,
        path: PathBuf,
        page_size: PageSize,
        (id, number): (FileId, u64),
        how: How,
    ) -> Result<Self, Error> {
        let How {
            access,
            hooks,
            truncates,
        } = how;
        let fail = |kind| Error::new(kind, Op::Open).with_path(&path);
        let layout = layout_of(hooks.as_ref(), page_size.bytes());
        let told = told_size(&*backend, layout, Op::Open)
            .map_err(|error| error.with_path(&path))
            .and_then(|size| match size {
                0..=MAX_FILE_BYTES => Ok(size),
                _ => Err(fail(ErrorKind::FileTooLarge)
                    .with_detail(format!("{size} bytes; at most {MAX_FILE_BYTES}"))),
            });
        // If the caller truncates the file and its stored size is invalid, users see an empty file.
        // The stored size counts as unknown until it is set.
        let (size, is_size_known) = match told {
            Err(error)
                if truncates
                    && matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::FileTooLarge) =>
            {
                (0, false)
            }
            told => (told?, true),
        };
        let target = Target::new(Arc::clone(&backend))
            .map_err(|error| Error::from_io(Op::Open, error).with_path(&path))?;
        let order = page_size.order();
        // The cache must hold a few pages besides the index; otherwise no page could be replaced.
        let nr_blocks = shared.supply.pool().nr_blocks(order);
        if nr_blocks < MIN_PAGES {
            return Err(fail(ErrorKind::InvalidConfig).with_detail(format!(
                "a cache of {} frames holds {nr_blocks} pages of {} bytes; at least {MIN_PAGES} \
                 are required",
                shared.supply.pool().nr_frames(),
                page_size.bytes()
            )));
        }
        let is_written = matches!(access, Access::Write(_));
        let arrays = arrays::reserve(size, page_size, is_written).map_err(|refused| {
            // No source: it may be EAGAIN, on which programs try again.
            fail(ErrorKind::OutOfMemory).with_detail(format!(
                "no addresses for the index of a file of up to {} bytes, 8.5 bytes for each page \
                 of {} bytes: {}; {}",
                refused.reach,
                page_size.bytes(),
                refused.source,
                pagewell_sync::system::memory_limits()
            ))
        })?;
        let mut writes = match (access, arrays.of_sets) {
            (Access::Write(options), Some(of_sets)) => {
                let sets = PageSets::with_arrays(of_sets);
                Some(Box::new(Writes::new(sets, number, options, is_size_known)))
            }
            _ => None,
        };
        let mut charged = Self::RECORD_BYTES;
        if let (Some(writes), Some(_)) = (&mut writes, &hooks) {
            let cache_bytes = shared.supply.pool().nr_frames() * FRAME_BYTES;
            let reserve = Reserve::new(page_size.bytes(), cache_bytes);
            charged += reserve.nr_bytes();
            writes.reserve = Some(reserve);
            if layout.has_part(size) {
                // The power may have failed before an earlier writer had stored the size.
                writes.set_loose_end(Some(size));
                writes.storage_mut().may_have_rest = true;
            }
        }
        let sets = writes.as_ref().map(|writes| writes.memory_of_sets());
        let index = Index::new(arrays.of_index, shared.supply.pool().view(), sets.cloned());
        charged += scaled(index.nr_bytes(), 0);
        Charges(&shared.supply)
            .charge(charged)
            .map_err(|reason| fail(ErrorKind::OutOfFrames).with_detail(reason.to_string()))?;
        let hit = Hit {
            page_size: page_size.bytes(),
            page_shift: page_size.bytes().trailing_zeros(),
            order,
            index,
            origin: Origin::new(&shared.supply.claims.lives),
        };
        let growth = Growth {
            fill_size: AtomicU64::new(size),
            resize: Mutex::new(()),
            in_flight: OfFile::default(),
            user: User::default(),
        };
        Ok(Self {
            hit,
            size: Padded(AtomicU64::new(size)),
            growth: Padded(growth),
            path,
            backend,
            target,
            writes,
            users: pagewell_sync::Arc::default(),
            entry: Entry { keeper, number, id },
            hooks,
            followers: pagewell_sync::Arc::default(),
            charged,
            shared,
        })
    }

    /// Checks that this is the owning process, which suffices for write hits; calls that may wait
    /// use [`check_home`](Self::check_home).
    #[inline]
    pub(crate) fn check_process(&self, op: Op) -> Result<(), Error> {
        let checked = self.shared.home.check_process(op);
        checked.map_err(|error| self.at_path(error))
    }

    /// Checks that this is the owning process, and that this thread may wait for other threads.
    #[inline]
    pub(crate) fn check_home(&self, op: Op) -> Result<(), Error> {
        let checked = self.shared.home.check(op);
        checked.map_err(|error| self.at_path(error))
    }

    #[cold]
    fn at_path(&self, error: Error) -> Error {
        error.with_path(&self.path)
    }

    #[inline]
    pub(crate) fn hooks(&self) -> Option<&Hooks> {
        self.hooks.as_ref()
    }

    pub(crate) fn layout(&self) -> Layout {
        layout_of(self.hooks.as_ref(), self.page_size())
    }

    pub(crate) fn asked_size(&self, op: Op) -> Result<u64, Error> {
        told_size(&*self.backend, self.layout(), op).map_err(|error| error.with_path(&self.path))
    }

    pub(crate) fn writes_if_any(&self) -> Option<&Writes> {
        self.writes.as_deref()
    }

    /// Maximum size of the file while it is open.
    pub(crate) fn reach(&self) -> u64 {
        (self.hit.index.capacity() << self.hit.page_shift).min(MAX_FILE_BYTES)
    }

    /// Describes the maximum size, for errors.
    pub(crate) fn limit_of_size(&self) -> String {
        match self.reach() {
            MAX_FILE_BYTES => format!("a file has at most {MAX_FILE_BYTES} bytes"),
            reach => format!(
                "its index ends at {reach}, until all handles are closed and it is opened again"
            ),
        }
    }

    /// Publishes a new size to readers. The caller holds the size lock.
    pub(crate) fn store_size(&self, size: u64) {
        // ORDERING: Release; pairs with the acquire in `size`: growth publishes its pages.
        self.size.store(size, Ordering::Release);
    }

    /// The caller holds the writeback lock, or the size lock if the file is not open for writing.
    pub(crate) fn store_fill_size(&self, size: u64) {
        // ORDERING: Release; pairs with the acquire in `fill_size`.
        self.growth.fill_size.store(size, Ordering::Release);
    }

    pub(crate) fn in_flight(&self) -> &OfFile {
        &self.growth.in_flight
    }

    pub(crate) fn index(&self) -> &Index {
        &self.hit.index
    }

    #[inline(always)]
    pub(crate) fn origin(&self) -> &Origin {
        &self.hit.origin
    }

    #[inline(always)]
    fn unchanged(&self, token: &Token) -> Option<Slot> {
        let seen = self.index().look(token.page())?;
        let slot = self.origin().unchanged(token, seen)?;
        // Load the size after the slot, as in a view. No overflow: indices end at `MAX_FILE_BYTES`.
        let start = token.page() << self.page_shift();
        let len = self.size().saturating_sub(start);
        (len.min(self.page_size() as u64) == token.len() as u64).then_some(slot)
    }

    #[inline(always)]
    pub(crate) fn is_unchanged(&self, token: &Token) -> bool {
        self.unchanged(token).is_some_and(|slot| !slot.is_busy())
    }

    #[inline]
    pub(crate) fn token_state(&self, token: &Token) -> TokenState {
        match self.unchanged(token) {
            None => TokenState::Changed,
            Some(slot) if slot.is_busy() => TokenState::Busy,
            Some(_) => TokenState::Unchanged,
        }
    }

    pub(crate) fn user(&self) -> &User {
        &self.growth.user
    }

    #[inline]
    pub(crate) fn supply(&self) -> &Supply {
        &self.shared.supply
    }

    #[inline]
    pub(crate) fn claims(&self) -> &Claims {
        &self.shared.supply.claims
    }

    #[inline]
    pub(crate) fn pool(&self) -> &FramePool {
        self.shared.supply.pool()
    }

    pub(crate) fn call_backend<R>(&self, call: impl FnOnce(&dyn Backend) -> R) -> R {
        let _in_program = ledger::enter("a backend", &Resource::ALL);
        call(&*self.backend)
    }

    /// Records a call of the backend or the callback of a file open for writing. The caller holds
    /// the writeback lock.
    pub(crate) fn begin_step(&self, step: Step) -> Option<InStep<'_>> {
        let writes = self.writes_if_any()?;
        Some(writes.service.begin_step(&self.shared.pressure, step))
    }

    pub(crate) fn engines(&self) -> &Arc<Engines> {
        self.entry.keeper.engines()
    }

    pub(crate) fn job(&self, request: Request) -> Job {
        Job::of(self.target.clone(), request)
    }

    /// Whether the backend processes many requests concurrently and transfers only what was
    /// requested. Then no layer below reads ahead, so pages are read ahead separately from misses,
    /// and several page ranges are written back concurrently.
    pub(crate) fn is_deep(&self) -> bool {
        use pagewell_io::Transfers::Direct;
        matches!(self.backend.file_transfers(), Some(Direct { .. }))
            || self.backend.deferred().is_some()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn keeper(&self) -> &Arc<dyn Keeper> {
        &self.entry.keeper
    }

    pub(crate) fn number(&self) -> u64 {
        self.entry.number
    }

    pub(crate) fn order(&self) -> Order {
        self.hit.order
    }

    #[inline]
    pub(crate) fn page_shift(&self) -> u32 {
        self.hit.page_shift
    }

    #[inline]
    pub(crate) fn page_size(&self) -> usize {
        self.hit.page_size
    }

    #[inline]
    pub(crate) fn size(&self) -> u64 {
        // ORDERING: Acquire; pairs with the release in `store_size`: a thread that sees growth sees
        // that the page with the zeros past the old end was removed.
        self.size.load(Ordering::Acquire)
    }

    pub(crate) fn fill_size(&self) -> u64 {
        // ORDERING: Acquire; pairs with the release in `store_fill_size`. A fill also relies on the
        // fence between its claim and this load, see `read::fill`.
        self.growth.fill_size.load(Ordering::Acquire)
    }

    #[cold]
    pub(crate) fn error(&self, kind: ErrorKind, op: Op) -> Error {
        Error::new(kind, op).with_path(&self.path)
    }

    #[cold]
    pub(crate) fn out_of_frames(&self, op: Op, reason: &OutOfFrames) -> Error {
        self.error(ErrorKind::OutOfFrames, op)
            .with_unclean(reason.nr_unclean())
            .with_detail(reason.to_string())
    }

    pub(crate) fn writes(&self, op: Op) -> Result<&Writes, Error> {
        self.writes_if_any()
            .ok_or_else(|| self.error(ErrorKind::ReadOnly, op))
    }

    /// Acquires the file's writeback lock. Fails as [`check_no_hook`](Self::check_no_hook) does.
    pub(crate) fn lock_storage<'w>(
        &self,
        writes: &'w Writes,
        op: Op,
    ) -> Result<FileLock<'w, Storage>, Error> {
        self.check_no_hook(writes, op)?;
        Ok(FileLock::of(self, &writes.writeback))
    }

    /// Acquires the size lock, which precedes the writeback lock. Fails as
    /// [`check_no_hook`](Self::check_no_hook) does: the holder may wait for the callback.
    pub(crate) fn lock_size(&self, writes: &Writes, op: Op) -> Result<FileLock<'_, ()>, Error> {
        self.check_no_hook(writes, op)?;
        Ok(FileLock::of(self, &self.growth.resize))
    }

    /// Acquires the size lock for a write that dirties pages. First waits, without the lock, until
    /// the file is below its quota of frames that are not clean. Checks this again under the lock,
    /// so that writers do not exceed it together, except after [`ROUNDS_WITHIN_SHARE`] attempts.
    pub(crate) fn lock_size_within_share(
        &self,
        writes: &Writes,
        op: Op,
    ) -> Result<FileLock<'_, ()>, Error> {
        for _ in 0..ROUNDS_WITHIN_SHARE {
            self.throttle(writes)?;
            let lock = self.lock_size(writes, op)?;
            if !self.is_at_share(writes) {
                return Ok(lock);
            }
        }
        self.lock_size(writes, op)
    }

    /// Returns [`Deadlock`](ErrorKind::Deadlock) if this thread is in a page codec or in a callback
    /// of the file. A callback runs under the writeback lock, and other threads may wait for both.
    pub(crate) fn check_no_hook(&self, writes: &Writes, op: Op) -> Result<(), Error> {
        check_may_wait(op).map_err(|error| error.with_path(&self.path))?;
        if InHook::is_of(&writes.in_hook) {
            return Err(self
                .error(ErrorKind::Deadlock, op)
                .with_detail("the calling thread is in a callback of the file"));
        }
        Ok(())
    }

    pub(crate) fn nr_pages(&self) -> PageNr {
        self.size().div_ceil(self.page_size() as u64)
    }

    /// Maximum number of pages per transfer: [`MOST_BYTES`] or 1/16 of the pool, at least one page.
    pub(crate) fn most_pages(&self) -> usize {
        let pool = self.pool().nr_frames() / 16 * FRAME_BYTES;
        (MOST_BYTES.min(pool) / self.page_size()).max(1)
    }

    pub(crate) fn len_of(&self, page: PageNr, size: u64) -> usize {
        let start = page.checked_mul(self.page_size() as u64);
        start
            .and_then(|start| size.checked_sub(start))
            .map_or(0, |rest| rest.min(self.page_size() as u64) as usize)
    }

    /// Claims the slot of `page` in its `leaf` if the slot is empty. Returns the claim and the
    /// slot's place: the frame of the leaf, and the position in it.
    pub(crate) fn claim_empty<'m>(
        &'m self,
        leaf: Leaf<'m>,
        page: PageNr,
    ) -> Option<(Claim<'m>, (u64, u64))> {
        let position = Leaf::slot_of(page);
        // ORDERING: Relaxed; the claim's compare-and-swap decides, and acquires.
        let seen = Slot::from_bits(leaf.slot(position).load(Ordering::Relaxed));
        if seen.state() != State::Empty {
            return None;
        }
        let place = (u64::from(leaf.reference.frame().get()), position as u64);
        let claim = Claim::try_new(self.claims(), leaf, position, seen).ok()?;
        Some((claim, place))
    }

    /// Claims the slot of `page`, after waiting for any other claim of the slot to end. The caller
    /// holds no claim (C3). Returns `None` if the page is not resident.
    pub(crate) fn claim_present(&self, page: PageNr) -> Option<Claim<'_>> {
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

    /// Claims as [`claim_present`](Self::claim_present) does. Also returns the page's frame, the
    /// frame's metadata, and the page's state.
    pub(crate) fn claim_page(
        &self,
        page: PageNr,
    ) -> Option<(Claim<'_>, FrameNr, &FrameMeta, PageState)> {
        let claim = self.claim_present(page)?;
        let frame = claim.frame()?;
        let record = self.pool().meta(frame);
        Some((claim, frame, record, PageState::of(record)))
    }

    /// Waits after a failed attempt to use the slot of `page`: by `Seen::wait_for_claim` if it is
    /// claimed, otherwise one round of `backoff`. The caller reloads the slot.
    #[inline]
    pub(crate) fn wait_for_change(&self, page: PageNr, backoff: &mut Backoff) {
        match self.index().look(page) {
            Some(seen) if seen.slot.is_busy() => seen.wait_for_claim(self.claims(), backoff),
            _ => backoff.wait(),
        }
    }

    /// Updates the dirty-page records for a changed state. The caller has claimed the page's slot.
    pub(crate) fn note_state(
        &self,
        writes: &Writes,
        page: PageNr,
        before: PageState,
        after: PageState,
    ) {
        writes.note_state((&self.shared.pressure, self.hit.order), page, before, after);
    }

    pub(crate) fn make_room(&self, error: Error) -> Result<(), Error> {
        self.entry.keeper.make_room(error, self.order())
    }

    #[inline]
    pub(crate) fn is_at_share(&self, writes: &Writes) -> bool {
        self.shared.pressure.is_over(&writes.share)
    }

    /// Returns, as a hint, whether `page` is resident and not clean: writes to it need no quota.
    pub(crate) fn seems_unclean(&self, page: PageNr) -> bool {
        let seen = self.index().look(page);
        seen.is_some_and(|seen| match seen.slot.state() {
            State::Present(frame) => PageState::of(self.pool().meta(frame)).is_unclean(),
            State::Empty | State::Busy => false,
        })
    }

    /// Waits while the file is at its quota of frames that are not clean. The caller holds no lock
    /// of the file, since the thread that cleans the file acquires them. Returns
    /// [`Throttled`](ErrorKind::Throttled) if no pages can be made clean.
    #[inline]
    pub(crate) fn throttle(&self, writes: &Writes) -> Result<(), Error> {
        if self.is_at_share(writes) {
            return self.entry.keeper.throttle(self.entry.number);
        }
        Ok(())
    }

    /// Calls `what`. If it lacks frames, makes pages clean and calls it again: dirty or unsynced
    /// pages may prevent evictions even below the dirty limit. The caller holds no lock of a file.
    pub(crate) fn with_room<T>(&self, what: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
        match what() {
            Err(error) => {
                self.make_room(error)?;
                what()
            }
            done => done,
        }
    }

    pub(crate) fn write_failed(
        &self,
        writes: &Writes,
        op: Op,
        failure: impl Into<Failure>,
    ) -> Error {
        let failure = failure.into();
        let cause = failure.cause;
        writes.errors.note(&failure);
        Error::from_failure(op, failure)
            .with_path(self.path())
            .noted(cause)
    }
}
