//! Areas: their families, and the tables that they share.

use pagewell_frame::refcount::LockBit;
use pagewell_frame::{FRAME_BYTES, FramePool, PoolConfig};
use pagewell_sync::read;

use crate::api::handles::{Space, Spaces};
use crate::areas::area::Area;
use crate::areas::policy::Policy;
use crate::words::geometry::TABLE_BYTES;

fn most_families(space: &Space<LockBit>) -> usize {
    let areas = read(&space.mm.structure);
    areas.iter().map(Area::nr_families).max().unwrap_or(0)
}

/// Each generation is a fork of the one before, which ends; and writes all of its memory.
#[test]
fn generations_of_forks_do_not_pile_up_families() {
    let spaces = Spaces::new(FramePool::<LockBit>::new(&PoolConfig::new(256)).unwrap());
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

/// The rest of an area, unmapped from its beginning, is in a table with pages of its size. Another area was put before it,
/// into the same table, when the addresses had been used up.
#[test]
fn areas_do_not_share_tables_when_addresses_are_used_again() {
    let spaces = Spaces::new(FramePool::<LockBit>::new(&PoolConfig::new(1024)).unwrap());
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
    let spaces = Spaces::new(FramePool::<LockBit>::new(&PoolConfig::new(256)).unwrap());
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
