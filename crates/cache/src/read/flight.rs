//! Fills that overlap: what a transfer needs is owned by its request, and not by a thread's stack.
//!
//! Protocol. A thread prepares a fill as ever ([`crate::read::fill`]), but takes only what needs no waiting, and gives it to the engine. Who
//! completes the request publishes the pages, or gives all back, and ends the claims. Threads and tasks that want one of the pages find its
//! slot claimed, and wait for that claim as for any other; they need not know who fills it.
//!
//! While a lane of its own has flights under way, a thread waits for nothing but the lane: it holds their claims (C3 of
//! [`crate::index::claim`]), and only it sees to their end.
//!
//! Keeping. A flight visits its file ([`crate::mapping::visitor`]): whoever drops the last share waits until it has landed.
//!
//! Hooks on bytes. They turn pages back before these are published, which may take long, or block. The completion runs on a thread that all files need, of the engine or of a
//! storage, or on one that has other flights to complete. So it gives the flight, with all that it has, to a thread that is there for that
//! ([`Engines::restore`](crate::base::engines::Engines::restore)).
//!
//! Wakers. A completion may run on the engine's thread, which all files need. So other threads call the wakers of tasks
//! ([`Engines`](crate::base::engines::Engines)), after the completion has let go of the file: a task that is run by its waker may drop the
//! file's last handle, which waits for other requests. Only if the system has no thread to give does the completion call them itself.
//!
//! Failure. Every slot is as it was. The error is told in the flight's [`Report`], if somebody has one; it is there before the claims end.
//! Who has none looks again, finds the slot empty, and tries itself.

#![allow(unsafe_code)] // What a flight borrows from its own visitor; memory for the system.

use std::fmt;
use std::io;
use std::mem;

use pagewell_frame::refcount::RefScheme;
use pagewell_io::engine::{Completion, Job, Request, Span, Spans};
use pagewell_sync::parking::keep_wakers;
use pagewell_sync::{Arc, Mutex, lock};

use crate::base::error::Error;
use crate::base::page::PageNr;
use crate::mapping::record::Mapping;
use crate::mapping::visitor::Visitor;
use crate::read::fill::{Batch, Fill, Filler, Landed};

/// What became of a flight, for who asks.
#[derive(Debug, Default)]
pub(crate) struct Report(Mutex<Outcome>);

#[derive(Debug, Default)]
enum Outcome {
    #[default]
    Open,
    /// Of a transfer of several pages: the first may be readable by itself.
    FailedTogether,
    Failed(Error),
}

impl Report {
    /// The error of a page alone, once.
    pub(crate) fn take_error(&self) -> Option<Error> {
        let mut outcome = lock(&self.0);
        match mem::take(&mut *outcome) {
            Outcome::Failed(error) => Some(error),
            other => {
                *outcome = other;
                None
            }
        }
    }

    /// Whether it is to be tried again with one page.
    pub(crate) fn has_failed_together(&self) -> bool {
        matches!(*lock(&self.0), Outcome::FailedTogether)
    }
}

/// A fill under way.
struct Flight<S: RefScheme> {
    /// Borrows from the mapping that `visitor` has, and so is dropped first. None when it is.
    batch: Option<Batch<'static, S>>,
    visitor: Visitor<S>,
    report: Option<Arc<Report>>,
}

impl<S: RefScheme> fmt::Debug for Flight<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Flight").field(&self.batch).finish()
    }
}

/// What is to become of a page that is missing.
pub(crate) enum Departure {
    /// The transfer is to be given to the engine; it is of so many pages.
    Ready(Job, usize),
    /// The page is there: it was one of zeros.
    There,
    /// Another thread was faster, or it would take waiting.
    NotNow,
}

/// Prepares fills that overlap.
#[derive(Debug)]
pub(crate) struct Flights<'m, S: RefScheme>(pub(crate) &'m Arc<Mapping<S>>);

impl<S: RefScheme> Clone for Flights<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: RefScheme> Copy for Flights<'_, S> {}

