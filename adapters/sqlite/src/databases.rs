//! Open databases of this process.
//!
//! All connections of a database share one open file of the cache. It is locked against other
//! processes from the first open to the last close ([`crate::descriptors`]). The registry
//! ([`crate::registry`]) finds the database by the identity of its file. The thread that has the
//! claim of this identity opens, locks, syncs and closes the file without a mutex. So opens and
//! closes of different databases do not wait for each other.
//!
//! # Identities and paths
//!
//! Several paths may lead to one file, and a path may lead to another file at the next moment. So
//! an open claims an identity, not a path, before each step that must be exclusive
//! ([`Databases::try_open`]):
//!
//! ```text
//! 1 query the identity of the path; enter the registry with it: join, or claim
//! 2 open the descriptors; compare their identity with the claim
//! 3 if it differs, or if the file did not exist at step 1: release the claim, and enter the
//!   registry with the identity of the descriptors: join, or claim
//! 4 lock the file, check that the path still leads to it, register it with the cache; publish
//! ```
//!
//! A join first checks that the open database is that of the path and has the requested options.
//! The last close waits for these checks, so a failed check never closes a database.
//!
//! - A file that the open creates has no identity at step 1. If several threads create it, step 3
//!   gives the claim to one of them, and the others wait and join. So a path needs no lock.
//! - Only a thread with the claim locks the file (step 4), and unlocks it after a failed open or at
//!   the last close. So if the lock is refused, another process or other code has a lock.
//! - A thread that waits at step 3 has released its claim of step 1, so no thread waits for it.
//! - A thread that joins at step 3 closes its own descriptor only if the file is locked
//!   exclusively, since this process then has no POSIX locks on it ([`Databases::give_up`]).
//! - A retry from step 1 has one of two causes, with a limit each: the path led to two files during
//!   the attempt, or the process forked ([`crate::fork`], [`MAX_FORKED`]). Opens and closes by
//!   other threads cause no retry.
//!
//! # Fork
//!
//! Each process has its own [`Databases`]. A child of `fork` does not use those of its parent,
//! whose mutexes may be locked. It only closes their locked descriptors ([`crate::fork`]).

use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pagewell::io::identity::{self, AmbiguousFile, Comparison};
use pagewell::io::{Direct, FileId, Transfers, UnlockedFile};
use pagewell::{ErrorKind, File, OpenOptions};
use pagewell_sync::raced::Raced;

use crate::abi;
use crate::cache::{CacheUse, SharedCache};
use crate::descriptors::{Descriptors, Kept, Locked, Wish};
use crate::error::{Failure, cannot, cannot_open};
use crate::locks::Locks;
use crate::options::Options;
use crate::process::Process;
use crate::registry::{Candidate, Claim, Entered, Registry, User};
use crate::shm::Shm;

/// Open database: state that its connections share.
#[derive(Debug)]
pub(crate) struct Database {
    /// Handle from which each connection creates its own. It is dropped after all of those.
    pub(crate) file: File,
    pub(crate) id: FileId,
    pub(crate) path: PathBuf,
    pub(crate) locks: Mutex<Locks>,
    pub(crate) shm: Mutex<Shm>,
    /// Whether the flush at the end of a checkpoint has failed, and was not repeated since.
    is_behind: AtomicBool,
    /// Dropped after `file`.
    locked: Locked,
    cache: CacheUse<'static>,
}

pub(crate) type DatabaseUser = User<'static, FileId, Database>;

type DatabaseCandidate = Candidate<'static, FileId, Database>;

#[derive(Debug)]
struct Databases {
    process: Process,
    registry: Registry<FileId, Database>,
    cache: SharedCache,
    kept: Kept,
    /// Databases of a child of `process`. Set only in the memory of that child.
    of_child: Raced<Databases>,
}

/// Databases of the first process that has opened one.
static FIRST: Raced<Databases> = Raced::new();

pub(crate) fn open(path: &Path, wish: &Wish) -> Result<DatabaseUser, Failure> {
    let databases = Databases::of_this_process();
    databases.kept.close_unused();
    // A failed attempt leaves descriptors that no connection uses.
    retry(path, || {
        let opened = databases.try_open(path, wish);
        databases.kept.close_unused();
        opened
    })
}

/// Maximum number of attempts during which the process forks. A fork makes an attempt fail only
/// during a few system calls, so only a program that forks continually reaches this limit.
const MAX_FORKED: usize = 1000;

/// Calls `attempt` until it returns neither `Replaced` nor `Forked`. Fails after
/// [`UnlockedFile::MOST_TRIES`] results `Replaced`, or [`MAX_FORKED`] results `Forked`.
fn retry<T>(path: &Path, mut attempt: impl FnMut() -> Result<T, NotOpened>) -> Result<T, Failure> {
    let (mut nr_replaced, mut nr_forked) = (0, 0);
    loop {
        match attempt() {
            Ok(opened) => return Ok(opened),
            Err(NotOpened::Failed(failure)) => return Err(failure),
            Err(NotOpened::Replaced) => nr_replaced += 1,
            Err(NotOpened::Forked) => nr_forked += 1,
        }
        if nr_replaced == UnlockedFile::MOST_TRIES {
            return Err(cannot(path, "it is being replaced repeatedly"));
        }
        if nr_forked == MAX_FORKED {
            return Err(cannot(path, "the process forks during each attempt"));
        }
    }
}

