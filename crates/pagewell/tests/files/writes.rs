//! Writing through the cache: what readers see, and what reaches the file.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pagewell::{Cache, ErrorKind, OpenOptions, Writeback};
use pagewell_testkit::wait::{bounded, not_yet};

use crate::support;

const PAGE: usize = 4096;

fn cache() -> Cache {
    support::cache(1024)
}

fn manual() -> OpenOptions {
    OpenOptions::new().create().writeback(Writeback::Manual)
}

fn read_all(file: &pagewell::File, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let n = file.read_at(&mut bytes, 0).expect("readable");
    bytes.truncate(n);
    bytes
}

#[test]
fn what_is_written_is_read_at_once_and_is_in_the_file_after_a_flush() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let cache = cache();
    let file = cache.open_with(&path, &manual()).unwrap();
    assert_eq!(file.write_at(b"hello", 10_000).unwrap(), 5);
    assert_eq!(file.size(), 10_005);
    let mut expected = vec![0; 10_005];
    expected[10_000..].copy_from_slice(b"hello");
    assert_eq!(read_all(&file, 20_000), expected);
    assert_eq!(file.flush(0..u64::MAX).unwrap(), 1);
    assert_eq!(fs::read(&path).unwrap(), expected);
    assert_eq!(
        file.flush(0..u64::MAX).unwrap(),
        0,
        "nothing is dirty any more"
    );

    // A part of a page that is there, a part of one that is not, and across pages.
    let pattern: Vec<u8> = (0..3 * PAGE).map(|i| i as u8 | 1).collect();
    for offset in [0, 1, 4095, 5000, 9000] {
        file.write_at(&pattern, offset).unwrap();
        let end = offset as usize + pattern.len();
        expected.resize(expected.len().max(end), 0);
        expected[offset as usize..end].copy_from_slice(&pattern);
        assert_eq!(read_all(&file, 50_000), expected);
    }
    file.sync_all().unwrap();
    assert_eq!(fs::read(&path).unwrap(), expected);
    cache.reclaim(usize::MAX);
    assert_eq!(read_all(&file, 50_000), expected);
    drop(file);
    cache.verify().unwrap();
}

#[test]
fn a_dirty_page_is_not_evicted_and_a_synced_one_is() {
    let dir = pagewell_testkit::scratch::dir();
    let cache = cache();
    let file = cache.open_with(dir.path().join("file"), &manual()).unwrap();
    file.write_at(&[7; 2 * PAGE], 0).unwrap();
    assert_eq!(cache.reclaim(usize::MAX), 0);
    file.flush(0..u64::MAX).unwrap();
    assert_eq!(
        cache.reclaim(usize::MAX),
        0,
        "written, and not known to be durable"
    );
    file.sync_data().unwrap();
    assert_eq!(cache.reclaim(usize::MAX), 2);
    assert_eq!(read_all(&file, 3 * PAGE), [7; 2 * PAGE]);
}

#[test]
fn a_pin_keeps_its_bytes_while_the_page_is_written() {
    let dir = pagewell_testkit::scratch::dir();
    let cache = cache();
    let file = cache.open_with(dir.path().join("file"), &manual()).unwrap();
    file.append(&[1; PAGE]).unwrap();
    let pin = file.pin(0).unwrap();
    file.write_at(&[2; 100], 50).unwrap();
    assert!(pin.iter().all(|b| *b == 1));
    let now = read_all(&file, PAGE);
    assert!(now[50..150].iter().all(|b| *b == 2) && now[..50].iter().all(|b| *b == 1));
    drop(pin);
    let mut page = file.pin_mut(0).unwrap();
    page[0] = 9;
    assert_eq!(read_all(&file, 1), [1], "not before the guard is dropped");
    drop(page);
    assert_eq!(read_all(&file, 1), [9]);
}

#[test]
fn sizes_grow_and_shrink_and_what_was_cut_off_is_zeros_later() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let cache = cache();
    let file = cache.open_with(&path, &manual()).unwrap();
    file.append(&[3; 3 * PAGE]).unwrap();
    file.set_size(100).unwrap();
    assert_eq!(read_all(&file, PAGE), [3; 100]);
    file.set_size(2 * PAGE as u64).unwrap();
    let mut expected = vec![3; 100];
    expected.resize(2 * PAGE, 0);
    assert_eq!(read_all(&file, 5 * PAGE), expected);
    file.sync_all().unwrap();
    assert_eq!(fs::read(&path).unwrap(), expected);
    file.discard(0..u64::MAX).unwrap();
    assert_eq!(read_all(&file, 5 * PAGE), expected);
}

