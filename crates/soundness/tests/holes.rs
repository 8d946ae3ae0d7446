//! What safe code could do: each of these fails, or crashes.
#![forbid(unsafe_code)]

use std::io;
use std::sync::atomic::Ordering;

use pagewell::frame::{
    FrameKind, FrameNr, FramePool, FrameRef, Order, Place, PoolConfig, UniqueFrame,
};
use pagewell::io::{Backend, FileId, MemoryBackend, RacyBytes};
use pagewell::refcount::LockBit;
use pagewell::space::{FrameSource, Policy, Spaces};
use pagewell::{Cache, File, OpenOptions};

const PAGE: usize = 4096;

fn pool(nr: usize) -> FramePool {
    FramePool::new(&PoolConfig::new(nr)).unwrap()
}

fn cache() -> Cache {
    Cache::builder().capacity(4 << 20).build().unwrap()
}

fn file(cache: &Cache, byte: u8, nr_pages: usize) -> File {
    let backend = MemoryBackend::writable(vec![byte; nr_pages * PAGE]);
    cache
        .open_backend_with(backend, "file", &OpenOptions::new().write())
        .unwrap()
}

fn find(pool: &FramePool, kind: FrameKind) -> FrameNr {
    (0..pool.nr_frames() as u32)
        .map(FrameNr::new)
        .find(|frame| pool.meta(*frame).kind().0 == kind)
        .unwrap()
}

#[test]
#[ignore = "shows a hole: fails, crashes or hangs"]
fn h4_bytes_of_a_pool_are_those_behind_a_pin() {
    let cache = cache();
    let file = file(&cache, 1, 1);
    let pin = file.pin(0).unwrap();
    let frames = cache.frames();
    let frame = find(frames.pool(), FrameKind::Page);
    frames.pool().bytes(frame, PAGE).copy_from(0, &[2; PAGE]);
    assert!(pin.iter().all(|byte| *byte == 1));
}

#[test]
#[ignore = "shows a hole: fails, crashes or hangs"]
fn u1_entries_of_a_table_can_be_stored_to() {
    let spaces: Spaces = Spaces::new(pool(1024));
    let (mine, theirs) = (spaces.space().unwrap(), spaces.space().unwrap());
    let area = theirs.map(2 << 20, Policy::Local).unwrap();
    theirs.write(area.start, b"theirs").unwrap();
    let table = find(spaces.pool(), FrameKind::Table);
    for word in spaces.pool().words(table) {
        word.store(0, Ordering::Relaxed);
    }
    spaces.verify(&[&mine, &theirs]).unwrap();
}

#[test]
#[ignore = "shows a hole: fails, crashes or hangs"]
fn u1_counts_of_a_page_can_be_stored_to() {
    let spaces: Spaces = Spaces::new(pool(1024));
    let space = spaces.space().unwrap();
    let area = space.map(2 << 20, Policy::Local).unwrap();
    space.write(area.start, b"mine").unwrap();
    let page = find(spaces.pool(), FrameKind::Anon);
    spaces
        .pool()
        .meta(page)
        .state()
        .store(77, Ordering::Relaxed);
    spaces.verify(&[&space]).unwrap();
}

struct Foreign {
    pool: FramePool,
    other: FramePool,
}

impl FrameSource<LockBit> for Foreign {
    fn pool(&self) -> &FramePool {
        &self.pool
    }

    fn make_room(&self, _: Order, _: Place) -> Option<UniqueFrame<'_, LockBit>> {
        self.other.alloc(Order::ZERO)
    }
}

#[test]
#[ignore = "shows a hole: fails, crashes or hangs"]
fn u2_frames_of_another_pool_get_into_tables() {
    let source = Foreign {
        pool: pool(64),
        other: pool(64),
    };
    let spaces = Spaces::from_source(source);
    let space = spaces.space().unwrap();
    let area = space.map(1 << 20, Policy::Local).unwrap();
    for (nr, addr) in area.clone().step_by(PAGE).enumerate() {
        if space.write(addr, &[nr as u8; PAGE]).is_err() {
            break;
        }
    }
    let mut buf = [0; PAGE];
    for (nr, addr) in area.step_by(PAGE).enumerate() {
        if space.read(addr, &mut buf).is_err() || buf[0] == 0 {
            continue;
        }
        assert!(buf.iter().all(|byte| *byte == nr as u8), "page {nr}");
    }
    spaces.verify(&[&space]).unwrap();
}

/// Writes to what it is to write.
#[derive(Debug)]
struct Scribbler(MemoryBackend);

