//! Hooks that fail, panic, or use the cache.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use pagewell::{ErrorKind, File, Op, OpenOptions, OutgoingPage, PageHooks, Writeback};
use pagewell_testkit::wait::{bounded, until};

use crate::doubles::{
    Checked, Closures, Keyed, TRAILER, cache, contents, is_corrupt, manual, memory, open, reopened,
    stored,
};
use crate::support::{PAGE, assert_all_free};

const BODY: usize = PAGE - TRAILER;

/// A file of so many pages, each full of its number plus one, but for the trailer; written, and dirty.
fn filled(file: &File, nr_pages: u64) {
    for page in 0..nr_pages {
        file.write_at(&[page as u8 + 1; BODY], page * PAGE as u64)
            .unwrap();
    }
    file.set_size(nr_pages * PAGE as u64).unwrap();
}

fn expected(nr_pages: u64) -> Vec<u8> {
    (0..nr_pages)
        .flat_map(|page| [vec![page as u8 + 1; BODY], vec![0; TRAILER]].concat())
        .collect()
}

#[test]
fn a_page_that_is_refused_on_its_way_keeps_no_other_from_being_written() {
    for pages in [&[2][..], &[0], &[15], &[0, 1, 3, 15], &[8], &[7, 8]] {
        let (storage, hooks) = (memory(), Arc::new(Checked::default()));
        let cache = cache(4096);
        let file = open(&cache, &storage, &manual(&hooks));
        filled(&file, 16);
        *hooks.not_out.lock().unwrap() = pages.iter().copied().collect();
        let error = file.sync_data().unwrap_err();
        assert_eq!(
            (error.kind(), error.op()),
            (ErrorKind::Refused, Op::Sync),
            "{error}"
        );
        let text = error.to_string();
        assert!(text.contains(&format!("(page {})", pages[0])), "{text}");
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(source, format!("not page {}", pages[0]));
        // Those that were not refused are durable: the sync was done for them.
        let stats = file.stats();
        assert_eq!((stats.nr_dirty, stats.nr_written), (pages.len(), 0));
        let bytes = stored(&storage);
        for page in 0..16 {
            let is_hole = pages.contains(&page);
            let first = bytes.get(page as usize * PAGE).copied().unwrap_or_default();
            assert_eq!(
                first,
                if is_hole { 0 } else { page as u8 + 1 },
                "{page} of {pages:?}"
            );
        }
        // Nobody who reads notices.
        assert!(contents(&file) == expected(16));
        assert!(file.sync_data().is_err());
        hooks.not_out.lock().unwrap().clear();
        file.sync_data().unwrap();
        assert_eq!(file.stats().nr_dirty, 0);
        assert!(reopened(&storage, &hooks) == expected(16));
    }
}

#[test]
fn a_refusal_in_the_background_is_told_to_every_handle_with_the_page() {
    let (storage, hooks) = (memory(), Arc::new(Checked::default()));
    let cache = cache(64);
    let options = manual(&hooks).writeback(Writeback::Background);
    let file = open(&cache, &storage, &options);
    let other = open(&cache, &storage, &options);
    hooks.not_out.lock().unwrap().insert(1);
    filled(&file, 3);
    until("it was tried alone", || {
        hooks
            .calls
            .lock()
            .unwrap()
            .iter()
            .filter(|nr| **nr == 1)
            .count()
            > 3
    });
    hooks.not_out.lock().unwrap().clear();
    // What they are told of is over.
    for handle in [&file, &other] {
        let error = handle.sync_data().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(error.to_string().contains("(page 1)"), "{error}");
        handle.sync_data().unwrap();
    }
    assert!(reopened(&storage, &hooks) == contents(&file));
}

