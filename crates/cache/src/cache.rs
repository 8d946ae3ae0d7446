//! The cache: how it is set up, and how files are opened.

use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagewell_frame::refcount::{LockBit, RefScheme};
use pagewell_frame::{
    FRAME_BYTES, FrameMeta, FramePool, HugePages, MAX_FRAMES, Nodes, PoolConfig, PoolError,
};
use pagewell_io::{Backend, FileBackend, FileId, FileOptions, UnlockedFile};

use crate::error::{Error, ErrorKind, Op};
use crate::file::File;
use crate::mapping::Mapping;
use crate::opened::Opened;
use crate::page_size::PageSize;
use crate::shared::{Event, Opening, Origin, Shared};
use crate::writes::{Access, Handle, WriteOptions, Writeback};

/// The smallest cache, in frames: below this a handful of threads could hold all of it at once.
const MIN_FRAMES: u64 = 16;

/// What one frame costs: its bytes and its record.
const fn frame_cost<S: RefScheme>() -> u64 {
    (FRAME_BYTES + size_of::<FrameMeta<S>>()) as u64
}

/// How a cache is set up.
#[derive(Clone, Debug)]
pub struct Builder<S: RefScheme = LockBit> {
    capacity: u64,
    page_size: usize,
    huge_pages: HugePages,
    nodes: Nodes,
    scheme: PhantomData<fn() -> S>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            capacity: 64 << 20,
            page_size: PageSize::SMALLEST.bytes(),
            huge_pages: HugePages::default(),
            nodes: Nodes::default(),
            scheme: PhantomData,
        }
    }
}

impl<S: RefScheme> Builder<S> {
    /// How much memory the cache may use, in bytes: pages, index and records together. Default: 64 MiB.
    /// At least 16 frames (65 KiB), at most the memory of the machine.
    ///
    /// What is not counted: a few hundred bytes for each handle, and the stacks of the threads.
    #[must_use]
    pub fn capacity(mut self, bytes: u64) -> Self {
        self.capacity = bytes;
        self
    }

    /// The page size of files that are opened without saying: 4, 8, 16, 32 or 64 KiB, in bytes.
    /// Default: 4 KiB.
    #[must_use]
    pub fn page_size(mut self, bytes: usize) -> Self {
        self.page_size = bytes;
        self
    }

    /// Whether the memory is to be made of huge pages. Default: [`HugePages::System`].
    #[must_use]
    pub fn huge_pages(mut self, huge_pages: HugePages) -> Self {
        self.huge_pages = huge_pages;
        self
    }

    /// Over which memory nodes the cache is spread. Default: [`Nodes::Machine`].
    #[must_use]
    pub fn nodes(mut self, nodes: Nodes) -> Self {
        self.nodes = nodes;
        self
    }

    /// How pages are counted: [`LockBit`], or the baseline
    /// [`CasLoop`](pagewell_frame::refcount::CasLoop) to compare it with. Default: [`LockBit`].
    #[must_use]
    pub fn ref_scheme<T: RefScheme>(self) -> Builder<T> {
        Builder {
            capacity: self.capacity,
            page_size: self.page_size,
            huge_pages: self.huge_pages,
            nodes: self.nodes,
            scheme: PhantomData,
        }
    }

    /// Makes the cache. Its memory is reserved now and used as pages are read.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) or [`InvalidPageSize`](ErrorKind::InvalidPageSize)
    /// when a setting is out of its range, [`OutOfMemory`](ErrorKind::OutOfMemory) when the system
    /// refuses the memory.
    pub fn build(self) -> Result<Cache<S>, Error> {
        let invalid =
            |detail: String| Error::new(ErrorKind::InvalidConfig, Op::Build).with_detail(detail);
        let page_size = page_size(self.page_size, Op::Build)?;
        let nr_frames = self.capacity / frame_cost::<S>();
        if nr_frames < MIN_FRAMES {
            return Err(invalid(format!(
                "a capacity of {} bytes; must be at least {}",
                self.capacity,
                MIN_FRAMES * frame_cost::<S>()
            )));
        }
        let machine = machine_memory();
        if self.capacity > machine || nr_frames > MAX_FRAMES as u64 {
            return Err(invalid(format!(
                "a capacity of {} bytes; must be at most {}",
                self.capacity,
                machine.min(MAX_FRAMES as u64 * frame_cost::<S>())
            )));
        }
        let pool = FramePool::new(&PoolConfig {
            nr_frames: nr_frames as usize,
            huge_pages: self.huge_pages,
            nodes: self.nodes,
            ..PoolConfig::new(nr_frames as usize)
        })
        .map_err(|error| {
            let kind = match error {
                PoolError::Memory { .. } => ErrorKind::OutOfMemory,
                _ => ErrorKind::InvalidConfig,
            };
            Error::new(kind, Op::Build)
                .with_detail(error.to_string())
                .with_source(error)
        })?;
        Ok(Cache {
            shared: Arc::new(Shared::new(pool)),
            page_size,
        })
    }
}

