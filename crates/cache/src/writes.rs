//! What a file has that is written to, besides its pages: which are dirty, which are written, who is to be
//! told of errors, what is not to be written yet.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use pagewell_sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use pagewell_sync::parking::WaitTable;
use pagewell_sync::{Mutex, lock};

use crate::groups::Groups;
use crate::index::PageNr;
use crate::page_set::PageSet;
use crate::page_state::Group;
use crate::writeback::ThreadMark;

/// Called with a page's number and the highest log sequence number that was written to it, before the page
/// is given to the storage. An error keeps it from being written.
pub type BeforeWrite = dyn Fn(u64, u64) -> io::Result<()> + Send + Sync;

/// When the dirty pages of a file are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writeback {
    /// Soon, in the background; and when the program asks for it.
    #[default]
    Background,
    /// Only when the program asks for it.
    Manual,
}

/// What a handle may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handle {
    Read,
    Write,
}

/// Whether a file is written to, and how.
pub(crate) enum Access {
    Read,
    Write(WriteOptions),
}

/// How a file is written to.
#[derive(Clone, Default)]
pub(crate) struct WriteOptions {
    pub(crate) mode: Writeback,
    pub(crate) before_write: Option<Arc<BeforeWrite>>,
}

/// What a file has that is written to.
pub(crate) struct Writes {
    /// The pages that the storage does not have, by group.
    dirty: [PageSet; 2],
    /// The pages that the storage was given, and has not said that they are durable.
    pub(crate) written: PageSet,
    /// Held while pages are given to the storage, while the storage makes them durable, and while its size is
    /// set: so one version of a page is on its way at a time, and one size.
    pub(crate) writeback: Mutex<Storage>,
    pub(crate) errors: Errors,
    pub(crate) mode: Writeback,
    pub(crate) before_write: Option<Arc<BeforeWrite>>,
    pub(crate) groups: Groups,
    /// Who is in the file's hook.
    pub(crate) in_hook: ThreadMark,
    /// Whether the storage is being cut, by who holds its lock: a transfer may fall short, and no error is in that.
    is_cutting: AtomicBool,
    holds: Mutex<HashMap<PageNr, usize>>,
    nr_handles: AtomicUsize,
}

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

/// What is known of a file's storage.
#[derive(Debug)]
pub(crate) struct Storage {
    /// Whether it has the file at the size that fills go by. If not, it failed, and did not tell its size since.
    pub(crate) is_size_known: bool,
    /// Whether it has said that all it was given is durable, the size too.
    pub(crate) is_synced: bool,
    /// Whether a sync has failed since the last one that did not. Then what the storage gives to who reads what it
    /// was given need not be what it keeps, whatever it says of later syncs.
    pub(crate) is_doubtful: bool,
    /// Whether a write has failed since the last sync that did not: then it may have pages that are dirty, and not
    /// durable.
    pub(crate) may_have_dirty: bool,
    /// Whether a group was ended by a barrier and is not known to be durable: G2 of [`crate::groups`].
    pub(crate) is_split: bool,
    /// A dirty page that was passed over since the last sync began, because it was held then.
    pub(crate) passed_over: Option<PageNr>,
}

impl Storage {
    /// Of a file that has just been opened.
    pub(crate) fn in_step() -> Self {
        Self {
            is_size_known: true,
            // Opening may have emptied or made it, and who wrote it last may not have synced it.
            is_synced: false,
            is_doubtful: false,
            may_have_dirty: false,
            is_split: false,
            passed_over: None,
        }
    }
}

