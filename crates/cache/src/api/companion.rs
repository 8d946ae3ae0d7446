//! Companion of a cache: a value of a dependent crate, such as the state that spaces share.

use std::sync::Arc;

use pagewell_sync::lock;

use crate::api::cache::Cache;
use crate::files::state::Companion;
use crate::spaces::frames::CacheFrames;

/// Returns the companion of `cache`, which `make` creates from the cache's frames if there is none.
/// It exists as long as a caller keeps an `Arc` to it. Returns `None` if it is not a `T`.
///
/// `make` is called with the companion's lock held. It must use no part of the cache except the
/// frames; a nested call of this function would deadlock.
pub fn companion_or_else<T: Send + Sync + 'static>(
    cache: &Cache,
    make: impl FnOnce(CacheFrames) -> Arc<T>,
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
