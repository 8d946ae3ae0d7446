//! Sources of frames that give spaces what is not theirs, panic, or call back.

#![forbid(unsafe_code)]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pagewell::CacheFrames;
use pagewell::frame::{
    FrameKind, FrameNr, FramePool, Nodes, Order, Place, PoolConfig, UniqueFrame,
};
use pagewell::space::{FrameSource, MapOptions, Policy, Space, Spaces};
use support::{PAGE, byte_of, frames_of, pool};

/// What it answers when it is asked for room.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    /// A block of another pool.
    OtherPool,
    /// A block of this pool, of another order.
    OtherOrder,
    /// Nothing; it panics.
    Panic,
    /// A block of another node than was asked for.
    OtherNode,
}

struct Liar {
    /// Leaked, so that blocks of it can be kept beside it.
    pool: &'static FramePool,
    other: FramePool,
    /// Blocks that are kept back, so that there is something to answer with.
    kept: Mutex<Vec<UniqueFrame<'static>>>,
    lie: Lie,
    nr_asked: AtomicUsize,
}

impl Liar {
    fn new(lie: Lie, nr_frames: usize, nr_nodes: usize) -> Arc<Self> {
        let pool = FramePool::new(&PoolConfig {
            nodes: Nodes::Unbound(nr_nodes),
            ..PoolConfig::new(nr_frames)
        });
        let pool: &'static FramePool = Box::leak(Box::new(pool.unwrap()));
        let kept: Vec<_> = (0..4)
            .filter_map(|_| pool.alloc(Order::new(1).unwrap()))
            .collect();
        Arc::new(Self {
            pool,
            other: support::pool(4 * nr_frames),
            kept: Mutex::new(kept),
            lie,
            nr_asked: AtomicUsize::new(0),
        })
    }

    /// A block of two frames, of those kept back.
    fn pair(&self) -> Option<UniqueFrame<'_>> {
        self.kept.lock().unwrap().pop()
    }
}

/// The one in the hands of the spaces.
struct Source(Arc<Liar>);

impl std::ops::Deref for Source {
    type Target = Liar;

    fn deref(&self) -> &Liar {
        &self.0
    }
}

impl FrameSource for Source {
    fn pool(&self) -> &FramePool {
        self.pool
    }

    fn make_room(&self, order: Order, _: Place) -> Option<UniqueFrame<'_>> {
        self.nr_asked.fetch_add(1, Ordering::Relaxed);
        match self.lie {
            // Of high numbers, which the right pool does not have.
            Lie::OtherPool => {
                let mut blocks = Vec::new();
                self.other.alloc_bulk(usize::MAX, &mut blocks);
                blocks.into_iter().max_by_key(UniqueFrame::frame)
            }
            Lie::OtherOrder if order == Order::ZERO => self.pair(),
            Lie::OtherOrder => {
                let mut frames = Vec::new();
                self.pool.split_into(self.pair()?, &mut frames);
                frames.pop()
            }
            Lie::Panic => panic!("no room"),
            Lie::OtherNode => {
                let mut frames = Vec::new();
                self.pool.split_into(self.pair()?, &mut frames);
                frames.pop()
            }
        }
    }

    fn make_clean(&self, _: Order, _: Place) -> bool {
        true
    }

    fn move_page<'f>(
        &'f self,
        _: FrameNr,
        to: UniqueFrame<'f>,
    ) -> Result<UniqueFrame<'f>, UniqueFrame<'f>> {
        match self.lie {
            // "It was there": a block of the same number, of another pool, or the very one that was given.
            Lie::OtherPool => Ok(self.other.alloc(to.order()).unwrap()),
            Lie::Panic => panic!("does not move"),
            Lie::OtherOrder | Lie::OtherNode => Ok(to),
        }
    }
}

/// Writes pages until there is no room; returns how many were written. Those have what was written then.
fn fill(space: &Space, area: &std::ops::Range<u64>) -> usize {
    let mut nr_written = 0;
    for (nr, addr) in area.clone().step_by(PAGE).enumerate() {
        let write = || space.write(addr, &[byte_of(nr); PAGE]);
        match catch_unwind(AssertUnwindSafe(write)) {
            Ok(Ok(())) => nr_written += 1,
            Ok(Err(_)) | Err(_) => break,
        }
    }
    nr_written
}

