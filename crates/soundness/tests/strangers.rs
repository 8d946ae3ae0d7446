//! Whoever has the pool of a cache, and the numbers of its frames, cannot change what is others'.

#![forbid(unsafe_code)]

mod support;

use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pagewell::frame::{
    AllocRequest, FrameKind, FrameNr, FreeRange, MAX_FRAMES, Order, Place, TryGetFrame, UniqueFrame,
};
use support::{House, PAGE, cache, frames_of, pool, records};

/// Numbers that no frame of a small pool has.
fn far_numbers(nr_frames: usize) -> [FrameNr; 3] {
    [nr_frames as u32, 1 << 20, MAX_FRAMES as u32].map(FrameNr::new)
}

fn panics<R>(call: impl FnOnce() -> R) -> bool {
    // The calls are refused before they change anything, which the caller checks.
    catch_unwind(AssertUnwindSafe(call)).is_err()
}

#[test]
fn the_house_has_frames_of_every_kind_and_stands() {
    let house = House::new();
    for kind in [
        FrameKind::Page,
        FrameKind::Leaf,
        FrameKind::Anon,
        FrameKind::Table,
    ] {
        assert!(!frames_of(house.spaces.pool(), kind).is_empty(), "{kind:?}");
    }
    house.tear_down();
}

#[test]
fn references_to_frames_of_others_only_read() {
    let house = House::new();
    let before = records(house.spaces.pool());
    for nr in 0..house.spaces.pool().nr_frames() as u32 {
        let pool = house.spaces.pool();
        let TryGetFrame::Taken(reference) = pool.try_get(FrameNr::new(nr)) else {
            continue;
        };
        assert!(reference.raw_bytes().is_none(), "{reference:?}");
        let mut buf = vec![0; reference.bytes().len()];
        reference.bytes().copy_to(0, &mut buf);
        assert!(panics(|| reference.bytes().slice(1, buf.len())));
        assert!(panics(|| reference.bytes().slice(usize::MAX, 2)));
        // Others have one too, so it is not this one's alone.
        let reference = reference.try_unique().unwrap_err();
        drop(reference);
    }
    assert_eq!(records(house.spaces.pool()), before);
    house.tear_down();
}

#[test]
fn references_that_stay_for_long_harm_nobody() {
    let house = House::new();
    {
        let frames = house.frames();
        let held: Vec<_> = (0..frames.pool().nr_frames() as u32)
            .filter_map(|nr| match frames.pool().try_get(FrameNr::new(nr)) {
                TryGetFrame::Taken(reference) => Some(reference),
                _ => None,
            })
            .collect();
        house.check_pins();
        // What is written goes elsewhere, what is evicted stays, what is moved is not.
        house.cache.reclaim(1000);
        let other = house.space.fork().unwrap();
        drop(other);
        house.check();
        // Into numbers and out of sight: that leaks them, and no more.
        drop(held);
    }
    house.tear_down();
}

#[test]
fn a_reference_that_is_forgotten_leaks_a_frame_and_no_more() {
    let house = House::new();
    let page = frames_of(house.spaces.pool(), FrameKind::Page)[0];
    let anon = frames_of(house.spaces.pool(), FrameKind::Anon)[0];
    for frame in [page, anon] {
        let frames = house.frames();
        let TryGetFrame::Taken(reference) = frames.pool().try_get(frame) else {
            panic!("{frame:?}");
        };
        let _ = reference.into_raw();
    }
    house.check();
    let cache = house.cache.clone();
    drop(house);
    let stats = cache.stats();
    assert_eq!(stats.nr_free, stats.nr_frames - 2);
}

#[test]
fn numbers_of_frames_that_there_are_not_are_refused() {
    let house = House::new();
    let pool = house.spaces.pool();
    let before = records(pool);
    for frame in far_numbers(pool.nr_frames()) {
        assert!(matches!(pool.try_get(frame), TryGetFrame::Locked));
        assert!(pool.node_of(frame).is_none());
        assert!(!pool.may_be_block(frame, Order::ZERO));
        assert!(pool.take_free_within(frame, Order::ZERO).is_empty());
        assert!(panics(|| pool.meta(frame).count()));
    }
    assert_eq!(records(pool), before);
    house.tear_down();
}

#[test]
fn bytes_end_where_the_pool_does() {
    let pool = pool(64);
    let whole = 64 * PAGE;
    assert_eq!(pool.bytes(FrameNr::new(0), whole).len(), whole);
    assert_eq!(pool.bytes(FrameNr::new(64), 0).len(), 0);
    for (nr, len) in [
        (0, whole + 1),
        (1, whole),
        (63, PAGE + 1),
        (64, 1),
        (65, 0),
        // Lengths whose end does not fit a number.
        (1, usize::MAX),
        (1, usize::MAX - 100),
        (1, usize::MAX - PAGE + 1),
        (63, isize::MAX as usize),
        (MAX_FRAMES as u32, usize::MAX),
    ] {
        let is_refused = panics(|| pool.bytes(FrameNr::new(nr), len).len());
        assert!(is_refused, "{len} bytes from frame {nr} on");
    }
}

fn take_out<'p>(from: &mut Vec<UniqueFrame<'p>>, nr: u32) -> Option<UniqueFrame<'p>> {
    let at = from.iter().position(|part| part.frame().get() == nr)?;
    Some(from.swap_remove(at))
}