#[test]
fn a_page_that_is_refused_on_its_way_back_is_an_error_of_that_page_alone() {
    let (storage, hooks) = (memory(), Arc::new(Checked::default()));
    let cache = cache(256);
    let file = open(&cache, &storage, &manual(&hooks));
    filled(&file, 8);
    file.sync_data().unwrap();
    for refused in [0, 3, 7] {
        file.invalidate(0..u64::MAX);
        hooks.not_in.lock().unwrap().insert(refused);
        let mut buf = [0xa5; 100];
        let error = file
            .read_at(&mut buf, refused * PAGE as u64 + 5)
            .unwrap_err();
        assert_eq!((error.kind(), error.op()), (ErrorKind::Corrupt, Op::Read));
        let source = std::error::Error::source(&error).unwrap();
        assert_eq!(source.to_string(), "no key");
        assert!(
            buf == [0xa5; 100] || buf == [0; 100],
            "nothing of it is shown"
        );
        is_corrupt(file.pin(refused).map(drop), refused);
        is_corrupt(file.view(refused, |view| view.u8(0)), refused);
        is_corrupt(file.write_at(b"part", refused * PAGE as u64 + 5), refused);
        is_corrupt(file.pin_mut(refused).map(drop), refused);
        // A read that begins before ends there.
        if refused > 0 {
            let mut buf = vec![0; 3 * PAGE];
            let start = (refused - 1) * PAGE as u64;
            let read = file.read_at(&mut buf, start).unwrap();
            assert_eq!(read, PAGE);
        }
        for page in (0..8).filter(|page| *page != refused) {
            assert_eq!(file.pin(page).unwrap()[0], page as u8 + 1);
        }
        // A whole page needs nothing of it.
        hooks.not_in.lock().unwrap().clear();
        assert!(contents(&file) == expected(8));
    }
    hooks.not_in.lock().unwrap().insert(4);
    file.invalidate(0..u64::MAX);
    file.write_at(&[5; PAGE - TRAILER], 4 * PAGE as u64)
        .unwrap_err();
    let mut whole = [5; PAGE];
    whole[BODY..].fill(0);
    file.write_at(&whole, 4 * PAGE as u64).unwrap();
    hooks.not_in.lock().unwrap().clear();
    file.sync_data().unwrap();
    assert!(reopened(&storage, &hooks) == expected(8));
    drop(file);
    assert_all_free(&cache);
}

#[test]
fn a_panic_is_an_error_of_that_file_alone() {
    let out = |page: &mut OutgoingPage<'_>| {
        assert_ne!(page.page(), 2, "a panic on the way, as it is to be");
        page.bytes_mut()[BODY] = 1;
        Ok(())
    };
    let back = |page: u64, bytes: &mut [u8]| {
        assert_ne!(page, 1, "a panic on the way back, as it is to be");
        bytes[BODY] = 0;
        Ok(())
    };
    for mode in [Writeback::Manual, Writeback::Background] {
        let (storage, hooks) = (memory(), Arc::new(Closures(out, back)));
        let cache = cache(64);
        let file = open(&cache, &storage, &manual(&hooks).writeback(mode));
        filled(&file, 4);
        let (storage_of_other, good) = (memory(), Arc::new(Keyed::default()));
        let other = open(&cache, &storage_of_other, &manual(&good));
        other.append(b"well").unwrap();
        let error = file.sync_data().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(source, "the hook has panicked");
        other.sync_data().unwrap();
        assert_eq!(file.stats().nr_dirty, 1);
        file.discard(2 * PAGE as u64..3 * PAGE as u64).unwrap();
        let _ = file.sync_data();
        file.sync_data().unwrap();
        file.invalidate(0..u64::MAX);
        is_corrupt(file.pin(1).map(drop), 1);
        assert_eq!(file.pin(3).unwrap()[0], 4);
        assert_eq!(contents(&other), b"well");
        drop((file, other));
        assert_all_free(&cache);
    }
}

