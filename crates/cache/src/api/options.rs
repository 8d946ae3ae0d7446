//! How a file is opened.

use std::sync::Arc;

use pagewell_io::{Direct, FileOptions};

use crate::base::page_hooks::{Hooks, PageHooks};
use crate::dirty::options::{BeforeWrite, WriteOptions, Writeback};

/// How a file is opened.
///
/// A file that is open in the cache already, if only because an area of a memory space keeps it open, stays as it is:
/// what the options do not name is the file's. If they name another page size than the file's, opening fails with
/// [`PageSizeMismatch`](crate::ErrorKind::PageSizeMismatch); if they name another hook, other hooks on bytes, another mode of writeback, or other transfers,
/// with [`OptionsMismatch`](crate::ErrorKind::OptionsMismatch). Nothing has changed then: the file was not emptied.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    pub(super) page_size: Option<usize>,
    pub(super) write: Option<WriteOptions>,
    pub(super) file: FileOptions,
    pub(super) direct: Option<Direct>,
    pub(super) hooks: Option<Hooks>,
}

impl OpenOptions {
    /// For reading, and nothing named.
    pub fn new() -> Self {
        Self::default()
    }

    /// The size of the file's pages: 4, 8, 16, 32 or 64 KiB, in bytes. Default: that of the open file, or else the
    /// cache's.
    #[must_use]
    pub fn page_size(mut self, bytes: usize) -> Self {
        self.page_size = Some(bytes);
        self
    }

    /// Whether the file is read and written past the operating system's cache. Default: as the open file is, or else
    /// [`Direct::Never`].
    ///
    /// A cache that has the memory for what is used often wants it: each page is in memory once. Then a miss is a read of the
    /// device, where the operating system might have had the page; and a write back goes to the device, one that is repeated soon
    /// too. [`File::transfers`](crate::File::transfers) says what has come of it, and why.
    ///
    /// [`Direct::Always`] fails with [`Unavailable`](crate::ErrorKind::Unavailable) where the file system has no direct transfers. If
    /// the file is open in the other way already, opening fails with [`OptionsMismatch`](crate::ErrorKind::OptionsMismatch).
    ///
    /// Of files at paths only: a backend of the program's own transfers as it likes.
    #[must_use]
    pub fn direct(mut self, direct: Direct) -> Self {
        self.direct = Some(direct);
        self.file = self.file.direct(direct);
        self
    }

    /// The hooks on the bytes of the file's pages: what becomes of a page on its way to the storage and back ([`PageHooks`]), for checksums or encryption. Default:
    /// those of the open file, or else none.
    ///
    /// The file is stored in whole pages then: of `n` bytes in pages of `P` bytes it is stored in `k = n.div_ceil(P)` pages, and in `n % P` more bytes that mean
    /// nothing. So it can be read well only with hooks that fit, with the same page size, and through a cache. A storage of 1 to `P - 1` bytes is no such file, which is
    /// [`Corrupt`](crate::ErrorKind::Corrupt). Nothing in the file says that it was written so; a file that was written without hooks is read as
    /// whatever they make of it.
    ///
    /// Readers name the hooks too. A file that is open for writing takes memory of the cache for pages on their way: a 64th of the cache, at most 1 MiB, and at least a page.
    ///
    /// ```
    /// # mod pagewell { pub use pagewell_cache::*; pub mod io { pub use pagewell_io::MemoryBackend; } }
    /// use std::sync::Arc;
    ///
    /// use pagewell::io::MemoryBackend;
    /// use pagewell::{Cache, OpenOptions, OutgoingPage, PageHooks};
    ///
    /// /// Stores each byte with all bits the other way round. (A page of ones would be stored as zeros, which is refused.)
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

    /// Open for writing too. Only one open file of one process can be open for writing: another gets
    /// [`Busy`](crate::ErrorKind::Busy). Default: for reading only.
    #[must_use]
    pub fn write(mut self) -> Self {
        self.write.get_or_insert_default();
        self
    }

    /// Open for writing, and create the file if there is none. A new file is durable after the first sync.
    #[must_use]
    pub fn create(mut self) -> Self {
        self.file = self.file.create();
        self.write()
    }

    /// Open for writing, and create the file; fail if it exists already.
    #[must_use]
    pub fn create_new(mut self) -> Self {
        self.file = self.file.create_new();
        self.write()
    }

    /// The permissions of a file that is created, as `open(2)` has them: those of the process's mask (`umask`) are taken away. Default: 0666. A file that is there
    /// keeps its own.
    #[must_use]
    pub fn mode(mut self, bits: u32) -> Self {
        self.file = self.file.mode(bits);
        self
    }

    /// Open for writing, and empty the file.
    #[must_use]
    pub fn truncate(mut self) -> Self {
        self.file = self.file.truncate();
        self.write()
    }

    /// Open for writing, and write dirty pages then. Default: as the open file has it, or else [`Writeback::Background`].
    #[must_use]
    pub fn writeback(mut self, mode: Writeback) -> Self {
        self.write.get_or_insert_default().mode = Some(mode);
        self
    }

    /// Open for writing, and call `hook` before a page is given to the storage, with the page's number and its highest log sequence
    /// number from [`File::write_at_lsn`](crate::File::write_at_lsn) (0 if it has none). If the hook fails, the page
    /// is not given to the storage, and stays dirty.
    ///
    /// Which thread calls it: one that asks for this very file (flush, sync, a close; with
    /// [`page_hooks`](Self::page_hooks) also a new size or a write past the end), or a thread of the
    /// cache. No reader does, and no thread that uses another file. So the hook may take a
    /// lock of the program's under which the program uses *other* files of the cache, a log for example: nobody who has that lock
    /// waits for this hook. A hook that blocks or panics stops this file alone.
    ///
    /// The hook is called with the file's writeback lock held. So it cannot flush or sync this file, make it longer or shorter,
    /// or discard pages of it: that is an error ([`Deadlock`](crate::ErrorKind::Deadlock)). It may write to other
    /// files, a log for example, and sync them. Keep a handle of such a file outside of the hook, or close the file: a file that
    /// only the hook holds is dropped when this file is closed.
    ///
    /// Each call of this function makes another hook, also with the same closure. To open a file twice with one hook, use the same
    /// options twice, or [`before_write_shared`](Self::before_write_shared); or name none the second time.
    #[must_use]
    pub fn before_write(
        self,
        hook: impl Fn(u64, u64) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.before_write_shared(Arc::new(hook))
    }

    /// As [`before_write`](Self::before_write), with a hook that can be named again.
    #[must_use]
    pub fn before_write_shared(mut self, hook: Arc<BeforeWrite>) -> Self {
        self.write.get_or_insert_default().before_write = Some(hook);
        self
    }
}
