//! The spaces of a cache of files.

use std::sync::Arc;

use pagewell_cache::{Cache, companion_or_else};
use pagewell_frame::refcount::RefScheme;

use crate::api::handles::{Space, Spaces};
use crate::error::Error;
use crate::mm::shared::Shared;

/// Memory spaces in the frames of a cache, beside the pages of its files; files of the cache can be mapped into them.
pub trait CacheSpaces<S: RefScheme> {
    /// What all spaces of this cache share. It is the same for all who ask, as long as any of them, or any of the spaces,
    /// lives.
    fn spaces(&self) -> Spaces<S>;

    /// A new space in the frames of this cache, with [`DEFAULT_SPACE_BYTES`](crate::DEFAULT_SPACE_BYTES) of addresses.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](crate::ErrorKind::OutOfMemory) when the system gives no addresses for the directory.
    fn space(&self) -> Result<Space<S>, Error>;
}

impl<S: RefScheme> CacheSpaces<S> for Cache<S> {
    fn spaces(&self) -> Spaces<S> {
        let shared = companion_or_else(self, |frames| Arc::new(Shared::new(Arc::new(frames))));
        match shared {
            Some(shared) => Spaces::from_shared(shared),
            // Somebody else's: these are spaces of their own then.
            None => Spaces::from_source(self.frames()),
        }
    }

    fn space(&self) -> Result<Space<S>, Error> {
        self.spaces().space()
    }
}