impl Writes {
    /// Counts a handle of the file.
    pub(crate) fn add_handle(&self) {
        // ORDERING: Relaxed; who makes a handle has the mapping, and nothing is published.
        self.nr_handles.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a handle no more; whether it was the last one.
    pub(crate) fn remove_handle(&self) -> bool {
        // ORDERING: AcqRel; the last one sees what was written by the others.
        self.nr_handles.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Whether no handle is left.
    pub(crate) fn is_unhandled(&self) -> bool {
        // ORDERING: Acquire; pairs with the release in `remove_handle`: what was written by them is seen.
        self.nr_handles.load(Ordering::Acquire) == 0
    }

    /// None when the system does not give the addresses.
    pub(crate) fn new(nr_pages: u64, options: WriteOptions) -> Option<Self> {
        let WriteOptions { mode, before_write } = options;
        Some(Self {
            dirty: [PageSet::new(nr_pages)?, PageSet::new(nr_pages)?],
            written: PageSet::new(nr_pages)?,
            writeback: Mutex::new(Storage::in_step()),
            nr_handles: AtomicUsize::new(0),
            errors: Errors::default(),
            mode,
            before_write,
            groups: Groups::default(),
            in_hook: ThreadMark::default(),
            is_cutting: AtomicBool::new(false),
            holds: Mutex::new(HashMap::new()),
        })
    }

    /// Says that the storage is being cut, until the guard is dropped, which wakes who waits among `waits`. The writeback
    /// lock is held. By then the size that fills go by is the new one.
    pub(crate) fn cutting<'w>(&'w self, waits: &'w WaitTable) -> Cutting<'w> {
        // ORDERING: Relaxed; who has met the cut in the storage has seen this, as far as the storage orders its calls
        // (the system's and those in memory do). Who has not takes the file for cut by others, which is an error and
        // no wrong bytes.
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
        // ORDERING: Acquire; pairs with the release when the guard is dropped: who sees that the cut is over sees the
        // size that it has left.
        self.is_cutting.load(Ordering::Acquire)
    }

    /// The pages of `group` that the storage does not have.
    pub(crate) fn dirty(&self, group: Group) -> &PageSet {
        &self.dirty[group.index()]
    }

    /// A dirty page in `pages`, if there is one.
    pub(crate) fn any_dirty(&self, pages: Range<PageNr>) -> Option<PageNr> {
        let mut sets = self.dirty.iter();
        sets.find_map(|set| set.next(pages.start, pages.end))
    }

    /// Keeps `page` from being written until [`release`](Self::release) was called as often.
    pub(crate) fn hold(&self, page: PageNr) {
        *lock(&self.holds).entry(page).or_insert(0) += 1;
    }

    pub(crate) fn release(&self, page: PageNr) {
        let mut holds = lock(&self.holds);
        if let Some(nr) = holds.get_mut(&page) {
            *nr -= 1;
            if *nr == 0 {
                holds.remove(&page);
            }
        }
    }

    pub(crate) fn is_held(&self, page: PageNr) -> bool {
        lock(&self.holds).contains_key(&page)
    }
}

impl fmt::Debug for WriteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteOptions")
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writes")
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

/// The errors of writing a file, each of which every handle is told of once.
///
/// Source: the error sequence of Linux (`errseq_t`, Layton 2017).
#[derive(Debug, Default)]
pub(crate) struct Errors {
    nr: AtomicU64,
    last: Mutex<Option<(io::ErrorKind, String)>>,
}

impl Errors {
    /// How many errors there were.
    pub(crate) fn nr(&self) -> u64 {
        // ORDERING: Acquire; pairs with `note`: who sees the number finds the error.
        self.nr.load(Ordering::Acquire)
    }

    pub(crate) fn note(&self, error: &io::Error) {
        *lock(&self.last) = Some((error.kind(), error.to_string()));
        // ORDERING: Release; see `nr`.
        self.nr.fetch_add(1, Ordering::Release);
    }

    /// The last error, if there was one after number `seen`, which is brought up to date.
    pub(crate) fn take(&self, seen: &AtomicU64) -> Option<io::Error> {
        let nr = self.nr();
        // ORDERING: Relaxed; the read-modify-write makes one caller of the handle tell, and never goes back.
        if seen.fetch_max(nr, Ordering::Relaxed) >= nr {
            return None;
        }
        let last = lock(&self.last);
        last.as_ref()
            .map(|(kind, text)| io::Error::new(*kind, text.clone()))
    }
}

/// How many frames of a cache hold bytes that the storage is not known to have.
#[derive(Debug)]
pub(crate) struct UncleanFrames {
    nr: AtomicUsize,
    /// From here on writers write pages back themselves before they make more dirty.
    limit: usize,
    /// From here on the thread of the cache makes pages clean, so that writers do not come to the limit.
    high: usize,
}

impl UncleanFrames {
    /// For a cache of `nr_frames` frames: at most half of them.
    pub(crate) fn new(nr_frames: usize) -> Self {
        Self {
            nr: AtomicUsize::new(0),
            limit: (nr_frames / 2).max(1),
            high: (nr_frames / 4).max(1),
        }
    }

    /// Counts `nr` more; whether it is time that the thread of the cache makes pages clean. One caller is told so.
    #[must_use]
    pub(crate) fn add(&self, nr: usize) -> bool {
        // ORDERING: Relaxed, here and below; a number that limits, and guards nothing.
        let before = self.nr.fetch_add(nr, Ordering::Relaxed);
        before < self.high && before + nr >= self.high
    }

    pub(crate) fn sub(&self, nr: usize) {
        self.nr.fetch_sub(nr, Ordering::Relaxed);
    }

    pub(crate) fn nr(&self) -> usize {
        self.nr.load(Ordering::Relaxed)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.nr() >= self.limit
    }

    #[cfg(not(loom))]
    pub(crate) fn is_high(&self) -> bool {
        self.nr() >= self.high
    }
}