fn check(space: &Space, area: &std::ops::Range<u64>, nr_written: usize) {
    let mut buf = [0; PAGE];
    for (nr, addr) in area.clone().step_by(PAGE).enumerate().take(nr_written) {
        space.read(addr, &mut buf).unwrap();
        assert!(buf == [byte_of(nr); PAGE], "page {nr}");
    }
}

#[test]
fn what_a_source_gives_that_is_not_the_pools_is_refused() {
    for lie in [Lie::OtherPool, Lie::OtherOrder, Lie::Panic, Lie::OtherNode] {
        let liar = Liar::new(lie, 64, if lie == Lie::OtherNode { 2 } else { 1 });
        let spaces = Spaces::from_source(Source(Arc::clone(&liar)));
        let space = spaces.space().unwrap();
        let area = space.map(64 * PAGE as u64, Policy::Local).unwrap();
        let nr_written = fill(&space, &area);
        assert!(nr_written > 16, "{lie:?}");
        assert!(liar.nr_asked.load(Ordering::Relaxed) > 0, "{lie:?}");
        check(&space, &area, nr_written);
        let pin = space.pin(area.start, PAGE).unwrap();
        // For tables and copies too.
        let fork = catch_unwind(AssertUnwindSafe(|| space.fork()));
        let write = || space.write(area.start, &[0; PAGE]);
        let _ = catch_unwind(AssertUnwindSafe(write));
        assert!(*pin == [byte_of(0); PAGE]);
        drop(pin);
        let fork = fork.ok().and_then(Result::ok);
        if let Some(fork) = &fork {
            check(fork, &area, nr_written);
            spaces.verify(&[&space, fork]).unwrap();
        } else {
            spaces.verify(&[&space]).unwrap();
        }
        drop((space, fork));
        assert!(frames_of(liar.pool, FrameKind::Anon).is_empty());
        assert!(frames_of(liar.pool, FrameKind::Table).is_empty());
        liar.pool.verify().unwrap();
        liar.other.verify().unwrap();
    }
}

/// Compaction asks the source for room, and to move what it has.
#[test]
fn large_pages_are_not_made_of_what_a_source_says_it_moved() {
    for lie in [Lie::OtherPool, Lie::OtherOrder, Lie::Panic] {
        let liar = Liar::new(lie, 2048, 1);
        let spaces = Spaces::from_source(Source(Arc::clone(&liar)));
        let space = spaces.space().unwrap();
        let small = space.map(1600 * PAGE as u64, Policy::Local).unwrap();
        let nr_written = fill(&space, &small);
        // Every other page goes: what is left has to be moved out of the way.
        for addr in small.clone().step_by(2 * PAGE) {
            space.unmap(addr..addr + PAGE as u64).unwrap();
        }
        let pin = space.pin(small.start + PAGE as u64, PAGE).unwrap();
        let options = MapOptions::new().page_bytes(2 << 20);
        let large = space.map_with(2 << 20, &options).unwrap();
        let write = || space.write(large.start, &[1; PAGE]);
        let block = || spaces.alloc_block(Order::PAGE_BLOCK).map(drop);
        // Refused without a panic, but for that of the source.
        let caught = [
            catch_unwind(AssertUnwindSafe(write)).is_err(),
            catch_unwind(AssertUnwindSafe(block)).is_err(),
        ];
        assert!(lie == Lie::Panic || caught == [false; 2], "{lie:?}");
        let mut buf = [0; PAGE];
        let addrs = small.clone().step_by(PAGE).enumerate().take(nr_written);
        for (nr, addr) in addrs.filter(|(nr, _)| nr % 2 == 1) {
            space.read(addr, &mut buf).unwrap();
            assert!(buf == [byte_of(nr); PAGE], "{lie:?}: page {nr}");
        }
        assert!(*pin == [byte_of(1); PAGE]);
        drop(pin);
        spaces.verify(&[&space]).unwrap();
    }
}

/// The frames of a cache, in the hands of somebody who says that he has moved what the cache has there.
struct Mover {
    frames: CacheFrames,
    other: FramePool,
    lie: Lie,
    nr_asked: Arc<AtomicUsize>,
}

