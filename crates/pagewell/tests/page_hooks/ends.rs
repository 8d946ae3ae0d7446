//! What comes after the end of a file, and does not come back.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pagewell::{ErrorKind, OutgoingPage, PageHooks};
use pagewell_testkit::content;

use crate::doubles::{Keyed, cache, contents, is_corrupt, manual, memory, open, reopened, stored};
use crate::support::PAGE;

/// What page number `page` has in the storage, turned back.
fn page_of(storage: &Arc<pagewell::io::MemoryBackend>, page: usize) -> Vec<u8> {
    let mut bytes = stored(storage)[page * PAGE..][..PAGE].to_vec();
    Keyed::default()
        .after_read(page as u64, &mut bytes)
        .unwrap();
    bytes
}

#[test]
fn what_was_cut_off_does_not_come_back_nor_stay_in_the_storage() {
    let (storage, hooks) = (memory(), Arc::new(Keyed::default()));
    let cache = cache(64);
    let file = open(&cache, &storage, &manual(&hooks));
    let mut model = content(5, PAGE + 3000);
    file.write_at(&model, 0).unwrap();
    file.sync_data().unwrap();
    file.set_size(PAGE as u64 + 1000).unwrap();
    model.truncate(PAGE + 1000);
    // The storage has it until the page goes out again.
    assert_ne!(page_of(&storage, 1)[1000..3000], [0; 2000]);
    assert_eq!(file.stats().nr_dirty, 1);
    file.sync_data().unwrap();
    assert_eq!(page_of(&storage, 1)[1000..], [0; PAGE - 1000]);
    assert_eq!(page_of(&storage, 1)[..1000], model[PAGE..]);
    assert!(reopened(&storage, &hooks) == model);
}

#[test]
fn what_was_cut_off_does_not_come_back_if_the_page_was_not_written_since() {
    for is_discarded in [false, true] {
        for growth in 0..4 {
            let (storage, hooks) = (memory(), Arc::new(Keyed::default()));
            let cache = cache(64);
            let is_refusing = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&is_refusing);
            let options = manual(&hooks).before_write(move |page, _| {
                match page == 1 && flag.load(Ordering::Relaxed) {
                    true => Err(io::Error::other("not yet")),
                    false => Ok(()),
                }
            });
            let file = open(&cache, &storage, &options);
            let mut model = content(5, PAGE + 3000);
            file.write_at(&model, 0).unwrap();
            file.sync_data().unwrap();
            file.set_size(PAGE as u64 + 1000).unwrap();
            model.truncate(PAGE + 1000);
            if is_discarded {
                file.discard(0..u64::MAX).unwrap();
            } else {
                // It stays dirty, and is not given.
                is_refusing.store(true, Ordering::Relaxed);
            }
            match growth {
                0 => {
                    file.set_size(PAGE as u64 + 2000).unwrap();
                    model.resize(PAGE + 2000, 0);
                }
                1 => {
                    file.set_size(3 * PAGE as u64 + 7).unwrap();
                    model.resize(3 * PAGE + 7, 0);
                }
                2 => {
                    file.append(&[9; 10]).unwrap();
                    model.extend([9; 10]);
                }
                _ => {
                    file.write_at(&[9; 10], 5 * PAGE as u64).unwrap();
                    model.resize(5 * PAGE, 0);
                    model.extend([9; 10]);
                }
            }
            assert!(contents(&file) == model, "{growth}");
            // Not by a sync of other pages either.
            let others = 2 * PAGE as u64..u64::MAX;
            if !is_discarded {
                // The growth has met the refusal, and this tells of it.
                let error = file.sync_range(others.clone()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Refused, "{growth}");
            }
            file.sync_range(others).unwrap();
            let after = page_of(&storage, 1);
            assert_eq!(after[1010..], [0; PAGE - 1010]);
            is_refusing.store(false, Ordering::Relaxed);
            file.sync_data().unwrap();
            file.invalidate(0..u64::MAX);
            assert!(contents(&file) == model, "{growth}");
            assert!(reopened(&storage, &hooks) == model, "{growth}");
        }
    }
}

