//! What a file asks of the cache as a whole.

use std::fmt;

use pagewell_io::FileId;

use crate::base::error::Error;

/// What a file asks of the cache as a whole: implemented by who has all the files.
pub(crate) trait Keeper: fmt::Debug + Send + Sync {
    /// Forgets the file `id`, which was torn down, and whose storage is closed.
    fn forget(&self, id: FileId, number: u64);

    /// Makes pages clean until fewer than the limit are not, as far as the storage lets it. Errors are told by the
    /// files' next syncs, and keep other writers from asking for a while: they go on, as far as there are frames. No lock of
    /// any file is held.
    fn make_clean(&self);

    /// Makes all pages clean of files that are written back in the background, for who has failed with `error` for lack of
    /// frames. No lock of any file is held.
    ///
    /// # Errors
    ///
    /// If there are no fewer than before that are not clean: `error`, and what the storage says if that is why.
    fn make_room(&self, error: Error) -> Result<(), Error>;
}
