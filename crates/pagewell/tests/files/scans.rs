//! Scans: files that are read once, from one end to the other, leave in the cache what is used again and again.

use pagewell::io::MemoryBackend;
use pagewell::{Cache, File};

const PAGE: u64 = 4096;
const FRAMES: u64 = 2048;
/// Pages that are used again and again: half of the cache.
const HOT: u64 = FRAMES / 2;
/// Pages of the file that is scanned: four times the cache.
const SCANNED: u64 = 4 * FRAMES;

fn cache() -> Cache {
    Cache::builder().capacity(FRAMES * PAGE).build().unwrap()
}

fn open(cache: &Cache, name: &str, pages: u64) -> File {
    let backend = MemoryBackend::new(vec![7; (pages * PAGE) as usize]);
    cache.open_backend(backend, name).unwrap()
}

/// Uses each hot page once; returns how many were in the cache. In no order, so that nothing is read ahead.
fn use_hot(cache: &Cache, hot: &File) -> u64 {
    let before = cache.stats().nr_fills;
    for nr in 0..HOT {
        // Odd, so each page has its turn.
        let page = nr * 389 % HOT;
        hot.read_at(&mut [0; 64], page * PAGE).unwrap();
    }
    HOT - (cache.stats().nr_fills - before)
}

/// Has hot pages, scans a file by reads of `block` bytes from its begin to its end, and says how many hot pages are there then.
fn left_after_a_scan(block: usize) -> u64 {
    let cache = cache();
    let hot = open(&cache, "hot", HOT);
    for _ in 0..6 {
        use_hot(&cache, &hot);
    }
    let scanned = open(&cache, "scanned", SCANNED);
    let mut buf = vec![0; block];
    for pos in (0..SCANNED * PAGE).step_by(block) {
        assert_ne!(scanned.read_at(&mut buf, pos).unwrap(), 0);
    }
    assert!(
        cache.stats().nr_evictions > 2 * FRAMES,
        "the scan does not fit"
    );
    use_hot(&cache, &hot)
}

/// Whole pages, some at once, and pieces of pages, each of which marks its page again: what is read is read ahead in all of them.
#[test]
fn a_scan_leaves_what_is_used_again_and_again() {
    for block in [512, 4096, 3 * 4096, 64 << 10, 1 << 20] {
        let left = left_after_a_scan(block);
        assert!(left * 10 >= HOT * 9, "{left} of {HOT} pages, {block} bytes");
    }
}

/// Scan after scan, while the hot pages are in use: as programs have it.
#[test]
fn scans_beside_what_is_used_leave_it_there() {
    let cache = cache();
    let hot = open(&cache, "hot", HOT);
    for _ in 0..6 {
        use_hot(&cache, &hot);
    }
    let scanned = open(&cache, "scanned", SCANNED);
    let mut buf = vec![0; 16 << 10];
    let mut found = 0;
    const TIMES: u64 = 16;
    for time in 0..TIMES {
        let share = SCANNED / TIMES * PAGE;
        for pos in (time * share..(time + 1) * share).step_by(buf.len()) {
            assert_eq!(scanned.read_at(&mut buf, pos).unwrap(), buf.len());
        }
        found += use_hot(&cache, &hot);
    }
    assert!(found * 10 >= TIMES * HOT * 9, "{found} of {}", TIMES * HOT);
}
