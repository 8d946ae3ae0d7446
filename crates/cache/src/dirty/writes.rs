//! State of a file open for writing ([`Writes`]), known state of its backend ([`Storage`]), and its
//! options ([`WriteOptions`]).

use std::ops::Range;
use std::sync::Arc;
use std::{fmt, io};

use pagewell_frame::Order;
use pagewell_policy::pace::Pace;
use pagewell_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use pagewell_sync::parking::WaitTable;
use pagewell_sync::region::Region;
use pagewell_sync::shard::Padded;
use pagewell_sync::{Mutex, scaled};

use crate::base::page::PageNr;
use crate::base::page_state::PageState;
use crate::dirty::calls::Call;
use crate::dirty::commits::Commits;
use crate::dirty::errors::Errors;
use crate::dirty::handles::{Handle, Handles};
use crate::dirty::hook::{Groups, ThreadMark};
use crate::dirty::oldest::Oldest;
use crate::dirty::page_set::{PageSet, PageSets, Which};
use crate::dirty::pressure::{Pressure, Share, Since};
use crate::dirty::reserve::Reserve;
use crate::dirty::service::Service;

/// State of a file open for writing. To a dirty page, a write without an LSN loads only the number
/// of errors, on a cache line of its own, and fields that never change. The others are padded.
pub(crate) struct Writes {
    sets: PageSets,
    /// Writeback lock: held while pages are written to the backend, or it is synced or resized. So
    /// at most one version of each page and one size are in flight at a time.
    pub(crate) writeback: Padded<Mutex<Storage>>,
    pub(crate) commits: Commits,
    pub(crate) oldest: Oldest,
    pub(crate) errors: Errors,
    pub(crate) mode: Writeback,
    pub(crate) before_write: Option<Arc<BeforeWrite>>,
    pub(crate) reserve: Option<Reserve>,
    loose_end: Padded<AtomicU64>,
    /// Size up to which the backend has accepted growth. A hint that may be outdated.
    checked_size: Padded<AtomicU64>,
    pub(crate) groups: Groups,
    pub(crate) in_hook: Padded<ThreadMark>,
    /// Whether the backend is being truncated, so that a read of it may be short without an error.
    /// Only the holder of the writeback lock changes it.
    is_cutting: Padded<AtomicBool>,
    pub(crate) handles: Padded<Handles>,
    number: u64,
    pub(crate) share: Share,
    pub(crate) since: Padded<Since>,
    pub(crate) service: Padded<Service>,
}

const NO_LOOSE_END: u64 = u64::MAX;

#[derive(Debug)]
#[must_use]
pub(crate) struct Cutting<'w> {
    is_cutting: &'w AtomicBool,
    waits: &'w WaitTable,
}

impl Drop for Cutting<'_> {
    fn drop(&mut self) {
        // ORDERING: Release; pairs with the acquire in `Writes::is_cutting`.
        self.is_cutting.store(false, Ordering::Release);
        self.waits.wake(self.is_cutting);
    }
}

