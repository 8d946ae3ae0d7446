//! Migration: moving pages to frames of another node while they are in use.
//!
//! # Protocol
//!
//! For one page, in frame F; the batches of [`Engine::Batched`] do each step for all of their pages.
//!
//! 1. Allocate a frame D on the node. Under the claim of an entry that names F: isolate F, so that nobody else migrates
//!    it, and it is not freed before the end.
//! 2. First walk: every present entry of F becomes a migration entry, under its claim, and is counted as one in the same
//!    step ([`crate::words::counts`]). It ends when F has no mappings.
//! 3. F has one reference, on behalf of its entries? Then nobody has it pinned, and nobody can pin it: that takes the
//!    claim of a present entry. Its bytes do not change any more, since writing takes one too.
//! 4. Copy F to D; D becomes a page, isolated and not mapped.
//! 5. Second walk: every migration entry of F becomes a present entry of D, with the marks that it has kept, under its
//!    claim; who waits for it goes on. It ends when F has no migration entries.
//!    Until 6 nobody takes D for a page that is mapped once, and writes it where it is: more entries may come ([`crate::words::cow`]).
//! 6. End the isolation of D, which may have no mappings: if all entries were dropped meanwhile it is freed; and that of F,
//!    which is.
//!
//! Undo, from 2 or 3: the migration entries of F become present entries of F again. Nothing else has happened yet.
//!
//! # Why the walks may stop where the counts say
//!
//! A1. Every entry of F is counted, of its kind, from before it can be claimed by anybody else until after it is gone: what
//!     makes, turns, copies or drops an entry holds its claim, or that of the entry it is copied from, and counts before the
//!     claim ends. A copy is in a table that nobody sees yet, and is counted all the same.
//! A2. A present entry of F comes from another one (no page is mapped at a second place, but by copying a table). So once
//!     there are no mappings there is none that comes later: the first walk is over, however many areas are left, and whatever
//!     forks and copies of tables go on.
//! A3. A migration entry of F comes from a present entry of F, turned by this migration alone, or from another migration
//!     entry, of which there is none either once the count is zero. So the second walk is over.
//! A4. A walk that has gone through the family while the count is not zero has missed an entry in a table that was being copied,
//!     or moved, or dropped at that moment. Whoever does that waits for nobody that migrates, and ends; then the entry is
//!     found, or gone. The first walk tries some more times and then gives up; the second one goes on until it is done.
//!
//! The counting that was published sets the type of the count word when the first walk ends, and so misses the copies that were
//! made of entries turned before: `models::loom_published_counting_loses_a_copy` shows it. Here the count is a field of its own,
//! and a turn is one addition to it.
//!
//! # What others see
//!
//! An optimistic read in flight finds that its entry has changed; versions never repeat, so moving there and back is seen
//! too. A write that has the claim is waited for; one that comes later waits. A fork shares the tables, with whatever is in
//! them. Unmapping drops migration entries as it does present ones. Who meets a migration entry sleeps on its word, with no lock
//! held.
//!
//! # A page that is mapped once
//!
//! takes no walk, no migration entry and no isolation ([`Engine::Batched`]): it is moved under the claim of its only entry, by
//! which it was found. Nobody can write, pin or copy the page meanwhile, and who meets the entry waits as for a write of the
//! whole page. Its count goes to zero by a compare-and-swap, which fails if compaction has isolated the page; then, or if
//! somebody has it pinned, it takes the long way. So it takes three read-modify-writes: the claim, the count, and to get hold
//! of F's record. Where the pages of a batch are moved to, and what they leave, is allocated and freed for all of them.
//!
//! # Whose the family is
//!
//! D gets the family of F with F's share of it, so that a move counts no family up and down. From then on F's record
//! names it, and has no share: it is let go without giving one back. Whoever migrates holds a share of its own.
//!
//! Place. Step 1 is in [`find`](crate::motion::find), the others are in [`mover`](crate::motion::mover), by which
//! [`compact`](crate::motion::compact) moves pages too.
//!
//! Locks. Step 1 holds the structure lock of the space for reading, for a batch. The walks hold the family's lock, and claims one
//! at a time. Nothing is held while waiting.
//!
//! Proved by `loom_fork_vs_first_walk`, `loom_fork_and_unmap_between_the_walks`, `loom_undo_vs_fork_and_unmap`,
//! `loom_migrate_vs_write`, `loom_read_vs_migration_there_and_back`, `loom_pin_vs_move_under_claim`,
//! `loom_cut_vs_move_under_claim`; by the histories and the stress test.
//!
//! Source: Linux, "Page migration" (Documentation/mm/page_migration); "introduce PGTY_mgt_entry page_type" (RFC, July 2025) for
//! the early end of the second walk.

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

/// How often a page is tried that was pinned, or could not be found, or was being moved.
const PASSES: usize = 3;

/// Moves the pages of a space.
pub(crate) struct Migrator<'m, S: RefScheme> {
    finder: Finder<'m, S>,
    mover: Mover<'m, S>,
    files: FileMover<'m, S>,
}

impl<'m, S: RefScheme> Migrator<'m, S> {
    /// For a space with these areas and tables, in these frames.
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

    /// Moves the pages of `range`, all of which are mapped, to `node`.
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

    /// One pass over the pages of `range`.
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