impl<S: RefScheme> Flights<'_, S> {
    /// Prepares a fill of `page`, and of missing pages after it up to `want` in all. Nothing is waited for.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`](crate::ErrorKind::OutOfRange) past the end of the file.
    pub(crate) fn prepare(
        self,
        page: PageNr,
        want: usize,
        report: Option<Arc<Report>>,
    ) -> Result<Departure, Error> {
        let Some(visitor) = Visitor::of(self.0) else {
            return Ok(Departure::NotNow);
        };
        let Some(mut batch) = Filler(self.0).try_prepare(page, want)? else {
            return Ok(Departure::NotNow);
        };
        if batch.is_of_zeros() {
            return Ok(match batch.publish_zeros() {
                Fill::Filled(..) => Departure::There,
                Fill::Raced | Fill::Cut => Departure::NotNow,
            });
        }
        batch.begin();
        let (pos, nr_pages) = (batch.pos(), batch.nr_pages());
        let spans = match nr_pages {
            // Takes no memory.
            1 => batch.bufs().next().map(|buf| Spans::from(Span::from(buf))),
            _ => None,
        };
        let spans =
            spans.unwrap_or_else(|| batch.bufs().map(Span::from).collect::<Vec<_>>().into());
        // SAFETY: only the lifetime differs. What the batch borrows is in the mapping behind the visitor's `Arc`, whose address does not
        // change when the visitor moves, and which is there as long as the visitor is. The flight drops the batch before the visitor: by the
        // order of its fields, and where `complete` takes it apart. Nothing hands out what has the lifetime.
        let batch = unsafe { mem::transmute::<Batch<'_, S>, Batch<'static, S>>(batch) };
        let flight = Flight {
            batch: Some(batch),
            visitor,
            report,
        };
        // SAFETY: (a) the memory is that of frames which the batch owns, in a pool that the visitor's mapping has a share of; the completion
        // owns both, and lets go of neither before it is called. (b) The frames are no pages yet: their slots are claimed, and name none.
        let request = unsafe { Request::read(pos, spans, Box::new(flight)) };
        Ok(Departure::Ready(self.0.job(request), nr_pages))
    }
}

impl<S: RefScheme> Completion for Flight<S> {
    fn is_prompt(&self) -> bool {
        true
    }

    fn complete(self: Box<Self>, result: io::Result<usize>) {
        let mapping = self.visitor.mapping();
        if mapping.hooks().is_none() || result.is_err() {
            return self.land(result);
        }
        let key = std::sync::Arc::as_ptr(mapping.backend()).addr();
        let engines = std::sync::Arc::clone(mapping.engines());
        engines.restore(key, Box::new(move || self.land(result)));
    }
}

impl<S: RefScheme> Flight<S> {
    /// The end of the flight.
    fn land(self: Box<Self>, result: io::Result<usize>) {
        keep_wakers(move || {
            let Self {
                batch,
                visitor,
                report,
            } = *self;
            if let Some(batch) = batch {
                land(batch, result, report.as_deref(), visitor.mapping());
            }
            drop(visitor);
        });
    }
}

/// Publishes what was read, or tells why nothing was.
fn land<S: RefScheme>(
    batch: Batch<'_, S>,
    result: io::Result<usize>,
    report: Option<&Report>,
    mapping: &Mapping<S>,
) {
    let is_alone = batch.nr_pages() == 1;
    let landed = match result {
        Ok(read) => batch.landed(read),
        Err(error) => Err(Filler(mapping).failed(error)),
    };
    match landed {
        Ok(Landed::Pages(nr)) => batch.publish_all(nr),
        Ok(Landed::Cut) => drop(batch),
        Err(error) => {
            if let Some(report) = report {
                *lock(&report.0) = match is_alone {
                    true => Outcome::Failed(error),
                    false => Outcome::FailedTogether,
                };
            }
            drop(batch);
        }
    }
}
