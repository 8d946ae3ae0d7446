//! From a file to the private areas that show it.
//!
//! There is an interval tree of private areas for each file, by the frame of the file that an area begins with. It finds the copies
//! of pages that are cut off ([`crate::areas::cut`]). Shared areas have no copies, and are not in it.
//!
//! F3: a private area is linked before any entry of its space can name a copy of a page of the file, and stays linked
//! until none does. As F1 of [`crate::pages::family`].
//!
//! Locks. As for families: the lock of a tree is taken with the structure lock of a space held, or with none.

use std::fmt;
use std::sync::Arc;

use crate::pages::links::Links;
use crate::words::directory::Directory;

/// What writes to an area that shows a file do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// They are writes to the file.
    Shared,
    /// They are the area's own: the page is copied first.
    Private,
}

/// A space, as links know it.
pub(crate) trait LinkedSpace: Send + Sync {
    /// Where its tables are.
    fn directory(&self) -> &Directory;

    /// Drops the private copies of pages that lie past the end of a file of `size` bytes, whose areas `maps` has. The steps are
    /// those of [`crate::areas::cut`].
    fn drop_copies(&self, maps: &FileMaps, size: u64);
}

/// The private areas that show one file, of all spaces.
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
