//! Minimal model of two countings of migration entries: the one proposed for Linux, and ours.
//!
//! Two entries, the parent's and a fork's, each with a lock, map one page, which has a word for its
//! counts. A migration walks from the parent's entry to the fork's: first to convert entries, then
//! to restore them. Each walk ends as early as the counting permits. A fork copies the parent's
//! entry to its own, which the walk may already have passed.
//!
//! Proposed (`Published`): the word is the map count until the first walk makes it zero, and sets a
//! type. From then on, it is the number of migration entries that the walk has created. A fork that
//! copies one adds one if the type is set. Copies made before that are not counted: the second walk
//! ends too early, and leaves an entry that names a freed frame.
//!
//! This crate: the word has a field for each kind of entry. Both change in one step.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::harness::explore;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Empty,
    Present,
    Migration,
    Moved,
}

trait Counting: Send + Sync + 'static {
    fn new() -> Self;
    /// Records that the first walk has converted a locked entry. Returns whether it was the last.
    fn turned(&self) -> bool;
    fn walked(&self, nr: u64);
    /// Records that a fork copies an entry, whose lock is held.
    fn copied(&self, entry: Entry);
    /// Records that the second walk has restored a locked entry. Returns whether it was the last.
    fn restored(&self) -> bool;
}

const TYPED: u64 = 1 << 32;

struct Published(AtomicU64);

impl Counting for Published {
    fn new() -> Self {
        Self(AtomicU64::new(1))
    }

    fn turned(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }

    fn walked(&self, nr: u64) {
        self.0.store(TYPED | nr, Ordering::Release);
    }

    fn copied(&self, entry: Entry) {
        match entry {
            Entry::Present => _ = self.0.fetch_add(1, Ordering::AcqRel),
            Entry::Migration if self.0.load(Ordering::Acquire) & TYPED != 0 => {
                self.0.fetch_add(1, Ordering::AcqRel);
            }
            _ => {}
        }
    }

    fn restored(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == TYPED | 1
    }
}

struct Ours(AtomicU64);

const MIGRATION: u64 = 1 << 32;

impl Counting for Ours {
    fn new() -> Self {
        Self(AtomicU64::new(1))
    }

    fn turned(&self) -> bool {
        (self.0.fetch_add(MIGRATION - 1, Ordering::AcqRel) - 1) & (MIGRATION - 1) == 0
    }

    fn walked(&self, _: u64) {}

    fn copied(&self, entry: Entry) {
        let one = match entry {
            Entry::Present => 1,
            Entry::Migration => MIGRATION,
            _ => 0,
        };
        self.0.fetch_add(one, Ordering::AcqRel);
    }

    fn restored(&self) -> bool {
        self.0.fetch_sub(MIGRATION, Ordering::AcqRel) >> 32 == 1
    }
}

fn fork_vs_migration<C: Counting>() {
    let places = Arc::new([Mutex::new(Entry::Present), Mutex::new(Entry::Empty)]);
    let counts = Arc::new(C::new());
    let forker = {
        let (places, counts) = (Arc::clone(&places), Arc::clone(&counts));
        thread::spawn(move || {
            let parent = places[0].lock().unwrap();
            if matches!(*parent, Entry::Present | Entry::Migration) {
                counts.copied(*parent);
                *places[1].lock().unwrap() = *parent;
            }
        })
    };
    // First walk. It is repeated if it has missed an entry that was being copied.
    let mut nr = 0;
    'walk: loop {
        for place in &*places {
            let mut entry = place.lock().unwrap();
            if *entry == Entry::Present {
                *entry = Entry::Migration;
                nr += 1;
                if counts.turned() {
                    break 'walk;
                }
            }
        }
        thread::yield_now();
    }
    counts.walked(nr);
    'walk: loop {
        for place in &*places {
            let mut entry = place.lock().unwrap();
            if *entry == Entry::Migration {
                *entry = Entry::Moved;
                if counts.restored() {
                    break 'walk;
                }
            }
        }
        thread::yield_now();
    }
    forker.join().unwrap();
    for place in &*places {
        assert_ne!(
            *place.lock().unwrap(),
            Entry::Migration,
            "an entry was left behind"
        );
    }
}

#[test]
#[should_panic(expected = "an entry was left behind")]
fn loom_published_counting_loses_a_copy() {
    explore(3, fork_vs_migration::<Published>);
}

#[test]
fn loom_counting_in_a_field_of_its_own_loses_none() {
    explore(3, fork_vs_migration::<Ours>);
}
