//! Services of the whole cache that its files use.

use std::fmt;
use std::sync::Arc;

use pagewell_frame::Order;
use pagewell_io::FileId;

use crate::base::engines::Engines;
use crate::base::error::Error;

/// Cache callbacks: services of the whole cache that a file uses. The owner of all files implements
/// them.
pub(crate) trait Keeper: fmt::Debug + Send + Sync {
    fn engines(&self) -> &Arc<Engines>;

    /// Removes the mapping with `number`, of the file `id`, from the registry. The caller has torn
    /// down the mapping and closed its backend. Does nothing in a fork.
    fn forget(&self, id: FileId, number: u64);

    /// Passes a strong reference to file `number`, which the caller has counted, to a flusher,
    /// which drops it. If no handle is left, the flusher first makes the file durable. The
    /// reference keeps the cache until the flusher drops it, so the threads of the cache do not end
    /// before.
    fn take_share(self: Arc<Self>, number: u64);

    /// Waits until file number `number` is below its quota of frames that are not clean. The caller
    /// holds no lock of the file.
    ///
    /// The threads of the cache clean the file; while they are paused
    /// ([`quiesce`](crate::Cache::quiesce)), the calling thread cleans it. The caller waits for no
    /// other file.
    ///
    /// # Errors
    ///
    /// [`Throttled`](crate::ErrorKind::Throttled), with the reason, if the file cannot be cleaned.
    fn throttle(&self, number: u64) -> Result<(), Error>;

    /// Waits until the threads of the cache have made pages of any file with background writeback
    /// clean. The caller failed with `error` for lack of a block of `order`, and holds no lock of
    /// any file.
    ///
    /// # Errors
    ///
    /// Returns `error` if no page has become clean. If a backend failed, its error becomes the
    /// source.
    fn make_room(&self, error: Error, order: Order) -> Result<(), Error>;
}
