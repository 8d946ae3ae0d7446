//! Spaces whose areas have a policy, in the frames of a cache: what has to go for them, and on which node. The nodes are
//! pretended.

use std::sync::{Arc, OnceLock};

use crate::support::{FRAME_COST, PAGE};
use pagewell::io::MemoryBackend;
use pagewell::space::{CacheSpaces as _, ErrorKind, MapOptions, Policy, Space};
use pagewell::{Cache, File, Nodes, OpenOptions, Writeback};

const BYTES: u64 = PAGE as u64;

fn cache(nr_frames: u64) -> Cache {
    Cache::builder()
        .capacity(nr_frames * FRAME_COST)
        .dirty_limit(nr_frames / 4 * 3 * BYTES)
        .nodes(Nodes::Unbound(2))
        .build()
        .unwrap()
}

/// A file for reading, of so many pages, each byte of which is the number of its page.
fn file(cache: &Cache, nr_pages: u64) -> File {
    let content = (0..nr_pages * BYTES).map(|at| (at / BYTES) as u8).collect();
    let storage = MemoryBackend::new(content);
    cache.open_backend(storage, "file").unwrap()
}

fn check(file: &File, pages: std::ops::Range<u64>) {
    let mut buf = [0; PAGE];
    for page in pages {
        assert_eq!(file.read_at(&mut buf, page * BYTES).unwrap(), PAGE);
        assert!(buf.iter().all(|byte| *byte == page as u8), "page {page}");
    }
}

/// Writes each page of a new area; how many could be.
fn write(space: &Space, nr_pages: u64, policy: Policy) -> (std::ops::Range<u64>, u64) {
    let area = space.map(nr_pages * BYTES, policy).unwrap();
    let mut nr = 0;
    for addr in area.clone().step_by(PAGE) {
        match space.write(addr, &addr.to_ne_bytes()) {
            Ok(()) => nr += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::OutOfFrames);
                break;
            }
        }
    }
    (area, nr)
}

/// How many pages of an area are on a node: those are not moved there.
fn nr_on(space: &Space, area: &std::ops::Range<u64>, node: usize) -> usize {
    space.migrate(area.clone(), node).unwrap().nr_there
}

/// Symptom: writes to an area that is bound to a node failed, when that was full of clean pages of a file.
#[test]
fn an_area_is_bound_to_a_node_that_is_full_of_clean_pages() {
    let cache = cache(2048);
    let file = file(&cache, 4096);
    check(&file, 0..4096);
    for node in [1, 0] {
        let space = cache.space().unwrap();
        let before = cache.stats().nr_evictions;
        let (area, nr) = write(&space, 600, Policy::Bind(node));
        assert_eq!(nr, 600);
        let nr_evicted = cache.stats().nr_evictions - before;
        // Those that are needed, and at most a few more: not the other node's.
        assert!((500..=650).contains(&nr_evicted), "{nr_evicted}");
        assert_eq!(nr_on(&space, &area, node), 600);
        check(&file, 0..100);
        cache.spaces().verify(&[&space]).unwrap();
        drop(space);
        check(&file, 0..4096);
    }
    cache.verify().unwrap();
}

#[test]
fn a_huge_page_is_bound_to_a_node_that_is_full_of_clean_pages() {
    let cache = cache(4096);
    let file = file(&cache, 8192);
    check(&file, 0..8192);
    let space = cache.space().unwrap();
    let options = MapOptions::new()
        .page_bytes(2 << 20)
        .policy(Policy::Bind(1));
    let area = space.map_with(2 << 20, &options).unwrap();
    space.write(area.start, b"huge").unwrap();
    assert_eq!(nr_on(&space, &area, 1), 1);
    check(&file, 0..8192);
}

/// The node is full of pages that were written to, and too few of all frames are for the cache to make them durable by
/// itself. They are, when a frame is wanted there; the hook, in which the program changes the space, keeps nobody waiting.
#[test]
fn an_area_is_bound_to_a_node_that_is_full_of_dirty_pages() {
    const NR_DIRTY: u64 = 400;
    let cache = cache(2048);
    let space = Arc::new(cache.space().unwrap());
    let in_hook: Arc<OnceLock<Arc<Space>>> = Arc::default();
    let hook = {
        let in_hook = Arc::clone(&in_hook);
        move |_, _| {
            if let Some(space) = in_hook.get() {
                // Takes the lock of its areas.
                let area = space.map(BYTES, Policy::Local).expect("addresses");
                space.unmap(area).expect("a mapped page");
            }
            Ok(())
        }
    };
    let storage = Arc::new(MemoryBackend::writable(vec![
        0;
        (2 * NR_DIRTY * BYTES) as usize
    ]));
    let options = OpenOptions::new()
        .writeback(Writeback::Background)
        .before_write(hook);
    let file = cache
        .open_backend_with(Arc::clone(&storage), "file", &options)
        .unwrap();
    // A first page, for what comes with it.
    file.write_at(&[1; PAGE], 0).unwrap();
    space
        .write(space.map(BYTES, Policy::Bind(1)).unwrap().start, b"table")
        .unwrap();
    let (_, nr) = write(&space, 2048, Policy::Bind(0));
    assert!(nr > 900);
    let (_, nr) = write(&space, 1000 - NR_DIRTY, Policy::Bind(1));
    assert_eq!(nr, 1000 - NR_DIRTY);
    let mut nr_dirty = 1;
    while cache.stats().nr_free > 1 {
        file.write_at(&[1; PAGE], nr_dirty * BYTES).unwrap();
        nr_dirty += 1;
    }
    assert!((300..450).contains(&nr_dirty), "{nr_dirty}");
    in_hook.set(Arc::clone(&space)).unwrap();

    let (area, nr) = write(&space, 200, Policy::Bind(1));
    assert_eq!(nr, 200);
    assert_eq!(nr_on(&space, &area, 1), 200);
    // What went was in the storage before.
    let mut buf = [0; PAGE];
    for page in 0..nr_dirty {
        assert_eq!(file.read_at(&mut buf, page * BYTES).unwrap(), PAGE);
        assert_eq!(buf, [1; PAGE]);
    }
    cache.spaces().verify(&[&space]).unwrap();
}

