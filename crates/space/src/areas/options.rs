use std::ops::Range;

use pagewell_frame::{FRAME_BYTES, Order, Place};

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

/// NUMA nodes for the pages of an area. Nodes are numbered from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// The node of the processor that first writes the page, or the nearest node with a free frame.
    /// If no node has one, spaces of a cache evict pages of files on any node.
    #[default]
    Local,
    /// Only this node. If it has no free frame, spaces of a cache evict pages of files on it, or
    /// write dirty ones back first, for which the write to the space waits. The write fails
    /// ([`OutOfFrames`](crate::ErrorKind::OutOfFrames)) if all frames of the node are pinned,
    /// belong to spaces, or are dirty and written back by the program only. Only
    /// [`Space::migrate`](crate::Space::migrate) moves such a page to another node.
    Bind(usize),
    /// This node, or the nearest node with a free frame. If no node has one, spaces of a cache
    /// evict pages of files, on other nodes only if none can be evicted on this one.
    Prefer(usize),
    /// All nodes in turn: each page prefers the next node, as by [`Prefer`](Self::Prefer).
    Interleave,
}

impl Policy {
    pub(crate) fn check(self, nr_nodes: usize) -> Result<(), ErrorKind> {
        match self {
            Self::Bind(node) | Self::Prefer(node) if node >= nr_nodes => Err(ErrorKind::NoSuchNode),
            _ => Ok(()),
        }
    }

    /// Returns the place for the page with the index `page` in its family, in units of pages.
    pub(crate) fn place(self, page: u64, nr_nodes: usize) -> Place {
        match self {
            Self::Local => Place::Anywhere,
            Self::Bind(node) => Place::Only(node),
            Self::Prefer(node) => Place::Prefer(node),
            Self::Interleave => Place::Prefer((page % nr_nodes as u64) as usize),
        }
    }
}
