//! Policies: on which nodes the pages of areas are to be.

use pagewell_frame::Place;

use crate::error::ErrorKind;
use crate::pages::owner::Binding;

/// On which nodes the pages of an area are to be. Nodes are numbered from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// On the node of the processor that writes a page first, or else as near as can be. In the frames of a cache, pages of
    /// files are evicted when no node has a frame free, wherever they are.
    #[default]
    Local,
    /// On this node. In the frames of a cache, pages of files are evicted on this node alone when it is full; if there are
    /// none that can be, those that are dirty there are written back first, and the write waits for that. It fails
    /// ([`OutOfFrames`](crate::ErrorKind::OutOfFrames)) when all that the node has is pinned, or of spaces, or dirty and
    /// written back by the program only. Nothing but [`Space::migrate`](crate::Space::migrate) moves such a page
    /// to another node, where it stays until it is told to move again.
    Bind(usize),
    /// On this node, or else as near as can be. In the frames of a cache, pages of files are evicted only when no node has a
    /// frame free: those on this node, and if there are none that can be, on others.
    Prefer(usize),
    /// On all nodes in turn, page by page: each page as if it preferred ([`Prefer`](Self::Prefer)) the node whose turn it is.
    Interleave,
}

impl Policy {
    /// Checks that the node that the policy names is one of `nr_nodes`.
    pub(crate) fn check(self, nr_nodes: usize) -> Result<(), ErrorKind> {
        match self {
            Self::Bind(node) | Self::Prefer(node) if node >= nr_nodes => Err(ErrorKind::NoSuchNode),
            _ => Ok(()),
        }
    }

    /// Where page `page` of an area is to be, counted from where the area's pages are.
    pub(crate) fn place(self, page: u64, nr_nodes: usize) -> Place {
        match self {
            Self::Local => Place::Anywhere,
            Self::Bind(node) => Place::Only(node),
            Self::Prefer(node) => Place::Prefer(node),
            Self::Interleave => Place::Prefer((page % nr_nodes as u64) as usize),
        }
    }

    /// Where compaction may move a page.
    pub(crate) fn binding(self) -> Binding {
        match self {
            Self::Bind(_) => Binding::Node,
            Self::Local | Self::Prefer(_) | Self::Interleave => Binding::Anywhere,
        }
    }
}
