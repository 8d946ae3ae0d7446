//! Descriptors of database files: how they are opened, locked against other processes, and closed.
//!
//! **The lock against other processes.** A writable database is locked like every file that
//! Pagewell writes: by an exclusive lock of the open file description on the whole file, which
//! includes the bytes that SQLite's VFS for Unix locks. Processes that use that VFS get
//! `SQLITE_BUSY`. Connections that only read acquire this lock, too. A database that this process
//! may not write, or that is on a read-only file system, cannot be locked in this way. It gets a
//! shared lock on those bytes, which admits readers and no writers. Writers that use a write-ahead
//! log do not respect the shared lock, so such a database is not opened if it has a log
//! ([`crate::databases::Database::check_may_share_memory`]).
//!
//! **Closing.** Closing any descriptor of a file releases all locks that this process has on it by
//! `F_SETLK`, and so those of SQLite's own VFS. While this process holds the exclusive lock, no
//! such lock can exist. A file that could not be locked is kept open for the next attempt
//! ([`Kept::keep`]). A file that was only read is kept open until no other process or VFS has a
//! lock on it ([`Kept::unlock`]).
//!
//! Children of `fork` close the descriptors that have or may get a lock ([`crate::fork`]).

#![allow(unsafe_code)] // Two system calls.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pagewell::io::identity::{self, AmbiguousFile, Comparison};
use pagewell::io::{Backend as _, Direct, FileBackend, FileId, FileOptions, UnlockedFile};

use crate::abi;
use crate::error::{Failure, busy, cannot_open};
use crate::fork::{Forks, Tracked};
use crate::options::Options;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) may_create: bool,
    pub(crate) must_be_new: bool,
    /// Permissions for a new file, copied from another one (`modeof`).
    pub(crate) permissions: Option<u32>,
    pub(crate) options: Options,
}

/// Permissions of a new database, less the process's umask, as in SQLite's VFS for Unix
/// (`SQLITE_DEFAULT_FILE_PERMISSIONS`). That VFS gives journals and logs the permissions of the
/// database.
const PERMISSIONS: u32 = 0o644;

impl Wish {
    /// Returns the mode in which to open the file. `Always` is not passed on, since an open that
    /// fails would close the file: the caller checks it after the open.
    fn direct(&self) -> Direct {
        match self.options.direct {
            None | Some(Direct::Never) => Direct::Never,
            Some(_) => Direct::Auto,
        }
    }
}

/// Descriptors of a database's file that is not locked yet.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // Moved a few times in each open.
pub(crate) enum Descriptors {
    Writable(Unlocked),
    /// This process may not write the file.
    ReadOnly(Shared),
}

impl Descriptors {
    pub(crate) fn id(&self) -> FileId {
        match self {
            Self::Writable(unlocked) => unlocked.file.id(),
            Self::ReadOnly(shared) => shared.backend.id(),
        }
    }
}

/// File that is open for writing, and not locked.
#[derive(Debug)]
pub(crate) struct Unlocked {
    /// Dropped before the descriptor is closed, here and below.
    tracked: Tracked,
    file: UnlockedFile,
}

/// Lock of an open database, with its descriptors.
#[derive(Debug)]
pub(crate) enum Locked {
    Exclusive(Exclusive),
    Shared(Shared),
}

impl Locked {
    pub(crate) fn backend(&self) -> &Arc<FileBackend> {
        match self {
            Self::Exclusive(exclusive) => &exclusive.backend,
            Self::Shared(shared) => &shared.backend,
        }
    }

    /// Whether `other` is the same file, and this lock excludes all POSIX locks on it. If the files
    /// cannot be compared by their handles, the lock must be visible through `other`.
    pub(crate) fn excludes(&self, other: &Unlocked) -> bool {
        let Self::Exclusive(exclusive) = self else {
            return false;
        };
        let Some(own) = Arc::clone(&exclusive.backend).raw_file() else {
            return false;
        };
        let other = other.file.as_fd();
        match identity::compare(own.descriptor(), other) {
            Ok(Comparison::Same) => true,
            Ok(Comparison::Unproven) => identity::is_locked_elsewhere(other) == Some(true),
            Ok(Comparison::Different) | Err(_) => false,
        }
    }

