//! One writing process: what it does and when it is killed, from the seed of the test and its number.

use std::time::Duration;

use pagewell::{Nodes, OpenOptions, Writeback};
use pagewell_testkit::Rng;
use pagewell_testkit::rng::mix;

use crate::crash_test::ways::Way;

/// Bytes of a frame with its record, at most.
const FRAME_COST: u64 = 4096 + 64 + 12;

/// A writing process. Both sides make it of the same numbers.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) number: u64,
    /// Where the random choices of its threads begin.
    pub(super) seed: u64,
    pub(super) nr_threads: u64,
    pub(super) page_size: usize,
    pub(super) writeback: Writeback,
    pub(super) syncs: Syncs,
    pub(super) moment: Moment,
    pub(super) way: Way,
}

/// How often a thread syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syncs {
    /// Now and then.
    Often,
    /// So rarely that more is dirty than may be: writers have to write back.
    Rarely,
}

/// When a process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// So long after it was started: while it opens the file, too.
    Start(Duration),
    /// So long after it has begun to write.
    Ready(Duration),
    /// So long after so many syncs were acknowledged.
    Syncs(u64, Duration),
}

impl Life {
    /// Process number `number` of a test with this `seed`, with so many threads if that is given.
    pub(super) fn of(seed: u64, number: u64, threads: Option<u8>) -> Life {
        let seed = mix(seed ^ mix(number));
        let mut rng = Rng::part(seed, u64::MAX);
        let by_chance = 1 + rng.below(4);
        Life {
            number,
            seed,
            nr_threads: threads.map_or(by_chance, u64::from),
            page_size: 4096 << rng.below(5),
            writeback: match rng.one_in(3) {
                true => Writeback::Manual,
                false => Writeback::Background,
            },
            syncs: match rng.one_in(3) {
                true => Syncs::Rarely,
                false => Syncs::Often,
            },
            moment: moment(&mut rng),
            way: Way::default(),
        }
    }

    /// The same process, by this way.
    pub(super) fn by(self, way: Way) -> Life {
        Life { way, ..self }
    }

    /// A cache that has room for a part of the file only, so that pages are evicted and written back.
    pub(super) fn cache(&self) -> Result<pagewell::Cache, pagewell::Error> {
        let frames_a_page = (self.page_size / 4096) as u64;
        let frames = 96 + (8 + 2 * self.nr_threads) * frames_a_page;
        pagewell::Cache::builder()
            .capacity(frames * FRAME_COST)
            .nodes(Nodes::Unbound(1))
            .engine(self.way.engine.settings())
            .build()
    }

    pub(super) fn options(&self) -> OpenOptions {
        OpenOptions::new()
            .write()
            .page_size(self.page_size)
            .writeback(self.writeback)
            .direct(self.way.transfers.direct())
    }
}

fn moment(rng: &mut Rng) -> Moment {
    let up_to =
        |rng: &mut Rng, most: Duration| Duration::from_micros(rng.below(most.as_micros() as u64));
    match rng.below(20) {
        0..2 => Moment::Start(up_to(rng, Duration::from_millis(8))),
        // Long enough for the thread that writes back.
        2 => Moment::Ready(up_to(rng, Duration::from_millis(600))),
        3..11 => Moment::Ready(up_to(rng, Duration::from_millis(40))),
        _ => {
            let nr_syncs = 1 + rng.below(12);
            Moment::Syncs(nr_syncs, up_to(rng, Duration::from_millis(3)))
        }
    }
}
