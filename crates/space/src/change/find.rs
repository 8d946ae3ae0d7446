//! Selection of pages to be moved: the first step of a [migration](crate::change::migrate).
//!
//! For one table, with the structure lock held for reading and a reference to the table:
//! 1. Load the entries, and count the pages on other nodes.
//! 2. Allocate at most that many frames on the target node. This batch uses or frees all of them.
//! 3. Claim the entries. Move pages that are mapped once; isolate others for walks.
//! 4. Free the frames that pages have left.
//!
//! A concurrent fault may replace the table in the directory; the table then belongs to other
//! spaces. So the directory is checked after an entry was loaded, and again under its claim.
//! Another space changes an entry only after this one has changed the directory and then dropped
//! its share, so a thread that loads the changed entry sees the change of the directory, too.

use std::ops::Range;
use std::vec;

use pagewell_frame::{Order, UniqueFrame};
use pagewell_sync::atomic::AtomicU64;
use pagewell_sync::read;
use pagewell_sync::thread::Backoff;

use crate::areas::area::Area;
use crate::mm::space::Mm;
use crate::motion::mover::Moving;
use crate::motion::report::{Engine, Migrated, NotMoved};
use crate::supply::frames::Supply;
use crate::tables::table::Held;
use crate::words::claim::{Claim, look};
use crate::words::geometry::{TABLE_BYTES, entry_of, page_bytes};
use crate::words::pmd::Directory;
use crate::words::pte::{Pte, State};

/// Maximum size of a batch: that of the largest page. It bounds the wait of a fork, since pages
/// that are mapped once are copied with the structure lock held for reading.
const BATCH_BYTES: u64 = 2 << 20;

/// A batch that is being assembled.
struct Search<'b, 's> {
    node: usize,
    there: Range<u32>,
    engine: Engine,
    /// Numbers of pages and bytes that the batch may still get.
    room: (usize, u64),
    batch: &'b mut Vec<Moving<'s>>,
    /// Frames that pages have left.
    left: Vec<UniqueFrame<'s>>,
    report: &'b mut Migrated,
}

impl Search<'_, '_> {
    fn is_to_move(&self, entry: Pte) -> bool {
        matches!(entry.state(), State::Present(_)) && !self.there.contains(&entry.frame())
    }

    fn room_for_pages(&self, page_bytes: u64) -> usize {
        let (nr_pages, nr_bytes) = self.room;
        (nr_bytes / page_bytes).min(nr_pages as u64) as usize
    }

    fn take_room(&mut self, page_bytes: u64) {
        self.room.0 -= 1;
        self.room.1 -= page_bytes;
    }
}

enum Found {
    Nothing,
    There,
    /// The page was mapped once, and is now on the target node.
    Moved,
    Isolated,
    Failed(NotMoved),
    /// The directory no longer names the table.
    Exchanged,
}

struct InDirectory<'t> {
    pmd_word: &'t AtomicU64,
    table: Held<'t>,
}

impl<'t> InDirectory<'t> {
    fn is_there(&self) -> bool {
        Directory::look(self.pmd_word) == self.table.pmd
    }

    fn entries(&self, supply: &'t Supply, range: &Range<u64>, order: Order) -> &'t [AtomicU64] {
        let order = u32::from(order.get());
        let words = self
            .table
            .pmd
            .table()
            .map(|table| supply.table_entries(table));
        let first = entry_of(range.start, order);
        let nr = (range.end - range.start).div_ceil(page_bytes(order)) as usize;
        words
            .and_then(|words| words.get(first..first + nr))
            .unwrap_or(&[])
    }
}

struct Targets<'s> {
    supply: &'s Supply,
    order: Order,
    node: usize,
    spare: vec::IntoIter<UniqueFrame<'s>>,
}

impl<'s> Targets<'s> {
    /// Allocates up to `nr` pages of one frame at once; `next` allocates larger ones.
    fn new(supply: &'s Supply, order: Order, node: usize, nr: usize) -> Self {
        let mut spare = Vec::new();
        if order == Order::ZERO && nr > 1 {
            supply.pool().alloc_bulk_on(node, nr, &mut spare);
        }
        Self {
            supply,
            order,
            node,
            spare: spare.into_iter(),
        }
    }

    fn next(&mut self) -> Option<UniqueFrame<'s>> {
        self.spare
            .next()
            .or_else(|| self.supply.alloc_on(self.order, self.node))
    }
}