#[derive(Debug)]
enum NotOpened {
    /// The path led to several files during the attempt.
    Replaced,
    /// The process has forked during the attempt, and a child may have inherited the descriptor.
    Forked,
    Failed(Failure),
}

impl From<Failure> for NotOpened {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Drops a connection. The drop of the last one syncs and unlocks the database.
///
/// If that fails, unsynced data is dropped, as in a power loss: SQLite keeps its journal or log if
/// a sync of the database fails, and the next open recovers all acknowledged data from it. The
/// database is closed nevertheless, because otherwise it would stay locked.
pub(crate) fn close(database: DatabaseUser) -> Result<(), Failure> {
    Databases::of_this_process().close(database)
}

impl Databases {
    fn new(process: Process) -> Self {
        Self {
            process,
            registry: Registry::new(),
            cache: SharedCache::default(),
            kept: Kept::default(),
            of_child: Raced::new(),
        }
    }

    fn of_this_process() -> &'static Self {
        let this = Process::this();
        let mut found = FIRST.get_or_make(|| Self::new(this));
        while found.process != this {
            found = found.of_child.get_or_make(|| Self::new(this));
        }
        found
    }

    fn try_open(&'static self, path: &Path, wish: &Wish) -> Result<DatabaseUser, NotOpened> {
        // On an error, `open_claimed` drops what it owns before this function ends the claim.
        let cache = self.cache.begin_to_open(wish.options.cache, path)?;
        let claim = match identity::id_at(path) {
            Ok(_) if wish.must_be_new => return Err(cannot(path, "it already exists").into()),
            Ok(id) => match self.registry.enter(id) {
                Entered::Candidate(database) => return join(database, path, wish),
                Entered::Claimed(claim) => Some(claim),
            },
            Err(_) => None,
        };
        let claimed = claim.as_ref().map(Claim::key);
        let descriptors = self.kept.open(path, wish, claimed)?;
        let descriptors = descriptors.ok_or(NotOpened::Replaced)?;
        let id = descriptors.id();
        let claim = match claim {
            Some(claim) if claim.key() == id => claim,
            other => {
                drop(other);
                match self.registry.enter(id) {
                    Entered::Claimed(claim) => claim,
                    Entered::Candidate(database) => {
                        self.give_up(descriptors, &database, path);
                        return join(database, path, wish);
                    }
                }
            }
        };
        let database = self.open_claimed(descriptors, cache, path, wish)?;
        Ok(claim.publish(database))
    }

    fn give_up(&self, descriptors: Descriptors, database: &Database, path: &Path) {
        match descriptors {
            Descriptors::ReadOnly(shared) => drop(shared),
            // No POSIX lock exists on a file that this process has locked exclusively. It stays
            // locked, since the caller is a candidate.
            Descriptors::Writable(file) if database.locked.excludes(&file) => drop(file),
            Descriptors::Writable(file) => self.kept.keep(file, path),
        }
    }

    /// Locks the file, and registers it with the cache. The caller has the claim of the file.
    fn open_claimed(
        &self,
        descriptors: Descriptors,
        cache: CacheUse<'static>,
        path: &Path,
        wish: &Wish,
    ) -> Result<Database, NotOpened> {
        let id = descriptors.id();
        let locked = self.kept.lock(descriptors, path)?;
        let locked = locked.ok_or(NotOpened::Replaced)?;
        if locked.may_be_inherited() {
            return Err(NotOpened::Forked);
        }
        let mut options = OpenOptions::new();
        if let Locked::Exclusive { .. } = locked {
            options = options.write();
        }
        if let Some(bytes) = wish.options.page {
            options = options.page_size(bytes);
        }
        let backend = Arc::clone(locked.backend());
        let file = cache.cache.open_backend_with(backend, path, &options);
        let file = file.map_err(|error| Failure::of(&error, abi::CANTOPEN))?;
        let mut database = Database {
            file,
            id,
            path: path.to_owned(),
            locks: Mutex::default(),
            shm: Mutex::default(),
            is_behind: AtomicBool::new(false),
            locked,
            cache,
        };
        check_options(&database, &wish.options, path)?;
        database.cache.end_open();
        Ok(database)
    }

    #[allow(clippy::result_large_err)] // The file itself; errors are rare.
    fn close(&self, database: DatabaseUser) -> Result<(), Failure> {
        let close = |database| {
            let Database {
                file,
                locked,
                mut cache,
                ..
            } = database;
            cache.begin_close();
            let result = file
                .close()
                // The first attempt may return an earlier writeback error that no longer applies.
                .or_else(|(file, _)| file.close())
                .map_err(|(file, error)| {
                    drop(file);
                    Failure::of(&error, abi::IOERR_CLOSE)
                });
            drop(locked);
            self.kept.close_unused();
            drop(cache);
            result
        };
        database.leave(close).unwrap_or(Ok(()))
    }
}

