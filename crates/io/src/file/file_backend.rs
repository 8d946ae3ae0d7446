//! The backend of a file: open, lock, read, write and sync.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pagewell_sync::bytes::{RacyBytes, RacySource};
use pagewell_sync::process::ProcessId;

use super::blocks::{self, Blocks};
use super::direct::{self, Direct};
use super::gate::Gate;
use super::identity::{self, AmbiguousFile};
use super::lock::{LockWait, check_process};
use super::options::{FileLock, FileOptions};
use super::place::Place;
use super::sync::{self, Begun};
use super::{file_system, lock, open, transfer};
use crate::backend::{
    Backend, FileId, Kind as What, RawFile, Request, Sealed, Transfers, read_only, too_large,
};

/// A regular file or a block device, read and written through the kernel's page cache or past it. A
/// writer keeps the directory open until its first successful sync. In a child of `fork`, all I/O
/// fails with [`Forked`](super::Forked). A drop in the process that opened the file ends the write
/// lock, even if a child has the file open.
#[derive(Debug)]
pub struct FileBackend {
    file: File,
    id: FileId,
    /// Whether the open may have created the file, or a write or a change of size was made.
    may_be_changed: AtomicBool,
    kind: Kind,
    /// Directory entry of the file, or `None` if the backend is read-only. Syncs of a block device
    /// do not sync its directory.
    place: Option<Mutex<Place>>,
    process: ProcessId,
    begun: Mutex<Begun>,
    direct: direct::State,
    /// Excludes partial-block from whole-block writes, if direct transfers were requested.
    gate: Gate,
    /// Whether this backend holds the write lock.
    is_locked: bool,
    before_close: Option<BeforeClose>,
}

type BeforeClose = Box<dyn Debug + Send + Sync + UnwindSafe + RefUnwindSafe>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Regular,
    BlockDevice,
}

impl Kind {
    fn of(file: &File) -> io::Result<(Self, libc::stat)> {
        let stat = identity::stat(file.as_fd())?;
        match stat.st_mode & libc::S_IFMT {
            libc::S_IFREG if file_system::has_no_size(file, stat.st_size as u64)? => {
                Err(invalid("the file system reports no size for the file"))
            }
            libc::S_IFREG => Ok((Self::Regular, stat)),
            libc::S_IFBLK => Ok((Self::BlockDevice, stat)),
            libc::S_IFDIR => Err(io::ErrorKind::IsADirectory.into()),
            _ => Err(not_a_file()),
        }
    }
}

