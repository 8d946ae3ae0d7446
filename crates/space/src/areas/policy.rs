//! Memory policies: the NUMA nodes for pages of areas.

use pagewell_frame::Place;

use crate::error::ErrorKind;
use crate::pages::owner::Binding;

/// NUMA nodes for the pages of an area. Nodes are numbered from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// The node of the processor that first writes the page; if that has no frame, the nearest node
    /// that has one. In spaces of a cache, pages of files are evicted on any node if no node has a
    /// free frame.
    #[default]
    Local,
    /// Only this node. In spaces of a cache, if the node has no free frame, pages of files on this
    /// node are evicted. If none can be evicted, dirty ones on this node are written back first,
    /// and the write to the space waits for that. The write fails
    /// ([`OutOfFrames`](crate::ErrorKind::OutOfFrames)) if all frames of the node are pinned,
    /// belong to spaces, or are dirty and written back by the program only. Only
    /// [`Space::migrate`](crate::Space::migrate) moves a page of such an area to another node,
    /// where the page stays until the next migration.
    Bind(usize),
    /// This node; if it has no frame, the nearest node that has one. In spaces of a cache, pages of
    /// files are evicted only if no node has a free frame: first on this node, and on others only
    /// if none can be evicted here.
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

    /// Returns the place at which to allocate page `page`: any node, preferably one, or only one.
    /// `page` is the index in its family, in units of pages.
    pub(crate) fn place(self, page: u64, nr_nodes: usize) -> Place {
        match self {
            Self::Local => Place::Anywhere,
            Self::Bind(node) => Place::Only(node),
            Self::Prefer(node) => Place::Prefer(node),
            Self::Interleave => Place::Prefer((page % nr_nodes as u64) as usize),
        }
    }

    /// Returns the nodes to which compaction may move pages.
    pub(crate) fn binding(self) -> Binding {
        match self {
            Self::Bind(_) => Binding::Node,
            Self::Local | Self::Prefer(_) | Self::Interleave => Binding::Anywhere,
        }
    }
}
