//! Files of a cache that are mapped into spaces.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::{self, FRAME_COST, PAGE};
use pagewell::frame::{FramePool, Order, PoolConfig};
use pagewell::io::{Backend as _, Fault, FaultBackend, MemoryBackend, Operation};
use pagewell::space::{
    CacheSpaces as _, ErrorKind, MapOptions, NotMoved, Policy, Protection, Sharing, Space, Spaces,
};
use pagewell::{Cache, File, Nodes, OpenOptions, Writeback};
use pagewell_testkit::wait::{Gate, OpenAtEnd, bounded, until};

const BYTES: u64 = PAGE as u64;

fn cache(nr_frames: u64) -> Cache {
    Cache::builder()
        .capacity(nr_frames * FRAME_COST)
        .nodes(Nodes::Unbound(2))
        .build()
        .unwrap()
}

/// A file of so many bytes, each the number of its page, that is open for writing.
fn file(cache: &Cache, size: u64) -> (File, Arc<MemoryBackend>) {
    let content = (0..size).map(|at| (at / BYTES) as u8).collect();
    let storage = Arc::new(MemoryBackend::writable(content));
    let options = OpenOptions::new().writeback(Writeback::Manual);
    let file = cache
        .open_backend_with(Arc::clone(&storage), "file", &options)
        .unwrap();
    (file, storage)
}

fn stored(storage: &MemoryBackend) -> Vec<u8> {
    let mut bytes = Vec::new();
    storage.modify(|stored| bytes.clone_from(stored));
    bytes
}

fn byte(space: &Space, addr: u64) -> Result<u8, ErrorKind> {
    let mut buf = [0xEE];
    space.read(addr, &mut buf).map_err(|error| error.kind())?;
    Ok(buf[0])
}

fn write(space: &Space, addr: u64, bytes: &[u8]) -> Result<(), ErrorKind> {
    space.write(addr, bytes).map_err(|error| error.kind())
}

#[test]
fn the_spaces_of_a_cache_are_one_family() {
    let cache = cache(256);
    let space = cache.space().unwrap();
    let other = cache.clone().space().unwrap();
    // Checks that both are of the same frames.
    cache.spaces().verify(&[&space, &other]).unwrap();
    assert_ne!(space.id(), other.id());
    drop((space, other));
    let space = cache.space().unwrap();
    let area = space.map(BYTES, Policy::Local).unwrap();
    write(&space, area.start, b"again").unwrap();
}

#[test]
fn a_shared_area_is_the_file() {
    let cache = cache(256);
    let (file, storage) = file(&cache, 5 * BYTES);
    let space = cache.space().unwrap();
    // From the second page on.
    let area = space
        .map_file(&file, BYTES..5 * BYTES, Sharing::Shared)
        .unwrap();
    assert_eq!(byte(&space, area.start + 2 * BYTES), Ok(3));
    file.write_at(&[77; 10], 3 * BYTES).unwrap();
    assert_eq!(byte(&space, area.start + 2 * BYTES + 9), Ok(77));
    // Over the border of two pages.
    write(&space, area.start + BYTES - 2, b"abcd").unwrap();
    let mut buf = [0; 4];
    file.read_at(&mut buf, 2 * BYTES - 2).unwrap();
    assert_eq!(&buf, b"abcd");
    assert_eq!(
        space.fetch_add(area.start, 5).unwrap(),
        0x0101_0101_0101_0101
    );
    let fork = space.fork().unwrap();
    assert_eq!(fork.load(area.start).unwrap(), 0x0101_0101_0101_0106);
    fork.store(area.start, 9).unwrap();
    assert_eq!(space.load(area.start).unwrap(), 9);
    file.sync_data().unwrap();
    assert_eq!(stored(&storage)[BYTES as usize], 9);
    cache.spaces().verify(&[&space, &fork]).unwrap();
}

#[test]
fn a_private_area_is_the_file_until_it_is_written() {
    let cache = cache(256);
    let (file, storage) = file(&cache, 5 * BYTES);
    let space = cache.space().unwrap();
    let area = space
        .map_file(&file, 0..5 * BYTES, Sharing::Private)
        .unwrap();
    file.write_at(&[77; 10], 3 * BYTES).unwrap();
    let fork = space.fork().unwrap();
    write(&space, area.start + 3 * BYTES + 4, b"x").unwrap();
    file.write_at(&[88; 10], 3 * BYTES).unwrap();
    let mut buf = [0; 6];
    space.read(area.start + 3 * BYTES, &mut buf).unwrap();
    assert_eq!(&buf, &[77, 77, 77, 77, b'x', 77]);
    // Not copied there: the file's.
    assert_eq!(byte(&fork, area.start + 3 * BYTES), Ok(88));
    // Copied before: the copy's.
    let late = space.fork().unwrap();
    write(&space, area.start + 3 * BYTES, b"y").unwrap();
    assert_eq!(byte(&late, area.start + 3 * BYTES), Ok(77));
    file.sync_data().unwrap();
    assert_eq!(
        stored(&storage)[3 * PAGE..][..11],
        [[88; 10].as_slice(), &[3]].concat()
    );
    cache.spaces().verify(&[&space, &fork, &late]).unwrap();
}

