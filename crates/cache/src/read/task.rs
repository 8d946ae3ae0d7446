//! Page lookup for tasks: stores a waker where a thread would sleep.
//!
//! The I/O engine reads a missing page ([`crate::read::flight`]). If the slot is claimed, the
//! task's waker waits for the end of the claim ([`WaitTable`](pagewell_sync::parking::WaitTable)).
//! Where a thread would wait for anything else, such as a reservation, a frame or a truncation, an
//! offloaded call does the lookup ([`Errand`](pagewell_io::pools::Errand)).

use std::task::Waker;

use pagewell_sync::Arc;
use pagewell_sync::parking::Left;
use pagewell_sync::thread::Backoff;

use crate::base::error::Error;
use crate::base::page::PageNr;
use crate::base::slot::State;
use crate::index::file_index::WATCHES;
use crate::mapping::followers::{Followers, Report};
use crate::mapping::record::Mapping;
use crate::read::flight::{Departure, Flights};
use crate::read::lookup::{Found, Lookup};
use crate::read::reader::Guide;

/// Maximum number of fills of a page that is evicted each time before the task runs. After these,
/// an offloaded call fills the page, and keeps a reference to it.
const TRIES: u32 = 3;

pub(crate) enum Step<T> {
    Done(T),
    Pending,
    Call,
}

#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// Page to which the other fields refer.
    page: PageNr,
    left: Option<Left>,
    /// Report of the task's own fill, or of the fill that it waits for.
    report: Option<Arc<Report>>,
    nr_fills: u32,
    /// Number of failed transfers of several pages. After one, this page is tried alone. (A `bool`
    /// would add padding, and moves of the future would fail store forwarding: 10 ns per hit.)
    nr_failed_together: u32,
}

impl Waiting {
    /// Stores the registration of a waker. The caller has removed the previous one.
    pub(crate) fn leave(&mut self, left: Left) {
        self.left = Some(left);
    }

    pub(crate) fn take_out(&mut self, mapping: &Mapping) {
        if let Some(left) = self.left.take() {
            left.take_out(&mapping.claims().waits);
        }
    }

    fn is_settled(&self) -> bool {
        self.report
            .as_ref()
            .is_some_and(|report| report.is_settled())
    }

    /// Drops the report. Fails with the error that is stored in it.
    fn check_report(&mut self) -> Result<(), Error> {
        let Some(report) = self.report.take() else {
            return Ok(());
        };
        self.nr_failed_together += u32::from(report.has_failed_together());
        report.error().map_or(Ok(()), Err)
    }

    /// Returns a reference to the frame of `page`. The task needs `wanted` pages from it on.
    pub(crate) fn find<'m>(
        &mut self,
        mapping: &'m Arc<Mapping>,
        (page, wanted): (PageNr, usize),
        guide: &impl Guide,
        waker: &Waker,
    ) -> Result<Step<Found<'m>>, Error> {
        self.take_out(mapping);
        if page != self.page {
            // The result of the previous page's fill does not apply to this one.
            *self = Self {
                page,
                ..Self::default()
            };
        }
        let mut backoff = Backoff::new();
        loop {
            let seen = mapping.index().look(page);
            match seen.map(|seen| (seen, seen.slot.state())) {
                Some((seen, State::Present(_))) => {
                    if let Some(found) = Lookup(mapping).try_get_seen(seen)? {
                        self.report = None;
                        if guide.marks() {
                            Lookup(mapping).mark_referenced(page, seen);
                        }
                        return Ok(Step::Done(found));
                    }
                    if backoff.rounds() >= WATCHES {
                        return Ok(Step::Call);
                    }
                    backoff.wait();
                }
                Some((seen, State::Busy)) => {
                    // Another reader may have claimed the slot since: its fill has its own report.
                    if self.is_settled() {
                        self.check_report()?;
                    }
                    if self.report.is_none() && backoff.rounds() < WATCHES {
                        backoff.wait();
                        continue;
                    }
                    if self.report.is_none() && seen.slot.is_claimed_empty() {
                        self.report = Some(Followers::join(&mapping.followers, page));
                    }
                    let is_over = || self.is_settled();
                    if let Some(left) = seen.leave_waker(mapping.claims(), waker, is_over) {
                        self.left = Some(left);
                        return Ok(Step::Pending);
                    }
                }
                Some((_, State::Empty)) | None => {
                    self.check_report()?;
                    if !self.begin_fill(mapping, (page, wanted), guide)? {
                        return Ok(Step::Call);
                    }
                }
            }
        }
    }

    /// Submits a fill of `page` if missing. Returns `false` if an offloaded call must fill it.
    fn begin_fill(
        &mut self,
        mapping: &Arc<Mapping>,
        (page, wanted): (PageNr, usize),
        guide: &impl Guide,
    ) -> Result<bool, Error> {
        if self.nr_fills == TRIES {
            return Ok(false);
        }
        let want = match self.nr_fills {
            _ if self.nr_failed_together != 0 => 1,
            0 => guide.on_miss(page, wanted),
            _ => wanted,
        };
        self.nr_fills += 1;
        let report = Arc::new(Report::default());
        match Flights(mapping).prepare(page, want, Some(Arc::clone(&report)))? {
            Departure::Ready(job, _) => {
                self.report = Some(report);
                mapping.engines().engine().submit(job);
                Ok(true)
            }
            Departure::There => Ok(true),
            Departure::NotNow => {
                let seen = mapping.index().look(page);
                Ok(seen.is_some_and(|seen| seen.slot.state() != State::Empty))
            }
        }
    }
}