impl FileBackend {
    /// Opens the file at `path` for reading. Acquires no lock, so a writer may use it concurrently.
    ///
    /// Fails with any error of the system; [`io::ErrorKind::IsADirectory`] for a directory, and
    /// [`io::ErrorKind::InvalidInput`] for other files without positions or size (pipes, procfs).
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_for_reading(path, Direct::Never)
    }

    /// Opens a file like [`open`](Self::open), with the given policy for direct I/O. Fails with
    /// [`io::ErrorKind::Unsupported`] if [`Direct::Always`] cannot be satisfied.
    pub fn open_for_reading(path: &Path, direct: Direct) -> io::Result<Self> {
        let file = open::at_path(path, libc::O_RDONLY, 0).map_err(refine)?;
        Self::new(file, None, direct)
    }

    /// Creates a read-only backend from an open, readable file. Fails as [`open`](Self::open) does.
    pub fn from_file(file: File) -> io::Result<Self> {
        Self::from_file_for_reading(file, Direct::Never)
    }

    /// Creates a read-only backend of an open file with this policy for direct I/O. Duplicates of
    /// the descriptor share `O_DIRECT`. Fails as [`open_for_reading`](Self::open_for_reading).
    pub fn from_file_for_reading(file: File, direct: Direct) -> io::Result<Self> {
        Self::check_readable(&file)?;
        let mut backend = Self::new(file, None, Direct::Never)?;
        backend.set_direct(direct)?;
        Ok(backend)
    }

    /// Checks that a backend can read an open file, and returns the identity of the file. Changes
    /// nothing. Fails as [`from_file`](Self::from_file) does.
    pub fn check_readable(file: &File) -> io::Result<FileId> {
        let (_, stat) = Kind::of(file)?;
        open::check_readable(file)?;
        Ok(identity::id_from(&stat))
    }

    /// Sets the mode of transfers of a descriptor whose flags are those of the program.
    fn set_direct(&mut self, direct: Direct) -> io::Result<()> {
        open::clear_flags(&self.file)?;
        self.direct = direct::State::new(&self.file, direct)?;
        Ok(())
    }

    /// Opens a file for reading and writing, following links. Locks it as [`FileLock`] requires.
    ///
    /// # Errors
    ///
    /// - The errors of [`open`](Self::open), and those of opening for writing.
    /// - [`io::ErrorKind::ResourceBusy`]: the file is open for writing elsewhere, in this or
    ///   another process, also at the end of a wait; or it is replaced repeatedly.
    /// - [`io::ErrorKind::AlreadyExists`]: the file exists, and the options require a new one.
    /// - [`io::ErrorKind::PermissionDenied`] also if the file would be created in a directory that
    ///   is not readable, since that directory could not be synced.
    /// - [`io::ErrorKind::Unsupported`] also if the file system has no such locks, or if a block
    ///   device is to be truncated.
    pub fn open_writable(path: &Path, options: &FileOptions) -> io::Result<Self> {
        let mut wait = LockWait::new(options.file_lock());
        for _ in 0..UnlockedFile::MOST_TRIES {
            let unlocked = Self::open_unlocked(path, options)?;
            if let Some(locked) = unlocked.lock_within(&mut wait)? {
                return locked.truncated_by(options);
            }
        }
        Err(replaced())
    }

    /// Creates a writable backend from an open file. Locks and truncates it as the options require.
    /// Fails as [`UnlockedFile::from_file`] and [`open_writable`](Self::open_writable) do.
    pub fn from_file_writable(file: File, options: &FileOptions) -> io::Result<Self> {
        let mut wait = LockWait::new(options.file_lock());
        let locked = UnlockedFile::from_file(file, options)?.lock_within(&mut wait)?;
        // The path of a descriptor's file is unknown, so the file never counts as replaced.
        locked.ok_or_else(replaced)?.truncated_by(options)
    }

    fn truncated_by(self, options: &FileOptions) -> io::Result<Self> {
        if options.truncates() {
            self.set_size(0)?;
        }
        Ok(self)
    }

    /// Opens a file like [`open_writable`](Self::open_writable), but neither locks nor truncates
    /// it. The caller [locks](UnlockedFile::lock) it later, and truncates it last.
    pub fn open_unlocked(path: &Path, options: &FileOptions) -> io::Result<UnlockedFile> {
        let (place, file) = Place::open(path, options).map_err(refine)?;
        Ok(UnlockedFile {
            backend: Self::new(file, Some(Mutex::new(place)), options.asked())?,
            lock: options.file_lock(),
            given: None,
        })
    }

    fn new(file: File, place: Option<Mutex<Place>>, direct: Direct) -> io::Result<Self> {
        let (kind, stat) = Kind::of(&file)?;
        Ok(Self {
            direct: direct::State::new(&file, direct)?,
            id: identity::id_from(&stat),
            // `st_size` of a device is 0, too.
            may_be_changed: AtomicBool::new(stat.st_size == 0),
            file,
            kind,
            place,
            process: ProcessId::current(),
            begun: Mutex::default(),
            gate: Gate::default(),
            is_locked: false,
            before_close: None,
        })
    }

    /// Returns how transfers are made at present.
    pub fn transfers(&self) -> Transfers {
        self.direct.transfers()
    }

    #[cfg(test)]
    pub(super) fn tell_alignment(&mut self, asked: Direct, alignment: u32) {
        self.direct = direct::State::with_alignment(&self.file, asked, || alignment).unwrap();
    }

    /// Calls `transfer` with the alignment of direct I/O, or with `None` for buffered I/O. Repeats
    /// a rejected direct transfer if [`direct::State::refused`] permits it.
    fn by_any_way<T>(&self, transfer: impl Fn(Option<usize>) -> io::Result<T>) -> io::Result<T> {
        loop {
            let unit = self.direct.unit();
            match (transfer(unit), unit) {
                (Err(error), Some(unit)) => self.direct.refused(&self.file, unit, error)?,
                (result, _) => return result,
            }
        }
    }

    /// Returns the size, which may be too large while a partial tail block is written directly.
    fn size_now(&self) -> io::Result<u64> {
        match self.kind {
            Kind::Regular => Ok(self.file.metadata()?.len()),
            Kind::BlockDevice => {
                // The metadata of a device has no size, but a seek to its end returns a position.
                use std::io::{Seek, SeekFrom};
                (&self.file).seek(SeekFrom::End(0))
            }
        }
    }

    pub(super) fn place(&self) -> io::Result<MutexGuard<'_, Place>> {
        let place = self.place.as_ref().ok_or_else(read_only)?;
        Ok(place.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Syncs the file by `sync`, then its directory, if the file's name may not be durable yet.
    fn sync_by(&self, sync: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
        self.check_writable()?;
        // The sync waits for the ranges in flight.
        *self.begun() = Begun::default();
        sync(&self.file)?;
        match self.kind {
            Kind::Regular => self.place()?.sync(),
            Kind::BlockDevice => Ok(()),
        }
    }

    fn begun(&self) -> MutexGuard<'_, Begun> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_change(&self) -> io::Result<()> {
        self.check_writable()?;
        // ORDERING: Relaxed; see `is_as_found`. The load avoids contention for the cache line.
        if !self.may_be_changed.load(Ordering::Relaxed) {
            // ORDERING: Relaxed, as above.
            self.may_be_changed.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn check_writable(&self) -> io::Result<()> {
        check_process(self.process)?;
        self.place.as_ref().map(drop).ok_or_else(read_only)
    }
}

/// A file that is open for writing and not locked, so another writer may have it open. Nothing was
/// changed, except that the open may have created the file.
#[derive(Debug)]
pub struct UnlockedFile {
    backend: FileBackend,
    lock: FileLock,
    /// Policy for direct I/O of a descriptor that the program passed; `None` if the file was opened
    /// by path. It takes effect once the file is locked, since duplicates share `O_DIRECT`.
    given: Option<Direct>,
}

/// Serializes locking of descriptors from the program: at most one of several duplicates succeeds.
static GIVEN: Mutex<()> = Mutex::new(());

impl UnlockedFile {
    /// Maximum number of opens of a file that is replaced concurrently.
    pub const MOST_TRIES: usize = 16;

    /// Uses a file that the program has opened for reading and writing, possibly without a name (an
    /// unlinked file, a memfd, a descriptor from another process). Its bytes are kept. The program
    /// itself syncs the directory of a new file.
    ///
    /// Duplicates of the descriptor share the lock and the mode of transfers (`O_DIRECT`), which
    /// becomes that of the options once the file is locked. The program must not change the file
    /// through a duplicate, nor may another process pass one to this function.
    ///
    /// # Errors
    ///
    /// - [`io::ErrorKind::PermissionDenied`]: the descriptor is not open for reading and writing,
    ///   or the file is sealed against writes or growth.
    /// - [`io::ErrorKind::Unsupported`]: the descriptor appends all writes (`O_APPEND`).
    ///   [`lock`](Self::lock) also fails with this kind, if the lock or required direct I/O is
    ///   unavailable.
    /// - The errors of [`FileBackend::open`] for directories and pipes.
    pub fn from_file(file: File, options: &FileOptions) -> io::Result<Self> {
        // `new` checks the kind of the file, so that check comes first.
        let mut backend = FileBackend::new(file, None, Direct::Never)?;
        open::check_writable(&backend.file)?;
        backend.place = Some(Mutex::new(Place::of(None)));
        Ok(Self {
            backend,
            lock: options.file_lock(),
            given: Some(options.asked()),
        })
    }

    /// Returns the identity of the file.
    pub fn id(&self) -> FileId {
        self.backend.id
    }

    /// Attaches a value that is dropped before the descriptor is closed, and (except in a child of
    /// `fork`) after the file is unlocked. Its drop can remove a record of the descriptor's number
    /// before the number is reused. Replaces an earlier value.
    pub fn drop_before_close(
        &mut self,
        value: impl Debug + Send + Sync + UnwindSafe + RefUnwindSafe + 'static,
    ) {
        self.backend.before_close = Some(Box::new(value));
    }

    /// Locks the file against other writers, unless the options say [`FileLock::None`], and keeps
    /// its bytes. Does not wait. Returns `None` if the path no longer leads to the file, so that
    /// writes would be lost: the caller opens the path again.
    ///
    /// # Errors
    ///
    /// - [`io::ErrorKind::ResourceBusy`]: the file is open for writing elsewhere, in any process.
    /// - [`AmbiguousFile`]: the file system changes the file's number.
    /// - Any other error of the operating system.
    pub fn lock(self) -> io::Result<Option<FileBackend>> {
        self.lock_or_keep().map_err(|(_, error)| error)
    }

    /// Locks the file like [`lock`](Self::lock), but returns the file, still open, with an error.
    /// The program can retry, and need not close the descriptor: a close would release all
    /// `F_SETLK` locks that other code of this process, such as SQLite, holds on the file.
    #[allow(clippy::result_large_err)] // The file itself; opens are rare.
    pub fn lock_or_keep(mut self) -> Result<Option<FileBackend>, (Self, io::Error)> {
        if let Err(error) = self.acquire() {
            return Err((self, error));
        }
        let is_in_place = match self.given {
            Some(direct) => self.backend.set_direct(direct).map(|()| true),
            None => self.is_in_place(),
        };
        match is_in_place {
            Ok(true) => {
                if let Ok(mut place) = self.backend.place() {
                    place.forget_entry();
                    if self.backend.kind == Kind::BlockDevice {
                        place.unsynced.clear();
                    }
                }
                Ok(Some(self.backend))
            }
            Ok(false) => Ok(None),
            Err(error) => {
                self.backend.release();
                Err((self, error))
            }
        }
    }

    /// Locks the file like [`lock`](Self::lock), but waits for another writer as `wait` permits.
    fn lock_within(mut self, wait: &mut LockWait) -> io::Result<Option<FileBackend>> {
        loop {
            match self.lock_or_keep() {
                Ok(locked) => return Ok(locked),
                Err((kept, error)) if error.kind() == io::ErrorKind::ResourceBusy => {
                    if kept.is_replaced() {
                        return Ok(None);
                    }
                    if !wait.sleep() {
                        return Err(match wait.describe() {
                            Some(waited) => {
                                io::Error::new(error.kind(), format!("{error}: {waited}"))
                            }
                            None => error,
                        });
                    }
                    self = kept;
                }
                Err((_, error)) => return Err(error),
            }
        }
    }

    fn acquire(&mut self) -> io::Result<()> {
        if self.lock == FileLock::None {
            return Ok(());
        }
        let _given = self
            .given
            .map(|_| GIVEN.lock().unwrap_or_else(PoisonError::into_inner));
        // An open file description that has the lock would get it again.
        if self.given.is_some() && identity::is_locked(self.as_fd()).unwrap_or(true) {
            return Err(lock::taken());
        }
        lock::take(&self.backend.file)?;
        self.backend.is_locked = true;
        Ok(())
    }

    /// Returns `true` if the path is known to lead to another file or to none.
    pub fn is_replaced(&self) -> bool {
        matches!(self.is_in_place(), Ok(false))
    }

    /// Returns `true` if the path leads to the file, or if it was opened without a name.
    fn is_in_place(&self) -> io::Result<bool> {
        let is_so = self.backend.place()?.leads_to(self.backend.id)?;
        if !is_so && identity::id_of(self.as_fd())? != self.backend.id {
            return Err(AmbiguousFile::NumberChanges.into());
        }
        Ok(is_so)
    }
}

impl AsFd for UnlockedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.backend.file.as_fd()
    }
}

