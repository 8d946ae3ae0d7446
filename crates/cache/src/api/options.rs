//! Options for opening a file.

use std::sync::Arc;

use pagewell_io::{Direct, FileOptions};

use crate::base::page_hooks::{Hooks, PageHooks};
use crate::dirty::options::{BeforeWrite, WriteOptions, Writeback};

/// Options for opening a file.
///
/// If the file is already open in the cache, even if only an area of a memory space keeps it open,
/// its options do not change, and options that are not set have the file's values. If the page size
/// differs from the file's, opening fails with
/// [`PageSizeMismatch`](crate::ErrorKind::PageSizeMismatch). If the writeback callback, the page
/// codec, the writeback mode or the transfers differ, it fails with
/// [`OptionsMismatch`](crate::ErrorKind::OptionsMismatch). After such a failure nothing has
/// changed; in particular the file was not truncated.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    pub(super) page_size: Option<usize>,
    pub(super) write: Option<WriteOptions>,
    pub(super) file: FileOptions,
    pub(super) direct: Option<Direct>,
    pub(super) hooks: Option<Hooks>,
}

impl OpenOptions {
    /// Creates options for reading, in which no option is set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the size of the file's pages: 4, 8, 16, 32 or 64 KiB, in bytes. Default: the page size
    /// of the open file, or else that of the cache.
    #[must_use]
    pub fn page_size(mut self, bytes: usize) -> Self {
        self.page_size = Some(bytes);
        self
    }

    /// Sets whether transfers bypass the kernel's page cache. Default: the mode of the open file,
    /// or else [`Direct::Never`].
    ///
    /// A cache with enough memory for the frequently used pages often benefits, since each page is
    /// then in memory only once. On the other hand, each miss reads from the device, even if the
    /// kernel's page cache would have had the page, and each writeback writes to the device, even
    /// if it is soon repeated. [`File::transfers`](crate::File::transfers) returns the actual mode
    /// and the reason for it.
    ///
    /// [`Direct::Always`] fails with [`Unavailable`](crate::ErrorKind::Unavailable) if the file
    /// system has no direct transfers. If the file is already open in the other mode, opening fails
    /// with [`OptionsMismatch`](crate::ErrorKind::OptionsMismatch).
    ///
    /// This option applies only to files opened by path. A program's backend determines its own
    /// transfers.
    #[must_use]
    pub fn direct(mut self, direct: Direct) -> Self {
        self.direct = Some(direct);
        self.file = self.file.direct(direct);
        self
    }

    /// Sets the page codec of the file ([`PageHooks`]), which encodes pages on the way to the
    /// backend and decodes them on the way back, for checksums or encryption. Default: the codec of
    /// the open file, or else none.
    ///
    /// The file is then stored in whole pages: `n` bytes in pages of `P` bytes are stored as
    /// `n.div_ceil(P)` pages, followed by `n % P` bytes without a meaning. So the file can be read
    /// correctly only with a matching codec, with the same page size, and through a cache. If a
    /// backend has 1 to `P - 1` bytes, it is not such a file, and opening fails with
    /// [`Corrupt`](crate::ErrorKind::Corrupt). The file does not record the codec. If it was
    /// written without a codec, the codec is given the raw bytes to decode, and may return wrong
    /// bytes.
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
    /// writing; another process or cache gets [`Busy`](crate::ErrorKind::Busy). Default: the file
    /// is opened for reading only.
    #[must_use]
    pub fn write(mut self) -> Self {
        self.write.get_or_insert_default();
        self
    }

    /// Opens the file for writing, and creates it if it does not exist. A new file is durable after
    /// the first sync.
    #[must_use]
    pub fn create(mut self) -> Self {
        self.file = self.file.create();
        self.write()
    }

    /// Creates the file, and opens it for writing. Fails if the file exists.
    #[must_use]
    pub fn create_new(mut self) -> Self {
        self.file = self.file.create_new();
        self.write()
    }

    /// Sets the permissions of a file that is created, as in `open(2)`: the process's `umask` is
    /// applied. Default: 0666. An existing file keeps its permissions.
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

    /// Opens the file for writing, and sets when dirty pages are written. Default: the mode of the
    /// open file, or else [`Writeback::Background`].
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
    /// The callback runs on a thread of the cache, or on a thread that operates on this file: one
    /// that flushes, syncs or closes it, or writes to it at its quota while the cache is
    /// [quiesced](crate::Cache::quiesce); with [`page_hooks`](Self::page_hooks) also one that
    /// changes its size or writes past its end. It never runs on a thread that only reads, or that
    /// uses another file. So the callback may acquire a lock of the program under which the program
    /// uses *other* files of the cache, such as a log: no thread that holds that lock waits for
    /// this callback. A callback that blocks or panics stops this file only.
    ///
    /// The callback is called with the file's writeback lock held. So the callback cannot flush or
    /// sync this file, change its size, or discard pages of it: these calls fail with
    /// [`Deadlock`](crate::ErrorKind::Deadlock). It may write to other files, such as a log, and
    /// sync them. Keep a handle of such a file outside of the callback, or close the file: if the
    /// only handle is in the callback, it is dropped when this file is closed.
    ///
    /// Each call of this function creates a different callback, even with the same closure. To open
    /// a file twice with one callback, use the same options twice, use
    /// [`before_write_shared`](Self::before_write_shared), or set no callback the second time.
    #[must_use]
    pub fn before_write(
        self,
        hook: impl Fn(u64, u64) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.before_write_shared(Arc::new(hook))
    }

    /// Sets the writeback callback as [`before_write`](Self::before_write) does, but takes a
    /// callback that can be shared between options.
    #[must_use]
    pub fn before_write_shared(mut self, hook: Arc<BeforeWrite>) -> Self {
        self.write.get_or_insert_default().before_write = Some(hook);
        self
    }
}
