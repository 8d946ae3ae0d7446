//! Races and failures at chosen points: a backend holds a read, or fails it, when a test says so.

use std::error::Error as _;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::thread;

use crate::support::{Hooked, PAGE, Share, UNTOUCHED, assert_all_free, cache, scripted};
use pagewell::io::{Fault, MemoryBackend};
use pagewell::{ErrorKind, File, OpenOptions};
use pagewell_testkit::content;
use pagewell_testkit::wait::{Gate, OpenAtEnd, block_on, bounded, until};

fn read(file: &File, pos: usize, len: usize) -> Vec<u8> {
    let mut buf = vec![UNTOUCHED; len];
    let n = file.read_at(&mut buf, pos as u64).expect("a good read");
    buf.truncate(n);
    buf
}

/// Whether a read that starts at `pos` and is `len` long has any byte of `page`.
fn covers(pos: u64, len: usize, page: usize) -> bool {
    let page = page as u64 * PAGE as u64;
    pos < page + PAGE as u64 && page < pos + len as u64
}

#[test]
fn concurrent_misses_of_one_page_read_it_once() {
    const READERS: usize = 8;
    bounded("concurrent misses", || {
        let gate = Arc::new(Gate::new());
        let bytes = content(1, 3 * PAGE);
        let at_gate = Arc::clone(&gate);
        let backend = scripted(&bytes, move |_, _| {
            at_gate.pass();
            Fault::None
        });
        let cache = cache(64);
        let file = cache.open_backend(backend.clone(), "gated").unwrap();
        let nr_started = AtomicUsize::new(0);
        thread::scope(|scope| {
            let _open = OpenAtEnd(&gate);
            let readers: Vec<_> = (0..READERS)
                .map(|reader| {
                    let file = file.clone();
                    let nr_started = &nr_started;
                    scope.spawn(move || {
                        nr_started.fetch_add(1, Ordering::Relaxed);
                        let mut buf = vec![0; 100];
                        match reader % 3 {
                            0 => assert_eq!(file.read_at(&mut buf, 5000).unwrap(), 100),
                            1 => assert_eq!(file.read_at_referenced(&mut buf, 5000).unwrap(), 100),
                            _ => buf.copy_from_slice(&file.pin(1).unwrap()[904..1004]),
                        }
                        buf
                    })
                })
                .collect();
            until("all readers run", || {
                nr_started.load(Ordering::Relaxed) == READERS
            });
            gate.wait_for(1);
            gate.open();
            for reader in readers {
                assert_eq!(reader.join().unwrap(), bytes[5000..5100]);
            }
        });
        assert_eq!(backend.nr_reads(), 1);
        assert_eq!(cache.stats().nr_fills, 1);
        drop(file);
        assert_all_free(&cache);
    });
}

const READERS: usize = 8;

/// Lets threads read one page. Of the backend's reads, those for which `fails` returns `true` fail,
/// and the first is held until all readers run. Returns the number of errors. Each failed read is
/// the error of a reader, and of those that wait for it, which may be all.
fn readers_of_a_failing_page(fails: fn(usize) -> bool) -> usize {
    bounded("readers of a failing page", move || {
        let gate = Arc::new(Gate::new());
        let bytes = content(2, PAGE);
        let (at_gate, nr_reads) = (Arc::clone(&gate), AtomicUsize::new(0));
        let backend = scripted(&bytes, move |_, _| {
            let nr = nr_reads.fetch_add(1, Ordering::Relaxed);
            at_gate.pass();
            if fails(nr) {
                Fault::Fail(io::Error::other("made to fail"))
            } else {
                Fault::None
            }
        });
        let cache = cache(64);
        let file = cache.open_backend(backend.clone(), "failing").unwrap();
        let nr_started = AtomicUsize::new(0);
        let nr_errors = thread::scope(|scope| {
            let _open = OpenAtEnd(&gate);
            let readers: Vec<_> = (0..READERS)
                .map(|_| {
                    scope.spawn(|| {
                        nr_started.fetch_add(1, Ordering::Relaxed);
                        let mut buf = vec![0; PAGE];
                        match file.read_at(&mut buf, 0) {
                            Ok(n) => {
                                assert_eq!(buf[..n], bytes);
                                0
                            }
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::Io);
                                assert_eq!(buf, [0; PAGE], "no bytes of a page that failed");
                                1
                            }
                        }
                    })
                })
                .collect();
            until("all readers run", || {
                nr_started.load(Ordering::Relaxed) == READERS
            });
            gate.wait_for(1);
            gate.open();
            readers.into_iter().map(|r| r.join().unwrap()).sum()
        });
        let nr_failed = cache.stats().nr_failed_fills;
        assert!((1..=nr_errors as u64).contains(&nr_failed));
        let is_read = u64::from(nr_errors < READERS);
        assert_eq!(backend.nr_reads(), nr_failed + is_read);
        drop(file);
        assert_all_free(&cache);
        nr_errors
    })
}

