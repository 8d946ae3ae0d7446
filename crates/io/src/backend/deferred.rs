//! Storages whose calls complete later.

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;

use super::request::{Kind, Request};

/// A storage that takes a request and completes it later: one that is reached by a network, or by a runtime of the program's own.
///
/// It is found by [`Backend::deferred`](crate::Backend::deferred), and must do as the table there says, with [`Request::buffers`] and
/// [`Request::sources`] for the buffers. Engines hand requests on to it, as many at once as there are. A thread of the cache that waits for one page alone calls
/// [`Backend::read_at`](crate::Backend::read_at) instead.
pub trait Deferred: Debug + Send + Sync {
    /// Takes `request`, and calls [`Request::complete`] when it is done, from any thread, even before this returns.
    ///
    /// It should not wait: it is called by threads that have other requests to start. A request that is dropped fails.
    fn start(&self, request: Request);
}

/// A file of the system, whose bytes an engine may transfer by its descriptor.
///
/// It is found by [`Backend::raw_file`](crate::Backend::raw_file). Only this crate has such files; a backend that adds nothing to one may hand it on. What it does not let an engine do, the engine does by the backend's own calls, on a
/// thread that may wait.
pub trait RawFile: Sealed + Debug + Send + Sync {
    /// Lets an engine do `request`, a read or a write, by the descriptor: as a whole or in parts that follow each other. False if it is to be done by
    /// the backend's own calls, now that is: for its alignment, its end, or because it would have to wait. If it is let, then [`end`](Self::end) must be
    /// called when the last part is done.
    ///
    /// # Errors
    ///
    /// What the backend's own call would say without asking the system.
    fn begin(&self, request: &Request) -> io::Result<bool>;

    /// The descriptor that `begin` gives; the same as long as there is the storage.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// A request of this kind that `begin` let be done is done, or failed.
    fn end(&self, kind: Kind);

    /// Transfers begin and end at multiples of this.
    fn unit(&self) -> u64;

    /// Whether the file ends at `pos` now, or before; false if the system does not say.
    fn ends_at(&self, pos: u64) -> bool;
}

/// What only this crate has: engines rely on a raw file's descriptor, and the cache on an engine's lanes.
#[expect(
    unnameable_types,
    reason = "that nobody else can name it is what it is for"
)]
pub trait Sealed {}
