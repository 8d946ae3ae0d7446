//! The backend that is a file: opened, locked, read and written.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pagewell_sync::bytes::{RacyBytes, RacySource};

use super::begun::Begun;
use super::blocks::{self, Blocks};
use super::direct::{self, Direct};
use super::gate::Gate;
use super::identity::{self, AmbiguousFile};
use super::options::FileOptions;
use super::owner::Owner;
use super::place::Place;
use super::{lock, open, sync, transfer};
use crate::backend::{
    Backend, FileId, Kind as What, RawFile, Request, Sealed, Transfers, read_only, too_large,
};

/// A regular file, or a block device, read with `preadv` and written with `pwritev` (or `pread` and `pwrite`), through the operating system's cache or past it.
///
/// After the process has forked, only the one that opened the file can use it: in the other, every
/// call fails with [`Forked`](super::Forked). The lock of a writer ends when the backend is dropped by the process
/// that opened it, even if a child still has the file open.
#[derive(Debug)]
pub struct FileBackend {
    file: File,
    id: FileId,
    kind: Kind,
    access: Access,
    owner: Owner,
    /// What is on its way to the device since the last sync.
    begun: Mutex<Begun>,
    direct: direct::State,
    /// Who writes whole blocks, and who parts of them. Of use only if direct transfers were asked for.
    gate: Gate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Regular,
    BlockDevice,
}

#[derive(Debug)]
enum Access {
    Read,
    /// With the lock. A block device has a place too, which is not synced: its name is the
    /// system's.
    Write {
        place: Mutex<Place>,
    },
}

