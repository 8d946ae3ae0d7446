//! Options for opening a file.

use std::sync::Arc;

use pagewell_io::{Direct, FileOptions};

use crate::base::page_hooks::{Hooks, PageHooks};
use crate::dirty::options::{BeforeWrite, WriteOptions, Writeback};

/// Options for opening a file.
///
/// A file that is already open in the cache, if only because an area of a memory space keeps it
/// open, stays as it is: options that are not set are the file's. If the page size differs from the
/// file's, opening fails with [`PageSizeMismatch`](crate::ErrorKind::PageSizeMismatch). If the
/// writeback callback, the page codec, the writeback mode or the transfers differ, it fails with
/// [`OptionsMismatch`](crate::ErrorKind::OptionsMismatch). Nothing has changed then: the file was
/// not truncated.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    pub(super) page_size: Option<usize>,
    pub(super) write: Option<WriteOptions>,
    pub(super) file: FileOptions,
    pub(super) direct: Option<Direct>,
    pub(super) hooks: Option<Hooks>,
}

impl OpenOptions {
    /// Creates options for reading, with nothing set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the size of the file's pages: 4, 8, 16, 32 or 64 KiB, in bytes. Default: that of the
    /// open file, or else the cache's.
    #[must_use]
    pub fn page_size(mut self, bytes: usize) -> Self {
        self.page_size = Some(bytes);
        self
    }

    /// Sets whether transfers bypass the kernel's page cache. Default: as the open file, or else
    /// [`Direct::Never`].
    ///
    /// A cache with enough memory for the frequently used pages often benefits: each page is in
    /// memory once. A miss is then a read of the device, where the kernel might have had the page;
    /// and a writeback reaches the device, even one that is soon repeated.
    /// [`File::transfers`](crate::File::transfers) returns the actual mode, and the reason.
    ///
    /// [`Direct::Always`] fails with [`Unavailable`](crate::ErrorKind::Unavailable) if the file
    /// system has no direct transfers. If the file is already open in the other mode, opening fails
    /// with [`OptionsMismatch`](crate::ErrorKind::OptionsMismatch).
    ///
    /// This applies to files opened by path only: a program's backend transfers in its own way.
    #[must_use]
    pub fn direct(mut self, direct: Direct) -> Self {
        self.direct = Some(direct);
        self.file = self.file.direct(direct);
        self
    }

