//! The cache that all databases of a process share, and its capacity.
//!
//! The options of the first database determine the capacity. While a database is open, an open with
//! another `pw_cache` fails. While none is open, it replaces the cache. An open with another
//! `pw_cache` waits for concurrent opens, since each of them may fail and leave no database. A
//! thread that waits here uses neither the cache nor a claim of the registry, so no open waits for
//! it.

use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use pagewell::Cache;

use crate::abi;
use crate::error::Failure;

/// Default capacity of the cache, if the first database's URI has none.
const DEFAULT_CAPACITY: u64 = 64 << 20;

#[derive(Debug, Default)]
pub(crate) struct SharedCache {
    state: Mutex<State>,
    /// Notified when the last open in progress ends.
    settled: Condvar,
}

#[derive(Debug, Default)]
struct State {
    cache: Option<(Cache, u64)>,
    /// Number of opens in progress.
    nr_opening: usize,
    /// Number of databases, from the end of the first open to the end of the last close.
    nr_open: usize,
}

impl SharedCache {
    /// Locks the state, and ignores poisoning: each change is one step.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cache for an open with the capacity `asked`, and counts the open as in progress.
    /// `path` is for errors.
    pub(crate) fn begin_to_open(
        &self,
        asked: Option<u64>,
        path: &Path,
    ) -> Result<CacheUse<'_>, Failure> {
        let other = |state: &State| match (asked, &state.cache) {
            (Some(asked), Some((_, capacity))) if asked != *capacity => Some((asked, *capacity)),
            _ => None,
        };
        let mut state = self
            .settled
            .wait_while(self.state(), |state| {
                other(state).is_some() && state.nr_open == 0 && state.nr_opening > 0
            })
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((asked, capacity)) = other(&state) {
            if state.nr_open > 0 {
                let text = format!(
                    "cannot open {}: pw_cache={asked}: the cache of this process has {capacity} \
                     bytes, and open databases",
                    path.display()
                );
                return Err(Failure::new(abi::CANTOPEN, text));
            }
            // Frees the old cache first.
            state.cache = None;
        }
        let (cache, capacity) = match &state.cache {
            Some(found) => found.clone(),
            None => {
                let capacity = asked.unwrap_or(DEFAULT_CAPACITY);
                let cache = Cache::builder().capacity(capacity).build();
                let cache = cache.map_err(|error| Failure::of(&error, abi::CANTOPEN))?;
                state.cache.insert((cache, capacity)).clone()
            }
        };
        state.nr_opening += 1;
        Ok(CacheUse {
            cache,
            capacity,
            counted: Counted {
                shared: self,
                is_open: false,
            },
        })
    }
}

/// Use of the cache by an open in progress, or by a database. It keeps the capacity as it is.
#[derive(Debug)]
pub(crate) struct CacheUse<'s> {
    /// Dropped before `counted`, so that the cache is freed when it is replaced.
    pub(crate) cache: Cache,
    pub(crate) capacity: u64,
    counted: Counted<'s>,
}

impl CacheUse<'_> {
    /// Counts this use as a database, since its open cannot fail any more.
    pub(crate) fn end_open(&mut self) {
        let counted = &mut self.counted;
        if !counted.is_open {
            counted.is_open = true;
            let mut state = counted.shared.state();
            state.nr_open += 1;
            counted.shared.end_opening(state);
        }
    }
}

impl SharedCache {
    fn end_opening(&self, mut state: MutexGuard<'_, State>) {
        state.nr_opening -= 1;
        drop(state);
        self.settled.notify_all();
    }
}

#[derive(Debug)]
struct Counted<'s> {
    shared: &'s SharedCache,
    is_open: bool,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        match self.is_open {
            true => state.nr_open -= 1,
            false => self.shared.end_opening(state),
        }
    }
}