#[test]
fn large_pages_of_a_file_are_copied_whole() {
    let cache = cache(1024);
    let content: Vec<u8> = (0..5 * 16 * PAGE).map(|at| (at / PAGE) as u8).collect();
    let options = OpenOptions::new().page_size(16 * PAGE).write();
    let backend = MemoryBackend::writable(content);
    let file = cache.open_backend_with(backend, "large", &options).unwrap();
    let space = cache.space().unwrap();
    let page = 16 * BYTES;
    let area = space
        .map_file(&file, page..5 * page, Sharing::Private)
        .unwrap();
    assert_eq!(space.areas()[0].page_bytes, page);
    write(&space, area.start + page + 5 * BYTES, b"x").unwrap();
    file.write_at(&vec![99; 5 * 16 * PAGE], 0).unwrap();
    for nr in 0..16 {
        let expected = 32 + nr as u8;
        assert_eq!(
            byte(&space, area.start + page + nr * BYTES + 7),
            Ok(expected)
        );
    }
    assert_eq!(byte(&space, area.start + page - 1), Ok(99));
    assert!(
        space
            .map_file(&file, BYTES..page, Sharing::Private)
            .is_err()
    );
}

#[test]
fn where_the_file_ends_accesses_are_errors() {
    let cache = cache(256);
    let (file, _) = file(&cache, 2 * BYTES + 100);
    let space = cache.space().unwrap();
    for sharing in [Sharing::Shared, Sharing::Private] {
        let area = space.map_file(&file, 0..8 * BYTES, sharing).unwrap();
        let last = area.start + 2 * BYTES;
        assert_eq!(byte(&space, last + 99), Ok(2));
        // The rest of the last page.
        assert_eq!(byte(&space, last + 100), Ok(0));
        assert_eq!(byte(&space, last + BYTES), Err(ErrorKind::PastEnd));
        let mut buf = [0xEE; 2 * PAGE];
        let error = space.read(last, &mut buf).unwrap_err();
        assert_eq!(
            (error.kind(), error.addr()),
            (ErrorKind::PastEnd, Some(last + BYTES))
        );
        assert!(buf[PAGE..].iter().all(|byte| *byte == 0));
        assert_eq!(write(&space, last + BYTES, b"x"), Err(ErrorKind::PastEnd));
        assert_eq!(
            space.fetch_add(last + BYTES, 1).unwrap_err().kind(),
            ErrorKind::PastEnd
        );
        assert_eq!(
            space.pin(last + BYTES, 1).unwrap_err().kind(),
            ErrorKind::PastEnd
        );
        let over_the_end = write(&space, last + 99, b"xy");
        match sharing {
            Sharing::Shared => assert_eq!(over_the_end, Err(ErrorKind::PastEnd)),
            Sharing::Private => {
                over_the_end.unwrap();
                assert_eq!(byte(&space, last + 100), Ok(b'y'));
            }
        }
        assert_eq!(&*space.pin(area.start, 8).unwrap(), &[0; 8]);
    }
    let mut buf = [0; 100];
    file.read_at(&mut buf, 2 * BYTES).unwrap();
    assert_eq!(buf, [2; 100]);
}

#[test]
fn a_cut_takes_pages_and_private_copies_away_in_forks_too() {
    let cache = cache(256);
    let (file, _) = file(&cache, 4 * BYTES);
    let space = cache.space().unwrap();
    let shared = space
        .map_file(&file, 0..4 * BYTES, Sharing::Shared)
        .unwrap();
    // Two areas, of which one does not begin with the file.
    let first = space
        .map_file(&file, 0..4 * BYTES, Sharing::Private)
        .unwrap();
    let second = space
        .map_file(&file, 2 * BYTES..4 * BYTES, Sharing::Private)
        .unwrap();
    for page in 0..4 {
        write(&space, first.start + page * BYTES, b"own").unwrap();
    }
    write(&space, second.start, b"own").unwrap();
    write(&space, second.start + BYTES, b"own").unwrap();
    let fork = space.fork().unwrap();
    let copied = space.fork_with(pagewell::baseline::ForkMode::Copy).unwrap();
    let pin = space.pin(first.start + 3 * BYTES, 3).unwrap();
    let moved = fork.move_to_free(first.clone()).unwrap();
    file.set_size(2 * BYTES + 5).unwrap();
    for (space, first) in [(&space, &first), (&fork, &moved), (&copied, &first)] {
        assert_eq!(
            byte(space, first.start + 3 * BYTES),
            Err(ErrorKind::PastEnd)
        );
        assert_eq!(byte(space, second.start + BYTES), Err(ErrorKind::PastEnd));
        assert_eq!(
            byte(space, shared.start + 3 * BYTES),
            Err(ErrorKind::PastEnd)
        );
        // The page that the new end is in stays, whole; so does what comes before.
        assert_eq!(byte(space, first.start + 2 * BYTES), Ok(b'o'));
        assert_eq!(byte(space, first.start + 3 * BYTES - 1), Ok(2));
        assert_eq!(byte(space, second.start), Ok(b'o'));
        assert_eq!(byte(space, first.start), Ok(b'o'));
    }
    assert_eq!(&*pin, b"own");
    file.set_size(4 * BYTES).unwrap();
    for (space, first) in [(&space, &first), (&fork, &moved), (&copied, &first)] {
        assert_eq!(byte(space, first.start + 3 * BYTES), Ok(0));
        assert_eq!(byte(space, shared.start + 2 * BYTES + 5), Ok(0));
        assert_eq!(byte(space, first.start + 3 * BYTES - 1), Ok(2));
    }
    drop(pin);
    cache.spaces().verify(&[&space, &fork, &copied]).unwrap();
}

