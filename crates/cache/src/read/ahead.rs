//! Readahead: [`Streams`] of a handle, and submission of reads.
//!
//! The state of a handle is a hint, under a lock that no read waits for. Only misses and first
//! reads of marked pages change it. [`Way::Apart`] is for backends below which no other layer reads
//! ahead ([`Mapping::is_deep`](crate::mapping::record::Mapping)).

use std::ops::Range;

use pagewell_io::engine::Job;
use pagewell_policy::readahead::{Ahead, NONE, Plan, STREAMS, Streams, Way};
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::{Arc, Mutex, MutexGuard, try_lock};

use crate::base::page::PageNr;
use crate::base::slot::State;
use crate::mapping::record::Mapping;
use crate::read::flight::{Departure, Flights};
use crate::read::reader::Guide;

/// Expected access pattern of a handle: [`File::advise`](crate::File::advise).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// No particular pattern: streams are detected.
    #[default]
    Normal,
    /// Sequential: twice as much is read ahead, from the first miss on.
    Sequential,
    /// Random: nothing is read ahead.
    Random,
    /// The bytes are read once: reads by this handle usually leave eviction as likely as before.
    Once,
    /// The bytes are needed soon: their reads are submitted
    /// ([`File::prefetch`](crate::File::prefetch)).
    Soon,
    /// The bytes are not needed soon: their pages are removed, except those that are dirty,
    /// unsynced or pinned for writing ([`File::invalidate`](crate::File::invalidate)).
    NotSoon,
}

#[derive(Debug)]
pub(crate) struct Sequence {
    streams: Mutex<Streams>,
    /// Copy of the marks of `streams`, searched without the lock.
    marks: [AtomicU64; STREAMS],
    advice: AtomicU64,
}

impl Sequence {
    pub(crate) fn new(page_size: usize, nr_frames: usize) -> Self {
        let nr_bytes = nr_frames * pagewell_frame::FRAME_BYTES;
        Self {
            streams: Mutex::new(Streams::new(page_size, nr_bytes)),
            marks: std::array::from_fn(|_| AtomicU64::new(NONE)),
            advice: AtomicU64::new(Advice::Normal as u64),
        }
    }

    fn has(&self, advice: Advice) -> bool {
        // ORDERING: Relaxed; a hint.
        self.advice.load(Ordering::Relaxed) == advice as u64
    }

    pub(crate) fn set_advice(&self, advice: Advice) {
        // ORDERING: Relaxed; a hint.
        self.advice.store(advice as u64, Ordering::Relaxed);
    }

    /// Whether reads leave accessed bits unchanged.
    pub(crate) fn is_once(&self) -> bool {
        self.has(Advice::Once)
    }

    /// Returns the pages to read for a miss of `page`, from which on the read needs `wanted` pages.
    pub(crate) fn on_miss(&self, page: PageNr, wanted: usize, way: Way) -> Plan {
        if self.has(Advice::Random) {
            return Plan::alone(wanted);
        }
        // Another thread of the handle holds the lock: read only what is needed.
        let Some(mut streams) = try_lock(&self.streams) else {
            return Plan::alone(wanted);
        };
        let plan = streams.on_miss(page, wanted, way, self.has(Advice::Sequential));
        self.publish_marks(&streams);
        plan
    }

    /// Returns the pages to submit at the first read of `page` since its fill, if it is marked.
    pub(crate) fn on_touch(&self, page: PageNr) -> Option<Ahead> {
        // ORDERING: Relaxed; a hint.
        let is_marked = |mark: &AtomicU64| mark.load(Ordering::Relaxed) == page;
        if !self.marks.iter().any(is_marked) {
            return None;
        }
        let mut streams = try_lock(&self.streams)?;
        let ahead = streams.on_touch(page, self.has(Advice::Sequential));
        self.publish_marks(&streams);
        ahead
    }

    /// Called before the pages are submitted, so a reader of a filled page sees its mark.
    fn publish_marks(&self, streams: &MutexGuard<'_, Streams>) {
        for (published, mark) in self.marks.iter().zip(streams.marks()) {
            // ORDERING: Relaxed, both; a hint, which only the holder of the lock changes.
            if published.load(Ordering::Relaxed) != *mark {
                published.store(*mark, Ordering::Relaxed);
            }
        }
    }
}

/// Readahead and accessed bits of a handle's reads.
#[derive(Debug)]
pub(crate) struct OfHandle<'h> {
    mapping: &'h Arc<Mapping>,
    sequence: &'h Sequence,
}

impl<'h> OfHandle<'h> {
    pub(crate) fn new(mapping: &'h Arc<Mapping>, sequence: &'h Sequence) -> Self {
        Self { mapping, sequence }
    }

    #[cold]
    fn begin(&self, ahead: Ahead) {
        let mut prefetcher = Prefetcher::new(self.mapping);
        for run in ahead.runs() {
            if !prefetcher.add(run) {
                break;
            }
        }
        prefetcher.submit();
    }
}

impl Guide for OfHandle<'_> {
    fn on_miss(&self, page: PageNr, wanted: usize) -> usize {
        let way = match self.mapping.is_deep() {
            true => Way::Apart,
            false => Way::Together,
        };
        let plan = self.sequence.on_miss(page, wanted, way);
        if let Some(ahead) = plan.ahead {
            self.begin(ahead);
        }
        plan.now
    }

    fn on_touch(&self, page: PageNr) {
        if let Some(ahead) = self.sequence.on_touch(page) {
            self.begin(ahead);
        }
    }

    fn marks(&self) -> bool {
        !self.sequence.is_once()
    }
}

/// Submission of reads of pages that are not needed yet, or of many missing pages at once.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reader_knows_better() {
        let sequence = Sequence::new(4096, 1 << 20);
        sequence.set_advice(Advice::Random);
        for page in 0..100 {
            assert_eq!(sequence.on_miss(page, 1, Way::Apart), Plan::alone(1));
        }
        sequence.set_advice(Advice::Sequential);
        let runs = |ahead: Option<Ahead>| {
            let runs = ahead.into_iter().flat_map(Ahead::runs);
            runs.map(|run| (run.start, run.end)).collect::<Vec<_>>()
        };
        let ahead = sequence.on_miss(5, 1, Way::Apart).ahead;
        assert_eq!(runs(ahead), [(6, 8)]);
        assert_eq!(runs(sequence.on_touch(7)), []);
        assert_eq!(runs(sequence.on_touch(6)), [(8, 12)]);
        sequence.set_advice(Advice::Once);
        assert!(sequence.is_once());
    }
}
