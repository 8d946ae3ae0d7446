//! The services of the whole cache that a file asks for.

use std::fmt;
use std::sync::Arc;

use pagewell_frame::Order;
use pagewell_io::FileId;

use crate::base::engines::Engines;
use crate::base::error::Error;

/// The services of the whole cache that a file asks for. The owner of all files implements them.
pub(crate) trait Keeper: fmt::Debug + Send + Sync {
    /// The engines of the cache.
    fn engines(&self) -> &Arc<Engines>;

    /// Forgets the file `id`, which was torn down and whose storage is closed. In a child made by `fork` nothing is done.
    fn forget(&self, id: FileId, number: u64);

    /// Has a flusher drop a share of file `number`, which the caller has counted; if no handle is left, the flusher makes the file
    /// durable first. Until then the share keeps the cache, so its threads do not end before.
    fn take_share(self: Arc<Self>, number: u64);

    /// Waits until file number `number` has less than its share of the frames that may be not clean. No lock of the file is held.
    ///
    /// The threads of the cache clean it; if they are kept from it ([`quiesce`](crate::Cache::quiesce)), this thread does. It
    /// waits for no other file.
    ///
    /// # Errors
    ///
    /// [`Throttled`](crate::ErrorKind::Throttled): the file cannot be cleaned, and why.
    fn throttle(&self, number: u64) -> Result<(), Error>;

    /// Waits until the threads of the cache have made pages clean, of any file that is written back in the background, for a caller
    /// that has failed with `error` for lack of a block of `order`. No lock of any file is held.
    ///
    /// # Errors
    ///
    /// If no page has become clean: `error`, with the storage's error, if any, as its source.
    fn make_room(&self, error: Error, order: Order) -> Result<(), Error>;
}
