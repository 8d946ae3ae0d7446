//! Opening a file that is open: what is not named is the file's, and what is named is the file's or an error.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use pagewell::io::engine::RawFile;
use pagewell::io::{Backend, FileId, RacyBytes};
use pagewell::space::{CacheSpaces as _, Sharing};
use pagewell::{BeforeWrite, Cache, Error, ErrorKind, File, OpenOptions, Writeback};
use pagewell_testkit::skip::skipped;

use crate::support;

const PAGE: usize = 16 << 10;

/// A hook that counts its calls.
fn counting() -> (Arc<BeforeWrite>, Arc<AtomicU64>) {
    let nr_calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&nr_calls);
    let hook = move |_: u64, _: u64| -> io::Result<()> {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    (Arc::new(hook), nr_calls)
}

fn cache() -> Cache {
    support::cache(2048)
}

/// Something that keeps a file open.
type Keeps = Box<dyn std::any::Any>;

/// The ways to keep a file open: a handle, one for reading, an area of a space, and what an area has of the file.
fn keepers() -> [fn(&Cache, File) -> Keeps; 4] {
    [
        |_, file| Box::new(file),
        |cache, file| Box::new(cache.open(file.path()).unwrap()),
        |cache, file| {
            let space = cache.space().unwrap();
            space.map_file(&file, 0..100, Sharing::Shared).unwrap();
            file.close().unwrap();
            Box::new(space)
        },
        |_, file| {
            let mapped = file.mapped();
            file.close().unwrap();
            Box::new(mapped)
        },
    ]
}

/// A backend that says that it is the file with this identity, and is not asked for anything else.
#[derive(Debug)]
struct SameFile(FileId);