/// The file becomes shorter behind the cache's back, and the cache is told.
#[test]
fn a_refresh_that_finds_less_takes_private_copies_away() {
    let cache = cache(256);
    let storage = Arc::new(MemoryBackend::new(vec![1; 4 * PAGE]));
    let file = cache.open_backend(Arc::clone(&storage), "file").unwrap();
    let space = cache.space().unwrap();
    let area = space
        .map_file(&file, 0..4 * BYTES, Sharing::Private)
        .unwrap();
    write(&space, area.start + 3 * BYTES, b"own").unwrap();
    storage.modify(|bytes| bytes.truncate(PAGE));
    file.refresh().unwrap();
    assert_eq!(
        byte(&space, area.start + 3 * BYTES),
        Err(ErrorKind::PastEnd)
    );
    assert_eq!(byte(&space, area.start), Ok(1));
}

#[test]
fn a_file_that_is_open_for_reading_is_not_written_by_way_of_an_area() {
    let cache = cache(256);
    let backend = MemoryBackend::new(vec![1; 4 * PAGE]);
    let file = cache.open_backend(backend, "file").unwrap();
    let space = cache.space().unwrap();
    let refused = space
        .map_file(&file, 0..BYTES, Sharing::Shared)
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    let options = MapOptions::new().protection(Protection::Read);
    let area = space
        .map_file_with(&file, 0..2 * BYTES, Sharing::Shared, &options)
        .unwrap();
    assert_eq!(byte(&space, area.start), Ok(1));
    assert_eq!(write(&space, area.start, b"x"), Err(ErrorKind::Protected));
    let refused = space
        .protect(area.clone(), Protection::ReadWrite)
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    assert_eq!(space.areas()[0].protection, Protection::Read);
    space
        .protect(area.start..area.start + BYTES, Protection::None)
        .unwrap();
    assert_eq!(byte(&space, area.start), Err(ErrorKind::Protected));
    assert_eq!(byte(&space, area.start + BYTES), Ok(1));
    // Copies are nobody else's.
    let area = space.map_file(&file, 0..BYTES, Sharing::Private).unwrap();
    write(&space, area.start, b"x").unwrap();
}

#[test]
fn what_cannot_be_mapped_is_an_error() {
    let cache = cache(256);
    let (file, _) = file(&cache, 4 * BYTES);
    let space = cache.space().unwrap();
    let kind = |range| {
        let result = space.map_file(&file, range, Sharing::Shared);
        result.map(drop).unwrap_err().kind()
    };
    assert_eq!(kind(0..0), ErrorKind::InvalidRange);
    #[allow(clippy::reversed_empty_ranges)] // That is the point.
    let backwards = 2 * BYTES..BYTES;
    assert_eq!(kind(backwards), ErrorKind::InvalidRange);
    assert_eq!(kind(0..u64::MAX), ErrorKind::InvalidRange);
    assert_eq!(kind(1..BYTES), ErrorKind::Misaligned);
    assert_eq!(kind(0..pagewell::MAX_FILE_BYTES), ErrorKind::OutOfAddresses);
    let options = MapOptions::new().policy(Policy::Bind(2));
    let result = space.map_file_with(&file, 0..BYTES, Sharing::Private, &options);
    assert_eq!(result.unwrap_err().kind(), ErrorKind::NoSuchNode);
    let elsewhere: Spaces = Spaces::new(FramePool::new(&PoolConfig::new(256)).unwrap());
    let result = elsewhere
        .space()
        .unwrap()
        .map_file(&file, 0..BYTES, Sharing::Shared);
    assert_eq!(result.unwrap_err().kind(), ErrorKind::OtherFrames);
    let area = space.map(4 * BYTES, Policy::Local).unwrap();
    let bad_node = space
        .set_policy(area.clone(), Policy::Prefer(7))
        .unwrap_err();
    assert_eq!(bad_node.kind(), ErrorKind::NoSuchNode);
    let unmapped = space.set_policy(area.end..area.end + BYTES, Policy::Local);
    assert_eq!(unmapped.unwrap_err().kind(), ErrorKind::Unmapped);
}

