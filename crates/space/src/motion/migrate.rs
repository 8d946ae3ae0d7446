//! Migration: moves pages to frames of another node while they are in use.
//!
//! # Protocol
//!
//! For one page, in frame F; the batches of [`Engine::Batched`] do each step for all their pages.
//!
//! 1. Allocate a frame D on the node. Under the claim of an entry that names F, isolate F, so that
//!    no other thread migrates it, and it is not freed before the end.
//! 2. First walk: every present entry of F becomes a migration entry, under its claim, and is
//!    counted as one in the same step ([`crate::words::counts`]). It ends when F has no mappings.
//! 3. Check that F has one reference, on behalf of its entries. Then there is no pin, and no thread
//!    can pin it: that takes the claim of a present entry. Its bytes do not change any more, since
//!    writing takes one too.
//! 4. Copy F to D. Publish D as a page, isolated and not mapped.
//! 5. Second walk: every migration entry of F becomes a present entry of D, with the marks that it
//!    kept, under its claim, and its waiters are woken. The walk ends when F has no migration
//!    entries. Until step 6, no writer treats D as mapped once and writes it in place: more entries
//!    may come ([`crate::words::cow`]).
//! 6. End the isolation of D, which drops the reference of its entries if all were dropped
//!    concurrently. Drop the reference of F's entries, which frees F unless it is referenced
//!    otherwise.
//!
//! Undo, from 2 or 3: the migration entries of F become present entries of F again. Nothing else
//! has changed.
//!
//! # Why the walks may stop where the counts say
//!
//! - A1. Every entry of F is counted by its kind, from before another thread can claim it until
//!   after it is removed. A thread that creates, converts, copies or drops an entry holds its
//!   claim, or that of the entry it is copied from, and counts before the claim ends. A copy is
//!   counted even while no directory names its table.
//! - A2. A present entry of F comes only from another one: a page gets a second entry only when a
//!   table is copied. So once there are no mappings, none comes later, and the first walk is
//!   complete, whatever areas are left and whatever forks and copies of tables run.
//! - A3. A migration entry of F comes only from a present entry of F, converted by this migration,
//!   or from another migration entry. Once the count is zero, neither exists: the second walk is
//!   complete.
//! - A4. A walk that has visited the whole family while the count is not zero has missed an entry
//!   in a table that was being copied, moved or dropped. A thread that does this waits for no
//!   migration, and ends; then the entry is found, or removed. The first walk is repeated a few
//!   times and then gives up; the second one is repeated until it is complete.
//!
//! The published counting sets the type of the count word when the first walk ends, and so misses
//! copies of entries that were converted before: `models::loom_published_counting_loses_a_copy`
//! shows it. Here the count is a field of its own, and a conversion is one addition to it.
//!
//! # Concurrent accesses
//!
//! An optimistic read in flight finds its entry changed; versions do not repeat, so a move to D and
//! back is detected too. The walks wait for a write that has the claim; a later write waits. A fork
//! shares the tables with their entries. Unmapping drops migration entries as it does present ones.
//! A thread that finds a migration entry sleeps on its word, with no lock held.
//!
//! # A page that is mapped once
//!
//! takes no walk, no migration entry and no isolation ([`Engine::Batched`]): it is moved under the
//! claim of its only entry. No thread can write, pin or copy the page under this claim; accesses
//! wait as for a write of the whole page. Its count is set to zero by a compare-and-swap, which
//! fails if compaction has isolated the page. In this case, or if the page is pinned, it takes the
//! walks. So a move takes three read-modify-writes: the claim, the count, and the freeze of F. The
//! frames that the pages of a batch enter and leave are allocated and freed together.
//!
//! # The family's reference
//!
//! D gets F's strong reference to the family, so that a move changes no reference count of it. From
//! then on F's metadata names the family without a reference, and F is freed without dropping one.
//! The migrating thread has a reference of its own.
//!
//! Place. Step 1 is in [`find`](crate::motion::find), the others in
//! [`mover`](crate::motion::mover), which also moves pages for [`compact`](crate::motion::compact).
//!
//! Locks. Step 1 holds the structure lock of the space for reading, for a batch. The walks hold the
//! family's lock, and claims one at a time. No lock is held during a wait.
//!
//! Verified by `loom_fork_vs_first_walk`, `loom_fork_and_unmap_between_the_walks`,
//! `loom_undo_vs_fork_and_unmap`, `loom_migrate_vs_write`, `loom_read_vs_migration_there_and_back`,
//! `loom_pin_vs_move_under_claim`, `loom_cut_vs_move_under_claim`; by histories and the stress
//! test.
//!
//! Source: Linux, "Page migration" (Documentation/mm/page_migration); "introduce PGTY_mgt_entry
//! page_type" (RFC, July 2025) for the early end of the second walk.

use std::ops::Range;

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::RwLock;
use pagewell_sync::thread::Backoff;

use crate::areas::set::Areas;
use crate::motion::files::FileMover;
use crate::motion::find::Finder;
use crate::motion::mover::Mover;
use crate::motion::report::{Engine, Migrated, NotMoved, now, since};
use crate::supply::frames::Supply;
use crate::tables::of_space::PageTables;

/// Maximum number of attempts for a page that was pinned, not found, or being moved.
const PASSES: usize = 3;

pub(crate) struct Migrator<'m, S: RefScheme> {
    finder: Finder<'m, S>,
    mover: Mover<'m, S>,
    files: FileMover<'m, S>,
}

impl<'m, S: RefScheme> Migrator<'m, S> {
    pub(crate) fn new(
        areas: &'m RwLock<Areas<S>>,
        tables: &'m PageTables<S>,
        supply: &'m Supply<S>,
    ) -> Self {
        Self {
            finder: Finder::new(areas, tables, supply),
            mover: Mover::of(supply),
            files: FileMover::new(areas, tables),
        }
    }

    /// Moves the pages of `range`, which is mapped, to `node`.
    pub(crate) fn migrate(&self, range: &Range<u64>, node: usize, engine: Engine) -> Migrated {
        let mut report = Migrated::default();
        self.migrate_range(range, node, engine, &mut report);
        self.files.migrate(range, node, &mut report);
        for _ in 1..PASSES {
            let again: Vec<u64> = report
                .not_moved
                .iter()
                .filter(|(_, why)| !matches!(why, NotMoved::NodeFull | NotMoved::TooManyEntries))
                .map(|(addr, _)| *addr)
                .collect();
            if again.is_empty() {
                break;
            }
            Backoff::new().wait();
            report
                .not_moved
                .retain(|(_, why)| matches!(why, NotMoved::NodeFull | NotMoved::TooManyEntries));
            for addr in again {
                self.migrate_range(&(addr..addr + 1), node, engine, &mut report);
                self.files.migrate(&(addr..addr + 1), node, &mut report);
            }
        }
        report.not_moved.sort_unstable_by_key(|(addr, _)| *addr);
        report
    }

    pub(crate) fn migrate_range(
        &self,
        range: &Range<u64>,
        node: usize,
        engine: Engine,
        report: &mut Migrated,
    ) {
        let mut next = range.start;
        let mut batch = Vec::with_capacity(engine.batch());
        while next < range.end {
            let start = now();
            let rest = next..range.end;
            next = self
                .finder
                .find_batch(rest, node, engine, &mut batch, report);
            report.first_walk += since(start);
            self.mover.move_batch(&mut batch, engine, report);
            for page in batch.drain(..) {
                match page.failure() {
                    None => report.nr_moved += 1,
                    Some(why) => report.not_moved.push((page.addr().unwrap_or(0), why)),
                }
            }
        }
    }
}
