//! The memory of caches that pins outlive. Apart from other tests, since it looks at the memory of all of the process.

use std::path::Path;
use std::thread;

use pagewell::{Cache, HugePages, Nodes, OwnedPageGuard};

const PAGE: usize = 4096;
const NR_PAGES: usize = 2048;

/// How much memory of this process is in use.
fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<usize>().unwrap() << 10
}

fn is_whole(guard: &OwnedPageGuard) -> bool {
    guard.len() == PAGE && guard.iter().all(|byte| *byte == 0)
}

/// A cache whose frames are in use, of which nothing is left but pins: two that are announced, where the system has those, and one that is counted.
fn left(path: &Path) -> Vec<OwnedPageGuard> {
    let builder = Cache::builder()
        .capacity(2 * (NR_PAGES * PAGE) as u64)
        .nodes(Nodes::Unbound(1))
        .huge_pages(HugePages::Never);
    let cache = builder.build().unwrap();
    let file = cache.open(path).unwrap();
    let mut buf = [1; PAGE];
    for page in 0..NR_PAGES {
        file.read_at(&mut buf, (page * PAGE) as u64).unwrap();
    }
    for _ in 0..100 {
        drop(file.pin_owned(5).unwrap());
    }
    vec![
        file.pin_owned(5).unwrap(),
        file.pin_owned(5).unwrap(),
        file.pin_owned_counted(6).unwrap(),
    ]
}

#[test]
#[ignore = "resident memory, which huge pages and the allocator change; .ci/nightly"]
fn a_cache_that_pins_outlive_is_freed_when_the_last_of_them_goes() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("holes");
    let holes = std::fs::File::create(&path).unwrap();
    holes.set_len((NR_PAGES * PAGE) as u64).unwrap();
    drop(left(&path));
    let before = resident_bytes();
    let mut older: Vec<OwnedPageGuard> = Vec::new();
    for round in 0..30 {
        // Two caches are in memory, and then one.
        let newer = left(&path);
        assert!(older.iter().chain(&newer).all(is_whole));
        let mut guards = std::mem::replace(&mut older, newer);
        if !guards.is_empty() {
            // Each of them is the last now and then, here or elsewhere.
            guards.rotate_left(round % 3);
        }
        if round % 2 == 0 {
            drop(guards);
        } else {
            thread::spawn(move || drop(guards)).join().unwrap();
        }
    }
    let with_one = resident_bytes().saturating_sub(before);
    drop(older);
    let with_none = resident_bytes().saturating_sub(before);
    let of_one = NR_PAGES * PAGE;
    assert!(with_one < 3 * of_one, "{with_one} bytes more than before");
    assert!(with_none < 2 * of_one, "{with_none} bytes more than before");
}
