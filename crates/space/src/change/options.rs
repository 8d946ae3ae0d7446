use std::ops::Range;

use pagewell_frame::{FRAME_BYTES, Order};

use crate::areas::policy::Policy;
use crate::error::ErrorKind;
use crate::words::geometry::MAX_PAGE_ORDER;
use crate::words::pte::Protection;

/// Options for mapping an area.
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
    /// Returns the default options: pages of 4 KiB, [`Policy::Local`], [`Protection::ReadWrite`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the policy that selects the nodes of the area's pages. Default: [`Policy::Local`].
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the permitted accesses. Default: [`Protection::ReadWrite`].
    #[must_use]
    pub fn protection(mut self, protection: Protection) -> Self {
        self.protection = protection;
        self
    }

    /// Sets the page size in bytes: a power of two from 4 KiB to 2 MiB. Default: 4 KiB.
    #[must_use]
    pub fn page_bytes(mut self, bytes: usize) -> Self {
        self.page_bytes = bytes;
        self
    }

    pub(crate) fn check_node(&self, nr_nodes: usize) -> Result<(), ErrorKind> {
        self.policy.check(nr_nodes)
    }

    pub(crate) fn order(&self) -> Option<Order> {
        let frames = self.page_bytes / FRAME_BYTES;
        if !self.page_bytes.is_power_of_two() || frames == 0 {
            return None;
        }
        Order::new(frames.trailing_zeros() as u8).filter(|order| *order <= MAX_PAGE_ORDER)
    }
}

/// Properties of an area.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AreaInfo {
    /// Addresses of the area.
    pub range: Range<u64>,
    /// Permitted accesses.
    pub protection: Protection,
    /// Policy that selects the NUMA nodes of its pages.
    pub policy: Policy,
    /// Page size in bytes.
    pub page_bytes: u64,
}