fn refine(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        // The system's misleading error for a socket.
        Some(libc::ENXIO) => not_a_file(),
        _ => error,
    }
}

fn not_a_file() -> io::Error {
    invalid("neither a regular file nor a block device")
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

fn replaced() -> io::Error {
    io::Error::new(
        io::ErrorKind::ResourceBusy,
        "the file was replaced repeatedly while it was being opened",
    )
}

impl FileBackend {
    fn release(&mut self) {
        // A forked child shares the open file description. Without this unlock, the file stays
        // locked while the child has it open. An unlock in the child would end the parent's lock.
        if self.is_locked && self.process.is_current() {
            lock::release(&self.file);
            self.is_locked = false;
        }
    }
}

impl Drop for FileBackend {
    fn drop(&mut self) {
        self.release();
        drop(self.before_close.take());
    }
}

impl Backend for FileBackend {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        check_process(self.process)?;
        self.by_any_way(|unit| match unit {
            Some(unit) => blocks::read(self, bufs, pos, unit),
            None => transfer::read(&self.file, bufs, pos, 1),
        })
    }

    fn size(&self) -> io::Result<u64> {
        check_process(self.process)?;
        let _shared = self.direct.is_asked().then(|| self.gate.share());
        self.size_now()
    }

    fn id(&self) -> FileId {
        self.id
    }

    fn is_writable(&self) -> bool {
        self.place.is_some()
    }

    fn write_at(&self, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
        self.begin_change()?;
        self.by_any_way(|unit| match unit {
            Some(unit) => blocks::write(self, &self.gate, bufs, pos, unit),
            None => {
                // Another thread may still be writing a partial block directly.
                let _shared = self.direct.is_asked().then(|| self.gate.share());
                transfer::write(&self.file, bufs, pos)
            }
        })
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.begin_change()?;
        if self.kind == Kind::BlockDevice {
            if size == self.size()? {
                return Ok(());
            }
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "cannot change the size of a block device",
            ));
        }
        if size > transfer::MOST_BYTES {
            return Err(too_large());
        }
        let _alone = self.direct.is_asked().then(|| self.gate.alone());
        // The standard library repeats an interrupted call.
        self.file.set_len(size)
    }

    fn check_size(&self, size: u64) -> io::Result<()> {
        self.check_writable()?;
        match self.kind {
            Kind::Regular => {
                // A direct write of the tail writes a whole block.
                let unit = self.direct.unit().unwrap_or(1) as u64;
                file_system::check_size(
                    &self.file,
                    size.checked_next_multiple_of(unit).unwrap_or(size),
                )
            }
            // A device may have grown since the open.
            Kind::BlockDevice => file_system::check_device(self.size_now()?, size),
        }
    }

    fn begin_sync(&self, range: Range<u64>) -> io::Result<()> {
        self.check_writable()?;
        if sync::begin(&self.file, &range)? {
            self.begun().add(range);
        }
        loop {
            // A call in the condition of the `match` would hold the lock during the wait.
            let surplus = self.begun().take_surplus();
            match surplus {
                Some(range) => sync::await_begun(&self.file, &range)?,
                None => return Ok(()),
            }
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync_by(sync::data)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_by(sync::all)
    }

    fn alignment(&self) -> usize {
        self.direct.unit().unwrap_or(1)
    }

    fn is_as_found(&self) -> bool {
        // ORDERING: Relaxed; the flag publishes no other memory. Callers order it by other means.
        !self.may_be_changed.load(Ordering::Relaxed)
    }

    fn file_transfers(&self) -> Option<Transfers> {
        Some(self.transfers())
    }

    fn raw_file(self: Arc<Self>) -> Option<Arc<dyn RawFile>> {
        Some(self)
    }
}

