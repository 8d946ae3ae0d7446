//! The promises of a backend.

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use pagewell_sync::bytes::{RacyBytes, RacySource};

#[cfg(not(loom))]
use super::deferred::{Deferred, RawFile};
#[cfg(not(loom))]
use super::transfers::Transfers;

/// What makes a file the same file: two backends with equal ids share one set of cached pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// The device, as `st_dev`.
    pub device: u64,
    /// The file on the device, as `st_ino`.
    pub inode: u64,
}

/// A file's bytes.
///
/// # Contract
///
/// | call | with | must |
/// |---|---|---|
/// | `read_at` | any position | fill `bufs` in order with the bytes from `pos` on, and return how many bytes that was |
/// | | fewer bytes returned than asked for | mean that the file ends there, and nothing else: a transfer that the system cuts short is taken up again. The rest of `bufs` may have anything |
/// | | a hole | give zeros |
/// | | an interrupted system call | take it up again |
/// | | an error | leave any bytes in `bufs`: the caller shows them to nobody |
/// | `write_at` | any position | write all bytes of `bufs` in order from `pos` on: a transfer that the system cuts short or interrupts is taken up again |
/// | | a position past the end | make the file reach to the last byte written; what lies between reads as zeros |
/// | | no bytes at all | change nothing, not even the size |
/// | | an end that no file can have | fail with [`FileTooLarge`](io::ErrorKind::FileTooLarge), with nothing written |
/// | | an error | have written any of the bytes, or none, and grown the file or not: the caller writes all of them again |
/// | `set_size` | less than the size | drop what is past it for good: if the file grows again, zeros are there |
/// | | more than the size | make the file that long; what is new reads as zeros |
/// | | an error | leave either size |
/// | `sync_data` | success | have made durable every write and every size that returned before the call, and the name by which a file that this backend has made is found |
/// | `sync_all` | success | the same, and the metadata (times, permissions) too |
/// | both | an error | mean nothing about what was written since the last good sync: see below |
/// | `size` | | return the size of now, in bytes |
/// | `id` | | return the same all along, and for no other file at the same time |
/// | `is_writable` | | return the same all along; if false, then the calls that write, set the size or sync fail with [`Unsupported`](io::ErrorKind::Unsupported) and change nothing |
/// | any | several threads | be right; of writes of the same bytes at the same time, either may be the later one, byte by byte |
/// | any | | not call the cache that it serves |
///
/// The buffers of a read may be read by other threads while they are being filled (optimistic readers
/// that have not noticed yet), which is why they are [`RacyBytes`]. Those of a write are to be read only
/// ([`RacySource`]): they are the pages themselves, which others may have pinned. Nobody changes them before the
/// call has returned, which the cache sees to.
///
/// # What a backend that breaks it can do
///
/// A backend is safe code, and nothing unsafe trusts what it answers: one that breaks the contract gives wrong bytes of its
/// own file, or of frames that were in use before, loses what was written, or makes calls fail, hang or panic.
///
/// # What may be concluded from a sync that failed
///
/// Nothing about bytes. The system may have tried to write a page, failed, marked it clean all the
/// same, and dropped it from its memory; or kept it, so that it still reads well; or written it. It
/// says so once. A later sync then has nothing to do and succeeds, with the bytes lost (this is what
/// Linux does, whatever the file system). So whoever wants them must **write again everything that
/// was written since the last sync that succeeded**, from memory of its own, since not even a read
/// need give the bytes back; and then sync again.
///
/// Sizes and names are not forgotten that way: they stay as they were set, and the next sync that
/// succeeds makes them durable. (They are metadata, and a file system that fails to write that stops,
/// or goes on failing.)
pub trait Backend: Debug + Send + Sync + 'static {
    /// Reads the file from byte `pos` on into `bufs`, one after the other; returns how many bytes were
    /// read.
    ///
    /// # Errors
    ///
    /// Whatever the storage says. Nothing is said of the contents of `bufs` then.
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize>;

    /// The size of the file in bytes, as it is now.
    ///
    /// # Errors
    ///
    /// Whatever the storage says.
    fn size(&self) -> io::Result<u64>;

    /// What makes this file the same file as another backend's.
    fn id(&self) -> FileId;

    /// Whether the file can be written through this backend.
    fn is_writable(&self) -> bool {
        false
    }

    /// Writes all bytes of `bufs`, one after the other, to the file from byte `pos` on, which grows if
    /// it ends before. What is written is read by everybody, but not durable before a sync.
    ///
    /// # Errors
    ///
    /// Whatever the storage says; any part may have been written then.
    /// [`io::ErrorKind::Unsupported`] if the backend is not [writable](Self::is_writable).
    fn write_at(&self, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
        let _ = (bufs, pos);
        Err(read_only())
    }

    /// Cuts the file, or makes it grow by zeros, to `size` bytes. Not durable before a sync.
    ///
    /// # Errors
    ///
    /// Whatever the storage says; the file has either size then.
    /// [`io::ErrorKind::Unsupported`] if the backend is not [writable](Self::is_writable).
    fn set_size(&self, size: u64) -> io::Result<()> {
        let _ = size;
        Err(read_only())
    }

    /// What was written to the bytes in `range` of the file is about to be made durable by a sync: the storage may
    /// begin with it now, while more is written. Nothing is promised before the sync.
    ///
    /// Called for one range after the other. A storage that is slow should not return as long as much of earlier ranges is not
    /// done: so no call, and not the sync at the end, takes so long that the storage seems to hang.
    ///
    /// # Errors
    ///
    /// Whatever the storage says that keeps it from taking what was written; [nothing may be
    /// concluded](Self#what-may-be-concluded-from-a-sync-that-failed) then, as from a sync that failed.
    fn begin_sync(&self, range: Range<u64>) -> io::Result<()> {
        let _ = range;
        Ok(())
    }

    /// Waits until everything that was written, and the size needed to read it, is durable: survives a
    /// loss of power.
    ///
    /// # Errors
    ///
    /// Whatever the storage says; [nothing may be
    /// concluded](Self#what-may-be-concluded-from-a-sync-that-failed) then.
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

    /// Transfers whose position, lengths and addresses are multiples of this go straight to the storage; all others are done too, by way of a copy.
    /// A power of two, which may change.
    fn alignment(&self) -> usize {
        1
    }

    /// How the bytes of a file of the system, or of a double of one, are transferred; none for any other storage.
    #[cfg(not(loom))]
    fn file_transfers(&self) -> Option<Transfers> {
        None
    }

    /// The storage as one whose calls complete later, if it is. Engines then give it requests, and make none of the calls that wait.
    #[cfg(not(loom))]
    fn deferred(&self) -> Option<&dyn Deferred> {
        None
    }

    /// The file of the operating system behind the backend, if engines may transfer its bytes themselves. It is asked for once, when the
    /// backend is opened. A backend that does more with a read or a write (counts, checks, translates) must not have one.
    #[cfg(not(loom))]
    fn raw_file(self: Arc<Self>) -> Option<Arc<dyn RawFile>> {
        None
    }
}

/// What a backend that cannot be written answers.
pub(crate) fn read_only() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "read-only backend")
}

/// What a write answers whose end no file can have.
pub(crate) fn too_large() -> io::Error {
    io::Error::new(
        io::ErrorKind::FileTooLarge,
        "past the highest position that a file can have",
    )
}

/// How many bytes the buffers have together.
pub(crate) fn total_len<'a>(bufs: &[impl Into<RacySource<'a>> + Copy]) -> usize {
    bufs.iter().map(|buf| (*buf).into().len()).sum()
}

/// The bytes of the buffers, one after the other.
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

/// Copies `bytes` to the buffers, one after the other; the buffers may be longer.
pub(crate) fn scatter(bytes: &[u8], bufs: &[RacyBytes<'_>]) {
    let mut rest = bytes;
    for buf in bufs {
        let (now, later) = rest.split_at(buf.len().min(rest.len()));
        buf.copy_from(0, now);
        rest = later;
    }
}

/// One backend in several hands: a test's and the cache's, say.
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
