//! The additional state of a file that is written to: its dirty pages, its written pages, the errors that handles
//! are told.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use pagewell_frame::Order;
use pagewell_sync::Mutex;
use pagewell_sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use pagewell_sync::parking::WaitTable;
use pagewell_sync::shard::Padded;

use crate::base::page::PageNr;
use crate::base::page_state::PageState;
use crate::base::reserved::Reserved;
use crate::dirty::calls::Call;
use crate::dirty::commits::Commits;
use crate::dirty::errors::Errors;
use crate::dirty::groups::Groups;
use crate::dirty::hook::ThreadMark;
use crate::dirty::oldest::Oldest;
use crate::dirty::options::{BeforeWrite, WriteOptions, Writeback};
use crate::dirty::page_set::{PageSet, PageSets, Which};
use crate::dirty::pressure::{Pressure, Share, Since};
use crate::dirty::reserve::Reserve;
use crate::dirty::service::Service;
use crate::dirty::storage::Storage;

/// The additional state of a file that is written to.
///
/// A write to a page that is dirty already loads the number of errors, which has a line of its own,
/// and fields that are not written after the file was opened; the others are padded.
pub(crate) struct Writes {
    /// Which pages are dirty, and which are written.
    sets: PageSets,
    /// Held while pages are given to the storage, while the storage makes them durable, and while its size is
    /// set. So only one version of a page is on its way at a time, and one size.
    pub(crate) writeback: Padded<Mutex<Storage>>,
    /// The syncs that threads share.
    pub(crate) commits: Commits,
    /// The oldest log sequence number that may not be durable.
    pub(crate) oldest: Oldest,
    pub(crate) errors: Errors,
    pub(crate) mode: Writeback,
    pub(crate) before_write: Option<Arc<BeforeWrite>>,
    /// Memory for pages on their way, if the file has hooks on its bytes.
    pub(crate) reserve: Option<Reserve>,
    /// From which byte on its page may have bytes in the storage that are not the file's ([`loose_end`](Self::loose_end)).
    loose_end: Padded<AtomicU64>,
    pub(crate) groups: Groups,
    /// The thread that is in the file's hook.
    pub(crate) in_hook: Padded<ThreadMark>,
    /// Whether the storage is being cut, as set by the holder of its lock: a transfer may fall short, which is no error then.
    is_cutting: Padded<AtomicBool>,
    nr_handles: Padded<AtomicUsize>,
    /// The file's number among those of the cache.
    number: u64,
    /// How many of its frames are not clean.
    pub(crate) share: Share,
    /// Since when there are any.
    pub(crate) since: Padded<Since>,
    /// What its write-back is doing.
    pub(crate) service: Padded<Service>,
}

/// No page has bytes past the file's end.
const NO_LOOSE_END: u64 = u64::MAX;

