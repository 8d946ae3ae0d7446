//! Services of the whole cache that its files use.

use std::fmt;
use std::sync::Arc;

use pagewell_frame::Order;
use pagewell_io::FileId;

use crate::base::engines::Engines;
use crate::base::error::Error;

/// Cache callbacks, which the owner of all files implements.
pub(crate) trait Keeper: fmt::Debug + Send + Sync {
    fn engines(&self) -> &Arc<Engines>;

    /// Removes the mapping with `number`, of the file `id`, from the registry. The caller has torn
    /// down the mapping and closed its backend. Does nothing in a fork.
    fn forget(&self, id: FileId, number: u64);

    /// Passes a strong reference to file `number`, which the caller has counted, to a flusher. It
    /// drops the reference, after it has made the file durable if no handle is left. Until then the
    /// reference keeps the cache and its threads.
    fn take_share(self: Arc<Self>, number: u64);

    /// Waits until file `number` is below its quota of frames that are not clean, and for no other
    /// file. The caller holds no lock of the file. It cleans the file itself while the cache's
    /// threads are paused ([`quiesce`](crate::Cache::quiesce)). Returns
    /// [`Throttled`](crate::ErrorKind::Throttled), with the reason, if the file cannot be cleaned.
    fn throttle(&self, number: u64) -> Result<(), Error>;

    /// Waits until the threads of the cache have cleaned pages of any file with background
    /// writeback, after `error` for lack of a block of `order`. The caller holds no lock of any
    /// file. If no page has become clean, returns `error`, with a backend's error as the source.
    fn make_room(&self, error: Error, order: Order) -> Result<(), Error>;
}
