//! What a checkpoint needs: how much of a file is dirty and written, from which log sequence number
//! on; syncs of a part.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pagewell::io::{Fault, Operation};
use pagewell::{Cache, ErrorKind, File};
use pagewell_testkit::wait::{Gate, OpenAtEnd, bounded_by, until};

use crate::storage::{EIO, errno, manual, open_scripted, stored};
use crate::support::{PAGE, cache};

fn write(file: &File, page: u64, lsn: u64) {
    // All of it, so that nothing is read.
    let nr = file.write_at_lsn(&[lsn as u8; PAGE], page * PAGE as u64, lsn);
    assert_eq!(nr.unwrap(), PAGE);
}

fn open(cache: &Cache) -> File {
    open_scripted(cache, &[0; 8 * PAGE], &manual()).0
}

fn numbers(file: &File) -> (usize, usize) {
    let stats = file.stats();
    (stats.nr_dirty, stats.nr_written)
}

/// A hook that refuses this page as long as the flag says so.
fn refusing(
    refused: u64,
    is_refusing: &Arc<AtomicBool>,
) -> impl Fn(u64, u64) -> io::Result<()> + Send + Sync + 'static {
    let is_refusing = Arc::clone(is_refusing);
    move |page, _| match page == refused && is_refusing.load(Ordering::Relaxed) {
        true => Err(io::Error::other("not yet")),
        false => Ok(()),
    }
}

#[test]
fn stats_tell_what_is_dirty_and_written() {
    let cache = cache(64);
    let file = open(&cache);
    assert_eq!(numbers(&file), (0, 0));
    for page in [1, 2, 5] {
        write(&file, page, 0);
    }
    assert_eq!(numbers(&file), (3, 0));
    file.flush(0..3 * PAGE as u64).unwrap();
    assert_eq!(numbers(&file), (1, 2));
    write(&file, 1, 0);
    assert_eq!(numbers(&file), (2, 2));
    write(&file, 7, 0);
    assert_eq!(numbers(&file), (3, 2));
    file.sync_data().unwrap();
    assert_eq!(numbers(&file), (0, 0));
    assert_eq!(file.stats().oldest_lsn, None);
}

/// The number of a page is that of its last write; a recovery that began there would leave out the first ones.
#[test]
fn the_oldest_number_is_there_until_its_write_is_durable() {
    let cache = cache(64);
    let is_refusing = Arc::new(AtomicBool::new(false));
    let options = manual().before_write(refusing(3, &is_refusing));
    let (file, _, script) = open_scripted(&cache, &[0; 8 * PAGE], &options);
    let oldest = || file.stats().oldest_lsn;
    write(&file, 3, 20);
    write(&file, 1, 10);
    write(&file, 1, 50);
    assert_eq!(oldest(), Some(10));
    file.flush(0..u64::MAX).unwrap();
    assert_eq!(oldest(), Some(10), "what was given is not durable");
    script.set(|operation| match operation {
        Operation::SyncData => Fault::Fail(errno(EIO)),
        _ => Fault::None,
    });
    file.sync_data().unwrap_err();
    assert_eq!(oldest(), Some(10));
    script.set(|_| Fault::None);
    is_refusing.store(true, Ordering::Relaxed);
    assert_eq!(file.sync_data().unwrap_err().kind(), ErrorKind::Refused);
    assert!(oldest().unwrap() <= 20);
    is_refusing.store(false, Ordering::Relaxed);
    file.sync_range(0..PAGE as u64).unwrap();
    assert!(oldest().unwrap() <= 20);
    file.sync_data().unwrap();
    assert_eq!(oldest(), None);
    // A page that was dirtied by a write without a number.
    write(&file, 4, 0);
    assert_eq!(oldest(), None);
    write(&file, 4, 60);
    assert_eq!(oldest(), Some(60));
    let mut guard = file.pin_mut(5).unwrap();
    guard.set_lsn(55);
    drop(guard);
    assert_eq!(oldest(), Some(55));
}

#[test]
fn the_oldest_number_of_a_write_during_a_sync_is_kept() {
    bounded_by(Duration::from_secs(60), "a late sync", || {
        let cache = cache(64);
        let (file, _, script) = open_scripted(&cache, &[0; 8 * PAGE], &manual());
        let gate = Arc::new(Gate::new());
        let held = Arc::clone(&gate);
        script.set(move |operation| {
            if matches!(operation, Operation::SyncData) {
                held.pass();
            }
            Fault::None
        });
        write(&file, 1, 10);
        std::thread::scope(|scope| {
            let _open = OpenAtEnd(&gate);
            let sync = scope.spawn(|| file.sync_data());
            until("the storage syncs", || gate.nr_arrived() == 1);
            assert_eq!(file.stats().oldest_lsn, Some(10));
            write(&file, 2, 30);
            write(&file, 1, 40);
            assert_eq!(file.stats().oldest_lsn, Some(10));
            gate.open();
            sync.join().unwrap().unwrap();
        });
        assert_eq!(file.stats().oldest_lsn, Some(30));
        file.sync_data().unwrap();
        assert_eq!(file.stats().oldest_lsn, None);
    });
}

#[test]
fn a_sync_of_a_range_leaves_other_pages_alone() {
    let cache = cache(64);
    let is_refusing = Arc::new(AtomicBool::new(true));
    let options = manual().before_write(refusing(0, &is_refusing));
    let (file, backend, script) = open_scripted(&cache, &[0; 8 * PAGE], &options);
    for page in 0..8 {
        write(&file, page, page + 1);
    }
    file.sync_range(2 * PAGE as u64 + 1..4 * PAGE as u64)
        .unwrap();
    assert_eq!(backend.nr_sync_datas(), 1);
    assert_eq!(numbers(&file), (6, 0));
    let bytes = stored(Arc::clone(&backend));
    let is_stored = |page: usize| bytes[page * PAGE] != 0;
    let pages: Vec<_> = (0..8).filter(|page| is_stored(*page)).collect();
    assert_eq!(pages, [2, 3]);
    // A page that is refused is in the way only if it is asked for.
    let error = file.sync_range(0..1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    is_refusing.store(false, Ordering::Relaxed);
    // A sync of a part does not make good what another has lost.
    script.set(|operation| match operation {
        Operation::SyncData => Fault::Fail(errno(EIO)),
        _ => Fault::None,
    });
    file.sync_data().unwrap_err();
    script.set(|_| Fault::None);
    file.sync_range(0..1).unwrap();
    let error = file.discard(7 * PAGE as u64..u64::MAX).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    file.sync_data().unwrap();
    assert_eq!(numbers(&file), (0, 0));
}

#[test]
fn a_sync_of_a_range_tells_the_size_that_reading_it_takes() {
    let cache = cache(64);
    let (file, backend, _) = open_scripted(&cache, &[], &manual());
    // A gap, and a page.
    write(&file, 5, 1);
    file.sync_range(0..2 * PAGE as u64).unwrap();
    assert_eq!(stored(Arc::clone(&backend)), [0; 2 * PAGE]);
    file.sync_range(0..u64::MAX).unwrap();
    assert_eq!(stored(backend).len(), 6 * PAGE);
}
