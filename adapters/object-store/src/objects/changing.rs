//! Objects that a write through the wrapper changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use object_store::path::Path;

use super::open::Opener;

/// Objects with writes in progress. They are forgotten before and after the write, and also if the
/// future or stream of the write is dropped. Concurrent reads may return the old or the new state,
/// and after an error the store may have either.
pub(crate) struct Changing {
    opener: Arc<Opener>,
    /// Numbers of writes in progress.
    locations: Mutex<HashMap<Path, usize>>,
}

impl Changing {
    pub(crate) fn new(opener: &Arc<Opener>) -> Self {
        Self {
            opener: Arc::clone(opener),
            locations: Mutex::default(),
        }
    }

    /// Creates the value for one write of the objects at `locations`.
    pub(crate) fn of(opener: &Arc<Opener>, locations: &[&Path]) -> Self {
        let changing = Self::new(opener);
        for location in locations {
            changing.begin(location);
        }
        changing
    }

    /// Begins a write of the object at `location`.
    pub(crate) fn begin(&self, location: &Path) {
        let mut locations = self
            .locations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *locations.entry(location.clone()).or_default() += 1;
        drop(locations);
        self.opener.table.forget(location);
    }

    /// Ends a write of the object at `location`.
    pub(crate) fn end(&self, location: &Path) {
        self.opener.table.forget(location);
        let mut locations = self
            .locations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(nr) = locations.get_mut(location) {
            *nr -= 1;
            if *nr == 0 {
                locations.remove(location);
            }
        }
    }

    /// Forgets all objects with writes in progress, after one write has failed.
    pub(crate) fn forget_all(&self) {
        let locations = self
            .locations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let all: Vec<_> = locations.keys().cloned().collect();
        drop(locations);
        all.iter()
            .for_each(|location| self.opener.table.forget(location));
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        let locations = self.locations.get_mut();
        for location in locations.unwrap_or_else(PoisonError::into_inner).keys() {
            self.opener.table.forget(location);
        }
    }
}
