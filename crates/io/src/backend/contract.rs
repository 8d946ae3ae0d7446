//! The [`Backend`] trait and its contract; backends that complete requests later, and files that
//! engines transfer by descriptor.

use std::fmt::{self, Debug};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use pagewell_sync::bytes::{RacyBytes, RacySource};

use super::request::{Kind, Request};

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

/// A backend that accepts a request and completes it later, for example over a network.
///
/// [`Backend::deferred`] returns it. The contract of
/// [`Backend`] applies, with [`Request::buffers`] and [`Request::sources`] as the
/// buffers. Engines submit any number of concurrent requests.
pub trait Deferred: Debug + Send + Sync {
    /// Accepts `request`, and calls [`Request::complete`] when it is done, on any thread, perhaps
    /// before this function returns. This function should not block. A dropped request fails.
    fn start(&self, request: Request);
}

/// A file of the system whose bytes an engine may transfer by its descriptor.
///
/// [`Backend::raw_file`] returns it. Only this crate implements the
/// trait; a backend that merely wraps such a file may return it. If `begin` returns `false`, a
/// thread that may block performs the request by the backend's own calls.
pub trait RawFile: Sealed + Debug + Send + Sync {
    /// Admits `request`, a read or a write, for transfer by the descriptor, as a whole or in
    /// consecutive parts. After `true`, the caller must call [`end`](Self::end) when the last part
    /// is done. Returns `false` if only the backend's own calls can perform the request at present:
    /// it is not aligned, ends past the maximum file offset, or admission would block. Fails with
    /// the error that the backend's own call would return before any system call.
    fn begin(&self, request: &Request) -> io::Result<bool>;

    /// Returns the descriptor for admitted requests. It is the same for the lifetime of the file.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Ends a request that `begin` admitted, once the system has completed its transfers.
    fn end(&self, kind: Kind);

    /// Returns the alignment of transfers in bytes.
    fn unit(&self) -> u64;

    /// Returns `true` if this file has acquired the write lock of its open file description.
    fn is_locked(&self) -> bool;

    /// Returns `true` if the file is known to end at or before `pos`.
    fn ends_at(&self, pos: u64) -> bool;
}

/// Prevents implementations by safe code outside this crate: engines rely on the descriptor of a
/// [`RawFile`], and the cache relies on the drop of an engine's submission contexts. With the
/// feature `testing`, a type can be `Trusted`.
#[expect(unnameable_types, reason = "other crates cannot name it")]
pub trait Sealed {}

/// Kind of transfer by which the bytes of a file are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transfers {
    /// Direct I/O, past the kernel's page cache, in whole multiples of `alignment`.
    Direct {
        /// Alignment of positions, lengths and addresses in bytes, a power of two.
        alignment: usize,
    },
    /// Through the kernel's page cache.
    Buffered(Buffered),
}

/// Reason for reading and writing a file through the kernel's page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Buffered {
    /// Direct I/O was not requested.
    NotAsked,
    /// The system reports no valid alignment for direct I/O, for example because it is too old.
    NoAlignment,
    /// The file system requires an alignment of this many bytes, more than 4096.
    TooCoarse(u32),
    /// The system rejected `O_DIRECT`, with this error number.
    RefusedAtOpen(i32),
    /// The system accepted `O_DIRECT` and rejected an aligned transfer, with this error number.
    RefusedAtTransfer(i32),
}

impl fmt::Display for Transfers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct { alignment } => write!(f, "direct, aligned to {alignment} bytes"),
            Self::Buffered(reason) => write!(f, "through the kernel's page cache: {reason}"),
        }
    }
}

impl fmt::Display for Buffered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |errno: &i32| io::Error::from_raw_os_error(*errno);
        match self {
            Self::NotAsked => f.write_str("direct I/O was not requested"),
            Self::NoAlignment => {
                f.write_str("the file system reports no alignment for direct transfers")
            }
            Self::TooCoarse(alignment) => {
                write!(f, "direct I/O requires an alignment of {alignment} bytes")
            }
            Self::RefusedAtOpen(errno) => {
                write!(f, "the system rejected O_DIRECT: {}", name(errno))
            }
            Self::RefusedAtTransfer(errno) => {
                write!(
                    f,
                    "the system rejected an aligned direct transfer: {}",
                    name(errno)
                )
            }
        }
    }
}
