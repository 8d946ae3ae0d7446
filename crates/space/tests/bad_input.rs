//! Whatever users pass is an error, and nothing is lost.
#![cfg(not(loom))]

mod common;

use common::spaces;
use pagewell_space::{
    Error, ErrorKind, ForkMode, MapOptions, Op, Policy, Protection, Space, Spaces,
};

const PAGE: u64 = 4096;

fn small() -> (Spaces, Space) {
    let spaces = spaces(256, 2);
    let space = spaces.space_of(8 << 20).unwrap();
    (spaces, space)
}

#[test]
fn addresses_that_are_not_mapped() {
    let (spaces, space) = small();
    let area = space.map(3 * PAGE, Policy::Local).unwrap();
    let mut buf = [7; 100];
    for addr in [area.end, area.end - 50, 4 << 20, (8 << 20) - 1] {
        let error = space.read(addr, &mut buf).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Unmapped | ErrorKind::InvalidRange),
            "{error}"
        );
        let error = space.write(addr, &buf).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Unmapped | ErrorKind::InvalidRange),
            "{error}"
        );
    }
    for addr in [8 << 20, 1 << 40, u64::MAX - 8, u64::MAX] {
        let kind = |result: Result<(), Error>| result.unwrap_err().kind();
        assert_eq!(kind(space.read(addr, &mut buf)), ErrorKind::InvalidRange);
        assert_eq!(kind(space.write(addr, &buf)), ErrorKind::InvalidRange);
        assert_eq!(kind(space.pin(addr, 1).map(drop)), ErrorKind::InvalidRange);
        let word = kind(space.fetch_add(addr, 1).map(drop));
        assert!(matches!(
            word,
            ErrorKind::InvalidRange | ErrorKind::Misaligned
        ));
    }
    // What could be read before is in the buffer, and zeros.
    space.write(area.end - 50, &[9; 50]).unwrap();
    let mut buf = [7; 100];
    let error = space.read(area.end - 50, &mut buf).unwrap_err();
    assert_eq!((error.op(), error.addr()), (Op::Read, Some(area.end)));
    assert_eq!(buf[..50], [9; 50]);
    assert_eq!(buf[50..], [0; 50]);
    assert_eq!(
        error.to_string(),
        "cannot read at 0x3000: no area is mapped there"
    );
    spaces.verify(&[&space]).unwrap();
}

#[test]
fn accesses_that_the_area_does_not_allow() {
    let (spaces, space) = small();
    let area = space.map(2 * PAGE, Policy::Local).unwrap();
    space.write(area.start, b"there").unwrap();
    space.protect(area.clone(), Protection::Read).unwrap();
    let error = space.write(area.start, b"no").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protected);
    assert_eq!(&*space.pin(area.start, 5).unwrap(), b"there");
    // A page that was never written, in an area that cannot be.
    assert_eq!(&*space.pin(area.start + PAGE, 3).unwrap(), b"\0\0\0");
    space.protect(area.clone(), Protection::None).unwrap();
    let mut buf = [1; 5];
    let error = space.read(area.start, &mut buf).unwrap_err();
    assert_eq!((error.kind(), buf), (ErrorKind::Protected, [0; 5]));
    assert_eq!(
        space.pin(area.start, 1).unwrap_err().kind(),
        ErrorKind::Protected
    );
    space.protect(area.clone(), Protection::ReadWrite).unwrap();
    space.read(area.start, &mut buf).unwrap();
    assert_eq!(&buf, b"there");
    spaces.verify(&[&space]).unwrap();
}