/// The memory of the machine in bytes; as much as can be when the system does not say.
fn machine_memory() -> u64 {
    crate::raw::machine_memory().unwrap_or(u64::MAX)
}

fn page_size(bytes: usize, op: Op) -> Result<PageSize, Error> {
    PageSize::new(bytes).ok_or_else(|| {
        Error::new(ErrorKind::InvalidPageSize, op).with_detail(format!("{bytes} bytes"))
    })
}

/// What the file at `path` is, if there is one.
fn id_of(path: &Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).ok()?;
    Some(FileId {
        device: metadata.dev(),
        inode: metadata.ino(),
    })
}

/// A page cache: a fixed amount of memory that holds pages of any number of files.
///
/// Handles are cheap to clone. The cache lives as long as any handle of it or of its files.
pub struct Cache<S: RefScheme = LockBit> {
    shared: Arc<Shared<S>>,
    page_size: PageSize,
}

/// How a file is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    page_size: Option<usize>,
    write: Option<WriteOptions>,
    file: FileOptions,
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
    /// [`Busy`](ErrorKind::Busy). Default: for reading only.
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

    /// Calls `hook` before a page is given to the storage, with the page's number and the highest log sequence
    /// number that [`File::write_at_lsn`] was given for it (0 if it was given none). If it fails, the page is not
    /// given to the storage, and stays dirty.
    ///
    /// It is called with the file's writeback lock held, so it cannot flush or sync this file, make it longer or shorter,
    /// discard pages of it, or make a barrier: that is an error ([`Deadlock`](ErrorKind::Deadlock)). It may write to others, and
    /// sync them: a log, say. Keep a handle of that file elsewhere too, or close it: one that only the hook has goes when
    /// this file is closed, and a pin that owns a share of it may be the last to do that.
    #[must_use]
    pub fn before_write(
        mut self,
        hook: impl Fn(u64, u64) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.write.get_or_insert_default().before_write = Some(Arc::new(hook));
        self
    }
}

/// What the cache has done so far, and what it holds. Hits are not counted: a hit writes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// How many frames the cache has.
    pub nr_frames: usize,
    /// How many of them are free; 0 in a child made by `fork`, which cannot look. Those of a file are free when its last
    /// handle has been dropped.
    pub nr_free: usize,
    /// How many pages were read from files.
    pub nr_fills: u64,
    /// How many reads from files have failed.
    pub nr_failed_fills: u64,
    /// How many pages were evicted to make room.
    pub nr_evictions: u64,
}

impl Cache {
    /// How a cache is set up: capacity, page size, huge pages, nodes.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl<S: RefScheme> Cache<S> {
    pub(crate) fn shared(&self) -> &Arc<Shared<S>> {
        &self.shared
    }

