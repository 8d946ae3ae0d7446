//! Calls of the storage that are late or fall short, at each place of a history: nothing else waits for a late one, and
//! a short one shows no foreign bytes; neither loses anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pagewell::io::{Backend, Fault, FaultBackend, MemoryBackend, Operation};
use pagewell::{ErrorKind, File};
use pagewell_testkit::content;
use pagewell_testkit::wait::{Gate, OpenAtEnd, bounded_by, until};

use crate::faults::Twin;
use crate::storage::{contents, manual, open_scripted, stored};
use crate::support::{PAGE, UNTOUCHED, assert_all_free, cache};

#[test]
fn every_call_is_late_once_and_others_go_on() {
    bounded_by(Duration::from_secs(120), "late calls", || {
        let cache = cache(96);
        for at in 1.. {
            let old = content(9, 3 * PAGE + 5);
            let (file, backend, script) = open_scripted(&cache, &old, &manual());
            let (other, other_backend, _) = open_scripted(&cache, &old, &manual());
            let gate = Arc::new(Gate::new());
            let held = Arc::clone(&gate);
            let mut nr = 0;
            script.set(move |_| {
                nr += 1;
                if nr == at {
                    held.pass();
                }
                Fault::None
            });
            let mut twin = Twin::new(&file, old.clone());
            let was_late = std::thread::scope(|scope| {
                let _open = OpenAtEnd(&gate);
                let history = scope.spawn(|| twin.go());
                until("a call is late, or none is left", || {
                    gate.nr_arrived() == 1 || history.is_finished()
                });
                let was_late = gate.nr_arrived() == 1;
                // Another file is used as if nothing were the matter.
                other.write_at(&[at as u8; 100], 50).unwrap();
                other.append(&[7; PAGE]).unwrap();
                other.sync_all().unwrap();
                other.set_size(2 * PAGE as u64).unwrap();
                let mut expected = old[..2 * PAGE].to_vec();
                expected[50..150].fill(at as u8);
                assert_eq!(contents(&other), expected, "call {at}");
                if at > 1 {
                    // The first call reads this page; then it stays cached.
                    assert_eq!(file.read_at(&mut [0; 100], 0).unwrap(), 100);
                    assert_eq!(file.pin(0).unwrap().len(), PAGE);
                }
                gate.open();
                history.join().expect("the history ends");
                was_late
            });
            let expected = twin.bytes_without_errors();
            assert_eq!(contents(&file), expected, "call {at}: read");
            file.sync_data().unwrap();
            other.sync_data().unwrap();
            assert_eq!(stored(backend), expected, "call {at}: stored");
            assert_eq!(stored(other_backend).len(), 2 * PAGE);
            drop((file, other));
            assert_all_free(&cache);
            if !was_late {
                assert!(at > 8, "the history makes many calls");
                break;
            }
        }
    });
}

/// A file of ten pages, of which two are dirty, two are written and not durable, and the others have to be read.
fn uneven(file: &File, bytes: &mut [u8]) {
    for (page, seed) in [(1, 11), (6, 12)] {
        let new = content(seed, PAGE);
        file.write_at(&new, page * PAGE as u64).unwrap();
        bytes[page as usize * PAGE..][..PAGE].copy_from_slice(&new);
    }
    file.flush(0..u64::MAX).unwrap();
    for (page, seed) in [(3, 13), (9, 14)] {
        let new = content(seed, PAGE);
        file.write_at(&new, page * PAGE as u64).unwrap();
        bytes[page as usize * PAGE..][..PAGE].copy_from_slice(&new);
    }
}