/// Each of several rounds of readers waits for one read of the page. All reads but the last fail.
#[test]
fn a_failed_fill_fails_its_reader_and_those_that_wait_for_it() {
    const ROUNDS: usize = 4;
    bounded("rounds of readers", || {
        let gates = [(); ROUNDS].map(|()| Arc::new(Gate::new()));
        let bytes = content(2, PAGE);
        let (at_gates, nr_reads) = (gates.clone(), AtomicUsize::new(0));
        let backend = scripted(&bytes, move |_, _| {
            let nr = nr_reads.fetch_add(1, Ordering::Relaxed);
            at_gates[nr].pass();
            if nr + 1 < ROUNDS {
                Fault::Fail(io::Error::other("made to fail"))
            } else {
                Fault::None
            }
        });
        let cache = cache(64);
        let file = cache.open_backend(backend.clone(), "failing").unwrap();
        let _open = gates.each_ref().map(|gate| OpenAtEnd(gate));
        for (round, gate) in gates.iter().enumerate() {
            let mut readers = [(); READERS].map(|()| file.read_at_async(vec![UNTOUCHED; PAGE], 0));
            for reader in &mut readers {
                let mut context = Context::from_waker(Waker::noop());
                assert!(Pin::new(reader).poll(&mut context).is_pending());
            }
            gate.wait_for(1);
            gate.open();
            for reader in readers {
                let (buf, result) = block_on(reader);
                if round + 1 < ROUNDS {
                    assert_eq!(result.unwrap_err().kind(), ErrorKind::Io);
                    assert_eq!(buf, [0; PAGE], "no bytes of a page that failed");
                } else {
                    assert_eq!((result.unwrap(), &buf), (PAGE, &bytes));
                }
            }
            assert_eq!(backend.nr_reads(), round as u64 + 1);
        }
        assert_eq!(cache.stats().nr_failed_fills, ROUNDS as u64 - 1);
    });
}

#[test]
fn every_reader_gets_an_error_when_every_fill_fails() {
    assert_eq!(readers_of_a_failing_page(|_| true), READERS);
}

#[test]
fn a_reader_beside_a_failed_fill_gets_its_error_or_the_bytes() {
    readers_of_a_failing_page(|nr| nr == 0);
    readers_of_a_failing_page(|nr| nr < 3);
}

#[test]
fn a_backend_that_panics_takes_down_its_caller_alone() {
    bounded("a panicking backend", || {
        let gate = Arc::new(Gate::new());
        let bytes = content(3, 2 * PAGE);
        let (at_gate, is_first) = (Arc::clone(&gate), AtomicBool::new(true));
        let backend = scripted(&bytes, move |_, _| {
            at_gate.pass();
            assert!(
                !is_first.swap(false, Ordering::Relaxed),
                "the backend panics, as it was told to"
            );
            Fault::None
        });
        let cache = cache(16);
        let file = cache.open_backend(backend, "panicking").unwrap();
        let nr_started = AtomicUsize::new(0);
        let nr_panics = thread::scope(|scope| {
            let _open = OpenAtEnd(&gate);
            let readers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        nr_started.fetch_add(1, Ordering::Relaxed);
                        assert_eq!(read(&file, 10, 5000), bytes[10..5010]);
                    })
                })
                .collect();
            until("all readers run", || {
                nr_started.load(Ordering::Relaxed) == 4
            });
            gate.wait_for(1);
            gate.open();
            readers.into_iter().filter_map(|r| r.join().err()).count()
        });
        assert_eq!(nr_panics, 1);
        assert_eq!(read(&file, 0, 3 * PAGE), bytes);
        drop(file);
        assert_all_free(&cache);
    });
}

