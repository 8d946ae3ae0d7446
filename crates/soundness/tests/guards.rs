//! Guards that are forgotten, outlive what they are of, or cross threads, while everything around them changes.

#![forbid(unsafe_code)]

mod support;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use pagewell::frame::{FrameKind, FrameNr, Order, TryGetFrame};
use pagewell::io::{Backend, MemoryBackend};
use pagewell::space::{CacheSpaces as _, Policy, Protection, Sharing, Spaces};
use pagewell::{OpenOptions, Writeback};
use support::{House, PAGE, PAGES, byte_of, cache, file, frames_of, pool};

fn pages(nr: usize) -> Range<u64> {
    0..(nr * PAGE) as u64
}

/// Every way to change a page of a file, or its place.
#[test]
fn no_way_to_change_a_file_changes_what_is_pinned() {
    let cache = cache(256);
    let file = file(&cache, 8);
    let mapped = file.mapped();
    let space = cache.space().unwrap();
    let area = space.map_file(&file, pages(8), Sharing::Shared).unwrap();
    let mut buf = [0; PAGE];
    let mut change: Vec<Box<dyn FnMut(u8) + '_>> = vec![
        Box::new(|byte| _ = file.write_at(&[byte; PAGE], 0).unwrap()),
        Box::new(|byte| _ = file.write_at(&[byte; 10], 5).unwrap()),
        Box::new(|byte| file.pin_mut(0).unwrap().fill(byte)),
        Box::new(|byte| space.write(area.start, &[byte; 100]).unwrap()),
        Box::new(|byte| space.store(area.start + 8, u64::from(byte)).unwrap()),
        Box::new(|_| _ = space.fetch_add(area.start, 1).unwrap()),
        Box::new(|byte| {
            let mut spare = pagewell_cache::Spare::default();
            loop {
                let change = |bytes: pagewell::io::RacyBytes<'_>| bytes.copy_from(0, &[byte; 9]);
                match mapped.try_edit((3, 9, 0), change, &mut spare).unwrap().0 {
                    pagewell_cache::Tried::NotNow(wait) => {
                        mapped.wait(3, &wait, &mut spare).unwrap()
                    }
                    tried => return assert_eq!(tried, pagewell_cache::Tried::Done),
                }
            }
        }),
        Box::new(|_| file.discard(pages(1)).unwrap()),
        Box::new(|_| file.invalidate(pages(8))),
        Box::new(|_| _ = file.flush(pages(8)).unwrap()),
        Box::new(|_| file.sync_all().unwrap()),
        Box::new(|_| file.set_size(0).unwrap()),
        Box::new(|byte| _ = file.append(&[byte; 2 * PAGE]).unwrap()),
        Box::new(|_| _ = cache.reclaim(1000)),
        Box::new(|_| {
            for frame in frames_of(cache.frames().pool(), FrameKind::Page) {
                let frames = cache.frames();
                let to = frames.make_room(Order::ZERO, pagewell::frame::Place::Anywhere);
                let _ = frames.move_page(frame, to.unwrap());
            }
        }),
        Box::new(|byte| _ = file.write_at(&[byte; PAGE], 0).unwrap()),
    ];
    let mut pins = Vec::new();
    for round in 0..3_u8 {
        for (nr, change) in change.iter_mut().enumerate() {
            let byte = round * 20 + nr as u8 + 1;
            let _ = file.read_at(&mut buf, 0);
            if let (Ok(page), Ok(pin)) = (file.pin(0), space.pin(area.start, PAGE)) {
                let seen = page.to_vec();
                pins.push((page, pin, seen, byte));
            }
            change(byte);
            for (page, pin, seen, when) in &pins {
                assert!(
                    **page == **seen,
                    "step {nr} of round {round}, pinned at {when}"
                );
                assert!(
                    **pin == **seen,
                    "step {nr} of round {round}, pinned at {when}"
                );
            }
        }
    }
    assert!(pins.len() > 30);
}

