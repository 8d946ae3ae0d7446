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

    /// Removes the file `id` from the registry. It was torn down, and its backend is closed. Does
    /// nothing in a fork.
    fn forget(&self, id: FileId, number: u64);

    /// Passes a strong reference to file `number`, which the caller has counted, to a flusher,
    /// which drops it. If no handle is left, the flusher first makes the file durable. The
    /// reference keeps the cache until then, so its threads do not end before.
    fn take_share(self: Arc<Self>, number: u64);

    /// Waits until file number `number` is below its quota of frames that are not clean. The caller
    /// holds no lock of the file.
    ///
    /// The threads of the cache clean the file; while they are paused
    /// ([`quiesce`](crate::Cache::quiesce)), this thread does. It waits for no other file.
    ///
    /// # Errors
    ///
    /// [`Throttled`](crate::ErrorKind::Throttled), with the reason, if the file cannot be cleaned.
    fn throttle(&self, number: u64) -> Result<(), Error>;

    /// Waits until the threads of the cache have made pages clean, of any file that is written back
    /// in the background, for a caller that failed with `error` for lack of a block of `order`. The
    /// caller holds no lock of any file.
    ///
    /// # Errors
    ///
    /// Returns `error`, with the backend's error, if any, as its source, if no page has become
    /// clean.
    fn make_room(&self, error: Error, order: Order) -> Result<(), Error>;
}
