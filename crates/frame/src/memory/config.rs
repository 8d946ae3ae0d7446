use std::ops::Range;
use std::{fmt, io};

use pagewell_sync::region::HugePages;

use super::numa;
use crate::words::{FRAME_BYTES, MAX_FRAMES, MAX_NODES, Order};

/// Memory nodes over which a pool spreads its frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Nodes {
    /// One node for each NUMA node of the machine that has memory, with frames in proportion to
    /// that memory, and placed in it as long as some of it is free. If the system refuses the
    /// request (as in some containers), the frames are placed without regard to nodes.
    #[default]
    Machine,
    /// This number of nodes (1 to 64), not placed: for tests, or if the program places memory.
    Unbound(usize),
}

/// Configuration of a [`FramePool`](crate::FramePool).
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Number of frames: 1 to [`MAX_FRAMES`], and at least one per node.
    pub nr_frames: usize,
    /// Use of huge pages. Default: [`HugePages::Advise`].
    pub huge_pages: HugePages,
    /// Memory nodes. Default: [`Nodes::Machine`].
    pub nodes: Nodes,
}

impl PoolConfig {
    /// Creates a configuration with the defaults for all other fields.
    pub fn new(nr_frames: usize) -> Self {
        Self {
            nr_frames,
            huge_pages: HugePages::default(),
            nodes: Nodes::default(),
        }
    }

    /// Returns the plan of each node, in ascending order of frames.
    pub(crate) fn validate(&self) -> Result<Vec<NodePlan>, PoolError> {
        let numa: Vec<Option<u32>> = match self.nodes {
            Nodes::Machine => numa::online().into_iter().map(Some).collect(),
            Nodes::Unbound(nr) if (1..=MAX_NODES).contains(&nr) => vec![None; nr],
            Nodes::Unbound(nr) => return Err(PoolError::NodeCount { nr }),
        };
        if !(1..=MAX_FRAMES).contains(&self.nr_frames) || self.nr_frames < numa.len() {
            return Err(PoolError::FrameCount { nr: self.nr_frames });
        }
        if numa.len() == 1 {
            return Ok(vec![NodePlan {
                numa: None,
                frames: 0..self.nr_frames as u32,
            }]);
        }
        let memory: Option<Vec<u64>> = numa
            .iter()
            .map(|node| node.and_then(numa::memory_bytes))
            .collect();
        // If the size of any node is unknown, all nodes get the same weight.
        let weights = memory.unwrap_or_else(|| vec![1; numa.len()]);
        let shares = shares(self.nr_frames as u32, &weights);
        Ok(numa
            .into_iter()
            .zip(shares)
            .map(|(numa, frames)| NodePlan { numa, frames })
            .collect())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodePlan {
    pub(crate) numa: Option<u32>,
    pub(crate) frames: Range<u32>,
}

/// Minimum number of alignment units in a share, so that alignment changes the shares only little.
const BLOCKS_A_SHARE: u32 = 64;

/// Divides `nr_frames` in proportion to `weights`, or equally if a share would be empty. The caller
/// provides at least one frame per weight. Borders are aligned, so that they divide few blocks.
fn shares(nr_frames: u32, weights: &[u64]) -> Vec<Range<u32>> {
    let mut borders = borders(nr_frames, weights);
    if smallest(&borders) == 0 {
        borders = self::borders(nr_frames, &vec![1; weights.len()]);
    }
    // Align to the largest block size at which the smallest share has `BLOCKS_A_SHARE` blocks or
    // more. A border is rounded down by less than one such block, so no share becomes empty.
    let unit = (0..=Order::MAX.get())
        .rev()
        .map(|order| 1_u32 << order)
        .find(|unit| smallest(&borders) / unit >= BLOCKS_A_SHARE)
        .unwrap_or(1);
    let last = borders.len() - 1;
    for border in &mut borders[..last] {
        *border -= *border % unit;
    }
    borders.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

/// Returns the start of each share, and the end of the last one.
fn borders(nr_frames: u32, weights: &[u64]) -> Vec<u32> {
    let total: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    let mut below = 0_u128;
    let mut borders = vec![0];
    for weight in weights {
        below += u128::from(*weight);
        borders.push((u128::from(nr_frames) * below / total.max(1)) as u32);
    }
    borders
}

fn smallest(borders: &[u32]) -> u32 {
    let lengths = borders.windows(2).map(|pair| pair[1] - pair[0]);
    lengths.min().unwrap_or(0)
}

/// Error of creating a pool.
#[derive(Debug)]
#[non_exhaustive]
pub enum PoolError {
    /// The number of frames is 0, less than the number of nodes, or more than [`MAX_FRAMES`].
    FrameCount {
        /// Requested number.
        nr: usize,
    },
    /// The number of nodes is 0 or more than 64.
    NodeCount {
        /// Requested number.
        nr: usize,
    },
    /// The system refused the memory.
    Memory {
        /// Requested number of bytes.
        bytes: usize,
        /// Error of the system.
        source: io::Error,
    },
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FrameCount { nr } => write!(
                f,
                "cannot create a pool of {nr} frames of {FRAME_BYTES} bytes: \
                 it needs at least one per node and at most {MAX_FRAMES}"
            ),
            Self::NodeCount { nr } => {
                write!(
                    f,
                    "cannot create a pool with {nr} memory nodes: must be 1 to {MAX_NODES}"
                )
            }
            Self::Memory { bytes, .. } => {
                let limits = pagewell_sync::system::memory_limits();
                write!(f, "cannot reserve {bytes} bytes of memory: {limits}")
            }
        }
    }
}

impl std::error::Error for PoolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::FrameCount { .. } | Self::NodeCount { .. } => None,
            Self::Memory { source, .. } => Some(source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_weights_make_equal_shares() {
        assert_eq!(shares(64, &[1, 1]), [0..32, 32..64]);
        assert_eq!(shares(100, &[7, 7, 7]), [0..33, 33..66, 66..100]);
        assert_eq!(shares(3, &[1, 1, 1]), [0..1, 1..2, 2..3]);
    }

    #[test]
    fn shares_follow_the_weights() {
        assert_eq!(shares(100, &[3, 1]), [0..75, 75..100]);
        assert_eq!(
            shares(80, &[u64::MAX, u64::MAX / 4, u64::MAX / 4 * 3]),
            [0..40, 40..50, 50..80]
        );
    }

    #[test]
    fn a_weight_too_small_for_a_frame_still_gets_some() {
        assert_eq!(shares(10, &[1, 1000]), [0..5, 5..10]);
        assert_eq!(shares(10, &[0, 1]), [0..5, 5..10]);
        assert_eq!(shares(10, &[0, 0]), [0..5, 5..10]);
    }

    #[test]
    fn borders_of_large_shares_are_aligned_to_large_blocks() {
        let largest = Order::MAX.frames();
        let nr_frames = 1_000_003;
        for weights in [vec![1; 3], vec![5, 3, 4], vec![1, 1], vec![2, 3, 5, 7]] {
            let shares = shares(nr_frames, &weights);
            assert_eq!(
                (shares[0].start, shares[shares.len() - 1].end),
                (0, nr_frames)
            );
            for pair in shares.windows(2) {
                assert_eq!(pair[0].end, pair[1].start);
                assert_eq!(pair[0].end % largest, 0, "{shares:?}");
            }
        }
        // Medium shares are aligned to medium blocks: 64 of 16 frames each.
        assert_eq!(shares(2054, &[1, 1]), [0..1024, 1024..2054]);
        assert_eq!(shares(130, &[1, 1]), [0..65, 65..130]);
    }
}
