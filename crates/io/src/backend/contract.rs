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
/// `read_at`
/// - Fills `bufs` in order with the bytes from `pos` on, and returns their number. `pos` may be any
///   position.
/// - A number smaller than requested means that the file ends there, and nothing else. The rest of
///   `bufs` is unspecified.
/// - Continues a transfer that the system cuts short or interrupts.
/// - A hole reads as zeros.
/// - After an error, `bufs` may contain any bytes. The caller exposes them to no reader.
///
/// `write_at`
/// - Writes all bytes of `bufs` in order from `pos` on. `pos` may be any position.
/// - Continues a transfer that the system cuts short or interrupts.
/// - Past the end of the file: extends the file to the last byte written; the gap reads as zeros.
/// - With no bytes: changes nothing, not even the size.
/// - With an end that no file can have: fails with [`FileTooLarge`](io::ErrorKind::FileTooLarge),
///   with nothing written.
/// - After an error, any of the bytes may be written, or none, and the file may have grown. The
///   caller writes all of them again.
///
/// `set_size`
/// - To less than the size: discards the bytes past the new size for good. If the file grows again,
///   they read as zeros.
/// - To more than the size: extends the file with zeros.
/// - After an error, the file has either size.
///
/// `sync_data` and `sync_all`
/// - Success makes durable every write and every size that returned before the call, and the name
///   of a file that this backend has created. `sync_all` makes the metadata (times, permissions)
///   durable too.
/// - An error implies nothing about the bytes written since the last successful sync; see below.
///
/// Other calls
/// - `size` returns the current size in bytes.
/// - `id` returns the same id for the lifetime of the backend. No other file has it at the same
///   time.
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
/// # Consequences of a violation
///
/// A backend is safe code, and no unsafe code relies on its results. A backend that violates the
/// contract returns wrong bytes of its own file or of frames that were in use before, loses writes,
/// or makes calls fail, hang or panic.
///
/// # After a failed sync
///
/// A failed sync implies nothing about bytes. The system may have failed to write a page, marked it
/// clean all the same, and dropped it from memory; or kept it, so that it still reads correctly; or
/// written it. It reports the failure once. A later sync then has nothing to write and succeeds,
/// with the bytes lost (Linux does this, whatever the file system). The caller must therefore
/// **write again everything that was written since the last successful sync**, from its own memory,
/// since not even a read is guaranteed to return the bytes; and then sync again.
///
/// Sizes and names are not lost in this way: they stay as they were set, and the next successful
/// sync makes them durable. (They are metadata, and a file system that fails to write metadata
/// stops, or continues to fail.)
pub trait Backend: Debug + Send + Sync + 'static {
    /// Reads the file from byte `pos` on into `bufs`, in order. Returns the number of bytes read.
    ///
    /// # Errors
    ///
    /// Any error of the storage. The contents of `bufs` are then unspecified.
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize>;

    /// Returns the current size of the file in bytes.
    ///
    /// # Errors
    ///
    /// Any error of the storage.
    fn size(&self) -> io::Result<u64>;

    /// Returns the identity of the file.
    fn id(&self) -> FileId;

    /// Returns `true` if the file can be written through this backend.
    fn is_writable(&self) -> bool {
        false
    }

    /// Writes all bytes of `bufs`, in order, to the file from byte `pos` on, and extends the file
    /// if it ends before. Every reader sees the bytes; they are not durable before a sync.
    ///
    /// # Errors
    ///
    /// Any error of the storage; any part may be written then. [`io::ErrorKind::Unsupported`] if
    /// the backend is not [writable](Self::is_writable).
    fn write_at(&self, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
        let _ = (bufs, pos);
        Err(read_only())
    }

    /// Truncates the file, or extends it with zeros, to `size` bytes. Not durable before a sync.
    ///
    /// # Errors
    ///
    /// Any error of the storage; the file has either size then. [`io::ErrorKind::Unsupported`] if
    /// the backend is not [writable](Self::is_writable).
    fn set_size(&self, size: u64) -> io::Result<()> {
        let _ = size;
        Err(read_only())
    }

    /// Starts writeback of the bytes in `range`, which a sync will make durable. Guarantees nothing
    /// before that sync.
    ///
    /// Called for one range after the other. A slow storage should block while much of earlier
    /// ranges is not written, so that neither a call nor the final sync takes long enough to look
    /// like a hang.
    ///
    /// # Errors
    ///
    /// An error of the storage that prevents it from accepting the bytes. As [after a failed
    /// sync](Self#after-a-failed-sync), it implies nothing about them.
    fn begin_sync(&self, range: Range<u64>) -> io::Result<()> {
        let _ = range;
        Ok(())
    }

    /// Waits until every write, and the size needed to read it, is durable: survives a loss of
    /// power.
    ///
    /// # Errors
    ///
    /// Any error of the storage; see [After a failed sync](Self#after-a-failed-sync).
    /// [`io::ErrorKind::Unsupported`] if the backend is not [writable](Self::is_writable).
    fn sync_data(&self) -> io::Result<()> {
        Err(read_only())
    }

    /// As [`sync_data`](Self::sync_data), and the file's metadata too.
    ///
    /// # Errors
    ///
    /// As [`sync_data`](Self::sync_data).
    fn sync_all(&self) -> io::Result<()> {
        Err(read_only())
    }

    /// Returns the alignment of direct transfers, a power of two, which may change. If position,
    /// lengths and addresses are multiples of it, a transfer needs no copy. All others are done
    /// through a copy.
    fn alignment(&self) -> usize {
        1
    }

    /// Returns how the bytes of a file of the system, or of its test double, are transferred;
    /// `None` for any other storage.
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

/// Returns the error of a write to a read-only backend.
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

/// Returns the total length of the buffers in bytes.
pub(crate) fn total_len<'a>(bufs: &[impl Into<RacySource<'a>> + Copy]) -> usize {
    bufs.iter().map(|buf| (*buf).into().len()).sum()
}

/// Copies the bytes of the buffers, in order, to one vector.
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