#[test]
fn pages_are_where_the_policy_says_from_when_it_says_so() {
    let cache = cache(256);
    let space = cache.space().unwrap();
    let area = space.map(4 * BYTES, Policy::Bind(0)).unwrap();
    write(&space, area.start, b"x").unwrap();
    let later = area.start + BYTES..area.end;
    space.set_policy(later.clone(), Policy::Bind(1)).unwrap();
    write(&space, later.start, b"x").unwrap();
    let policies: Vec<Policy> = space.areas().iter().map(|area| area.policy).collect();
    assert_eq!(policies, [Policy::Bind(0), Policy::Bind(1)]);
    let report = space.migrate(area.clone(), 1).unwrap();
    assert_eq!((report.nr_moved, report.nr_there), (1, 1));
}

#[test]
fn an_area_keeps_the_file_open_and_the_last_one_closes_it() {
    let cache = cache(256);
    let (file, storage) = file(&cache, 4 * BYTES);
    let space = cache.space().unwrap();
    let area = space
        .map_file(&file, 0..4 * BYTES, Sharing::Shared)
        .unwrap();
    drop(file);
    write(&space, area.start, b"late").unwrap();
    let fork = space.fork().unwrap();
    drop(space);
    assert_eq!(storage.nr_syncs(), 0);
    fork.unmap(area.start + BYTES..area.end).unwrap();
    assert_eq!(storage.nr_syncs(), 0);
    fork.unmap(area.start..area.start + BYTES).unwrap();
    // What was written is durable, as when the last handle goes.
    assert_eq!(&stored(&storage)[..4], b"late");
    assert_eq!(storage.nr_syncs(), 1);
}

#[test]
fn areas_are_listed_with_what_is_left_of_them() {
    let cache = cache(256);
    let (file, _) = file(&cache, 8 * BYTES);
    let space = cache.space().unwrap();
    let listed = |space: &Space| -> Vec<_> {
        let areas = space.areas().into_iter();
        areas.map(|area| (area.range, area.page_bytes)).collect()
    };
    assert_eq!(listed(&space), []);
    let shared = space
        .map_file(&file, 2 * BYTES..8 * BYTES, Sharing::Shared)
        .unwrap();
    let private = space
        .map_file(&file, 0..4 * BYTES, Sharing::Private)
        .unwrap();
    let fork = space.fork().unwrap();
    let both = [(shared.clone(), BYTES), (private.clone(), BYTES)];
    assert_eq!(listed(&space), both);
    assert_eq!(listed(&fork), both);
    space.unmap(shared.start..shared.start + 2 * BYTES).unwrap();
    space.unmap(private).unwrap();
    let left = shared.start + 2 * BYTES..shared.end;
    assert_eq!(listed(&space), [(left, BYTES)]);
    assert_eq!(listed(&fork), both);
}

/// Dirty pages move with their state and their log sequence number; pinned ones are reported, and stay.
#[test]
fn pages_of_files_are_migrated() {
    let cache = cache(256);
    let told = Arc::new(Mutex::new(Vec::new()));
    let storage = Arc::new(MemoryBackend::writable(vec![1; 8 * PAGE]));
    let options = OpenOptions::new()
        .writeback(Writeback::Manual)
        .before_write({
            let told = Arc::clone(&told);
            move |page, lsn| {
                told.lock().unwrap().push((page, lsn));
                Ok(())
            }
        });
    let file = cache
        .open_backend_with(Arc::clone(&storage), "file", &options)
        .unwrap();
    let space = cache.space().unwrap();
    let area = space
        .map_file(&file, 0..8 * BYTES, Sharing::Shared)
        .unwrap();
    let mut buf = vec![0; 6 * PAGE];
    space.read(area.start, &mut buf).unwrap();
    space.write_lsn(area.start + BYTES, b"dirty", 41).unwrap();
    // Some of them are there already, wherever the cache has put them.
    let first = space.migrate(area.clone(), 1).unwrap();
    assert_eq!(
        (first.nr_moved + first.nr_there, first.not_moved.len()),
        (6, 0)
    );
    let pin = space.pin(area.start + 2 * BYTES, PAGE).unwrap();
    let in_file = file.pin(3).unwrap();
    let locked = file.pin_mut(4).unwrap();
    let back = space.migrate(area.clone(), 0).unwrap();
    let pinned = |page| (area.start + page * BYTES, NotMoved::Pinned);
    assert_eq!(back.not_moved, [pinned(2), pinned(3), pinned(4)]);
    assert_eq!(back.nr_moved, 3);
    assert_eq!((pin.len(), in_file[0]), (PAGE, 1));
    drop((pin, in_file, locked));
    let rest = space.migrate(area.clone(), 0).unwrap();
    assert_eq!(
        (rest.nr_moved, rest.nr_there, rest.not_moved.len()),
        (3, 3, 0)
    );
    file.sync_data().unwrap();
    // The page that was pinned to be changed was given back as it was.
    assert_eq!(*told.lock().unwrap(), [(1, 41), (4, 0)]);
    assert_eq!(&stored(&storage)[PAGE..][..5], b"dirty");
    // A private area moves its copies, and the file's pages where it has none.
    let private = space
        .map_file(&file, 0..2 * BYTES, Sharing::Private)
        .unwrap();
    write(&space, private.start, b"copy").unwrap();
    space.migrate(private.clone(), 1).unwrap();
    let again = space.migrate(private, 1).unwrap();
    assert_eq!((again.nr_moved, again.nr_there), (0, 2));
}