    /// Whether a child may have the lock, too.
    pub(crate) fn may_be_inherited(&self) -> bool {
        match self {
            Self::Exclusive(exclusive) => exclusive.tracked.may_be_inherited(),
            Self::Shared(shared) => shared.tracked.may_be_inherited(),
        }
    }
}

/// File with the exclusive lock.
#[derive(Debug)]
pub(crate) struct Exclusive {
    tracked: Tracked,
    backend: Arc<FileBackend>,
}

impl Exclusive {
    /// Unlocks and closes the file. If the cache still uses the backend, for example because a
    /// write could not be stopped, the file stays locked until the cache drops the backend.
    fn unlock(self) {
        let Self { tracked, backend } = self;
        if Arc::strong_count(&backend) == 1
            && let Some(raw) = Arc::clone(&backend).raw_file()
        {
            // The backend unlocks itself, too, but the slot must be freed after the unlock and
            // before the close. If the unlock fails, the close releases the lock.
            let _ = set_or_query(raw.descriptor(), libc::F_OFD_SETLK, libc::F_UNLCK, WHOLE);
        }
        drop(tracked);
        drop(backend);
    }
}

/// Descriptors of a file that this process may not write: one with the shared lock, and one for
/// reads.
#[derive(Debug)]
pub(crate) struct Shared {
    tracked: Tracked,
    lock: fs::File,
    backend: Arc<FileBackend>,
}

impl Shared {
    /// Acquires the shared lock.
    fn lock(&self, path: &Path) -> Result<(), Failure> {
        match self.set_or_query(libc::F_OFD_SETLK, libc::F_RDLCK) {
            Ok(_) => Ok(()),
            Err(error) => Err(match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EACCES) => busy(path),
                _ => cannot_open(path, &error),
            }),
        }
    }

    fn set_or_query(&self, command: libc::c_int, kind: libc::c_int) -> io::Result<libc::c_int> {
        let range = (abi::LOCKED_FIRST, abi::NR_LOCKED);
        set_or_query(self.lock.as_fd(), command, kind, range)
    }
}

/// Descriptors that this process keeps open although no connection uses them.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    files: Mutex<Files>,
}

#[derive(Debug, Default)]
struct Files {
    /// Files that could not be locked. They are kept open, because this process may have locks on
    /// them through SQLite's own VFS, which closing a descriptor would release. On some file
    /// systems, several files may have the same identity.
    unlockable: HashMap<FileId, Vec<(PathBuf, Unlocked)>>,
    /// Files that were only read, and are kept open since other processes, or SQLite's own VFS in
    /// this process, may have locks on them.
    only_read: Vec<Shared>,
}

impl Kept {
    /// Locks the lists, and ignores poisoning: each file is added or removed in one step.
    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the file at `path`, or takes the one with the identity `claimed` that was kept for it.
    /// The caller has the claim of `claimed`, so no other thread takes that one. Returns `None` if
    /// `path` led to several files during the call: the caller retries.
    pub(crate) fn open(
        &self,
        path: &Path,
        wish: &Wish,
        claimed: Option<FileId>,
    ) -> Result<Option<Descriptors>, Failure> {
        let kept = match claimed {
            None => None,
            Some(id) => self.take(id, path),
        };
        let file = match kept {
            Some(file) => file,
            None => {
                let mut options = FileOptions::new()
                    .direct(wish.direct())
                    .mode(wish.permissions.unwrap_or(PERMISSIONS));
                if wish.must_be_new {
                    options = options.create_new();
                } else if wish.may_create {
                    options = options.create();
                }
                let forks = Forks::now();
                match FileBackend::open_unlocked(path, &options) {
                    Ok(file) => Unlocked {
                        tracked: Tracked::new(file.as_fd(), file.id(), forks),
                        file,
                    },
                    Err(error) if is_refusal(&error) && !wish.must_be_new => {
                        return self.open_read_only(path, wish);
                    }
                    Err(error) => return Err(cannot_open(path, &error)),
                }
            }
        };
        if let Some(permissions) = wish.permissions {
            give(path, permissions);
        }
        Ok(Some(Descriptors::Writable(file)))
    }