/// The same for a file that only the program writes back: that is an error, until the program has.
#[test]
fn dirty_pages_that_the_program_keeps_are_an_error_until_it_writes_them_back() {
    let cache = cache(512);
    let options = OpenOptions::new().writeback(Writeback::Manual);
    // Several, since one alone may not have so many dirty pages.
    let files: Vec<_> = (0..4)
        .map(|_| {
            let storage = MemoryBackend::writable(vec![0; 512 * PAGE]);
            cache.open_backend_with(storage, "file", &options).unwrap()
        })
        .collect();
    let space = cache.space().unwrap();
    for file in &files {
        file.write_at(&[1; PAGE], 0).unwrap();
    }
    space
        .write(space.map(BYTES, Policy::Bind(1)).unwrap().start, b"table")
        .unwrap();
    write(&space, 512, Policy::Bind(0));
    for file in &files {
        let mut page = 1;
        while cache.stats().nr_free > 1 && file.write_at(&[1; PAGE], page * BYTES).is_ok() {
            page += 1;
        }
    }
    let (area, nr) = write(&space, 20, Policy::Bind(1));
    assert!(nr <= 2, "{nr}");
    for file in &files {
        file.sync_data().unwrap();
    }
    for addr in area.step_by(PAGE) {
        space.write(addr, b"now").unwrap();
    }
}

/// Pages of a node that somebody has pinned are an error, at once and clear, however many could be evicted elsewhere.
#[test]
fn an_area_is_bound_to_a_node_that_is_full_of_pinned_pages() {
    let cache = cache(512);
    let file = file(&cache, 480);
    check(&file, 0..240);
    let pins: Vec<_> = (240..480).map(|page| file.pin(page).unwrap()).collect();
    let space = cache.space().unwrap();
    let before = cache.stats().nr_evictions;
    let (area, nr) = write(&space, 100, Policy::Bind(1));
    assert!(nr < 40, "{nr}");
    assert!(cache.stats().nr_evictions - before < 40);
    let error = space.write(area.end - BYTES, b"more").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfFrames);
    assert_eq!(error.addr(), Some(area.end - BYTES));
    let text = error.to_string();
    assert!(text.contains("no frame is free"), "{text}");
    for (page, pin) in (240_u64..).zip(&pins) {
        assert!(pin.iter().all(|byte| *byte == page as u8));
    }
    drop(pins);
    for addr in area.clone().step_by(PAGE) {
        space.write(addr, b"more").unwrap();
    }
    assert_eq!(nr_on(&space, &area, 1), 100);
}

#[test]
fn who_prefers_a_node_takes_free_frames_of_others_and_evicts_on_that_one() {
    let cache = cache(512);
    let first = file(&cache, 200);
    let second = file(&cache, 1000);
    check(&first, 0..200);
    check(&second, 0..280);
    drop(first);
    let nr_free = cache.stats().nr_free as u64;
    assert!(nr_free > 150, "{nr_free}");
    let space = cache.space().unwrap();
    let before = cache.stats().nr_evictions;
    let (area, nr) = write(&space, 140, Policy::Prefer(1));
    assert_eq!(nr, 140);
    assert_eq!(
        cache.stats().nr_evictions,
        before,
        "evicted with frames free"
    );
    assert!(nr_on(&space, &area, 0) > 100);
    drop(space);

    check(&second, 0..1000);
    let space = cache.space().unwrap();
    let (area, nr) = write(&space, 140, Policy::Prefer(1));
    assert_eq!(nr, 140);
    assert!(nr_on(&space, &area, 1) > 120);
}

#[test]
fn interleaved_pages_push_out_as_many_on_each_node() {
    let cache = cache(1024);
    let file = file(&cache, 2000);
    check(&file, 0..2000);
    let space = cache.space().unwrap();
    let (area, nr) = write(&space, 400, Policy::Interleave);
    assert_eq!(nr, 400);
    let on_first = nr_on(&space, &area, 0);
    assert!((180..=220).contains(&on_first), "{on_first}");
    cache.spaces().verify(&[&space]).unwrap();
}