/// The storage is being cut.
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
    /// The state of the storage, before others have the file.
    pub(crate) fn storage_mut(&mut self) -> &mut Storage {
        self.writeback
            .0
            .get_mut()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Counts a handle of the file.
    pub(crate) fn add_handle(&self) {
        // ORDERING: Relaxed; a thread that makes a handle has the mapping, and nothing is published.
        if self.nr_handles.fetch_add(1, Ordering::Relaxed) == 0 {
            // Pins may have kept the file without a share, and then nobody has taken a call for it.
            #[cfg(not(loom))]
            self.service.forget_call();
        }
    }

    /// Counts a handle no more; whether it was the last one.
    pub(crate) fn remove_handle(&self) -> bool {
        // ORDERING: AcqRel; the last one sees the writes of the others.
        self.nr_handles.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Whether no handle is left.
    pub(crate) fn is_unhandled(&self) -> bool {
        // ORDERING: Acquire; pairs with the release in `remove_handle`: the writes of the handles are seen.
        self.nr_handles.load(Ordering::Acquire) == 0
    }

    /// None when the system does not give the addresses.
    pub(crate) fn new(
        nr_pages: u64,
        number: u64,
        options: WriteOptions,
        is_size_known: bool,
    ) -> Option<Self> {
        let WriteOptions { mode, before_write } = options;
        Some(Self {
            sets: PageSets::new(nr_pages)?,
            writeback: Padded(Mutex::new(Storage::at_open(is_size_known))),
            commits: Commits::default(),
            oldest: Oldest::default(),
            nr_handles: Padded(AtomicUsize::new(0)),
            errors: Errors::default(),
            mode: mode.unwrap_or_default(),
            before_write,
            reserve: None,
            loose_end: Padded(AtomicU64::new(NO_LOOSE_END)),
            groups: Groups::default(),
            in_hook: Padded::default(),
            is_cutting: Padded(AtomicBool::new(false)),
            number,
            share: Share::default(),
            since: Padded::default(),
            service: Padded::default(),
        })
    }

    /// What `options` name otherwise than the file has it, if anything.
    pub(crate) fn mismatch(&self, options: &WriteOptions) -> Option<String> {
        match options.mode {
            Some(mode) if mode != self.mode => {
                return Some(format!("it is {:?}, not {mode:?}", self.mode));
            }
            _ => {}
        }
        // Two closures of one type are two hooks: their state may differ.
        match (&self.before_write, &options.before_write) {
            (Some(own), Some(named))
                if !std::ptr::addr_eq(Arc::as_ptr(own), Arc::as_ptr(named)) =>
            {
                Some("it has another hook".into())
            }
            (None, Some(_)) => Some("it has no hook".into()),
            _ => None,
        }
    }

    /// The end of the file, if the storage may have other bytes than zeros after it in the page with the end: of a file that is stored in whole pages, after a cut,
    /// and after an opening. They must not become the file's when it grows ([`crate::writeback::tail`]).
    pub(crate) fn loose_end(&self) -> Option<u64> {
        // ORDERING: Relaxed; it is set with the lock of the file's size, which whoever makes the file longer has. Who sees too late that it is
        // cleared looks once more with the writeback lock, under which it changes.
        let end = self.loose_end.load(Ordering::Relaxed);
        (end != NO_LOOSE_END).then_some(end)
    }

    /// Changes the [`loose_end`](Self::loose_end). The writeback lock is held, or nobody else has this yet.
    pub(crate) fn set_loose_end(&self, end: Option<u64>) {
        // ORDERING: Relaxed; as in `loose_end`.
        self.loose_end
            .store(end.unwrap_or(NO_LOOSE_END), Ordering::Relaxed);
    }

    /// The storage was given whole pages, those from byte `start` up to `end`, with zeros after the end of the file. The writeback lock is held.
    pub(crate) fn note_whole_pages(&self, start: u64, end: u64) {
        if self
            .loose_end()
            .is_some_and(|at| (start..end).contains(&at))
        {
            self.set_loose_end(None);
        }
    }

    /// Marks the storage as being cut, until the guard is dropped, which wakes the threads that wait among `waits`. The writeback
    /// lock is held. The size that fills go by is the new one already.
    pub(crate) fn cutting<'w>(&'w self, waits: &'w WaitTable) -> Cutting<'w> {
        // ORDERING: Relaxed; a thread that has met the cut in the storage has seen this, as far as the storage orders its
        // calls (the system's and those in memory do). Otherwise the thread takes the file for cut by others, which is an
        // error, but gives no wrong bytes.
        self.is_cutting.store(true, Ordering::Relaxed);
        Cutting {
            is_cutting: &self.is_cutting,
            waits,
        }
    }

    /// Sleeps until the storage is not being cut.
    pub(crate) fn wait_while_cutting(&self, waits: &WaitTable) {
        // ORDERING: Acquire, as in `is_cutting`.
        waits.wait_while(&self.is_cutting, |is_cutting| {
            is_cutting.load(Ordering::Acquire)
        });
    }

    pub(crate) fn is_cutting(&self) -> bool {
        // ORDERING: Acquire; pairs with the release when the guard is dropped: a thread that sees the end of the cut sees the
        // size that it has left.
        self.is_cutting.load(Ordering::Acquire)
    }

    /// The pages that the storage does not have.
    pub(crate) fn dirty(&self) -> PageSet<'_> {
        self.sets.set(Which::Dirty)
    }

    /// The pages that the storage was given, and has not reported durable.
    pub(crate) fn written(&self) -> PageSet<'_> {
        self.sets.set(Which::Written)
    }

    /// The memory of the sets, in which each extent has its part.
    pub(crate) fn memory_of_sets(&self) -> &Arc<Reserved> {
        self.sets.bits()
    }

    /// A dirty page in `pages`, if there is one.
    pub(crate) fn any_dirty(&self, pages: Range<PageNr>) -> Option<PageNr> {
        self.dirty().next(pages.start, pages.end)
    }

    /// Brings the sets, and the number of unclean frames, into line with a change of the state of a page of `order`. The
    /// caller has claimed the page's slot.
    #[inline]
    pub(crate) fn note_state(
        &self,
        (pressure, order): (&Pressure, Order),
        page: PageNr,
        before: PageState,
        after: PageState,
    ) {
        // Most writes are to pages that are dirty already.
        if before != after {
            self.note_change((pressure, order), page, before, after);
        }
    }

    /// As [`note_state`](Self::note_state). A function apart, so that writes to dirty pages need not save its registers.
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
        if pressure.is_high(&self.share) {
            self.call(pressure);
        }
    }

    /// Has a thread of the cache clean the file soon, if it is written back without a request. Claims may be held.
    pub(crate) fn call(&self, pressure: &Pressure) {
        // In a model there is no thread.
        #[cfg(not(loom))]
        if self.mode == Writeback::Background && self.service.note_call() {
            pressure.calls.call(Call::Clean(self.number));
        }
        #[cfg(loom)]
        let _ = (pressure, self.number, Call::Close);
    }

    /// Has a thread of the cache make the file durable now; the number of the last attempt that does
    /// not know of this call.
    #[cfg(not(loom))]
    pub(crate) fn call_now(&self, pressure: &Pressure) -> u64 {
        let nr = self.service.note_urgent();
        // A call that waits already may not be taken before those who stop the calls let them go on. One too many finds nothing
        // to do.
        if self.service.note_call() || pressure.calls.are_to_stop() {
            pressure.calls.call(Call::CleanNow(self.number));
        }
        nr
    }

    /// How many pages below `end` the storage does not have, and how many it was given and has not
    /// reported durable: each of them at some moment of the call.
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
