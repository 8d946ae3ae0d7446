//! The [`Backend`] trait and its contract.

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use pagewell_sync::bytes::{RacyBytes, RacySource};

#[cfg(not(loom))]
use super::deferred::{Deferred, RawFile};
#[cfg(not(loom))]
use super::transfers::Transfers;

/// Identity of a file. Two backends with equal ids share one set of cached pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// The device, as `st_dev`.
    pub device: u64,
    /// The file on the device, as `st_ino`.
    pub inode: u64,
}

/// Byte-addressed contents of one file.
///
/// # Contract
///
/// - `read_at` fills `bufs` in order with the bytes from any `pos` on, and returns their number. A
///   smaller number than requested means that the file ends there, and nothing else; the rest of
///   `bufs` is unspecified. A hole reads as zeros. After an error `bufs` may contain any bytes,
///   which the caller exposes to no reader.
/// - `write_at` writes all bytes of `bufs` in order from any `pos` on. Past the end it extends the
///   file to the last byte written; a gap reads as zeros. Without bytes it changes nothing, not
///   even the size. If no file can have the end, it fails with
///   [`FileTooLarge`](io::ErrorKind::FileTooLarge) and writes nothing. After another error any of
///   the bytes may be written, and the file may have grown: the caller writes all of them again.
/// - Both continue transfers that the system cuts short or interrupts.
/// - `set_size` to less than the size discards the bytes past it for good: if the file grows again,
///   they read as zeros. A larger size extends the file with zeros. An error leaves either size.
/// - `check_size` fails with [`FileTooLarge`](io::ErrorKind::FileTooLarge) if a write that extends
///   the file to this size would fail because of the size. Success guarantees nothing. The cache
///   may ask for sizes far past any write, keeps the answer, and holds locks: the call changes
///   nothing, and does not block.
/// - `sync_data` makes durable every write and every size that returned before the call, and the
///   name of a file that this backend has created. `sync_all` adds times and permissions.
/// - `size` returns the current size in bytes.
/// - `id` returns the same id for the lifetime of the backend. No other file has it at that time.
/// - `is_writable` returns the same for the lifetime of the backend. If it returns `false`, the
///   calls that write, set the size or sync fail with [`Unsupported`](io::ErrorKind::Unsupported)
///   and change nothing.
/// - Any call is correct from several threads at once. Of concurrent writes of the same bytes,
///   either may be the later one, byte by byte.
/// - No call may call the cache that the backend serves.
///
/// Other threads may read the buffers of a read while they are being filled (optimistic readers
/// that have not yet detected the change). They are therefore [`RacyBytes`]. The buffers of a write
/// are read-only ([`RacySource`]): they are the pages themselves, which other threads may have
/// pinned. The cache ensures that they do not change before the call returns.
///
/// A backend is safe code, and no unsafe code relies on its results. A backend that violates the
/// contract returns wrong bytes of its own file or of frames that were in use before, loses writes,
/// or makes calls fail, hang or panic.
///
/// # Errors
///
/// Every call that returns a result may fail with any error of the storage.
///
/// # After a failed sync
///
/// A failed sync or `begin_sync` implies nothing about the bytes written since the last successful
/// sync. The system may have failed to write a page, marked it clean all the same, and dropped it
/// from memory; or kept it, so that it still reads correctly; or written it. It reports the failure
/// once. A later sync then has nothing to write and succeeds, with the bytes lost (Linux does this,
/// whatever the file system). The caller must therefore **write again everything that was written
/// since the last successful sync**, from its own memory, since not even a read is guaranteed to
/// return the bytes; and then sync again.
///
/// Sizes and names are not lost in this way: they stay as they were set, and the next successful
/// sync makes them durable. (They are metadata, and a file system that cannot write metadata stops
/// or keeps failing.)
pub trait Backend: Debug + Send + Sync + 'static {
    /// Reads the file from byte `pos` on into `bufs`, in order. Returns the number of bytes read.
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize>;

    /// Returns the current size of the file in bytes.
    fn size(&self) -> io::Result<u64>;

    /// Returns the identity of the file.
    fn id(&self) -> FileId;

    /// Returns `true` if the file can be written through this backend.
    fn is_writable(&self) -> bool {
        false
    }

    /// Writes all bytes of `bufs`, in order, to the file from byte `pos` on, and extends the file
    /// if it ends before. Every reader sees the bytes; they are not durable before a sync.
    fn write_at(&self, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
        let _ = (bufs, pos);
        Err(read_only())
    }

    /// Truncates the file, or extends it with zeros, to `size` bytes. Not durable before a sync.
    fn set_size(&self, size: u64) -> io::Result<()> {
        let _ = size;
        Err(read_only())
    }

    /// Returns an error if the file cannot grow to `size` bytes: the device ends before, or a limit
    /// on the sizes of files is smaller. The cache calls it before it accepts a write that extends
    /// the file, which reaches the backend later.
    fn check_size(&self, size: u64) -> io::Result<()> {
        let _ = size;
        Ok(())
    }

    /// Permits the storage to start writeback of `range`. Guarantees nothing before the next sync.
    ///
    /// Called for one range after the other. A slow storage should block while much of earlier
    /// ranges is not written, so that neither a call nor the final sync seems to hang.
    fn begin_sync(&self, range: Range<u64>) -> io::Result<()> {
        let _ = range;
        Ok(())
    }

    /// Waits until every write, and the size needed to read it, is durable: survives a loss of
    /// power. See [After a failed sync](Self#after-a-failed-sync).
    fn sync_data(&self) -> io::Result<()> {
        Err(read_only())
    }

    /// As [`sync_data`](Self::sync_data), and the file's metadata too.
    fn sync_all(&self) -> io::Result<()> {
        Err(read_only())
    }

    /// Returns the alignment of direct transfers, a power of two, which may change. A transfer
    /// needs no copy if its position, lengths and addresses are multiples of it.
    fn alignment(&self) -> usize {
        1
    }

    /// Returns how a file of the system, or its test double, is transferred; `None` otherwise.
    #[cfg(not(loom))]
    fn file_transfers(&self) -> Option<Transfers> {
        None
    }

    /// Returns the backend as one whose calls complete later, if it is. Engines then submit
    /// requests to it, and make none of the calls that block.
    #[cfg(not(loom))]
    fn deferred(&self) -> Option<&dyn Deferred> {
        None
    }

    /// Returns the file of the operating system behind the backend if engines may transfer its
    /// bytes themselves. Called once, when the backend is opened. A backend that does more on a
    /// read or a write (counts, checks, translates) must return `None`.
    #[cfg(not(loom))]
    fn raw_file(self: Arc<Self>) -> Option<Arc<dyn RawFile>> {
        None
    }
}

