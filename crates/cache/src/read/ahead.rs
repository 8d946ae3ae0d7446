//! Readahead of a handle: [`Streams`] under a lock that no read waits for.
//!
//! The state is a hint. Only misses and first reads of marked pages change it. [`Way::Apart`] is
//! for backends below which no other layer reads ahead
//! ([`Mapping::is_deep`](crate::mapping::record::Mapping)).

use pagewell_policy::readahead::{Ahead, NONE, Plan, STREAMS, Streams, Way};
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::{Mutex, MutexGuard, try_lock};

use crate::base::page::PageNr;

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
