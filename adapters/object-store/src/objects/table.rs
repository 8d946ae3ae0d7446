//! The table of objects that are known, or are just becoming known.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, Shared as SharedFuture};
use lru::LruCache;
use object_store::ObjectMeta;
use object_store::path::Path;

use super::known::Known;
use crate::error::Shared;
use crate::fetch::same::is_same;
use crate::fetch::traffic::Traffic;

/// What an opening comes to.
pub(crate) type Outcome = Result<Arc<Known>, Shared>;

/// An opening that all wait for who want the object.
pub(crate) type Opening = SharedFuture<BoxFuture<'static, Outcome>>;

/// What is known of a location.
#[derive(Clone)]
enum Entry {
    Known(Arc<Known>),
    /// With a number that no other opening has.
    Opening(u64, Opening),
}

/// What a look has found.
pub(crate) enum Look {
    Known(Arc<Known>),
    /// Wait for this.
    Opening(Opening),
}

/// Objects by location.
pub(crate) struct Table {
    entries: Mutex<Entries>,
    trust: Duration,
    traffic: Arc<Traffic>,
}

struct Entries {
    by_location: LruCache<Path, Entry>,
    nr_openings: u64,
}

impl Table {
    /// For so many objects, each of which is believed for `trust`.
    pub(crate) fn new(most: NonZeroUsize, trust: Duration, traffic: Arc<Traffic>) -> Self {
        let entries = Entries {
            // It grows as objects become known.
            by_location: LruCache::unbounded(),
            nr_openings: 0,
        };
        let table = Self {
            entries: Mutex::new(entries),
            trust,
            traffic,
        };
        table.entries().by_location.resize(most);
        table
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of `location`; or the opening by `open`, which gets its number, and what was known until the trust in it ended.
    pub(crate) fn look(
        &self,
        location: &Path,
        open: impl FnOnce(u64, Option<Arc<Known>>) -> Opening,
    ) -> Look {
        let mut entries = self.entries();
        let before = match entries.by_location.get(location) {
            Some(Entry::Known(known)) if known.is_trusted(self.trust) => {
                return Look::Known(Arc::clone(known));
            }
            Some(Entry::Known(known)) => Some(Arc::clone(known)),
            Some(Entry::Opening(_, opening)) => return Look::Opening(opening.clone()),
            None => None,
        };
        entries.nr_openings += 1;
        let nr = entries.nr_openings;
        let opening = open(nr, before);
        let gone = entries
            .by_location
            .push(location.clone(), Entry::Opening(nr, opening.clone()));
        drop(entries);
        // Without the lock: it may be the last handle of a file.
        drop(gone);
        Look::Opening(opening)
    }

    /// The opening `nr` has ended: what came of it is known from now on, unless the object was forgotten meanwhile.
    pub(crate) fn opened(&self, location: &Path, nr: u64, outcome: &Outcome) {
        let mut entries = self.entries();
        let is_ours = matches!(entries.by_location.peek(location), Some(Entry::Opening(now, _)) if *now == nr);
        let gone = match outcome {
            _ if !is_ours => None,
            Ok(known) => entries
                .by_location
                .push(location.clone(), Entry::Known(Arc::clone(known))),
            // The next one asks again.
            Err(_) => entries.by_location.pop_entry(location),
        };
        drop(entries);
        drop(gone);
    }

    /// Forgets `location`: it was changed, or is about to be.
    pub(crate) fn forget(&self, location: &Path) {
        let gone = self.entries().by_location.pop(location);
        self.note_forgotten(gone);
    }

    /// Forgets this state of an object, if it is the one that is known.
    pub(crate) fn forget_state(&self, known: &Arc<Known>) {
        let location = &known.meta.location;
        let mut entries = self.entries();
        let is_known = matches!(entries.by_location.peek(location), Some(Entry::Known(now)) if Arc::ptr_eq(now, known));
        let gone = if is_known {
            entries.by_location.pop(location)
        } else {
            None
        };
        drop(entries);
        self.note_forgotten(gone);
    }

    /// Forgets up to `nr` objects, the least recently used first, and says how many.
    pub(crate) fn forget_oldest(&self, nr: usize) -> usize {
        let mut entries = self.entries();
        let mut gone = Vec::new();
        // Those that are just becoming known are looked at once, and stay.
        for _ in 0..entries.by_location.len() {
            if gone.len() == nr {
                break;
            }
            match entries.by_location.pop_lru() {
                Some((_, Entry::Known(known))) => gone.push(known),
                Some((location, opening)) => {
                    entries.by_location.push(location, opening);
                }
                None => break,
            }
        }
        drop(entries);
        gone.len()
    }

    /// The store has said this of an object: what is known is believed anew, or forgotten.
    pub(crate) fn observe(&self, meta: &ObjectMeta) {
        let mut entries = self.entries();
        let gone = match entries.by_location.peek(&meta.location) {
            Some(Entry::Known(known)) if is_same(&known.meta, meta) => {
                known.touch();
                None
            }
            Some(Entry::Known(_)) => entries.by_location.pop(&meta.location),
            _ => None,
        };
        drop(entries);
        self.note_forgotten(gone);
    }

    fn note_forgotten(&self, gone: Option<Entry>) {
        if matches!(gone, Some(Entry::Known(_))) {
            self.traffic.counters.nr_forgotten.add(1);
        }
        // Its file is closed here, without the lock, if nobody reads it.
        drop(gone);
    }

    /// How many objects are known.
    pub(crate) fn len(&self) -> usize {
        self.entries().by_location.len()
    }
}
