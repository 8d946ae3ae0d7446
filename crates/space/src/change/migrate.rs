//! Migration: moves pages to frames of another node while they are in use.
//!
//! # Protocol
//!
//! The steps are stated for one page, in frame F. [`Engine::Batched`] performs each for many pages.
//! Step 1 is in [`crate::change::find`], the others are in [`crate::motion::mover`].
//!
//! 1. Allocate a frame D on the node. Under the claim of an entry that names F, isolate F: until
//!    the end, no other thread migrates it, and it is not freed.
//! 2. First walk: convert every present entry of F to a migration entry, under its claim, and its
//!    count in one addition ([`crate::words::counts`]), until F has no mappings.
//! 3. Check that the only reference to F is the one of its entries. Then F is not pinned, and
//!    neither pinned nor written later, since both require the claim of a present entry.
//! 4. Copy F to D. Publish D as a page, isolated and not mapped.
//! 5. Second walk: convert every migration entry of F to a present entry of D, with the marks that
//!    it kept, under its claim, and wake its waiters, until F has no migration entries. Until step
//!    6, D is isolated, so that no writer treats it as mapped once and writes it in place although
//!    more entries may be added ([`crate::words::counts`]).
//! 6. End the isolation of D, and drop the reference of its entries if all of them were dropped
//!    concurrently. Drop that of F's entries, which frees F unless another thread has a reference.
//!
//! Undo, if step 2 or 3 fails: a second walk restores the entries of F. Nothing else has changed.
//!
//! # Why the walks may stop where the counts say
//!
//! - A1. Every entry of F is counted by its kind, from before another thread can claim it until
//!   after it is removed: its count is added or converted before the claim of this entry, or of the
//!   one from which it is copied, ends. A copy is counted even while no directory names its table.
//! - A2. A new present entry of F is created only from another one, when a table is copied. So once
//!   F has no mappings, the first walk is complete, whatever runs concurrently.
//! - A3. A new migration entry of F is created only from a present entry, by this migration, or
//!   from another migration entry, when a table is copied. Without entries of either kind, the
//!   second walk is complete.
//! - A4. A walk of the whole family that leaves the count above zero has missed an entry in a table
//!   that was being copied, moved or dropped. The copy, move or drop waits for no migration. After
//!   it, a walk finds the entry, if it still exists. The first walk is repeated a few times and
//!   then gives up; the second one is repeated until it is complete.
//!
//! The counting of the RFC below would miss copies of converted entries
//! (`models::loom_published_counting_loses_a_copy`).
//!
//! # Concurrent accesses
//!
//! An optimistic read in flight finds its entry changed, also by a move to D and back, since each
//! change increments the version. The walks wait for a write that has claimed an entry. Later
//! accesses sleep on the migration entry and hold no lock. Forks share it, and unmapping drops it.
//!
//! # A page that is mapped once
//!
//! Such a page is moved under the claim of its only entry, without walks, migration entries or
//! isolation ([`Engine::Batched`]): no other thread can then write, pin or copy it, and accesses
//! wait as for a write of the whole page. The mover sets the count of F to zero by a
//! compare-and-swap, which fails if compaction has isolated the page. Then, or if the page is
//! pinned, it is left to the walks. A move takes three read-modify-writes: of the claim, the count
//! and F's reference count.
//!
//! # The family's reference
//!
//! The metadata of D takes over F's strong reference to the family. F's metadata then names the
//! family without a reference, and F is freed without dropping one. The walks use their own.
//!
//! Locks. Step 1 holds the structure lock of the space for reading, for one batch. The walks hold
//! the family's lock, and claims one at a time. No wait holds a lock, except waits for claims.
//!
//! Verified by `loom_fork_vs_first_walk`, `loom_fork_and_unmap_between_the_walks`,
//! `loom_undo_vs_fork_and_unmap`, `loom_migrate_vs_write`, `loom_read_vs_migration_there_and_back`,
//! `loom_pin_vs_move_under_claim`, `loom_cut_vs_move_under_claim`; by histories and stress tests.
//! Source: Linux, "Page migration" (Documentation/mm/page_migration); "introduce PGTY_mgt_entry
//! page_type" (RFC, July 2025) for the early end of the second walk.

use std::ops::Range;

use pagewell_sync::RwLock;
use pagewell_sync::thread::Backoff;

use crate::areas::set::Areas;
use crate::change::find::Finder;
use crate::change::migrate_files::FileMover;
use crate::motion::mover::Mover;
use crate::motion::report::{Engine, Migrated, NotMoved, now, since};
use crate::supply::frames::Supply;
use crate::tables::of_space::PageTables;

/// Maximum number of attempts for a page that was pinned, being moved, or had a missed entry.
const PASSES: usize = 3;

pub(crate) struct Migrator<'m> {
    finder: Finder<'m>,
    mover: Mover<'m>,
    files: FileMover<'m>,
}

impl<'m> Migrator<'m> {
    pub(crate) fn new(
        areas: &'m RwLock<Areas>,
        tables: &'m PageTables,
        supply: &'m Supply,
    ) -> Self {
        Self {
            finder: Finder::new(areas, tables, supply),
            mover: Mover::of(supply),
            files: FileMover::new(areas, tables),
        }
    }

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
