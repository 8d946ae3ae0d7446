//! Writeback and syncs against concurrent writes, discards, evictions and truncations.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pagewell_frame::FRAME_BYTES;
use pagewell_io::MemoryBackend;
use pagewell_io_testing::{Fault, FaultBackend, Operation};

use super::{
    OURS, assert_synced, clean, evict, explore, explore_file, flush, is_dirty, only_byte, pool,
    read, resize, spawn, stored, sync, warm, writable, writable_on, write,
};
use crate::dirty::commits::Sync as What;
use crate::dirty::page_set::{PageSets, Which};
use crate::files::opened::Opened;
use crate::files::state::Files;
use crate::read::reader::ReadPath;
use crate::writeback::flush::{Flusher, discard};

/// Opens a file of one cached page, on a backend that fails the first call that `fails` selects. A
/// failed sync loses the written bytes without a record of the loss.
fn failing(files: &Arc<Files>, fails: fn(&Operation) -> bool) -> (Opened, Arc<MemoryBackend>) {
    let backend = Arc::new(MemoryBackend::writable(vec![OURS; FRAME_BYTES]));
    let has_failed = AtomicBool::new(false);
    let bytes = Arc::clone(&backend);
    let faulty = FaultBackend::with_script(Arc::clone(&backend), move |operation| {
        // ORDERING: Relaxed; the flag is not part of the model.
        if !fails(operation) || has_failed.swap(true, Ordering::Relaxed) {
            return Fault::None;
        }
        if matches!(operation, Operation::SyncData) {
            bytes.modify(|bytes| bytes.fill(OURS));
        }
        Fault::Fail(io::Error::other("a fault of the model"))
    });
    let mapping = writable_on(files, faulty);
    warm(&mapping, 0);
    (mapping, backend)
}

fn failing_write(files: &Arc<Files>) -> (Opened, Arc<MemoryBackend>) {
    failing(files, |operation| {
        matches!(operation, Operation::Write { .. })
    })
}

fn failing_sync(files: &Arc<Files>) -> (Opened, Arc<MemoryBackend>) {
    failing(files, |operation| matches!(operation, Operation::SyncData))
}

/// The backend gets all of one version or all of the other, and the last with the next flush.
#[test]
fn loom_write_vs_flush() {
    explore_file(3, clean, pool::<4>, writable, |_, mapping, backend| {
        write(&mapping, 0, 1);
        let flusher = spawn(&mapping, move |mapping| flush(&mapping));
        write(&mapping, 0, 2);
        flusher.join().unwrap();
        let byte = only_byte(&stored(&backend));
        assert!(byte == 1 || byte == 2, "{byte}");
        assert_synced(&mapping, &backend, 2);
    });
}

/// Afterwards the page is dirty, and has the bytes written last.
#[test]
fn loom_flush_fails_vs_write() {
    explore_file(3, clean, pool::<4>, failing_write, |_, mapping, backend| {
        write(&mapping, 0, 1);
        let flusher = spawn(&mapping, move |mapping| {
            assert!(Flusher(&mapping).flush(0..1).is_err())
        });
        write(&mapping, 0, 2);
        flusher.join().unwrap();
        assert_eq!(only_byte(&stored(&backend)), OURS);
        assert!(is_dirty(&mapping), "what was not taken is forgotten");
        assert_synced(&mapping, &backend, 2);
    });
}

/// An eviction is tried while the writeback of the page fails. The page stays.
#[test]
fn loom_flush_fails_vs_evict() {
    explore_file(
        3,
        clean,
        pool::<4>,
        failing_write,
        |files, mapping, backend| {
            let frame = warm(&mapping, 0);
            write(&mapping, 0, 1);
            let evictor = spawn(files, move |files| evict(files.supply(), frame).is_none());
            assert!(Flusher(&mapping).flush(0..1).is_err());
            assert!(evictor.join().unwrap());
            assert!(is_dirty(&mapping), "what was not taken is forgotten");
            assert_synced(&mapping, &backend, 1);
        },
    );
}

/// A page is written during a sync. The next sync writes the bytes that this sync has not seen.
#[test]
fn loom_sync_vs_write() {
    explore_file(3, clean, pool::<4>, writable, |_, mapping, backend| {
        write(&mapping, 0, 1);
        let syncer = spawn(&mapping, move |mapping| sync(&mapping));
        write(&mapping, 0, 2);
        syncer.join().unwrap();
        let byte = only_byte(&stored(&backend));
        assert!(byte == 1 || byte == 2, "{byte}");
        assert_eq!(is_dirty(&mapping), byte == 1);
        assert_synced(&mapping, &backend, 2);
    });
}