/// Every 2 MiB of the cache have dirty pages, which cannot be evicted.
#[test]
fn compaction_moves_dirty_pages_of_files() {
    let cache = Cache::builder()
        .capacity(2048 * FRAME_COST)
        .dirty_limit(1536 * BYTES)
        .nodes(Nodes::Unbound(1))
        .build()
        .unwrap();
    let (file, storage) = file(&cache, 900 * BYTES);
    // Clean and dirty ones in turn, so that evictions leave holes.
    for page in 0..900 {
        if page % 3 == 0 {
            file.read_at(&mut [0; PAGE], page * BYTES).unwrap();
        } else {
            file.write_at(&[page as u8; PAGE], page * BYTES).unwrap();
        }
    }
    for page in (0..900).step_by(3) {
        file.invalidate(page * BYTES..(page + 1) * BYTES);
    }
    let spaces = cache.spaces();
    let blocks: Vec<_> =
        std::iter::from_fn(|| spaces.alloc_block(Order::PAGE_BLOCK).ok()).collect();
    assert!(blocks.len() >= 2, "{} blocks", blocks.len());
    drop(blocks);
    file.sync_data().unwrap();
    let stored = stored(&storage);
    for page in 0..900 {
        let is_dropped = page % 3 == 0;
        let expected = page as u8;
        let there = &stored[page * PAGE..][..PAGE];
        assert!(
            is_dropped || there.iter().all(|byte| *byte == expected),
            "page {page}"
        );
    }
    cache.verify().unwrap();
}

#[test]
fn a_storage_that_fails_is_an_error_of_the_access() {
    let cache = cache(256);
    let is_broken = Arc::new(AtomicBool::new(true));
    let backend = FaultBackend::with_script(MemoryBackend::writable(vec![1; 4 * PAGE]), {
        let is_broken = Arc::clone(&is_broken);
        move |operation| match operation {
            Operation::Read { .. } if is_broken.load(Ordering::Relaxed) => {
                Fault::Fail(std::io::Error::other("broken"))
            }
            _ => Fault::None,
        }
    });
    let options = OpenOptions::new().write();
    let file = cache.open_backend_with(backend, "file", &options).unwrap();
    let space = cache.space().unwrap();
    let failed = Err(ErrorKind::File(pagewell::ErrorKind::Io));
    for sharing in [Sharing::Shared, Sharing::Private] {
        let area = space.map_file(&file, 0..4 * BYTES, sharing).unwrap();
        assert_eq!(byte(&space, area.start).map(drop), failed);
        assert_eq!(write(&space, area.start, b"x"), failed);
        assert_eq!(
            space
                .pin(area.start, 1)
                .map(drop)
                .map_err(|error| error.kind()),
            failed
        );
        let error = space.write(area.start, b"x").unwrap_err();
        assert!(error.to_string().ends_with("failed (Io)"), "{error}");
    }
    is_broken.store(false, Ordering::Relaxed);
    for area in space.areas() {
        write(&space, area.range.start, b"x").unwrap();
        assert_eq!(byte(&space, area.range.start + 1), Ok(1));
    }
}

