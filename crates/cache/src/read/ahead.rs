//! Readahead: the pages that a miss reads, and those to submit before they are needed.
//!
//! The misses of a handle are sorted into *streams*: *forward streams*, which move page by page,
//! and *step streams*, which move by a constant step, forward or backward. A stream reads further
//! ahead each time, up to a limit. Other misses read only the requested pages, unless
//! [`Advice::Sequential`] is set.
//!
//! There are two modes. *Together*: the miss reads more pages than it needs, in one transfer.
//! *Apart*: the miss reads what it needs, and the I/O engine concurrently reads a *window* of pages
//! after it. The first page of a window is *marked*: the first thread that reads this page, or
//! waits for it, submits the next window. So two windows are in flight, and a reader that is slower
//! than the backend waits only once. This mode is for backends below which no other layer reads
//! ahead ([`Mapping::is_deep`](crate::mapping::record::Mapping)).
//!
//! The state is a hint. Misses and first reads of marked pages change it; hits do not.

use std::ops::Range;

use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::{Mutex, try_lock};

use crate::base::page::PageNr;

/// Maximum number of bytes that are read ahead together.
const MOST_TOGETHER: usize = 128 << 10;

/// Maximum number of bytes read ahead apart: enough for a few large transfers at once.
const MOST_APART: usize = 2 << 20;

const STREAMS: usize = 8;

/// Distance in pages below which a miss may be the next step of a stream.
const NEAR: u64 = 4096;

const MOST_STEPS: u64 = 32;

const NONE: u64 = u64::MAX;

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
    /// The bytes are read once: first reads by this handle do not make an eviction less likely.
    Once,
    /// The bytes are needed soon: their reads are submitted
    /// ([`File::prefetch`](crate::File::prefetch)).
    Soon,
    /// The bytes are not needed soon: their pages are removed, except those that are dirty,
    /// unsynced or pinned for writing ([`File::invalidate`](crate::File::invalidate)).
    NotSoon,
}

/// Pages to read ahead: page ranges of equal length at a constant step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    start: PageNr,
    nr_pages: u64,
    step: i64,
    nr_runs: u64,
}