impl FileBackend {
    /// Opens the file at `path` for reading. It takes no lock, and works beside a writer.
    ///
    /// # Errors
    ///
    /// What the system says; [`io::ErrorKind::IsADirectory`] for a directory, and
    /// [`io::ErrorKind::InvalidInput`] for anything else that has no bytes at positions (a pipe, a
    /// socket, a terminal).
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_for_reading(path, Direct::Never)
    }

    /// As [`open`](Self::open), and past the operating system's cache if `direct` says so.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); [`io::ErrorKind::Unsupported`] if the answer to [`Direct::Always`] is no.
    pub fn open_for_reading(path: &Path, direct: Direct) -> io::Result<Self> {
        let file = open::at_path(path, libc::O_RDONLY, 0).map_err(refine)?;
        Self::new(file, Access::Read, direct)
    }

    /// Takes an open file, which must be readable. It is not written, even if it could be.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn from_file(file: File) -> io::Result<Self> {
        Self::new(file, Access::Read, Direct::Never)
    }

    /// Opens the file at `path` for reading and writing, and locks it against other writers. A
    /// symbolic link is followed.
    ///
    /// # Errors
    ///
    /// - As [`open`](Self::open), and what the system says of writing.
    /// - [`io::ErrorKind::ResourceBusy`]: the file is open for writing elsewhere, in this or another
    ///   process.
    /// - [`io::ErrorKind::AlreadyExists`]: there is a file, and the options want a new one.
    /// - [`io::ErrorKind::PermissionDenied`] also if the directory of the file may not be read: it
    ///   could not be synced.
    /// - [`io::ErrorKind::InvalidInput`] also if a block device is to be truncated.
    pub fn open_writable(path: &Path, options: &FileOptions) -> io::Result<Self> {
        for _ in 0..UnlockedFile::MOST_TRIES {
            if let Some(locked) = Self::open_unlocked(path, options)?.lock()? {
                if options.truncates() {
                    locked.set_size(0)?;
                }
                return Ok(locked);
            }
        }
        Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "the file is replaced again and again while it is being opened",
        ))
    }

    /// As [`open_writable`](Self::open_writable), but the file is neither locked nor truncated: the caller locks it, and truncates it
    /// as the last step, since no later check can fail then. Opening may be slow, and other threads that find the file locked wait.
    ///
    /// # Errors
    ///
    /// As [`open_writable`](Self::open_writable), but for those of [`lock`](UnlockedFile::lock).
    pub fn open_unlocked(path: &Path, options: &FileOptions) -> io::Result<UnlockedFile> {
        let (place, file) = Place::open(path, options).map_err(refine)?;
        let place = Mutex::new(place);
        Ok(UnlockedFile {
            backend: Self::new(file, Access::Write { place }, options.asked())?,
        })
    }

    fn new(file: File, access: Access, direct: Direct) -> io::Result<Self> {
        let (id, mode) = identity::id_and_mode(file.as_fd())?;
        let kind = match mode & libc::S_IFMT {
            libc::S_IFREG => Kind::Regular,
            libc::S_IFBLK => Kind::BlockDevice,
            libc::S_IFDIR => return Err(io::ErrorKind::IsADirectory.into()),
            _ => return Err(not_a_file()),
        };
        Ok(Self {
            direct: direct::State::new(&file, direct)?,
            file,
            id,
            kind,
            access,
            owner: Owner::this_process(),
            begun: Mutex::default(),
            gate: Gate::default(),
        })
    }

    /// Whether the bytes go past the operating system's cache now, and if not, why.
    pub fn transfers(&self) -> Transfers {
        self.direct.transfers()
    }

    /// Has the system tell this alignment, whatever it told.
    #[cfg(test)]
    pub(super) fn tell_alignment(&mut self, asked: Direct, alignment: u32) {
        self.direct = direct::State::with_alignment(&self.file, asked, || alignment).unwrap();
    }

    /// Tries `transfer`, which is told the alignment if it is to be direct, until it is done or there is no other way.
    fn by_any_way<T>(&self, transfer: impl Fn(Option<usize>) -> io::Result<T>) -> io::Result<T> {
        loop {
            let unit = self.direct.unit();
            match (transfer(unit), unit) {
                (Err(error), Some(unit)) => self.direct.refused(&self.file, unit, error)?,
                (result, _) => return result,
            }
        }
    }

    /// The size as the system tells it: for a moment too large while the tail of a file that is transferred directly is written.
    fn size_now(&self) -> io::Result<u64> {
        match self.kind {
            Kind::Regular => Ok(self.file.metadata()?.len()),
            Kind::BlockDevice => {
                // The metadata of a device has no size; its end has a position.
                use std::io::{Seek, SeekFrom};
                (&self.file).seek(SeekFrom::End(0))
            }
        }
    }

    /// The place of a file that is open for writing.
    pub(super) fn place(&self) -> io::Result<MutexGuard<'_, Place>> {
        match &self.access {
            Access::Read => Err(read_only()),
            Access::Write { place } => Ok(place.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Syncs the file by `sync`, and its directory if it may not be durable yet.
    fn sync_by(&self, sync: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
        self.check_writable()?;
        // The sync waits for them.
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

    /// Whether this process may write the file.
    fn check_writable(&self) -> io::Result<()> {
        self.owner.check()?;
        match self.access {
            Access::Read => Err(read_only()),
            Access::Write { .. } => Ok(()),
        }
    }
}

/// A file that was opened for writing, and may be open for writing elsewhere. Nothing was changed but that it was made, if
/// there was none.
#[derive(Debug)]
pub struct UnlockedFile {
    backend: FileBackend,
}

impl UnlockedFile {
    /// How often who opens for writing should start anew because the file was replaced meanwhile.
    pub const MOST_TRIES: usize = 16;

    /// Which file it is.
    pub fn id(&self) -> FileId {
        self.backend.id
    }

    /// Locks the file against other writers; it keeps its bytes. Returns `None` if another file was put in its place since it was
    /// opened: bytes written to this one would never be read, so the caller opens the path again.
    ///
    /// # Errors
    ///
    /// - [`io::ErrorKind::ResourceBusy`]: the file is open for writing elsewhere, in this or another process.
    /// - [`AmbiguousFile`]: the file system changes the file's number.
    /// - Any other error of the operating system.
    pub fn lock(self) -> io::Result<Option<FileBackend>> {
        self.lock_or_keep().map_err(|(_, error)| error)
    }

    /// As [`lock`](Self::lock), but a file that could not be locked is given back, still open. To close a descriptor of a file ends all
    /// locks that other code of this process has on it by `F_SETLK`, as SQLite has them; so a program in which there is such code keeps the file
    /// instead, and may try again.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), with the file.
    #[allow(clippy::result_large_err)] // The file as it is; who opens one does not do so often.
    pub fn lock_or_keep(self) -> Result<Option<FileBackend>, (Self, io::Error)> {
        if let Err(error) = lock::take(&self.backend.file) {
            return Err((self, error));
        }
        match self.is_in_place() {
            Ok(true) => Ok(Some(self.backend)),
            Ok(false) => Ok(None),
            Err(error) => {
                lock::release(&self.backend.file);
                Err((self, error))
            }
        }
    }

    /// Whether the name still leads to the file.
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

/// `error` of opening a file, said so that it is understood.
fn refine(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        // What the system says of a socket.
        Some(libc::ENXIO) => not_a_file(),
        _ => error,
    }
}

fn not_a_file() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "neither a regular file nor a block device",
    )
}