/// While a file was being cut, writes by way of areas past the new end were refused, and reads of the file ended there,
/// before the storage had said whether it would be cut; when it failed, the file was as long as ever. Now the file keeps its
/// size until the storage has done it.
#[test]
fn a_cut_that_fails_is_seen_by_nobody() {
    bounded("cuts of a file", || {
        let cache = cache(128);
        let gate = Arc::new(Mutex::new(Arc::new(Gate::new())));
        let is_broken = Arc::new(AtomicBool::new(true));
        let storage = Arc::new(MemoryBackend::writable(vec![1; 4 * PAGE]));
        let backend = FaultBackend::with_script(Arc::clone(&storage), {
            let (gate, is_broken) = (Arc::clone(&gate), Arc::clone(&is_broken));
            move |operation| {
                if matches!(operation, Operation::SetSize { .. }) {
                    let gate = Arc::clone(&gate.lock().unwrap());
                    gate.pass();
                    if is_broken.load(Ordering::Relaxed) {
                        return Fault::Fail(std::io::Error::other("broken"));
                    }
                }
                Fault::None
            }
        });
        let options = OpenOptions::new().writeback(Writeback::Manual);
        let file = cache.open_backend_with(backend, "file", &options).unwrap();
        let space = cache.space().unwrap();
        let [shared, private] = [Sharing::Shared, Sharing::Private]
            .map(|sharing| space.map_file(&file, 0..4 * BYTES, sharing).unwrap().start);
        let past_end = 3 * BYTES;
        for is_done in [false, true] {
            is_broken.store(!is_done, Ordering::Relaxed);
            let now = Arc::new(Gate::new());
            *gate.lock().unwrap() = Arc::clone(&now);
            std::thread::scope(|scope| {
                let cutter = scope.spawn(|| file.set_size(BYTES));
                let _open = OpenAtEnd(&now);
                now.wait_for(1);
                assert_eq!(file.size(), 4 * BYTES);
                // A page that is not cached, and one that then is.
                assert_eq!(byte(&space, shared + 2 * BYTES), Ok(1));
                for area in [shared, private] {
                    assert_eq!(byte(&space, area + past_end + 1), Ok(1));
                    write(&space, area + past_end, &[2]).unwrap();
                }
                file.write_at(&[3], past_end + 2).unwrap();
                now.open();
                assert_eq!(cutter.join().unwrap().is_ok(), is_done);
            });
            let bytes = [0, 1, 2].map(|at| byte(&space, shared + past_end + at));
            if is_done {
                assert_eq!(bytes, [Err(ErrorKind::PastEnd); 3]);
                assert_eq!(byte(&space, private + past_end), Err(ErrorKind::PastEnd));
            } else {
                assert_eq!(bytes, [Ok(2), Ok(1), Ok(3)]);
                assert_eq!(byte(&space, private + past_end), Ok(2));
            }
        }
        file.sync_data().unwrap();
        assert_eq!(stored(&storage), [1; PAGE]);
        drop((space, file));
        support::assert_all_free(&cache);
    });
}

/// A file whose cut says, when the storage has cut it and before that is known, what `then` does.
fn cut_and_then(
    cache: &Cache,
    then: impl Fn() + Send + Sync + 'static,
) -> (
    File,
    Arc<MemoryBackend>,
    Arc<FaultBackend<Arc<MemoryBackend>>>,
) {
    let storage = Arc::new(MemoryBackend::writable(vec![1; 4 * PAGE]));
    let cut = Arc::clone(&storage);
    let script = move |operation: &Operation| {
        if let Operation::SetSize { size } = operation {
            cut.set_size(*size).unwrap();
            then();
        }
        Fault::None
    };
    let backend = Arc::new(FaultBackend::with_script(Arc::clone(&storage), script));
    let options = OpenOptions::new().writeback(Writeback::Manual);
    let file = cache.open_backend_with(Arc::clone(&backend), "file", &options);
    (file.unwrap(), storage, backend)
}

/// The storage has cut the file and takes its time to say so: reads of what was cut off, and was not cached, wait and do not
/// ask again and again; what is cached is read.
#[test]
fn reads_wait_for_a_storage_that_has_cut_the_file() {
    bounded("a cut of a file", || {
        let cache = cache(128);
        let gate = Arc::new(Gate::new());
        let at_gate = Arc::clone(&gate);
        let (file, _storage, backend) = cut_and_then(&cache, move || at_gate.pass());
        let space = cache.space().unwrap();
        let area = space
            .map_file(&file, 0..4 * BYTES, Sharing::Shared)
            .unwrap();
        assert_eq!(byte(&space, area.start + BYTES), Ok(1));
        std::thread::scope(|scope| {
            let cutter = scope.spawn(|| file.set_size(BYTES));
            let _open = OpenAtEnd(&gate);
            gate.wait_for(1);
            let before = backend.nr_reads();
            let reader = scope.spawn(|| file.read_at(&mut [0], 2 * BYTES));
            let in_area = scope.spawn(|| byte(&space, area.start + 3 * BYTES));
            until("both have asked", || backend.nr_reads() >= before + 2);
            assert_eq!(file.size(), 4 * BYTES);
            assert_eq!(byte(&space, area.start + BYTES), Ok(1));
            // It cannot be seen that they sleep, but it can be seen that they do not.
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert_eq!(backend.nr_reads(), before + 2, "asked again");
            gate.open();
            cutter.join().unwrap().unwrap();
            assert_eq!(reader.join().unwrap().unwrap(), 0);
            assert_eq!(in_area.join().unwrap(), Err(ErrorKind::PastEnd));
        });
        assert_eq!(byte(&space, area.start + BYTES), Err(ErrorKind::PastEnd));
        drop((space, file));
        support::assert_all_free(&cache);
    });
}