/// Hooks that do something with a file, which they get later, and note what came of it.
#[derive(Default)]
struct Meddling {
    file: OnceLock<File>,
    outcomes: Mutex<Vec<(&'static str, Option<ErrorKind>)>>,
}

impl Meddling {
    fn meddle(&self) {
        let Some(file) = self.file.get() else {
            return;
        };
        let mut buf = [0; 10];
        let note = |what, result: Result<(), pagewell::Error>| {
            let kind = result.err().map(|error| error.kind());
            self.outcomes.lock().unwrap().push((what, kind));
        };
        // What is cached is had without waiting.
        note("hit", file.read_at(&mut buf, 0).map(drop));
        note("hit", file.pin(0).map(drop));
        note("hit", file.pin_owned(0).map(drop));
        note("miss", file.read_at(&mut buf, 3 * PAGE as u64).map(drop));
        note("busy", file.read_at(&mut buf, PAGE as u64).map(drop));
        note("pin", file.pin(3).map(drop));
        note("view", file.view(3, |view| view.u8(0)).map(drop));
        note("write", file.write_at(b"x", 3 * PAGE as u64).map(drop));
        note("write busy", file.write_at(b"x", PAGE as u64).map(drop));
        note("append", file.append(b"x").map(drop));
        note("pin_mut", file.pin_mut(3).map(drop));
        note("size", file.set_size(1));
        note("flush", file.flush(0..1).map(drop));
        note("sync", file.sync_data());
        note("discard", file.discard(0..1));
        note("refresh", file.refresh().map(drop));
        note(
            "prefetch",
            file.prefetch(std::slice::from_ref(&(0..u64::MAX)))
                .map(drop),
        );
    }
}

impl PageHooks for Meddling {
    fn before_write(&self, pages: &mut [OutgoingPage<'_>]) -> io::Result<()> {
        self.meddle();
        for page in pages {
            page.bytes_mut()[0] ^= 1;
        }
        Ok(())
    }

    fn after_read(&self, _: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.meddle();
        bytes[0] ^= 1;
        Ok(())
    }
}

#[test]
fn a_hook_that_would_wait_in_the_cache_gets_an_error() {
    bounded("hooks that use their own file", || {
        for is_own in [true, false] {
            let (storage, hooks) = (memory(), Arc::new(Meddling::default()));
            let cache = cache(64);
            let file = open(&cache, &storage, &manual(&hooks));
            let plain = memory();
            plain.modify(|bytes| *bytes = vec![7; 5 * PAGE]);
            let used = if is_own {
                filled(&file, 5);
                file.sync_data().unwrap();
                open(&cache, &storage, &manual(&hooks))
            } else {
                let options = OpenOptions::new().write().writeback(Writeback::Manual);
                filled(&file, 5);
                file.sync_data().unwrap();
                cache
                    .open_backend_with(Arc::clone(&plain), "plain", &options)
                    .unwrap()
            };
            used.invalidate(0..u64::MAX);
            file.invalidate(0..u64::MAX);
            for _ in 0..2 {
                used.read_at(&mut [0; 10], 0).unwrap();
            }
            assert!(hooks.file.set(used).is_ok());
            file.write_at(b"x", 0).unwrap();
            for way in ["in", "out"] {
                match way {
                    "in" => drop(file.pin(1).unwrap()),
                    _ => {
                        // So that it is a hit, and not only there.
                        for _ in 0..2 {
                            file.read_at(&mut [0; 10], PAGE as u64).unwrap();
                        }
                        file.sync_data().unwrap();
                    }
                }
                let outcomes = std::mem::take(&mut *hooks.outcomes.lock().unwrap());
                // In the hook of a write page 1 is there, if it is the file's own. (It is written to there, and goes out next.)
                for (what, kind) in &outcomes {
                    let is_there =
                        *what == "hit" || (is_own && way == "out" && what.contains("busy"));
                    let expected = (!is_there).then_some(ErrorKind::Deadlock);
                    assert_eq!(*kind, expected, "{what} {way}, own: {is_own}");
                }
                assert!(!outcomes.is_empty() && outcomes.len().is_multiple_of(17));
            }
        }
    });
}

#[test]
fn the_last_handle_may_go_in_a_hook() {
    struct Keeping(Mutex<Vec<File>>, AtomicUsize);
    impl PageHooks for Keeping {
        fn before_write(&self, _: &mut [OutgoingPage<'_>]) -> io::Result<()> {
            self.0.lock().unwrap().clear();
            Ok(())
        }

        fn after_read(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
            self.1.fetch_add(1, Ordering::SeqCst);
            self.0.lock().unwrap().clear();
            Ok(())
        }
    }
    bounded("handles that go in hooks", || {
        for is_read in [true, false] {
            let storage = memory();
            storage.modify(|bytes| *bytes = vec![7; 40 * PAGE]);
            let hooks = Arc::new(Keeping(Mutex::default(), AtomicUsize::new(0)));
            let cache = cache(256);
            let options = OpenOptions::new().page_hooks(Arc::clone(&hooks) as Arc<dyn PageHooks>);
            let (own, options) = match is_read {
                true => (open(&cache, &storage, &options), options),
                false => (open(&cache, &storage, &manual(&hooks)), manual(&hooks)),
            };
            let last = open(&cache, &storage, &options);
            let pin = own.pin_owned(0).unwrap();
            assert_eq!(hooks.1.load(Ordering::SeqCst), 1);
            hooks.0.lock().unwrap().extend([own, last]);
            if is_read {
                // The flight that calls the hook visits the file that the hook drops.
                let handle = hooks.0.lock().unwrap()[0].clone();
                handle
                    .prefetch(std::slice::from_ref(&(8 * PAGE as u64..16 * PAGE as u64)))
                    .unwrap();
                drop(handle);
            } else {
                let handle = hooks.0.lock().unwrap()[0].clone();
                handle.write_at(b"x", 0).unwrap();
                handle.sync_data().unwrap();
                drop(handle);
            }
            until("the hook was called", || hooks.0.lock().unwrap().is_empty());
            drop(pin);
            drop(cache.quiesce().unwrap());
            until("everything is free", || {
                let stats = cache.stats();
                stats.nr_free == stats.nr_frames
            });
        }
    });
}
