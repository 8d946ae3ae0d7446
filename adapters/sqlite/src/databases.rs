//! Open databases of this process, and their cache.
//!
//! A database is open once in the cache, however many connections it has. It is locked against
//! other processes from the first open to the last close. This module finds the open database for a
//! path, and detects the last close.
//!
//! **The lock against other processes.** A writable database is locked like every file that
//! Pagewell writes: by an exclusive lock of the open file description on the whole file, which
//! includes the bytes that SQLite's VFS for Unix locks. Processes that use that VFS get
//! `SQLITE_BUSY`. Connections that only read acquire this lock, too. A database that this process
//! may not write, or that is on a read-only file system, cannot be locked in this way. It gets a
//! shared lock on those bytes, which admits readers and no writers. Writers that use a write-ahead
//! log do not respect the shared lock, so such a database is not opened if it has a log
//! ([`Database::check_may_share_memory`]).
//!
//! **Descriptors.** Closing any descriptor of a file releases all locks that this process has on it
//! by `F_SETLK`, and so those of SQLite's own VFS. While this process holds the exclusive lock, no
//! such lock can exist. A file that could not be locked is kept open for the next attempt
//! ([`State::unlockable`]). A file that was only read is kept open until no other process or VFS
//! has a lock on it ([`State::let_go`]).

#![allow(unsafe_code)] // Two system calls.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

use pagewell::io::identity::{self, AmbiguousFile, Comparison};
use pagewell::io::{Backend, Direct, FileBackend, FileId, FileOptions, Transfers, UnlockedFile};
use pagewell::{Cache, ErrorKind, File, OpenOptions};

use crate::abi;
use crate::error::Failure;
use crate::locks::Locks;
use crate::options::Options;
use crate::process::Process;
use crate::shm::Shm;

/// Default capacity of the cache, if the first database's URI has none.
const DEFAULT_CAPACITY: u64 = 64 << 20;

/// Open database: state that its connections share.
#[derive(Debug)]
pub(crate) struct Database {
    /// Handle from which each connection creates its own. This handle is dropped last.
    pub(crate) file: File,
    pub(crate) id: FileId,
    pub(crate) path: PathBuf,
    /// Whether this process may only read the file.
    pub(crate) is_read_only: bool,
    pub(crate) locks: Mutex<Locks>,
    pub(crate) shm: Mutex<Shm>,
    /// Whether the flush at the end of a checkpoint has failed, and was not repeated since.
    is_behind: AtomicBool,
    /// Descriptors with the shared lock, if this process may only read the file.
    shared: Option<Shared>,
}

/// Descriptors of a file that this process may not write: one with the shared lock, and one for
/// reads.
#[derive(Debug)]
struct Shared {
    lock: fs::File,
    backend: Arc<FileBackend>,
}

impl Database {
    pub(crate) fn flush(file: &File) -> Result<(), pagewell::Error> {
        // The first call may report an earlier failure. If the second call succeeds, that failure
        // is resolved.
        file.flush(0..u64::MAX)
            .or_else(|_| file.flush(0..u64::MAX))
            .map(drop)
    }

    /// Records a failure of [`flush`](Self::flush) that SQLite ignores.
    pub(crate) fn note_behind(&self) {
        // ORDERING: Relaxed; the connection that loads the flag is this one, or has acquired a lock
        // of the database since.
        self.is_behind.store(true, Ordering::Relaxed);
    }

    /// Returns whether such a failure was recorded, and clears it, since the caller retries.
    pub(crate) fn take_behind(&self) -> bool {
        // ORDERING: Relaxed, as above.
        self.is_behind.swap(false, Ordering::Relaxed)
    }
}

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
    /// fails would close the file: `check_options` checks it after the open.
    fn direct(&self) -> Direct {
        match self.options.direct {
            None | Some(Direct::Never) => Direct::Never,
            Some(_) => Direct::Auto,
        }
    }
}

#[derive(Default)]
struct State {
    cache: Option<(Cache, u64)>,
    open: HashMap<FileId, Entry>,
    /// Files that could not be locked. They are kept open, because this process may have locks on
    /// them through SQLite's own VFS, which closing a descriptor would release. On some file
    /// systems, several files may have the same identity.
    unlockable: HashMap<FileId, Vec<(PathBuf, UnlockedFile)>>,
    /// Files that were only read, and are kept open since other processes, or SQLite's own VFS in
    /// this process, may have locks on them.
    kept: Vec<Shared>,
    /// Process that owns this state. `None` before the first open.
    process: Option<Process>,
}