/// A storage that panics when it has cut the file does not tell that it has: the file is shorter all the same, and what was
/// cut off does not come back as zeros.
#[test]
fn a_storage_that_panics_in_a_cut_has_cut_the_file() {
    bounded("a cut of a file", || {
        let cache = cache(128);
        let is_broken = Arc::new(AtomicBool::new(true));
        let breaks = Arc::clone(&is_broken);
        let (file, storage, _backend) = cut_and_then(&cache, move || {
            assert!(!breaks.load(Ordering::Relaxed), "as the test wants");
        });
        let space = cache.space().unwrap();
        let area = space
            .map_file(&file, 0..4 * BYTES, Sharing::Private)
            .unwrap();
        // A copy, which is cut off too.
        write(&space, area.start + 3 * BYTES, &[2]).unwrap();
        let cut = std::panic::AssertUnwindSafe(|| file.set_size(BYTES));
        std::panic::catch_unwind(cut).expect_err("the storage's panic");
        is_broken.store(false, Ordering::Relaxed);
        assert_eq!(file.size(), BYTES);
        assert_eq!(file.read_at(&mut [0], 2 * BYTES).unwrap(), 0);
        assert_eq!(
            byte(&space, area.start + 3 * BYTES),
            Err(ErrorKind::PastEnd)
        );
        assert_eq!(byte(&space, area.start), Ok(1));
        file.write_at(&[3], 0).unwrap();
        file.sync_data().unwrap();
        assert_eq!(stored(&storage).len(), PAGE);
        assert_eq!(
            file.set_size(2 * BYTES).map_err(|error| error.kind()),
            Ok(())
        );
        assert_eq!(byte(&space, area.start + BYTES), Ok(0));
        drop((space, file));
        support::assert_all_free(&cache);
    });
}

/// A log in a shared area of the space that the data is in: the hook of the data writes to it, while a writer of the data
/// waits for the storage, and while the last area closes the file.
#[test]
fn a_hook_may_use_the_space_whose_write_it_is_in() {
    let cache = cache(128);
    let (log, _) = file(&cache, 64 * BYTES);
    let space = Arc::new(cache.space().unwrap());
    let log_area = space
        .map_file(&log, 0..64 * BYTES, Sharing::Shared)
        .unwrap();
    let nr_told = Arc::new(AtomicU64::new(0));
    let options = OpenOptions::new().write().before_write({
        let (space, nr_told) = (Arc::downgrade(&space), Arc::clone(&nr_told));
        move |_, _| {
            nr_told.fetch_add(1, Ordering::Relaxed);
            if let Some(space) = space.upgrade() {
                space
                    .fetch_add(log_area.start, 1)
                    .map_err(std::io::Error::other)?;
                drop(space.fork().map_err(std::io::Error::other)?);
            }
            Ok(())
        }
    });
    let backend = MemoryBackend::writable(vec![0; 400 * PAGE]);
    let data = cache.open_backend_with(backend, "data", &options).unwrap();
    let area = space
        .map_file(&data, 0..400 * BYTES, Sharing::Shared)
        .unwrap();
    drop(data);
    for page in 0..400 {
        // More than may be dirty at a time.
        write(&space, area.start + page * BYTES, &[1; PAGE]).unwrap();
    }
    space.unmap(area).unwrap();
    // If a hook's fork was the last to map the file, the thread of the cache makes it durable.
    until("all hooks are over", || {
        let nr = nr_told.load(Ordering::Relaxed);
        nr >= 400 && space.load(log_area.start).unwrap() == nr
    });
}

/// The page's frame is being written to when the program's change panics: it stays the page's, and dirty.
#[test]
fn a_change_that_panics_leaves_the_page_where_it_is() {
    let cache = cache(64);
    let (file, storage) = file(&cache, 2 * BYTES);
    file.write_at(&[7; PAGE], 0).unwrap();
    let mapped = file.mapped();
    let change = |bytes: pagewell::io::RacyBytes<'_>| -> () {
        bytes.copy_from(0, &[8]);
        panic!("as the test wants");
    };
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        mapped.try_edit((0, 8, 0), change, &mut Default::default())
    }));
    assert!(panicked.is_err());
    let mut expected = [7; PAGE];
    expected[0] = 8;
    let mut bytes = [0; PAGE];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), PAGE);
    assert_eq!(bytes, expected);
    file.sync_data().unwrap();
    assert_eq!(stored(&storage)[..PAGE], expected);
    cache.reclaim(usize::MAX);
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), PAGE);
    assert_eq!(bytes, expected);
    drop((mapped, file));
    support::assert_all_free(&cache);
}

