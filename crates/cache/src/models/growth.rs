//! Writes that extend a file, against reads at its end, and against changes of the backend's size.

use std::sync::Arc;

use loom::sync::atomic::{AtomicUsize, Ordering};
use pagewell_frame::FRAME_BYTES;
use pagewell_io::MemoryBackend;
use pagewell_io_testing::{Fault, FaultBackend, Operation};

use super::{
    HALF, OURS, append, assert_ours, clean, closed, cold, cold_half, explore_file, only_byte, pool,
    read, resize, shared, shared_half, spawn, stored, sync, warm, writable_on, write,
};
use crate::base::error::Op;
use crate::files::opened::Opened;
use crate::files::state::Files;
use crate::mapping::record::Mapping;
use crate::mapping::remove::refresh;
use crate::read::lookup::Lookup;
use crate::read::reader::{ReadPath, Reader};
use crate::write::growth::Grower;

/// Asserts that the file's bytes are [`OURS`] up to `old`, and `new` from there on.
fn assert_prefix(mapping: &Mapping, old: usize, new: u8, path: ReadPath) {
    let size = mapping.size() as usize;
    let mut buf = vec![0; size];
    let n = Reader(mapping)
        .read_pages(&mut buf, 0, path, |_, _| 1)
        .expect("a readable file");
    assert_eq!(n, size, "less than the size that was seen");
    assert!(buf[..old].iter().all(|b| *b == OURS), "{buf:x?}");
    assert!(
        buf[old..].iter().all(|b| *b == new),
        "the size was seen before the bytes: {buf:x?}"
    );
}

/// A reader that sees the new size sees the appended bytes.
fn append_vs_read(path: ReadPath) {
    explore_file(
        3,
        clean,
        pool::<5>,
        cold::<1>,
        move |_, mapping, backend| {
            warm(&mapping, 0);
            let reader = spawn(&mapping, move |mapping| {
                assert_prefix(&mapping, FRAME_BYTES, 1, path)
            });
            let page = FRAME_BYTES as u64;
            assert_eq!(append(&mapping, &[1; FRAME_BYTES]), page..2 * page);
            reader.join().unwrap();
            sync(&mapping);
            let expected = [[OURS; FRAME_BYTES], [1; FRAME_BYTES]].concat();
            assert_eq!(stored(&backend), expected);
        },
    );
}

#[test]
fn loom_append_vs_read() {
    append_vs_read(ReadPath::Optimistic);
}

#[test]
fn loom_append_vs_referenced_read() {
    append_vs_read(ReadPath::Referenced);
}

#[test]
fn loom_append_within_page_vs_read() {
    explore_file(3, clean, pool::<4>, cold_half, |_, mapping, backend| {
        warm(&mapping, 0);
        let reader = spawn(&mapping, move |mapping| {
            assert_prefix(&mapping, HALF, 1, ReadPath::Optimistic);
            assert_prefix(&mapping, HALF, 1, ReadPath::Referenced);
        });
        append(&mapping, &[1; HALF]);
        reader.join().unwrap();
        sync(&mapping);
        assert_eq!(stored(&backend), [[OURS; HALF], [1; HALF]].concat());
    });
}

/// The gap before a write past the end reads as zeros, whatever the last page had there.
#[test]
fn loom_gap_vs_read() {
    explore_file(3, clean, pool::<5>, cold::<1>, |_, mapping, _| {
        warm(&mapping, 0);
        resize(&mapping, HALF as u64);
        let reader = spawn(&mapping, move |mapping| {
            let size = mapping.size() as usize;
            let mut buf = vec![7; size];
            let n = Reader(&mapping).read_pages(&mut buf, 0, ReadPath::Optimistic, |_, _| 1);
            assert_eq!(n.expect("a readable file"), size);
            assert!(buf[..HALF].iter().all(|b| *b == OURS), "{buf:x?}");
            let gap = &buf[HALF..size.min(FRAME_BYTES)];
            assert!(gap.iter().all(|b| *b == 0), "{buf:x?}");
            assert!(
                buf[size.min(FRAME_BYTES)..].iter().all(|b| *b == 1),
                "{buf:x?}"
            );
        });
        write(&mapping, 1, 1);
        reader.join().unwrap();
    });
}

/// A page is appended during a sync. The next sync writes the bytes that this sync has not seen.
#[test]
fn loom_append_vs_sync() {
    explore_file(3, clean, pool::<5>, cold::<1>, |_, mapping, backend| {
        let syncer = spawn(&mapping, move |mapping| sync(&mapping));
        append(&mapping, &[1; FRAME_BYTES]);
        syncer.join().unwrap();
        let before = stored(&backend);
        assert!(before[..FRAME_BYTES].iter().all(|b| *b == OURS));
        assert!(before[FRAME_BYTES..].iter().all(|b| *b == 1), "{before:x?}");
        sync(&mapping);
        let expected = [[OURS; FRAME_BYTES], [1; FRAME_BYTES]].concat();
        assert_eq!(stored(&backend), expected);
    });
}

#[test]
fn loom_append_vs_append() {
    explore_file(3, clean, pool::<4>, cold::<1>, |_, mapping, _| {
        resize(&mapping, 0);
        let other = spawn(&mapping, move |mapping| append(&mapping, &[1; HALF]));
        let ours = append(&mapping, &[2; HALF]);
        let [ours, theirs] = [ours, other.join().unwrap()].map(|at| at.start as usize);
        assert_eq!(ours + theirs, HALF, "two appends at one place");
        let bytes = read(&mapping, 0, ReadPath::Optimistic);
        assert_eq!(only_half(&bytes, ours), 2);
        assert_eq!(only_half(&bytes, theirs), 1);
    });
}

