//! Tries: what hits is done, and what does not says nothing, and does nothing.

use std::sync::Arc;

use pagewell::io::MemoryBackend;
use pagewell::{Cache, File, OpenOptions, Torn, View};

const PAGE: usize = 4096;

fn open(bytes: Vec<u8>) -> (Cache, File) {
    let cache = Cache::builder().capacity(4 << 20).build().unwrap();
    let storage = Arc::new(MemoryBackend::writable(bytes));
    let file = cache
        .open_backend_with(storage, "tried", &OpenOptions::new().write())
        .unwrap();
    (cache, file)
}

fn place(view: &View<'_>) -> Result<(usize, u8), Torn> {
    Ok((view.len(), view.u8(view.len() - 1)?))
}

/// Reads page `page` until it is one that hits.
fn warm(file: &File, page: u64) {
    for _ in 0..10 {
        let mut byte = [0];
        file.read_at(&mut byte, page * PAGE as u64).unwrap();
        if file.try_read_at(&mut byte, page * PAGE as u64) {
            return;
        }
    }
    panic!("a page that is read again and again does not hit");
}

#[test]
fn a_try_that_misses_reads_nothing_in() {
    let (cache, file) = open(vec![7; 2 * PAGE]);
    let mut buf = [0; 8];
    assert!(!file.try_read_at(&mut buf, 0));
    assert!(file.try_view(0, place).is_none());
    assert!(file.try_pin(0).is_none());
    assert_eq!(cache.stats().nr_fills, 0);
}

#[test]
fn a_try_that_hits_gives_what_the_call_gives() {
    let mut bytes = vec![7; PAGE + 100];
    bytes[PAGE + 99] = 9;
    let (_cache, file) = open(bytes);
    warm(&file, 0);
    warm(&file, 1);
    let mut buf = [0; 64];
    assert!(file.try_read_at(&mut buf, 100));
    assert_eq!(buf, [7; 64]);
    assert_eq!(file.try_view(0, place), Some((PAGE, 7)));
    // Cut at the end of the file.
    assert_eq!(file.try_view(1, place), Some((100, 9)));
    assert_eq!(file.view(1, place).unwrap(), (100, 9));

    let token = file.try_view(1, |view| Ok(view.token())).unwrap();
    assert!(file.is_unchanged(&token));
    file.write_at(&[8], PAGE as u64 + 99).unwrap();
    assert!(!file.is_unchanged(&token));
    warm(&file, 1);
    assert_eq!(file.try_view(1, place), Some((100, 8)));
}

#[test]
fn what_is_no_hit_is_none() {
    let (_cache, file) = open(vec![7; PAGE + 100]);
    warm(&file, 0);
    warm(&file, 1);
    let mut buf = [0; 65];
    // Longer than a short read; of two pages; past the end.
    assert!(!file.try_read_at(&mut buf, 0));
    assert!(!file.try_read_at(&mut buf[..2], PAGE as u64 - 1));
    assert!(!file.try_read_at(&mut buf[..2], PAGE as u64 + 99));
    for page in [2, 1 << 20, u64::MAX >> 12, u64::MAX] {
        assert!(file.try_view(page, place).is_none(), "{page}");
        assert!(file.try_pin(page).is_none(), "{page}");
    }
    for pos in [2 * PAGE as u64, i64::MAX as u64, u64::MAX - 1, u64::MAX] {
        assert!(!file.try_read_at(&mut buf[..1], pos), "{pos}");
    }
    // A look that leaves the page has no answer, and is not repeated.
    let mut nr = 0;
    let answer = file.try_view(1, |view| {
        nr += 1;
        view.u8(100)
    });
    assert!(answer.is_none());
    assert_eq!(nr, 1);
}
