//! What the tests of spaces share.
#![allow(dead_code, unreachable_pub)] // Each test uses some of it, and is a crate of its own.

pub mod history;
pub mod model;

use pagewell_frame::{FramePool, HugePages, Nodes, PoolConfig};
use pagewell_space::Spaces;

/// Spaces over a pool of `nr_frames` frames in `nr_nodes` nodes.
pub fn spaces(nr_frames: usize, nr_nodes: usize) -> Spaces {
    let mut config = PoolConfig::new(nr_frames);
    config.nodes = Nodes::Unbound(nr_nodes);
    config.huge_pages = HugePages::Never;
    Spaces::new(FramePool::new(&config).unwrap())
}
