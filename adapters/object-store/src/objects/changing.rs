//! Objects that a write through the wrapper changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use object_store::path::Path;

use super::open::Opener;

/// Objects with writes in progress. The table forgets each of them before and after its write, even
/// if the future or stream of the write is dropped: a concurrent read may open the old or the new
/// state, and after an error the store may have either.
pub(crate) struct Changing {
    opener: Arc<Opener>,
    writes: Mutex<Writes>,
}

#[derive(Default)]
struct Writes {
    locations: HashMap<Path, usize>,
    /// Value of `Table::nr_openings` at the last call of [`Changing::forget_all`].
    nr_openings: u64,
}

impl Changing {
    pub(crate) fn new(opener: &Arc<Opener>) -> Self {
        Self {
            opener: Arc::clone(opener),
            writes: Mutex::default(),
        }
    }

    pub(crate) fn of(opener: &Arc<Opener>, locations: &[&Path]) -> Self {
        let changing = Self::new(opener);
        for location in locations {
            changing.begin(location);
        }
        changing
    }

    fn writes(&self) -> MutexGuard<'_, Writes> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, location: &Path) {
        let mut writes = self.writes();
        *writes.locations.entry(location.clone()).or_default() += 1;
        drop(writes);
        self.opener.table.forget(location);
    }

    pub(crate) fn end(&self, location: &Path) {
        self.opener.table.forget(location);
        let mut writes = self.writes();
        if let Some(nr) = writes.locations.get_mut(location) {
            *nr -= 1;
            if *nr == 0 {
                writes.locations.remove(location);
            }
        }
    }

    /// Forgets all objects with writes in progress, after one write has failed. Does nothing if no
    /// opening has begun since the last call, since none of them is known then.
    pub(crate) fn forget_all(&self) {
        let nr_openings = self.opener.table.nr_openings();
        let mut writes = self.writes();
        if std::mem::replace(&mut writes.nr_openings, nr_openings) == nr_openings {
            return;
        }
        let all: Vec<_> = writes.locations.keys().cloned().collect();
        drop(writes);
        all.iter()
            .for_each(|location| self.opener.table.forget(location));
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        let writes = self.writes.get_mut();
        let writes = writes.unwrap_or_else(PoisonError::into_inner);
        for location in writes.locations.keys() {
            self.opener.table.forget(location);
        }
    }
}
