//! Overlapping fills. The resources of such a fill (frames, claims, reservation) are owned by its
//! I/O request, not by a thread that waits for it.
//!
//! Protocol. A thread prepares a fill as usual ([`crate::read::fill`]), but acquires only what
//! needs no waiting, and submits it to the I/O engine. The thread that completes the request
//! publishes the pages, or frees all frames, and ends the claims. Threads and tasks that need one
//! of the pages find its slot claimed, and wait for the end of the claim as for any other claim.
//!
//! While a thread has fills in flight in a submission context of its own, it holds the claims of
//! these fills, and no other thread completes them. Therefore the thread waits for nothing but that
//! context (C3 of [`crate::index::claim`]).
//!
//! Lifetime. An in-flight fill has a weak reference to its file ([`crate::mapping::visitor`]): the
//! thread that drops the last strong reference waits until the fill has completed.
//!
//! Page codecs. Pages are decoded before they are published, and a codec may take long or block.
//! The completion runs on a thread of the engine or of a backend, which all files need, or on a
//! thread that has other fills to complete. Therefore the completion passes the fill to a decoder
//! thread ([`Engines::restore`](crate::base::engines::Engines::restore)).
//!
//! Wakers. A completion may run on the engine's thread, which all files need. Therefore waker
//! threads call the wakers of tasks ([`Engines`](crate::base::engines::Engines)), after the
//! completion has dropped its reference to the file: a waker may run a task that drops the file's
//! last handle, which waits for other requests. The completion calls the wakers itself only if the
//! system provides no thread.
//!
//! Failure. Every slot is restored. The error is stored in the fill's [`Report`], if it has one,
//! before the claims end. A reader without a report looks the page up again, finds the slot empty,
//! and tries its own fill.

#![allow(unsafe_code)] // A flight borrows from its own `visitor`, and lends memory to the kernel.

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

/// Outcome of an in-flight fill, for the task that started it.
#[derive(Debug, Default)]
pub(crate) struct Report(Mutex<Outcome>);

#[derive(Debug, Default)]
enum Outcome {
    #[default]
    Open,
    /// A transfer of several pages failed. The first page may be readable by itself.
    FailedTogether,
    Failed(Error),
}

impl Report {
    /// Returns the error of a fill of one page, once.
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

    /// Whether a transfer of several pages failed, so that the first page must be tried alone.
    pub(crate) fn has_failed_together(&self) -> bool {
        matches!(*lock(&self.0), Outcome::FailedTogether)
    }
}

/// In-flight fill.
struct Flight<S: RefScheme> {
    /// Borrows from the mapping that `visitor` references, and is therefore dropped first. `None`
    /// once it was dropped.
    batch: Option<Batch<'static, S>>,
    visitor: Visitor<S>,
    report: Option<Arc<Report>>,
}

impl<S: RefScheme> fmt::Debug for Flight<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Flight").field(&self.batch).finish()
    }
}

/// Outcome of the preparation of a fill.
pub(crate) enum Departure {
    /// The transfer is prepared, and the caller submits it to the engine. Contains its number of
    /// pages.
    Ready(Job, usize),
    /// The page is resident: the backend has no byte of it, so a page of zeros was published.
    There,
    /// Nothing was prepared: another thread has claimed or filled the page, the fill would have to
    /// wait, or the file has no strong reference any more.
    NotNow,
}

#[derive(Debug)]
pub(crate) struct Flights<'m, S: RefScheme>(pub(crate) &'m Arc<Mapping<S>>);

impl<S: RefScheme> Clone for Flights<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: RefScheme> Copy for Flights<'_, S> {}

impl<S: RefScheme> Flights<'_, S> {
    /// Prepares a fill of `page` and of missing pages after it, at most `want` pages in total,
    /// without waiting.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`](crate::ErrorKind::OutOfRange) past the end of the file;
    /// [`Deadlock`](crate::ErrorKind::Deadlock) if this thread is in a page codec.
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
            // A single page needs no allocation.
            1 => batch.bufs().next().map(|buf| Spans::from(Span::from(buf))),
            _ => None,
        };
        let spans =
            spans.unwrap_or_else(|| batch.bufs().map(Span::from).collect::<Vec<_>>().into());
        // SAFETY: only the lifetime differs. The batch borrows from the mapping behind the `Arc` of
        // the weak reference `visitor`. The address of the mapping does not change when `visitor`
        // moves, and the mapping exists as long as `visitor`. The flight drops the batch before
        // `visitor`: by the order of its fields, and in `land`. No function passes on a value with
        // the extended lifetime.
        let batch = unsafe { mem::transmute::<Batch<'_, S>, Batch<'static, S>>(batch) };
        let flight = Flight {
            batch: Some(batch),
            visitor,
            report,
        };
        // SAFETY: (a) the memory is that of frames which the batch owns, in a pool that the mapping
        // of `visitor` keeps. The completion owns `batch` and `visitor`, and drops neither before
        // it is called. (b) The frames are not pages yet: the slots of their pages are claimed and
        // name no frame.
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
    /// Completes the fill.
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

/// Publishes the pages that were read, or reports the error.
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
