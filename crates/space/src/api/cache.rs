use std::sync::Arc;

use pagewell_cache::{Cache, companion_or_else};

use crate::api::handles::{Space, Spaces};
use crate::error::Error;
use crate::mm::shared::Shared;

/// Memory spaces in the frames of a cache, into which its files can be mapped.
pub trait CacheSpaces {
    /// Returns the shared state of all spaces of this cache. All calls return the same state while
    /// a handle of it or one of its spaces exists. While the cache has a companion of another
    /// crate, each call returns a new state.
    fn spaces(&self) -> Spaces;

    /// Creates a space in the frames of this cache, as [`Spaces::space`].
    fn space(&self) -> Result<Space, Error>;
}

impl CacheSpaces for Cache {
    fn spaces(&self) -> Spaces {
        let shared = companion_or_else(self, |frames| Arc::new(Shared::new(Arc::new(frames))));
        match shared {
            Some(shared) => Spaces::from_shared(shared),
            // The cache's companion has another type, so these spaces get a state of their own.
            None => Spaces::from_source(self.frames()),
        }
    }

    fn space(&self) -> Result<Space, Error> {
        self.spaces().space()
    }
}
