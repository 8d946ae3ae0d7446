use pagewell_frame::Place;

use crate::error::ErrorKind;
use crate::pages::owner::Binding;

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

    pub(crate) fn binding(self) -> Binding {
        match self {
            Self::Bind(_) => Binding::Node,
            Self::Local | Self::Prefer(_) | Self::Interleave => Binding::Anywhere,
        }
    }
}
