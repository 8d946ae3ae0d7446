//! Writes that extend a file, against reads at its end, and against changes of the backend's size.

use std::sync::Arc;

use loom::sync::atomic::{AtomicUsize, Ordering};
use pagewell_frame::FRAME_BYTES;
use pagewell_io::MemoryBackend;
use pagewell_io_testing::{Fault, FaultBackend, Operation};

use super::{
    OURS, SharedBackend, append, assert_clean_and_at_rest, assert_closed_and_at_rest, assert_ours,
    cold, explore, only_byte, open, pool, read, resize, shared, spawn, stored, sync, warm,
    writable_on, write,
};
use crate::base::error::Op;
use crate::files::opened::Opened;
use crate::files::state::Files;
use crate::mapping::record::Mapping;
use crate::mapping::remove::refresh;
use crate::read::lookup::Lookup;
use crate::read::reader::{ReadPath, Reader};
use crate::write::growth::Grower;

const HALF: usize = FRAME_BYTES / 2;

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
    let files = pool(5);
    let (mapping, backend) = cold(&files, FRAME_BYTES);
    warm(&mapping, 0);
    let reader = spawn(mapping.mapping(), move |mapping| {
        assert_prefix(&mapping, FRAME_BYTES, 1, path)
    });
    let at = Grower(&mapping).append_bytes(&[1; FRAME_BYTES], 0);
    let page = FRAME_BYTES as u64;
    assert_eq!(at.expect("room"), page..2 * page);
    reader.join().unwrap();
    sync(&mapping);
    assert_eq!(
        stored(&backend),
        [[OURS; FRAME_BYTES], [1; FRAME_BYTES]].concat()
    );
    assert_clean_and_at_rest(&files, mapping);
}

#[test]
fn loom_append_vs_read() {
    explore(3, || append_vs_read(ReadPath::Optimistic));
}

#[test]
fn loom_append_vs_referenced_read() {
    explore(3, || append_vs_read(ReadPath::Referenced));
}

#[test]
fn loom_append_within_page_vs_read() {
    explore(3, || {
        let files = pool(4);
        let (mapping, backend) = cold(&files, HALF);
        warm(&mapping, 0);
        let reader = spawn(mapping.mapping(), move |mapping| {
            assert_prefix(&mapping, HALF, 1, ReadPath::Optimistic);
            assert_prefix(&mapping, HALF, 1, ReadPath::Referenced);
        });
        append(&mapping, &[1; HALF]);
        reader.join().unwrap();
        sync(&mapping);
        assert_eq!(stored(&backend), [[OURS; HALF], [1; HALF]].concat());
        assert_clean_and_at_rest(&files, mapping);
    });
}