enum Entry {
    Open(Arc<Database>, usize),
    /// The last connection is closing the database.
    Closing,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);
static CLOSED: Condvar = Condvar::new();

/// Locks the state, and ignores poisoning: each entry is added or removed in one step.
fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn open(path: &Path, wish: &Wish) -> Result<Arc<Database>, Failure> {
    let mut state = state();
    state.leave_to_parent();
    state.close_abandoned();
    let mut nr_replaced = 0;
    while nr_replaced < UnlockedFile::MOST_TRIES {
        let found = identity::id_at(path)
            .ok()
            .and_then(|id| state.open.get(&id).map(|entry| (id, entry)));
        match found {
            Some((_, Entry::Closing)) => {
                state = CLOSED.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            Some((id, Entry::Open(database, nr))) => {
                if wish.must_be_new {
                    return Err(cannot(path, "it already exists"));
                }
                if !database.is_at(path)? {
                    nr_replaced += 1;
                    continue;
                }
                let (database, nr) = (Arc::clone(database), *nr);
                check_options(&database, &wish.options, path)?;
                state.cache_for(&wish.options, path)?;
                state
                    .open
                    .insert(id, Entry::Open(Arc::clone(&database), nr + 1));
                return Ok(database);
            }
            None => {
                let cache = state.cache_for(&wish.options, path)?;
                let Some(database) = state.open_new(&cache, path, wish)? else {
                    nr_replaced += 1;
                    continue;
                };
                if let Err(failure) = check_options(&database, &wish.options, path) {
                    let Database { file, shared, .. } = database;
                    drop(file);
                    state.let_go(shared);
                    return Err(failure);
                }
                let database = Arc::new(database);
                state
                    .open
                    .insert(database.id, Entry::Open(Arc::clone(&database), 1));
                return Ok(database);
            }
        }
    }
    Err(cannot(path, "it is being replaced repeatedly"))
}

/// Drops a connection. The last one syncs and unlocks the database.
///
/// If that fails, unsynced data is dropped, as in a power loss. SQLite has not acknowledged this
/// data, and its journal or log contains all data that it has acknowledged. If a sync of the
/// database fails, SQLite keeps the journal or log, and the next open recovers the database. The
/// database is not kept open in this case, because it would stay locked.
#[allow(clippy::result_large_err)] // The file itself; errors are rare.
pub(crate) fn close(database: Arc<Database>) -> Result<(), Failure> {
    let id = database.id;
    {
        let mut state = state();
        let Some(Entry::Open(kept, nr)) = state.open.get_mut(&id) else {
            unreachable!("a database is open as long as it has connections");
        };
        debug_assert!(Arc::ptr_eq(kept, &database));
        *nr -= 1;
        if *nr > 0 {
            // Dropped under the lock: the connection that closes the database last must have the
            // last reference.
            drop(database);
            return Ok(());
        }
        state.open.insert(id, Entry::Closing);
    }
    // Without the lock, other databases may be opened and closed concurrently, but not this one,
    // whose entry is `Closing`. `database` is the last strong reference: the entry's reference was
    // dropped above, and the other connections had dropped theirs before.
    let (result, shared) = match Arc::into_inner(database) {
        None => (Ok(()), None),
        Some(Database { file, shared, .. }) => {
            let result = file
                .close()
                // The first attempt may report an earlier failure of background writeback that has
                // since been resolved, so this retries once.
                .or_else(|(file, _)| file.close())
                .map_err(|(file, error)| {
                    drop(file);
                    Failure::of(&error, abi::IOERR_CLOSE)
                });
            (result, shared)
        }
    };
    let mut state = state();
    state.open.remove(&id);
    state.let_go(shared);
    drop(state);
    CLOSED.notify_all();
    result
}

impl Database {
    /// Returns statistics of the cache of this process, of this file and of a connection, as a JSON
    /// object.
    pub(crate) fn statistics(&self, nr_fetched: u64) -> String {
        let state = state();
        let Some((cache, capacity)) = &state.cache else {
            return "{}".into();
        };
        let (all, file) = (cache.stats(), self.file.stats());
        let transfers = match self.file.transfers() {
            Some(Transfers::Direct { .. }) => "direct",
            _ => "buffered",
        };
        format!(
            concat!(
                "{{\"capacity\":{},\"nr_frames\":{},\"nr_free\":{},\"nr_fills\":{},",
                "\"nr_evictions\":{},\"nr_databases\":{},\"page_size\":{},\"nr_dirty\":{},",
                "\"nr_written\":{},\"transfers\":\"{}\",\"nr_fetched\":{}}}"
            ),
            capacity,
            all.nr_frames,
            all.nr_free,
            all.nr_fills,
            all.nr_evictions,
            state.open.len(),
            self.file.page_size(),
            file.nr_dirty,
            file.nr_written,
            transfers,
            nr_fetched,
        )
    }

    /// Checks that the index of the log may be in this process's memory, because no other process
    /// can use the log. Fails for a file that this process may not write: processes that use the
    /// log write the file despite the shared lock.
    pub(crate) fn check_may_share_memory(&self) -> Result<(), Failure> {
        if !self.is_read_only {
            return Ok(());
        }
        Err(cannot(
            &self.path,
            "it has a write-ahead log, and this process may not write it, so it cannot exclude \
             writers; immutable=1 asserts that there are none",
        ))
    }

    /// Whether `path` leads to this file. The caller has found the same device and inode number at
    /// `path`, but another file may have these numbers on some file systems. If the comparison does
    /// not prove that the files are the same, this function opens `path` and tests whether this
    /// database's lock is visible through it. It fails if the lock is not visible. For a file that
    /// this process may only read, returns `true` without this test.
    fn is_at(&self, path: &Path) -> Result<bool, Failure> {
        let found = self.file.compare_path(path);
        match found.map_err(|error| Failure::of(&error, abi::CANTOPEN))? {
            Comparison::Same => Ok(true),
            Comparison::Different => Ok(false),
            // No test: closing its descriptor would release POSIX locks of SQLite's own VFS in this
            // process.
            Comparison::Unproven if self.is_read_only => Ok(true),
            // This database's lock is visible through all descriptors of the file, and excludes
            // such POSIX locks.
            Comparison::Unproven => {
                let other = fs::File::options()
                    .read(true)
                    .custom_flags(libc::O_NONBLOCK)
                    .open(path)
                    .map_err(|error| cannot_open(path, &error))?;
                // The path may have been renamed since the comparison.
                if !identity::id_of(other.as_fd()).is_ok_and(|id| id == self.id) {
                    return Ok(false);
                }
                match identity::is_locked_elsewhere(other.as_fd()) {
                    Some(false) => Err(cannot(path, &AmbiguousFile::SameNumber.to_string())),
                    _ => Ok(true),
                }
            }
        }
    }

    /// Whether `path`, by which a connection has opened the database, now leads to another file, or
    /// to none.
    pub(crate) fn has_moved(&self, path: &Path) -> bool {
        match self.file.compare_path(path) {
            Ok(found) => found == Comparison::Different,
            Err(error) if error.kind() == ErrorKind::AmbiguousFile => true,
            // The comparison has failed, for example because too many files are open.
            Err(_) => identity::id_at(path).ok() != Some(self.id),
        }
    }
}

impl State {
    /// In a child, abandons the parent's state, that is its locked databases and its cache, without
    /// closing anything.
    fn leave_to_parent(&mut self) {
        let this = Process::this();
        if self.process.is_some_and(|process| process != this) {
            std::mem::forget(std::mem::take(self));
        }
        self.process = Some(this);
    }

    /// Returns the cache of this process. The options of the first database determine its capacity.
    /// While no database is open, a different `pw_cache` replaces the cache; options without
    /// `pw_cache` keep it. Fails if `pw_cache` differs while a database is open.
    fn cache_for(&mut self, options: &Options, path: &Path) -> Result<Cache, Failure> {
        if let Some((cache, capacity)) = &self.cache {
            match options.cache {
                Some(asked) if asked != *capacity => {
                    if !self.open.is_empty() {
                        let text = format!(
                            "pw_cache={asked}: the cache of this process has {capacity} bytes, and \
                             open databases"
                        );
                        return Err(cannot(path, &text));
                    }
                }
                _ => return Ok(cache.clone()),
            }
        }
        let capacity = options.cache.unwrap_or(DEFAULT_CAPACITY);
        // Frees the old cache first.
        self.cache = None;
        let cache = Cache::builder()
            .capacity(capacity)
            .build()
            .map_err(|error| Failure::of(&error, abi::CANTOPEN))?;
        self.cache = Some((cache.clone(), capacity));
        Ok(cache)
    }

    fn take_unlockable(&mut self, path: &Path) -> Result<Option<UnlockedFile>, Failure> {
        let Some(files) = identity::id_at(path)
            .ok()
            .and_then(|id| self.unlockable.get_mut(&id))
        else {
            return Ok(None);
        };
        let failed = |error| cannot_open(path, &error);
        let named = identity::named(path).map_err(failed)?;
        for nr in 0..files.len() {
            let (kept, file) = &files[nr];
            let found = identity::compare(file.as_fd(), named.as_fd()).map_err(failed)?;
            if found == Comparison::Same || (found == Comparison::Unproven && kept == path) {
                return Ok(Some(files.swap_remove(nr).1));
            }
        }
        Ok(None)
    }

    /// Opens and locks a database that is not in `open`. Returns `None` if `path` now leads to
    /// another file: the caller retries.
    fn open_new(
        &mut self,
        cache: &Cache,
        path: &Path,
        wish: &Wish,
    ) -> Result<Option<Database>, Failure> {
        let kept = match wish.must_be_new {
            true => None,
            false => self.take_unlockable(path)?,
        };
        let unlocked = match kept {
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
                match FileBackend::open_unlocked(path, &options) {
                    Ok(file) => file,
                    Err(error) if is_refusal(&error) && !wish.must_be_new => {
                        return self.open_read_only(cache, path, wish);
                    }
                    Err(error) => return Err(cannot_open(path, &error)),
                }
            }
        };
        if let Some(permissions) = wish.permissions {
            give(path, permissions);
        }
        let id = unlocked.id();
        let backend = match unlocked.lock_or_keep() {
            Ok(Some(backend)) => backend,
            Ok(None) => return Ok(None),
            Err((file, error)) => {
                // A file whose identity changes cannot be found by its identity later, so it is
                // closed here. The close releases no POSIX lock of SQLite's own VFS: this file's
                // exclusive lock was granted, so there was no such lock.
                let is_changing = error
                    .get_ref()
                    .is_some_and(|inner| inner.is::<AmbiguousFile>());
                if !is_changing {
                    let kept = (path.to_owned(), file);
                    self.unlockable.entry(id).or_default().push(kept);
                }
                return Err(match error.kind() {
                    io::ErrorKind::ResourceBusy => busy(path),
                    _ => Failure::of_system(&error, abi::CANTOPEN, &path.display().to_string()),
                });
            }
        };
        let mut options = OpenOptions::new().write();
        if let Some(bytes) = wish.options.page {
            options = options.page_size(bytes);
        }
        let file = cache
            .open_backend_with(backend, path, &options)
            .map_err(|error| Failure::of(&error, abi::CANTOPEN))?;
        Ok(Some(Database::new(file, id, path, None)))
    }

    /// Opens a file that this process may not write. Returns `None` if `path` now leads to another
    /// file: the caller retries.
    fn open_read_only(
        &mut self,
        cache: &Cache,
        path: &Path,
        wish: &Wish,
    ) -> Result<Option<Database>, Failure> {
        let lock = fs::File::open(path).map_err(|error| cannot_open(path, &error))?;
        // If this fails, the file was removed, or is no regular file.
        let backend = FileBackend::open_for_reading(path, wish.direct())
            .map_err(|error| cannot_open(path, &error))?;
        let shared = Shared {
            lock,
            backend: Arc::new(backend),
        };
        let opened = shared.open(cache, path, wish);
        match opened {
            Ok(Some(file)) => {
                let id = shared.backend.id();
                Ok(Some(Database::new(file, id, path, Some(shared))))
            }
            Ok(None) => {
                self.let_go(Some(shared));
                Ok(None)
            }
            Err(failure) => {
                self.let_go(Some(shared));
                Err(failure)
            }
        }
    }

    /// Closes the descriptors of this and of earlier read-only files, except files on which locks
    /// exist. These locks may be those of SQLite's own VFS in this process, which closing a
    /// descriptor would release. Closes abandoned files, too.
    fn let_go(&mut self, shared: Option<Shared>) {
        if let Some(shared) = shared {
            // If the unlock fails, other processes cannot write until the file is closed.
            let _ = lock(&shared.lock, libc::F_OFD_SETLK, libc::F_UNLCK);
            self.kept.push(shared);
        }
        self.kept.retain(|shared| {
            // The file is kept unless the system reports that no lock exists.
            !matches!(
                lock(&shared.lock, libc::F_OFD_GETLK, libc::F_WRLCK),
                Ok(libc::F_UNLCK)
            )
        });
        self.close_abandoned();
    }

    /// Closes the descriptors of files that could not be locked, have been removed, and have no
    /// locks any more.
    fn close_abandoned(&mut self) {
        self.unlockable.retain(|_, files| {
            files.retain(|(_, file)| !is_abandoned(file));
            !files.is_empty()
        });
    }
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

impl Shared {
    /// Acquires the shared lock, and opens the file in the cache. Returns `None` if the two
    /// descriptors are of different files.
    fn open(&self, cache: &Cache, path: &Path, wish: &Wish) -> Result<Option<File>, Failure> {
        let id = identity::id_of(self.lock.as_fd()).map_err(|error| cannot_open(path, &error))?;
        if id != self.backend.id() {
            return Ok(None);
        }
        lock(&self.lock, libc::F_OFD_SETLK, libc::F_RDLCK).map_err(|error| {
            match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EACCES) => busy(path),
                _ => Failure::of_system(&error, abi::CANTOPEN, &path.display().to_string()),
            }
        })?;
        let mut options = OpenOptions::new();
        if let Some(bytes) = wish.options.page {
            options = options.page_size(bytes);
        }
        cache
            .open_backend_with(Arc::clone(&self.backend), path, &options)
            .map(Some)
            .map_err(|error| Failure::of(&error, abi::CANTOPEN))
    }
}

