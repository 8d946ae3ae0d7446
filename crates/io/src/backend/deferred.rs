//! Backends whose calls complete later.

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;

use super::request::{Kind, Request};

/// A backend that accepts a request and completes it later, for example over a network.
///
/// [`Backend::deferred`](crate::Backend::deferred) returns it. It must satisfy the contract of
/// [`Backend`](crate::Backend), with [`Request::buffers`] and [`Request::sources`] as the buffers.
/// Engines submit any number of concurrent requests to it. A thread of the cache that waits for one
/// page alone calls [`Backend::read_at`](crate::Backend::read_at) instead.
pub trait Deferred: Debug + Send + Sync {
    /// Accepts `request`. Calls [`Request::complete`] when done, on any thread, even before return.
    ///
    /// It should not block: its callers have more requests. A request that is dropped fails.
    fn start(&self, request: Request);
}

/// A file of the system whose bytes an engine may transfer by its descriptor.
///
/// [`Backend::raw_file`](crate::Backend::raw_file) returns it. Only this crate has such files; a
/// backend that adds nothing to one may pass it on. The engine performs what `begin` does not admit
/// by the backend's own calls, on a thread that may block.
pub trait RawFile: Sealed + Debug + Send + Sync {
    /// Admits `request`, a read or a write, to transfer by the descriptor, whole or in consecutive
    /// parts. After `true`, the caller must call [`end`](Self::end) when the last part is done.
    /// Returns `false` if the backend's own calls must perform it at this time: because of its
    /// alignment or its end, or because admission would block.
    ///
    /// # Errors
    ///
    /// The error that the backend's own call would return without a system call.
    fn begin(&self, request: &Request) -> io::Result<bool>;

    /// Returns the descriptor for admitted requests. It is the same for the lifetime of the file.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Ends a request of this kind that `begin` admitted. It is done or has failed.
    fn end(&self, kind: Kind);

    /// Returns the alignment of transfers: they begin and end at multiples of it.
    fn unit(&self) -> u64;

    /// Returns `true` if the file now ends at or before `pos`; `false` if the size is unknown.
    fn ends_at(&self, pos: u64) -> bool;
}

/// Seals traits: engines rely on a raw file's descriptor, and the cache on an engine's submission
/// contexts.
#[expect(
    unnameable_types,
    reason = "that nobody else can name it is what it is for"
)]
pub trait Sealed {}
