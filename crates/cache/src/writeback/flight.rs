//! Runs of pages that are on their way to the storage at the same time.
//!
//! Place. [`Giver`](super::give::Giver) gives a run to a [`Flight`] instead of making the call itself, when there are several runs and the
//! storage does many requests at once: a file that is transferred directly, or a storage that completes later
//! ([`Backend::deferred`](pagewell_io::Backend::deferred)). A write through the system's cache is a copy, which nothing makes faster; and a
//! storage of the program with calls that wait is called by one thread at a time, as it is used to.
//!
//! Protocol, beside that of giving pages ([`super`]), with the writeback lock held all along:
//! 1. Before the first run: the storage has a known size. From here on it has none, until all runs are done.
//! 2. Each run: pages are *written*, the hook was asked. The run keeps its references; its request goes to the engine.
//! 3. The request is done: the run is given, or its pages are dirty again. Only now the references go.
//! 4. Before any other call of the storage: nothing is on its way. If a request has failed, the storage is asked for its size, as after
//!    a call that failed ([`super::size`]).
//!
//! Runs of one flight do not overlap, so W3 holds whatever their order is.
//!
//! Progress. The thread begins requests, and takes completions, in [`Flight::wait`] alone. A hook may read the file, and a read of a part of a
//! block waits for whoever wants the file alone, who waits for the requests on their way. So if the file has a hook, requests are begun
//! only when no hook is called before they are done: a full flight is begun, and waited for, as one.
//!
//! Panics. A hook that unwinds drops the flight: the lane first, which waits, then the runs, which are dirty again as far as they
//! are not settled.

#![allow(unsafe_code)] // Frames are lent to requests.

#[cfg(not(loom))]
mod imp {
    use std::io;
    use std::sync::Arc;

    use pagewell_frame::refcount::RefScheme;
    use pagewell_io::engine::{Lane, Request, Span};
    use pagewell_sync::{Mutex, lock};

    use crate::dirty::reserve::Reserve;
    use crate::dirty::service::Step;
    use crate::dirty::storage::Storage;
    use crate::mapping::record::Mapping;
    use crate::writeback::run::Run;
    use crate::writeback::size::StorageSize;

    /// How many requests of one flight are on their way at once.
    const MOST: usize = 32;

    /// How many of them are waited for when there are as many: the others go on, and the ring is entered once for several.
    const AT_ONCE: usize = 8;

    /// Results by the number of the run.
    type Results = Arc<Mutex<Vec<(usize, io::Result<usize>)>>>;