impl Database {
    fn new(file: File, id: FileId, path: &Path, shared: Option<Shared>) -> Self {
        Self {
            file,
            id,
            path: path.to_owned(),
            is_read_only: shared.is_some(),
            locks: Mutex::default(),
            shm: Mutex::default(),
            is_behind: AtomicBool::new(false),
            shared,
        }
    }
}

/// Sets or queries a lock on the bytes that SQLite's VFS for Unix locks. Returns the type of the
/// lock that the call reports.
fn lock(file: &fs::File, command: libc::c_int, kind: libc::c_int) -> io::Result<libc::c_int> {
    let mut lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: abi::LOCKED_FIRST,
        l_len: abi::NR_LOCKED,
        // Commands for locks of open file descriptions require 0.
        l_pid: 0,
    };
    // SAFETY: the descriptor is open, and the command reads and writes this lock.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(lock.l_type.into()),
    }
}

fn check_options(database: &Database, options: &Options, path: &Path) -> Result<(), Failure> {
    let has = database.file.page_size();
    if options.page.is_some_and(|page| page != has) {
        return Err(cannot(
            path,
            &format!("pw_page: already open with pages of {has} bytes"),
        ));
    }
    let is_direct = matches!(database.file.transfers(), Some(Transfers::Direct { .. }));
    match options.direct {
        Some(Direct::Always) if !is_direct => {
            let why = match database.file.transfers() {
                Some(Transfers::Buffered(why)) => why.to_string(),
                _ => "unknown".into(),
            };
            Err(cannot(
                path,
                &format!("pw_direct=always: direct I/O is unavailable: {why}"),
            ))
        }
        Some(Direct::Never) if is_direct => {
            Err(cannot(path, "pw_direct=never: it is open with direct I/O"))
        }
        _ => Ok(()),
    }
}

/// Whether the system refuses writes to a file, but may permit reads.
fn is_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
        || matches!(error.raw_os_error(), Some(libc::EROFS | libc::ETXTBSY))
}

fn cannot(path: &Path, why: &str) -> Failure {
    Failure::new(
        abi::CANTOPEN,
        format!("cannot open {}: {why}", path.display()),
    )
}

fn cannot_open(path: &Path, error: &io::Error) -> Failure {
    let what = format!("cannot open {}", path.display());
    Failure::of_system(error, abi::CANTOPEN, &what)
}

fn busy(path: &Path) -> Failure {
    Failure::new(
        abi::BUSY,
        format!("cannot open {}: it is locked elsewhere", path.display()),
    )
}