/// A storage as a loss of power may leave it: the page was written, and the size was not.
fn with_bytes_after_the_end(used: usize) -> (Arc<pagewell::io::MemoryBackend>, Vec<u8>) {
    let bytes = content(3, 2 * PAGE);
    let (storage, hooks) = (memory(), Arc::new(Keyed::default()));
    let file = open(&cache(64), &storage, &manual(&hooks));
    file.write_at(&bytes, 0).unwrap();
    file.close().unwrap();
    storage.modify(|stored| stored.resize(2 * PAGE + used, 0));
    (storage, bytes[..PAGE + used].to_vec())
}

#[test]
fn a_page_that_was_written_before_its_size_has_nothing_after_it() {
    for growth in 0..4 {
        let (storage, mut model) = with_bytes_after_the_end(100);
        let hooks = Arc::new(Keyed::default());
        assert!(reopened(&storage, &hooks) == model);
        let cache = cache(64);
        let file = open(&cache, &storage, &manual(&hooks));
        match growth {
            0 => {
                file.append(b"more").unwrap();
                model.extend(b"more");
            }
            1 => {
                file.set_size(2 * PAGE as u64).unwrap();
                model.resize(2 * PAGE, 0);
            }
            2 => {
                file.write_at(b"more", 3 * PAGE as u64).unwrap();
                model.resize(3 * PAGE, 0);
                model.extend(b"more");
            }
            _ => {
                // With the page in the cache, and no write to it.
                assert!(contents(&file) == model);
                file.set_size(2 * PAGE as u64 + 1).unwrap();
                model.resize(2 * PAGE + 1, 0);
            }
        }
        assert!(contents(&file) == model, "{growth}");
        file.close().unwrap();
        assert!(reopened(&storage, &hooks) == model, "{growth}");
        let used = if growth == 0 { 104 } else { 100 };
        assert_eq!(page_of(&storage, 1)[used..], [0; PAGE][used..]);
    }
}

/// The bytes past the last whole page were looked at when the file was opened, and never again if that failed.
#[test]
fn what_cannot_be_looked_at_when_the_file_is_opened_is_looked_at_before_it_grows() {
    use pagewell::io::{Fault, FaultBackend, Operation};
    let (storage, mut model) = with_bytes_after_the_end(100);
    storage.modify(|stored| stored[2 * PAGE..].fill(7));
    let hooks = Arc::new(Keyed::default());
    let is_failing = Arc::new(AtomicBool::new(true));
    let script = {
        let is_failing = Arc::clone(&is_failing);
        move |operation: &Operation| match operation {
            Operation::Read { pos, .. }
                if *pos == 2 * PAGE as u64 && is_failing.load(Ordering::SeqCst) =>
            {
                Fault::Fail(io::Error::other("not yet"))
            }
            _ => Fault::None,
        }
    };
    let backend = Arc::new(FaultBackend::with_script(Arc::clone(&storage), script));
    let cache = cache(64);
    let file = open(&cache, &backend, &manual(&hooks));
    assert!(contents(&file) == model);
    let error = file.set_size(4 * PAGE as u64).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert_eq!(file.size(), model.len() as u64);
    is_failing.store(false, Ordering::SeqCst);
    file.set_size(4 * PAGE as u64).unwrap();
    model.resize(4 * PAGE, 0);
    file.close().unwrap();
    assert!(reopened(&storage, &hooks) == model);
}

