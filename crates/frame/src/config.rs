//! How a pool is set up.

use crate::MAX_FRAMES;
use crate::error::PoolError;

/// Whether the memory of a pool is to be made of huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HugePages {
    /// As the system is set up (`/sys/kernel/mm/transparent_hugepage/enabled`).
    #[default]
    System,
    /// Ask for huge pages: fewer misses of the address translation on random reads; memory is used
    /// in steps of 2 MiB.
    Advise,
    /// Ask for none: memory is used in steps of 4 KiB.
    Never,
}

/// Over which memory nodes a pool spreads its frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Nodes {
    /// One node for each NUMA node of the machine that is online, with the same share of frames each,
    /// bound to it.
    #[default]
    Machine,
    /// This many nodes (1 to 64), bound to nothing: for tests, and for programs that place memory
    /// themselves.
    Unbound(usize),
}

/// The most nodes that a pool may have.
pub const MAX_NODES: usize = 64;

/// How a [`FramePool`](crate::FramePool) is set up.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// How many frames the pool has: 1 to [`MAX_FRAMES`], and at least one a node.
    pub nr_frames: usize,
    /// Whether its memory is to be made of huge pages. Default: [`HugePages::System`].
    pub huge_pages: HugePages,
    /// Over which nodes it is spread. Default: [`Nodes::Machine`].
    pub nodes: Nodes,
}

impl PoolConfig {
    /// A pool of this many frames, with the defaults for everything else.
    pub fn new(nr_frames: usize) -> Self {
        Self {
            nr_frames,
            huge_pages: HugePages::default(),
            nodes: Nodes::default(),
        }
    }

    /// The NUMA node of the machine for each node of the pool (none: not bound).
    pub(crate) fn validate(&self) -> Result<Vec<Option<u32>>, PoolError> {
        let nodes: Vec<Option<u32>> = match self.nodes {
            Nodes::Machine => crate::numa::online().into_iter().map(Some).collect(),
            Nodes::Unbound(nr) if (1..=MAX_NODES).contains(&nr) => vec![None; nr],
            Nodes::Unbound(nr) => return Err(PoolError::NodeCount { nr }),
        };
        if !(1..=MAX_FRAMES).contains(&self.nr_frames) || self.nr_frames < nodes.len() {
            return Err(PoolError::FrameCount { nr: self.nr_frames });
        }
        // With a single node there is nothing to choose, and so nothing to bind.
        Ok(if nodes.len() == 1 { vec![None] } else { nodes })
    }
}