    /// Opens a file that this process may not write.
    fn open_read_only(&self, path: &Path, wish: &Wish) -> Result<Option<Descriptors>, Failure> {
        let failed = |error| cannot_open(path, &error);
        let forks = Forks::now();
        let lock = fs::File::open(path).map_err(failed)?;
        // If this fails, the file was removed, or is no regular file.
        let backend = FileBackend::open_for_reading(path, wish.direct()).map_err(failed)?;
        let id = identity::id_of(lock.as_fd()).map_err(failed)?;
        let shared = Shared {
            tracked: Tracked::new(lock.as_fd(), id, forks),
            lock,
            backend: Arc::new(backend),
        };
        if id == shared.backend.id() {
            return Ok(Some(Descriptors::ReadOnly(shared)));
        }
        self.unlock(Locked::Shared(shared));
        Ok(None)
    }

    /// Locks the file, or keeps its descriptors. Returns `None` if `path` now leads to another
    /// file: the caller retries.
    pub(crate) fn lock(
        &self,
        descriptors: Descriptors,
        path: &Path,
    ) -> Result<Option<Locked>, Failure> {
        let Unlocked { tracked, file } = match descriptors {
            Descriptors::Writable(unlocked) => unlocked,
            Descriptors::ReadOnly(shared) => {
                let locked = shared.lock(path);
                let shared = Locked::Shared(shared);
                return match locked {
                    Ok(()) => Ok(Some(shared)),
                    Err(failure) => {
                        self.unlock(shared);
                        Err(failure)
                    }
                };
            }
        };
        let (file, error) = match file.lock_or_keep() {
            Ok(backend) => {
                return Ok(backend.map(|backend| {
                    Locked::Exclusive(Exclusive {
                        tracked,
                        backend: Arc::new(backend),
                    })
                }));
            }
            Err(failed) => failed,
        };
        // A file whose identity changes cannot be found by its identity later, so it is closed
        // here. The close releases no POSIX lock of SQLite's own VFS: this file's exclusive lock
        // was granted, so there was no such lock.
        let is_changing = error
            .get_ref()
            .is_some_and(|inner| inner.is::<AmbiguousFile>());
        if !is_changing {
            self.keep(Unlocked { tracked, file }, path);
        }
        Err(match error.kind() {
            io::ErrorKind::ResourceBusy => busy(path),
            _ => cannot_open(path, &error),
        })
    }

    /// Keeps a file that is not locked for the next open of `path`.
    pub(crate) fn keep(&self, unlocked: Unlocked, path: &Path) {
        let mut files = self.files();
        let kept = files.unlockable.entry(unlocked.file.id()).or_default();
        kept.push((path.to_owned(), unlocked));
    }

    /// Takes the kept file with the identity `id` to which `path` leads, if there is one.
    fn take(&self, id: FileId, path: &Path) -> Option<Unlocked> {
        let mut files = self.files().unlockable.remove(&id)?;
        // The comparison may take long, so it runs without the mutex. If it fails, the caller opens
        // the path, which fails for the same reason, or results in a second descriptor.
        let found = find(&files, path).unwrap_or_default();
        let taken = found.map(|nr| files.swap_remove(nr).1);
        if !files.is_empty() {
            let mut all = self.files();
            all.unlockable.entry(id).or_default().append(&mut files);
        }
        taken
    }