#[test]
fn an_error_in_the_middle_of_a_read_returns_what_came_before_and_then_itself() {
    let bytes = content(4, 5 * PAGE);
    let is_broken = Arc::new(AtomicBool::new(true));
    let broken = Arc::clone(&is_broken);
    let backend = scripted(&bytes, move |pos, len| {
        if broken.load(Ordering::Relaxed) && covers(pos, len, 2) {
            Fault::Fail(io::Error::other("a bad sector"))
        } else {
            Fault::None
        }
    });
    let cache = cache(64);
    let file = cache.open_backend(backend, "bad sector").unwrap();
    for _ in 0..2 {
        let mut buf = vec![UNTOUCHED; 5 * PAGE];
        let n = file.read_at(&mut buf, 100).unwrap();
        assert_eq!(n, 2 * PAGE - 100, "up to the bad page");
        assert_eq!(buf[..n], bytes[100..2 * PAGE]);
        assert!(buf[n..].iter().all(|&b| b == UNTOUCHED || b == 0));

        let error = file.read_at(&mut buf, 2 * PAGE as u64).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert_eq!(file.pin(2).unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(read(&file, 3 * PAGE, 2 * PAGE), bytes[3 * PAGE..]);
    }
    is_broken.store(false, Ordering::Relaxed);
    assert_eq!(read(&file, 0, 5 * PAGE), bytes);
    drop(file);
    assert_all_free(&cache);
}

#[test]
fn an_unreadable_page_does_not_make_its_neighbours_unreadable() {
    let bytes = content(5, 32 * PAGE);
    let backend = scripted(&bytes, |pos, len| {
        if covers(pos, len, 6) {
            Fault::Fail(io::Error::other("a bad sector"))
        } else {
            Fault::None
        }
    });
    let cache = cache(1024);
    let file = cache.open_backend(backend, "bad sector").unwrap();
    // Page by page, so that reading ahead meets the bad page before the reader does.
    for page in 0..32 {
        let mut buf = vec![UNTOUCHED; PAGE];
        let result = file.read_at(&mut buf, (page * PAGE) as u64);
        if page == 6 {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Io);
        } else {
            assert_eq!(result.unwrap(), PAGE);
            assert_eq!(buf, bytes[page * PAGE..][..PAGE]);
        }
    }
}

#[test]
fn an_error_shows_no_foreign_bytes() {
    let secret = content(6, 64 * PAGE);
    let cache = cache(16);
    let other = cache
        .open_backend(MemoryBackend::new(secret.clone()), "secret")
        .unwrap();
    let backend = scripted(&content(7, 8 * PAGE), |_, _| {
        Fault::Fail(io::Error::other("never works"))
    });
    let file = cache.open_backend(backend, "broken").unwrap();
    for len in [1, 100, PAGE, 3 * PAGE + 5] {
        // Every frame has held the other file's bytes.
        assert_eq!(read(&other, 0, 64 * PAGE), secret);
        for pos in [0, 17, PAGE as u64 - 1] {
            let mut buf = vec![UNTOUCHED; len];
            file.read_at(&mut buf, pos).unwrap_err();
            assert!(buf.iter().all(|&b| b == UNTOUCHED || b == 0));
            let in_page = len.min(PAGE - pos as usize);
            assert!(
                buf[..in_page].iter().all(|&b| b == 0),
                "zeros where a failed page would have been"
            );
            let mut buf = vec![UNTOUCHED; len];
            file.read_at_referenced(&mut buf, pos).unwrap_err();
            assert!(buf.iter().all(|&b| b == UNTOUCHED || b == 0));
        }
    }
}

#[test]
fn an_error_of_the_storage_is_kept_with_kind_and_path() {
    let backend = scripted(&content(8, PAGE), |_, _| {
        Fault::Fail(io::Error::new(io::ErrorKind::TimedOut, "the array is gone"))
    });
    let file = cache(16).open_backend(backend, "on/an array").unwrap();
    let mut buf = [0; 8];
    for (error, what) in [
        (file.read_at(&mut buf, 0).unwrap_err(), "cannot read"),
        (
            file.read_at_referenced(&mut buf, 0).unwrap_err(),
            "cannot read",
        ),
        (file.pin(0).unwrap_err(), "cannot pin"),
        (file.pin_owned(0).unwrap_err(), "cannot pin"),
    ] {
        assert_eq!(error.kind(), ErrorKind::Io);
        assert_eq!(error.path(), Some(file.path()));
        let text = error.to_string();
        assert!(
            text.contains(what) && text.contains("on/an array"),
            "{text}"
        );
        let source = error.source().expect("the storage's error");
        let source = source.downcast_ref::<io::Error>().expect("as it was");
        assert_eq!(source.kind(), io::ErrorKind::TimedOut);
        assert!(source.to_string().contains("the array is gone"));
    }
}