/// Every way to change a page of a space, or its place.
#[test]
fn no_way_to_change_a_space_changes_what_is_pinned() {
    let spaces: Spaces = {
        let mut config = pagewell::frame::PoolConfig::new(1024);
        config.nodes = pagewell::frame::Nodes::Unbound(2);
        Spaces::new(pagewell::frame::FramePool::new(&config).unwrap())
    };
    let mut space = spaces.space().unwrap();
    let mut area = space.map(4 * PAGE as u64, Policy::Local).unwrap();
    space.write(area.start, &[1; 4 * PAGE]).unwrap();
    let mut pins: Vec<(pagewell::space::OwnedPin, Vec<u8>)> = Vec::new();
    for nr in 0..60_u8 {
        let pin = space.pin(area.start, PAGE).unwrap();
        pins.push((pin.into_owned(), {
            let mut seen = vec![0; PAGE];
            space.read(area.start, &mut seen).unwrap();
            seen
        }));
        match nr % 10 {
            0 => space.write(area.start, &[nr; PAGE]).unwrap(),
            1 => _ = space.fetch_add(area.start + 16, 7).unwrap(),
            2 => {
                let fork = space.fork().unwrap();
                fork.write(area.start, &[nr; PAGE]).unwrap();
                space.write(area.start, &[nr + 1; 9]).unwrap();
            }
            3 => {
                _ = space
                    .migrate(area.clone(), usize::from(nr % 4 / 2))
                    .unwrap()
            }
            4 => drop(spaces.alloc_block(Order::new(8).unwrap())),
            5 => {
                space.protect(area.clone(), Protection::Read).unwrap();
                assert!(space.write(area.start, &[nr]).is_err());
                space.protect(area.clone(), Protection::ReadWrite).unwrap();
            }
            6 => area = space.move_to_free(area.clone()).unwrap(),
            7 => {
                space.unmap(area.clone()).unwrap();
                area = space.map(4 * PAGE as u64, Policy::Local).unwrap();
                space.write(area.start, &[nr; 4 * PAGE]).unwrap();
            }
            8 => space = space.fork().unwrap(),
            _ => _ = space.compare_exchange(area.start, 0, 1).unwrap(),
        }
        for (at, (pin, seen)) in pins.iter().enumerate() {
            assert!(**pin == **seen, "step {nr}, pinned at {at}");
        }
    }
    spaces.verify(&[&space]).unwrap();
    drop(space);
    let pool = spaces.pool();
    assert!(pool.stats().nr_available() < pool.nr_frames());
    pins.clear();
    assert_eq!(pool.stats().nr_available(), pool.nr_frames());
}

#[test]
fn owned_guards_outlive_their_files_spaces_and_caches() {
    let (page, pin) = {
        let cache = cache(256);
        let file = file(&cache, 4);
        let space = cache.space().unwrap();
        let area = space.map_file(&file, pages(4), Sharing::Private).unwrap();
        space.write(area.start + PAGE as u64, &[7; PAGE]).unwrap();
        let pin = space.pin(area.start + PAGE as u64, PAGE).unwrap();
        (file.pin_owned(2).unwrap(), pin.into_owned())
    };
    let seen = std::thread::spawn(move || {
        assert!(*page == [byte_of(2); PAGE]);
        assert!(*pin == [7; PAGE]);
        (page, pin)
    });
    drop(seen.join().unwrap());
}

#[test]
fn guards_that_are_forgotten_keep_what_they_have() {
    let cache = cache(256);
    let first = {
        let file = file(&cache, 4);
        let pin = file.pin_owned(0).unwrap();
        let first = pin[0];
        std::mem::forget(pin);
        std::mem::forget(file.pin(1).unwrap());
        std::mem::forget(file.pin_mut(2).unwrap());
        std::mem::forget(file.mapped().hold(3, 1).unwrap());
        first
    };
    assert_eq!(first, byte_of(0));
    let spaces = cache.spaces();
    let space = spaces.space().unwrap();
    let area = space.map(PAGE as u64, Policy::Local).unwrap();
    space.write(area.start, b"forgotten").unwrap();
    std::mem::forget(space.pin(area.start, 9).unwrap());
    std::mem::forget(space.pin(area.start, 9).unwrap().into_owned());
    drop(space);
    // Those frames are lost, and nothing else is.
    cache.reclaim(1000);
    let stats = cache.stats();
    let lost = stats.nr_frames - stats.nr_free;
    assert!((5..16).contains(&lost), "{lost}");
    let other = file(&cache, PAGES);
    let mut buf = [0; PAGE];
    for page in 0..PAGES {
        other.read_at(&mut buf, (page * PAGE) as u64).unwrap();
        assert_eq!(buf, [byte_of(page); PAGE]);
    }
}

