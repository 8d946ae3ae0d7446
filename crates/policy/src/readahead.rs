//! Readahead: the pages that a miss reads, and those to submit before they are needed.
//!
//! The misses of a reader are sorted into *streams*: *forward streams*, which move page by page,
//! and *step streams*, which move by a constant step, forward or backward. A stream reads further
//! ahead each time, up to a limit. Other misses read only the requested pages, unless the reader is
//! known to be sequential.
//!
//! There are two modes. *Together*: the miss reads more pages than it needs, in one transfer.
//! *Apart*: the miss reads what it needs, and the I/O engine concurrently reads a *window* of pages
//! after it. The first page of a window is *marked*: the first thread that reads this page, or
//! waits for it, submits the next window. So up to two windows are in flight, and a reader that is
//! slower than the backend waits only once.

use std::ops::Range;

/// Maximum number of bytes read ahead *together*; twice as much for a sequential reader.
const MOST_TOGETHER: usize = 128 << 10;

/// The same for *apart*: enough for a few large transfers at once.
const MOST_APART: usize = 2 << 20;

/// Number of streams of a reader.
pub const STREAMS: usize = 8;

/// Distance in pages below which a miss may be the next step of a stream.
const NEAR: u64 = 4096;

const MOST_STEPS: u64 = 32;

/// Mark of a stream that has none.
pub const NONE: u64 = u64::MAX;

/// Pages to read ahead: page ranges of equal length at a constant step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    start: u64,
    nr_pages: u64,
    step: i64,
    nr_runs: u64,
}

impl Ahead {
    /// Returns the page ranges, up to the first whose page numbers would overflow.
    pub fn runs(self) -> impl Iterator<Item = Range<u64>> {
        (0..self.nr_runs).map_while(move |nr| {
            let off = self.step.checked_mul(i64::try_from(nr).ok()?)?;
            let start = self.start.checked_add_signed(off)?;
            Some(start..start.checked_add(self.nr_pages)?)
        })
    }
}

/// Pages that a miss reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Number of pages that the miss reads itself.
    pub now: usize,
    /// Pages to submit beside it.
    pub ahead: Option<Ahead>,
}

impl Plan {
    /// Returns the plan of a miss that reads only the `wanted` pages.
    #[must_use]
    pub fn alone(wanted: usize) -> Self {
        Self {
            now: wanted,
            ahead: None,
        }
    }
}

/// Mode of readahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// In the transfer of the miss.
    Together,
    /// In transfers of their own.
    Apart,
}

/// Streams of a reader.
#[derive(Debug)]
pub struct Streams {
    all: [Stream; STREAMS],
    marks: [u64; STREAMS],
    /// Number of misses and touches so far.
    now: u64,
    most_together: u64,
    most_apart: u64,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    /// First page of the last miss; in a step stream, of the last range that was submitted.
    start: u64,
    /// Page after the last one that was read or submitted.
    next: u64,
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

impl Streams {
    /// Creates the streams of a reader of pages of `page_size` bytes, in a cache of `nr_bytes`.
    #[must_use]
    pub fn new(page_size: usize, nr_bytes: usize) -> Self {
        // Readahead must not evict pages that the reader is about to reach.
        let most = |bytes: usize| (bytes.min(nr_bytes / 16) / page_size).max(1) as u64;
        Self {
            all: [Stream::NEW; STREAMS],
            marks: [NONE; STREAMS],
            now: 0,
            most_together: most(MOST_TOGETHER),
            most_apart: most(MOST_APART),
        }
    }

    /// Returns the marked page of each stream, or [`NONE`].
    #[must_use]
    pub fn marks(&self) -> &[u64; STREAMS] {
        &self.marks
    }

    fn most(&self, way: Way, is_sequential: bool) -> u64 {
        let most = match way {
            Way::Together => self.most_together,
            Way::Apart => self.most_apart,
        };
        most << u32::from(is_sequential)
    }

    /// Returns the pages to read for a miss of `page`, from which on the read needs `wanted` pages.
    pub fn on_miss(&mut self, page: u64, wanted: usize, way: Way, is_sequential: bool) -> Plan {
        let alone = Plan::alone(wanted);
        let most = self.most(way, is_sequential);
        let wanted = wanted as u64;
        self.now += 1;
        let now = self.now;
        let found = self.all.iter().position(|stream| stream.next == page);
        if let Some(nr) = found {
            self.all[nr].used = now;
            return self.forward(nr, page, wanted, (way, most));
        }
        if let Some(nr) = self.nearest(page) {
            let stream = &mut self.all[nr];
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
                let ahead = self.by_steps(nr, wanted, most);
                return Plan { ahead, ..alone };
            }
            return alone;
        }
        let nr = self.oldest();
        self.all[nr] = Stream {
            start: page,
            next: page.saturating_add(wanted),
            window: wanted.min(most),
            used: now,
            ..Stream::NEW
        };
        self.marks[nr] = NONE;
        if is_sequential {
            return self.forward(nr, page, wanted, (way, most));
        }
        alone
    }

    fn forward(&mut self, nr: usize, page: u64, wanted: u64, (way, most): (Way, u64)) -> Plan {
        let stream = &mut self.all[nr];
        let window = (stream.window * 2).clamp(1, most);
        stream.start = page;
        (stream.step, stream.nr_same) = (0, 0);
        match way {
            Way::Together => {
                let pages = wanted.max(window).min(most.max(wanted));
                stream.window = pages.min(most);
                stream.next = page.saturating_add(pages);
                Plan::alone(pages as usize)
            }
            Way::Apart => {
                stream.window = window;
                stream.next = page.saturating_add(wanted);
                let ahead = Some(self.further(nr));
                let now = wanted as usize;
                Plan { now, ahead }
            }
        }
    }