#[test]
fn a_file_found_shorter_on_a_miss_is_truncated_until_it_is_refreshed() {
    let bytes = content(9, 8 * PAGE);
    let backend = Share::new(MemoryBackend::new(bytes.clone()));
    let cache = cache(64);
    let file = cache.open_backend(backend.clone(), "shrinking").unwrap();
    assert_eq!(read(&file, 6 * PAGE, 10), bytes[6 * PAGE..][..10]);

    backend.modify(|bytes| bytes.truncate(3 * PAGE + 100));
    let mut buf = vec![UNTOUCHED; 8 * PAGE];
    let n = file.read_at(&mut buf, 0).unwrap();
    assert_eq!(n, 3 * PAGE, "the pages that are still whole");
    assert_eq!(buf[..n], bytes[..n]);
    assert!(buf[n..].iter().all(|&b| b == UNTOUCHED || b == 0));
    let error = file.read_at(&mut buf, n as u64).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Truncated);
    assert_eq!(file.pin(4).unwrap_err().kind(), ErrorKind::Truncated);
    assert_eq!(
        read(&file, 6 * PAGE, 10),
        bytes[6 * PAGE..][..10],
        "a page that was cached before is as it was"
    );

    assert_eq!(file.refresh().unwrap(), 3 * PAGE as u64 + 100);
    assert_eq!(read(&file, 0, 8 * PAGE), bytes[..3 * PAGE + 100]);
    assert_eq!(read(&file, 6 * PAGE, 10), b"");
    assert_eq!(file.pin(6).unwrap_err().kind(), ErrorKind::OutOfRange);
    drop(file);
    assert_all_free(&cache);
}

#[test]
fn when_all_pages_are_pinned_there_are_no_frames_until_one_is_unpinned() {
    for page_size in [PAGE, 16 * PAGE] {
        bounded("pins without end", move || {
            let bytes = content(10, 80 * page_size);
            let cache = cache(64);
            let options = OpenOptions::new().page_size(page_size);
            let file = cache
                .open_backend_with(MemoryBackend::new(bytes.clone()), "pinned", &options)
                .unwrap();
            let mut pins = Vec::new();
            let error = loop {
                match file.pin(pins.len() as u64) {
                    Ok(pin) => pins.push(pin),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), ErrorKind::OutOfFrames);
            assert!(error.to_string().contains("pinned"), "{error}");
            let nr_blocks = 64 * PAGE / page_size;
            assert!(
                pins.len() < nr_blocks && pins.len() >= nr_blocks - 4,
                "{}",
                pins.len()
            );
            for (page, pin) in pins.iter().enumerate() {
                assert_eq!(**pin, bytes[page * page_size..][..page_size]);
            }
            assert_eq!(
                read(&file, page_size, 100),
                bytes[page_size..][..100],
                "what is cached can be read"
            );
            let past = 70 * page_size;
            let error = file.read_at(&mut [0; 8], past as u64).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutOfFrames);

            pins.pop();
            assert_eq!(read(&file, past, page_size), bytes[past..][..page_size]);
            drop(pins);
            assert_eq!(read(&file, 0, bytes.len()), bytes);
            drop(file);
            assert_all_free(&cache);
        });
    }
}

#[test]
fn a_read_that_runs_out_of_frames_returns_what_came_before() {
    bounded("a read without frames", || {
        let bytes = content(11, 64 * PAGE);
        let cache = cache(16);
        let file = cache
            .open_backend(MemoryBackend::new(bytes.clone()), "pinned")
            .unwrap();
        // Pins every other page, as far as it goes, and leaves no frame.
        let pins: Vec<_> = (0..64).map_while(|i| file.pin(2 * i).ok()).collect();
        let mut buf = vec![UNTOUCHED; 4 * PAGE];
        let n = file.read_at(&mut buf, 0).unwrap();
        assert_eq!(n, PAGE);
        assert_eq!(buf[..n], bytes[..n]);
        assert!(buf[n..].iter().all(|&b| b == UNTOUCHED || b == 0));
        drop(pins);
        assert_eq!(read(&file, 0, 64 * PAGE), bytes);
    });
}

