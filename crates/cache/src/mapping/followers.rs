//! Followers of a fill: readers that wait for a page while another reader, the leader, fills it. If
//! the fill fails, they fail with a copy of its error. If each of N followers tried its own fill
//! instead, they would wait for N failing reads, one after the other.
//!
//! Protocol.
//! ```text
//! leader                                        follower
//! 1 claim the slot of each page, read           a find the slot claimed
//! 2 if it failed: remove the report of each     b join the report of the page; make one if
//!   page from `reports`, store the outcome        there is none
//! 3 end the claims, which wakes the followers   c sleep until the slot is not claimed, or the
//!                                                 outcome is stored
//!                                               d return the error if one is stored, else leave
//!                                                 the report, and look the page up again
//! ```
//!
//! Invariants.
//! - F1: a follower that joined (b) before step 2 gets the outcome: step 2 finds its report in
//!   `reports`, and precedes the end of the claim for which the follower waits.
//! - F2: a follower as in F1 waits for no later claim of the slot. Its wait loads both the slot and
//!   the outcome, and step 3 wakes the slot's waiters after both are stored, as
//!   [`wait_while`](pagewell_sync::parking::WaitTable::wait_while) requires. So the follower sees
//!   the outcome before it sleeps or when it is woken, even if the slot has been claimed again.
//! - F3: a reader gets no error of a fill that failed before it joined: step 2 has removed the
//!   report with that error, so step b makes another.
//! - F4: a page has an entry in `reports` only as long as a reader has the report.
//!
//! A follower that joins between steps 2 and 3 finds no outcome, and looks the page up again. So
//! does a task that is polled only after another fill has made the page resident. Fills that
//! succeed, and claims that are not of a fill, store no outcome.
//!
//! Verified by `loom_failed_fill_vs_*` and `followers/tests.rs`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use pagewell_sync::{Arc, Mutex, Weak, lock};

use crate::base::error::Error;
use crate::base::page::PageNr;
use crate::index::claim::Claims;
use crate::index::file_index::Seen;

#[derive(Debug, Default)]
pub(crate) struct Followers {
    reports: Mutex<BTreeMap<PageNr, Weak<Report>>>,
}

/// Outcome of a fill, for the readers that wait for one of its pages.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Empty while the fill is in flight, and if it was successful. The leader alone stores it, so
    /// no thread waits for the store of another. (The type is `std`'s: models interleave its
    /// accesses with others, but delay no store. F2 relies on the fences of the wait table.)
    outcome: OnceLock<Outcome>,
    /// Place in which the report was entered; `None` for the report of a leader.
    entry: Option<(Arc<Followers>, PageNr)>,
}

#[derive(Debug)]
enum Outcome {
    /// A transfer of several pages failed, so the page must be tried alone.
    FailedTogether,
    Failed(Error),
}

impl Report {
    /// Whether the fill has failed. Loads one atomic, and orders the loads after it (acquire).
    pub(crate) fn is_settled(&self) -> bool {
        self.outcome.get().is_some()
    }

    /// Returns the error of a fill of the page alone.
    pub(crate) fn error(&self) -> Option<Error> {
        match self.outcome.get() {
            Some(Outcome::Failed(error)) => Some(error.copied()),
            Some(Outcome::FailedTogether) | None => None,
        }
    }

    pub(crate) fn has_failed_together(&self) -> bool {
        matches!(self.outcome.get(), Some(Outcome::FailedTogether))
    }

    /// Step c of a follower that is a thread, for the page's slot, which was loaded as `seen`.
    pub(crate) fn wait(&self, seen: Seen<'_>, claims: &Claims) {
        seen.wait_while_busy_unless(claims, || self.is_settled());
    }

    /// Stores the outcome of a failed fill. `error` is `None` if several pages failed together. The
    /// caller then ends the claims of the pages, which wakes the followers.
    pub(crate) fn fail(&self, error: Option<&Error>) {
        let outcome = match error {
            Some(error) => Outcome::Failed(error.copied()),
            None => Outcome::FailedTogether,
        };
        let stored = self.outcome.set(outcome);
        debug_assert!(stored.is_ok(), "a fill fails once");
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let Some((followers, page)) = self.entry.take() else {
            return;
        };
        let mut reports = lock(&followers.reports);
        // F4. The entry may be of another report by now.
        if reports
            .get(&page)
            .is_some_and(|report| report.strong_count() == 0)
        {
            reports.remove(&page);
        }
    }
}

impl Followers {
    /// Returns the report that the next failed fill of `page` stores its outcome in.
    pub(crate) fn join(this: &Arc<Self>, page: PageNr) -> Arc<Report> {
        let mut reports = lock(&this.reports);
        if let Some(report) = reports.get(&page).and_then(Weak::upgrade) {
            return report;
        }
        let report = Arc::new(Report {
            outcome: OnceLock::new(),
            entry: Some((Arc::clone(this), page)),
        });
        reports.insert(page, Arc::downgrade(&report));
        report
    }

    /// Step 2 of the leader, for `pages`, whose claims the caller holds. `error` is as for
    /// [`Report::fail`]. The caller keeps it until the claims have ended: the drop of the last copy
    /// may run code of the program.
    pub(crate) fn fail(&self, pages: Range<PageNr>, error: Option<&Error>) {
        let mut reports = lock(&self.reports);
        let found: Vec<_> = reports.extract_if(pages, |_, _| true).collect();
        drop(reports);
        for (_, report) in found {
            if let Some(report) = report.upgrade() {
                report.fail(error);
            }
        }
    }

    #[cfg(test)]
    fn nr_waiting(&self, page: PageNr) -> usize {
        let reports = lock(&self.reports);
        reports.get(&page).map_or(0, Weak::strong_count)
    }
}

#[cfg(test)]
mod tests;
