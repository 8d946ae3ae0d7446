//! Submission of reads of pages that are not needed yet, or of many missing pages at once.

use std::ops::Range;

use pagewell_io::engine::Job;
use pagewell_sync::Arc;

use crate::base::page::PageNr;
use crate::base::slot::State;
use crate::mapping::record::Mapping;
use crate::read::flight::{Departure, Flights};

#[derive(Debug)]
pub(crate) struct Prefetcher<'m> {
    mapping: &'m Arc<Mapping>,
    jobs: Vec<Job>,
    nr_left: u64,
    nr_begun: usize,
}

impl<'m> Prefetcher<'m> {
    /// Creates a prefetch of at most an eighth of the cache, so that its first pages stay cached.
    pub(crate) fn new(mapping: &'m Arc<Mapping>) -> Self {
        Self {
            mapping,
            jobs: Vec::new(),
            nr_left: (mapping.pool().nr_frames() as u64 / 8 / u64::from(mapping.order().frames()))
                .max(1),
            nr_begun: 0,
        }
    }

    /// Prepares reads of the missing pages among `pages`. Returns `false` at the first read that
    /// would wait, fails, or exceeds the limit.
    pub(crate) fn add(&mut self, pages: Range<PageNr>) -> bool {
        let end = pages.end.min(self.mapping.nr_pages());
        let mut page = pages.start;
        while page < end {
            if self.nr_left == 0 {
                return false;
            }
            if !self.is_missing(page) {
                page += 1;
                continue;
            }
            let want = (end - page).min(self.nr_left) as usize;
            let nr = match Flights(self.mapping).prepare(page, want, None) {
                Ok(Departure::Ready(job, nr)) => {
                    self.jobs.push(job);
                    self.nr_begun += nr;
                    nr as u64
                }
                Ok(Departure::There) => 1,
                // The page may have been filled or claimed in between.
                Ok(Departure::NotNow) if !self.is_missing(page) => 1,
                Ok(Departure::NotNow) | Err(_) => return false,
            };
            page += nr;
            self.nr_left = self.nr_left.saturating_sub(nr);
        }
        true
    }

    fn is_missing(&self, page: PageNr) -> bool {
        let seen = self.mapping.index().look(page);
        seen.is_none_or(|seen| seen.slot.state() == State::Empty)
    }

    /// Submits all prepared reads. Returns the number of their pages.
    pub(crate) fn submit(&mut self) -> usize {
        if !self.jobs.is_empty() {
            self.mapping.engines().engine().submit_all(&mut self.jobs);
        }
        std::mem::take(&mut self.nr_begun)
    }

    /// Performs all prepared reads on this thread. Decoder threads may hold claims after it.
    pub(crate) fn run(mut self) {
        if !self.jobs.is_empty() {
            self.mapping.engines().engine().run(&mut self.jobs);
        }
    }
}
