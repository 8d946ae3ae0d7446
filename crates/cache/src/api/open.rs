//! Opening of files.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagewell_io::{
    Backend, Buffered, Direct, FileBackend, FileLock, LockWait, Transfers, UnlockedFile, identity,
};

use crate::api::cache::Cache;
use crate::api::file::File;
use crate::api::options::OpenOptions;
use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page::PageSize;
use crate::dirty::writes::Access;
use crate::files::clean::is_background;
use crate::files::opened::{Admitted, Opened};
use crate::files::registry::Origin;
use crate::files::same;
use crate::mapping::record::How;
use crate::mapping::remove::refresh;
use crate::write::growth::Grower;

enum Candidate {
    Open(Opened),
    Unlocked(Box<UnlockedFile>),
}

fn is_met(asked: Direct, transfers: Transfers) -> bool {
    match (asked, transfers) {
        (Direct::Always, Transfers::Buffered(_))
        | (Direct::Auto, Transfers::Buffered(Buffered::NotAsked))
        | (Direct::Never, Transfers::Direct { .. }) => false,
        // Buffered transfers satisfy `Never`, and `Auto` if direct ones were requested.
        _ => true,
    }
}

impl Cache {
    /// Opens the file at `path` for reading, with the cache's page size.
    ///
    /// If the file is already open, under whatever name, the new handle shares its pages and page
    /// size, and the size is read again ([`File::refresh`]).
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound), [`PermissionDenied`](ErrorKind::PermissionDenied),
    /// [`InvalidPath`](ErrorKind::InvalidPath), [`NotAFile`](ErrorKind::NotAFile),
    /// [`LimitReached`](ErrorKind::LimitReached) and [`Io`](ErrorKind::Io) for errors of the
    /// system, [`AmbiguousFile`](ErrorKind::AmbiguousFile) if another open file has the same device
    /// and inode number, [`FileTooLarge`](ErrorKind::FileTooLarge) beyond
    /// [`MAX_FILE_BYTES`](crate::MAX_FILE_BYTES).
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File, Error> {
        self.open_with(path, &OpenOptions::new())
    }

    /// Opens the file at `path` as [`open`](Self::open) does, with options.
    ///
    /// # Errors
    ///
    /// - Those of [`open`](Self::open), and [`InvalidPageSize`](ErrorKind::InvalidPageSize).
    /// - [`AlreadyExists`](ErrorKind::AlreadyExists) for `create_new`.
    /// - [`Unavailable`](ErrorKind::Unavailable) if the file system supports no open file
    ///   description locks, or no direct transfers and the options require them.
    /// - [`PageSizeMismatch`](ErrorKind::PageSizeMismatch) and
    ///   [`OptionsMismatch`](ErrorKind::OptionsMismatch) if the file is already open and an option
    ///   that is set differs from that of the open file.
    /// - [`Busy`](ErrorKind::Busy), for writing, if another process, cache or exclusive handle
    ///   writes, or this cache has the file open for reading only.
    pub fn open_with(&self, path: impl AsRef<Path>, options: &OpenOptions) -> Result<File, Error> {
        let path = path.as_ref();
        self.check_open(path, options)?;
        let failed = |error| Error::of_open(error, path);
        if options.write.is_none() {
            let direct = options.direct.unwrap_or_default();
            let backend = FileBackend::open_for_reading(path, direct).map_err(failed)?;
            return self.open_backend_with(backend, path, options);
        }
        self.open_writable(path, options, || {
            // Check for an open file first: the system may refuse a second open.
            if let Some(open) = self.open_already(path)? {
                return Ok(Candidate::Open(open));
            }
            let unlocked = FileBackend::open_unlocked(path, &options.file);
            unlocked
                .map(|unlocked| Candidate::Unlocked(Box::new(unlocked)))
                .map_err(failed)
        })
    }

    /// Opens a file that the program has opened, as [`open_with`](Self::open_with) does. `name` is
    /// its path in errors. The file may have no name, such as an unlinked file or a memfd.
    ///
    /// Options to create the file are ignored. The program must sync the directory of a new file.
    /// Duplicates of the descriptor have the lock too, and their mode of transfers (`O_DIRECT`)
    /// becomes that of the options. The program must not change the file through them. If the cache
    /// has the file open, `file` is closed, and its flags and locks stay as they are.
    ///
    /// ```
    /// # mod pagewell { pub use pagewell_cache::*; }
    /// use pagewell::{Cache, OpenOptions};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = std::env::temp_dir().join(format!("pagewell-doc-std-{}", std::process::id()));
    /// let std_file = std::fs::File::options()
    ///     .read(true)
    ///     .write(true)
    ///     .create_new(true)
    ///     .open(&path)?;
    /// std::fs::remove_file(&path)?; // for temporary data
    /// let cache = Cache::builder().capacity(16 << 20).build()?;
    /// let file = cache.open_std(std_file, "temporary", &OpenOptions::new().write())?;
    /// file.write_all_at(b"anything", 0)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// - Those of [`open_with`](Self::open_with).
    /// - [`PermissionDenied`](ErrorKind::PermissionDenied) if the descriptor is not open for
    ///   reading. With options for writing, also if it is not open for writing, or if the file is
    ///   sealed against writes or growth.
    /// - [`Unavailable`](ErrorKind::Unavailable) if the options are for writing and the descriptor
    ///   was opened for appending (`O_APPEND`).
    pub fn open_std(
        &self,
        file: std::fs::File,
        name: impl Into<PathBuf>,
        options: &OpenOptions,
    ) -> Result<File, Error> {
        let name = name.into();
        self.check_open(&name, options)?;
        let failed = |error| Error::of_open(error, &name);
        if options.write.is_none() {
            let id = FileBackend::check_readable(&file).map_err(failed)?;
            // The flags of a descriptor that the open file may share stay as they are.
            if let Some(open) = Opened::of_open(&self.files, id) {
                same::check(&open, file.as_fd()).map_err(|error| error.with_path(&name))?;
                return self.handle((open, Origin::Open), &name, options, false);
            }
            let direct = options.direct.unwrap_or_default();
            let backend = FileBackend::from_file_for_reading(file, direct).map_err(failed)?;
            return self.open_backend_with(backend, name, options);
        }
        let options = OpenOptions {
            file: options.file.existing(),
            ..options.clone()
        };
        let mut unlocked = Some(UnlockedFile::from_file(file, &options.file).map_err(failed)?);
        self.open_writable(&name, &options, || match unlocked.take() {
            Some(unlocked) => Ok(Candidate::Unlocked(Box::new(unlocked))),
            // Unreachable: a file without a name is never replaced.
            None => Err(Error::new(ErrorKind::Busy, Op::Open)),
        })
    }

    fn check_open(&self, path: &Path, options: &OpenOptions) -> Result<(), Error> {
        self.files
            .shared
            .home
            .check(Op::Open)
            .map_err(|error| error.with_path(path))?;
        self.page_size_of(options, path).map(drop)
    }

    /// Opens the file of the first candidate that can be locked (perhaps after a wait) or is open.
    fn open_writable(
        &self,
        path: &Path,
        options: &OpenOptions,
        mut next: impl FnMut() -> Result<Candidate, Error>,
    ) -> Result<File, Error> {
        let failed = |error| Error::of_open(error, path);
        let mut wait = LockWait::new(options.file.file_lock());
        let (mut kept, mut nr_tries) = (None, 0);
        while nr_tries < UnlockedFile::MOST_TRIES {
            nr_tries += 1;
            let unlocked = match kept.take() {
                Some(unlocked) => unlocked,
                None => match next().map_err(|error| error.with_path(path))? {
                    Candidate::Open(open) => return self.open_again(open, path, options),
                    Candidate::Unlocked(unlocked) => *unlocked,
                },
            };
            let id = unlocked.id();
            // While this thread waits for another one, both have a descriptor of the file.
            let begun = match Opened::begin_to_open(&self.files, id) {
                Ok(begun) => begun,
                Err(open) => {
                    same::check(&open, unlocked.as_fd()).map_err(|error| error.with_path(path))?;
                    if options.file.requires_new() {
                        // This call created the file, but another thread registered it first.
                        return self.handle((open, Origin::Open), path, options, false);
                    }
                    return self.open_again(open, path, options);
                }
            };
            match unlocked.lock_or_keep() {
                Ok(Some(backend)) => {
                    // A created file is empty. Once registered, other threads may write to it.
                    let truncates = options.file.truncates() && !options.file.requires_new();
                    let registered = self.register(backend, path, options, truncates)?;
                    drop(begun);
                    return self.handle(registered, path, options, truncates);
                }
                // Another file has replaced the file at the path.
                Ok(None) => {}
                Err((unlocked, error)) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                    // A thread that opened the file by its own backend may have locked and
                    // registered it: the next attempt finds it.
                    let is_open_here = self.files.registry.is_registered(id);
                    // Other threads may open the file during the wait.
                    drop(begun);
                    if !is_open_here {
                        if unlocked.is_replaced() {
                            continue;
                        }
                        if !wait.sleep() {
                            let error = failed(error);
                            return Err(match wait.describe() {
                                Some(waited) => error.with_detail(waited),
                                None => error,
                            });
                        }
                        nr_tries -= 1;
                    }
                    kept = Some(unlocked);
                }
                Err((_, error)) => return Err(failed(error)),
            }
        }
        Err(Error::new(ErrorKind::Busy, Op::Open)
            .with_path(path)
            .with_detail("the file was replaced or locked by others during each attempt"))
    }

    /// Opens the file of a caller's backend. `path` is its name in errors. The drop of the backend
    /// must neither wait for a thread that opens the same file, nor open the file in this cache.
    ///
    /// # Errors
    ///
    /// See [`open`](Self::open).
    pub fn open_backend(
        &self,
        backend: impl Backend,
        path: impl Into<PathBuf>,
    ) -> Result<File, Error> {
        self.open_backend_with(backend, path, &OpenOptions::new())
    }

    /// Opens as [`open_backend`](Self::open_backend) does, with options. Those to create or
    /// truncate the file are ignored.
    ///
    /// # Errors
    ///
    /// Those of [`open_with`](Self::open_with), and [`ReadOnly`](ErrorKind::ReadOnly) if the
    /// options request writing and the backend is not writable.
    pub fn open_backend_with(
        &self,
        backend: impl Backend,
        path: impl Into<PathBuf>,
        options: &OpenOptions,
    ) -> Result<File, Error> {
        let path = path.into();
        self.check_open(&path, options)?;
        if options.write.is_some() && !backend.is_writable() {
            return Err(Error::new(ErrorKind::ReadOnly, Op::Open).with_path(&path));
        }
        let registered = self.register(backend, &path, options, false)?;
        self.handle(registered, &path, options, false)
    }

    /// Returns the mapping of a backend's file, created with `options` if the file was not open. If
    /// `truncates`, the caller truncates it next ([`handle`](Self::handle)).
    fn register(
        &self,
        backend: impl Backend,
        path: &Path,
        options: &OpenOptions,
        truncates: bool,
    ) -> Result<(Opened, Origin), Error> {
        let page_size = self.page_size_of(options, path)?;
        let access = match &options.write {
            None => Access::Read,
            Some(options) => Access::Write(options.clone()),
        };
        let backend = Arc::new(backend);
        let how = How {
            access,
            hooks: options.hooks.clone(),
            truncates,
        };
        Opened::of_backend(&self.files, backend, path.to_owned(), page_size, how)
    }

    /// Creates a handle that satisfies `options`. Truncation is the last step, so an earlier error
    /// leaves the file unchanged, and after an error no handle exists whose drop would write.
    fn handle(
        &self,
        (mapping, origin): (Opened, Origin),
        path: &Path,
        options: &OpenOptions,
        truncates: bool,
    ) -> Result<File, Error> {
        let admitted = self.admit(&mapping, path, options)?;
        match origin {
            _ if truncates => Grower(&mapping)
                .resize(0)
                .map_err(|error| error.with_op(Op::Open))?,
            Origin::Open => drop(refresh(&mapping, Op::Open)?),
            Origin::Made => Grower(&mapping).settle_at_open(),
        }
        let access = admitted.into_counted();
        Ok(File::new(mapping, access))
    }

    fn page_size_of(&self, options: &OpenOptions, path: &Path) -> Result<PageSize, Error> {
        match options.page_size {
            Some(bytes) => {
                PageSize::checked(bytes, Op::Open).map_err(|error| error.with_path(path))
            }
            None => Ok(self.page_size),
        }
    }

    /// Returns the mapping of the file at `path` if it is open and its identity is proven.
    fn open_already(&self, path: &Path) -> Result<Option<Opened>, Error> {
        let Ok(id) = identity::id_at(path) else {
            return Ok(None);
        };
        let Some(open) = Opened::of_open(&self.files, id) else {
            return Ok(None);
        };
        // Open the path: it may lead to another file than in `id_at`.
        let Ok(named) = identity::named(path) else {
            return Ok(None);
        };
        if !identity::id_of(named.as_fd()).is_ok_and(|named| named == id) {
            return Ok(None);
        }
        Ok(same::is_proven(&open, named.as_fd())?.then_some(open))
    }

    fn open_again(
        &self,
        mapping: Opened,
        path: &Path,
        options: &OpenOptions,
    ) -> Result<File, Error> {
        if options.file.requires_new() {
            let exists = std::io::ErrorKind::AlreadyExists.into();
            return Err(Error::of_open(exists, path));
        }
        let truncates = options.file.truncates();
        self.handle((mapping, Origin::Open), path, options, truncates)
    }

    fn admit<'m>(
        &self,
        mapping: &'m Opened,
        path: &Path,
        options: &OpenOptions,
    ) -> Result<Admitted<'m>, Error> {
        let mismatch = |kind, detail: String| {
            Err(Error::new(kind, Op::Open)
                .with_path(path)
                .with_detail(detail))
        };
        if let Some(named) = options.page_size
            && named != mapping.page_size()
        {
            let detail = format!("open with {} bytes, not {named}", mapping.page_size());
            return mismatch(ErrorKind::PageSizeMismatch, detail);
        }
        if let Some(named) = &options.hooks
            && !mapping.hooks().is_some_and(|hooks| hooks.are(named))
        {
            let detail = match mapping.hooks() {
                Some(_) => "the file has another page codec",
                None => "the file is open without a page codec",
            };
            return mismatch(ErrorKind::OptionsMismatch, detail.into());
        }
        if let Some(transfers) = mapping.backend.file_transfers()
            && !options
                .direct
                .is_none_or(|direct| is_met(direct, transfers))
        {
            let detail = format!("the file is open already, {transfers}");
            return mismatch(ErrorKind::OptionsMismatch, detail);
        }
        let Some(named) = &options.write else {
            return Ok(Admitted::for_reading(mapping));
        };
        let Some(writes) = mapping.writes_if_any() else {
            let detail = "this cache has the file open for reading only".into();
            return mismatch(ErrorKind::Busy, detail);
        };
        if let Some(detail) = writes.mismatch(named) {
            return mismatch(ErrorKind::OptionsMismatch, detail);
        }
        let target = &mapping.target;
        if !matches!(options.lock, None | Some(FileLock::None))
            && target.descriptor().is_some()
            && !target.is_locked()
        {
            let detail = "the file is open without a lock".into();
            return mismatch(ErrorKind::OptionsMismatch, detail);
        }
        if is_background(mapping) {
            self.files.flushers.start(&self.files).map_err(|error| {
                let error = match error.kind() {
                    std::io::ErrorKind::WouldBlock => Error::new(ErrorKind::LimitReached, Op::Open)
                        .with_source(error)
                        .with_detail(
                            "cannot create a thread: raise RLIMIT_NPROC, or pids.max of the cgroup",
                        ),
                    _ => Error::from_io(Op::Open, error).with_detail("cannot create a thread"),
                };
                error.with_path(path)
            })?;
        }
        let Some(admitted) = Admitted::for_writing(mapping, writes, options.is_exclusive) else {
            let detail = match options.is_exclusive {
                true => "this cache has the file open for writing",
                false => "this cache has the file open for writing exclusively",
            };
            return mismatch(ErrorKind::Busy, detail.into());
        };
        Ok(admitted)
    }
}
