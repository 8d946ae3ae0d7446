//! Files that the cache reads and writes past the operating system's cache; the engine of a cache.

use pagewell::io::engine::{Choice, Reason, Settings};
use pagewell::io::{Buffered, Direct, FileBackend, MemoryBackend, Transfers};
use pagewell::{Cache, ErrorKind, File, OpenOptions};
use pagewell_testkit::content::content;
use pagewell_testkit::resident::{holds_no_direct_pages, nr_resident};
use pagewell_testkit::scratch;
use pagewell_testkit::skip::skipped;

fn cache() -> Cache {
    Cache::builder().capacity(4 << 20).build().unwrap()
}

/// Whether the file is transferred directly; if not, the test is none.
fn is_direct(file: &File) -> bool {
    match file.transfers() {
        Some(Transfers::Direct { .. }) => true,
        other => {
            skipped(&format!("{other:?}"));
            false
        }
    }
}

#[test]
fn a_file_that_is_written_and_read_leaves_nothing_in_the_cache_of_the_operating_system() {
    let dir = scratch::dir();
    let bytes = content(7, (9 << 20) + 123);
    for (name, direct) in [("direct", Direct::Auto), ("buffered", Direct::Never)] {
        let path = dir.path().join(name);
        let options = OpenOptions::new().create_new().direct(direct);
        let file = cache().open_with(&path, &options).unwrap();
        if direct == Direct::Auto && !is_direct(&file) {
            return;
        }
        // More than the cache has, in pieces that are no whole pages.
        for (nr, piece) in bytes.chunks(10_007).enumerate() {
            let offset = nr as u64 * 10_007;
            assert_eq!(file.write_at(piece, offset).unwrap(), piece.len());
        }
        file.sync_data().unwrap();
        let reader = cache();
        let options = OpenOptions::new().direct(direct);
        let again = reader.open_with(&path, &options).unwrap();
        assert_eq!(again.size(), bytes.len() as u64);
        let mut read = vec![0; bytes.len() + 1];
        assert_eq!(again.read_at(&mut read, 0).unwrap(), bytes.len());
        assert!(read[..bytes.len()] == bytes);
        file.set_size(5001).unwrap();
        file.append(b"end").unwrap();
        file.close().unwrap();
        let whole = std::fs::metadata(&path).unwrap().len();
        assert_eq!(whole, 5004);
        if holds_no_direct_pages(&path) {
            let nr = nr_resident(&path);
            // Those of a buffered file show that the count can fail.
            assert_eq!(nr > 0, direct == Direct::Never, "{nr} pages of {name}");
        }
    }
}

#[test]
fn a_reader_gets_direct_transfers_too_and_leaves_no_page_behind() {
    let dir = scratch::dir();
    let path = dir.path().join("file");
    let bytes = content(3, 300_000);
    let writer = cache();
    let options = OpenOptions::new().create_new().direct(Direct::Auto);
    let file = writer.open_with(&path, &options).unwrap();
    file.write_at(&bytes, 0).unwrap();
    file.close().unwrap();
    let reader = cache();
    let options = OpenOptions::new().direct(Direct::Auto);
    let file = reader.open_with(&path, &options).unwrap();
    if !is_direct(&file) {
        return;
    }
    let mut read = vec![0; bytes.len()];
    assert_eq!(file.read_at(&mut read, 0).unwrap(), bytes.len());
    assert!(read == bytes);
    assert!(!holds_no_direct_pages(&path) || nr_resident(&path) == 0);
}

#[test]
fn an_open_file_keeps_its_transfers_and_who_names_others_is_told() {
    let dir = scratch::dir();
    let path = dir.path().join("file");
    std::fs::write(&path, content(3, 30_000)).unwrap();
    let cache = cache();
    let open = |direct| cache.open_with(&path, &OpenOptions::new().direct(direct));
    let buffered = cache.open(&path).unwrap();
    let not_asked = Some(Transfers::Buffered(Buffered::NotAsked));
    assert_eq!(buffered.transfers(), not_asked);
    for other in [Direct::Auto, Direct::Always] {
        let error = open(other).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OptionsMismatch, "{error}");
        assert!(error.to_string().contains("page cache"), "{error}");
    }
    assert_eq!(open(Direct::Never).unwrap().transfers(), not_asked);
    drop(buffered);

    let direct = open(Direct::Auto).unwrap();
    if !is_direct(&direct) {
        return;
    }
    // What is not named is the file's.
    assert_eq!(cache.open(&path).unwrap().transfers(), direct.transfers());
    assert!(open(Direct::Always).is_ok());
    let error = open(Direct::Never).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OptionsMismatch, "{error}");
}

#[test]
fn a_file_system_in_memory_has_none_and_says_so() {
    let folder = std::path::Path::new("/dev/shm");
    let Ok(dir) = tempfile::tempdir_in(folder) else {
        skipped("no file system in memory");
        return;
    };
    let path = dir.path().join("file");
    std::fs::write(&path, b"bytes").unwrap();
    if FileBackend::open_for_reading(&path, Direct::Always).is_ok() {
        skipped("this file system in memory has direct transfers");
        return;
    }
    let cache = cache();
    let file = cache
        .open_with(&path, &OpenOptions::new().direct(Direct::Auto))
        .unwrap();
    assert!(matches!(file.transfers(), Some(Transfers::Buffered(_))));
    drop(file);
    for options in [OpenOptions::new(), OpenOptions::new().write()] {
        let error = cache
            .open_with(&path, &options.direct(Direct::Always))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"bytes");
}

#[test]
fn the_transfers_of_a_storage_of_the_programs_own_are_its_own() {
    let cache = cache();
    let file = cache
        .open_backend(MemoryBackend::new(vec![7; 100]), "memory")
        .unwrap();
    assert_eq!(file.transfers(), None);
}

#[test]
fn the_engine_is_the_one_that_was_asked_for() {
    let build = |choice| Cache::builder().engine(Settings::new(choice)).build();
    for (choice, name) in [(Choice::Worker, "worker"), (Choice::Sync, "sync")] {
        let info = build(choice).unwrap().info();
        assert_eq!((info.engine, info.engine_reason), (name, Reason::Asked));
    }
    let auto = build(Choice::Auto).unwrap().info();
    match build(Choice::Uring) {
        Ok(cache) => {
            assert_eq!(cache.info().engine, "uring");
            assert_eq!((auto.engine, auto.engine_reason), ("uring", Reason::Best));
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert_eq!(auto.engine, "worker");
            assert!(matches!(auto.engine_reason, Reason::NoUring(_)));
        }
    }
}
