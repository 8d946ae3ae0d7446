//! All ways in which pages are read.

use std::io;
use std::sync::Arc;
use std::thread;

use pagewell::io::engine::{Choice, Settings};
use pagewell::io::{Direct, MemoryBackend};
use pagewell::space::{CacheSpaces as _, Sharing};
use pagewell::{Cache, ErrorKind, File, OpenOptions, PageHooks, ReadRequest};
use pagewell_testkit::wait::{Gate, OpenAtEnd, block_on, bounded, until};
use pagewell_testkit::{content, scratch};

use crate::doubles::{Checked, Closures, Keyed, TRAILER, cache, is_corrupt, manual, memory, open};
use crate::support::PAGE;

const NR_PAGES: u64 = 48;

/// A file of pages with checksums, of the system, in a cache with this engine; page 17 is refused.
fn checked(engine: Choice, direct: Direct) -> Option<(tempfile::TempDir, File, Vec<u8>)> {
    let dir = scratch::dir();
    let path = dir.path().join("file");
    let hooks = Arc::new(Checked::default());
    let builder = Cache::builder().capacity(2 << 20);
    // The engine may not be there.
    let cache = builder.engine(Settings::new(engine)).build().ok()?;
    let options = OpenOptions::new()
        .create()
        .direct(direct)
        .page_hooks(Arc::clone(&hooks) as Arc<dyn PageHooks>);
    let file = cache.open_with(&path, &options).unwrap();
    let mut bytes = content(3, NR_PAGES as usize * PAGE);
    for page in bytes.chunks_mut(PAGE) {
        page[PAGE - TRAILER..].fill(0);
    }
    file.write_at(&bytes, 0).unwrap();
    file.sync_data().unwrap();
    file.invalidate(0..u64::MAX);
    hooks.not_in.lock().unwrap().insert(17);
    Some((dir, file, bytes))
}

fn page_range(page: u64) -> std::ops::Range<usize> {
    page as usize * PAGE..(page as usize + 1) * PAGE
}

#[test]
fn batches_futures_and_what_is_prefetched_are_turned_back_and_refused() {
    bounded("reads of all ways", || {
        for engine in [Choice::Uring, Choice::Worker, Choice::Sync] {
            for direct in [Direct::Auto, Direct::Never] {
                let Some((_dir, file, bytes)) = checked(engine, direct) else {
                    continue;
                };
                // A batch.
                let mut bufs = vec![vec![0; PAGE]; NR_PAGES as usize];
                let mut requests: Vec<ReadRequest<'_>> = (0..NR_PAGES)
                    .zip(&mut bufs)
                    .map(|(page, buf)| ReadRequest::new(page * PAGE as u64, buf))
                    .collect();
                file.read_many(&mut requests);
                for (page, request) in (0..NR_PAGES).zip(requests) {
                    match page {
                        17 => is_corrupt(request.result, 17),
                        _ => assert!(
                            request.result.unwrap() == PAGE
                                && *request.buf == bytes[page_range(page)]
                        ),
                    }
                }
                file.invalidate(0..u64::MAX);
                // Futures.
                for page in [3, 4, 5, 20, 17, 18, 16] {
                    let read = block_on(file.read_at_async(vec![0; PAGE], page * PAGE as u64));
                    match page {
                        17 => is_corrupt(read.1.map(drop), 17),
                        _ => {
                            assert_eq!(read.1.unwrap(), PAGE);
                            assert!(read.0 == bytes[page_range(page)]);
                        }
                    }
                }
                is_corrupt(block_on(file.pin_async(17)).map(drop), 17);
                file.invalidate(0..u64::MAX);
                // What nobody waits for.
                _ = file
                    .prefetch(std::slice::from_ref(&(0..NR_PAGES * PAGE as u64)))
                    .unwrap();
                for page in 0..NR_PAGES {
                    match file.pin(page) {
                        Err(error) => is_corrupt::<()>(Err(error), 17),
                        Ok(pin) => assert!(*pin == bytes[page_range(page)]),
                    }
                }
            }
        }
    });
}