#[test]
fn nothing_else_waits_for_a_fill() {
    bounded("work beside a fill that hangs", || {
        let gate = Arc::new(Gate::new());
        let at_gate = Arc::clone(&gate);
        let bytes = content(12, 64 * PAGE);
        let backend = scripted(&bytes, move |pos, len| {
            if covers(pos, len, 1) {
                at_gate.pass();
            }
            Fault::None
        });
        let cache = cache(16);
        let file = cache.open_backend(backend.clone(), "slow").unwrap();
        let other = cache
            .open_backend(MemoryBackend::new(bytes.clone()), "other")
            .unwrap();
        assert_eq!(read(&file, 0, 10), bytes[..10]);
        thread::scope(|scope| {
            let _open = OpenAtEnd(&gate);
            let reader = scope.spawn(|| read(&file, PAGE, PAGE));
            gate.wait_for(1);

            for _ in 0..3 {
                // Hits and misses of the same file and of others, more than fit.
                assert_eq!(read(&file, 0, PAGE), bytes[..PAGE]);
                for page in 2..64 {
                    let start = page * PAGE;
                    assert_eq!(*file.pin(page as u64).unwrap(), bytes[start..][..PAGE]);
                }
                assert_eq!(read(&other, 0, 64 * PAGE), bytes);
            }
            cache.reclaim(usize::MAX);
            file.invalidate(2 * PAGE as u64..u64::MAX);
            file.invalidate(0..PAGE as u64);
            assert_eq!(file.refresh().unwrap(), 64 * PAGE as u64);
            let again = cache.open_backend(backend.clone(), "slow").unwrap();
            assert_eq!(read(&again, 5 * PAGE, 10), bytes[5 * PAGE..][..10]);
            drop((
                again,
                cache.open_backend(MemoryBackend::new(vec![1]), "new"),
            ));

            gate.open();
            assert_eq!(reader.join().unwrap(), bytes[PAGE..2 * PAGE]);
        });
        drop((file, other));
        assert_all_free(&cache);
    });
}

/// A fill of page 0 for `reader` has read `before` and is held; the file becomes `after`; `tell` is called,
/// and the fill goes on when that has had time to begin. Returns what the reader got, and the file.
fn change_during_a_fill(
    before: &[u8],
    after: &[u8],
    reader: Reader,
    tell: fn(&File),
) -> (Vec<u8>, File) {
    let gate = Arc::new(Gate::new());
    let nr_sizes = Arc::new(AtomicUsize::new(0));
    let (at_gate, count) = (Arc::clone(&gate), Arc::clone(&nr_sizes));
    let backend = Share::new(Hooked::new(
        before,
        move |_| at_gate.pass(),
        move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        },
    ));
    let cache = cache(64);
    let file = cache.open_backend(backend.clone(), "changing").unwrap();
    let is_told = AtomicBool::new(false);
    let seen = thread::scope(|scope| {
        let _open = OpenAtEnd(&gate);
        let reader = scope.spawn(|| reader(&file));
        gate.wait_for(1);
        backend.inner.modify(|bytes| after.clone_into(bytes));
        let teller = scope.spawn(|| {
            is_told.store(true, Ordering::Relaxed);
            tell(&file);
        });
        until("the cache is being told", || {
            is_told.load(Ordering::Relaxed)
        });
        gate.open();
        teller.join().unwrap();
        // Only from here on must nobody see what was before.
        assert_eq!(read(&file, 0, 2 * PAGE), after[..after.len().min(2 * PAGE)]);
        reader.join().unwrap()
    });
    (seen, file)
}

/// A way to get at the bytes of page 0.
type Reader = fn(&File) -> Vec<u8>;

/// Three such ways.
fn readers() -> [Reader; 3] {
    [
        |file| read(file, 0, 2 * PAGE),
        |file| file.pin(0).expect("a page 0").to_vec(),
        |file| file.pin_owned(0).expect("a page 0").to_vec(),
    ]
}

