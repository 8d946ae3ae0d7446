//! Pages for tasks: a lookup that leaves a waker where a thread would sleep.
//!
//! A page that is there is found as by a thread. One that is missing is read by the engine ([`crate::read::flight`]); one that somebody else
//! reads or changes is waited for at its slot ([`WaitTable`](pagewell_sync::parking::WaitTable)). Where a thread would wait for something else (permits,
//! pages to evict, a cut), it is left to a call by a thread of the cache ([`Errand`](crate::base::errand::Errand)).

use std::task::Waker;

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::Arc;
use pagewell_sync::parking::Left;
use pagewell_sync::thread::Backoff;

use crate::base::error::Error;
use crate::base::page::PageNr;
use crate::base::slot::State;
use crate::index::file_index::WATCHES;
use crate::mapping::record::Mapping;
use crate::read::flight::{Departure, Flights, Report};
use crate::read::lookup::{Found, Lookup};
use crate::read::reader::Guide;

/// How often a page that was read, and was gone again when its task came, is read again before a thread does it: that one cannot miss it.
const TRIES: u32 = 3;

/// What a step has come to.
pub(crate) enum Step<T> {
    Done(T),
    /// The waker is left.
    Pending,
    /// A thread has to do it, since it takes waiting.
    Call,
}

/// Lookup of one page by a task: its waker, and the fills it has begun.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// The page that the other fields are about. Page 0 at first, of which they say nothing.
    page: PageNr,
    left: Option<Left>,
    /// Of the fill that the task has begun.
    report: Option<Arc<Report>>,
    nr_fills: u32,
    /// How many transfers of several pages have failed: after one, this page is tried alone. (A number, since with padding behind a flag the
    /// compiler moves a future in pieces across its fields, and a load of such a piece waits for the stores of both: 10 ns a hit.)
    nr_failed_together: u32,
}

impl Waiting {
    /// Notes where the waker is. The one before has been taken out.
    pub(crate) fn leave(&mut self, left: Left) {
        self.left = Some(left);
    }

    /// Takes the waker out.
    pub(crate) fn take_out<S: RefScheme>(&mut self, mapping: &Mapping<S>) {
        if let Some(left) = self.left.take() {
            left.take_out(&mapping.claims().waits);
        }
    }

    /// What the fill that the task has begun has come to, if it failed.
    fn check_report(&mut self) -> Result<(), Error> {
        let Some(report) = self.report.take() else {
            return Ok(());
        };
        self.nr_failed_together += u32::from(report.has_failed_together());
        report.take_error().map_or(Ok(()), Err)
    }

    /// A reference to the frame of `page`, of which the task needs `wanted` from there on.
    pub(crate) fn find<'m, S: RefScheme>(
        &mut self,
        mapping: &'m Arc<Mapping<S>>,
        (page, wanted): (PageNr, usize),
        guide: &impl Guide,
        waker: &Waker,
    ) -> Result<Step<Found<'m, S>>, Error> {
        self.take_out(mapping);
        if page != self.page {
            // The page before may have been copied without a lookup: what became of its fill says nothing of this one.
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
                    if let Some(found) = Lookup(&**mapping).try_get_seen(seen)? {
                        if guide.marks() {
                            Lookup(&**mapping).mark_referenced(page, seen);
                        }
                        return Ok(Step::Done(found));
                    }
                    if backoff.rounds() >= WATCHES {
                        return Ok(Step::Call);
                    }
                    backoff.wait();
                }
                Some((seen, State::Busy)) => {
                    // What the task reads itself takes longer than a look.
                    if self.report.is_none() && backoff.rounds() < WATCHES {
                        backoff.wait();
                    } else if let Some(left) = seen.leave_waker(mapping.claims(), waker) {
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

    /// Has the engine read `page`; whether it does, or another thread was faster.
    fn begin_fill<S: RefScheme>(
        &mut self,
        mapping: &Arc<Mapping<S>>,
        (page, wanted): (PageNr, usize),
        guide: &impl Guide,
    ) -> Result<bool, Error> {
        if self.nr_fills == TRIES {
            return Ok(false);
        }
        let want = match self.nr_fills {
            0 => guide.on_miss(page, wanted),
            _ if self.nr_failed_together != 0 => 1,
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