impl FrameSource for Mover {
    fn pool(&self) -> &FramePool {
        self.frames.pool()
    }

    fn move_page<'f>(
        &'f self,
        frame: FrameNr,
        to: UniqueFrame<'f>,
    ) -> Result<UniqueFrame<'f>, UniqueFrame<'f>> {
        self.nr_asked.fetch_add(1, Ordering::Relaxed);
        match self.lie {
            Lie::OtherPool => {
                // Of the very number, if that can be had.
                let mut free = Vec::new();
                self.other.alloc_bulk(usize::MAX, &mut free);
                let same = free.iter().position(|other| other.frame() == frame);
                Ok(free.swap_remove(same.unwrap_or(0)))
            }
            Lie::OtherOrder => Ok(to),
            _ => Err(self.other.alloc(Order::ZERO).unwrap()),
        }
    }
}

#[test]
fn large_blocks_are_not_made_of_pages_of_files_that_are_still_there() {
    for lie in [Lie::OtherPool, Lie::OtherOrder, Lie::OtherNode] {
        let cache = support::cache(1600);
        let file = support::file(&cache, 1500);
        support::check_file(&file, 1500);
        let nr_asked = Arc::new(AtomicUsize::new(0));
        let spaces = Spaces::from_source(Mover {
            frames: cache.frames(),
            other: pool(2048),
            lie,
            nr_asked: Arc::clone(&nr_asked),
        });
        // Single frames are free, and no block.
        let order = Order::new(6).unwrap();
        let held: Vec<_> = std::iter::from_fn(|| spaces.pool().alloc(order)).collect();
        let block = spaces.alloc_block(order);
        assert!(block.is_err() && spaces.pool().stats().nr_available() > 0);
        assert!(nr_asked.load(Ordering::Relaxed) > 0, "{lie:?}");
        drop(held);
        let pin = file.pin(9).unwrap();
        support::check_file(&file, 1500);
        assert!(*pin == [byte_of(9); PAGE]);
        cache.verify().unwrap();
    }
}

#[test]
fn two_families_of_spaces_in_one_pool_leave_each_others_pages_alone() {
    let pool = Arc::new(pool(4096));
    let (one, two) = (
        Spaces::from_source(Arc::clone(&pool)),
        Spaces::from_source(Arc::clone(&pool)),
    );
    let (mine, theirs) = (one.space().unwrap(), two.space().unwrap());
    let size = 1500 * PAGE as u64;
    let (a, b) = (
        mine.map(size, Policy::Local).unwrap(),
        theirs.map(size, Policy::Local).unwrap(),
    );
    let nr = [fill(&mine, &a), fill(&theirs, &b)];
    assert_eq!(nr, [1500, 1500]);
    for addr in a.clone().step_by(2 * PAGE) {
        mine.unmap(addr..addr + PAGE as u64).unwrap();
    }
    let pin = theirs.pin(b.start, PAGE).unwrap();
    // By moving pages of both.
    let block = one.alloc_block(Order::PAGE_BLOCK);
    check(&theirs, &b, 1500);
    assert!(*pin == [byte_of(0); PAGE]);
    drop((pin, block));
    drop((mine, theirs));
    assert_eq!(pool.stats().nr_available(), 4096);
    pool.verify().unwrap();
}

#[test]
fn a_file_of_another_cache_is_not_mapped() {
    let (cache, other) = (support::cache(256), support::cache(256));
    let file = support::file(&other, 4);
    let space = pagewell::space::CacheSpaces::space(&cache).unwrap();
    let sharing = pagewell::space::Sharing::Shared;
    let error = space.map_file(&file, 0..PAGE as u64, sharing).unwrap_err();
    assert_eq!(error.kind(), pagewell::space::ErrorKind::OtherFrames);
    assert!(!file.mapped().is_in(cache.frames().pool()));
}

/// Who owns nothing but the name of a space's neighbours.
#[test]
fn verify_of_spaces_of_others_is_an_error() {
    let (one, two): (Spaces, Spaces) = (Spaces::new(pool(64)), Spaces::new(pool(64)));
    let space = two.space().unwrap();
    assert!(one.verify(&[&space]).is_err());
}