    /// Unlocks a file, and closes its descriptors. Descriptors of a file with the shared lock are
    /// kept while locks exist on the file, which may be those of SQLite's own VFS in this process:
    /// closing a descriptor would release them. Closes kept descriptors without such locks, too.
    pub(crate) fn unlock(&self, locked: Locked) {
        match locked {
            Locked::Exclusive(exclusive) => exclusive.unlock(),
            Locked::Shared(shared) => {
                // If the unlock fails, other processes cannot write until the file is closed.
                let _ = shared.set_or_query(libc::F_OFD_SETLK, libc::F_UNLCK);
                self.files().only_read.push(shared);
            }
        }
        self.files().only_read.retain(|shared| {
            // The file is kept unless the system reports that no lock exists.
            !matches!(
                shared.set_or_query(libc::F_OFD_GETLK, libc::F_WRLCK),
                Ok(libc::F_UNLCK)
            )
        });
    }

    /// Closes the descriptors of files that could not be locked, have been removed, and have no
    /// locks any more.
    pub(crate) fn close_abandoned(&self) {
        let mut abandoned = Vec::new();
        self.files().unlockable.retain(|_, files| {
            abandoned.extend(files.extract_if(.., |(_, unlocked)| is_abandoned(&unlocked.file)));
            !files.is_empty()
        });
        // The last close of a removed file frees its blocks, which may take long, so the files are
        // dropped here, without the mutex.
    }
}

/// Returns the index of the file to which `path` leads.
fn find(files: &[(PathBuf, Unlocked)], path: &Path) -> io::Result<Option<usize>> {
    let named = identity::named(path)?;
    for (nr, (kept, unlocked)) in files.iter().enumerate() {
        let found = identity::compare(unlocked.file.as_fd(), named.as_fd())?;
        if found == Comparison::Same || (found == Comparison::Unproven && kept == path) {
            return Ok(Some(nr));
        }
    }
    Ok(None)
}

/// Whether a file has no name and no locks. No connection opens it again. One of SQLite's own VFS
/// that still has it open could lose a lock that it acquires between this test and the close of the
/// descriptor; no other process but those that have the removed file open could conflict with it.
fn is_abandoned(file: &UnlockedFile) -> bool {
    let mut found = MaybeUninit::<libc::stat>::uninit();
    // No second descriptor: closing it would release the locks.
    // SAFETY: the descriptor is open, and the result has room.
    if unsafe { libc::fstat(file.as_fd().as_raw_fd(), found.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: the call has succeeded, so the result is initialized.
    let nr_names = unsafe { found.assume_init() }.st_nlink;
    nr_names == 0 && identity::is_locked_elsewhere(file.as_fd()) == Some(false)
}

/// Sets the permissions of an empty database, regardless of the umask, as SQLite's VFS for Unix
/// does. Uses the path and not a descriptor, because closing the descriptor would release locks.
/// Errors are ignored.
fn give(path: &Path, permissions: u32) {
    if let Ok(found) = fs::metadata(path)
        && found.len() == 0
        && found.mode() & 0o777 != permissions
    {
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(permissions));
    }
}

/// The whole file, including bytes appended later, for [`set_or_query`].
const WHOLE: (i64, i64) = (0, 0);

/// Sets or queries a lock on a range of bytes, given by its start and length. Returns the type of
/// the lock that the call reports.
fn set_or_query(
    file: BorrowedFd<'_>,
    command: libc::c_int,
    kind: libc::c_int,
    (start, len): (i64, i64),
) -> io::Result<libc::c_int> {
    let mut lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: len,
        // Commands for locks of open file descriptions require 0.
        l_pid: 0,
    };
    // SAFETY: the descriptor is open, and the command reads and writes this lock.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(lock.l_type.into()),
    }
}

/// Whether the system refuses writes to a file, but may permit reads.
fn is_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
        || matches!(error.raw_os_error(), Some(libc::EROFS | libc::ETXTBSY))
}
