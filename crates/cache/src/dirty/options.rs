//! Options of a file opened for writing, and the rights of a handle.

use std::fmt;
use std::io;
use std::sync::Arc;

/// Writeback callback: called before a page is written to the backend, with the page's number and
/// the highest log sequence number of its writes. If it returns an error, the page is not written.
pub type BeforeWrite = dyn Fn(u64, u64) -> io::Result<()> + Send + Sync;

/// Policy for writing back the dirty pages of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writeback {
    /// Dirty pages are written back in the background, and on request of the program.
    #[default]
    Background,
    /// Dirty pages are written back only on request of the program, or when the file is closed.
    Manual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handle {
    Read,
    Write,
}

pub(crate) enum Access {
    Read,
    Write(WriteOptions),
}

/// Options for writing. For `None`, an open file keeps its value, and a new file gets the default.
#[derive(Clone, Default)]
pub(crate) struct WriteOptions {
    pub(crate) mode: Option<Writeback>,
    pub(crate) before_write: Option<Arc<BeforeWrite>>,
}

impl fmt::Debug for WriteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteOptions")
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}
