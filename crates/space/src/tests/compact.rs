//! Tests of compaction with a source that reclaims frames during it.

use std::sync::Arc;

use pagewell_frame::{
    FRAME_BYTES, FrameKind, FrameNr, FramePool, Nodes, Order, Place, PoolConfig, UniqueFrame,
};
use pagewell_sync::atomic::{AtomicUsize, Ordering};
use pagewell_sync::{Mutex, lock};

use crate::areas::options::Policy;
use crate::mm::space::Spaces;
use crate::motion::compact::BATCH;
use crate::supply::source::FrameSource;
use crate::supply::view;
use crate::words::counts::Counts;

const PAGE: u64 = FRAME_BYTES as u64;

/// Source of frames that reclaims single frames from a reserve of its own.
struct Keeper {
    pool: FramePool,
    kept: Mutex<Vec<FrameNr>>,
    nr_asked: AtomicUsize,
    nr_isolated: AtomicUsize,
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
}

/// Regression test: up to 63 pages stayed isolated during the reclaim for the next page. Other
/// threads could not migrate them, writes copied them, and unmapping did not free their frames.
#[test]
fn no_page_is_isolated_while_room_is_made() {
    let mut config = PoolConfig::new(1024);
    config.nodes = Nodes::Unbound(1);
    let keeper = Arc::new(Keeper {
        pool: FramePool::new(&config).unwrap(),
        kept: Mutex::default(),
        nr_asked: AtomicUsize::new(0),
        nr_isolated: AtomicUsize::new(0),
    });
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
