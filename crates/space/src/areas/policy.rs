//! Memory policies: the NUMA nodes for pages of areas.

use pagewell_frame::Place;

use crate::error::ErrorKind;
use crate::pages::owner::Binding;

/// NUMA nodes for the pages of an area. Nodes are numbered from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// The node of the processor that first writes a page, or else the nearest possible one. With
    /// the frames of a cache, pages of files are evicted on any node if no node has a free frame.
    #[default]
    Local,
    /// Only this node. With the frames of a cache, a full node evicts pages of files on this node
    /// only. If none can be evicted, dirty ones there are written back first, and the write waits
    /// for that. The write fails ([`OutOfFrames`](crate::ErrorKind::OutOfFrames)) if all frames of
    /// the node are pinned, belong to spaces, or are dirty and written back by the program only.
    /// Only [`Space::migrate`](crate::Space::migrate) moves such a page to another node, where it
    /// stays until the next migration.
    Bind(usize),
    /// This node, or else the nearest possible one. With the frames of a cache, pages of files are
    /// evicted only if no node has a free frame: those on this node, or on others if none of these
    /// can be.
    Prefer(usize),
    /// All nodes in turn, page by page, each as by [`Prefer`](Self::Prefer).
    Interleave,
}

impl Policy {
    pub(crate) fn check(self, nr_nodes: usize) -> Result<(), ErrorKind> {
        match self {
            Self::Bind(node) | Self::Prefer(node) if node >= nr_nodes => Err(ErrorKind::NoSuchNode),
            _ => Ok(()),
        }
    }

    /// Returns where page `page` is to be allocated: on any node, preferably on one, or only on
    /// one. `page` is an index in its family in units of pages.
    pub(crate) fn place(self, page: u64, nr_nodes: usize) -> Place {
        match self {
            Self::Local => Place::Anywhere,
            Self::Bind(node) => Place::Only(node),
            Self::Prefer(node) => Place::Prefer(node),
            Self::Interleave => Place::Prefer((page % nr_nodes as u64) as usize),
        }
    }

    /// Returns where compaction may move pages.
    pub(crate) fn binding(self) -> Binding {
        match self {
            Self::Bind(_) => Binding::Node,
            Self::Local | Self::Prefer(_) | Self::Interleave => Binding::Anywhere,
        }
    }
}