/// The hook of one file blocks; the engine's thread does not, so other files go on.
#[test]
fn a_hook_that_blocks_keeps_no_other_file() {
    bounded("two files", || {
        for engine in [Choice::Uring, Choice::Worker] {
            let builder = Cache::builder().capacity(4 << 20);
            let Ok(cache) = builder.engine(Settings::new(engine)).build() else {
                continue;
            };
            let gate = Arc::new(Gate::new());
            let back = {
                let gate = Arc::clone(&gate);
                move |_: u64, bytes: &mut [u8]| -> io::Result<()> {
                    gate.pass();
                    bytes[0] ^= 1;
                    Ok(())
                }
            };
            let hooks = Arc::new(Closures(|_: &mut pagewell::OutgoingPage<'_>| Ok(()), back));
            let dir = scratch::dir();
            let path = |name: &str| dir.path().join(name);
            for name in ["stuck", "other"] {
                std::fs::write(path(name), vec![7; 200 * PAGE]).unwrap();
            }
            let of = |name: &str, hooks: Arc<dyn PageHooks>| {
                let options = OpenOptions::new().direct(Direct::Auto).page_hooks(hooks);
                cache.open_with(path(name), &options).unwrap()
            };
            let stuck = of("stuck", hooks);
            // More of them than may be called for one file.
            for page in 0..40 {
                let at = 4 * page * PAGE as u64;
                _ = stuck
                    .prefetch(std::slice::from_ref(&(at..at + PAGE as u64)))
                    .unwrap();
            }
            until("hooks have come to the gate", || gate.nr_arrived() >= 8);
            let good = Arc::new(Closures(
                |_: &mut pagewell::OutgoingPage<'_>| Ok(()),
                |_: u64, bytes: &mut [u8]| {
                    bytes[0] ^= 2;
                    Ok(())
                },
            ));
            let other = of("other", good);
            for page in 0..100 {
                let (bytes, read) =
                    block_on(other.read_at_async(vec![0; 2], 2 * page * PAGE as u64));
                assert_eq!((read.unwrap(), bytes), (2, vec![5, 7]));
            }
            assert_eq!(gate.nr_arrived(), 8);
            gate.open();
            let mut buf = [0; 2];
            stuck.read_at(&mut buf, 40 * PAGE as u64).unwrap();
            assert_eq!(buf, [6, 7]);
        }
    });
}

/// The codecs of eight files hang, each in as many calls as one file may occupy at first.
#[test]
fn codecs_of_many_files_that_hang_leave_threads_for_another_file() {
    const NR_HUNG: usize = 8;
    const NR_READS: u64 = 12;
    bounded("nine files", || {
        let cache = Cache::builder().capacity(4 << 20);
        let cache = cache.engine(Settings::new(Choice::Worker)).build().unwrap();
        let gate = Arc::new(Gate::new());
        let open = OpenAtEnd(&gate);
        let open_with = |hooks: Arc<dyn PageHooks>| {
            let storage = MemoryBackend::new(vec![7; 4 * NR_READS as usize * PAGE]);
            let options = OpenOptions::new().page_hooks(hooks);
            cache.open_backend_with(storage, "file", &options).unwrap()
        };
        let hung = [(); NR_HUNG].map(|()| {
            let gate = Arc::clone(&gate);
            let back = move |_: u64, _: &mut [u8]| -> io::Result<()> {
                gate.pass();
                Ok(())
            };
            open_with(Arc::new(Closures(
                |_: &mut pagewell::OutgoingPage<'_>| Ok(()),
                back,
            )))
        });
        for file in &hung {
            for at in (0..NR_READS).map(|nr| 4 * nr * PAGE as u64) {
                _ = file
                    .prefetch(std::slice::from_ref(&(at..at + PAGE as u64)))
                    .unwrap();
            }
        }
        // The first file has eight threads, and each of the others at least one.
        until("the codecs hang", || gate.nr_arrived() >= 8 + NR_HUNG - 1);
        let other = open_with(Arc::new(Closures(
            |_: &mut pagewell::OutgoingPage<'_>| Ok(()),
            |_: u64, bytes: &mut [u8]| {
                bytes[0] ^= 2;
                Ok(())
            },
        )));
        for page in 0..NR_READS {
            let (bytes, read) = block_on(other.read_at_async(vec![0; 2], 4 * page * PAGE as u64));
            assert_eq!((read.unwrap(), bytes), (2, vec![5, 7]));
        }
        drop(open);
    });
}

#[test]
fn memory_spaces_show_what_was_turned_back() {
    let (storage, hooks) = (memory(), Arc::new(Checked::default()));
    let cache = cache(512);
    let file = open(&cache, &storage, &manual(&hooks));
    for page in 0..8_u64 {
        file.write_at(&[page as u8 + 1; PAGE - TRAILER], page * PAGE as u64)
            .unwrap();
    }
    file.set_size(8 * PAGE as u64).unwrap();
    file.sync_data().unwrap();
    file.invalidate(0..u64::MAX);
    let space = cache.space().unwrap();
    let len = 8 * PAGE as u64;
    let shared = space.map_file(&file, 0..len, Sharing::Shared).unwrap();
    let private = space.map_file(&file, 0..len, Sharing::Private).unwrap();
    let mut buf = [0; 10];
    for page in 0..8 {
        space
            .read(shared.start + page * PAGE as u64, &mut buf)
            .unwrap();
        assert_eq!(buf, [page as u8 + 1; 10]);
    }
    space.write(shared.start + 5, b"shared").unwrap();
    space
        .write(private.start + PAGE as u64 + 5, b"private")
        .unwrap();
    file.sync_data().unwrap();
    file.invalidate(0..u64::MAX);
    space.read(private.start + 5, &mut buf[..6]).unwrap();
    assert_eq!(&buf[..6], b"shared");
    hooks.not_in.lock().unwrap().insert(6);
    for area in [&shared, &private] {
        let at = area.start + 6 * PAGE as u64;
        file.invalidate(0..u64::MAX);
        let error = space.read(at, &mut buf).unwrap_err();
        let kind = pagewell::space::ErrorKind::File(ErrorKind::Corrupt);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(space.write(at, b"x").is_err());
        space.read(at + PAGE as u64, &mut buf).unwrap();
        assert_eq!(buf, [8; 10]);
    }
}

#[test]
fn the_hook_of_numbers_comes_first_and_both_are_called() {
    use std::sync::Mutex;
    let order = Arc::new(Mutex::new(Vec::new()));
    let numbers = {
        let order = Arc::clone(&order);
        move |page, lsn| {
            order.lock().unwrap().push(("number", page, lsn));
            match lsn {
                9 => Err(io::Error::other("no log")),
                _ => Ok(()),
            }
        }
    };
    let bytes = {
        let order = Arc::clone(&order);
        move |page: &mut pagewell::OutgoingPage<'_>| {
            order
                .lock()
                .unwrap()
                .push(("bytes", page.page(), page.lsn()));
            page.bytes_mut()[9] ^= 1;
            Ok(())
        }
    };
    let back = |_: u64, bytes: &mut [u8]| {
        bytes[9] ^= 1;
        Ok(())
    };
    let (storage, hooks) = (memory(), Arc::new(Closures(bytes, back)));
    let cache = cache(4096);
    let file = open(&cache, &storage, &manual(&hooks).before_write(numbers));
    for (page, lsn) in [(0, 5), (1, 6), (2, 9), (3, 7)] {
        file.write_at_lsn(&[1; PAGE], page * PAGE as u64, lsn)
            .unwrap();
    }
    let error = file.sync_data().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    let told = std::mem::take(&mut *order.lock().unwrap());
    // Page 2 was refused by number, so its bytes went to no hook.
    assert_eq!(
        told,
        [
            ("number", 0, 5),
            ("number", 1, 6),
            ("number", 2, 9),
            ("bytes", 0, 5),
            ("bytes", 1, 6),
            ("number", 3, 7),
            ("bytes", 3, 7),
        ]
    );
    assert_eq!(file.stats().nr_dirty, 1);
    file.write_at_lsn(&[1; PAGE], 2 * PAGE as u64, 10).unwrap();
    file.sync_data().unwrap();
    file.invalidate(0..u64::MAX);
    assert!(crate::doubles::contents(&file) == [1; 4 * PAGE]);
}

#[test]
fn a_plain_hook_type_is_enough_for_both_sides() {
    // Keyed is used from several threads at once.
    let (storage, hooks) = (memory(), Arc::new(Keyed::default()));
    let cache = cache(512);
    let file = open(&cache, &storage, &manual(&hooks));
    let bytes = content(5, 300 * PAGE);
    for (nr, part) in bytes.chunks(100 * PAGE).enumerate() {
        file.write_at(part, (nr * 100 * PAGE) as u64).unwrap();
        file.sync_data().unwrap();
    }
    thread::scope(|scope| {
        for nr in 0..4 {
            let (file, bytes) = (&file, &bytes);
            scope.spawn(move || {
                let mut rng = pagewell_testkit::Rng::new(nr);
                let mut buf = [0; 5000];
                for _ in 0..500 {
                    let at = rng.index(bytes.len() - 5000);
                    if rng.one_in(10) {
                        file.invalidate(at as u64..at as u64 + 50_000);
                    }
                    assert_eq!(file.read_at(&mut buf, at as u64).unwrap(), 5000);
                    assert!(buf == bytes[at..at + 5000]);
                }
            });
        }
    });
}
