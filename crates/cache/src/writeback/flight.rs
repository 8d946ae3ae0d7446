//! In-flight writes: page ranges that are written to the backend concurrently.
//!
//! [`Giver`](super::give::Giver) passes page ranges to a [`Flight`] if there are several, and the
//! file has direct transfers or a backend with deferred completion
//! ([`Backend::deferred`](pagewell_io::Backend::deferred)). A write through the kernel's page cache
//! is a copy, which concurrency does not speed up. A program's backend whose calls block is called
//! by one thread at a time, as its authors expect.
//!
//! Protocol, in addition to that of writing pages ([`super`]), under the writeback lock:
//! 1. Make the backend's size known. It then counts as unknown until all ranges have completed.
//! 2. For each range, after its pages are unsynced and the callback has returned, submit its
//!    request to the engine. The range keeps its references.
//! 3. When the request completes, the range is written, or dirty again. Then drop its references.
//! 4. Before any other call of the backend, wait until no request is in flight. If a request has
//!    failed, query the backend's size, as after a failed call ([`super::size`]).
//!
//! Concurrent ranges do not overlap, so W3 holds whatever their order.
//!
//! Progress. The thread starts requests, and takes completions, only in [`Flight::wait`]. While it
//! has requests in flight, it must not call the backend by other means (see `Lane` of the engines),
//! but a callback may read the file. So if the file has a callback, the thread gathers a full set
//! of requests, starts them, and waits for all of them, before the callback runs again.
//!
//! Panics. A callback that unwinds drops the submission context, which waits for its requests, and
//! then the ranges, whose pages become dirty again unless their result was processed.

#![allow(unsafe_code)] // Memory of frames is lent to requests.

use std::io;
use std::sync::Arc;

use pagewell_io::engine::{Lane, Request, Span};
use pagewell_sync::{Mutex, lock};

use crate::base::error::Failure;
use crate::dirty::reserve::Reserve;
use crate::dirty::service::Step;
use crate::dirty::writes::{Durability, Storage};
use crate::mapping::record::Mapping;
use crate::writeback::run::Run;
use crate::writeback::size::StorageSize;

const MOST: usize = 32;

/// Number of completions to wait for if [`MOST`] are in flight: the ring is entered less often.
const AT_ONCE: usize = 8;

/// Results of requests, with the numbers of their page ranges.
type Results = Arc<Mutex<Vec<(usize, io::Result<usize>)>>>;

/// Page ranges in flight. The backend's size stays unknown until [`finish`](Self::finish).
pub(super) struct Flight<'m> {
    mapping: &'m Mapping,
    /// Dropped before the ranges, which own the memory: this drop waits for the requests.
    lane: Box<dyn Lane + 'm>,
    runs: Vec<Option<Run<'m>>>,
    results: Results,
    had_dirty: bool,
    has_failed: bool,
    /// For a file in whole pages: before the first range, whether the backend's size was known,
    /// and the size that fills used.
    was_known: bool,
    fill_size: u64,
    has_hook: bool,
}

impl<'m> Flight<'m> {
    /// Step 1.
    pub(super) fn begin(mapping: &'m Mapping, storage: &mut Storage) -> io::Result<Self> {
        let is_of_pages = mapping.layout().is_of_pages();
        if !is_of_pages {
            StorageSize(mapping).know_size(storage)?;
        }
        let was_known = storage.is_size_known;
        storage.durability = Durability::Changed;
        storage.is_size_known = false;
        Ok(Self {
            mapping,
            lane: mapping.engines().engine().lane(),
            runs: Vec::new(),
            results: Results::default(),
            had_dirty: std::mem::replace(&mut storage.may_have_dirty, true),
            has_failed: false,
            was_known,
            fill_size: mapping.fill_size(),
            has_hook: mapping
                .writes_if_any()
                .is_some_and(|writes| writes.before_write.is_some()),
        })
    }