#[test]
fn a_fill_under_way_does_not_survive_an_invalidation() {
    bounded("an invalidation during a fill", || {
        let (before, after) = (content(13, PAGE), content(14, PAGE));
        for reader in readers().into_iter().cycle().take(60) {
            let (seen, file) = change_during_a_fill(&before, &after, reader, |file| {
                file.invalidate(0..1);
            });
            assert!(seen == before || seen == after);
            assert_eq!(*file.pin(0).unwrap(), after);
        }
    });
}

/// Symptom: a reader beside a growth got zeros that the file never had, and a guard showed them for as long
/// as it lived. Cause: the new size was known before the page that was cut at the old one had gone.
#[test]
fn a_fill_under_way_does_not_survive_a_growth() {
    bounded("a growth during a fill", || {
        let after = content(15, 3 * PAGE);
        let before = &after[..100];
        for reader in readers().into_iter().cycle().take(60) {
            let (seen, file) = change_during_a_fill(before, &after, reader, |file| {
                assert_eq!(file.refresh().unwrap(), 3 * PAGE as u64);
            });
            assert!(after.starts_with(&seen), "bytes that the file never had");
            assert!(seen.len() >= 100);
            assert_eq!(*file.pin(0).unwrap(), after[..PAGE]);
            assert_eq!(read(&file, 0, 4 * PAGE), after);
        }
    });
}

#[test]
fn a_fill_under_way_does_not_survive_a_cut() {
    bounded("a cut during a fill", || {
        let before = content(16, 2 * PAGE);
        let after = &before[..100];
        for reader in readers().into_iter().cycle().take(60) {
            let (seen, file) = change_during_a_fill(&before, after, reader, |file| {
                assert_eq!(file.refresh().unwrap(), 100);
            });
            assert!(before.starts_with(&seen) && seen.len() >= 100);
            assert_eq!(*file.pin(0).unwrap(), *after);
            assert_eq!(file.pin(1).unwrap_err().kind(), ErrorKind::OutOfRange);
        }
    });
}

#[test]
fn a_pinned_page_keeps_its_bytes_through_everything() {
    let first = content(17, 3 * PAGE);
    let second = content(18, 2 * PAGE);
    let backend = Share::new(MemoryBackend::new(first.clone()));
    let cache = cache(16);
    let file = cache.open_backend(backend.clone(), "changing").unwrap();
    let borrowed = file.pin(0).unwrap();
    let owned = file.pin_owned(2).unwrap();

    backend.modify(|bytes| second.clone_into(bytes));
    file.invalidate(0..u64::MAX);
    assert_eq!(file.refresh().unwrap(), 2 * PAGE as u64);
    let newer = file.pin(0).unwrap();
    assert_eq!(*newer, second[..PAGE]);
    let filler = cache
        .open_backend(MemoryBackend::new(content(19, 64 * PAGE)), "filler")
        .unwrap();
    for _ in 0..3 {
        read(&filler, 0, 64 * PAGE);
        cache.reclaim(usize::MAX);
    }
    assert_eq!(*borrowed, first[..PAGE]);
    assert_eq!(*owned, first[2 * PAGE..]);
    assert_eq!(*newer, second[..PAGE]);
    drop((borrowed, newer));
    drop((file, filler));
    assert_eq!(*owned, first[2 * PAGE..], "after the last handle has gone");
    drop(owned);
    assert_all_free(&cache);
}

#[test]
fn all_handles_of_a_file_share_its_pages() {
    let dir = pagewell_testkit::scratch::dir();
    let bytes = content(20, 3 * PAGE);
    let names = ["one", "two"].map(|name| dir.path().join(name));
    std::fs::write(&names[0], &bytes).unwrap();
    std::fs::hard_link(&names[0], &names[1]).unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&names[0], &link).unwrap();

    let cache = cache(64);
    let one = cache.open(&names[0]).unwrap();
    let two = cache.open(&names[1]).unwrap();
    let three = cache.open(&link).unwrap();
    assert_eq!(read(&one, PAGE, 10), bytes[PAGE..][..10]);
    let pinned = one.pin(1).unwrap();
    assert_eq!(two.pin(1).unwrap().as_ptr(), pinned.as_ptr());
    assert_eq!(three.pin(1).unwrap().as_ptr(), pinned.as_ptr());
    assert_eq!(cache.stats().nr_fills, 1);
    drop(pinned);
    drop(one);
    assert_eq!(read(&two, PAGE, 10), bytes[PAGE..][..10]);
    assert_eq!(cache.stats().nr_fills, 1, "one handle less changes nothing");
    drop((two, three));
    assert_all_free(&cache);
}