/// A change of the size within the last page cut bytes that nobody had looked at, and the next growth was not after a sync: a loss of power
/// could keep the growth without the cut, and with it these bytes as a page.
#[test]
fn what_is_cut_unseen_past_the_last_page_is_gone_for_good_before_the_file_grows() {
    use pagewell::io::{Fault, FaultBackend, Operation};
    use std::sync::Mutex;
    let (storage, _) = with_bytes_after_the_end(100);
    storage.modify(|stored| stored[2 * PAGE..].fill(7));
    let calls = Arc::new(Mutex::new(Vec::new()));
    let script = {
        let calls = Arc::clone(&calls);
        let is_opened = AtomicBool::new(false);
        move |operation: &Operation| {
            calls.lock().unwrap().push(*operation);
            match operation {
                Operation::Read { pos, .. }
                    if *pos == 2 * PAGE as u64 && !is_opened.swap(true, Ordering::SeqCst) =>
                {
                    Fault::Fail(io::Error::other("not yet"))
                }
                _ => Fault::None,
            }
        }
    };
    let hooks = Arc::new(Keyed::default());
    let backend = Arc::new(FaultBackend::with_script(Arc::clone(&storage), script));
    let cache = cache(64);
    let file = open(&cache, &backend, &manual(&hooks));
    file.set_size(2 * PAGE as u64).unwrap();
    calls.lock().unwrap().clear();
    file.set_size(4 * PAGE as u64).unwrap();
    let calls = calls.lock().unwrap();
    let of = |wanted: fn(&Operation) -> bool| calls.iter().position(wanted);
    let synced = of(|operation| matches!(operation, Operation::SyncData));
    let grown =
        of(|operation| matches!(operation, Operation::SetSize { size } if *size > 2 * PAGE as u64));
    assert!(synced.is_some() && synced < grown, "{calls:?}");
}

#[test]
fn a_write_that_fails_while_the_end_is_made_right_loses_nothing() {
    use pagewell::io::{Fault, FaultBackend};
    use std::sync::atomic::{AtomicBool, Ordering};
    let (storage, model) = with_bytes_after_the_end(100);
    let hooks = Arc::new(Keyed::default());
    let is_failing = Arc::new(AtomicBool::new(true));
    let script = {
        let is_failing = Arc::clone(&is_failing);
        move |operation: &pagewell::io::Operation| match operation {
            pagewell::io::Operation::Write { .. } if is_failing.load(Ordering::SeqCst) => {
                Fault::ShortThenFail {
                    written: 700,
                    error: std::io::Error::other("half"),
                }
            }
            _ => Fault::None,
        }
    };
    let backend = Arc::new(FaultBackend::with_script(Arc::clone(&storage), script));
    let cache = cache(64);
    let file = open(&cache, &backend, &manual(&hooks));
    let error = file.set_size(2 * PAGE as u64).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert_eq!(file.size(), model.len() as u64);
    assert_eq!(file.stats().nr_dirty, 1);
    assert!(contents(&file) == model);
    is_failing.store(false, Ordering::SeqCst);
    file.set_size(2 * PAGE as u64).unwrap();
    file.close().unwrap();
    let mut model = model;
    model.resize(2 * PAGE, 0);
    assert!(reopened(&storage, &hooks) == model);
}

/// A part of a page past the end would be the size of a shorter file. So whenever the process is killed, or a write falls short, the storage has the size of a file that is at
/// least as long as the last one that was synced.
#[test]
fn pages_are_written_only_where_the_storage_has_room_for_all_of_them() {
    use pagewell::io::{Backend, Fault, FaultBackend, Operation};
    use std::sync::atomic::{AtomicU64, Ordering};
    let (storage, hooks) = (memory(), Arc::new(Keyed::default()));
    let least = Arc::new(AtomicU64::new(0));
    let script = {
        let (storage, least) = (Arc::clone(&storage), Arc::clone(&least));
        let nr = std::sync::Mutex::new(0_u64);
        move |operation: &Operation| {
            let stored = storage.size().unwrap();
            let (page, rest) = (PAGE as u64, stored % PAGE as u64);
            let size = if rest == 0 {
                stored
            } else {
                (stored / page - 1) * page + rest
            };
            assert!(
                size >= least.load(Ordering::SeqCst),
                "{operation:?} of {size} bytes"
            );
            if let Operation::Write { pos, len } = operation {
                assert!(pos + *len as u64 <= stored, "{operation:?} to {stored}");
                let mut nr = nr.lock().unwrap();
                *nr += 1;
                if nr.is_multiple_of(5) {
                    let error = std::io::Error::other("short");
                    return Fault::ShortThenFail {
                        written: 100,
                        error,
                    };
                }
            }
            Fault::None
        }
    };
    let backend = Arc::new(FaultBackend::with_script(Arc::clone(&storage), script));
    let file = open(&cache(64), &backend, &manual(&hooks));
    let mut model = Vec::new();
    for (nr, len) in [100, 4000, 4092, 1, 9000, 4096, 3, 4093, 12_000, 8191]
        .into_iter()
        .enumerate()
    {
        file.append(&content(nr as u64 + 1, len)).unwrap();
        model.extend(content(nr as u64 + 1, len));
        // Once more, if it was to fail.
        if file.sync_data().is_err() {
            file.sync_data().unwrap();
        }
        least.store(file.size(), Ordering::SeqCst);
        assert!(reopened(&storage, &hooks) == model);
    }
}