/// The failed sync loses the bytes. The page is dirty, and the next sync writes it again.
#[test]
fn loom_sync_fails_vs_write() {
    explore_file(2, clean, pool::<4>, failing_sync, |_, mapping, backend| {
        write(&mapping, 0, 1);
        let writer = spawn(&mapping, move |mapping| write(&mapping, 0, 2));
        assert!(Flusher(&mapping).sync(What::Data).is_err());
        assert!(is_dirty(&mapping), "what was lost is forgotten");
        writer.join().unwrap();
        assert_synced(&mapping, &backend, 2);
    });
}

/// The page stays and is dirty, since the backend has lost its bytes.
#[test]
fn loom_sync_fails_vs_evict() {
    explore_file(
        3,
        clean,
        pool::<4>,
        failing_sync,
        |files, mapping, backend| {
            let frame = warm(&mapping, 0);
            write(&mapping, 0, 1);
            let evictor = spawn(files, move |files| drop(evict(files.supply(), frame)));
            assert!(Flusher(&mapping).sync(What::Data).is_err());
            evictor.join().unwrap();
            assert_synced(&mapping, &backend, 1);
        },
    );
}

/// Later reads return the bytes that the backend has durably.
#[test]
fn loom_discard_vs_flush() {
    explore_file(3, clean, pool::<4>, writable, |_, mapping, backend| {
        write(&mapping, 0, 1);
        let flusher = spawn(&mapping, move |mapping| flush(&mapping));
        discard(&mapping, 0..1).expect("a healthy storage");
        let seen = only_byte(&read(&mapping, 0, ReadPath::Referenced));
        flusher.join().unwrap();
        assert!(seen == OURS || seen == 1);
        assert_eq!(only_byte(&stored(&backend)), seen);
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), seen);
    });
}

/// The write is visible and will be written back, or is discarded.
#[test]
fn loom_discard_vs_write() {
    explore_file(2, clean, pool::<4>, writable, |_, mapping, backend| {
        write(&mapping, 0, 1);
        let writer = spawn(&mapping, move |mapping| write(&mapping, 0, 2));
        discard(&mapping, 0..1).expect("a healthy storage");
        writer.join().unwrap();
        let seen = only_byte(&read(&mapping, 0, ReadPath::Referenced));
        assert!(seen == OURS || seen == 2, "{seen}");
        assert_eq!(is_dirty(&mapping), seen == 2);
        assert_synced(&mapping, &backend, seen);
    });
}

/// The truncated bytes do not reappear.
#[test]
fn loom_flush_vs_truncate() {
    explore_file(3, clean, pool::<4>, writable, |_, mapping, backend| {
        write(&mapping, 0, 1);
        let flusher = spawn(&mapping, move |mapping| flush(&mapping));
        resize(&mapping, 0);
        flusher.join().unwrap();
        assert!(!is_dirty(&mapping));
        sync(&mapping);
        assert!(stored(&backend).is_empty());
        resize(&mapping, FRAME_BYTES as u64);
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Referenced)), 0);
    });
}

/// Two claim holders change one word during a walk. Neither change undoes the other.
#[test]
fn loom_set_vs_set() {
    explore(3, || {
        let sets = Arc::new(PageSets::new(2).expect("small sets"));
        let set = sets.set(Which::Written);
        assert!(set.insert(0));
        let other = spawn(&sets, move |sets| {
            assert!(sets.set(Which::Written).insert(1))
        });
        assert!(set.remove(0));
        let seen = set.next(0, 2);
        assert!(seen.is_none() || seen == Some(1));
        other.join().unwrap();
        assert_eq!(set.next(0, 2), Some(1), "a page of the set was lost");
        assert!(set.remove(1));
        assert_eq!(set.next(0, 2), None);
    });
}

/// Each thread finds its page in the word, even if the other insertion is incomplete.
#[test]
fn loom_insert_vs_insert() {
    explore(3, || {
        let sets = Arc::new(PageSets::new(2).expect("small sets"));
        let other = spawn(&sets, move |sets| assert!(sets.set(Which::Dirty).insert(0)));
        let set = sets.set(Which::Dirty);
        assert!(set.insert(1));
        assert!(set.next(0, 2).is_some(), "a page of the set is not found");
        other.join().unwrap();
    });
}

/// A page is removed from two sets. Two walks without a lock both find the other page.
#[test]
fn loom_insert_vs_remove() {
    explore(3, || {
        let sets = Arc::new(PageSets::new(2).expect("small sets"));
        let set = sets.set(Which::Dirty);
        assert!(set.insert(0) && set.insert(1) && sets.set(Which::Written).insert(0));
        let other = spawn(&sets, move |sets| {
            assert!(sets.set(Which::Dirty).remove(0));
            assert!(sets.set(Which::Written).remove(0));
        });
        for _ in 0..2 {
            assert!(set.next(0, 2).is_some(), "a page of the set is not found");
            assert_eq!(set.next(1, 2), Some(1), "a page of the set is not found");
        }
        other.join().unwrap();
        assert_eq!(sets.set(Which::Written).next(0, 2), None);
    });
}