/// The gap before a write past the end reads as zeros, whatever the last page had there.
#[test]
fn loom_gap_vs_read() {
    explore(3, || {
        let files = pool(5);
        let (mapping, _) = cold(&files, FRAME_BYTES);
        warm(&mapping, 0);
        resize(&mapping, HALF as u64);
        let reader = spawn(mapping.mapping(), move |mapping| {
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
        assert_clean_and_at_rest(&files, mapping);
    });
}

/// A page is appended during a sync. The next sync writes the bytes that this sync has not seen.
#[test]
fn loom_append_vs_sync() {
    explore(3, || {
        let files = pool(5);
        let (mapping, backend) = cold(&files, FRAME_BYTES);
        let syncer = spawn(mapping.mapping(), move |mapping| sync(&mapping));
        append(&mapping, &[1; FRAME_BYTES]);
        syncer.join().unwrap();
        let before = stored(&backend);
        assert!(before[..FRAME_BYTES].iter().all(|b| *b == OURS));
        assert!(before[FRAME_BYTES..].iter().all(|b| *b == 1), "{before:x?}");
        sync(&mapping);
        assert_eq!(
            stored(&backend),
            [[OURS; FRAME_BYTES], [1; FRAME_BYTES]].concat()
        );
        assert_clean_and_at_rest(&files, mapping);
    });
}

#[test]
fn loom_append_vs_append() {
    explore(3, || {
        let files = pool(4);
        let (mapping, _) = cold(&files, FRAME_BYTES);
        resize(&mapping, 0);
        let other = spawn(mapping.mapping(), move |mapping| {
            append(&mapping, &[1; HALF])
        });
        let ours = append(&mapping, &[2; HALF]);
        let [ours, theirs] = [ours, other.join().unwrap()].map(|at| at.start as usize);
        assert_eq!(ours + theirs, HALF, "two appends at one place");
        let bytes = read(&mapping, 0, ReadPath::Optimistic);
        assert_eq!(only_half(&bytes, ours), 2);
        assert_eq!(only_half(&bytes, theirs), 1);
        assert_clean_and_at_rest(&files, mapping);
    });
}

fn only_half(bytes: &[u8], from: usize) -> u8 {
    only_byte(&bytes[from..from + HALF].repeat(2))
}

#[test]
fn loom_append_within_page_vs_sync() {
    explore(3, || {
        let files = pool(5);
        let (mapping, backend) = cold(&files, HALF);
        warm(&mapping, 0);
        let syncer = spawn(mapping.mapping(), move |mapping| sync(&mapping));
        append(&mapping, &[1; HALF]);
        syncer.join().unwrap();
        sync(&mapping);
        assert_eq!(stored(&backend), [[OURS; HALF], [1; HALF]].concat());
        assert_clean_and_at_rest(&files, mapping);
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

/// The read returns all of an uncached page, or finds that the file ends before it.
#[test]
fn loom_read_vs_cut() {
    explore(3, || {
        let files = pool(5);
        let (mapping, storage) = on_ordered_storage(&files, |_| false);
        let reader = spawn(mapping.mapping(), move |mapping| {
            let bytes = read(&mapping, 0, ReadPath::Optimistic);
            assert!(bytes.is_empty() || only_byte(&bytes) == OURS, "{bytes:x?}");
        });
        resize(&mapping, 0);
        assert!(read(&mapping, 0, ReadPath::Optimistic).is_empty());
        reader.join().unwrap();
        assert!(stored(&storage).is_empty());
        assert_closed_and_at_rest(&files, mapping);
    });
}

/// A truncation fails while the file is read. No reader sees the shorter file.
#[test]
fn loom_read_vs_failed_cut() {
    explore(3, || {
        let files = pool(5);
        let is_cut = |operation: &Operation| matches!(operation, Operation::SetSize { .. });
        let (mapping, _) = on_ordered_storage(&files, is_cut);
        warm(&mapping, 0);
        let reader = spawn(mapping.mapping(), move |mapping| {
            let bytes = read(&mapping, 0, ReadPath::Optimistic);
            assert_eq!(only_byte(&bytes), OURS);
        });
        Grower(&mapping)
            .resize(0)
            .expect_err("a storage that fails");
        reader.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), OURS);
        assert_closed_and_at_rest(&files, mapping);
    });
}

/// The read returns old or new bytes, but not the zeros past the old end.
fn read_vs_growth(path: ReadPath) {
    let half = FRAME_BYTES / 2;
    let files = pool(4);
    let (mapping, backend) = shared(&files, vec![OURS; half]);
    warm(&mapping, 0);
    backend
        .inner()
        .modify(|bytes| bytes.resize(FRAME_BYTES, OURS));
    let reader = spawn(mapping.mapping(), move |mapping| {
        assert_ours(&read(&mapping, 0, path))
    });
    refresh(&mapping, Op::Read).expect("a size");
    reader.join().unwrap();
    assert_closed_and_at_rest(&files, mapping);
}

#[test]
fn loom_read_vs_growth() {
    explore(2, || read_vs_growth(ReadPath::Optimistic));
}

#[test]
fn loom_referenced_read_vs_growth() {
    explore(2, || read_vs_growth(ReadPath::Referenced));
}

/// During one lookup, the file shrinks, its truncated page is filled, and the file grows again. The
/// lookup returns the end of the truncated page, not the end before and after.
#[test]
fn loom_read_vs_shrink_and_growth() {
    explore(2, || {
        let half = FRAME_BYTES / 2;
        let files = pool(4);
        let content = MemoryBackend::new(vec![OURS; FRAME_BYTES]);
        let backend = Arc::new(FaultBackend::new(content, |_, _| Fault::None));
        let mapping = open(&files, SharedBackend(Arc::clone(&backend)));
        let reader = spawn(mapping.mapping(), move |mapping| {
            let mut buf = [OURS; FRAME_BYTES];
            if let Ok(n) = Reader(&mapping).read_page_referenced(0, 0, 0, &mut buf, || 1) {
                assert_ours(&buf[..n]);
            }
        });
        backend.inner().modify(|bytes| bytes.truncate(half));
        refresh(&mapping, Op::Read).expect("a size");
        drop(Lookup(&mapping).get(0, || 1));
        backend
            .inner()
            .modify(|bytes| bytes.resize(FRAME_BYTES, OURS));
        refresh(&mapping, Op::Read).expect("a size");
        reader.join().unwrap();
        assert_closed_and_at_rest(&files, mapping);
    });
}

/// A fill of the last page zeros the bytes past the old end. After a refresh, none are read.
#[test]
fn loom_fill_vs_refresh() {
    explore(3, || {
        let half = FRAME_BYTES / 2;
        let files = pool(4);
        let (mapping, backend) = shared(&files, vec![OURS; half]);
        backend
            .inner()
            .modify(|bytes| bytes.resize(FRAME_BYTES, OURS));
        let filler = spawn(mapping.mapping(), move |mapping| {
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
        assert_closed_and_at_rest(&files, mapping);
    });
}