/// Hooks of a program that panic, fail, and use the cache.
#[test]
fn hooks_that_misbehave_change_no_pin() {
    let house = House::new();
    let log = support::open(
        &house.cache,
        1,
        &OpenOptions::new().write().writeback(Writeback::Manual),
    );
    let options = OpenOptions::new()
        .write()
        .writeback(Writeback::Manual)
        .before_write(move |page, _| {
            log.append(&page.to_le_bytes())
                .map_err(std::io::Error::other)?;
            match page % 3 {
                0 => Ok(()),
                1 => Err(std::io::Error::other("not now")),
                _ => panic!("a hook that panics"),
            }
        });
    let file = support::open(&house.cache, 12, &options);
    let pins: Vec<_> = (0..12)
        .map(|page| {
            file.write_at(&[page as u8; PAGE], page * PAGE as u64)
                .unwrap();
            file.pin(page).unwrap()
        })
        .collect();
    for _ in 0..4 {
        let _ = catch_unwind(AssertUnwindSafe(|| file.flush(0..u64::MAX)));
        let _ = catch_unwind(AssertUnwindSafe(|| file.sync_data()));
    }
    for (page, pin) in pins.iter().enumerate() {
        assert!(**pin == [page as u8; PAGE]);
    }
    drop(pins);
    let _ = catch_unwind(AssertUnwindSafe(|| drop(file)));
    house.check_pins();
}

/// Strangers take and drop references to every frame of a busy cache, read it, and free numbers of their own twice.
#[test]
fn strangers_beside_a_busy_cache_change_nothing() {
    let house = House::new();
    let is_over = AtomicBool::new(false);
    let begin = Barrier::new(4);
    std::thread::scope(|scope| {
        // Reads and holds whatever there is.
        scope.spawn(|| {
            let frames = house.frames();
            let mut buf = vec![0; 4096];
            begin.wait();
            while !is_over.load(Ordering::Relaxed) {
                for nr in 0..frames.pool().nr_frames() as u32 {
                    if let TryGetFrame::Taken(reference) = frames.pool().try_get(FrameNr::new(nr)) {
                        reference.bytes().copy_to(0, &mut buf[..64]);
                        assert!(reference.raw_bytes().is_none_or(|bytes| {
                            bytes.copy_from(0, &[0x55; 64]);
                            true
                        }));
                    }
                }
            }
        });
        // Its own frames, in every form, overwritten all the time.
        scope.spawn(|| {
            let frames = house.frames();
            let pool = frames.pool();
            begin.wait();
            while !is_over.load(Ordering::Relaxed) {
                if let Some(block) = pool.alloc(Order::new(1).unwrap()) {
                    let bytes = block.bytes();
                    bytes.copy_from(0, &[0x33; 2 * PAGE]);
                    let range = block.split();
                    let _ = range
                        .get(1)
                        .map(|page| page.raw_bytes().map(|b| b.zero(0, PAGE)));
                }
            }
        });
        // Spaces that come and go.
        scope.spawn(|| {
            begin.wait();
            while !is_over.load(Ordering::Relaxed) {
                let space = house.spaces.space().unwrap();
                let area = space.map(64 * PAGE as u64, Policy::Local).unwrap();
                for addr in area.clone().step_by(PAGE) {
                    let _ = space.write(addr, &[0x77; PAGE]);
                }
                let fork = space.fork();
                let _ = space.write(area.start, &[0x78; PAGE]);
                drop(fork);
            }
        });
        begin.wait();
        for _ in 0..60 {
            house.cache.reclaim(20);
            let _ = house.file.write_at(&[byte_of(4); PAGE], 4 * PAGE as u64);
            house.check_pins();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    house.tear_down();
}

/// What reads into one buffer from several threads' frames: the language keeps it one's own.
#[test]
fn a_backend_is_read_through_others() {
    let inner = std::sync::Arc::new(MemoryBackend::writable(vec![3; 2 * PAGE]));
    assert_eq!(inner.size().unwrap(), 2 * PAGE as u64);
    let cache = cache(64);
    let file = cache.open_backend(inner, "file").unwrap();
    let pool = pool(16);
    let block = pool.alloc(Order::ZERO).unwrap();
    let bytes = block.bytes();
    // The same memory, as several buffers of one copy that overlap.
    bytes.copy_from_racy(0, bytes.slice(100, 1000));
    bytes.copy_from_racy(100, bytes.slice(0, 1000));
    drop(file.pin(0).unwrap());
}
