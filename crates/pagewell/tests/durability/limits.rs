//! Everything dirty at the memory limit: writers wait for the storage, and nothing fails while that works; if it does
//! not, that is a clear error, and nothing is lost once it works again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pagewell::io::{Fault, Operation};
use pagewell::{ErrorKind, OpenOptions};
use pagewell_testkit::content;
use pagewell_testkit::wait::bounded_by;

use crate::storage::{EIO, ENOSPC, contents, errno, manual, open_scripted, stored};
use crate::support::{PAGE, assert_all_free, cache, cache_without_stalls};

/// Frames of the caches here.
const FRAMES: u64 = 96;

fn background() -> OpenOptions {
    OpenOptions::new().write()
}

#[test]
fn writers_wait_for_a_storage_that_works() {
    bounded_by(Duration::from_secs(60), "writers at the limit", || {
        const PAGES: u64 = 300;
        let cache = cache_without_stalls(FRAMES);
        let files: Vec<_> = (0..3)
            .map(|_| open_scripted(&cache, &[], &background()))
            .collect();
        std::thread::scope(|scope| {
            for (writer, (file, _, _)) in files.iter().enumerate() {
                scope.spawn(move || {
                    for page in 0..PAGES {
                        let bytes = content(writer as u64 * PAGES + page, PAGE);
                        // In order and in reverse, at the end and beyond it.
                        if page < PAGES / 2 {
                            file.append(&bytes).unwrap();
                        } else {
                            let page = PAGES + PAGES / 2 - 1 - page;
                            assert_eq!(file.write_at(&bytes, page * PAGE as u64).unwrap(), PAGE);
                        }
                        // Reads find frames too.
                        let mut buf = [0; 16];
                        let n = file.read_at(&mut buf, page / 3 * PAGE as u64).unwrap();
                        assert_eq!(n, 16);
                    }
                });
            }
        });
        for (writer, (file, backend, _)) in files.iter().enumerate() {
            file.sync_data().unwrap();
            let stored = stored(Arc::clone(backend));
            assert_eq!(stored.len() as u64, PAGES * PAGE as u64);
            for (at, bytes) in (0..).zip(stored.chunks(PAGE)) {
                let page = if at < PAGES / 2 {
                    at
                } else {
                    PAGES + PAGES / 2 - 1 - at
                };
                assert!(
                    bytes == content(writer as u64 * PAGES + page, PAGE),
                    "page {at}"
                );
            }
        }
        drop(files);
        settle(&cache);
    });
}

/// The thread that writes back may have a share of a file for a moment yet.
fn settle(cache: &pagewell::Cache) {
    pagewell_testkit::wait::until("all frames are free", || {
        let stats = cache.stats();
        stats.nr_free == stats.nr_frames
    });
    assert_all_free(cache);
}

#[test]
fn a_storage_that_fails_is_an_error_and_loses_nothing() {
    bounded_by(Duration::from_secs(60), "a storage that fails", || {
        for errno_of_storage in [EIO, ENOSPC] {
            for is_sync in [true, false] {
                let cache = cache(FRAMES);
                let (file, backend, script) = open_scripted(&cache, &[], &background());
                script.set(move |operation| match operation {
                    Operation::SyncData if is_sync => Fault::Fail(errno(errno_of_storage)),
                    Operation::Write { .. } if !is_sync => Fault::Fail(errno(errno_of_storage)),
                    _ => Fault::None,
                });
                let mut expected = Vec::new();
                let error = loop {
                    let bytes = content(expected.len() as u64, PAGE);
                    match file.append(&bytes) {
                        Ok(_) => expected.extend(bytes),
                        Err(error) => break error,
                    }
                    assert!(expected.len() < FRAMES as usize * PAGE);
                };
                // The file's share of what may be dirty.
                assert!(expected.len() >= FRAMES as usize / 4 * PAGE);
                // That it is used up, and why.
                assert_eq!(error.kind(), ErrorKind::Throttled, "{error}");
                let mut why: &dyn std::error::Error = &error;
                while let Some(source) = why.source() {
                    why = source;
                }
                let errno = format!("os error {errno_of_storage}");
                assert!(why.to_string().contains(&errno), "{why}");
                // All is still there, and a sync says what is wrong.
                assert_eq!(contents(&file), expected);
                assert_eq!(file.sync_data().unwrap_err().kind(), ErrorKind::Io);
                script.heal();
                let bytes = content(1, 3 * PAGE);
                file.append(&bytes).expect("the storage works again");
                expected.extend(bytes);
                // What the background has met meanwhile is told once.
                let _ = file.sync_data();
                file.sync_data().unwrap();
                assert_eq!(stored(backend), expected);
            }
        }
    });
}

