//! Migration: moving pages to frames of another node while they are in use.
//!
//! # Protocol
//!
//! For one page, in frame F; the batches of [`Engine::Batched`] do each step for all of their pages.
//!
//! 1. Allocate a frame D on the node. Under the claim of an entry that names F: isolate F, so that nobody else migrates
//!    it, and it is not freed before the end.
//! 2. First walk: every present entry of F becomes a migration entry, under its claim, and is counted as one in the same
//!    step ([`crate::counts`]). It ends when F has no mappings.
//! 3. F has one reference, on behalf of its entries? Then nobody has it pinned, and nobody can pin it: that takes the
//!    claim of a present entry. Its bytes do not change any more, since writing takes one too.
//! 4. Copy F to D; D becomes a page, isolated and not mapped.
//! 5. Second walk: every migration entry of F becomes a present entry of D, with the marks that it has kept, under its
//!    claim; who waits for it goes on. It ends when F has no migration entries.
//!    Until 6 nobody takes D for a page that is mapped once, and writes it where it is: more entries may come ([`crate::cow`]).
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
//! is found without any walk ([`Engine::Batched`]): the entry by which it was found is the only one, and is turned under the
//! claim under which it was isolated. The second walk looks there first; if that was not all, since the table was copied or
//! the entry moved, it walks.
//!
//! Locks. Step 1 holds the structure lock of the space for reading, for a batch. The walks hold the family's lock, and claims one
//! at a time. Nothing is held while waiting.
//!
//! Proved by `loom_fork_vs_first_walk`, `loom_fork_and_unmap_between_the_walks`, `loom_undo_vs_fork_and_unmap`,
//! `loom_migrate_vs_write`, `loom_read_vs_migration_there_and_back`; by the histories and the stress test.
//!
//! Source: Linux, "Page migration" (Documentation/mm/page_migration); "introduce PGTY_mgt_entry page_type" (RFC, July 2025) for
//! the early end of the second walk.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{AllocRequest, FrameNr, Order, Place, Reserve, UniqueFrame};
use pagewell_sync::read;
use pagewell_sync::thread::Backoff;

use crate::claim::Claim;
use crate::counts::ISOLATED;
use crate::cow::References;
use crate::error::{Error, ErrorKind, Op};
use crate::family::Family;
use crate::geometry::{TABLE_BYTES, entry_of};
use crate::pte::State;
use crate::raw;
use crate::shared::Shared;
use crate::space::{Inner, Space};
use crate::table::look;
use crate::walk::{Step, TableCursor};

/// How pages are moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// Page by page; the second walk goes through all areas that may map the page. The baseline.
    FullWalk,
    /// Page by page; the second walk ends with the last migration entry.
    EarlyStop,
    /// Many pages by one walk, and those that are mapped once by none.
    #[default]
    Batched,
}

impl Engine {
    fn batch(self) -> usize {
        match self {
            Self::FullWalk | Self::EarlyStop => 1,
            Self::Batched => 64,
        }
    }
}

/// Why a page was not moved. It is where it was, and nothing about it has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotMoved {
    /// The node has no frame for it.
    NodeFull,
    /// Somebody has it pinned.
    Pinned,
    /// Somebody else is moving it.
    InMigration,
    /// It is mapped by more entries than can be counted while it is being moved
    /// ([`MAX_MIGRATION_ENTRIES`](crate::MAX_MIGRATION_ENTRIES)).
    TooManyEntries,
    /// Entries of it were being copied or moved all the while, and could not all be found.
    StillMapped,
}

/// What came of a migration.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Migrated {
    /// How many pages were moved.
    pub nr_moved: usize,
    /// How many pages were on the node already.
    pub nr_there: usize,
    /// The pages that were not moved, by address, and why.
    pub not_moved: Vec<(u64, NotMoved)>,
    /// How long the first walks took, and finding the pages.
    pub first_walk: Duration,
    /// How long the copies took.
    pub copy: Duration,
    /// How long the second walks took.
    pub second_walk: Duration,
}

