//! The engines of `bench contig`: strategies of the frame pool, and what is compared.

use pagewell_frame::{FramePool, FreeRange, Nodes, PoolConfig};

use crate::failure::Failure;

const CHUNKED: &str = "chunked";
const MERGED: &str = "merged";
const ONE_BY_ONE: &str = "one-by-one";
const LIMIT: &str = "limit";

/// The engines, in the order of their lanes.
pub(in crate::bench) const ENGINES: [&str; 4] = [CHUNKED, MERGED, ONE_BY_ONE, LIMIT];

/// The strategies alone, in the same order: the limit leaves no free memory behind.
pub(in crate::bench) const STRATEGIES: [&str; 3] = [CHUNKED, MERGED, ONE_BY_ONE];

/// Which engine is compared with which.
pub(in crate::bench) const RATIOS: [(&str, &str); 5] = [
    (CHUNKED, ONE_BY_ONE),
    (MERGED, ONE_BY_ONE),
    (CHUNKED, LIMIT),
    (MERGED, LIMIT),
    (CHUNKED, MERGED),
];

/// One line each, for people.
pub(in crate::bench) const LEGEND: [(&str, &str); 4] = [
    (
        CHUNKED,
        "the range as the largest aligned blocks, put on the free lists as they are",
    ),
    (
        MERGED,
        "the same blocks, each made an allocated one again, and freed like any other",
    ),
    (
        ONE_BY_ONE,
        "the baseline: every frame goes through the allocator by itself",
    ),
    (
        LIMIT,
        "a bare decrement for each frame (order-9: and a plain store), and nothing else",
    ),
];

/// What the engines do, in the order of [`STRATEGIES`].
pub(super) const HOW: [FreeRange; 3] = [FreeRange::Chunked, FreeRange::Merged, FreeRange::OneByOne];

/// One node, as large as a range may be, wherever the system puts it.
pub(super) fn new_pool(nr_frames: usize) -> Result<FramePool, Failure> {
    let mut config = PoolConfig::new(nr_frames);
    config.nodes = Nodes::Unbound(1);
    FramePool::new(&config).map_err(|error| Failure::because("cannot make a frame pool", error))
}

/// Figures of a pool that does not add up would mean nothing.
pub(super) fn check(engine: &str, pool: &FramePool) -> Result<(), Failure> {
    pool.verify()
        .map_err(|error| Failure::because(format_args!("the pool of {engine} is broken"), error))
}
