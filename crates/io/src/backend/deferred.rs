//! Backends that complete requests later, and files that engines transfer by descriptor.

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;

use super::request::{Kind, Request};

/// A backend that accepts a request and completes it later, for example over a network.
///
/// [`Backend::deferred`](crate::Backend::deferred) returns it. The contract of
/// [`Backend`](crate::Backend) applies, with [`Request::buffers`] and [`Request::sources`] as the
/// buffers. Engines submit any number of concurrent requests.
pub trait Deferred: Debug + Send + Sync {
    /// Accepts `request`, and calls [`Request::complete`] when it is done, on any thread, perhaps
    /// before this function returns. This function should not block. A dropped request fails.
    fn start(&self, request: Request);
}

/// A file of the system whose bytes an engine may transfer by its descriptor.
///
/// [`Backend::raw_file`](crate::Backend::raw_file) returns it. Only this crate implements the
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

/// Prevents implementations outside this crate: engines rely on the descriptor of a [`RawFile`],
/// and the cache relies on an engine's submission contexts.
#[cfg_attr(
    not(feature = "testing"),
    expect(unnameable_types, reason = "other crates cannot name it")
)]
pub trait Sealed {}
