use std::ops::ControlFlow;
use std::sync::Arc;

use pagewell_cache::{Cache, OpenOptions};
use pagewell_frame::{FRAME_BYTES, FramePool, PoolConfig};
use pagewell_sync::read;

use crate::areas::area::Area;
use crate::areas::file::{FileMaps, Sharing};
use crate::areas::options::Policy;
use crate::mm::space::{CacheSpaces as _, Space, Spaces};
use crate::words::geometry::TABLE_BYTES;

fn most_families(space: &Space) -> usize {
    let areas = read(&space.mm.structure);
    areas.iter().map(Area::nr_families).max().unwrap_or(0)
}

/// Each generation is a fork that writes all its memory. Its parent is dropped.
#[test]
fn generations_of_forks_do_not_pile_up_families() {
    let spaces = Spaces::new(FramePool::new(&PoolConfig::new(256)).unwrap());
    let mut space = spaces.space().unwrap();
    let area = space.map(4 * FRAME_BYTES as u64, Policy::Local).unwrap();
    for round in 0..100_u64 {
        for addr in area.clone().step_by(FRAME_BYTES) {
            space.write(addr, &round.to_ne_bytes()).unwrap();
        }
        space = space.fork().unwrap();
        assert!(most_families(&space) <= 2, "{}", most_families(&space));
    }
    spaces.verify(&[&space]).unwrap();
}

/// Regression test: the first half of an area was unmapped, and a new area mapped there, in the
/// table of the other half, whose pages may have another size.
#[test]
fn areas_do_not_share_tables_when_addresses_are_used_again() {
    let spaces = Spaces::new(FramePool::new(&PoolConfig::new(1024)).unwrap());
    let space = spaces.space_of(2 * TABLE_BYTES).unwrap();
    let first = space.map(TABLE_BYTES, Policy::Local).unwrap();
    space.map(TABLE_BYTES, Policy::Local).unwrap();
    let middle = first.start + TABLE_BYTES / 2;
    space.write(middle, b"kept").unwrap();
    space.unmap(first.start..middle).unwrap();
    assert!(space.map(4096, Policy::Local).is_err());
    space.unmap(middle..first.end).unwrap();
    assert_eq!(space.map(4096, Policy::Local).unwrap().start, first.start);
    spaces.verify(&[&space]).unwrap();
}

#[test]
fn a_page_that_no_generation_writes_keeps_its_family_only() {
    let spaces = Spaces::new(FramePool::new(&PoolConfig::new(256)).unwrap());
    let mut space = spaces.space().unwrap();
    let area = space.map(2 * FRAME_BYTES as u64, Policy::Local).unwrap();
    space.write(area.start, b"first").unwrap();
    for _ in 0..50 {
        space
            .write(area.start + FRAME_BYTES as u64, b"later")
            .unwrap();
        space = space.fork().unwrap();
        assert!(most_families(&space) <= 3);
    }
    let mut buf = [0; 5];
    space.read(area.start, &mut buf).unwrap();
    assert_eq!(&buf, b"first");
}

/// Private areas are linked until unmapped, or their space is dropped. Shared ones are not linked.
#[test]
fn only_private_areas_that_are_mapped_are_linked_to_their_file() {
    const BYTES: u64 = FRAME_BYTES as u64;
    let stored = pagewell_testkit::scratch::file();
    stored.as_file().set_len(4 * BYTES).unwrap();
    let cache = Cache::builder().capacity(4 << 20).build().unwrap();
    let options = OpenOptions::new().write();
    let file = cache.open_with(stored.path(), &options).unwrap();
    let maps = file.mapped().user_or_else(Arc::<FileMaps>::default);
    let maps = maps.unwrap();
    let linked = |page: u64| {
        let mut nr = 0;
        let _ = maps.private.walk(page, page + 1, |_| {
            nr += 1;
            ControlFlow::<()>::Continue(())
        });
        nr
    };
    let space = cache.space().unwrap();
    space
        .map_file(&file, 0..4 * BYTES, Sharing::Shared)
        .unwrap();
    assert_eq!([0, 1, 3].map(linked), [0, 0, 0]);
    let area = space.map_file(&file, BYTES..4 * BYTES, Sharing::Private);
    let area = area.unwrap();
    assert_eq!([0, 1, 3].map(linked), [0, 1, 1]);
    let fork = space.fork().unwrap();
    assert_eq!([0, 1, 3].map(linked), [0, 2, 2]);
    space.unmap(area.start..area.start + BYTES).unwrap();
    assert_eq!([0, 1, 3].map(linked), [0, 1, 2]);
    let area = space.move_to_free(area.start + BYTES..area.end).unwrap();
    assert_eq!([0, 1, 3].map(linked), [0, 1, 2]);
    drop(fork);
    assert_eq!([0, 1, 3].map(linked), [0, 0, 1]);
    space.unmap(area).unwrap();
    assert_eq!([0, 1, 3].map(linked), [0, 0, 0]);
}