impl Writes {
    pub(crate) fn storage_mut(&mut self) -> &mut Storage {
        self.writeback
            .0
            .get_mut()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn add_handle(&self, access: Handle) {
        self.begin_handles(self.handles.add(access));
    }

    pub(crate) fn add_admitted_handle(&self) {
        self.begin_handles(self.handles.add_admitted());
    }

    fn begin_handles(&self, is_first: bool) {
        // While the file had no strong reference, a request for it may have been lost.
        if is_first {
            self.service.forget_call();
        }
    }

    pub(crate) fn checked_size(&self) -> u64 {
        // ORDERING: Relaxed; an independent number.
        self.checked_size.load(Ordering::Relaxed)
    }

    pub(crate) fn note_checked_size(&self, size: u64) {
        // ORDERING: Relaxed; if the larger value is lost, the backend is queried again.
        self.checked_size.store(size, Ordering::Relaxed);
    }

    pub(crate) fn new(
        sets: PageSets,
        number: u64,
        options: WriteOptions,
        is_size_known: bool,
    ) -> Self {
        let WriteOptions { mode, before_write } = options;
        Self {
            sets,
            writeback: Padded(Mutex::new(Storage::at_open(is_size_known))),
            commits: Commits::default(),
            oldest: Oldest::default(),
            handles: Padded::default(),
            errors: Errors::default(),
            mode: mode.unwrap_or_default(),
            before_write,
            reserve: None,
            loose_end: Padded(AtomicU64::new(NO_LOOSE_END)),
            checked_size: Padded(AtomicU64::new(0)),
            groups: Groups::default(),
            in_hook: Padded::default(),
            is_cutting: Padded(AtomicBool::new(false)),
            number,
            share: Share::default(),
            since: Padded::default(),
            service: Padded::default(),
        }
    }

    pub(crate) fn mismatch(&self, options: &WriteOptions) -> Option<String> {
        match options.mode {
            Some(mode) if mode != self.mode => {
                return Some(format!(
                    "the writeback mode is {:?}, not {mode:?}",
                    self.mode
                ));
            }
            _ => {}
        }
        // Closures of the same type may have different state.
        match (&self.before_write, &options.before_write) {
            (Some(own), Some(named))
                if !std::ptr::addr_eq(Arc::as_ptr(own), Arc::as_ptr(named)) =>
            {
                Some("it has another writeback callback".into())
            }
            (None, Some(_)) => Some("it has no writeback callback".into()),
            _ => None,
        }
    }

    /// Returns the end of the file if the backend of a file in whole pages may have nonzero bytes
    /// between it and the end of its page. They must not become part of the file
    /// ([`crate::writeback::tail`]).
    pub(crate) fn loose_end(&self) -> Option<u64> {
        // ORDERING: Relaxed; a value is set under the size lock, which every thread that extends
        // the file holds. Another thread may clear it, under the writeback lock: a thread that has
        // loaded the value checks again under that lock.
        let end = self.loose_end.load(Ordering::Relaxed);
        (end != NO_LOOSE_END).then_some(end)
    }

    /// The caller holds the writeback lock, or no other thread has access to the file yet.
    pub(crate) fn set_loose_end(&self, end: Option<u64>) {
        // ORDERING: Relaxed; as in `loose_end`.
        self.loose_end
            .store(end.unwrap_or(NO_LOOSE_END), Ordering::Relaxed);
    }

    /// Records that the whole pages from byte `start` to `end` were written, with zeros after the
    /// end of the file. The caller holds the writeback lock.
    pub(crate) fn note_whole_pages(&self, start: u64, end: u64) {
        if self
            .loose_end()
            .is_some_and(|at| (start..end).contains(&at))
        {
            self.set_loose_end(None);
        }
    }

    /// Marks the backend as being truncated until the guard is dropped, which wakes the threads in
    /// `waits`. The caller holds the writeback lock, and before the drop stores the size for fills.
    pub(crate) fn cutting<'w>(&'w self, waits: &'w WaitTable) -> Cutting<'w> {
        // ORDERING: Relaxed; a thread whose read is short because of the truncation also sees this
        // store, if the backend orders its calls (the operating system and the memory backend do).
        // With another backend, the thread may fail as after a truncation by another program, but
        // returns no wrong bytes.
        self.is_cutting.store(true, Ordering::Relaxed);
        Cutting {
            is_cutting: &self.is_cutting,
            waits,
        }
    }

    pub(crate) fn wait_while_cutting(&self, waits: &WaitTable) {
        // ORDERING: Acquire, as in `is_cutting`.
        waits.wait_while(&self.is_cutting, |is_cutting| {
            is_cutting.load(Ordering::Acquire)
        });
    }

    pub(crate) fn is_cutting(&self) -> bool {
        // ORDERING: Acquire; pairs with the release in the guard's drop: the new size is visible.
        self.is_cutting.load(Ordering::Acquire)
    }

    pub(crate) fn dirty(&self) -> PageSet<'_> {
        self.sets.set(Which::Dirty)
    }