    /// Runs on their way to the storage. It is to be [finished](Self::finish); one that is dropped instead leaves the storage's size
    /// unknown.
    pub(in crate::writeback) struct Flight<'m, S: RefScheme> {
        mapping: &'m Mapping<S>,
        /// Dropped before the runs, which have the memory of its requests: its drop waits for them.
        lane: Box<dyn Lane + 'm>,
        /// None where there was one.
        runs: Vec<Option<Run<'m, S>>>,
        results: Results,
        /// What was known before the first run.
        had_dirty: bool,
        has_failed: bool,
        /// Of a file in whole pages: whether its size was known before the first run, and which it was.
        was_known: bool,
        fill_size: u64,
        has_hook: bool,
    }

    impl<'m, S: RefScheme> Flight<'m, S> {
        /// Step 1.
        pub(in crate::writeback) fn begin(
            mapping: &'m Mapping<S>,
            storage: &mut Storage,
        ) -> io::Result<Self> {
            let is_of_pages = mapping.layout().is_of_pages();
            if !is_of_pages {
                StorageSize(mapping).know_size(storage)?;
            }
            let was_known = storage.is_size_known;
            storage.is_synced = false;
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

        /// Step 2, and step 3 for as many runs as make room; `settled` is told of each of those.
        pub(in crate::writeback) fn give(
            &mut self,
            storage: &mut Storage,
            run: Run<'m, S>,
            settled: &mut impl FnMut(usize, io::Result<()>),
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
            // SAFETY: (a) the memory of `spans` is that of frames, which the references of the run keep, or of a chunk of the reserve, which the run has; it is in `runs` until `settle` has found
            // its result, so until `done` was called; or until this is dropped, and then `lane` goes first, whose drop waits for all of its
            // requests. Neither is leaked. (In a child that was forked meanwhile the lane does not wait: the requests are those of the
            // parent, and so is the memory that the kernel reads.)
            let request = unsafe { Request::write(start, spans, Box::new(done)) };
            self.lane.submit(self.mapping.job(request));
            match (self.has_hook, self.lane.nr_in_flight()) {
                (false, MOST..) => self.wait(AT_ONCE, settled),
                (true, MOST..) => self.wait(MOST, settled),
                // The storage begins, while more is gathered.
                (false, nr) if nr.is_multiple_of(AT_ONCE) => self.wait(0, settled),
                _ => {}
            }
        }

        /// Step 4: waits for all that are on their way, and leaves the state of the storage as after a call.
        pub(in crate::writeback) fn finish(
            mut self,
            storage: &mut Storage,
            settled: &mut impl FnMut(usize, io::Result<()>),
        ) {
            while self.lane.nr_in_flight() != 0 {
                self.wait(usize::MAX, settled);
            }
            self.settle(settled);
            // In a child that was forked meanwhile: nobody completes these here.
            for run in self.runs.drain(..).flatten() {
                self.has_failed = true;
                let nr_pages = run.nr_pages();
                drop(run);
                settled(nr_pages, Err(io::Error::other("the request was lost")));
            }
            if !self.has_failed {
                storage.may_have_dirty = self.had_dirty;
            }
            if self.mapping.layout().is_of_pages() {
                // Requests change no size: the storage is as long as the pages take. Whoever has the flight made tells it the end of the file.
                let is_same = self.fill_size == self.mapping.fill_size();
                storage.is_size_known = self.was_known && is_same && !self.has_failed;
            } else if !self.has_failed {
                storage.is_size_known = true;
            } else if let Ok(size) = self.mapping.backend().size() {
                let fill_size = self.mapping.fill_size().max(size);
                self.mapping.store_fill_size(fill_size);
                storage.is_size_known = true;
            }
        }

        /// Waits for a run, if all of the memory for pages on their way is taken: by these.
        pub(in crate::writeback) fn make_room(
            &mut self,
            settled: &mut impl FnMut(usize, io::Result<()>),
        ) {
            let reserve = self
                .mapping
                .writes_if_any()
                .and_then(|writes| writes.reserve.as_ref());
            // For all, if a hook may read the file before the next is given.
            let nr = if self.has_hook { usize::MAX } else { 1 };
            while reserve.is_some_and(Reserve::is_used_up) && self.lane.nr_in_flight() != 0 {
                self.wait(nr, settled);
            }
        }

        fn wait(&mut self, nr: usize, settled: &mut impl FnMut(usize, io::Result<()>)) {
            let step = self.mapping.writes_if_any().map(|writes| {
                writes
                    .service
                    .begin_step(&self.mapping.shared().pressure, Step::Write)
            });
            self.lane.wait(nr);
            drop(step);
            self.settle(settled);
        }

        /// Step 3, for all whose result is there.
        fn settle(&mut self, settled: &mut impl FnMut(usize, io::Result<()>)) {
            let results = std::mem::take(&mut *lock(&self.results));
            for (nr, result) in results {
                let Some(mut run) = self.runs[nr].take() else {
                    continue;
                };
                match &result {
                    Ok(_) => {
                        // S1: what is before it and not given yet is in the cache, and is not read from the storage.
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
                drop(run);
                settled(nr_pages, result.map(drop));
            }
        }
    }
}

#[cfg(loom)]
mod imp {
    use std::convert::Infallible;
    use std::io;
    use std::marker::PhantomData;

    use pagewell_frame::refcount::RefScheme;

    use crate::dirty::storage::Storage;
    use crate::mapping::record::Mapping;
    use crate::writeback::run::Run;

    /// A model has no engine.
    pub(in crate::writeback) struct Flight<'m, S: RefScheme>(Infallible, PhantomData<&'m S>);

    impl<'m, S: RefScheme> Flight<'m, S> {
        pub(in crate::writeback) fn begin(_: &'m Mapping<S>, _: &mut Storage) -> io::Result<Self> {
            Err(io::Error::other("a model has no engine"))
        }

        pub(in crate::writeback) fn give(
            &mut self,
            _: &mut Storage,
            _: Run<'m, S>,
            _: &mut impl FnMut(usize, io::Result<()>),
        ) {
            match self.0 {}
        }

        pub(in crate::writeback) fn make_room(
            &mut self,
            _: &mut impl FnMut(usize, io::Result<()>),
        ) {
            match self.0 {}
        }

        pub(in crate::writeback) fn finish(
            self,
            _: &mut Storage,
            _: &mut impl FnMut(usize, io::Result<()>),
        ) {
            match self.0 {}
        }
    }
}

pub(super) use imp::Flight;