pub(crate) fn read_only() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "read-only backend")
}

/// Returns the error of a write or a size that ends past the maximum file offset.
pub(crate) fn too_large() -> io::Error {
    io::Error::new(
        io::ErrorKind::FileTooLarge,
        "position exceeds the maximum file offset",
    )
}

pub(crate) fn total_len<'a>(bufs: &[impl Into<RacySource<'a>> + Copy]) -> usize {
    bufs.iter().map(|buf| (*buf).into().len()).sum()
}

pub(crate) fn gather(bufs: &[RacySource<'_>]) -> Vec<u8> {
    let mut bytes = vec![0; total_len(bufs)];
    let mut rest = &mut bytes[..];
    for buf in bufs {
        let (now, later) = rest.split_at_mut(buf.len());
        buf.copy_to(0, now);
        rest = later;
    }
    bytes
}

/// Copies `bytes` to the buffers, in order. The buffers may be longer.
pub(crate) fn scatter(bytes: &[u8], bufs: &[RacyBytes<'_>]) {
    let mut rest = bytes;
    for buf in bufs {
        let (now, later) = rest.split_at(buf.len().min(rest.len()));
        buf.copy_from(0, now);
        rest = later;
    }
}

/// A shared backend, for example of a test and the cache.
impl<B: Backend + ?Sized> Backend for Arc<B> {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        (**self).read_at(bufs, pos)
    }

    fn size(&self) -> io::Result<u64> {
        (**self).size()
    }

    fn id(&self) -> FileId {
        (**self).id()
    }

    fn is_writable(&self) -> bool {
        (**self).is_writable()
    }

    fn write_at(&self, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
        (**self).write_at(bufs, pos)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        (**self).set_size(size)
    }

    fn check_size(&self, size: u64) -> io::Result<()> {
        (**self).check_size(size)
    }

    fn begin_sync(&self, range: Range<u64>) -> io::Result<()> {
        (**self).begin_sync(range)
    }

    fn sync_data(&self) -> io::Result<()> {
        (**self).sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        (**self).sync_all()
    }

    fn alignment(&self) -> usize {
        (**self).alignment()
    }

    #[cfg(not(loom))]
    fn file_transfers(&self) -> Option<Transfers> {
        (**self).file_transfers()
    }

    #[cfg(not(loom))]
    fn deferred(&self) -> Option<&dyn Deferred> {
        (**self).deferred()
    }

    #[cfg(not(loom))]
    fn raw_file(self: Arc<Self>) -> Option<Arc<dyn RawFile>> {
        Self::clone(&self).raw_file()
    }
}