/// How often a page is tried that was pinned, or could not be found, or was being moved.
const PASSES: usize = 3;

/// How often the first walk is done for one page before it is given up.
const FIRST_WALKS: usize = if cfg!(loom) { 2 } else { 8 };

/// How often the references are looked at while the page is out of everybody's reach.
const LOOKS: usize = if cfg!(loom) { 1 } else { 4 };

/// A page on its way.
pub(crate) struct Moving<'s, S: RefScheme> {
    from: FrameNr,
    order: Order,
    /// Which family it is of: the word in its record.
    family: u64,
    index: u64,
    /// Its address in the space that is migrated; none if it was found by its frame.
    addr: Option<u64>,
    /// Whether the entry at `addr` was turned when the page was found, and was the only one.
    is_turned: bool,
    to: Option<UniqueFrame<'s, S>>,
    /// The page that `to` became.
    arrived: Option<FrameNr>,
    failure: Option<NotMoved>,
}

impl<'s, S: RefScheme> Moving<'s, S> {
    /// A page that the caller has isolated, to be moved into `to`.
    pub(crate) fn new(
        shared: &Shared<S>,
        from: FrameNr,
        to: UniqueFrame<'s, S>,
        addr: Option<u64>,
    ) -> Self {
        let (family, index) = shared.pool().meta(from).owner();
        Self {
            from,
            order: to.order(),
            family,
            index,
            addr,
            is_turned: false,
            to: Some(to),
            arrived: None,
            failure: None,
        }
    }

    pub(crate) fn from(&self) -> FrameNr {
        self.from
    }

    pub(crate) fn index(&self) -> u64 {
        self.index
    }

    pub(crate) fn order(&self) -> Order {
        self.order
    }

    pub(crate) fn has_arrived(&self) -> bool {
        self.arrived.is_some()
    }
}

impl<S: RefScheme> Space<S> {
    /// Moves the pages of `range`, all of which must be mapped, to `node`: those that are elsewhere, whoever else has a
    /// share of them. Accesses go on meanwhile; one that meets a page on its way waits for it. Pages of files that are
    /// mapped there are moved too, if they are cached.
    ///
    /// What cannot be moved stays where it was, and is in the answer, with the reason.
    ///
    /// # Errors
    ///
    /// [`NoSuchNode`](ErrorKind::NoSuchNode), [`InvalidRange`](ErrorKind::InvalidRange),
    /// [`Misaligned`](ErrorKind::Misaligned), [`Unmapped`](ErrorKind::Unmapped).
    pub fn migrate(&self, range: Range<u64>, node: usize) -> Result<Migrated, Error> {
        self.migrate_with(range, node, Engine::default())
    }

    /// As [`migrate`](Self::migrate), as `engine` says.
    ///
    /// # Errors
    ///
    /// As [`migrate`](Self::migrate).
    pub fn migrate_with(
        &self,
        range: Range<u64>,
        node: usize,
        engine: Engine,
    ) -> Result<Migrated, Error> {
        let inner = &*self.inner;
        if node >= inner.shared.pool().nr_nodes() {
            return Err(Error::at(ErrorKind::NoSuchNode, Op::Migrate, range.start));
        }
        inner.check(&read(&inner.structure), &range, Op::Migrate)?;
        let mut report = Migrated::default();
        inner.migrate_range(&range, node, engine, &mut report);
        inner.migrate_files(&range, node, &mut report);
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
                inner.migrate_range(&(addr..addr + 1), node, engine, &mut report);
                inner.migrate_files(&(addr..addr + 1), node, &mut report);
            }
        }
        report.not_moved.sort_unstable_by_key(|(addr, _)| *addr);
        Ok(report)
    }
}