impl Backend for Scribbler {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        self.0.read_at(bufs, pos)
    }
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
    fn id(&self) -> FileId {
        self.0.id()
    }
    fn is_writable(&self) -> bool {
        true
    }
    fn write_at(&self, bufs: &[RacyBytes<'_>], _: u64) -> io::Result<()> {
        for buf in bufs {
            buf.zero(0, buf.len());
        }
        Ok(())
    }
    fn set_size(&self, size: u64) -> io::Result<()> {
        self.0.set_size(size)
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
#[ignore = "shows a hole: fails, crashes or hangs"]
fn u4_a_backend_writes_to_pinned_pages() {
    let cache = cache();
    let backend = Scribbler(MemoryBackend::writable(vec![0; PAGE]));
    let file = cache
        .open_backend_with(backend, "file", &OpenOptions::new().write())
        .unwrap();
    file.write_at(&[1; PAGE], 0).unwrap();
    let pin = file.pin(0).unwrap();
    file.flush(0..PAGE as u64).unwrap();
    assert!(pin.iter().all(|byte| *byte == 1));
}

#[test]
#[ignore = "shows a hole: fails, crashes or hangs"]
fn u4_a_reference_gives_the_bytes_behind_a_pin() {
    let cache = cache();
    let file = file(&cache, 1, 1);
    let pin = file.pin(0).unwrap();
    let mapped = file.mapped();
    let (_, reference) = mapped.try_pin(0, PAGE).unwrap();
    let reference: FrameRef<'_, LockBit> = reference.unwrap();
    reference.bytes().zero(0, PAGE);
    assert!(pin.iter().all(|byte| *byte == 1));
}

#[test]
#[ignore = "shows a hole: fails, crashes or hangs"]
fn bytes_outlive_the_block_that_they_are_of() {
    let cache = cache();
    let frames = cache.frames();
    let all: Vec<_> = std::iter::from_fn(|| frames.pool().alloc(Order::ZERO)).collect();
    let kept: Vec<_> = all.iter().map(UniqueFrame::bytes).collect();
    drop(all);
    let file = file(&cache, 1, 1);
    let pin = file.pin(0).unwrap();
    for bytes in kept {
        bytes.zero(0, PAGE);
    }
    assert!(pin.iter().all(|byte| *byte == 1));
}

#[test]
#[ignore = "shows a hole: fails, crashes or hangs"]
fn bytes_of_a_range_outlive_its_frames() {
    let cache = cache();
    let frames = cache.frames();
    let range = frames.pool().alloc(Order::PAGE_BLOCK).unwrap().split();
    let first = range.first().get();
    for nr in first..first + range.len() as u32 {
        let _ = frames.pool().free(FrameNr::new(nr), Order::ZERO).unwrap();
    }
    let file = file(&cache, 1, 800);
    let pins: Vec<_> = (0..800).map(|page| file.pin(page).unwrap()).collect();
    range.bytes().zero(0, range.len() * PAGE);
    let is_whole = pins.iter().all(|pin| pin.iter().all(|byte| *byte == 1));
    std::mem::forget(range);
    assert!(is_whole);
}

/// The cache follows the address that a leaf's record has: a segmentation fault.
#[test]
#[ignore = "shows a hole: fails, crashes or hangs"]
fn a_forged_leaf_is_followed() {
    let cache = cache();
    let frames = cache.frames();
    let block = frames.pool().alloc(Order::ZERO).unwrap();
    let leaf = block.publish_with(FrameKind::Leaf, (0, 0), [4096, 0], 2);
    let block = frames.pool().alloc(Order::ZERO).unwrap();
    block.publish(FrameKind::Page, (u64::from(leaf.get()), 0), 1);
    cache.reclaim(1000);
}

#[test]
#[ignore = "shows a hole: fails, crashes or hangs"]
fn a_forged_page_is_believed() {
    let spaces: Spaces = Spaces::new(pool(1024));
    let space = spaces.space().unwrap();
    let block = spaces.pool().alloc(Order::ZERO).unwrap();
    block.publish_with(FrameKind::Anon, (0xdead_0000, 0), [1, 0], 1);
    // To move it is to follow 0xdead0000.
    spaces.verify(&[&space]).unwrap();
}

#[test]
#[ignore = "shows a hole: fails, crashes or hangs"]
fn a_page_is_moved_to_a_frame_of_another_pool() {
    let (cache, other) = (cache(), cache());
    let file = file(&cache, 1, 1);
    let mut buf = [0; PAGE];
    file.read_at(&mut buf, 0).unwrap();
    let frames = cache.frames();
    let others = other.frames();
    let frame = find(frames.pool(), FrameKind::Page);
    let mut to = others.pool().alloc(Order::ZERO).unwrap();
    while to.frame() == frame {
        let next = others.pool().alloc(Order::ZERO).unwrap();
        std::mem::forget(std::mem::replace(&mut to, next));
    }
    let moved = frames.move_page(frame, to);
    let is_refused = moved.is_err();
    std::mem::forget(moved);
    file.read_at(&mut buf, 0).unwrap();
    assert!(is_refused && buf == [1; PAGE], "{}", buf[0]);
}

#[test]
#[ignore = "shows a hole: fails, crashes or hangs"]
fn a_spare_frame_of_another_cache_is_used() {
    use pagewell_cache::{Spare, Tried};
    let (cache, other) = (cache(), cache());
    let (file, others) = (file(&cache, 1, 4), file(&other, 2, 4));
    let _pins = (file.pin(0).unwrap(), others.pin(0).unwrap());
    let (mapped, others) = (file.mapped(), others.mapped());
    let mut spare = Spare::default();
    let zero = |bytes: RacyBytes<'_>| bytes.zero(0, bytes.len());
    // The other cache's page is pinned, so a write to it wants a frame, which is the other's.
    let (tried, _) = others.try_edit((0, 8, 0), zero, &mut spare).unwrap();
    let Tried::NotNow(wait) = tried else {
        panic!("{tried:?}");
    };
    others.wait(0, &wait, &mut spare).unwrap();
    let (tried, _) = mapped.try_edit((0, 8, 0), zero, &mut spare).unwrap();
    assert!(matches!(tried, Tried::NotNow(_)), "{tried:?}");
}

#[test]
#[ignore = "shows a hole: fails, crashes or hangs"]
fn a_length_that_wraps_is_taken() {
    let pool = pool(64);
    let bytes = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        pool.bytes(FrameNr::new(1), usize::MAX - 100).len()
    }));
    assert!(bytes.is_err(), "{bytes:?}");
}
