//! Spaces and files in the frames of one cache.

use pagewell::space::{ErrorKind, Policy, Spaces};
use pagewell::{Cache, File};

const PAGE: usize = 4096;

fn content(page: usize) -> u8 {
    page as u8 ^ 0x5A
}

fn check(file: &File, nr_pages: usize) {
    let mut buf = [0; PAGE];
    for page in 0..nr_pages {
        assert_eq!(file.read_at(&mut buf, (page * PAGE) as u64).unwrap(), PAGE);
        assert!(buf.iter().all(|byte| *byte == content(page)), "page {page}");
    }
}

#[test]
fn pages_of_files_make_room_for_those_of_spaces_and_come_back() {
    const PAGES: usize = 512;
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let bytes: Vec<u8> = (0..PAGES * PAGE).map(|at| content(at / PAGE)).collect();
    std::fs::write(&path, bytes).unwrap();
    let cache = Cache::builder().capacity(3 << 20).build().unwrap();
    let file = cache.open(&path).unwrap();
    check(&file, PAGES);
    let spaces = Spaces::from_source(cache.frames());
    let space = spaces.space().unwrap();
    let area = space.map((400 * PAGE) as u64, Policy::Local).unwrap();
    for (nr, addr) in area.clone().step_by(PAGE).enumerate() {
        space.write(addr, &[nr as u8; PAGE]).unwrap();
    }
    assert!(cache.stats().nr_evictions > 0);
    let fork = space.fork().unwrap();
    check(&file, PAGES);
    for (nr, addr) in area.clone().step_by(PAGE).enumerate() {
        let mut buf = [0; PAGE];
        fork.read(addr, &mut buf).unwrap();
        assert!(buf.iter().all(|byte| *byte == nr as u8));
    }
    spaces.verify(&[&space, &fork]).unwrap();
    drop((space, fork));
    check(&file, PAGES);
}

#[test]
fn a_space_that_wants_more_than_there_is_gets_an_error_and_files_go_on() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    std::fs::write(&path, vec![content(0); PAGE]).unwrap();
    let cache = Cache::builder().capacity(1 << 20).build().unwrap();
    let file = cache.open(&path).unwrap();
    check(&file, 1);
    let space = Spaces::from_source(cache.frames()).space().unwrap();
    let area = space.map(4 << 20, Policy::Local).unwrap();
    let result = area
        .clone()
        .step_by(PAGE)
        .try_for_each(|addr| space.write(addr, &[1; PAGE]));
    assert_eq!(result.unwrap_err().kind(), ErrorKind::OutOfFrames);
    space.unmap(area).unwrap();
    check(&file, 1);
}