    /// Sets the page codec of the file ([`PageHooks`]), which encodes pages on the way to the
    /// backend and decodes them on the way back, for checksums or encryption. Default: that of the
    /// open file, or else none.
    ///
    /// The file is then stored in whole pages: `n` bytes in pages of `P` bytes are stored in
    /// `k = n.div_ceil(P)` pages, and in `n % P` more bytes without a meaning. So it can be read
    /// correctly only with a matching codec, with the same page size, and through a cache. A
    /// backend of 1 to `P - 1` bytes is not such a file, which is
    /// [`Corrupt`](crate::ErrorKind::Corrupt). Nothing in the file records the codec; a file that
    /// was written without one is read as whatever the codec decodes.
    ///
    /// Readers must set the codec too. A file that is open for writing uses memory of the cache for
    /// encoded pages in flight: a 64th of the cache, at most 1 MiB, and at least a page.
    ///
    /// ```
    /// # mod pagewell { pub use pagewell_cache::*;
    /// #     pub mod io { pub use pagewell_io::MemoryBackend; } }
    /// use std::sync::Arc;
    ///
    /// use pagewell::io::MemoryBackend;
    /// use pagewell::{Cache, OpenOptions, OutgoingPage, PageHooks};
    ///
    /// /// Inverts all bits. (A page of ones would be encoded as zeros, which is an error.)
    /// struct Inverted;
    ///
    /// impl PageHooks for Inverted {
    ///     fn before_write(&self, pages: &mut [OutgoingPage<'_>]) -> std::io::Result<()> {
    ///         for page in pages {
    ///             page.bytes_mut().iter_mut().for_each(|byte| *byte = !*byte);
    ///         }
    ///         Ok(())
    ///     }
    ///
    ///     fn after_read(&self, _page: u64, bytes: &mut [u8]) -> std::io::Result<()> {
    ///         bytes.iter_mut().for_each(|byte| *byte = !*byte);
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let storage = Arc::new(MemoryBackend::writable(Vec::new()));
    /// let cache = Cache::builder().capacity(16 << 20).build()?;
    /// let options = OpenOptions::new().write().page_hooks(Arc::new(Inverted));
    /// let file = cache.open_backend_with(Arc::clone(&storage), "inverted", &options)?;
    /// file.append(b"seven b")?;
    /// file.sync_data()?;
    /// let mut stored = Vec::new();
    /// storage.modify(|bytes| stored.clone_from(bytes));
    /// assert_eq!((stored.len(), stored[0]), (4096 + 7, !b's'));
    /// let mut buf = [0; 7];
    /// file.invalidate(0..7);
    /// file.read_at(&mut buf, 0)?;
    /// assert_eq!(&buf, b"seven b");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn page_hooks(mut self, hooks: Arc<dyn PageHooks>) -> Self {
        self.hooks = Some(Hooks(hooks));
        self
    }

    /// Opens the file for writing too. Only one process, with one cache, can have a file open for
    /// writing: another one gets [`Busy`](crate::ErrorKind::Busy). Default: for reading only.
    #[must_use]
    pub fn write(mut self) -> Self {
        self.write.get_or_insert_default();
        self
    }

    /// Opens the file for writing, and creates it if there is none. A new file is durable after the
    /// first sync.
    #[must_use]
    pub fn create(mut self) -> Self {
        self.file = self.file.create();
        self.write()
    }

    /// Opens the file for writing, and creates it; fails if it exists.
    #[must_use]
    pub fn create_new(mut self) -> Self {
        self.file = self.file.create_new();
        self.write()
    }

    /// Sets the permissions of a file that is created, as in `open(2)`: the process's `umask` is
    /// applied. Default: 0666. An existing file keeps its own.
    #[must_use]
    pub fn mode(mut self, bits: u32) -> Self {
        self.file = self.file.mode(bits);
        self
    }

    /// Opens the file for writing, and truncates it.
    #[must_use]
    pub fn truncate(mut self) -> Self {
        self.file = self.file.truncate();
        self.write()
    }

    /// Opens the file for writing, and sets when dirty pages are written. Default: as the open
    /// file, or else [`Writeback::Background`].
    #[must_use]
    pub fn writeback(mut self, mode: Writeback) -> Self {
        self.write.get_or_insert_default().mode = Some(mode);
        self
    }

    /// Opens the file for writing, and sets the writeback callback. The cache calls `hook` before a
    /// page is written to the backend, with the page's number and its highest log sequence number
    /// from [`File::write_at_lsn`](crate::File::write_at_lsn) (0 if it has none). If `hook` returns
    /// an error, the page is not written, and stays dirty.
    ///
    /// The callback runs on a thread that operates on this file (flush, sync, a close; a write at
    /// the quota while the cache is [quiesced](crate::Cache::quiesce); with
    /// [`page_hooks`](Self::page_hooks) also a new size or a write past the end), or on a thread of
    /// the cache. It never runs on a thread that only reads, or that uses another file. So it may
    /// acquire a lock of the program under which the program uses *other* files of the cache, a log
    /// for example: no thread that holds that lock waits for this callback. A callback that blocks
    /// or panics stops this file only.
    ///
    /// The callback is called with the file's writeback lock held. So it cannot flush or sync this
    /// file, change its size, or discard pages of it: these fail with
    /// [`Deadlock`](crate::ErrorKind::Deadlock). It may write to other files, a log for example,
    /// and sync them. Keep a handle of such a file outside of the callback, or close the file: a
    /// file whose only handle is in the callback is dropped when this file is closed.
    ///
    /// Each call of this function makes another callback, even with the same closure. To open a
    /// file twice with one callback, use the same options twice, or
    /// [`before_write_shared`](Self::before_write_shared); or set none the second time.
    #[must_use]
    pub fn before_write(
        self,
        hook: impl Fn(u64, u64) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.before_write_shared(Arc::new(hook))
    }

    /// Sets the writeback callback as [`before_write`](Self::before_write) does, with one that can
    /// be used again.
    #[must_use]
    pub fn before_write_shared(mut self, hook: Arc<BeforeWrite>) -> Self {
        self.write.get_or_insert_default().before_write = Some(hook);
        self
    }
}