impl<S: RefScheme> Inner<S> {
    /// One pass over the pages of `range`.
    pub(crate) fn migrate_range(
        &self,
        range: &Range<u64>,
        node: usize,
        engine: Engine,
        report: &mut Migrated,
    ) {
        let mut next = range.start;
        let mut spare = Vec::new();
        while next < range.end {
            let start = now();
            let mut batch = Vec::with_capacity(engine.batch());
            let rest = next..range.end;
            next = self.find_batch(rest, node, engine, &mut spare, &mut batch, report);
            report.first_walk += since(start);
            self.shared
                .move_batch(Some(self), &mut batch, engine, report);
            for page in &batch {
                match (page.failure, page.addr) {
                    (None, _) => report.nr_moved += 1,
                    (Some(why), addr) => report.not_moved.push((addr.unwrap_or(0), why)),
                }
            }
        }
    }

    /// Step 1: isolates pages of `range` from its start on, as many as a batch has; returns where to go on.
    fn find_batch<'s>(
        &'s self,
        range: Range<u64>,
        node: usize,
        engine: Engine,
        spare: &mut Vec<UniqueFrame<'s, S>>,
        batch: &mut Vec<Moving<'s, S>>,
        report: &mut Migrated,
    ) -> u64 {
        let shared = &*self.shared;
        let areas = read(&self.structure);
        let mut most = engine.batch() as u64 * TABLE_BYTES;
        for area in areas.overlapping(&range) {
            let end = area.range.end.min(range.end);
            let mut addr = area.range.start.max(range.start);
            while addr < end {
                let word = &self.tables_of(&(addr..addr + 1))[0];
                let next_table = (addr + 1).next_multiple_of(TABLE_BYTES).min(end);
                let Some(table) = shared.hold_table(word) else {
                    addr = next_table;
                    continue;
                };
                while addr < next_table {
                    if batch.len() == engine.batch() || most < area.page_bytes() {
                        return addr;
                    }
                    let entry = entry_of(addr, u32::from(area.order.get()));
                    let word = raw::entry(&shared.view, table.pmd.frame(), entry);
                    let wanted = engine
                        .batch()
                        .min(((end - addr) / area.page_bytes()) as usize);
                    let to = || shared.take_spare(area.order, node, wanted, spare);
                    match self.isolate_for(word, addr, to, node, engine) {
                        Found::Nothing => {}
                        Found::There => report.nr_there += 1,
                        Found::Page(page) => {
                            // Large pages are a batch of few.
                            most =
                                most.saturating_sub(area.page_bytes() * engine.batch() as u64 / 16);
                            batch.push(page);
                        }
                        Found::Failed(why) => report.not_moved.push((addr, why)),
                    }
                    addr += area.page_bytes();
                }
            }
        }
        range.end
    }

    fn isolate_for<'s>(
        &'s self,
        word: &pagewell_sync::atomic::AtomicU64,
        addr: u64,
        mut new_frame: impl FnMut() -> Option<UniqueFrame<'s, S>>,
        node: usize,
        engine: Engine,
    ) -> Found<'s, S> {
        let shared = &*self.shared;
        let mut to = None;
        let mut backoff = Backoff::new();
        loop {
            let entry = look(word);
            let frame = match entry.state() {
                State::Empty => return Found::Nothing,
                State::Migration(_) => return Found::Failed(NotMoved::InMigration),
                State::Busy => {
                    backoff.wait();
                    continue;
                }
                State::Present(frame) => frame,
            };
            if shared.pool().node_of(frame) == Some(node) {
                return Found::There;
            }
            let Some(to_frame) = to.take().or_else(&mut new_frame) else {
                return Found::Failed(NotMoved::NodeFull);
            };
            let Some(claim) = Claim::try_new(word, entry) else {
                to = Some(to_frame);
                continue;
            };
            let is_turned = engine == Engine::Batched && shared.isolate_and_turn(frame);
            if !is_turned && !shared.isolate(frame) {
                return Found::Failed(NotMoved::InMigration);
            }
            let mut page = Moving::new(shared, frame, to_frame, Some(addr));
            page.is_turned = is_turned;
            if is_turned {
                claim.end(entry.to_migration());
            }
            return Found::Page(page);
        }
    }
}