#[test]
fn a_file_has_one_page_size_as_long_as_anything_of_it_is_held() {
    let bytes = content(21, 5 * PAGE);
    let backend = Share::new(MemoryBackend::new(bytes.clone()));
    let cache = cache(64);
    let open = |page_size| {
        let options = OpenOptions::new().page_size(page_size);
        cache.open_backend_with(backend.clone(), "a file", &options)
    };
    let small = open(PAGE).unwrap();
    let error = open(2 * PAGE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PageSizeMismatch);
    let text = error.to_string();
    assert!(
        text.contains("a file") && text.contains("4096") && text.contains("8192"),
        "{text}"
    );
    let pin = small.pin_owned(0).unwrap();
    drop(small);
    // A pin keeps no file open.
    let large = open(2 * PAGE).unwrap();
    assert_eq!(*pin, bytes[..PAGE]);
    assert_eq!(*large.pin(2).unwrap(), bytes[4 * PAGE..]);
}

/// Symptom: a file that was read page by page was never read more than two pages ahead. Cause: the first
/// hit of a page that was read ahead was taken for a miss out of sequence.
#[test]
fn misses_in_sequence_read_ever_more_and_others_what_they_need() {
    let bytes = content(22, 64 * PAGE);
    let reads = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&reads);
    let backend = scripted(&bytes, move |pos, len| {
        record
            .lock()
            .unwrap()
            .push((pos as usize / PAGE, len / PAGE));
        Fault::None
    });
    let cache = cache(1024);
    let file = cache.open_backend(backend, "sequence").unwrap();
    for page in 0..64 {
        assert_eq!(read(&file, page * PAGE, 8), bytes[page * PAGE..][..8]);
    }
    let sequence = [(0, 1), (1, 2), (3, 4), (7, 8), (15, 16), (31, 32), (63, 1)];
    assert_eq!(*reads.lock().unwrap(), sequence);

    cache.reclaim(usize::MAX);
    reads.lock().unwrap().clear();
    for page in [40, 2, 17, 60, 5, 30] {
        assert_eq!(read(&file, page * PAGE, 8), bytes[page * PAGE..][..8]);
    }
    assert!(reads.lock().unwrap().iter().all(|&(_, nr)| nr == 1));

    cache.reclaim(usize::MAX);
    reads.lock().unwrap().clear();
    assert_eq!(
        read(&file, 10 * PAGE, 20 * PAGE),
        bytes[10 * PAGE..30 * PAGE]
    );
    assert_eq!(*reads.lock().unwrap(), [(10, 20)], "one transfer");
}

#[test]
fn pages_are_read_again_after_eviction() {
    let backend = Share::new(MemoryBackend::new(content(23, 4 * PAGE)));
    let cache = cache(16);
    let file = cache.open_backend(backend.clone(), "evicted").unwrap();
    read(&file, 0, 4 * PAGE);
    let newer = content(24, 4 * PAGE);
    backend.modify(|bytes| newer.clone_into(bytes));
    assert_eq!(cache.reclaim(3), 3);
    assert_eq!(cache.reclaim(usize::MAX), 1);
    assert_eq!(cache.reclaim(1), 0);
    assert_eq!(cache.stats().nr_evictions, 4);
    assert_eq!(read(&file, 0, 4 * PAGE), newer);
    assert_eq!(cache.stats().nr_fills, 8);
}

