//! The companion of a cache: what a crate above keeps for it, one for all who ask.

use std::sync::Arc;

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::lock;

use crate::api::cache::Cache;
use crate::files::state::Companion;
use crate::spaces::frames::CacheFrames;

/// The companion of `cache`, which uses its frames too; all callers share one. If there is none yet, it is what `make` makes of
/// the frames; if there is one of another type, the answer is none. The cache does not keep it alive. `make` may use nothing of
/// the cache but its frames.
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