fn only_half(bytes: &[u8], from: usize) -> u8 {
    only_byte(&bytes[from..from + HALF].repeat(2))
}

#[test]
fn loom_append_within_page_vs_sync() {
    explore_file(3, clean, pool::<5>, cold_half, |_, mapping, backend| {
        warm(&mapping, 0);
        let syncer = spawn(&mapping, move |mapping| sync(&mapping));
        append(&mapping, &[1; HALF]);
        syncer.join().unwrap();
        sync(&mapping);
        assert_eq!(stored(&backend), [[OURS; HALF], [1; HALF]].concat());
    });
}

/// Opens a file of one uncached page, on a backend that orders its calls as the system does.
fn on_ordered_storage(
    files: &Arc<Files>,
    fails: fn(&Operation) -> bool,
) -> (Opened, Arc<MemoryBackend>) {
    let storage = Arc::new(MemoryBackend::writable(vec![OURS; FRAME_BYTES]));
    let nr_calls = AtomicUsize::new(0);
    let backend = FaultBackend::with_script(Arc::clone(&storage), move |operation| {
        // ORDERING: AcqRel; accesses before a call are visible after later calls.
        nr_calls.fetch_add(1, Ordering::AcqRel);
        if fails(operation) {
            return Fault::Fail(std::io::Error::other("as the model wants"));
        }
        Fault::None
    });
    (writable_on(files, backend), storage)
}

fn ordered(files: &Arc<Files>) -> (Opened, Arc<MemoryBackend>) {
    on_ordered_storage(files, |_| false)
}

fn failing_cut(files: &Arc<Files>) -> (Opened, Arc<MemoryBackend>) {
    on_ordered_storage(files, |call| matches!(call, Operation::SetSize { .. }))
}

/// The read returns all of an uncached page, or finds that the file ends before it.
#[test]
fn loom_read_vs_cut() {
    explore_file(3, closed, pool::<5>, ordered, |_, mapping, storage| {
        let reader = spawn(&mapping, move |mapping| {
            let bytes = read(&mapping, 0, ReadPath::Optimistic);
            assert!(bytes.is_empty() || only_byte(&bytes) == OURS, "{bytes:x?}");
        });
        resize(&mapping, 0);
        assert!(read(&mapping, 0, ReadPath::Optimistic).is_empty());
        reader.join().unwrap();
        assert!(stored(&storage).is_empty());
    });
}

/// A truncation fails while the file is read. No reader sees the shorter file.
#[test]
fn loom_read_vs_failed_cut() {
    explore_file(3, closed, pool::<5>, failing_cut, |_, mapping, _| {
        warm(&mapping, 0);
        let reader = spawn(&mapping, move |mapping| {
            let bytes = read(&mapping, 0, ReadPath::Optimistic);
            assert_eq!(only_byte(&bytes), OURS);
        });
        Grower(&mapping)
            .resize(0)
            .expect_err("a storage that fails");
        reader.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), OURS);
    });
}

/// The read returns old or new bytes, but not the zeros past the old end.
fn read_vs_growth(path: ReadPath) {
    explore_file(
        2,
        closed,
        pool::<4>,
        shared_half,
        move |_, mapping, backend| {
            warm(&mapping, 0);
            backend
                .inner()
                .modify(|bytes| bytes.resize(FRAME_BYTES, OURS));
            let reader = spawn(&mapping, move |mapping| {
                assert_ours(&read(&mapping, 0, path))
            });
            refresh(&mapping, Op::Read).expect("a size");
            reader.join().unwrap();
        },
    );
}

#[test]
fn loom_read_vs_growth() {
    read_vs_growth(ReadPath::Optimistic);
}

#[test]
fn loom_referenced_read_vs_growth() {
    read_vs_growth(ReadPath::Referenced);
}

/// During one lookup, the file shrinks, its truncated page is filled, and the file grows again. The
/// lookup returns the end of the truncated page, not the end before and after.
#[test]
fn loom_read_vs_shrink_and_growth() {
    explore_file(2, closed, pool::<4>, shared::<1>, |_, mapping, backend| {
        let reader = spawn(&mapping, move |mapping| {
            let mut buf = [OURS; FRAME_BYTES];
            if let Ok(n) = Reader(&mapping).read_page_referenced(0, 0, 0, &mut buf, || 1) {
                assert_ours(&buf[..n]);
            }
        });
        backend.inner().modify(|bytes| bytes.truncate(HALF));
        refresh(&mapping, Op::Read).expect("a size");
        drop(Lookup(&mapping).get(0, || 1));
        backend
            .inner()
            .modify(|bytes| bytes.resize(FRAME_BYTES, OURS));
        refresh(&mapping, Op::Read).expect("a size");
        reader.join().unwrap();
    });
}

/// A fill of the last page zeros the bytes past the old end. After a refresh, none are read.
#[test]
fn loom_fill_vs_refresh() {
    explore_file(3, closed, pool::<4>, shared_half, |_, mapping, backend| {
        backend
            .inner()
            .modify(|bytes| bytes.resize(FRAME_BYTES, OURS));
        let filler = spawn(&mapping, move |mapping| {
            let mut buf = [0; FRAME_BYTES];
            let n = Reader(&mapping)
                .read_page_referenced(0, 0, 0, &mut buf, || 1)
                .expect("a readable page");
            assert_ours(&buf[..n]);
        });
        assert_eq!(
            refresh(&mapping, Op::Read).expect("a size"),
            FRAME_BYTES as u64
        );
        filler.join().unwrap();
        let bytes = read(&mapping, 0, ReadPath::Referenced);
        assert_eq!(bytes.len(), FRAME_BYTES);
        assert_ours(&bytes);
    });
}