#[test]
fn every_read_falls_short_once() {
    let cache = cache(64);
    for short_by in [1, PAGE - 1, PAGE, usize::MAX] {
        for at in 1.. {
            let mut expected = content(8, 10 * PAGE);
            let (file, backend, script) = open_scripted(&cache, &expected, &manual());
            uneven(&file, &mut expected);
            let was_short = Arc::new(AtomicBool::new(false));
            let short = Arc::clone(&was_short);
            let mut nr = 0;
            script.set(move |operation| match operation {
                Operation::Read { len, .. } => {
                    nr += 1;
                    if nr == at {
                        short.store(true, Ordering::Relaxed);
                        return Fault::EndAfter(len.saturating_sub(short_by));
                    }
                    Fault::None
                }
                _ => Fault::None,
            });
            let mut pos = 0;
            let mut nr_errors = 0;
            while pos < expected.len() {
                let mut buf = vec![UNTOUCHED; 2 * PAGE + 100];
                match file.read_at(&mut buf, pos as u64) {
                    Ok(n) => {
                        assert!(n > 0, "the file does not end here");
                        assert_eq!(buf[..n], expected[pos..pos + n]);
                        pos += n;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Truncated, "{error}");
                        nr_errors += 1;
                        assert!(nr_errors <= 1, "one call fell short");
                    }
                }
            }
            script.heal();
            assert_eq!(contents(&file), expected, "call {at} by {short_by}");
            file.sync_data().unwrap();
            assert_eq!(stored(backend), expected, "call {at} by {short_by}");
            drop(file);
            assert_all_free(&cache);
            if !was_short.load(Ordering::Relaxed) {
                assert!(at > 3, "several reads are needed");
                break;
            }
        }
    }
}

#[test]
fn a_fill_that_falls_short_before_a_partial_write_changes_nothing() {
    let cache = cache(64);
    let old = content(1, 3 * PAGE);
    let (file, backend, script) = open_scripted(&cache, &old, &manual());
    script.set(|operation| match operation {
        Operation::Read { .. } => Fault::EndAfter(17),
        _ => Fault::None,
    });
    let error = file.write_at(b"x", PAGE as u64 + 5).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Truncated, "{error}");
    assert_eq!(file.pin_mut(2).unwrap_err().kind(), ErrorKind::Truncated);
    script.heal();
    assert_eq!(contents(&file), old);
    file.sync_data().unwrap();
    assert_eq!(stored(backend), old);
}

/// The page is claimed, and its transfer late; meanwhile the file is cut within the page or before it. Nothing was
/// cut behind the cache's back.
#[test]
fn a_read_that_a_cut_of_the_file_overtakes_is_no_error() {
    for (new_len, expected_len) in [(PAGE + 100, 100), (2 * PAGE, PAGE)] {
        bounded_by(Duration::from_secs(60), "a late fill", move || {
            let cache = cache(64);
            let old = content(3, 3 * PAGE);
            let gate = Arc::new(Gate::new());
            let held = Arc::clone(&gate);
            let was_late = AtomicBool::new(false);
            // No lock is held while the call waits: the cut is to get through.
            let late = move |_, _| {
                if !was_late.swap(true, Ordering::Relaxed) {
                    held.pass();
                }
                Fault::None
            };
            let backend = Arc::new(FaultBackend::new(
                MemoryBackend::writable(old.clone()),
                late,
            ));
            let file = cache
                .open_backend_with(Arc::clone(&backend), "late", &manual())
                .unwrap();
            std::thread::scope(|scope| {
                let _open = OpenAtEnd(&gate);
                let reader = scope.spawn(|| {
                    let mut buf = [UNTOUCHED; 2 * PAGE];
                    let n = file.read_at_referenced(&mut buf, PAGE as u64)?;
                    Ok::<_, pagewell::Error>(buf[..n].to_vec())
                });
                until("the fill is late", || gate.nr_arrived() == 1);
                let cut = scope.spawn(|| file.set_size(new_len as u64));
                until("the storage is cut", || {
                    backend.size().unwrap() == new_len as u64
                });
                gate.open();
                cut.join().unwrap().unwrap();
                let read = reader
                    .join()
                    .unwrap()
                    .expect("nothing is wrong with the file");
                assert_eq!(read, old[PAGE..][..expected_len]);
            });
            drop(file);
            assert_all_free(&cache);
        });
    }
}
