//! How a file is opened for writing, and what a handle may be used for.

use std::fmt;
use std::io;
use std::sync::Arc;

/// Called with a page's number and the highest log sequence number that was written to it, before the page
/// is given to the storage. An error keeps it from being written.
pub type BeforeWrite = dyn Fn(u64, u64) -> io::Result<()> + Send + Sync;

/// When the dirty pages of a file are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writeback {
    /// Soon, in the background; and when the program asks for it.
    #[default]
    Background,
    /// Only when the program asks for it.
    Manual,
}

/// What a handle may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handle {
    Read,
    Write,
}

/// Whether a file is written to, and how.
pub(crate) enum Access {
    Read,
    Write(WriteOptions),
}

/// How a file is written to.
#[derive(Clone, Default)]
pub(crate) struct WriteOptions {
    pub(crate) mode: Writeback,
    pub(crate) before_write: Option<Arc<BeforeWrite>>,
}

impl fmt::Debug for WriteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteOptions")
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}
