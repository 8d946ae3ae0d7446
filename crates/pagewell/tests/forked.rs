//! A child made by `fork` gets errors, and changes nothing of its parent's. Apart from other tests, since a child keeps
//! their files open, and locked, while it runs.

use std::sync::atomic::{AtomicBool, Ordering};

use pagewell::{Cache, Error, ErrorKind, OpenOptions, Writeback};
use pagewell_testkit::content;

use support::{PAGE, assert_all_free, cache};

mod support;

/// Runs `body` in a child made by `fork`; whether it returned.
fn in_child(body: impl FnOnce()) -> bool {
    let status = pagewell_testkit::in_child(|| {
        body();
        0
    });
    status == 0
}

#[track_caller]
fn is_forked<T>(result: Result<T, Error>) {
    match result {
        Err(error) => assert_eq!(error.kind(), ErrorKind::Forked, "{error}"),
        Ok(_) => panic!("this was to fail in a child"),
    }
}

#[test]
fn a_child_gets_errors_and_changes_nothing() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let expected = content(1, 3 * PAGE);
    std::fs::write(&path, &expected).unwrap();
    let cache = cache(64);
    let options = OpenOptions::new().write().writeback(Writeback::Manual);
    let file = cache.open_with(&path, &options).unwrap();
    let pin = file.pin_owned(0).unwrap();
    file.write_at(b"dirty", 100).unwrap();
    let other = file.clone();
    let locked = other.pin_mut(1).unwrap();

    // A hit: it is marked as used by the first read, and read without a lock by the second.
    let mut buf = [0; 5];
    for _ in 0..2 {
        file.read_at(&mut buf, 100).unwrap();
    }
    assert!(in_child(|| {
        let mut buf = [0; 5];
        assert_eq!(file.read_at(&mut buf, 100).unwrap(), 5);
        assert_eq!(&buf, b"dirty");
        is_forked(file.read_at(&mut buf, 2 * PAGE as u64));
        is_forked(file.read_at_referenced(&mut buf, 0));
        is_forked(file.pin(0).map(drop));
        is_forked(file.pin_owned(2).map(drop));
        is_forked(file.write_at(b"child", 0));
        is_forked(file.write_at_lsn(b"child", 0, 1));
        is_forked(file.append(b"child"));
        is_forked(file.pin_mut(0).map(drop));
        is_forked(file.set_size(0));
        is_forked(file.discard(0..u64::MAX));
        is_forked(file.flush(0..u64::MAX));
        is_forked(file.sync_data());
        is_forked(file.sync_all());
        is_forked(file.refresh());
        file.invalidate(0..u64::MAX);
        is_forked(cache.open(&path));
        is_forked(cache.open_with(&path, &options));
        assert_eq!(cache.reclaim(100), 0);
        let _ = format!("{cache:?} {file:?}");
        is_forked(file.clone().close().map_err(|(_, error)| error));
        // A guard is dropped as it is everywhere: what it would change is a copy.
        drop(locked);
        drop(pin);
        // The last handles.
        drop(file);
        drop(cache);
    }));
    // Nothing has reached the file.
    assert_eq!(std::fs::read(&path).unwrap(), expected);
}

/// Pins that borrow nothing, announced and counted, of pages that are replaced: in the child they have their bytes to the end, wherever they are
/// dropped, and the parent has lost nothing.
#[test]
fn a_child_gives_back_nothing_of_owned_pins() {
    let cache = cache(64);
    let backend = pagewell::io::MemoryBackend::writable(vec![7; 2 * PAGE]);
    let options = OpenOptions::new().write().writeback(Writeback::Manual);
    let file = cache
        .open_backend_with(backend, "memory", &options)
        .unwrap();
    for _ in 0..100 {
        drop(file.pin_owned(0).unwrap());
    }
    let pins = [0; 3].map(|page| file.pin_owned(page).unwrap());
    let counted = file.pin_owned_counted(1).unwrap();
    // So that their ends are waited for.
    file.write_at(&[1; PAGE], 0).unwrap();
    cache.frames().pool().look_at_announced();
    assert!(in_child(|| {
        let [first, second, third] = pins;
        drop(first);
        drop(file);
        drop(cache);
        assert!(second.iter().all(|byte| *byte == 7));
        drop(second);
        std::thread::spawn(move || {
            assert!(third.iter().all(|byte| *byte == 7));
            drop(third);
        })
        .join()
        .unwrap();
        assert!(counted.iter().all(|byte| *byte == 7));
        drop(counted);
    }));
}

#[test]
fn a_cache_that_the_child_makes_is_its_own() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let parents = cache(64);
    assert!(in_child(|| {
        let cache: Cache = cache(64);
        let options = OpenOptions::new().create().writeback(Writeback::Manual);
        let file = cache.open_with(&path, &options).unwrap();
        file.append(b"child").unwrap();
        file.sync_data().unwrap();
        drop(file);
        assert_all_free(&cache);
    }));
    let file = parents.open(&path).unwrap();
    let mut buf = [0; 5];
    file.read_at(&mut buf, 0).unwrap();
    assert_eq!(&buf, b"child");
}

/// Threads come and go, and make and drop caches, while children are made that do the same.
#[test]
fn a_child_finds_no_lock_that_another_thread_has_taken() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    std::fs::write(&path, content(1, PAGE)).unwrap();
    let is_over = AtomicBool::new(false);
    let make_and_read = || {
        let cache = cache(16);
        let file = cache.open(&path).unwrap();
        let mut buf = [0; 100];
        file.read_at(&mut buf, 0).unwrap();
        assert_eq!(buf[..], content(1, PAGE)[..100]);
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    // A thread of its own, which takes a number and gives it back.
                    std::thread::scope(|scope| scope.spawn(make_and_read).join().unwrap());
                }
            });
        }
        let children_end = (0..50).all(|_| in_child(make_and_read));
        is_over.store(true, Ordering::Relaxed);
        assert!(children_end);
    });
}
