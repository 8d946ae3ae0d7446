//! Links from a file to the private areas that map it.
//!
//! Each file has an interval tree of its private areas, by their position in the file, in units of
//! 4 KiB, to find copies in a truncation ([`crate::areas::cut`]).
//!
//! F3: a private area is linked from before an entry of its space can name a copy of a page of the
//! file until no entry does. F1 of [`crate::pages::family`] states the same for families.

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

pub(crate) trait LinkedSpace: Send + Sync {
    fn directory(&self) -> &Directory;

    /// Drops copies, in areas linked to `maps`, of pages past the end of a file of `size` bytes.
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
