//! Descriptors of database files: how they are opened, locked against other processes, and closed.
//!
//! **The lock against other processes.** If this process may write a database, it holds an
//! exclusive lock of the open file description on the whole file, even if its connections only
//! read. The lock covers the bytes that SQLite's VFS for Unix locks, so processes that use that VFS
//! get `SQLITE_BUSY`. A database that this process may not write gets a shared lock on those bytes,
//! which excludes writers. Writers that use a write-ahead log ignore this lock, so such a database
//! is not opened if it has a log ([`crate::databases::Database::check_may_share_memory`]).
//!
//! **Closing.** Closing any descriptor of a file releases all POSIX locks of this process on it,
//! and so those of SQLite's own VFS. No such lock can exist while this process holds the exclusive
//! lock. A file that could not be locked is kept open for the next attempt ([`Kept::keep`]). A file
//! that was only read is kept open until no process or VFS has a lock on it
//! ([`Kept::close_unused`]).
//!
//! One race remains: the close also releases a lock that SQLite's own VFS acquires between the
//! unlock and the close of a writable file, or between the query and the close of one that was only
//! read. A close without a prior unlock would avoid this race, since Linux releases the POSIX locks
//! first, but then the lock would last until each child with the description closes it or calls
//! `exec`.
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

/// Permissions of a new database, less the umask: `SQLITE_DEFAULT_FILE_PERMISSIONS` of SQLite's VFS
/// for Unix, which gives journals and logs the permissions of the database.
const PERMISSIONS: u32 = 0o644;

impl Wish {
    /// Returns the setting with which to open the file. `Always` becomes `Auto`, since a failed
    /// open would close a descriptor. The caller checks after the open that I/O is direct.
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

/// File that is open for writing, with a [`Tracked`] that is dropped before the close.
#[derive(Debug)]
pub(crate) struct Unlocked {
    file: UnlockedFile,
    may_be_inherited: bool,
}

/// Lock of an open database, with its descriptors. The drop releases it.
#[derive(Debug)]
pub(crate) enum Locked {
    /// If the cache still uses the backend, for example because a write could not be stopped, the
    /// file stays locked, and tracked, until the cache drops the backend.
    Exclusive {
        backend: Arc<FileBackend>,
        may_be_inherited: bool,
    },
    Shared(Shared),
}

impl Locked {
    pub(crate) fn backend(&self) -> &Arc<FileBackend> {
        match self {
            Self::Exclusive { backend, .. } => backend,
            Self::Shared(shared) => &shared.backend,
        }
    }

    /// Returns `true` if `other` is the same file, and this lock excludes all POSIX locks on it. If
    /// the comparison of the files proves nothing, a lock must be visible through `other`.
    pub(crate) fn excludes(&self, other: &Unlocked) -> bool {
        let Self::Exclusive { backend, .. } = self else {
            return false;
        };
        let Some(own) = Arc::clone(backend).raw_file() else {
            return false;
        };
        let other = other.file.as_fd();
        match identity::compare(own.descriptor(), other) {
            Ok(Comparison::Same) => true,
            Ok(Comparison::Unproven) => identity::is_locked_elsewhere(other) == Some(true),
            Ok(Comparison::Different) | Err(_) => false,
        }
    }

    /// Returns `true` if a child may have the lock, too.
    pub(crate) fn may_be_inherited(&self) -> bool {
        match self {
            Self::Exclusive {
                may_be_inherited, ..
            } => *may_be_inherited,
            Self::Shared(shared) => shared.file.tracked.may_be_inherited(),
        }
    }
}

/// Use of a [`ReadOnly`]. The drop releases the shared lock.
#[derive(Debug)]
pub(crate) struct Shared {
    file: Arc<ReadOnly>,
    backend: Arc<FileBackend>,
}

/// Descriptors of a file that this process may not write: the path is opened once for the lock, and
/// once for reads. [`Kept`] has a reference, so that no error or panic closes them.
#[derive(Debug)]
struct ReadOnly {
    /// Dropped before the descriptor is closed.
    tracked: Tracked,
    lock: fs::File,
    /// `None` if the open for reads has failed.
    backend: Option<Arc<FileBackend>>,
}

impl Shared {
    fn lock(&self, path: &Path) -> Result<(), Failure> {
        match self.file.set_or_query(libc::F_OFD_SETLK, libc::F_RDLCK) {
            Ok(_) => Ok(()),
            Err(error) => Err(match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EACCES) => busy(path),
                _ => cannot_open(path, &error),
            }),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // If the unlock fails, other processes cannot write until the file is closed.
        let _ = self.file.set_or_query(libc::F_OFD_SETLK, libc::F_UNLCK);
    }
}

