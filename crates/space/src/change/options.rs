//! How areas are mapped, and what there is to know of them.

use std::ops::Range;

use pagewell_frame::{FRAME_BYTES, Order};

use crate::areas::policy::Policy;
use crate::error::ErrorKind;
use crate::words::geometry::MAX_PAGE_ORDER;
use crate::words::pte::Protection;

/// How an area is mapped.
#[derive(Clone, Copy, Debug)]
pub struct MapOptions {
    pub(crate) policy: Policy,
    pub(crate) protection: Protection,
    pub(crate) page_bytes: usize,
}

impl Default for MapOptions {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            protection: Protection::default(),
            page_bytes: FRAME_BYTES,
        }
    }
}

impl MapOptions {
    /// Pages of 4 KiB on the writer's node, for reading and writing.
    pub fn new() -> Self {
        Self::default()
    }

    /// On which nodes its pages are to be. Default: [`Policy::Local`].
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// What may be done. Default: [`Protection::ReadWrite`].
    #[must_use]
    pub fn protection(mut self, protection: Protection) -> Self {
        self.protection = protection;
        self
    }

    /// The size of its pages in bytes: a power of two from 4 KiB to 2 MiB. A page is made, copied and moved as one.
    /// Default: 4 KiB.
    #[must_use]
    pub fn page_bytes(mut self, bytes: usize) -> Self {
        self.page_bytes = bytes;
        self
    }

    pub(crate) fn check_node(&self, nr_nodes: usize) -> Result<(), ErrorKind> {
        self.policy.check(nr_nodes)
    }

    /// The order of the pages; none for a size that there is not.
    pub(crate) fn order(&self) -> Option<Order> {
        let frames = self.page_bytes / FRAME_BYTES;
        if !self.page_bytes.is_power_of_two() || frames == 0 {
            return None;
        }
        Order::new(frames.trailing_zeros() as u8).filter(|order| *order <= MAX_PAGE_ORDER)
    }
}

/// What there is to know of an area.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AreaInfo {
    /// Its addresses.
    pub range: Range<u64>,
    /// What may be done.
    pub protection: Protection,
    /// On which nodes its pages are to be.
    pub policy: Policy,
    /// The size of its pages in bytes.
    pub page_bytes: u64,
}
