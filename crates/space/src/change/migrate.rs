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
use std::sync::Arc;
use std::time::Instant;

use pagewell_cache::PageMove;
use pagewell_sync::read;
use pagewell_sync::thread::Backoff;

use crate::areas::file::{FileArea, Sharing};
use crate::error::{Error, ErrorKind, Op};
use crate::mm::space::{Mm, Space};
use crate::motion::report::{Engine, Migrated, NotMoved};

/// Maximum number of attempts for a page that was pinned, being moved, or had a missed entry.
const PASSES: usize = 3;

/// Maximum number of pages of files between two lookups of the areas.
const FILE_BATCH: u64 = 512;

impl Space {
    /// Moves the pages of `range`, which must be mapped completely, to `node`. This includes pages
    /// that other spaces share, and cached pages of mapped files. Only accesses of a page that is
    /// being moved wait. The result lists the pages that could not be moved. Fails with
    /// [`ErrorKind`] `NoSuchNode`, `InvalidRange`, `Misaligned` or `Unmapped`.
    pub fn migrate(&self, range: Range<u64>, node: usize) -> Result<Migrated, Error> {
        self.migrate_by(range, node, Engine::default())
    }

    /// As [`migrate`](Self::migrate), by `engine`, so that benchmarks can compare the engines.
    #[cfg(feature = "baselines")]
    pub fn migrate_with(
        &self,
        range: Range<u64>,
        node: usize,
        engine: Engine,
    ) -> Result<Migrated, Error> {
        self.migrate_by(range, node, engine)
    }

    fn migrate_by(
        &self,
        range: Range<u64>,
        node: usize,
        engine: Engine,
    ) -> Result<Migrated, Error> {
        let mm = &*self.mm;
        if node >= mm.shared.pool().nr_nodes() {
            return Err(Error::at(ErrorKind::NoSuchNode, Op::Migrate, range.start));
        }
        read(&mm.structure).check(&range, Op::Migrate)?;
        let mut report = Migrated::default();
        mm.migrate_range(&range, node, engine, &mut report);
        mm.migrate_files(&range, node, &mut report);
        for _ in 1..PASSES {
            let (stay, again): (Vec<_>, Vec<_>) = std::mem::take(&mut report.not_moved)
                .into_iter()
                .partition(|(_, why)| matches!(why, NotMoved::NodeFull | NotMoved::TooManyEntries));
            report.not_moved = stay;
            if again.is_empty() {
                break;
            }
            Backoff::new().wait();
            for (addr, _) in again {
                mm.migrate_range(&(addr..addr + 1), node, engine, &mut report);
                mm.migrate_files(&(addr..addr + 1), node, &mut report);
            }
        }
        report.not_moved.sort_unstable_by_key(|(addr, _)| *addr);
        Ok(report)
    }
}

impl Mm {
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
            let start = Instant::now();
            let rest = next..range.end;
            next = self.find_batch(rest, node, engine, &mut batch, report);
            report.first_walk += start.elapsed();
            self.shared.supply.move_batch(&mut batch, engine, report);
            for page in batch.drain(..) {
                match page.failure() {
                    None => report.nr_moved += 1,
                    Some(why) => report.not_moved.push((page.addr.unwrap_or(0), why)),
                }
            }
        }
    }

    /// Moves the pages of files that areas map. No entry names such a page, so walks are not
    /// needed. Pages are moved under claims of their slots
    /// ([`pagewell_cache::MappedFile::move_page`]). The structure lock is held only while areas are
    /// listed.
    fn migrate_files(&self, range: &Range<u64>, node: usize, report: &mut Migrated) {
        let mut next = range.start;
        while let Some((file, part)) = self.next_file(next..range.end) {
            let page_bytes = file.file().page_size() as u64;
            let part = part.start..part.end.min(part.start + FILE_BATCH * page_bytes);
            next = part.end;
            // Begin at the page that contains the start of `part`.
            let first = part.start - file.pos_of(part.start) % page_bytes;
            for addr in (first..part.end).step_by(page_bytes as usize) {
                // A hint suffices: if the area gets or loses a copy now, the file's page is moved
                // unnecessarily, or stays, as if the migration had come a moment earlier or later.
                if file.sharing == Sharing::Private && file.no_copy(&self.tables, addr).is_none() {
                    continue;
                }
                match file.file().move_page(file.page_of(addr), node) {
                    PageMove::Done => report.nr_moved += 1,
                    PageMove::There => report.nr_there += 1,
                    PageMove::NodeFull => report.not_moved.push((addr, NotMoved::NodeFull)),
                    PageMove::Pinned => report.not_moved.push((addr, NotMoved::Pinned)),
                    PageMove::Busy => report.not_moved.push((addr, NotMoved::InMigration)),
                    // The page is not cached: a later fill selects its node.
                    _ => {}
                }
            }
        }
    }

    fn next_file(&self, range: Range<u64>) -> Option<(Arc<FileArea>, Range<u64>)> {
        if range.is_empty() {
            return None;
        }
        let areas = read(&self.structure);
        let area = areas.overlapping(&range).find(|area| area.file.is_some())?;
        let part = area.range.start.max(range.start)..area.range.end.min(range.end);
        Some((Arc::clone(area.file.as_ref()?), part))
    }
}
