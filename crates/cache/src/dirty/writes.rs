//! What a file has that is written to, besides its pages: which are dirty, which are written, who is to be
//! told of errors, what is not to be written yet.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use pagewell_frame::Order;
use pagewell_sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use pagewell_sync::parking::WaitTable;
use pagewell_sync::{Mutex, lock};

use crate::base::page::PageNr;
use crate::base::page_state::{Group, PageState};
use crate::dirty::errors::Errors;
use crate::dirty::groups::Groups;
use crate::dirty::hook::ThreadMark;
use crate::dirty::options::{BeforeWrite, WriteOptions, Writeback};
use crate::dirty::page_set::PageSet;
use crate::dirty::pressure::Pressure;
use crate::dirty::storage::Storage;

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

    /// Brings the sets, and the number of frames that are not clean, into line with a change of the state of a page of `order`. The
    /// caller has claimed the page's slot.
    #[inline]
    pub(crate) fn note_state(
        &self,
        (pressure, order): (&Pressure, Order),
        page: PageNr,
        before: PageState,
        after: PageState,
    ) {
        let sets = [before, after].map(|state| state.is_dirty().then(|| state.group()));
        match sets {
            [before, after] if before == after => {}
            [before, after] => {
                // In before out: a page that is dirty is found in one of the two.
                _ = after.map(|group| self.dirty(group).insert(page));
                _ = before.map(|group| self.dirty(group).remove(page));
            }
        }
        match (before.is_written(), after.is_written()) {
            (false, true) => _ = self.written.insert(page),
            (true, false) => _ = self.written.remove(page),
            _ => {}
        }
        match (before.is_unclean(), after.is_unclean()) {
            (false, true) => pressure.count_unclean(order.frames() as usize),
            (true, false) => pressure.unclean.sub(order.frames() as usize),
            _ => {}
        }
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

impl fmt::Debug for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writes")
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}