#[test]
fn ranges_that_are_none() {
    let (spaces, space) = small();
    let area = space.map(4 * PAGE, Policy::Local).unwrap();
    space.write(area.start, &[1; 4 * PAGE as usize]).unwrap();
    let bad = [
        (area.start..area.start, ErrorKind::InvalidRange),
        (area.end..area.start, ErrorKind::InvalidRange),
        (0..u64::MAX, ErrorKind::InvalidRange),
        (u64::MAX - 1..u64::MAX, ErrorKind::InvalidRange),
        (area.start + 1..area.end, ErrorKind::Misaligned),
        (area.start..area.end - 1, ErrorKind::Misaligned),
        (area.start..area.end + PAGE, ErrorKind::Unmapped),
        (4 << 20..5 << 20, ErrorKind::Unmapped),
    ];
    for (range, kind) in bad {
        let of = |result: Result<(), Error>| result.unwrap_err().kind();
        assert_eq!(of(space.unmap(range.clone())), kind, "{range:?}");
        assert_eq!(of(space.protect(range.clone(), Protection::Read)), kind);
        assert_eq!(of(space.move_to_free(range.clone()).map(drop)), kind);
        assert_eq!(of(space.migrate(range.clone(), 1).map(drop)), kind);
    }
    let mut buf = [0; 4 * PAGE as usize];
    space.read(area.start, &mut buf).unwrap();
    assert!(buf.iter().all(|byte| *byte == 1));
    spaces.verify(&[&space]).unwrap();
}

#[test]
fn settings_out_of_range() {
    let (spaces, space) = small();
    let kind = |options: MapOptions, len| space.map_with(len, &options).unwrap_err().kind();
    for bytes in [0, 1, 2048, 4097, 3 << 12, 4 << 20] {
        let options = MapOptions::new().page_bytes(bytes);
        assert_eq!(kind(options, PAGE), ErrorKind::InvalidConfig);
    }
    for policy in [Policy::Bind(2), Policy::Prefer(usize::MAX)] {
        let options = MapOptions::new().policy(policy);
        assert_eq!(kind(options, PAGE), ErrorKind::NoSuchNode);
    }
    assert_eq!(kind(MapOptions::new(), 0), ErrorKind::InvalidRange);
    for len in [9 << 20, 1 << 60, u64::MAX] {
        assert_eq!(kind(MapOptions::new(), len), ErrorKind::OutOfAddresses);
    }
    for bytes in [0, pagewell_space::MAX_SPACE_BYTES + 1, u64::MAX] {
        let error = spaces.space_of(bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    }
    let area = space.map(2 * PAGE, Policy::Local).unwrap();
    let pin = space.pin(area.start + PAGE - 4, 8).unwrap_err();
    assert_eq!(pin.kind(), ErrorKind::Misaligned);
    for addr in [area.start + 1, area.start + 4, area.start + PAGE - 4] {
        assert_eq!(space.load(addr).unwrap_err().kind(), ErrorKind::Misaligned);
        assert_eq!(
            space.swap(addr, 1).unwrap_err().kind(),
            ErrorKind::Misaligned
        );
    }
}

#[test]
fn a_node_that_is_full() {
    let (spaces, space) = small();
    let area = space.map(200 * PAGE, Policy::Bind(1)).unwrap();
    let mut nr_written = 0;
    let error = loop {
        match space.write(area.start + nr_written * PAGE, &[1; PAGE as usize]) {
            Ok(()) => nr_written += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::OutOfFrames);
    assert!((100..=128).contains(&nr_written), "{nr_written}");
    spaces.verify(&[&space]).unwrap();
}

/// The tables of a fork that copies them do not fit: it is undone whole.
#[test]
fn memory_that_runs_out_in_the_middle_of_a_fork() {
    let spaces = spaces(64, 1);
    let space = spaces.space().unwrap();
    // A page in each of many tables.
    let area = space.map(25 << 21, Policy::Local).unwrap();
    for addr in area.clone().step_by(1 << 21) {
        space.write(addr, &addr.to_ne_bytes()).unwrap();
    }
    let before = spaces.pool().stats().nr_available();
    let error = space.fork_with(ForkMode::Copy).unwrap_err();
    assert_eq!(
        (error.kind(), error.op()),
        (ErrorKind::OutOfFrames, Op::Fork)
    );
    assert_eq!(spaces.pool().stats().nr_available(), before);
    spaces.verify(&[&space]).unwrap();
    // One that shares them needs no memory.
    let fork = space.fork().unwrap();
    for addr in area.step_by(1 << 21) {
        space.write(addr + 8, b"again").unwrap_or_else(|error| {
            assert_eq!(error.kind(), ErrorKind::OutOfFrames);
        });
        assert_eq!(fork.load(addr), Ok(addr));
        assert_eq!(space.load(addr), Ok(addr));
    }
    spaces.verify(&[&space, &fork]).unwrap();
}
