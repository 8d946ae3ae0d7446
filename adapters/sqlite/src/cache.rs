//! The cache that all databases of a process share, and its capacity.
//!
//! The first open sets the capacity, even if it fails. An open with another `pw_cache` fails if a
//! database is open. Otherwise it waits for opens and last closes in progress, and replaces the
//! cache, or fails if one of these opens succeeds. A thread that waits here has neither the cache
//! nor a claim, and is no candidate of the registry, so no open and no close waits for it.

use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use pagewell::Cache;

use crate::abi;
use crate::error::Failure;

/// Default capacity of the cache in bytes, if the URI of the first open has no `pw_cache`.
const DEFAULT_CAPACITY: u64 = 64 << 20;

#[derive(Debug, Default)]
pub(crate) struct SharedCache {
    state: Mutex<State>,
    /// Notified when an open or a last close in progress ends.
    settled: Condvar,
}

#[derive(Debug, Default)]
struct State {
    cache: Option<(Cache, u64)>,
    /// Number of opens and last closes in progress.
    nr_changing: usize,
    /// Number of databases, from the end of the first open to the beginning of the last close.
    nr_open: usize,
}

impl SharedCache {
    /// Locks the state, and ignores poisoning: each change is one step.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an open in progress, and returns the cache for it. `path` is for error messages.
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
                other(state).is_some() && state.nr_open == 0 && state.nr_changing > 0
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
        state.nr_changing += 1;
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

/// Use of the cache by a database, from the beginning of its open to the end of its last close. The
/// capacity does not change in between.
#[derive(Debug)]
pub(crate) struct CacheUse<'s> {
    /// Dropped before `counted`, so that an open that replaces the cache frees it.
    pub(crate) cache: Cache,
    pub(crate) capacity: u64,
    counted: Counted<'s>,
}

impl CacheUse<'_> {
    /// Counts this use as an open database. The caller ensures that the open cannot fail any more.
    pub(crate) fn end_open(&mut self) {
        let counted = &mut self.counted;
        let mut state = counted.shared.state();
        counted.is_open = true;
        state.nr_open += 1;
        state.nr_changing -= 1;
        drop(state);
        counted.shared.settled.notify_all();
    }

    pub(crate) fn begin_close(&mut self) {
        let counted = &mut self.counted;
        let mut state = counted.shared.state();
        counted.is_open = false;
        state.nr_open -= 1;
        state.nr_changing += 1;
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
            false => state.nr_changing -= 1,
        }
        drop(state);
        self.shared.settled.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn open_with_another_capacity_waits_for_opens_and_closes_and_fails_beside_databases() {
        const SMALL: u64 = 1 << 20;
        let shared = &SharedCache::default();
        let begin = |capacity| shared.begin_to_open(Some(capacity), Path::new("db"));
        for closes in [false, true] {
            let mut first = begin(SMALL).unwrap();
            if closes {
                first.end_open();
                assert_eq!(begin(2 * SMALL).unwrap_err().code, abi::CANTOPEN);
                assert_eq!(begin(SMALL).unwrap().capacity, SMALL);
                first.begin_close();
            }
            let (begun, has_begun) = mpsc::channel();
            std::thread::scope(|scope| {
                scope.spawn(move || begun.send(begin(2 * SMALL).map(|using| using.capacity)));
                // If the other thread did not wait, it would send a result at once.
                let result = has_begun.recv_timeout(Duration::from_millis(50));
                assert!(result.is_err(), "{result:?}");
                drop(first);
                assert_eq!(has_begun.recv().unwrap().unwrap(), 2 * SMALL);
            });
        }
    }
}