impl ReadOnly {
    /// Returns `true` if no connection uses the file, and no lock exists on it, not even one of
    /// SQLite's own VFS in this process. Returns `false` if the locks cannot be queried.
    fn is_unused(&self) -> bool {
        let is_in_use = |backend| Arc::strong_count(backend) > 1;
        if self.backend.as_ref().is_some_and(is_in_use) {
            return false;
        }
        let is_free = |file: BorrowedFd<'_>| {
            let found = set_or_query(file, libc::F_OFD_GETLK, libc::F_WRLCK, RANGE);
            matches!(found, Ok(libc::F_UNLCK))
        };
        // The second descriptor is of another file if the path was replaced between the two opens.
        let of_backend = self.backend.clone().and_then(|backend| backend.raw_file());
        is_free(self.lock.as_fd()) && of_backend.is_none_or(|file| is_free(file.descriptor()))
    }

    fn set_or_query(&self, command: libc::c_int, kind: libc::c_int) -> io::Result<libc::c_int> {
        set_or_query(self.lock.as_fd(), command, kind, RANGE)
    }
}

/// Descriptors that this process keeps open even if no connection uses them.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    files: Mutex<Files>,
}

#[derive(Debug, Default)]
struct Files {
    /// Files that could not be locked. On some file systems, several have the same identity.
    unlockable: HashMap<FileId, Vec<(PathBuf, Unlocked)>>,
    /// Files that this process may not write: those in use, and those that may have locks.
    read_only: Vec<Arc<ReadOnly>>,
}

impl Kept {
    /// Locks the lists, and ignores poisoning: each file is added or removed in one step.
    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the file at `path`, or takes the one with the identity `claimed` that was kept for it.
    /// The caller has the claim of `claimed`, so no other thread takes that one. Returns `None` if
    /// `path` led to several files during the call.
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
                    Ok(mut file) => {
                        let tracked = Tracked::new(file.as_fd(), file.id(), forks);
                        let may_be_inherited = tracked.may_be_inherited();
                        file.drop_before_close(tracked);
                        Unlocked {
                            file,
                            may_be_inherited,
                        }
                    }
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

    fn open_read_only(&self, path: &Path, wish: &Wish) -> Result<Option<Descriptors>, Failure> {
        let failed = |error| cannot_open(path, &error);
        let forks = Forks::now();
        let lock = fs::File::open(path).map_err(failed)?;
        let id = identity::id_of(lock.as_fd()).map_err(failed)?;
        let tracked = Tracked::new(lock.as_fd(), id, forks);
        let opened = FileBackend::open_for_reading(path, wish.direct()).map(Arc::new);
        let file = Arc::new(ReadOnly {
            tracked,
            lock,
            backend: opened.as_ref().ok().map(Arc::clone),
        });
        self.files().read_only.push(Arc::clone(&file));
        let backend = opened.map_err(failed)?;
        if id != backend.id() {
            return Ok(None);
        }
        Ok(Some(Descriptors::ReadOnly(Shared { file, backend })))
    }

    /// Locks the file. Returns `None` if `path` leads to another file. If the lock fails, keeps the
    /// file for the next open, unless the file system changes its inode number.
    pub(crate) fn lock(
        &self,
        descriptors: Descriptors,
        path: &Path,
    ) -> Result<Option<Locked>, Failure> {
        let Unlocked {
            file,
            may_be_inherited,
        } = match descriptors {
            Descriptors::Writable(unlocked) => unlocked,
            Descriptors::ReadOnly(shared) => {
                shared.lock(path)?;
                return Ok(Some(Locked::Shared(shared)));
            }
        };
        let (file, error) = match file.lock_or_keep() {
            Ok(backend) => {
                return Ok(backend.map(|backend| Locked::Exclusive {
                    backend: Arc::new(backend),
                    may_be_inherited,
                }));
            }
            Err(failed) => failed,
        };
        // A file whose identity changes would not be found later, so it is closed here. Its
        // exclusive lock was granted, so the close releases no POSIX lock of SQLite's own VFS.
        let is_changing = error
            .get_ref()
            .is_some_and(|inner| inner.is::<AmbiguousFile>());
        if !is_changing {
            let unlocked = Unlocked {
                file,
                may_be_inherited,
            };
            self.keep(unlocked, path);
        }
        Err(match error.kind() {
            io::ErrorKind::ResourceBusy => busy(path),
            _ => cannot_open(path, &error),
        })
    }