/// Symptom: while one thread read a file larger than the cache from slow storage, every other miss
/// failed with "every page is pinned", though nothing was. Cause: the read took all frames there were for
/// one transfer.
#[test]
fn a_read_larger_than_the_cache_leaves_frames_for_others() {
    bounded("a small read beside a large one", || {
        let gate = Arc::new(Gate::new());
        let at_gate = Arc::clone(&gate);
        let bytes = content(25, 256 * PAGE);
        let backend = scripted(&bytes, move |_, _| {
            at_gate.pass();
            Fault::None
        });
        let cache = cache(64);
        let large = cache.open_backend(backend, "large").unwrap();
        let small = cache
            .open_backend(MemoryBackend::new(bytes.clone()), "small")
            .unwrap();
        thread::scope(|scope| {
            let _open = OpenAtEnd(&gate);
            let reader = scope.spawn(|| read(&large, 0, 256 * PAGE));
            gate.wait_for(1);
            let mut buf = [0; 100];
            let n = small.read_at(&mut buf, 5000).expect("frames enough");
            assert_eq!(buf[..n], bytes[5000..5100]);
            gate.open();
            assert_eq!(reader.join().unwrap(), bytes);
        });
    });
}

/// Symptom: opening a file never returned. Cause: the open found no free frame while it held the list of
/// open files, and evicting an empty part of an index looks into that list.
#[test]
fn opening_files_takes_the_place_of_empty_parts_of_an_index() {
    bounded("opening files into a full cache", || {
        let bytes = content(26, 64 * PAGE);
        let cache = cache(32);
        let open = |name: &str| {
            cache
                .open_backend(MemoryBackend::new(bytes.clone()), name)
                .unwrap()
        };
        let filler = open("filler");
        let mut files = Vec::new();
        for nr in 0..60 {
            // Without a free frame, and with as many empty parts of indexes as have found room.
            let next_page = (0..64).map(|page| page * PAGE);
            for pos in next_page {
                if cache.stats().nr_free == 0 {
                    break;
                }
                assert_eq!(read(&filler, pos, 10), bytes[pos..][..10]);
            }
            let file = open(&format!("file {nr}"));
            assert_eq!(read(&file, 0, 10), bytes[..10]);
            file.invalidate(0..u64::MAX);
            files.push(file);
        }
        for file in &files {
            assert_eq!(read(file, 5 * PAGE, 10), bytes[5 * PAGE..][..10]);
        }
        drop((files, filler));
        assert_all_free(&cache);
    });
}

/// Symptom: while the size of one file could not be had (a network file system that hangs), no other file
/// could be opened, and misses of open ones hung too.
#[test]
fn an_open_that_hangs_stops_no_other_file() {
    bounded("work beside an open that hangs", || {
        let gate = Arc::new(Gate::new());
        let at_gate = Arc::clone(&gate);
        let bytes = content(27, 64 * PAGE);
        let hanging = Hooked::new(&bytes, |_| (), move |_| at_gate.pass());
        let cache = cache(16);
        let open = cache
            .open_backend(MemoryBackend::new(bytes.clone()), "open")
            .unwrap();
        thread::scope(|scope| {
            let _open = OpenAtEnd(&gate);
            let opener = scope.spawn(|| cache.open_backend(hanging, "hanging").map(drop));
            gate.wait_for(1);
            let (done, is_done) = std::sync::mpsc::channel();
            let (cache, bytes) = (&cache, &bytes);
            scope.spawn(move || {
                assert_eq!(read(&open, 0, 64 * PAGE), *bytes);
                let other = MemoryBackend::new(bytes.clone());
                let other = cache.open_backend(other, "other").unwrap();
                assert_eq!(read(&other, 0, 64 * PAGE), *bytes);
                done.send(()).unwrap();
            });
            // Not as long as the outer limit, which leaves the threads behind.
            let limit = std::time::Duration::from_secs(10);
            assert!(is_done.recv_timeout(limit).is_ok(), "the other files hang");
            gate.open();
            opener.join().unwrap().unwrap();
        });
    });
}

#[test]
fn large_pages_find_room_among_small_ones() {
    let bytes = content(28, 64 * PAGE);
    let cache = cache(64);
    let open = |page_size| {
        let options = OpenOptions::new().page_size(page_size);
        let backend = MemoryBackend::new(bytes.clone());
        cache
            .open_backend_with(backend, "a file", &options)
            .unwrap()
    };
    let files = [1, 16, 4, 2, 8].map(|frames| open(frames * PAGE));
    for round in 0..20 {
        for file in &files {
            let pos = round * 3 * PAGE + 7;
            assert_eq!(
                read(file, pos, 9 * PAGE),
                bytes[pos..][..(64 * PAGE - pos).min(9 * PAGE)]
            );
        }
    }
    drop(files);
    assert_all_free(&cache);
}