#[test]
fn a_cut_within_a_page_that_cannot_be_read_is_refused_and_changes_nothing() {
    let (storage, hooks) = (memory(), Arc::new(crate::doubles::Checked::default()));
    let file = open(&cache(64), &storage, &manual(&hooks));
    file.write_at(&[1; 3000], 0).unwrap();
    file.write_at(&[1; 3000], PAGE as u64).unwrap();
    file.sync_data().unwrap();
    file.invalidate(0..u64::MAX);
    storage.modify(|bytes| bytes[PAGE + 5] ^= 1);
    is_corrupt(file.set_size(PAGE as u64 + 10), 1);
    assert_eq!(file.size(), PAGE as u64 + 3000);
    // At the end of a page nothing need be read.
    file.set_size(PAGE as u64).unwrap();
    file.sync_data().unwrap();
    assert_eq!(stored(&storage).len(), PAGE);
}

/// The bytes of the storage past its last whole page tell the size, and were a page's once. Where a new page comes to be there are zeros.
#[test]
fn a_new_page_is_a_hole_whatever_was_there() {
    let (storage, hooks) = (memory(), Arc::new(Keyed::default()));
    let cache = cache(64);
    let file = open(&cache, &storage, &manual(&hooks));
    file.write_at(&content(1, 3 * PAGE), 0).unwrap();
    file.sync_data().unwrap();
    file.set_size(PAGE as u64 + 900).unwrap();
    file.sync_data().unwrap();
    // Left of page 2, maybe.
    assert_eq!(stored(&storage).len(), 2 * PAGE + 900);
    file.set_size(4 * PAGE as u64).unwrap();
    file.sync_data().unwrap();
    file.invalidate(0..u64::MAX);
    let mut model = content(1, PAGE + 900);
    model.resize(4 * PAGE, 0);
    assert!(contents(&file) == model);
    assert_eq!(stored(&storage)[2 * PAGE..], vec![0; 2 * PAGE]);
}

#[test]
fn the_part_of_a_page_after_the_end_is_told_to_the_hook_as_zeros() {
    struct Ends;
    impl PageHooks for Ends {
        fn before_write(&self, pages: &mut [OutgoingPage<'_>]) -> std::io::Result<()> {
            for page in pages {
                assert!(page.bytes()[page.nr_used()..].iter().all(|byte| *byte == 0));
                // A trailer past the end is as good as any.
                let last = page.bytes().len() - 1;
                assert_eq!(page.bytes()[last], 0);
                page.bytes_mut()[last] = 77;
            }
            Ok(())
        }

        fn after_read(&self, _: u64, bytes: &mut [u8]) -> std::io::Result<()> {
            let last = bytes.len() - 1;
            assert_eq!(bytes[last], 77);
            bytes[last] = 0;
            Ok(())
        }
    }
    let (storage, hooks) = (memory(), Arc::new(Ends));
    let cache = cache(64);
    let file = open(&cache, &storage, &manual(&hooks));
    for size in [1, 4095, 4097, 100, 8191] {
        file.set_size(0).unwrap();
        file.write_at(&content(2, size), 0).unwrap();
        if size > PAGE {
            file.write_at(&[0], PAGE as u64 - 1).unwrap();
        }
        file.sync_data().unwrap();
        file.invalidate(0..u64::MAX);
        assert_eq!(contents(&file).len(), size);
    }
}
