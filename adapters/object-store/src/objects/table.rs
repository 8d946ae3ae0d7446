//! Table of objects that are known or being opened.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, FutureExt as _, Shared as SharedFuture};
use lru::LruCache;
use object_store::path::Path;
use object_store::{Attributes, ObjectMeta};
use tokio::sync::oneshot;

use super::known::Known;
use crate::error::Shared;
use crate::fetch::object::Object;
use crate::fetch::traffic::Traffic;
use crate::identity::Verdict;

/// Maximum time for which gets are passed on before the next try to open the object.
const MAX_UNCACHEABLE: Duration = Duration::from_mins(1);

pub(crate) type Outcome = Result<Arc<Known>, Shared>;

/// Shared future of an opening, for all readers that wait for the object.
pub(crate) type Opening = SharedFuture<BoxFuture<'static, Outcome>>;

#[derive(Clone)]
enum Entry {
    Known(Arc<Known>),
    Opening(Pending),
    Found(Finding),
}

/// Result of a failed request for an object that is not known.
#[derive(Clone)]
enum Finding {
    /// The cache could not serve the object at this time.
    Uncacheable(Instant, Shared),
    /// Only an answer with bytes shows whether the cache can serve the object.
    Unproven,
}

#[derive(Clone)]
struct Pending {
    nr: u64,
    opening: Opening,
    /// Previous state, unless it is known to be replaced.
    before: Option<Arc<Known>>,
    seen: Seen,
    /// Finding about the replaced state, or `Unproven` if the opening must request bytes.
    finding: Option<Finding>,
}

/// Maximum number of descriptions that are kept for an opening. A get and a listing may describe
/// one state differently, but more descriptions than these are of several states.
const MAX_OBSERVED: usize = 4;

/// Results of other requests since an opening began. Clones are cheap.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    /// Backend of the previous state, if it was found to be replaced.
    replaced: Option<Object>,
    observed: Arc<Vec<ObjectMeta>>,
    /// Whether the store has returned more than `MAX_OBSERVED` different metadata.
    has_more: bool,
}

impl Seen {
    /// Returns `true` if the outcome of the opening is outdated. The order of two different states
    /// is unknown, so an observed one counts as newer.
    pub(crate) fn is_outdated(&self, known: &Arc<Known>) -> bool {
        let is_other = |meta: &ObjectMeta| known.state.compare(meta) == Verdict::Different;
        self.has_more || self.is_replaced(known) || self.observed.iter().any(is_other)
    }

    /// Returns `true` if `known` is the previous state, and was found to be replaced.
    fn is_replaced(&self, known: &Arc<Known>) -> bool {
        let is_it = |replaced: &Object| replaced.is(&known.object);
        self.replaced.as_ref().is_some_and(is_it)
    }

    fn observe(&mut self, meta: &ObjectMeta) {
        if self.has_more || self.observed.contains(meta) {
            return;
        }
        self.has_more = self.observed.len() == MAX_OBSERVED;
        if !self.has_more {
            Arc::make_mut(&mut self.observed).push(meta.clone());
        }
    }
}

impl Pending {
    /// Takes the previous state if `is_it` is true for it, and records that it was replaced.
    fn take_replaced(&mut self, is_it: impl Fn(&Arc<Known>) -> bool) -> Option<Entry> {
        let before = self.before.take_if(|before| is_it(before))?;
        self.seen.replaced = Some(before.object.clone());
        Some(Entry::Known(before))
    }
}

pub(crate) enum Look {
    Known(Arc<Known>),
    /// The object is being opened. A caller with a duty opens it. The caller must not use an
    /// outcome for which [`Seen::is_outdated`] is true.
    Opening(Opening, Option<Duty>, Seen),
    Uncacheable(Shared),
}

