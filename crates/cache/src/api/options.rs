use std::sync::Arc;

use pagewell_io::{Direct, FileLock, FileOptions};

use crate::base::page_hooks::{Hooks, PageHooks};
use crate::dirty::writes::{BeforeWrite, WriteOptions, Writeback};

/// Options for opening a file.
///
/// If the file is already open in the cache, even if only by an area of a memory space, options
/// that are not set have the open file's values. If another page size is set, opening fails with
/// [`PageSizeMismatch`](crate::ErrorKind::PageSizeMismatch); for another writeback callback, page
/// codec, writeback mode or transfers, or if a lock is required and the open file has none, with
/// [`OptionsMismatch`](crate::ErrorKind::OptionsMismatch). Then nothing has changed; in particular,
/// the file was not truncated.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    pub(super) page_size: Option<usize>,
    pub(super) write: Option<WriteOptions>,
    pub(super) file: FileOptions,
    pub(super) direct: Option<Direct>,
    pub(super) lock: Option<FileLock>,
    pub(super) is_exclusive: bool,
    pub(super) hooks: Option<Hooks>,
}

impl OpenOptions {
    /// Creates options for reading, in which no option is set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the page size in bytes (4, 8, 16, 32 or 64 KiB). Default: the open file's or cache's.
    #[must_use]
    pub fn page_size(mut self, bytes: usize) -> Self {
        self.page_size = Some(bytes);
        self
    }

    /// Sets whether transfers bypass the kernel's page cache. Default: the mode of the open file,
    /// or else [`Direct::Never`].
    ///
    /// A cache with enough memory for the frequently used pages often benefits, since each page is
    /// then in memory only once. On the other hand, each miss and each writeback, even if it is
    /// soon repeated, accesses the device. [`File::transfers`](crate::File::transfers) returns the
    /// actual mode and the reason for it.
    ///
    /// The open fails with [`Unavailable`](crate::ErrorKind::Unavailable) for [`Direct::Always`] if
    /// the file system has no direct transfers, and with
    /// [`OptionsMismatch`](crate::ErrorKind::OptionsMismatch) for another mode than the open
    /// file's. A program's backend ignores the mode.
    #[must_use]
    pub fn direct(mut self, direct: Direct) -> Self {
        self.direct = Some(direct);
        self.file = self.file.direct(direct);
        self
    }

    /// Sets the page codec of the file ([`PageHooks`]), which encodes stored pages, for checksums
    /// or encryption. Default: the codec of the open file, or else none.
    ///
    /// The file is then stored in whole pages: `n` bytes in pages of `P` bytes are stored as
    /// `n.div_ceil(P)` pages, followed by `n % P` bytes without a meaning. It can be read correctly
    /// only with a matching codec, the same page size, and a cache. A backend with 1 to `P - 1`
    /// bytes is no such file: an open without truncation fails with
    /// [`Corrupt`](crate::ErrorKind::Corrupt). The file does not record the codec: if it was
    /// written without one, the codec decodes raw bytes.
    ///
    /// Opens for reading need the codec too. A file open for writing uses a 64th of the cache, at
    /// most 1 MiB and at least a page, for encoded pages in flight.
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

    /// Opens the file for writing too. With a lock, only one cache of one process can do so; others
    /// get [`Busy`](crate::ErrorKind::Busy) ([`lock`](Self::lock)). Within the cache, any number of
    /// handles may write ([`exclusive`](Self::exclusive)). Default: reading only.
    #[must_use]
    pub fn write(mut self) -> Self {
        self.write.get_or_insert_default();
        self
    }

    /// Opens the file for writing, and sets how the writers of other caches and processes are
    /// excluded. Default: as the open file, or else [`FileLock::Exclusive`].
    ///
    /// [`FileLock::Within`] waits only for others: if this cache has the file open for reading
    /// only, the open fails at once.
    #[must_use]
    pub fn lock(mut self, lock: FileLock) -> Self {
        self.lock = Some(lock);
        self.file = self.file.lock(lock);
        self.write()
    }

    /// Sets whether the handle, with its clones and the areas that map the file through it, is the
    /// only one of the cache that may write to the file. If so, the file is opened for writing, and
    /// the open fails with [`Busy`](crate::ErrorKind::Busy) if the cache has another handle or area
    /// for writing. Until the new handle, its clones and its areas are dropped, other opens for
    /// writing fail likewise. A handle whose drop is making the file durable excludes no open: the
    /// new handle sees its writes, and may report their writeback error. Default: `false`.
    #[must_use]
    pub fn exclusive(mut self, is_exclusive: bool) -> Self {
        self.is_exclusive = is_exclusive;
        match is_exclusive {
            true => self.write(),
            false => self,
        }
    }

    /// Creates the file if it does not exist, and opens it for writing. A new file is durable after
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

    /// Sets the permissions of a created file, less the `umask`, as in `open(2)`. Default: 0666.
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
    /// The callback runs on a thread of the cache, or on one that flushes, syncs or closes this
    /// file, or writes to it at its quota while the cache is [quiesced](crate::Cache::quiesce);
    /// with [`page_hooks`](Self::page_hooks) also one that changes its size or writes past its end.
    /// It never runs on a thread that only reads, or uses another file. So it may acquire a lock of
    /// the program under which the program uses *other* files of the cache, such as a log. A
    /// callback that blocks or panics stops this file only.
    ///
    /// The callback runs with the file's writeback lock held: a flush, a sync, a discard or a
    /// change of size of this file fails with [`Deadlock`](crate::ErrorKind::Deadlock). It may
    /// write and sync other files, such as a log. Keep a handle of such a file outside of the
    /// callback: one that only the callback owns is dropped when this file is closed.
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

    /// As [`before_write`](Self::before_write), with a callback that options can share.
    #[must_use]
    pub fn before_write_shared(mut self, hook: Arc<BeforeWrite>) -> Self {
        self.write.get_or_insert_default().before_write = Some(hook);
        self
    }
}