    /// Keeps an unlocked file for the next open of `path`.
    pub(crate) fn keep(&self, unlocked: Unlocked, path: &Path) {
        let mut files = self.files();
        let kept = files.unlockable.entry(unlocked.file.id()).or_default();
        kept.push((path.to_owned(), unlocked));
    }

    /// Takes the kept file with the identity `id` to which `path` leads, if there is one.
    fn take(&self, id: FileId, path: &Path) -> Option<Unlocked> {
        let mut files = self.files().unlockable.remove(&id)?;
        // The comparison may take long, so the mutex is not held. If it fails, the caller opens the
        // path, which fails for the same reason or results in a second descriptor.
        let found = find(&files, path).unwrap_or_default();
        let taken = found.map(|nr| files.swap_remove(nr).1);
        if !files.is_empty() {
            let mut all = self.files();
            all.unlockable.entry(id).or_default().append(&mut files);
        }
        taken
    }

    /// Closes unused descriptors whose close releases no lock of SQLite's own VFS: of files that
    /// were only read and have no locks, and of unlockable files without names and locks.
    pub(crate) fn close_unused(&self) {
        let mut abandoned = Vec::new();
        let mut files = self.files();
        // The mutex is held, so that a concurrent open finds the descriptors.
        files.unlockable.retain(|_, files| {
            abandoned.extend(files.extract_if(.., |(_, unlocked)| is_abandoned(&unlocked.file)));
            !files.is_empty()
        });
        // Closed under the mutex, so that the close of a database returns only after its
        // descriptors are closed, even if another thread closes them.
        files.read_only.retain(|file| !file.is_unused());
        drop(files);
        // `abandoned` is dropped without the mutex: freeing the blocks of a file may take long.
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

/// Returns `true` if a file has no name and no locks, so that no connection opens it again. A lock
/// that SQLite's own VFS acquires between this test and the close is lost. Only processes that have
/// the removed file open could then acquire a conflicting lock.
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

/// Sets the permissions of an empty database regardless of the umask, as SQLite's VFS for Unix
/// does. Uses the path, since closing another descriptor would release locks. Ignores errors.
fn give(path: &Path, permissions: u32) {
    if let Ok(found) = fs::metadata(path)
        && found.len() == 0
        && found.mode() & 0o777 != permissions
    {
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(permissions));
    }
}

const RANGE: (i64, i64) = (abi::LOCKED_FIRST, abi::NR_LOCKED);

/// Sets or queries a lock, and returns the type of the lock that the call reports.
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

/// Returns `true` if the system refuses writes to a file, but may permit reads.
fn is_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
        || matches!(error.raw_os_error(), Some(libc::EROFS | libc::ETXTBSY))
}

#[cfg(test)]
mod tests {
    use std::os::fd::RawFd;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    use pagewell_testkit::{Resource, in_child, limit};

    use crate::fork::{FORKS, is_tracked};

    use super::*;

    const WISH: Wish = Wish {
        may_create: true,
        must_be_new: false,
        permissions: None,
        options: Options {
            cache: None,
            direct: None,
            page: None,
        },
    };

    /// Sets a POSIX lock of this process, as SQLite's own VFS does.
    fn set_posix_lock(file: &fs::File, kind: libc::c_int) {
        set_or_query(file.as_fd(), libc::F_SETLK, kind, RANGE).unwrap();
    }

    fn is_locked(file: &fs::File) -> bool {
        identity::is_locked_elsewhere(file.as_fd()).unwrap()
    }

    fn nr_read_only(kept: &Kept) -> usize {
        kept.files().read_only.len()
    }