/// Joins an open database if it is that of `path` and has the requested options.
fn join(database: DatabaseCandidate, path: &Path, wish: &Wish) -> Result<DatabaseUser, NotOpened> {
    if !database.is_at(path)? {
        return Err(NotOpened::Replaced);
    }
    check_options(&database, &wish.options, path)?;
    Ok(database.join())
}

impl Database {
    /// Returns `true` if this process may only read the file.
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self.locked, Locked::Shared(_))
    }

    pub(crate) fn flush(file: &File) -> Result<(), pagewell::Error> {
        // The first call may return an earlier error, which is resolved if the second succeeds.
        file.flush(0..u64::MAX)
            .or_else(|_| file.flush(0..u64::MAX))
            .map(drop)
    }

    /// Records a failed flush that SQLite ignores.
    pub(crate) fn note_behind(&self) {
        // ORDERING: Relaxed; the connection that loads the flag is this one, or has acquired a lock
        // of the database since.
        self.is_behind.store(true, Ordering::Relaxed);
    }

    /// Clears the record, and returns whether there was one. The caller retries the flush.
    pub(crate) fn take_behind(&self) -> bool {
        // ORDERING: Relaxed, as above.
        self.is_behind.swap(false, Ordering::Relaxed)
    }

    /// Returns statistics of the cache, this file and a connection, as a JSON object.
    pub(crate) fn statistics(&self, nr_fetched: u64) -> String {
        let nr_databases = Databases::of_this_process().registry.nr_entries();
        let (all, file) = (self.cache.cache.stats(), self.file.stats());
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
            self.cache.capacity,
            all.nr_frames,
            all.nr_free,
            all.nr_fills,
            all.nr_evictions,
            nr_databases,
            self.file.page_size(),
            file.nr_dirty,
            file.nr_written,
            transfers,
            nr_fetched,
        )
    }

    /// Checks that no other process can use the log, so that its index may be in private memory.
    /// Fails if this process may not write the file and so has only the shared lock: writers that
    /// use a log ignore that lock.
    pub(crate) fn check_may_share_memory(&self) -> Result<(), Failure> {
        if !self.is_read_only() {
            return Ok(());
        }
        Err(cannot(
            &self.path,
            "it has a write-ahead log, and this process may not write it, so it cannot exclude \
             writers; immutable=1 asserts that there are none",
        ))
    }

    /// Returns `true` if `path` leads to this file. The caller has found the same device and inode
    /// number there. If a comparison of the files proves nothing, opens `path`, and fails if no
    /// lock is visible through it: the lock of this database would be. Returns `true` without this
    /// test if this process may only read the file, and also if the lock cannot be queried.
    fn is_at(&self, path: &Path) -> Result<bool, Failure> {
        let found = self.file.compare_path(path);
        match found.map_err(|error| Failure::of(&error, abi::CANTOPEN))? {
            Comparison::Same => Ok(true),
            Comparison::Different => Ok(false),
            // The test would close a descriptor, and so release POSIX locks of SQLite's own VFS.
            Comparison::Unproven if self.is_read_only() => Ok(true),
            // The exclusive lock is visible through all descriptors, and excludes POSIX locks.
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

    /// Returns `true` if `path` now leads to another file, or to none.
    pub(crate) fn has_moved(&self, path: &Path) -> bool {
        match self.file.compare_path(path) {
            Ok(found) => found == Comparison::Different,
            Err(error) if error.kind() == ErrorKind::AmbiguousFile => true,
            // The comparison has failed, for example because too many files are open.
            Err(_) => !self.has_number_at(path),
        }
    }

    /// Returns `true` if `path` leads to a file with this file's device and inode number.
    pub(crate) fn has_number_at(&self, path: &Path) -> bool {
        identity::id_at(path).ok() == Some(self.id)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_end_although_the_process_always_forks_or_the_path_is_always_replaced() {
        let path = Path::new("db");
        let mut nr = 0;
        let failure = retry::<()>(path, || {
            nr += 1;
            Err(NotOpened::Forked)
        });
        assert_eq!(nr, MAX_FORKED);
        assert!(failure.unwrap_err().text.contains("the process forks"));
        // Forks do not count towards the limit for replaced files.
        let mut nr = 0;
        let failure = retry::<()>(path, || {
            nr += 1;
            match nr % 2 {
                0 => Err(NotOpened::Replaced),
                _ => Err(NotOpened::Forked),
            }
        });
        assert_eq!(nr, 2 * UnlockedFile::MOST_TRIES);
        assert!(failure.unwrap_err().text.contains("replaced repeatedly"));
        let mut nr = 0;
        let opened = retry(path, || {
            nr += 1;
            match nr {
                MAX_FORKED => Ok(()),
                _ => Err(NotOpened::Forked),
            }
        });
        assert!(opened.is_ok());
    }
}
