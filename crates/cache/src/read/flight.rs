//! Overlapping fills: their I/O requests own the resources (frames, claims, reservation).
//!
//! Protocol. A thread prepares a fill ([`crate::read::fill`]), but acquires only what needs no
//! waiting, and submits it to the I/O engine. The thread that completes the request publishes the
//! pages, or frees all frames, and ends the claims, for which other threads and tasks wait. If a
//! thread has fills in its own submission context, no other thread can complete them and end their
//! claims. So until the fills complete, the thread waits for nothing but that context (C3 of
//! [`crate::index::claim`]).
//!
//! Lifetime. An in-flight fill has a weak reference to its file ([`crate::mapping::visitor`]).
//!
//! Page codecs. A codec may block, and the completing thread may be one that all files need, or
//! have other fills to complete. Therefore it passes the fill to a decoder thread
//! ([`Engines::restore`](pagewell_io::pools::Engines::restore)).
//!
//! Wakers. Waker threads call the wakers of tasks ([`Engines`](pagewell_io::pools::Engines)),
//! after the completion has dropped its reference to the file: a waker may run a task that drops
//! the file's last handle, which waits for other requests. The completion calls the wakers itself
//! only if the system provides no thread.
//!
//! Failure. Every slot is restored. Before the claims end, the error is stored in the fill's
//! [`Report`], if it has one, and in those of its followers ([`crate::mapping::followers`]).

#![allow(unsafe_code)] // A flight borrows from its own `visitor`, and lends memory to the kernel.

use std::io;
use std::mem;

use pagewell_io::engine::{Completion, Job, Request, Span, Spans};
use pagewell_sync::Arc;
use pagewell_sync::ledger::{self, Resource};
use pagewell_sync::parking::keep_wakers;

use crate::base::error::Error;
use crate::base::page::PageNr;
use crate::mapping::followers::Report;
use crate::mapping::record::Mapping;
use crate::mapping::visitor::Visitor;
use crate::read::fill::{Batch, Fill, Filler, Landed};

#[derive(Debug)]
struct Flight {
    /// Dropped before `visitor`, since it borrows from the mapping. `None` once it was dropped.
    batch: Option<Batch<'static>>,
    visitor: Visitor,
    report: Option<Arc<Report>>,
}

pub(crate) enum Departure {
    /// The caller must submit the job, which reads this number of pages.
    Ready(Job, usize),
    /// A page of zeros was published, since the backend has no byte of the page.
    There,
    /// The page is claimed or filled, the fill must wait, or the file has no strong reference.
    NotNow,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Flights<'m>(pub(crate) &'m Arc<Mapping>);

impl Flights<'_> {
    /// Prepares a fill of `page` and of missing pages after it, at most `want` pages in total,
    /// without waiting. Fails with [`OutOfRange`](crate::ErrorKind::OutOfRange) past the end of the
    /// file, and with [`Deadlock`](crate::ErrorKind::Deadlock) in a page codec.
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
            1 => batch.bufs().next().map(|buf| Spans::from(Span::from(buf))),
            _ => None,
        };
        let spans =
            spans.unwrap_or_else(|| batch.bufs().map(Span::from).collect::<Vec<_>>().into());
        // SAFETY: only the lifetime differs. The batch borrows from the mapping behind the `Arc` of
        // `visitor`, which does not move, and exists as long as `visitor`. The flight drops the
        // batch first: by the order of its fields, and in `land`. No function passes on a value
        // with the extended lifetime.
        let batch = unsafe { mem::transmute::<Batch<'_>, Batch<'static>>(batch) };
        // The thread that completes the request takes over the claims and the reservation.
        ledger::released(Resource::SlotClaim, nr_pages);
        ledger::released(Resource::Reservation, 1);
        let flight = Flight {
            batch: Some(batch),
            visitor,
            report,
        };
        // SAFETY: (a) the memory is that of frames which the batch owns, in a pool that the mapping
        // of `visitor` keeps. `flight` owns batch and visitor, and keeps both until it is called.
        // (b) The frames are not pages yet: the slots of their pages are claimed and name no frame.
        let request = unsafe { Request::read(pos, spans, Box::new(flight)) };
        Ok(Departure::Ready(self.0.job(request), nr_pages))
    }
}

impl Completion for Flight {
    fn is_prompt(&self) -> bool {
        true
    }

    fn complete(self: Box<Self>, result: io::Result<usize>) {
        let mapping = self.visitor.mapping();
        if mapping.hooks().is_none() || result.is_err() {
            return self.land(result);
        }
        let key = std::sync::Arc::as_ptr(&mapping.backend).addr();
        let engines = std::sync::Arc::clone(mapping.engines());
        engines.restore(key, Box::new(move || self.land(result)));
    }
}

impl Flight {
    fn land(mut self: Box<Self>, result: io::Result<usize>) {
        keep_wakers(move || {
            if let Some(batch) = self.take_over() {
                let (report, mapping) = (self.report.as_deref(), self.visitor.mapping());
                land(batch, result, report, mapping);
            }
            drop(self);
        });
    }

    /// Returns the batch, whose claims and reservation this thread holds from now on.
    fn take_over(&mut self) -> Option<Batch<'static>> {
        let batch = self.batch.take()?;
        ledger::acquired(Resource::SlotClaim, batch.nr_pages());
        ledger::acquired(Resource::Reservation, 1);
        Some(batch)
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        drop(self.take_over());
    }
}

fn land(batch: Batch<'_>, result: io::Result<usize>, report: Option<&Report>, mapping: &Mapping) {
    let landed = match result {
        Ok(read) => batch.landed(read),
        Err(error) => Err(Filler(mapping).failed(error)),
    };
    match landed {
        Ok(Landed::Pages(nr)) => batch.publish_all(nr),
        Ok(Landed::Cut) => drop(batch),
        Err(error) => {
            let of_page = (batch.nr_pages() == 1).then_some(&error);
            if let Some(report) = report {
                report.fail(of_page);
            }
            batch.fail(of_page);
        }
    }
}