impl Blocks for FileBackend {
    fn read(&self, bufs: &[RacyBytes<'_>], pos: u64, unit: usize) -> io::Result<usize> {
        transfer::read(&self.file, bufs, pos, unit)
    }

    fn write(&self, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
        transfer::write(&self.file, bufs, pos)
    }

    fn size_if_any(&self) -> io::Result<Option<u64>> {
        match self.kind {
            Kind::Regular => Ok(Some(self.file.metadata()?.len())),
            Kind::BlockDevice => Ok(None),
        }
    }

    fn set_size_apart(&self, size: u64) -> io::Result<()> {
        self.file.set_len(size)
    }

    fn ends_at(&self, pos: u64) -> bool {
        self.size_now().is_ok_and(|size| size <= pos)
    }
}

impl Sealed for FileBackend {}

impl RawFile for FileBackend {
    fn begin(&self, request: &Request) -> io::Result<bool> {
        let is_write = request.kind() == What::Write;
        match is_write {
            true => self.begin_change()?,
            false => check_process(self.process)?,
        }
        let spans = request.spans().iter().copied();
        let unit = self.direct.unit().unwrap_or(1);
        // The backend's calls handle partial blocks, and ends past the maximum file offset.
        if !blocks::are_aligned(spans, request.pos(), unit) {
            return Ok(false);
        }
        if is_write && self.direct.is_asked() && !self.gate.try_share() {
            return Ok(false);
        }
        Ok(true)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn end(&self, kind: What) {
        if kind == What::Write && self.direct.is_asked() {
            self.gate.unshare();
        }
    }

    fn is_locked(&self) -> bool {
        self.is_locked
    }

    fn unit(&self) -> u64 {
        self.alignment() as u64
    }

    fn ends_at(&self, pos: u64) -> bool {
        Blocks::ends_at(self, pos)
    }
}
