//! Services of the whole cache that its files use.

use std::fmt;
use std::sync::Arc;

use pagewell_frame::Order;
use pagewell_io::FileId;
use pagewell_io::pools::Engines;

use crate::base::error::Error;

pub(crate) trait Keeper: fmt::Debug + Send + Sync {
    fn engines(&self) -> &Arc<Engines>;

    /// Removes mapping `number`, of the file `id`, from the registry, after its backend was closed.
    /// Does nothing in a fork.
    fn forget(&self, id: FileId, number: u64);

    /// Passes a counted strong reference of file `number` to a flusher, which drops it, but first
    /// makes the file durable if no handle is left. Until the drop, the reference keeps the cache.
    fn take_share(self: Arc<Self>, number: u64);

    /// Waits until file `number`, and no other, is below its quota of frames that are not clean.
    /// The caller holds no lock of the file. While the cache's threads are paused
    /// ([`quiesce`](crate::Cache::quiesce)), the calling thread cleans the file itself. Returns
    /// [`Throttled`](crate::ErrorKind::Throttled), with the reason, if the file cannot be cleaned.
    fn throttle(&self, number: u64) -> Result<(), Error>;

    /// If `error` is the lack of a free block of `order`, waits until the cache's threads have
    /// cleaned pages of any file with background writeback. The caller holds no lock of any file.
    /// Returns any other error at once. If no page becomes clean, adds the first reason as source.
    fn make_room(&self, error: Error, order: Order) -> Result<(), Error>;
}