#[test]
fn blocks_of_another_pool_are_refused() {
    let house = House::new();
    let (frames, other) = (house.frames(), pool(64));
    let (mine, order) = (frames.pool(), Order::new(2).unwrap());
    assert!(panics(|| {
        mine.free_to_nodes(vec![other.alloc(order).unwrap()]);
    }));
    assert!(panics(|| {
        mine.free_bulk(&mut vec![other.alloc(Order::ZERO).unwrap()]);
    }));
    assert!(panics(|| {
        mine.join(vec![other.alloc(order).unwrap()], order)
            .is_some()
    }));
    assert!(panics(|| {
        mine.split_into(other.alloc(order).unwrap(), &mut Vec::new());
    }));
    // Parts of both, that fit by their numbers.
    let mut free = mine.take_free_within(FrameNr::new(256), Order::new(8).unwrap());
    let mut singles = Vec::new();
    while let Some(block) = free.pop() {
        mine.split_into(block, &mut singles);
    }
    if let Some(first) = take_out(&mut singles, 256) {
        let others = pool(512);
        let mut theirs = Vec::new();
        while others.alloc_bulk(512, &mut theirs) > 0 {}
        let second = take_out(&mut theirs, 257).unwrap();
        let order = Order::new(1).unwrap();
        assert!(panics(|| mine.join(vec![first, second], order).is_some()));
    }
    drop(singles);
    house.check();
}

#[test]
fn a_page_is_not_moved_to_a_block_of_another_pool_or_size() {
    // Not dropped if it fails: a slot that names a frame of another pool may never come to rest.
    let house = ManuallyDrop::new(House::new());
    let (frames, other) = (house.frames(), cache(64));
    let other = other.frames();
    // Those that nobody has pinned are cached too then.
    house.check();
    let pages = frames_of(frames.pool(), FrameKind::Page);
    let mut nr_moved = 0;
    for page in pages {
        let to = other.pool().alloc(Order::ZERO).unwrap();
        assert!(frames.move_page(page, to).is_err());
        let to = frames.pool().alloc(Order::new(1).unwrap()).unwrap();
        assert!(frames.move_page(page, to).is_err());
        let to = frames.pool().alloc(Order::ZERO).unwrap();
        nr_moved += usize::from(frames.move_page(page, to).is_ok());
    }
    assert!(nr_moved > 0, "those that nobody has pinned can be");
    for frame in far_numbers(frames.pool().nr_frames()) {
        let to = frames.pool().alloc(Order::ZERO).unwrap();
        assert!(frames.move_page(frame, to).is_err());
    }
    for kind in [FrameKind::Leaf, FrameKind::Anon, FrameKind::Table] {
        for frame in frames_of(frames.pool(), kind) {
            let to = frames.pool().alloc(Order::ZERO).unwrap();
            assert!(frames.move_page(frame, to).is_err());
        }
    }
    ManuallyDrop::into_inner(house).tear_down();
}

#[test]
fn what_is_allocated_and_written_is_nobody_elses() {
    let house = House::new();
    {
        let frames = house.frames();
        let pool = frames.pool();
        // All that there is, of pages that can be evicted too, in every form.
        let mut blocks = Vec::new();
        while let Some(block) = pool.alloc(Order::new(2).unwrap()) {
            blocks.push(block);
        }
        while let Some(frame) = frames.make_room(Order::ZERO, Place::Anywhere) {
            blocks.push(frame);
        }
        let request = AllocRequest::new(Order::ZERO);
        while let Ok(frame) = pool.alloc_by(&request) {
            blocks.push(frame);
        }
        for block in &blocks {
            let bytes = block.bytes();
            bytes.copy_from(0, &vec![0x55; bytes.len()]);
            assert!(panics(|| bytes.zero(1, bytes.len())));
            assert!(panics(|| bytes.copy_from(bytes.len(), &[1])));
            assert!(panics(|| bytes.zero(usize::MAX, 2)));
            block.discard();
        }
        house.check_pins();
        // As ranges, by strangers' references.
        let mut ranges = Vec::new();
        for block in blocks {
            if block.order() == Order::ZERO {
                let range = block.split();
                let TryGetFrame::Taken(reference) = pool.try_get(range.first()) else {
                    panic!("{range:?}");
                };
                reference.raw_bytes().unwrap().zero(0, PAGE);
                assert_eq!(range.free(FreeRange::OneByOne), 1);
                // The range is freed, and the frame is not free yet: the reference holds it.
                reference.raw_bytes().unwrap().copy_from(0, &[1; PAGE]);
            } else {
                ranges.push(block.split());
            }
        }
        for mut range in ranges {
            let rest = range.split_off(2).unwrap();
            assert_eq!(rest.bytes().len(), 2 * PAGE);
            assert!(rest.get(7).is_none() && rest.get(usize::MAX).is_none());
        }
    }
    house.tear_down();
}

/// References to frames of a range that was freed: none of them is to the frame of a page.
#[test]
fn what_was_a_range_is_a_pinned_page_and_stays_one() {
    let cache = cache(1024);
    let frames = cache.frames();
    let range = frames.pool().alloc(Order::PAGE_BLOCK).unwrap().split();
    let references: Vec<_> = (0..8).filter_map(|at| range.get(at)).collect();
    assert_eq!(range.free(FreeRange::default()), references.len());
    let file = support::file(&cache, 900);
    let pins: Vec<_> = (0..900).map(|page| file.pin(page).unwrap()).collect();
    for reference in &references {
        // Freed, and held by these: of nobody else.
        reference.raw_bytes().unwrap().zero(0, PAGE);
    }
    for (page, pin) in pins.iter().enumerate() {
        assert!(**pin == [support::byte_of(page); PAGE], "page {page}");
    }
}
