//! A file, through the operating system's own cache.

#![allow(unsafe_code)] // `preadv` into memory that other threads may be reading.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use pagewell_sync::bytes::RacyBytes;

use crate::{Backend, FileId};

/// How many buffers one system call takes; a longer list takes several.
const MOST_BUFFERS: usize = 64;

/// A regular file, or a block device, read with `preadv`.
#[derive(Debug)]
pub struct FileBackend {
    file: File,
    id: FileId,
}

impl FileBackend {
    /// Opens the file at `path` for reading.
    ///
    /// # Errors
    ///
    /// What the system says; [`io::ErrorKind::IsADirectory`] for a directory, and
    /// [`io::ErrorKind::InvalidInput`] for anything else that has no bytes at positions (a pipe, a
    /// socket, a terminal).
    pub fn open(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        // Without O_NONBLOCK, opening a pipe would wait for its writer; it means nothing for files.
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)
            .map_err(|error| match error.raw_os_error() {
                // What the system says of a socket.
                Some(libc::ENXIO) => not_a_file(),
                _ => error,
            })?;
        Self::from_file(file)
    }

    /// Takes an open file, which must be readable.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn from_file(file: File) -> io::Result<Self> {
        use std::os::unix::fs::FileTypeExt;
        let metadata = file.metadata()?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !kind.is_file() && !kind.is_block_device() {
            return Err(not_a_file());
        }
        let id = FileId {
            device: metadata.dev(),
            inode: metadata.ino(),
        };
        Ok(Self { file, id })
    }
}

fn not_a_file() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "neither a regular file nor a block device",
    )
}

impl Backend for FileBackend {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        // No file has bytes beyond the highest position that the system knows.
        let room = (libc::off_t::MAX as u64).saturating_sub(pos);
        let total: usize = bufs.iter().map(|buf| buf.len()).sum();
        let total = usize::try_from(room).map_or(total, |room| room.min(total));
        let mut done = 0;
        while done < total {
            match read_some(&self.file, bufs, done..total, pos + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn size(&self) -> io::Result<u64> {
        use std::os::unix::fs::FileTypeExt;
        let metadata = self.file.metadata()?;
        if metadata.file_type().is_block_device() {
            // The metadata of a device has no size; its end has a position.
            use std::io::{Seek, SeekFrom};
            return (&self.file).seek(SeekFrom::End(0));
        }
        Ok(metadata.len())
    }

    fn id(&self) -> FileId {
        self.id
    }
}

/// One `preadv` into the bytes of `bufs` in `range`, counted over all of them, or a first part of it.
fn read_some(
    file: &File,
    bufs: &[RacyBytes<'_>],
    range: Range<usize>,
    pos: u64,
) -> io::Result<usize> {
    let Ok(pos) = libc::off_t::try_from(pos) else {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    };
    let mut vectors = [libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    }; MOST_BUFFERS];
    let mut nr = 0;
    let mut skip = range.start;
    let mut left = range.len();
    for buf in bufs {
        if skip >= buf.len() {
            skip -= buf.len();
            continue;
        }
        if nr == MOST_BUFFERS || left == 0 {
            break;
        }
        let rest = buf.slice(skip, left.min(buf.len() - skip));
        left -= rest.len();
        skip = 0;
        vectors[nr] = libc::iovec {
            iov_base: rest.as_ptr().cast(),
            iov_len: rest.len(),
        };
        nr += 1;
    }
    // SAFETY: the first `nr` vectors are ranges of `RacyBytes`, valid for writes during this call.
    // What the kernel writes there is no access by the language, so stale readers are no data race.
    let n = unsafe { libc::preadv(file.as_raw_fd(), vectors.as_ptr(), nr as libc::c_int, pos) };
    if n < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(n as usize)
}