impl Drop for FileBackend {
    fn drop(&mut self) {
        // A child that this process has forked meanwhile shares the open file description. So to
        // close the file here would leave it locked for as long as the child lives; and to unlock it
        // in the child would unlock it for this process.
        if self.is_writable() && self.owner.check().is_ok() {
            lock::release(&self.file);
        }
    }
}

impl Backend for FileBackend {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        self.owner.check()?;
        self.by_any_way(|unit| match unit {
            Some(unit) => blocks::read(self, bufs, pos, unit),
            None => transfer::read(&self.file, bufs, pos, 1),
        })
    }

    fn size(&self) -> io::Result<u64> {
        self.owner.check()?;
        let _shared = self.direct.is_asked().then(|| self.gate.share());
        self.size_now()
    }

    fn id(&self) -> FileId {
        self.id
    }

    fn is_writable(&self) -> bool {
        matches!(self.access, Access::Write { .. })
    }

    fn write_at(&self, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
        self.check_writable()?;
        self.by_any_way(|unit| match unit {
            Some(unit) => blocks::write(self, &self.gate, bufs, pos, unit),
            None => {
                // It may have been direct a moment ago, with somebody still at it.
                let _shared = self.direct.is_asked().then(|| self.gate.share());
                transfer::write(&self.file, bufs, pos)
            }
        })
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.check_writable()?;
        if self.kind == Kind::BlockDevice {
            if size == self.size()? {
                return Ok(());
            }
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a block device has one size only",
            ));
        }
        if size > transfer::MOST_BYTES {
            return Err(too_large());
        }
        let _alone = self.direct.is_asked().then(|| self.gate.alone());
        // This is taken up again by the standard library if it is interrupted.
        self.file.set_len(size)
    }

    fn begin_sync(&self, range: Range<u64>) -> io::Result<()> {
        self.check_writable()?;
        if sync::begin(&self.file, &range)? {
            self.begun().add(range);
        }
        loop {
            // Apart from the wait, in which the lock would be in hand.
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

    fn file_transfers(&self) -> Option<Transfers> {
        Some(self.transfers())
    }

    fn raw_file(self: Arc<Self>) -> Option<Arc<dyn RawFile>> {
        Some(self)
    }
}

/// Its blocks, past the operating system's cache.
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
            true => self.check_writable()?,
            false => self.owner.check()?,
        }
        let spans = request.spans().iter().copied();
        let unit = self.direct.unit().unwrap_or(1);
        // Parts of blocks, and ends that no file can have, take more than a transfer.
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

    fn unit(&self) -> u64 {
        self.alignment() as u64
    }

    fn ends_at(&self, pos: u64) -> bool {
        Blocks::ends_at(self, pos)
    }
}
