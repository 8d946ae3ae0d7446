//! What a backend promises.

use std::fmt::Debug;
use std::io;

use pagewell_sync::bytes::RacyBytes;

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
/// | | fewer bytes returned than asked for | mean that the file ends there, and nothing else: a transfer that the system cuts short is taken up again |
/// | | a hole | give zeros |
/// | | an interrupted system call | take it up again |
/// | | an error | leave any bytes in `bufs`: the caller shows them to nobody |
/// | `size` | | return the size of now, in bytes |
/// | `id` | | return the same all along, and for no other file at the same time |
/// | any | several threads | be right |
/// | any | | not call the cache that it serves |
///
/// The buffers may be read by other threads while they are being filled (optimistic readers that have
/// not noticed yet), which is why they are [`RacyBytes`].
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
}