/// Threads add to words of a file in several ways, while its pages are migrated, evicted, written back, protected and
/// mapped elsewhere: nothing is lost.
#[test]
fn no_addition_is_lost() {
    const PAGES: u64 = 24;
    const ADDERS: u64 = 3;
    const ADDITIONS: u64 = 4000;
    let cache = cache(256);
    let (file, storage) = file(&cache, 0);
    file.set_size(PAGES * BYTES).unwrap();
    let space = Arc::new(cache.space().unwrap());
    let is_over = AtomicBool::new(false);
    let areas: Vec<_> = (0..ADDERS)
        .map(|_| {
            space
                .map_file(&file, 0..PAGES * BYTES, Sharing::Shared)
                .unwrap()
        })
        .collect();
    std::thread::scope(|scope| {
        let adders: Vec<_> = areas
            .iter()
            .map(|area| {
                let space = &space;
                scope.spawn(move || {
                    for nr in 0..ADDITIONS {
                        let addr = area.start + nr * 7 % PAGES * BYTES;
                        space.fetch_add(addr, 1).unwrap();
                    }
                })
            })
            .collect();
        let others = scope.spawn(|| {
            let mut node = 0;
            while !is_over.load(Ordering::Relaxed) {
                node = 1 - node;
                let report = space.migrate(areas[0].clone(), node).unwrap();
                for (_, why) in report.not_moved {
                    assert_ne!(why, NotMoved::NodeFull);
                }
                let more = space
                    .map_file(&file, 0..PAGES * BYTES, Sharing::Shared)
                    .unwrap();
                space
                    .protect(more.start..more.start + BYTES, Protection::Read)
                    .unwrap();
                let private = space
                    .map_file(&file, 0..PAGES * BYTES, Sharing::Private)
                    .unwrap();
                space.fetch_add(private.start, 1 << 40).unwrap();
                let fork = space.fork().unwrap();
                file.sync_data().unwrap();
                cache.reclaim(8);
                space.unmap(more).unwrap();
                space.unmap(private).unwrap();
                drop(fork);
            }
        });
        for adder in adders {
            adder.join().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        others.join().unwrap();
    });
    file.sync_data().unwrap();
    let stored = stored(&storage);
    let word = |page| u64::from_ne_bytes(stored[page * PAGE..][..8].try_into().unwrap());
    let sum: u64 = (0..PAGES as usize).map(word).sum();
    assert_eq!(sum, ADDERS * ADDITIONS);
    cache.spaces().verify(&[&space]).unwrap();
}

/// Two groups of spaces of one cache that do not know each other numbered their areas each from 1 on. A file keeps the areas that
/// show it by their first page and number: when an area of one group was unmapped, that of the other was forgotten. A cut left its
/// private copies then, and what had been cut off was read again when the file had grown.
#[test]
fn spaces_that_do_not_know_each_other_show_one_file() {
    let cache = cache(256);
    let (file, _) = file(&cache, 16 * BYTES);
    let groups = [(); 2].map(|()| Spaces::from_source(cache.frames()));
    let [(ours, area), (others, other)] = groups.each_ref().map(|group| {
        let space = group.space().unwrap();
        let area = space
            .map_file(&file, 0..16 * BYTES, Sharing::Private)
            .unwrap();
        space.write(area.start + 2 * BYTES, b"mine").unwrap();
        (space, area)
    });
    others.unmap(other).unwrap();
    file.set_size(0).unwrap();
    file.set_size(16 * BYTES).unwrap();
    let mut bytes = [0xFF; 4];
    ours.read(area.start + 2 * BYTES, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 4], "what was cut off is back");
}

/// A space was dropped whose areas were the last handles of two files, and the storages of both panicked when they were given
/// what was dirty: the second panic came while the first one unwound, which is the end of the process. What a last close
/// cannot save is told on the standard error, whatever the reason.
#[test]
fn storages_that_panic_when_a_space_ends_are_no_panic() {
    let cache = cache(256);
    let is_broken = Arc::new(AtomicBool::new(false));
    let space = cache.space().unwrap();
    let storages: Vec<_> = (0..2)
        .map(|_| {
            let storage = Arc::new(MemoryBackend::writable(vec![0; PAGE]));
            let breaks = Arc::clone(&is_broken);
            let backend = FaultBackend::with_script(Arc::clone(&storage), move |operation| {
                // ORDERING: Relaxed; there is one thread.
                let is_to_panic = breaks.load(Ordering::Relaxed);
                assert!(!is_to_panic || !matches!(operation, Operation::Write { .. }));
                Fault::None
            });
            let options = OpenOptions::new().writeback(Writeback::Manual);
            let file = cache.open_backend_with(backend, "file", &options).unwrap();
            file.write_at(b"dirty", 0).unwrap();
            space.map_file(&file, 0..BYTES, Sharing::Shared).unwrap();
            storage
        })
        .collect();
    is_broken.store(true, Ordering::Relaxed);
    drop(space);
    for storage in storages {
        assert_eq!(Arc::strong_count(&storage), 1, "a file is open still");
    }
    cache.verify().unwrap();
}