    fn further(&mut self, nr: usize) -> Ahead {
        let stream = &mut self.all[nr];
        let ahead = Ahead {
            start: stream.next,
            nr_pages: stream.window,
            step: 0,
            nr_runs: 1,
        };
        self.marks[nr] = stream.next;
        stream.next = stream.next.saturating_add(stream.window);
        ahead
    }

    /// Returns the next steps of a step stream, of `width` pages each.
    fn by_steps(&mut self, nr: usize, width: u64, most: u64) -> Option<Ahead> {
        let stream = &mut self.all[nr];
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
        self.marks[nr] = start;
        Some(ahead)
    }

    /// Returns the pages to submit at the first read of `page` since its fill, if it is marked.
    pub fn on_touch(&mut self, page: u64, is_sequential: bool) -> Option<Ahead> {
        if page == NONE {
            return None;
        }
        let nr = self.marks.iter().position(|mark| *mark == page)?;
        self.marks[nr] = NONE;
        self.now += 1;
        let most = self.most(Way::Apart, is_sequential);
        let stream = &mut self.all[nr];
        stream.used = self.now;
        if stream.nr_same != 0 {
            stream.window = (stream.window * 2).min(MOST_STEPS);
            let width = stream.next - stream.start;
            return self.by_steps(nr, width, most);
        }
        stream.window = (stream.window * 2).clamp(1, most);
        Some(self.further(nr))
    }

    /// Returns the stream whose last miss was nearest to `page`, if it is closer than [`NEAR`].
    fn nearest(&self, page: u64) -> Option<usize> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn together(streams: &mut Streams, page: u64, wanted: usize) -> usize {
        let plan = streams.on_miss(page, wanted, Way::Together, false);
        assert_eq!(plan.ahead, None);
        plan.now
    }

    fn apart(streams: &mut Streams, page: u64) -> Vec<(u64, u64)> {
        let plan = streams.on_miss(page, 1, Way::Apart, false);
        assert_eq!(plan.now, 1);
        runs(plan.ahead)
    }

    fn runs(ahead: Option<Ahead>) -> Vec<(u64, u64)> {
        let runs = ahead.into_iter().flat_map(Ahead::runs);
        runs.map(|run| (run.start, run.end)).collect()
    }

    #[test]
    fn sequences_double_up_to_the_limit_beside_each_other_and_a_jump_starts_over() {
        let mut streams = Streams::new(4096, 4 << 30);
        let mut pages = [0, 1 << 20, 2 << 20, 3 << 20, 4 << 20];
        for expected in [1, 2, 4, 8, 16, 32, 32] {
            for page in &mut pages {
                let nr = together(&mut streams, *page, 1);
                assert_eq!(nr, expected);
                *page += nr as u64;
            }
        }
        assert_eq!(together(&mut streams, pages[4] + 10_000, 1), 1);
        assert_eq!(together(&mut streams, pages[4] + 10_001, 1), 2);
    }

    #[test]
    fn a_read_gets_what_it_wants_however_much() {
        let mut streams = Streams::new(65536, 64 << 12);
        assert_eq!(together(&mut streams, 0, 500), 500);
        assert_eq!(together(&mut streams, 5003, 1), 1);
    }

    #[test]
    fn who_touches_a_marked_page_has_the_engine_go_on() {
        let mut streams = Streams::new(4096, 4 << 30);
        assert_eq!(apart(&mut streams, 7), []);
        assert_eq!(apart(&mut streams, 8), [(9, 11)]);
        let mut touch = |page| runs(streams.on_touch(page, false));
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
            let mut streams = Streams::new(4096, 4 << 30);
            let at = |nr: i64| (10_000 + nr * step).cast_unsigned();
            let run = |nr| (at(nr), at(nr) + 1);
            assert_eq!(apart(&mut streams, at(0)), []);
            assert_eq!(apart(&mut streams, at(1)), []);
            assert_eq!(apart(&mut streams, at(2)), [run(3), run(4)], "{step}");
            let ahead = runs(streams.on_touch(at(3), false));
            assert_eq!(ahead, [run(5), run(6), run(7), run(8)]);
            assert_eq!(runs(streams.on_touch(at(4), false)), []);
            assert_eq!(runs(streams.on_touch(at(5), false)).len(), 8);
        }
    }

    #[test]
    fn misses_at_random_read_nothing_ahead() {
        let mut streams = Streams::new(4096, 4 << 30);
        let mut rng = pagewell_testkit::Rng::new(5);
        let nr_ahead = (0..10_000)
            .filter(|_| {
                let plan = streams.on_miss(rng.below(1 << 30), 1, Way::Apart, false);
                assert_eq!(plan.now, 1);
                plan.ahead.is_some()
            })
            .count();
        assert!(nr_ahead < 3, "{nr_ahead}");
    }

    #[test]
    fn a_sequential_reader_reads_ahead_from_the_first_miss_on() {
        let mut streams = Streams::new(4096, 4 << 30);
        let plan = streams.on_miss(5, 1, Way::Apart, true);
        assert_eq!(runs(plan.ahead), [(6, 8)]);
        assert_eq!(streams.on_miss(5 << 20, 1, Way::Together, true).now, 2);
    }

    #[test]
    fn numbers_beyond_all_files_are_no_pages() {
        let mut streams = Streams::new(4096, 64 << 12);
        for page in [0, u64::MAX, 1, 0, u64::MAX - 1, u64::MAX, 3, 2, 1, 0] {
            for way in [Way::Apart, Way::Together] {
                let plan = streams.on_miss(page, 3, way, false);
                assert!(runs(plan.ahead).iter().all(|(start, end)| start <= end));
                _ = streams.on_touch(page, false);
            }
        }
    }
}