#[test]
fn an_append_tells_where_it_is() {
    let dir = pagewell_testkit::scratch::dir();
    let file = cache()
        .open_with(dir.path().join("file"), &manual())
        .unwrap();
    assert_eq!(file.append(&[1; 100]).unwrap(), 0..100);
    assert_eq!(
        file.append_lsn(&[2; PAGE], 7).unwrap(),
        100..100 + PAGE as u64
    );
    let end = file.size();
    assert_eq!(file.append(&[]).unwrap(), end..end);
    file.write_at(&[3], end + 10).unwrap();
    assert_eq!(file.append(&[4; 5]).unwrap(), end + 11..end + 16);
    let mut last = [0; 5];
    file.read_at(&mut last, end + 11).unwrap();
    assert_eq!(last, [4; 5]);
}

#[test]
fn handles_for_reading_do_not_write() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let cache = cache();
    let file = cache.open_with(&path, &manual()).unwrap();
    file.append(b"x").unwrap();
    let reader = cache.open(&path).unwrap();
    assert_eq!(read_all(&reader, 10), b"x");
    for error in [
        reader.write_at(b"y", 0).unwrap_err(),
        reader.append(b"y").unwrap_err(),
        reader.set_size(0).unwrap_err(),
        reader.sync_all().unwrap_err(),
        reader.discard(0..1).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    }
    // Another cache, as another process, may read and not write.
    let other = self::cache();
    let error = other.open_with(&path, &manual()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    drop((file, reader));
    other.open_with(&path, &manual()).unwrap();
}

#[test]
fn more_can_be_written_than_the_cache_holds() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let cache = cache();
    let file = cache
        .open_with(&path, &OpenOptions::new().create())
        .unwrap();
    let page = |number: u32| -> Vec<u8> { number.to_le_bytes().repeat(PAGE / 4) };
    for number in 0..4096 {
        file.append(&page(number)).unwrap();
    }
    for number in (0..4096).rev() {
        let mut bytes = vec![0; PAGE];
        file.read_at(&mut bytes, u64::from(number) * PAGE as u64)
            .unwrap();
        assert_eq!(bytes, page(number));
    }
    file.close().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 16 << 20);
    cache.verify().unwrap();
}

#[test]
fn reads_within_a_page_see_all_of_a_write_or_nothing() {
    let dir = pagewell_testkit::scratch::dir();
    let cache = cache();
    let file = cache
        .open_with(dir.path().join("file"), &OpenOptions::new().create())
        .unwrap();
    file.append(&[0; PAGE]).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut buf = [0; 512];
                while !stop.load(Ordering::Relaxed) {
                    file.read_at(&mut buf, 256).unwrap();
                    assert!(buf.iter().all(|b| *b == buf[0]), "torn");
                    file.read_at_referenced(&mut buf, 256).unwrap();
                    assert!(buf.iter().all(|b| *b == buf[0]), "torn, referenced");
                    let pin = file.pin(0).unwrap();
                    let first = pin[256];
                    assert!(pin[256..768].iter().all(|b| *b == first), "torn, pinned");
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                file.flush(0..u64::MAX).unwrap();
            }
        });
        let mut writers = Vec::new();
        for writer in 1..=2_u8 {
            let file = &file;
            writers.push(scope.spawn(move || {
                for round in 0..20_000_u32 {
                    file.write_at(&[writer.wrapping_add(round as u8); 512], 256)
                        .unwrap();
                }
            }));
        }
        for writer in writers {
            writer.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    file.close().unwrap();
    cache.verify().unwrap();
}

/// A page that is pinned moves to another frame when a guard replaces it. A writer that waits for the guard waits at the record
/// of the frame that the page has left, and has to be woken there.
#[test]
fn a_writer_that_waits_for_a_page_goes_on_when_the_page_has_moved() {
    bounded("a writer that waits for a page", || {
        let dir = pagewell_testkit::scratch::dir();
        let cache = cache();
        let path = dir.path().join("file");
        let file = Arc::new(cache.open_with(&path, &manual()).unwrap());
        file.write_at(&[1; PAGE], 0).unwrap();
        let pin = file.pin(0).unwrap();
        let mut guard = file.pin_mut(0).unwrap();
        guard[0] = 2;
        let is_done = Arc::new(AtomicBool::new(false));
        let writer = std::thread::spawn({
            let (file, is_done) = (Arc::clone(&file), Arc::clone(&is_done));
            move || {
                file.write_at(&[3], 1).unwrap();
                // ORDERING: Relaxed; a test's own flag.
                is_done.store(true, Ordering::Relaxed);
            }
        });
        not_yet("a write of a page that is pinned to be changed", || {
            is_done.load(Ordering::Relaxed)
        });
        drop(guard);
        writer.join().unwrap();
        assert_eq!(pin[..2], [1, 1]);
        drop(pin);
        assert_eq!(read_all(&file, 2), [2, 3]);
    });
}
