//! Barriers: the order in which the storage gets writes before and after them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use loom::thread;
use pagewell_frame::FRAME_BYTES;
use pagewell_frame::refcount::LockBit;
use pagewell_io::{Fault, FaultBackend, MemoryBackend, Operation};

use super::{
    OURS, assert_clean_and_at_rest, explore, pool, stored, sync, warm, writable_on, write,
};
use crate::files::opened::Opened;
use crate::files::state::Files;
use crate::writeback::barrier::Barriers;
use crate::writeback::flush::Flusher;

/// A file of two pages of [`OURS`], cached, on a storage that must get the second page only after another first page than
/// that is durable.
fn ordered(files: &Arc<Files<LockBit>>) -> (Opened<LockBit>, Arc<MemoryBackend>) {
    let backend = Arc::new(MemoryBackend::writable(vec![OURS; 2 * FRAME_BYTES]));
    let durable = AtomicU8::new(OURS);
    let bytes = Arc::clone(&backend);
    let checked = FaultBackend::with_script(Arc::clone(&backend), move |operation| {
        // ORDERING: Relaxed, both; only the script uses it, and it is no part of the model.
        match operation {
            Operation::Write { pos, len } if pos + *len as u64 > FRAME_BYTES as u64 => {
                let durable = durable.load(Ordering::Relaxed);
                assert_ne!(durable, OURS, "the groups are out of order");
            }
            Operation::SyncData => {
                bytes.modify(|bytes| durable.store(bytes[0], Ordering::Relaxed));
            }
            _ => {}
        }
        Fault::None
    });
    let mapping = writable_on(files, checked);
    warm(&mapping, 0);
    warm(&mapping, 1);
    (mapping, backend)
}

/// A dirty page is written to while a barrier is made: either write may be the last, and neither
/// brings the other side of the barrier to the storage first.
#[test]
fn loom_write_vs_barrier() {
    explore(2, || {
        let files = pool::<LockBit>(6);
        let (mapping, backend) = ordered(&files);
        write(&mapping, 0, 1);
        let writer = {
            let mapping = Arc::clone(mapping.mapping());
            thread::spawn(move || write(&mapping, 0, 3))
        };
        Barriers(&mapping).barrier().expect("a healthy storage");
        write(&mapping, 1, 2);
        Flusher(&mapping).flush(0..2).expect("a healthy storage");
        writer.join().unwrap();
        sync(&mapping);
        let bytes = stored(&backend);
        assert_eq!([bytes[0], bytes[FRAME_BYTES]], [3, 2]);
        assert_clean_and_at_rest(&files, mapping);
    });
}

/// A page of the earlier group is written to while the next barrier makes that durable: the writer waits for no more than that, and is
/// woken. (Nothing that comes after it in the other thread would wake it by chance.)
#[test]
fn loom_write_vs_settle() {
    explore(2, || {
        let files = pool::<LockBit>(6);
        let (mapping, backend) = ordered(&files);
        write(&mapping, 0, 1);
        Barriers(&mapping).barrier().expect("a healthy storage");
        let other = {
            let mapping = Arc::clone(mapping.mapping());
            thread::spawn(move || Barriers(&mapping).barrier().expect("a healthy storage"))
        };
        write(&mapping, 0, 3);
        other.join().unwrap();
        write(&mapping, 1, 2);
        sync(&mapping);
        let bytes = stored(&backend);
        assert_eq!([bytes[0], bytes[FRAME_BYTES]], [3, 2]);
        assert_clean_and_at_rest(&files, mapping);
    });
}

/// Pages are written back while a group is ended and the next one begun.
#[test]
fn loom_flush_vs_barrier() {
    explore(2, || {
        let files = pool::<LockBit>(6);
        let (mapping, backend) = ordered(&files);
        write(&mapping, 0, 1);
        let flusher = {
            let mapping = Arc::clone(mapping.mapping());
            thread::spawn(move || Flusher(&mapping).flush(0..2).expect("a healthy storage"))
        };
        Barriers(&mapping).barrier().expect("a healthy storage");
        write(&mapping, 1, 2);
        flusher.join().unwrap();
        sync(&mapping);
        let bytes = stored(&backend);
        assert_eq!([bytes[0], bytes[FRAME_BYTES]], [1, 2]);
        assert_clean_and_at_rest(&files, mapping);
    });
}

/// A write to a clean page is under way while a barrier is made, and stores its state when the group should already be
/// durable: no caller is told that the page is held.
#[test]
fn loom_late_write_vs_barrier() {
    explore(2, || {
        let files = pool::<LockBit>(6);
        let backend = Arc::new(MemoryBackend::writable(vec![OURS; 2 * FRAME_BYTES]));
        let mapping = writable_on(&files, Arc::clone(&backend));
        warm(&mapping, 0);
        warm(&mapping, 1);
        let writer = {
            let mapping = Arc::clone(mapping.mapping());
            thread::spawn(move || write(&mapping, 0, 3))
        };
        Barriers(&mapping).barrier().expect("a healthy storage");
        write(&mapping, 1, 2);
        Flusher(&mapping).flush(1..2).expect("a healthy storage");
        writer.join().unwrap();
        sync(&mapping);
        assert_clean_and_at_rest(&files, mapping);
    });
}
