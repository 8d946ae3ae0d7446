//! How a file is opened.

use std::sync::Arc;

use pagewell_io::FileOptions;

use crate::dirty::options::{WriteOptions, Writeback};

/// How a file is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    pub(super) page_size: Option<usize>,
    pub(super) write: Option<WriteOptions>,
    pub(super) file: FileOptions,
}

impl OpenOptions {
    /// Everything as the cache says.
    pub fn new() -> Self {
        Self::default()
    }

    /// The size of the file's pages: 4, 8, 16, 32 or 64 KiB, in bytes. Default: the cache's.
    #[must_use]
    pub fn page_size(mut self, bytes: usize) -> Self {
        self.page_size = Some(bytes);
        self
    }

    /// Open for writing too. Only one open file of one process can be: another gets
    /// [`Busy`](crate::ErrorKind::Busy). Default: for reading only.
    #[must_use]
    pub fn write(mut self) -> Self {
        self.write.get_or_insert_default();
        self
    }

    /// Open for writing, and make the file if there is none. It is durable after the first sync.
    #[must_use]
    pub fn create(mut self) -> Self {
        self.file = self.file.create();
        self.write()
    }

    /// Open for writing, and make the file; that there is one already is an error.
    #[must_use]
    pub fn create_new(mut self) -> Self {
        self.file = self.file.create_new();
        self.write()
    }

    /// Open for writing, and empty the file.
    #[must_use]
    pub fn truncate(mut self) -> Self {
        self.file = self.file.truncate();
        self.write()
    }

    /// When dirty pages are written; for files that are open for writing. Default:
    /// [`Writeback::Background`].
    #[must_use]
    pub fn writeback(mut self, mode: Writeback) -> Self {
        self.write.get_or_insert_default().mode = mode;
        self
    }

    /// Calls `hook` before a page is given to the storage, with the page's number and the highest log sequence number that
    /// [`File::write_at_lsn`](crate::File::write_at_lsn) was given for it (0 if it was given none). If the hook fails, the page
    /// is not given to the storage, and stays dirty.
    ///
    /// The hook is called with the file's writeback lock held. So it cannot flush or sync this file, make it longer or shorter,
    /// discard pages of it, or make a barrier: that is an error ([`Deadlock`](crate::ErrorKind::Deadlock)). It may write to other
    /// files, a log for example, and sync them. Keep a handle of such a file outside of the hook, or close the file: a file that
    /// only the hook holds is dropped when this file is closed, maybe by a pin that owns a share of it.
    #[must_use]
    pub fn before_write(
        mut self,
        hook: impl Fn(u64, u64) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.write.get_or_insert_default().before_write = Some(Arc::new(hook));
        self
    }
}