/// What an entry turned out to be.
enum Found<'s, S: RefScheme> {
    /// Nothing is mapped there.
    Nothing,
    /// The page is on the node.
    There,
    /// The page is isolated.
    Page(Moving<'s, S>),
    Failed(NotMoved),
}

impl<S: RefScheme> Shared<S> {
    /// A block on this node and no other; single frames from `spare`, into which up to `wanted` are taken at once.
    fn take_spare<'s>(
        &'s self,
        order: Order,
        node: usize,
        wanted: usize,
        spare: &mut Vec<UniqueFrame<'s, S>>,
    ) -> Option<UniqueFrame<'s, S>> {
        if order > Order::ZERO || wanted < 2 {
            return self.alloc_on(order, node);
        }
        if spare.is_empty() {
            self.pool().alloc_bulk_on(node, wanted, spare);
        }
        spare.pop().or_else(|| self.alloc_on(order, node))
    }

    /// A block on this node and no other.
    pub(crate) fn alloc_on(&self, order: Order, node: usize) -> Option<UniqueFrame<'_, S>> {
        let request = AllocRequest {
            order,
            place: Place::Only(node),
            reserve: Reserve::Keep,
        };
        self.pool().alloc_by(&request).ok()
    }

    /// Steps 2 to 6 for pages that are isolated: each of them has arrived afterwards, or failed and is where it was.
    /// `space` is the one in which their addresses are.
    pub(crate) fn move_batch(
        &self,
        space: Option<&Inner<S>>,
        batch: &mut [Moving<'_, S>],
        engine: Engine,
        report: &mut Migrated,
    ) {
        let start = now();
        // 2.
        batch.sort_unstable_by_key(|page| (page.family, page.index));
        self.first_walk(batch);
        // 3.
        for page in batch.iter_mut() {
            if page.failure.is_none() && self.counts(page.from).mappings() != 0 {
                page.failure = Some(NotMoved::StillMapped);
            }
            if page.failure.is_none() && self.is_pinned(page.from) {
                page.failure = Some(NotMoved::Pinned);
            }
        }
        let walked = now();
        // 4.
        for_each_family(self, batch, |family, pages| {
            for page in pages.iter_mut().filter(|page| page.failure.is_none()) {
                if let Some(to) = page.to.take() {
                    let bytes = to.bytes();
                    bytes.copy_from_racy(0, self.pool().bytes(page.from, bytes.len()));
                    page.arrived = Some(self.publish_page(to, family, page.index, ISOLATED));
                }
            }
        });
        let copied = now();
        // 5, and the undoing of those that failed.
        self.second_walk(space, batch, engine);
        // 6.
        let mut left = Vec::with_capacity(batch.len());
        for page in batch.iter() {
            if let Some(arrived) = page.arrived {
                self.end_isolation(arrived);
            }
            let reference = self.end_isolation_of(page.from);
            // Whoever else looks at the frame at this moment frees it instead.
            left.extend(reference.and_then(|reference| reference.try_unique().ok()));
        }
        self.pool().free_bulk(left);
        let end = now();
        report.first_walk += walked - start;
        report.copy += copied - walked;
        report.second_walk += end - copied;
    }

    /// Whether somebody has a page pinned whose entries are all migration entries. Those that only look at the frame for a
    /// moment are waited for.
    fn is_pinned(&self, frame: FrameNr) -> bool {
        let mut backoff = Backoff::new();
        for _ in 0..LOOKS {
            if self.references(frame) == References::Mapped {
                return false;
            }
            backoff.wait();
        }
        true
    }

    /// Step 2. `batch` is sorted by family and index.
    fn first_walk(&self, batch: &mut [Moving<'_, S>]) {
        let mut backoff = Backoff::new();
        for _ in 0..FIRST_WALKS {
            let mut nr_left = 0;
            for_each_family(self, batch, |family, pages| {
                let mut left = pages.iter().filter(|page| self.is_to_turn(page)).count();
                if left > 0 {
                    self.walk(family, pages, |page, entry| {
                        if !self.is_to_turn(page) {
                            return Step::Pass;
                        }
                        let Some(claim) = entry.claim(State::Present(page.from)) else {
                            return Step::Pass;
                        };
                        match self.turn_to_migration(page.from) {
                            Ok(counts) => {
                                let before = claim.before();
                                claim.end(before.to_migration());
                                left -= usize::from(counts.mappings() == 0);
                            }
                            Err(_) => {
                                page.failure = Some(NotMoved::TooManyEntries);
                                left -= 1;
                            }
                        }
                        if left == 0 { Step::End } else { Step::Pass }
                    });
                }
                nr_left += pages.iter().filter(|page| self.is_to_turn(page)).count();
            });
            if nr_left == 0 {
                return;
            }
            backoff.wait();
        }
    }

    /// Whether there are entries of a page to be turned.
    fn is_to_turn(&self, page: &Moving<'_, S>) -> bool {
        page.failure.is_none() && self.counts(page.from).mappings() != 0
    }

    /// Step 5: migration entries become present ones, of the new frame or, where there is none, the old one.
    fn second_walk(&self, space: Option<&Inner<S>>, batch: &mut [Moving<'_, S>], engine: Engine) {
        // Those of which the entry is known.
        if let Some(space) = space {
            let mut cursor = TableCursor::new(self);
            let mut restored = Vec::with_capacity(batch.len());
            for page in batch.iter().filter(|page| page.is_turned) {
                if let Some(addr) = page.addr
                    && let Some(entry) = cursor.entry(space, addr, page.order)
                    && self.restore(page, entry)
                {
                    restored.push(entry.word());
                }
            }
            self.waits.wake_all(restored);
        }
        let mut backoff = Backoff::new();
        let mut must_walk_all = engine == Engine::FullWalk;
        loop {
            let mut nr_left = 0;
            for_each_family(self, batch, |family, pages| {
                let is_waited_for = |page: &Moving<'_, S>| self.counts(page.from).migrations() != 0;
                if must_walk_all || pages.iter().any(&is_waited_for) {
                    let mut left = pages.iter().filter(|page| is_waited_for(page)).count();
                    self.walk(family, pages, |page, entry| {
                        if self.restore(page, entry) {
                            self.waits.wake(entry.word());
                            left -= usize::from(!is_waited_for(page));
                        }
                        if left == 0 && !must_walk_all {
                            Step::End
                        } else {
                            Step::Pass
                        }
                    });
                }
                nr_left += pages.iter().filter(|page| is_waited_for(page)).count();
            });
            if nr_left == 0 {
                return;
            }
            must_walk_all = false;
            // A4.
            backoff.wait();
        }
    }

    /// Makes a migration entry of the page a present one; false if this is none. The caller wakes who waits for it.
    fn restore(&self, page: &Moving<'_, S>, entry: crate::walk::Entry<'_>) -> bool {
        let Some(claim) = entry.claim(State::Migration(page.from)) else {
            return false;
        };
        let before = claim.before();
        match page.arrived {
            Some(to) => {
                self.add_mapping(to);
                claim.end(before.restored(to));
                self.drop_migration(page.from);
            }
            None => {
                self.turn_back(page.from);
                claim.end(before.restored(page.from));
            }
        }
        true
    }
}

/// Calls `work` with the pages of each family, of pages that are sorted by family.
fn for_each_family<S: RefScheme>(
    shared: &Shared<S>,
    batch: &mut [Moving<'_, S>],
    mut work: impl FnMut(&Arc<Family<S>>, &mut [Moving<'_, S>]),
) {
    for pages in batch.chunk_by_mut(|a, b| a.family == b.family) {
        let family = shared.family_of(pages[0].from);
        work(&family, pages);
    }
}

/// The time, for the report.
fn now() -> Instant {
    Instant::now()
}

fn since(start: Instant) -> Duration {
    start.elapsed()
}