    /// Opens the file at `path` for reading, with the cache's page size.
    ///
    /// A file that is open already, under whatever name, shares its pages with that; the size is
    /// then taken from the file anew ([`File::refresh`]).
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound), [`PermissionDenied`](ErrorKind::PermissionDenied),
    /// [`NotAFile`](ErrorKind::NotAFile) and [`Io`](ErrorKind::Io) as the system says,
    /// [`PageSizeMismatch`](ErrorKind::PageSizeMismatch) when the file is open with another page size,
    /// [`FileTooLarge`](ErrorKind::FileTooLarge) beyond
    /// [`MAX_FILE_BYTES`](crate::MAX_FILE_BYTES).
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File<S>, Error> {
        self.open_with(path, &OpenOptions::new())
    }

    /// As [`open`](Self::open), with options.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and [`InvalidPageSize`](ErrorKind::InvalidPageSize).
    pub fn open_with(
        &self,
        path: impl AsRef<Path>,
        options: &OpenOptions,
    ) -> Result<File<S>, Error> {
        let path = path.as_ref();
        self.shared
            .check_home(Op::Open)
            .map_err(|error| error.with_path(path))?;
        // Before the file is made, or emptied.
        self.page_size_of(options, path)?;
        let failed = |error| Error::from_io(Op::Open, error).with_path(path);
        if options.write.is_none() {
            let backend = FileBackend::open(path).map_err(failed)?;
            return self.open_backend_with(backend, path, options);
        }
        for _ in 0..UnlockedFile::MOST_TRIES {
            // Before the system opens it: what a first open was allowed to do, later ones need not be.
            if let Some(open) = self.open_already(path) {
                return self.open_again(open, path, options);
            }
            let unlocked = FileBackend::open_unlocked(path, &options.file).map_err(failed)?;
            let id = unlocked.id();
            // With two descriptors of it in hand, if it waits.
            let begun = match self.shared.begin_to_open(id) {
                // It is new, and ours, though another thread came first that opens it as it is.
                Opening::Already(open) if options.file.requires_new() => {
                    return self.handle(open, path, options);
                }
                Opening::Already(open) => return self.open_again(open, path, options),
                Opening::Begun(begun) => begun,
            };
            match unlocked.lock() {
                Ok(Some(backend)) => {
                    let registered = self.register(backend, path, options)?;
                    drop(begun);
                    return self.file_of(registered, path, options);
                }
                // Another file is in its place.
                Ok(None) => {}
                // Somebody has locked it who brings a backend, and has registered it now.
                Err(error)
                    if error.kind() == std::io::ErrorKind::ResourceBusy
                        && self.shared.is_registered(id) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(Error::new(ErrorKind::Busy, Op::Open)
            .with_path(path)
            .with_detail("it is replaced, or locked, again and again while it is being opened"))
    }

    /// Opens what a backend of the caller's holds; `path` is its name in errors. When the backend is dropped it must not wait
    /// for who opens the same file, nor open it in this cache.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_backend(
        &self,
        backend: impl Backend,
        path: impl Into<PathBuf>,
    ) -> Result<File<S>, Error> {
        self.open_backend_with(backend, path, &OpenOptions::new())
    }

    /// As [`open_backend`](Self::open_backend), with options.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and [`InvalidPageSize`](ErrorKind::InvalidPageSize).
    pub fn open_backend_with(
        &self,
        backend: impl Backend,
        path: impl Into<PathBuf>,
        options: &OpenOptions,
    ) -> Result<File<S>, Error> {
        let path = path.into();
        self.shared
            .check_home(Op::Open)
            .map_err(|error| error.with_path(&path))?;
        if options.write.is_some() && !backend.is_writable() {
            return Err(Error::new(ErrorKind::ReadOnly, Op::Open).with_path(&path));
        }
        let registered = self.register(backend, &path, options)?;
        self.file_of(registered, &path, options)
    }

    /// The mapping of what a backend holds, and whether it was open already.
    fn register(
        &self,
        backend: impl Backend,
        path: &Path,
        options: &OpenOptions,
    ) -> Result<(Opened<S>, Origin), Error> {
        let page_size = self.page_size_of(options, path)?;
        let id = backend.id();
        self.shared.mapping_or_else(id, |number| {
            let access = match &options.write {
                None => Access::Read,
                Some(options) => Access::Write(options.clone()),
            };
            Mapping::new(
                Arc::clone(&self.shared),
                Box::new(backend),
                path.to_owned(),
                page_size,
                (id, number),
                access,
            )
        })
    }

    /// A handle of a mapping that has been registered.
    fn file_of(
        &self,
        (mapping, origin): (Opened<S>, Origin),
        path: &Path,
        options: &OpenOptions,
    ) -> Result<File<S>, Error> {
        let file = self.handle(mapping.clone(), path, options)?;
        if origin == Origin::Open {
            mapping.refresh(Op::Open)?;
        } else if crate::writeback::is_background(&mapping) {
            crate::writeback::start(&self.shared)
                .map_err(|error| Error::from_io(Op::Open, error).with_path(path))?;
        }
        Ok(file)
    }

    fn page_size_of(&self, options: &OpenOptions, path: &Path) -> Result<PageSize, Error> {
        match options.page_size {
            Some(bytes) => page_size(bytes, Op::Open).map_err(|error| error.with_path(path)),
            None => Ok(self.page_size),
        }
    }

    /// The mapping of the file at `path`, if this cache has it open.
    fn open_already(&self, path: &Path) -> Option<Opened<S>> {
        self.shared.mapping_of(id_of(path)?)
    }

    /// A handle for writing of a file that is open already, which is treated as `options` say.
    fn open_again(
        &self,
        mapping: Opened<S>,
        path: &Path,
        options: &OpenOptions,
    ) -> Result<File<S>, Error> {
        if options.file.requires_new() {
            let exists = std::io::ErrorKind::AlreadyExists.into();
            return Err(Error::from_io(Op::Open, exists).with_path(path));
        }
        let file = self.handle(mapping, path, options)?;
        if options.file.truncates() {
            file.set_len(0).map_err(|error| error.with_op(Op::Open))?;
        }
        Ok(file)
    }

    /// A handle of an open mapping, if it is as `options` want it.
    fn handle(
        &self,
        mapping: Opened<S>,
        path: &Path,
        options: &OpenOptions,
    ) -> Result<File<S>, Error> {
        let page_size = self.page_size_of(options, path)?;
        if mapping.page_size() != page_size.bytes() {
            return Err(Error::new(ErrorKind::PageSizeMismatch, Op::Open)
                .with_path(path)
                .with_detail(format!(
                    "{} bytes, not {}",
                    mapping.page_size(),
                    page_size.bytes()
                )));
        }
        if options.write.is_some() && mapping.writes_if_any().is_none() {
            return Err(Error::new(ErrorKind::Busy, Op::Open)
                .with_path(path)
                .with_detail("this cache has it open for reading only"));
        }
        let access = match options.write {
            Some(_) => Handle::Write,
            None => Handle::Read,
        };
        Ok(File::new(mapping, access))
    }

    /// Evicts up to `nr_pages` pages that nobody has pinned; returns how many. The ones that were not
    /// read lately go first.
    pub fn reclaim(&self, nr_pages: usize) -> usize {
        if !self.shared.is_home() {
            return 0;
        }
        self.shared.evict_pages(nr_pages)
    }

    /// What the cache has done so far, and what it holds.
    pub fn stats(&self) -> Stats {
        let nr_free = if self.shared.is_home() {
            self.shared.pool.stats().nr_available()
        } else {
            0
        };
        let counters = &self.shared.counters;
        Stats {
            nr_frames: self.shared.pool.nr_frames(),
            nr_free,
            nr_fills: counters.get(Event::Fill),
            nr_failed_fills: counters.get(Event::FailedFill),
            nr_evictions: counters.get(Event::Eviction),
        }
    }

    /// How many memory nodes the cache is spread over.
    pub fn nr_nodes(&self) -> usize {
        self.shared.pool.nr_nodes()
    }

    /// Checks the cache's frames, lists and counts; for tests. Nobody may be using the cache meanwhile: no thread of the
    /// program, and if a file is open that is written back in the background, not the cache's own
    /// ([`quiesce`](Self::quiesce)).
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong.
    pub fn verify(&self) -> Result<(), String> {
        self.shared
            .check_home(Op::Build)
            .map_err(|error| error.to_string())?;
        self.shared.pool.verify()
    }
}

impl<S: RefScheme> Clone for Cache<S> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            page_size: self.page_size,
        }
    }
}

impl<S: RefScheme> fmt::Debug for Cache<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("scheme", &S::NAME)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