/// Dirty pages of one frame were in every place for a large page: though fewer were dirty than may be, there was no
/// room for it, and that was an error. Now they are made clean first.
#[test]
fn large_pages_find_room_among_small_dirty_ones() {
    bounded_by(Duration::from_secs(60), "large pages", || {
        let cache = cache_without_stalls(128);
        let small = open_scripted(&cache, &[1; 120 * PAGE], &background()).0;
        let options = background().page_size(16 * PAGE);
        let large = open_scripted(&cache, &[2; 64 * PAGE], &options).0;
        for round in 0..10 {
            for page in (0..120).step_by(4) {
                let mut buf = [0; 4 * PAGE];
                small.read_at(&mut buf, page * PAGE as u64).unwrap();
                small.write_at(&[round; 10], page * PAGE as u64).unwrap();
            }
            let mut buf = [0; 10];
            let page = u64::from(round) % 4 * 16 * PAGE as u64;
            assert_eq!(large.write_at(&[3; 10], page).unwrap(), 10);
            assert_eq!(
                large
                    .read_at(&mut buf, (page + 16 * PAGE as u64) % (64 * PAGE as u64))
                    .unwrap(),
                10
            );
        }
    });
}

#[test]
fn what_is_not_written_back_by_itself_fills_the_files_share_and_that_is_an_error() {
    let cache = cache(FRAMES);
    let (file, backend, _) = open_scripted(&cache, &[], &manual());
    let mut expected = Vec::new();
    loop {
        let bytes = content(expected.len() as u64, PAGE);
        match file.append(&bytes) {
            Ok(_) => expected.extend(bytes),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Throttled, "{error}");
                break;
            }
        }
    }
    assert_eq!(contents(&file), expected);
    file.sync_data().unwrap();
    file.append(b"room").unwrap();
    expected.extend(b"room");
    file.sync_data().unwrap();
    assert_eq!(contents(&file), expected);
    assert_eq!(stored(backend), expected);
}

#[test]
fn a_write_larger_than_the_cache_is_done_in_parts() {
    let cache = cache(FRAMES);
    let (file, backend, _) = open_scripted(&cache, &[1; 100], &background());
    let bytes = content(1, 3 * FRAMES as usize * PAGE + 77);
    assert_eq!(file.write_at(&bytes, 50).unwrap(), bytes.len());
    // Of all or nothing there is nothing.
    let error = file.append(&bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfFrames, "{error}");
    file.sync_data().unwrap();
    let mut expected = vec![1; 50];
    expected.extend(&bytes);
    assert_eq!(contents(&file), expected);
    assert_eq!(
        file.write_at(&bytes, 7).unwrap(),
        bytes.len(),
        "within the file"
    );
    expected[7..7 + bytes.len()].copy_from_slice(&bytes);
    file.sync_data().unwrap();
    assert_eq!(stored(backend), expected);
}

/// An append that was larger than the cache evicted all pages of all files, had everything written back and synced, twice, and
/// failed then. Whether it can fit is known before.
#[test]
fn an_append_that_cannot_fit_is_refused_before_anything_is_done_for_it() {
    let cache = cache(FRAMES);
    let bytes = content(3, 60 * PAGE);
    let reader = open_scripted(&cache, &bytes, &OpenOptions::new()).0;
    assert_eq!(contents(&reader), bytes);
    // No thread of the cache writes it meanwhile.
    let (file, backend, script) = open_scripted(&cache, &[1; 100], &manual());
    file.write_at(b"dirty", 0).unwrap();
    let nr_calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&nr_calls);
    script.set(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Fault::None
    });
    // The page with the end counts.
    let most = FRAMES as usize / 4 * PAGE - 100;
    let evicted = cache.stats().nr_evictions;
    for len in [10 * FRAMES as usize * PAGE, most + 1] {
        let error = file.append(&vec![2; len]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfFrames, "{error}");
        let text = error.to_string();
        assert!(text.contains(&format!("{len} bytes")), "{text}");
        assert!(text.contains(&format!("{most} bytes")), "{text}");
    }
    assert_eq!(cache.stats().nr_evictions, evicted);
    assert_eq!(nr_calls.load(Ordering::Relaxed), 0, "calls of the storage");
    assert_eq!(file.size(), 100);
    // One that just fits is done.
    assert_eq!(file.append(&vec![2; most]).unwrap().start, 100);
    file.sync_data().unwrap();
    let mut expected = vec![1; 100];
    expected[..5].copy_from_slice(b"dirty");
    expected.extend(vec![2; most]);
    assert_eq!(stored(backend), expected);
}