impl Mm {
    /// Moves or isolates a batch of pages from the start of `range`. Returns the next address.
    pub(crate) fn find_batch<'m>(
        &'m self,
        range: Range<u64>,
        node: usize,
        engine: Engine,
        batch: &mut Vec<Moving<'m>>,
        report: &mut Migrated,
    ) -> u64 {
        let mut search = Search {
            node,
            there: self.shared.pool().frames_of(node),
            engine,
            room: (engine.batch(), BATCH_BYTES),
            batch,
            left: Vec::new(),
            report,
        };
        let areas = read(&self.structure);
        for area in areas.overlapping(&range) {
            let end = area.range.end.min(range.end);
            let mut addr = area.range.start.max(range.start);
            while addr < end {
                if search.room_for_pages(area.page_bytes()) == 0 {
                    return addr;
                }
                let pmd_word = self.tables.word_of(addr);
                let next_table = (addr + 1).next_multiple_of(TABLE_BYTES).min(end);
                let Some(table) = self.shared.supply.hold_table(pmd_word) else {
                    addr = next_table;
                    continue;
                };
                let table = InDirectory { pmd_word, table };
                addr = self.find_in_table(&table, area, addr..next_table, &mut search);
            }
        }
        range.end
    }

    fn find_in_table<'m>(
        &'m self,
        table: &InDirectory<'m>,
        area: &Area,
        range: Range<u64>,
        search: &mut Search<'_, 'm>,
    ) -> u64 {
        let supply = &self.shared.supply;
        let page_bytes = area.page_bytes();
        let entries = table.entries(supply, &range, area.order);
        // 1.
        let most = search.room_for_pages(page_bytes);
        let (mut nr, mut end) = (0, 0);
        while let Some(word) = entries.get(end)
            && nr < most
        {
            end += 1;
            nr += usize::from(search.is_to_move(look(word)));
        }
        // 2.
        let mut targets = Targets::new(supply, area.order, search.node, nr);
        search.left.reserve(nr);
        // 3.
        let mut addr = range.start;
        for word in &entries[..end] {
            if search.room_for_pages(page_bytes) == 0 {
                break;
            }
            match self.take_page(table, (addr, word), &mut targets, search) {
                Found::Nothing => {}
                Found::There => search.report.nr_there += 1,
                Found::Moved => {
                    search.report.nr_moved += 1;
                    search.take_room(page_bytes);
                }
                Found::Isolated => search.take_room(page_bytes),
                Found::Failed(why) => search.report.not_moved.push((addr, why)),
                Found::Exchanged => break,
            }
            addr += page_bytes;
        }
        // 4.
        search.left.sort_unstable_by_key(UniqueFrame::frame);
        supply.pool().free_bulk(&mut search.left);
        addr
    }

    fn take_page<'m>(
        &'m self,
        table: &InDirectory<'m>,
        (addr, word): (u64, &AtomicU64),
        targets: &mut Targets<'m>,
        search: &mut Search<'_, 'm>,
    ) -> Found {
        let supply = &self.shared.supply;
        let mut to = None;
        let mut backoff = Backoff::new();
        loop {
            let entry = look(word);
            let frame = match entry.state() {
                State::Busy => {
                    backoff.wait();
                    continue;
                }
                _ if !table.is_there() => return Found::Exchanged,
                State::Empty => return Found::Nothing,
                State::Migration(_) => return Found::Failed(NotMoved::InMigration),
                State::Present(frame) => frame,
            };
            if !search.is_to_move(entry) {
                return Found::There;
            }
            let Some(to_frame) = to.take().or_else(|| targets.next()) else {
                return Found::Failed(NotMoved::NodeFull);
            };
            let Some(claim) = Claim::try_new(word, entry) else {
                to = Some(to_frame);
                continue;
            };
            if !table.is_there() {
                // The claim ends before `to_frame` is freed (C1 of `words::claim`).
                drop(claim);
                return Found::Exchanged;
            }
            let (claim, to_frame) = match search.engine {
                Engine::Batched => match supply.move_claimed(claim, to_frame) {
                    Ok(left) => {
                        search.left.extend(left);
                        return Found::Moved;
                    }
                    Err(back) => back,
                },
                Engine::FullWalk | Engine::EarlyStop => (claim, to_frame),
            };
            let is_isolated = supply.isolate(frame);
            drop(claim);
            if !is_isolated {
                return Found::Failed(NotMoved::InMigration);
            }
            let page = Moving::new(supply, frame, to_frame, Some(addr));
            search.batch.push(page);
            return Found::Isolated;
        }
    }
}
