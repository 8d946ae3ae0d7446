//! The [`Backend`] trait and its contract.

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use pagewell_sync::bytes::{RacyBytes, RacySource};

use super::deferred::{Deferred, RawFile};
use super::transfers::Transfers;

/// Identity of a file. In a cache, open backends with equal ids share their cached pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// Device number, `st_dev` for a file of the system.
    pub device: u64,
    /// Number of the file on the device, `st_ino` for a file of the system.
    pub inode: u64,
}

/// Byte-addressed contents of one file.
///
/// # Contract
///
/// - `read_at` accepts any `pos`. It fills `bufs` in order with the bytes from there on, and
///   returns their number; fewer than requested always means that the file ends there. The rest of
///   `bufs`, and all of it after an error, may contain any bytes. A hole reads as zeros.
/// - `write_at` writes all bytes of `bufs` in order from any `pos` on. A write past the end extends
///   the file to the last byte written, and a gap reads as zeros. A write without bytes changes
///   nothing, not even the size. A write that would end past the maximum file offset fails with
///   [`FileTooLarge`](io::ErrorKind::FileTooLarge) and writes nothing. After any other error some
///   bytes may be written and the file may have grown, so the caller writes all bytes again.
/// - `read_at` and `write_at` continue transfers that the system cuts short or interrupts.
/// - `set_size` to a smaller size discards the bytes past it: if the file grows again, they read as
///   zeros. A larger size adds zeros. After an error the file has the old or the new size.
/// - `check_size` fails with [`FileTooLarge`](io::ErrorKind::FileTooLarge) if a write that extends
///   the file to this size is known to fail because of the size. Success guarantees nothing. The
///   cache caches a success, may pass sizes far larger than its writes need, and holds locks during
///   the call, which must therefore neither change the file nor wait for transfers.
/// - `sync_data` makes durable every write and change of size that returned before the call, and
///   the name of a file that this backend created. `sync_all` also covers times and permissions.
/// - For the lifetime of the backend, `id` returns the same id, and no other file has this id.
/// - `is_writable` returns the same value for the lifetime of the backend. If it is `false`, calls
///   that write, set the size or sync change nothing and fail with
///   [`Unsupported`](io::ErrorKind::Unsupported).
/// - Threads may make any calls concurrently. If they write the same byte, one of the writes wins.
/// - Every call that returns an [`io::Result`] may fail. No call may enter the cache.
///
/// The buffers of a read are [`RacyBytes`], because optimistic readers may read them while they are
/// being filled. Those of a write are read-only ([`RacySource`]), because they may be cached pages
/// that other threads have pinned. The cache does not change them during the call.
///
/// No unsafe code relies on a backend's results. A violation of the contract may lose writes, make
/// reads return wrong bytes (even bytes of reused frames), or make calls fail, hang or panic.
///
/// # After a failed sync
///
/// After a failed sync or `begin_sync`, any byte written since the last successful sync may be
/// lost. On Linux, a page that could not be written is usually marked clean. If it stays cached,
/// reads return the new bytes; if it is dropped, old ones. The failure is reported once; a later
/// sync may find nothing to write, and succeed. The caller must **write again everything that was
/// written since the last successful sync**, from its own memory, and then sync again.
///
/// Sizes and names are not lost in this way: the next successful sync makes them durable. (Both are
/// metadata, and a file system that cannot write metadata shuts down or continues to fail.)
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

    /// Writes all bytes of `bufs`, in order, from byte `pos` on. Only a sync ensures durability.
    fn write_at(&self, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
        let _ = (bufs, pos);
        Err(read_only())
    }

    /// Truncates the file, or extends it with zeros, to `size` bytes. A sync makes this durable.
    fn set_size(&self, size: u64) -> io::Result<()> {
        let _ = size;
        Err(read_only())
    }

    /// Returns an error if `size` is known to exceed the device or a limit on file sizes. The cache
    /// calls it before it accepts a write past the sizes that were checked.
    fn check_size(&self, size: u64) -> io::Result<()> {
        let _ = size;
        Ok(())
    }

    /// Permits the backend to start writeback of `range`. The call guarantees no durability.
    ///
    /// The cache calls this for successive ranges. A backend of a slow device should block while
    /// large parts of earlier ranges are not written, so that no call or sync takes too long.
    fn begin_sync(&self, range: Range<u64>) -> io::Result<()> {
        let _ = range;
        Ok(())
    }

    /// Waits until every completed write, and the size needed to read it, survives a loss of power.
    /// See [After a failed sync](Self#after-a-failed-sync).
    fn sync_data(&self) -> io::Result<()> {
        Err(read_only())
    }

    /// Like [`sync_data`](Self::sync_data), but makes all of the file's metadata durable too.
    fn sync_all(&self) -> io::Result<()> {
        Err(read_only())
    }

    /// Returns the alignment in bytes, a power of two, that positions, lengths and addresses must
    /// have for transfers without a copy. It may change.
    fn alignment(&self) -> usize {
        1
    }

    /// Returns `true` only if this backend has neither created nor changed the file. The cache then
    /// closes an unchanged file without a sync. Called with locks of the cache held.
    fn is_as_found(&self) -> bool {
        false
    }

    /// Returns how the bytes of a real or simulated file are transferred, if known.
    fn file_transfers(&self) -> Option<Transfers> {
        None
    }

    /// Returns the backend as a [`Deferred`] if its requests complete later. Engines submit
    /// requests to a `Deferred` and make none of the calls that block.
    fn deferred(&self) -> Option<&dyn Deferred> {
        None
    }

    /// Returns the file whose bytes engines may transfer by its descriptor. A backend that counts,
    /// checks or translates bytes must return `None`.
    fn raw_file(self: Arc<Self>) -> Option<Arc<dyn RawFile>> {
        None
    }
}

pub(crate) fn read_only() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "read-only backend")
}

/// Error of a transfer that would end past the maximum file offset.
pub fn too_large() -> io::Error {
    io::Error::new(
        io::ErrorKind::FileTooLarge,
        "position exceeds the maximum file offset",
    )
}

/// Returns the number of bytes of all buffers.
pub fn total_len<'a>(bufs: &[impl Into<RacySource<'a>> + Copy]) -> usize {
    bufs.iter().map(|buf| (*buf).into().len()).sum()
}

/// Copies the bytes of the buffers, in order.
pub fn gather(bufs: &[RacySource<'_>]) -> Vec<u8> {
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
pub fn scatter(bytes: &[u8], bufs: &[RacyBytes<'_>]) {
    let mut rest = bytes;
    for buf in bufs {
        let (now, later) = rest.split_at(buf.len().min(rest.len()));
        buf.copy_from(0, now);
        rest = later;
    }
}

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

    fn is_as_found(&self) -> bool {
        (**self).is_as_found()
    }

    fn file_transfers(&self) -> Option<Transfers> {
        (**self).file_transfers()
    }

    fn deferred(&self) -> Option<&dyn Deferred> {
        (**self).deferred()
    }

    fn raw_file(self: Arc<Self>) -> Option<Arc<dyn RawFile>> {
        Self::clone(&self).raw_file()
    }
}