/// Duty of a caller of [`Table::look`] to open an object.
pub(crate) struct Duty {
    pub(crate) nr: u64,
    /// Previous state, which is no longer trusted.
    pub(crate) before: Option<Arc<Known>>,
    /// Whether only an answer with bytes shows that the cache can serve the object: gets were
    /// passed on, or a request for pages that the tier lacks has failed.
    pub(crate) needs_bytes: bool,
    pub(crate) outcome: oneshot::Sender<Outcome>,
}

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
    /// Creates a table for at most `most` objects. Their states are trusted for `trust`.
    pub(crate) fn new(most: NonZeroUsize, trust: Duration, traffic: Arc<Traffic>) -> Self {
        let entries = Entries {
            // The table grows as objects become known, up to the limit that `resize` sets below.
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

    /// Returns the known state, or the opening in progress. If there is neither, or the state is no
    /// longer trusted, begins an opening, which is the duty of the caller.
    pub(crate) fn look(&self, location: &Path) -> Look {
        let mut entries = self.entries();
        let (before, needs_bytes) = match entries.by_location.get(location) {
            Some(Entry::Known(known)) if known.is_trusted(self.trust) => {
                return Look::Known(Arc::clone(known));
            }
            Some(Entry::Known(known)) => (Some(Arc::clone(known)), false),
            Some(Entry::Opening(now)) => {
                return Look::Opening(now.opening.clone(), None, now.seen.clone());
            }
            Some(Entry::Found(Finding::Uncacheable(found, error)))
                if found.elapsed() < MAX_UNCACHEABLE =>
            {
                return Look::Uncacheable(error.clone());
            }
            Some(Entry::Found(_)) => (None, true),
            None => (None, false),
        };
        entries.nr_openings += 1;
        let nr = entries.nr_openings;
        let (sender, receiver) = oneshot::channel();
        let is_of = location.clone();
        let outcome = receiver.map(move |outcome| {
            outcome.unwrap_or_else(|_| Err(Shared::abandoned(format!("cannot open {is_of}"))))
        });
        let opening = outcome.boxed().shared();
        let pending = Pending {
            nr,
            opening: opening.clone(),
            before: before.clone(),
            seen: Seen::default(),
            finding: needs_bytes.then_some(Finding::Unproven),
        };
        let gone = entries
            .by_location
            .push(location.clone(), Entry::Opening(pending));
        drop(entries);
        // Dropped without the lock, since the entry may have the last handle of a file.
        drop(gone);
        let duty = Duty {
            nr,
            before,
            needs_bytes,
            outcome: sender,
        };
        Look::Opening(opening, Some(duty), Seen::default())
    }

    /// Ends opening `nr`, with one of these results for the table:
    ///
    /// - the new state, or none if the object was forgotten or found in another state concurrently;
    /// - the finding, also of a concurrent reader, that the cache cannot serve the object;
    /// - after another failure the previous state, which the next reader checks, or else the
    ///   previous finding; none if the object is missing.
    pub(crate) fn opened(&self, location: &Path, nr: u64, outcome: &Outcome) {
        let mut entries = self.entries();
        let (before, finding, seen) = match entries.by_location.peek_mut(location) {
            Some(Entry::Opening(now)) if now.nr == nr => {
                (now.before.take(), now.finding.take(), now.seen.clone())
            }
            _ => return,
        };
        let entry = match outcome {
            // Keep only a finding about this state. Otherwise the next reader opens the object.
            Ok(known) if seen.is_outdated(known) => {
                let of_known = finding.filter(|_| seen.is_replaced(known));
                of_known.map(Entry::Found)
            }
            Ok(known) => Some(Entry::Known(Arc::clone(known))),
            Err(error) if error.is_uncacheable() => {
                let finding = Finding::Uncacheable(Instant::now(), error.clone());
                Some(Entry::Found(finding))
            }
            Err(error) if error.is_of_missing() => None,
            Err(_) => {
                let before = before.clone().map(Entry::Known);
                before.or(finding.map(Entry::Found))
            }
        };
        let gone = match entry {
            Some(entry) => entries.by_location.push(location.clone(), entry),
            None => entries.by_location.pop_entry(location),
        };
        drop(entries);
        drop((gone, before, seen));
    }

    pub(crate) fn forget(&self, location: &Path) {
        let gone = self.entries().by_location.pop(location);
        self.note_forgotten(gone);
    }

    /// Removes the record of a disputed object, so that the next read opens it again.
    pub(crate) fn forget_disputed(&self, location: &Path) {
        let mut entries = self.entries();
        let entry = entries.by_location.peek(location);
        if let Some(Entry::Found(Finding::Uncacheable(_, error))) = entry
            && error.is_disputed()
        {
            entries.by_location.pop(location);
        }
    }

    /// Forgets this state of an object, if it is still the known one or is being checked.
    pub(crate) fn forget_state(&self, known: &Arc<Known>) {
        let location = &known.location;
        let mut entries = self.entries();
        let gone = match entries.by_location.peek_mut(location) {
            Some(Entry::Known(now)) if now.is(known) => entries.by_location.pop(location),
            Some(Entry::Opening(now)) => now.take_replaced(|before| before.is(known)),
            _ => None,
        };
        drop(entries);
        self.note_forgotten(gone);
    }

    /// Forgets this state as [`Self::forget_state`] does, and records that the cache cannot serve
    /// the object. If the object is disputed, records this even if another state is known: the
    /// servers disagree, so concurrent readers may have made any of the states the known one.
    pub(crate) fn pass_on(&self, known: &Arc<Known>, error: Shared) {
        let is_disputed = error.is_disputed();
        let finding = Finding::Uncacheable(Instant::now(), error);
        self.record(known, finding, is_disputed);
    }

    /// As [`Self::forget_state`]. The next opening requests bytes, even if the tier has the first
    /// pages.
    pub(crate) fn require_bytes(&self, known: &Arc<Known>) {
        self.record(known, Finding::Unproven, false);
    }

    fn record(&self, known: &Arc<Known>, finding: Finding, is_of_all_states: bool) {
        let mut entries = self.entries();
        let gone = match entries.by_location.peek_mut(&known.location) {
            Some(Entry::Known(now)) if now.is(known) || is_of_all_states => {
                let entry = Entry::Found(finding);
                let gone = entries.by_location.push(known.location.clone(), entry);
                gone.map(|(_, entry)| entry)
            }
            Some(Entry::Opening(now)) => {
                let gone = now.take_replaced(|before| before.is(known));
                if gone.is_some() {
                    now.finding = Some(finding);
                }
                gone
            }
            _ => None,
        };
        drop(entries);
        self.note_forgotten(gone);
    }

    /// Forgets up to `nr` known objects, the least recently used first. Returns their number.
    pub(crate) fn forget_oldest(&self, nr: usize) -> usize {
        let mut entries = self.entries();
        let mut gone = Vec::new();
        // Visits each entry at most once. Objects that are being opened stay. Findings are removed.
        for _ in 0..entries.by_location.len() {
            if gone.len() == nr {
                break;
            }
            match entries.by_location.pop_lru() {
                Some((_, Entry::Known(known))) => gone.push(known),
                Some((location, opening @ Entry::Opening(..))) => {
                    entries.by_location.push(location, opening);
                }
                Some((_, Entry::Found(_))) => {}
                None => break,
            }
        }
        drop(entries);
        gone.len()
    }

    /// Confirms or forgets the known state by metadata that the store has returned, or does nothing
    /// if these prove nothing. During an opening, keeps them for a comparison with the outcome. A
    /// listing has no `attributes`, and may have times of another precision.
    pub(crate) fn observe(
        &self,
        location: &Path,
        meta: &ObjectMeta,
        attributes: Option<&Attributes>,
    ) {
        let mut entries = self.entries();
        let gone = match entries.by_location.peek_mut(location) {
            Some(Entry::Opening(now)) => {
                now.seen.observe(meta);
                now.take_replaced(|before| before.state.compare(meta) == Verdict::Different)
            }
            Some(Entry::Known(known)) => match known.state.compare(meta) {
                Verdict::Same => {
                    match attributes.map(|attributes| known.confirmed(meta, attributes)) {
                        Some(Some(rewritten)) => *known = Arc::new(rewritten),
                        Some(None) => {}
                        None => known.touch(),
                    }
                    None
                }
                Verdict::Unproven => None,
                Verdict::Different => entries.by_location.pop(location),
            },
            _ => None,
        };
        drop(entries);
        self.note_forgotten(gone);
    }

    fn note_forgotten(&self, gone: Option<Entry>) {
        if matches!(gone, Some(Entry::Known(_))) {
            self.traffic.counters.nr_forgotten.add(1);
        }
        // Dropped without the lock. If the object is unused, the drop queues its file to be closed.
        drop(gone);
    }

    pub(crate) fn nr_openings(&self) -> u64 {
        self.entries().nr_openings
    }

    pub(crate) fn len(&self) -> usize {
        self.entries().by_location.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn table() -> Table {
        let traffic = Traffic::new(1, false, Duration::MAX, None);
        Table::new(NonZeroUsize::MIN, Duration::MAX, Arc::new(traffic))
    }

    #[test]
    fn observations_during_an_opening_are_bounded() {
        let (table, path) = (table(), Path::from("a"));
        let _opening = table.look(&path);
        for size in 0..1000 {
            let meta = ObjectMeta {
                location: path.clone(),
                last_modified: SystemTime::now().into(),
                size,
                e_tag: None,
                version: None,
            };
            table.observe(&path, &meta, None);
        }
        let Look::Opening(_, None, seen) = table.look(&path) else {
            panic!("the object is not being opened");
        };
        assert_eq!((seen.observed.len(), seen.has_more), (MAX_OBSERVED, true));
    }

    /// Otherwise the second opening after the minute could use the tier.
    #[test]
    fn openings_need_bytes_after_gets_were_passed_on_until_one_succeeds() {
        let (table, path) = (table(), Path::from("a"));
        let record = |age| {
            let error = Shared::broken("no ranges".into()).into_uncacheable();
            let found = Instant::now().checked_sub(age).unwrap();
            let entry = Entry::Found(Finding::Uncacheable(found, error));
            table.entries().by_location.push(path.clone(), entry);
        };
        let begin = || match table.look(&path) {
            Look::Opening(_, Some(duty), _) => duty,
            _ => panic!("the object is not opened"),
        };
        record(Duration::ZERO);
        assert!(matches!(table.look(&path), Look::Uncacheable(_)));
        record(MAX_UNCACHEABLE);
        for error in [
            Shared::broken("503 Slow Down".into()),
            Shared::abandoned("cannot open a"),
        ] {
            let duty = begin();
            assert!(duty.needs_bytes);
            table.opened(&path, duty.nr, &Err(error));
        }
        let duty = begin();
        assert!(duty.needs_bytes);
        let missing = Shared::new(object_store::Error::NotFound {
            path: "a".into(),
            source: "it was deleted".into(),
        });
        table.opened(&path, duty.nr, &Err(missing));
        assert!(!begin().needs_bytes);
    }
}