    pub(crate) fn written(&self) -> PageSet<'_> {
        self.sets.set(Which::Written)
    }

    pub(crate) fn memory_of_sets(&self) -> &Region {
        self.sets.bits()
    }

    pub(crate) fn any_dirty(&self, pages: Range<PageNr>) -> Option<PageNr> {
        self.dirty().next(pages.start, pages.end)
    }

    /// Updates the sets and the number of frames that are not clean. The page's slot is claimed.
    #[inline]
    pub(crate) fn note_state(
        &self,
        (pressure, order): (&Pressure, Order),
        page: PageNr,
        before: PageState,
        after: PageState,
    ) {
        if before != after {
            self.note_change((pressure, order), page, before, after);
        }
    }

    /// Separate from `note_state`, so that writes to dirty pages save no registers.
    #[inline(never)]
    fn note_change(
        &self,
        (pressure, order): (&Pressure, Order),
        page: PageNr,
        before: PageState,
        after: PageState,
    ) {
        match (before.is_dirty(), after.is_dirty()) {
            (false, true) => _ = self.dirty().insert(page),
            (true, false) => _ = self.dirty().remove(page),
            _ => {}
        }
        match (before.is_written(), after.is_written()) {
            (false, true) => _ = self.written().insert(page),
            (true, false) => _ = self.written().remove(page),
            _ => {}
        }
        match (before.is_unclean(), after.is_unclean()) {
            (false, true) => self.count_unclean(pressure, order.frames() as usize),
            (true, false) => pressure.sub(&self.share, order.frames() as usize),
            _ => {}
        }
    }

    fn count_unclean(&self, pressure: &Pressure, nr_frames: usize) {
        if pressure.add(&self.share, nr_frames) == 0 {
            self.since.begin();
        }
        // In a model, whose quotas are a few frames, requests would order nearly all writers: one
        // that dirties a page would happen after those before it, as with few dirty pages it need
        // not.
        if scaled(true, false) && pressure.is_high(&self.share) {
            self.call(pressure);
        }
    }

    /// Requests that a flusher clean the file, unless it is `Manual`. The caller may hold claims.
    pub(crate) fn call(&self, pressure: &Pressure) {
        if self.mode == Writeback::Background && self.service.note_call() {
            pressure.calls.call(Call::Clean(self.number));
        }
    }

    /// Requests that a flusher make the file durable now. Returns the number of the last attempt
    /// that began before this request.
    pub(crate) fn call_now(&self, pressure: &Pressure) -> u64 {
        let nr = self.service.note_urgent();
        // A queued `Clean` may wait until the requests resume. A second request is harmless.
        if self.service.note_call() || pressure.calls.are_to_stop() {
            pressure.calls.call(Call::CleanNow(self.number));
        }
        nr
    }

    /// Returns the numbers of dirty and of unsynced pages below `end`, each at its own moment.
    pub(crate) fn nr_pages(&self, end: PageNr) -> (usize, usize) {
        let nr = |which| self.sets.set(which).nr(end);
        (nr(Which::Dirty), nr(Which::Written))
    }
}

impl fmt::Debug for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writes")
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Nothing has been written to the backend since the opening, which may have created the file.
    /// An earlier writer may not have synced it.
    AsOpened,
    /// Something was written to the backend, or its size set, since the last sync or the opening.
    Changed,
    /// The backend has reported everything written to it as durable, including the size.
    Durable,
}

/// Known state of a file's backend, guarded by the writeback lock.
#[derive(Debug)]
pub(crate) struct Storage {
    /// Whether the backend is known to have the size that fills use. `false` during a write or a
    /// change of size, after a failed one until the size is queried or set, and while the backend
    /// of a file in whole pages is extended for a flush ([`crate::writeback::size`], P1).
    pub(crate) is_size_known: bool,
    pub(crate) durability: Durability,
    /// Whether a sync has failed since the last successful sync of the whole file. If so, the
    /// backend may return bytes that it will not keep, whatever it reports later.
    pub(crate) is_doubtful: bool,
    /// Whether a write has failed since the last successful sync, so that pages may be dirty.
    pub(crate) may_have_dirty: bool,
    /// For a file in whole pages: end to which the backend was extended, if past the file's pages.
    pub(crate) pages_end: u64,
    /// For a file in whole pages: whether the bytes past the last page, which only encode the size,
    /// may differ from zeros. They are not checked when the file is opened.
    pub(crate) may_have_rest: bool,
    /// For a file in whole pages: whether it was truncated since the last successful sync
    /// ([`crate::writeback::size`], P2).
    pub(crate) is_cut: bool,
    pub(crate) pace: Pace,
}

impl Storage {
    pub(crate) fn at_open(is_size_known: bool) -> Self {
        Self {
            is_size_known,
            durability: Durability::AsOpened,
            is_doubtful: false,
            may_have_dirty: false,
            pages_end: 0,
            may_have_rest: false,
            is_cut: false,
            pace: Pace::default(),
        }
    }
}

/// Writeback callback: called before a page is written to the backend, with the page's number and
/// the highest log sequence number of its writes. If it returns an error, the page is not written.
pub type BeforeWrite = dyn Fn(u64, u64) -> io::Result<()> + Send + Sync;

/// Policy for writing back the dirty pages of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writeback {
    /// Dirty pages are written back in the background, and on request of the program.
    #[default]
    Background,
    /// Dirty pages are written back only on request of the program, or when the file is closed.
    Manual,
}

pub(crate) enum Access {
    Read,
    Write(WriteOptions),
}

/// Options for writing. For `None`, an open file keeps its value, and a new file gets the default.
#[derive(Clone, Default)]
pub(crate) struct WriteOptions {
    pub(crate) mode: Option<Writeback>,
    pub(crate) before_write: Option<Arc<BeforeWrite>>,
}

impl fmt::Debug for WriteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteOptions")
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}
