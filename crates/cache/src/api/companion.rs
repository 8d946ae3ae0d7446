//! Companion of a cache: one value of a higher crate, which all callers share.

use std::sync::Arc;

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::lock;

use crate::api::cache::Cache;
use crate::files::state::Companion;
use crate::spaces::frames::CacheFrames;

/// Returns the companion of `cache`, which uses the cache's frames too. All callers share one
/// companion. If none exists, `make` creates it from the frames. Returns `None` if the companion is
/// of another type. The cache does not keep the companion alive. `make` must use nothing of the
/// cache but its frames.
pub fn companion_or_else<S: RefScheme, T: Send + Sync + 'static>(
    cache: &Cache<S>,
    make: impl FnOnce(CacheFrames<S>) -> Arc<T>,
) -> Option<Arc<T>> {
    let mut companion = lock(&cache.files().companion);
    match companion.upgrade() {
        Some(known) => known.downcast().ok(),
        None => {
            let made = make(cache.frames());
            let known: Arc<Companion> = Arc::clone(&made) as _;
            *companion = Arc::downgrade(&known);
            Some(made)
        }
    }
}