impl Backend for SameFile {
    fn read_at(&self, _: &[RacyBytes<'_>], _: u64) -> io::Result<usize> {
        Err(io::Error::other("the file is open with another backend"))
    }

    fn size(&self) -> io::Result<u64> {
        Err(io::Error::other("the file is open with another backend"))
    }

    fn id(&self) -> FileId {
        self.0
    }

    fn is_writable(&self) -> bool {
        true
    }
}

/// A way to open a file at a path, with options.
type Open = fn(&Cache, &Path, OpenOptions) -> Result<File, Error>;

/// The ways to open a file again: as it is, to be made if it is not there, to be emptied, and with a backend.
fn ways() -> [Open; 4] {
    [
        |cache, path, options| cache.open_with(path, &options.write()),
        |cache, path, options| cache.open_with(path, &options.create()),
        |cache, path, options| cache.open_with(path, &options.truncate()),
        |cache, path, options| {
            let metadata = std::fs::metadata(path).unwrap();
            let id = FileId {
                device: metadata.dev(),
                inode: metadata.ino(),
            };
            cache.open_backend_with(SameFile(id), path, &options.write())
        },
    ]
}

/// A file of three pages at a path, written back when asked only, with a hook that counts; with one page dirty.
fn opened(cache: &Cache, path: &Path) -> (File, Arc<BeforeWrite>, Arc<AtomicU64>) {
    std::fs::write(path, [7; 3 * PAGE]).unwrap();
    let (hook, nr_calls) = counting();
    let options = OpenOptions::new()
        .page_size(PAGE)
        .writeback(Writeback::Manual)
        .before_write_shared(Arc::clone(&hook));
    let file = cache.open_with(path, &options).unwrap();
    (file, hook, nr_calls)
}

#[test]
fn what_is_not_named_is_the_files() {
    let dir = pagewell_testkit::scratch::dir();
    for (nr, keep) in keepers().into_iter().enumerate() {
        for (way, open) in ways().into_iter().enumerate() {
            let path = dir.path().join(format!("file-{nr}-{way}"));
            let cache = cache();
            let (file, _, nr_calls) = opened(&cache, &path);
            let kept = keep(&cache, file);

            let reader = cache.open(&path).unwrap();
            assert_eq!(reader.page_size(), PAGE);
            let writer = open(&cache, &path, OpenOptions::new()).unwrap();
            assert_eq!(writer.page_size(), PAGE);
            writer.write_at(&[1; 10], 0).unwrap();
            // Nothing is written in the background, and the hook is asked.
            assert_eq!(writer.flush(0..u64::MAX).unwrap(), 1);
            assert_eq!(
                nr_calls.load(Ordering::Relaxed),
                1,
                "keeper {nr}, way {way}"
            );
            drop((kept, reader, writer));
        }
    }
}

#[test]
fn another_option_than_the_files_is_an_error_and_changes_nothing() {
    let dir = pagewell_testkit::scratch::dir();
    let (other_hook, nr_other_calls) = counting();
    let others = [
        (
            OpenOptions::new().before_write_shared(other_hook),
            ErrorKind::OptionsMismatch,
            "callback",
        ),
        (
            OpenOptions::new().before_write(|_, _| Ok(())),
            ErrorKind::OptionsMismatch,
            "callback",
        ),
        (
            OpenOptions::new().writeback(Writeback::Background),
            ErrorKind::OptionsMismatch,
            "Manual",
        ),
        (
            OpenOptions::new().page_size(4096),
            ErrorKind::PageSizeMismatch,
            "16384",
        ),
    ];
    for (nr, keep) in keepers().into_iter().enumerate() {
        for (way, open) in ways().into_iter().enumerate() {
            let path = dir.path().join(format!("file-{nr}-{way}"));
            let cache = cache();
            let (file, _, nr_calls) = opened(&cache, &path);
            let kept = keep(&cache, file);
            for (options, kind, says) in &others {
                let error = open(&cache, &path, options.clone()).unwrap_err();
                assert_eq!(error.kind(), *kind, "keeper {nr}, way {way}: {error}");
                assert!(error.to_string().contains(says), "{error}");
                let error = io::Error::from(error);
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
                assert_eq!(std::fs::read(&path).unwrap(), [7; 3 * PAGE]);
            }
            // The file's own hook is still the one that is asked.
            let writer = cache.open_with(&path, &OpenOptions::new().write()).unwrap();
            assert_eq!(writer.size(), 3 * PAGE as u64);
            writer.write_at(&[1; 10], 0).unwrap();
            writer.sync_data().unwrap();
            assert_eq!(nr_calls.load(Ordering::Relaxed), 1);
            drop((kept, writer));
        }
    }
    assert_eq!(nr_other_calls.load(Ordering::Relaxed), 0);
}

#[test]
fn a_hook_or_a_mode_that_the_file_was_opened_without_is_another_one() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let cache = cache();
    let file = cache
        .open_with(&path, &OpenOptions::new().create())
        .unwrap();
    let hook = OpenOptions::new().before_write(|_, _| Ok(()));
    let manual = OpenOptions::new().writeback(Writeback::Manual);
    for options in [hook, manual] {
        let error = cache.open_with(&path, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OptionsMismatch);
    }
    // What is so by default may be named.
    let background = OpenOptions::new().writeback(Writeback::Background);
    cache.open_with(&path, &background).unwrap();
    drop(file);
}

#[test]
fn the_same_hook_may_be_named_again() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let cache = cache();
    let (first, hook, nr_calls) = opened(&cache, &path);
    let by_name = OpenOptions::new()
        .page_size(PAGE)
        .writeback(Writeback::Manual)
        .before_write_shared(hook);
    for options in [by_name.clone(), by_name] {
        let again = cache.open_with(&path, &options).unwrap();
        again.write_at(&[1; 10], 0).unwrap();
        again.sync_data().unwrap();
    }
    drop(first);
    assert_eq!(nr_calls.load(Ordering::Relaxed), 2);

    // Options that are given twice name one hook, also if it is a closure.
    let seen = Arc::new(Mutex::new(Vec::new()));
    let options = {
        let seen = Arc::clone(&seen);
        OpenOptions::new().before_write(move |page, lsn| {
            seen.lock().unwrap().push((page, lsn));
            Ok(())
        })
    };
    let first = cache.open_with(&path, &options).unwrap();
    let second = cache.open_with(&path, &options).unwrap();
    second.write_at_lsn(&[1; 10], 0, 3).unwrap();
    first.sync_data().unwrap();
    assert_eq!(*seen.lock().unwrap(), [(0, 3)]);
}

