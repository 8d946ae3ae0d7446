//! Tests with a source that reclaims frames: of compaction, and of changes that lack a table.

use std::ops::Range;
use std::sync::Arc;

use pagewell_frame::{
    FRAME_BYTES, FrameKind, FrameNr, FramePool, Nodes, Order, Place, PoolConfig, UniqueFrame,
};
use pagewell_sync::atomic::{AtomicUsize, Ordering};
use pagewell_sync::{Mutex, lock};

use crate::areas::options::{MapOptions, Policy};
use crate::change::fork::ForkMode;
use crate::error::Error;
use crate::mm::space::{Space, Spaces};
use crate::motion::compact::BATCH;
use crate::supply::source::FrameSource;
use crate::supply::view;
use crate::words::counts::Counts;
use crate::words::pte::Protection;

const PAGE: u64 = FRAME_BYTES as u64;

/// Source of frames that reclaims single frames from a reserve of its own.
struct Keeper {
    pool: FramePool,
    kept: Mutex<Vec<FrameNr>>,
    /// Frames that `make_clean` adds to the reserve.
    dirty: Mutex<Vec<FrameNr>>,
    nr_asked: AtomicUsize,
    nr_isolated: AtomicUsize,
}

impl Keeper {
    fn new(nr_frames: usize) -> Arc<Self> {
        let mut config = PoolConfig::new(nr_frames);
        config.nodes = Nodes::Unbound(1);
        Arc::new(Self {
            pool: FramePool::new(&config).unwrap(),
            kept: Mutex::default(),
            dirty: Mutex::default(),
            nr_asked: AtomicUsize::new(0),
            nr_isolated: AtomicUsize::new(0),
        })
    }
}

impl FrameSource for Arc<Keeper> {
    fn pool(&self) -> &FramePool {
        &self.pool
    }

    fn make_room(&self, order: Order, _: Place) -> Option<UniqueFrame<'_>> {
        if order > Order::ZERO {
            return None;
        }
        let isolated = (0..self.pool.nr_frames() as u32).filter(|nr| {
            let record = self.pool.meta(FrameNr::new(*nr));
            // ORDERING: Relaxed, here and below; there is one thread.
            let counts = Counts::from_bits(record.private()[0]);
            record.kind().0 == FrameKind::Anon && counts.is_isolated()
        });
        self.nr_isolated
            .fetch_add(isolated.count(), Ordering::Relaxed);
        self.nr_asked.fetch_add(1, Ordering::Relaxed);
        let kept = lock(&self.kept).pop()?;
        Some(view::withheld(&self.pool, kept))
    }

    fn make_clean(&self, order: Order, _: Place) -> bool {
        let dirty = (order == Order::ZERO).then(|| std::mem::take(&mut *lock(&self.dirty)));
        let cleaned = dirty.unwrap_or_default();
        let is_cleaned = !cleaned.is_empty();
        lock(&self.kept).extend(cleaned);
        is_cleaned
    }
}

/// Regression test: up to 63 pages stayed isolated during the reclaim for the next page. Other
/// threads could not migrate them, writes copied them, and unmapping did not free their frames.
#[test]
fn no_page_is_isolated_while_room_is_made() {
    let keeper = Keeper::new(1024);
    let spaces = Spaces::from_source(Arc::clone(&keeper));
    let space = spaces.space().unwrap();
    let area = space.map(1024 * PAGE, Policy::Local).unwrap();
    let mut written = Vec::new();
    for addr in area.step_by(FRAME_BYTES) {
        if space.write(addr, &addr.to_ne_bytes()).is_err() {
            break;
        }
        written.push(addr);
    }
    let mut kept = Vec::new();
    for (nr, addr) in written.into_iter().enumerate() {
        if nr % 3 == 0 {
            kept.push(addr);
        } else {
            space.unmap(addr..addr + PAGE).unwrap();
        }
    }
    // The place with the tables keeps slightly more than a batch of free frames.
    let has_tables = |nr| keeper.pool.meta(FrameNr::new(nr)).kind().0 == FrameKind::Table;
    let tables = if (0..512).any(has_tables) {
        0..512
    } else {
        512..1024
    };
    let free: Vec<_> = std::iter::from_fn(|| keeper.pool.alloc(Order::ZERO)).collect();
    let (mut others, place): (Vec<_>, Vec<_>) = free
        .into_iter()
        .partition(|frame| tables.contains(&frame.frame().get()));
    let left = others.split_off(others.len() - BATCH - BATCH / 2);
    drop((left, place));
    lock(&keeper.kept).extend(others.into_iter().map(UniqueFrame::into_withheld));
    keeper.nr_asked.store(0, Ordering::Relaxed);

    let block = spaces.alloc_block(Order::PAGE_BLOCK).unwrap();
    assert!(!tables.contains(&block.frame().get()));
    assert!(
        keeper.nr_asked.load(Ordering::Relaxed) > 50,
        "there was room"
    );
    assert_eq!(keeper.nr_isolated.load(Ordering::Relaxed), 0);
    for addr in kept {
        let mut buf = [0; 8];
        space.read(addr, &mut buf).unwrap();
        assert_eq!(buf, addr.to_ne_bytes());
    }
    drop(block);
    spaces.verify(&[&space]).unwrap();
    drop(space);
    for frame in std::mem::take(&mut *lock(&keeper.kept)) {
        drop(view::withheld(&keeper.pool, frame));
    }
    let stats = keeper.pool.stats();
    assert_eq!(stats.nr_available(), stats.nr_frames);
}

type Change = fn(&Space, Range<u64>) -> Result<(), Error>;

/// Regression test: in areas of large pages, a change that lacked a frame for a table had the
/// source clean a large block, and failed if it had none.
#[test]
fn a_change_that_lacks_a_table_waits_for_a_single_frame() {
    let changes: [Change; 4] = [
        |space, _| space.fork_with(ForkMode::Copy).map(drop),
        |space, page| space.unmap(page),
        |space, page| space.protect(page, Protection::Read),
        |space, page| space.move_to_free(page).map(drop),
    ];
    for (nr, change) in changes.into_iter().enumerate() {
        let keeper = Keeper::new(1024);
        let spaces = Spaces::from_source(Arc::clone(&keeper));
        let space = spaces.space().unwrap();
        let options = MapOptions::new().page_bytes(1 << 20);
        let area = space.map_with(2 << 20, &options).unwrap();
        space.write(area.start, b"large").unwrap();
        let fork = space.fork().unwrap();
        let supply = &spaces.shared.supply;
        let free = std::iter::from_fn(|| supply.alloc(Order::ZERO, Place::Anywhere));
        let free: Vec<_> = free.map(UniqueFrame::into_withheld).collect();
        lock(&keeper.dirty).extend(free);
        let changed = change(&space, area.start..area.start + (1 << 20));
        assert_eq!(changed, Ok(()), "change {nr}");
        spaces.verify(&[&space, &fork]).unwrap();
    }
}