impl Ahead {
    /// Returns the page ranges, up to the first whose page numbers would overflow.
    pub(crate) fn runs(self) -> impl Iterator<Item = Range<PageNr>> {
        (0..self.nr_runs).map_while(move |nr| {
            let off = self.step.checked_mul(i64::try_from(nr).ok()?)?;
            let start = self.start.checked_add_signed(off)?;
            Some(start..start.checked_add(self.nr_pages)?)
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) now: usize,
    pub(crate) ahead: Option<Ahead>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Together,
    Apart,
}

#[derive(Debug)]
pub(crate) struct Sequence {
    streams: Mutex<Streams>,
    marked: [AtomicU64; STREAMS],
    most_together: u64,
    most_apart: u64,
    advice: AtomicU64,
}

#[derive(Debug)]
struct Streams {
    all: [Stream; STREAMS],
    now: u64,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    /// First page of the last miss; in a step stream, of the last range that was submitted.
    start: PageNr,
    /// Page after the last one that was read or submitted.
    next: PageNr,
    /// Distance between the last two misses, and number of times that this distance recurred.
    step: i64,
    nr_same: u32,
    /// Number of pages, or steps of a step stream, that were last read or submitted.
    window: u64,
    /// Value of [`Streams::now`] at the last use.
    used: u64,
}

impl Stream {
    const NEW: Self = Self {
        start: NONE,
        next: NONE,
        step: 0,
        nr_same: 0,
        window: 1,
        used: 0,
    };
}

impl Sequence {
    pub(crate) fn new(page_size: usize, nr_frames: usize) -> Self {
        // Readahead must not evict pages that the reader is about to reach.
        let pool = nr_frames * pagewell_frame::FRAME_BYTES / 16;
        let most = |bytes: usize| (bytes.min(pool) / page_size).max(1) as u64;
        Self {
            streams: Mutex::new(Streams {
                all: [Stream::NEW; STREAMS],
                now: 0,
            }),
            marked: [const { AtomicU64::new(NONE) }; STREAMS],
            most_together: most(MOST_TOGETHER),
            most_apart: most(MOST_APART),
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

    /// Whether first reads leave the accessed bit clear.
    pub(crate) fn is_once(&self) -> bool {
        self.has(Advice::Once)
    }

    fn most(&self, way: Way) -> u64 {
        let most = match way {
            Way::Together => self.most_together,
            Way::Apart => self.most_apart,
        };
        most << u32::from(self.has(Advice::Sequential))
    }

    /// Returns the pages to read for a miss of `page`, from which on the read needs `wanted` pages.
    pub(crate) fn on_miss(&self, page: PageNr, wanted: usize, way: Way) -> Plan {
        let alone = Plan {
            now: wanted,
            ahead: None,
        };
        if self.has(Advice::Random) {
            return alone;
        }
        // Another thread of the handle holds the lock: read only what is needed.
        let Some(mut streams) = try_lock(&self.streams) else {
            return alone;
        };
        let most = self.most(way);
        let wanted = wanted as u64;
        streams.now += 1;
        let now = streams.now;
        let sequential = self.has(Advice::Sequential);
        let found = streams.all.iter().position(|stream| stream.next == page);
        if let Some(nr) = found {
            let stream = &mut streams.all[nr];
            stream.used = now;
            return self.forward(nr, stream, page, wanted, (way, most));
        }
        if let Some(nr) = streams.nearest(page) {
            let stream = &mut streams.all[nr];
            let step = page.wrapping_sub(stream.start).cast_signed();
            if step == stream.step {
                stream.nr_same += 1;
            } else {
                (stream.step, stream.nr_same, stream.window) = (step, 0, 1);
            }
            (stream.start, stream.used) = (page, now);
            stream.next = page.saturating_add(wanted);
            if stream.nr_same != 0 && way == Way::Apart {
                stream.window = (stream.window * 2).min(MOST_STEPS);
                let ahead = self.by_steps(nr, stream, wanted, most);
                return Plan { ahead, ..alone };
            }
            return alone;
        }
        let nr = streams.oldest();
        streams.all[nr] = Stream {
            start: page,
            next: page.saturating_add(wanted),
            window: wanted.min(most),
            used: now,
            ..Stream::NEW
        };
        // ORDERING: Relaxed, here and below; a hint.
        self.marked[nr].store(NONE, Ordering::Relaxed);
        if sequential {
            let stream = &mut streams.all[nr];
            return self.forward(nr, stream, page, wanted, (way, most));
        }
        alone
    }

    fn forward(
        &self,
        nr: usize,
        stream: &mut Stream,
        page: PageNr,
        wanted: u64,
        (way, most): (Way, u64),
    ) -> Plan {
        let window = (stream.window * 2).clamp(1, most);
        stream.start = page;
        (stream.step, stream.nr_same) = (0, 0);
        match way {
            Way::Together => {
                let pages = wanted.max(window).min(most.max(wanted));
                stream.window = pages.min(most);
                stream.next = page.saturating_add(pages);
                Plan {
                    now: pages as usize,
                    ahead: None,
                }
            }
            Way::Apart => {
                stream.window = window;
                stream.next = page.saturating_add(wanted);
                let ahead = self.further(nr, stream);
                Plan {
                    now: wanted as usize,
                    ahead: Some(ahead),
                }
            }
        }
    }

    fn further(&self, nr: usize, stream: &mut Stream) -> Ahead {
        let ahead = Ahead {
            start: stream.next,
            nr_pages: stream.window,
            step: 0,
            nr_runs: 1,
        };
        self.marked[nr].store(stream.next, Ordering::Relaxed);
        stream.next = stream.next.saturating_add(stream.window);
        ahead
    }

    /// Returns the next steps of a step stream, of `width` pages each.
    fn by_steps(&self, nr: usize, stream: &mut Stream, width: u64, most: u64) -> Option<Ahead> {
        let nr_runs = stream.window.min(most / width.max(1)).max(1);
        let start = stream.start.checked_add_signed(stream.step)?;
        let ahead = Ahead {
            start,
            nr_pages: width,
            step: stream.step,
            nr_runs,
        };
        // If the stream would move below page 0, the next miss starts a new one.
        let off = stream.step.checked_mul(nr_runs.cast_signed())?;
        stream.start = stream.start.checked_add_signed(off).unwrap_or(start);
        stream.next = stream.start.saturating_add(width);
        self.marked[nr].store(start, Ordering::Relaxed);
        Some(ahead)
    }

    /// Returns the pages to submit at the first read of `page` since its fill, if it is marked.
    pub(crate) fn on_touch(&self, page: PageNr) -> Option<Ahead> {
        // ORDERING: Relaxed; a hint.
        let is_marked = |marked: &AtomicU64| marked.load(Ordering::Relaxed) == page;
        let nr = self.marked.iter().position(is_marked)?;
        let mut streams = try_lock(&self.streams)?;
        if !is_marked(&self.marked[nr]) {
            return None;
        }
        self.marked[nr].store(NONE, Ordering::Relaxed);
        streams.now += 1;
        let now = streams.now;
        let most = self.most(Way::Apart);
        let stream = &mut streams.all[nr];
        stream.used = now;
        if stream.nr_same != 0 {
            stream.window = (stream.window * 2).min(MOST_STEPS);
            let width = stream.next - stream.start;
            return self.by_steps(nr, stream, width, most);
        }
        stream.window = (stream.window * 2).clamp(1, most);
        Some(self.further(nr, stream))
    }
}

impl Streams {
    /// Returns the stream whose last miss was nearest to `page`, if it is closer than [`NEAR`].
    fn nearest(&self, page: PageNr) -> Option<usize> {
        let distance = |stream: &Stream| stream.start.abs_diff(page);
        let near = |(_, stream): &(usize, &Stream)| stream.start != NONE && distance(stream) < NEAR;
        let near = self.all.iter().enumerate().filter(near);
        near.min_by_key(|(_, stream)| distance(stream))
            .map(|(nr, _)| nr)
    }

    fn oldest(&self) -> usize {
        let oldest = self.all.iter().enumerate();
        oldest
            .min_by_key(|(_, stream)| stream.used)
            .map_or(0, |(nr, _)| nr)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn together(sequence: &Sequence, page: PageNr, wanted: usize) -> usize {
        let plan = sequence.on_miss(page, wanted, Way::Together);
        assert_eq!(plan.ahead, None);
        plan.now
    }

    fn runs(ahead: Option<Ahead>) -> Vec<(PageNr, PageNr)> {
        let runs = ahead.into_iter().flat_map(Ahead::runs);
        runs.map(|run| (run.start, run.end)).collect()
    }

    #[test]
    fn a_sequence_doubles_up_to_the_limit_and_a_jump_starts_over() {
        let sequence = Sequence::new(4096, 1 << 20);
        let mut page = 10;
        for expected in [1, 2, 4, 8, 16, 32, 32] {
            let pages = together(&sequence, page, 1);
            assert_eq!(pages, expected);
            page += pages as u64;
        }
        assert_eq!(together(&sequence, page + 10_000, 1), 1);
        assert_eq!(together(&sequence, page + 10_001, 1), 2);
    }

    #[test]
    fn a_read_gets_what_it_wants_however_much() {
        let sequence = Sequence::new(65536, 64);
        assert_eq!(together(&sequence, 0, 500), 500);
        assert_eq!(together(&sequence, 5003, 1), 1);
    }

    #[test]
    fn several_streams_go_on_beside_each_other() {
        let sequence = Sequence::new(4096, 1 << 20);
        let mut pages = [0, 1 << 20, 2 << 20, 3 << 20, 4 << 20];
        for expected in [1, 2, 4, 8, 16, 32, 32] {
            for page in &mut pages {
                let nr = together(&sequence, *page, 1);
                assert_eq!(nr, expected);
                *page += nr as u64;
            }
        }
    }

    #[test]
    fn who_touches_a_marked_page_has_the_engine_go_on() {
        let sequence = Sequence::new(4096, 1 << 20);
        let miss = |page| sequence.on_miss(page, 1, Way::Apart);
        let touch = |page| runs(sequence.on_touch(page));
        assert_eq!(runs(miss(7).ahead), []);
        assert_eq!(runs(miss(8).ahead), [(9, 11)]);
        assert_eq!(touch(10), []);
        assert_eq!(touch(9), [(11, 15)]);
        assert_eq!(touch(9), []);
        assert_eq!(touch(11), [(15, 23)]);
        let mut next = 15;
        for _ in 0..12 {
            let ahead = touch(next);
            assert_eq!(ahead.len(), 1);
            next = ahead[0].0;
        }
        let (start, end) = touch(next)[0];
        assert_eq!(end - start, 512, "2 MiB at the most");
    }

    #[test]
    fn a_stream_that_goes_backward_or_by_steps_is_found_out() {
        for step in [-1, -4, 3, 100] {
            let sequence = Sequence::new(4096, 1 << 20);
            let at = |nr: i64| (10_000 + nr * step).cast_unsigned();
            let miss = |nr| runs(sequence.on_miss(at(nr), 1, Way::Apart).ahead);
            let run = |nr| (at(nr), at(nr) + 1);
            assert_eq!(miss(0), []);
            assert_eq!(miss(1), []);
            assert_eq!(miss(2), [run(3), run(4)], "{step}");
            let ahead = runs(sequence.on_touch(at(3)));
            assert_eq!(ahead, [run(5), run(6), run(7), run(8)]);
            assert_eq!(runs(sequence.on_touch(at(4))), []);
            assert_eq!(runs(sequence.on_touch(at(5))).len(), 8);
        }
    }

    #[test]
    fn misses_at_random_read_nothing_ahead() {
        let sequence = Sequence::new(4096, 1 << 20);
        let mut rng = pagewell_testkit::Rng::new(5);
        let nr_ahead = (0..10_000)
            .filter(|_| {
                let plan = sequence.on_miss(rng.below(1 << 30), 1, Way::Apart);
                assert_eq!(plan.now, 1);
                plan.ahead.is_some()
            })
            .count();
        assert!(nr_ahead < 3, "{nr_ahead}");
    }

    #[test]
    fn the_reader_knows_better() {
        let sequence = Sequence::new(4096, 1 << 20);
        sequence.set_advice(Advice::Random);
        for page in 0..100 {
            let alone = Plan {
                now: 1,
                ahead: None,
            };
            assert_eq!(sequence.on_miss(page, 1, Way::Apart), alone);
        }
        sequence.set_advice(Advice::Sequential);
        assert_eq!(runs(sequence.on_miss(5, 1, Way::Apart).ahead), [(6, 8)]);
        sequence.set_advice(Advice::Once);
        assert!(sequence.is_once());
    }

    #[test]
    fn numbers_beyond_all_files_are_no_pages() {
        let sequence = Sequence::new(4096, 64);
        for page in [0, u64::MAX, 1, 0, u64::MAX - 1, u64::MAX, 3, 2, 1, 0] {
            for way in [Way::Apart, Way::Together] {
                let plan = sequence.on_miss(page, 3, way);
                assert!(runs(plan.ahead).iter().all(|(start, end)| start <= end));
                _ = sequence.on_touch(page);
            }
        }
    }
}