    #[test]
    fn panic_keeps_the_locks_of_sqlites_own_vfs_on_a_file_that_was_only_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        fs::write(&path, "").unwrap();
        let of_unix = fs::File::open(&path).unwrap();
        let kept = Kept::default();
        let opened = kept.open_read_only(&path, &WISH).unwrap().unwrap();
        let (id, fd) = match &opened {
            Descriptors::ReadOnly(shared) => (opened.id(), shared.file.lock.as_raw_fd()),
            Descriptors::Writable(_) => unreachable!("opened for reading"),
        };
        let locked = kept.lock(opened, &path).unwrap().unwrap();
        kept.close_unused();
        assert!(is_tracked(fd, id), "it is in use");
        set_posix_lock(&of_unix, libc::F_RDLCK);
        let close = AssertUnwindSafe(|| {
            let _locked = locked;
            resume_unwind(Box::new("intended"))
        });
        catch_unwind::<_, ()>(close).unwrap_err();
        // Only the POSIX lock is left: the drop during the panic has released the shared lock.
        let other = fs::File::options().write(true).open(&path).unwrap();
        assert!(is_locked(&other));
        kept.close_unused();
        assert_eq!(nr_read_only(&kept), 1);
        assert!(is_locked(&other));
        set_posix_lock(&of_unix, libc::F_UNLCK);
        assert!(!is_locked(&other));
        kept.close_unused();
        assert_eq!(nr_read_only(&kept), 0);
        assert!(!is_tracked(fd, id));
    }

    /// The path was replaced between the two opens.
    #[test]
    fn descriptors_of_two_files_are_kept_while_either_has_locks() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| dir.path().join(name));
        for (nr, path) in paths.iter().enumerate() {
            fs::write(path, "").unwrap();
            let other = &paths[1 - nr];
            fs::write(other, "").unwrap();
            let _alone = FORKS.lock();
            let kept = Kept::default();
            let lock = fs::File::open(path).unwrap();
            let id = identity::id_of(lock.as_fd()).unwrap();
            let of_backend = match nr {
                0 => other,
                _ => path,
            };
            let backend = FileBackend::open_for_reading(of_backend, Direct::Never).unwrap();
            kept.files().read_only.push(Arc::new(ReadOnly {
                tracked: Tracked::new(lock.as_fd(), id, Forks::now()),
                lock,
                backend: Some(Arc::new(backend)),
            }));
            let of_unix = fs::File::open(of_backend).unwrap();
            set_posix_lock(&of_unix, libc::F_RDLCK);
            kept.close_unused();
            assert_eq!(nr_read_only(&kept), 1);
            let other = fs::File::options().write(true).open(of_backend).unwrap();
            assert!(is_locked(&other));
            set_posix_lock(&of_unix, libc::F_UNLCK);
            kept.close_unused();
            assert_eq!(nr_read_only(&kept), 0);
        }
    }

    #[test]
    fn failed_second_open_keeps_the_locks_of_sqlites_own_vfs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        fs::write(&path, "").unwrap();
        let body = || {
            let [of_unix, other] = [(); 2].map(|()| fs::File::open(&path).unwrap());
            // Number of the next descriptor, the last that the limit permits.
            let next = other.try_clone().unwrap().as_raw_fd();
            set_posix_lock(&of_unix, libc::F_RDLCK);
            let kept = Kept::default();
            limit(Resource::Nofile, next as u64 + 1);
            kept.open_read_only(&path, &WISH).unwrap_err();
            kept.close_unused();
            assert!(is_locked(&other));
            set_posix_lock(&of_unix, libc::F_UNLCK);
            kept.close_unused();
            assert_eq!(nr_read_only(&kept), 0);
            0
        };
        let _alone = FORKS.lock();
        assert_eq!(in_child(body), 0);
    }

    /// The cache may use the backend after a close, if it could not stop a write.
    #[test]
    fn children_close_a_file_as_long_as_its_backend_lives() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let kept = Kept::default();
        let opened = kept.open(&path, &WISH, None).unwrap().unwrap();
        let id = opened.id();
        let fd: RawFd = match &opened {
            Descriptors::Writable(unlocked) => unlocked.file.as_fd().as_raw_fd(),
            Descriptors::ReadOnly(_) => unreachable!("the file is new"),
        };
        let locked = kept.lock(opened, &path).unwrap().unwrap();
        let of_cache = Arc::clone(locked.backend());
        drop(locked);
        let other = fs::File::open(&path).unwrap();
        assert!(is_tracked(fd, id));
        assert!(is_locked(&other));
        drop(of_cache);
        assert!(!is_locked(&other));
        assert!(!is_tracked(fd, id));
    }
}