/// Contents, size and times of the file at `path`.
fn state(path: &Path) -> (Vec<u8>, [i64; 5]) {
    // The times first: reading changes one of them.
    let metadata = std::fs::metadata(path).unwrap();
    let times = [
        metadata.size() as i64,
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    ];
    (std::fs::read(path).unwrap(), times)
}

/// The lock step truncated the file, and later checks could still refuse it.
#[test]
fn a_truncating_open_that_fails_leaves_the_file_as_it_was() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    std::fs::write(&path, vec![7; 100_000]).unwrap();
    let before = state(&path);
    let small = Cache::builder().capacity(128 << 10).build().unwrap();
    // The cache is too small for pages of this size.
    let options = OpenOptions::new().truncate().page_size(65536);
    let error = small.open_with(&path, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
    assert!(state(&path) == before);
    // Nothing is left of it, neither a lock nor an open file.
    let file = cache()
        .open_with(&path, &OpenOptions::new().write())
        .unwrap();
    drop(file);
    let file = small
        .open_with(&path, &OpenOptions::new().truncate())
        .unwrap();
    assert_eq!(file.size(), 0);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
}

/// Another thread opened the file for reading between the lock and the registration: `Busy`, and the file was empty.
#[test]
fn a_truncating_open_that_meets_a_reader_leaves_the_file_as_it_was() {
    const MIN_ROUNDS: usize = 300;
    const MAX_ROUNDS: usize = 5000;
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let cache = cache();
    let (begin, end) = (Barrier::new(2), Barrier::new(2));
    let is_over = AtomicBool::new(false);
    let mut nr_opened_and_busy = [0; 2];
    let mut outcomes = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                begin.wait();
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let reader = cache.open(&path);
                end.wait();
                drop(reader);
            }
        });
        for nr in 0..MAX_ROUNDS {
            if nr >= MIN_ROUNDS && !nr_opened_and_busy.contains(&0) {
                break;
            }
            std::fs::write(&path, b"all").unwrap();
            begin.wait();
            let opened = cache.open_with(&path, &OpenOptions::new().truncate());
            let stored = std::fs::read(&path).unwrap();
            end.wait();
            nr_opened_and_busy[usize::from(opened.is_err())] += 1;
            outcomes.push((opened.map(drop), stored));
        }
        is_over.store(true, Ordering::Relaxed);
        begin.wait();
    });
    for (opened, stored) in outcomes {
        match opened {
            Ok(()) => assert_eq!(stored, b""),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                assert_eq!(stored, b"all");
            }
        }
    }
    if nr_opened_and_busy.contains(&0) {
        skipped("one of the threads was always first");
    }
}

/// A backend that panics when it is asked for its raw file.
#[derive(Debug)]
struct Panics;

impl Backend for Panics {
    fn read_at(&self, _: &[RacyBytes<'_>], _: u64) -> io::Result<usize> {
        Ok(0)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn id(&self) -> FileId {
        FileId {
            device: u64::MAX,
            inode: 1,
        }
    }

    fn raw_file(self: Arc<Self>) -> Option<Arc<dyn RawFile>> {
        panic!("made to panic")
    }
}

#[test]
fn a_backend_that_panics_while_it_is_opened_is_an_error_of_its_file() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    std::fs::write(&path, b"all").unwrap();
    let cache = cache();
    for _ in 0..2 {
        let error = cache.open_backend(Panics, "panics").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.to_string().contains("panics"), "{error}");
    }
    let mut buf = [0; 3];
    let file = cache.open(&path).unwrap();
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), 3);
    drop(file);
    assert_eq!(cache.stats().nr_free, cache.stats().nr_frames);
}
