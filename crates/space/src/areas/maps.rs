//! From a file to the private areas that map it.
//!
//! Each file has an interval tree of private areas, by the first frame of the file in the area. It
//! finds the copies of truncated pages ([`crate::areas::cut`]). Shared areas have no copies.
//!
//! F3: a private area is linked before any entry of its space can name a copy of a page of the
//! file, until none does. As F1 of [`crate::pages::family`].
//!
//! Locks. As for families: with or without the structure lock of a space.

use std::fmt;
use std::sync::Arc;

use crate::pages::links::Links;
use crate::words::directory::Directory;

/// Destination of writes to an area that maps a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// Writes go to the file.
    Shared,
    /// Writes change private copies of the pages.
    Private,
}

/// Space that links lead to.
pub(crate) trait LinkedSpace: Send + Sync {
    fn directory(&self) -> &Directory;

    /// Drops private copies, in areas of `maps`, of pages past the end of a file of `size` bytes
    /// ([`crate::areas::cut`]).
    fn drop_copies(&self, maps: &FileMaps, size: u64);
}

pub(crate) struct FileMaps {
    pub(crate) private: Links<Arc<dyn LinkedSpace>>,
}

impl FileMaps {
    pub(crate) fn new() -> Self {
        Self {
            private: Links::new(),
        }
    }
}

impl fmt::Debug for FileMaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileMaps")
            .field("private", &self.private)
            .finish()
    }
}
