//! What a file asks of the cache as a whole.

use std::fmt;
use std::sync::Arc;

use pagewell_io::FileId;

use crate::base::error::Error;

/// What a file asks of the cache as a whole: implemented by who has all the files.
pub(crate) trait Keeper: fmt::Debug + Send + Sync {
    /// Forgets the file `id`, which was torn down, and whose storage is closed. In a child made by `fork` nothing is done.
    fn forget(&self, id: FileId, number: u64);

    /// Has the thread of the cache drop a share of file `number`, which the caller has counted, and make the file durable before
    /// if no handle is left. Until it did the share keeps the cache, so the thread does not end before.
    fn take_share(self: Arc<Self>, number: u64);

    /// Makes pages clean until there are fewer unclean frames than the limit, as far as the storage allows. No lock of any file
    /// is held.
    ///
    /// The next sync of each file tells its errors. After an error writers do not ask again for a tenth of a second, and
    /// go on as long as there are frames.
    fn make_clean(&self);

    /// Makes all pages clean of files that are written back in the background, for a caller that has failed with `error` for
    /// lack of frames. No lock of any file is held.
    ///
    /// # Errors
    ///
    /// If there are as many unclean frames as before: `error`, with the storage's error as its source if there was one.
    fn make_room(&self, error: Error) -> Result<(), Error>;
}
