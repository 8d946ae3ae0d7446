//! How a file is opened for writing, and what a handle may do.

use std::fmt;
use std::io;
use std::sync::Arc;

/// Called before a page is given to the storage, with the page's number and the highest log sequence number that was
/// written to it. An error keeps the page from being written.
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

/// What a handle may do.
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

/// How a file is to be written to. What is not named is as the file is open, or else the default.
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