    /// Step 2, and step 3 for as many ranges as necessary, for which it calls `settled`.
    pub(super) fn give(
        &mut self,
        storage: &mut Storage,
        run: Run<'m>,
        settled: &mut impl FnMut(usize, Result<(), Failure>),
    ) {
        storage.pace.note_request(run.end() - run.start());
        let nr = self
            .runs
            .iter()
            .position(Option::is_none)
            .unwrap_or_else(|| {
                self.runs.push(None);
                self.runs.len() - 1
            });
        let spans: Vec<Span> = run.sources().into_iter().map(Span::from).collect();
        let start = run.start();
        self.runs[nr] = Some(run);
        let results = Arc::clone(&self.results);
        let done = move |result| lock(&results).push((nr, result));
        // SAFETY: (a) the memory of `spans` is that of frames, which the references of the
        // range keep, or of a chunk of the reserve, which the range owns. The range is in
        // `runs` until `settle` has taken the result of `done`, or until the flight is dropped.
        // That drops `lane` first, and the drop of `lane` waits for all its requests. Neither
        // `lane` nor `runs` is leaked. (In a fork, `lane` does not wait: requests and memory
        // are the parent's.)
        let request = unsafe { Request::write(start, spans, Box::new(done)) };
        self.lane.submit(self.mapping.job(request));
        match (self.has_hook, self.lane.nr_in_flight()) {
            (false, MOST..) => self.wait(AT_ONCE, settled),
            (true, MOST..) => self.wait(MOST, settled),
            // The backend starts these requests while more are gathered.
            (false, nr) if nr.is_multiple_of(AT_ONCE) => self.wait(0, settled),
            _ => {}
        }
    }

    /// Step 4. Records the state of the backend as after a single call.
    pub(super) fn finish(
        mut self,
        storage: &mut Storage,
        settled: &mut impl FnMut(usize, Result<(), Failure>),
    ) {
        while self.lane.nr_in_flight() != 0 {
            self.wait(usize::MAX, settled);
        }
        self.settle(settled);
        // Ranges are left only in a child forked during the writes: there they never complete.
        for run in self.runs.drain(..).flatten() {
            self.has_failed = true;
            let nr_pages = run.nr_pages();
            drop(run);
            settled(
                nr_pages,
                Err(io::Error::other("write lost in a fork").into()),
            );
        }
        if !self.has_failed {
            storage.may_have_dirty = self.had_dirty;
        }
        if self.mapping.layout().is_of_pages() {
            // The backend has space for all pages. The caller sets the end of the file next.
            let is_same = self.fill_size == self.mapping.fill_size();
            storage.is_size_known = self.was_known && is_same && !self.has_failed;
        } else if !self.has_failed {
            storage.is_size_known = true;
        } else {
            StorageSize(self.mapping).find_size(storage);
        }
    }

    /// If the ranges in flight use all of the reserve, waits until one of them has completed.
    pub(super) fn make_room(&mut self, settled: &mut impl FnMut(usize, Result<(), Failure>)) {
        let reserve = self
            .mapping
            .writes_if_any()
            .and_then(|writes| writes.reserve.as_ref());
        // A callback may read the file before the next range is written.
        let nr = if self.has_hook { usize::MAX } else { 1 };
        while reserve.is_some_and(Reserve::is_used_up) && self.lane.nr_in_flight() != 0 {
            self.wait(nr, settled);
        }
    }

    fn wait(&mut self, nr: usize, settled: &mut impl FnMut(usize, Result<(), Failure>)) {
        let step = self.mapping.begin_step(Step::Write);
        self.lane.wait(nr);
        drop(step);
        self.settle(settled);
    }

    /// Step 3, for all requests that have completed.
    fn settle(&mut self, settled: &mut impl FnMut(usize, Result<(), Failure>)) {
        let results = std::mem::take(&mut *lock(&self.results));
        for (nr, result) in results {
            let Some(mut run) = self.runs[nr].take() else {
                continue;
            };
            match &result {
                Ok(_) => {
                    // S1 of `size`: unwritten bytes at lower offsets are in resident pages.
                    let fill_size = self.mapping.fill_size().max(run.end());
                    self.mapping.store_fill_size(fill_size);
                    if let Some(writes) = self.mapping.writes_if_any()
                        && self.mapping.layout().is_of_pages()
                    {
                        let stored = run.stored();
                        writes.note_whole_pages(stored.start, stored.end);
                    }
                    run.is_given = true;
                }
                Err(_) => self.has_failed = true,
            }
            let nr_pages = run.nr_pages();
            let result = result.map(drop).map_err(|error| run.failed(error));
            drop(run);
            settled(nr_pages, result);
        }
    }
}
