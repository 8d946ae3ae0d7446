//! Reads of a file that grows or shrinks by other means than the cache.

use std::sync::Arc;

use loom::thread;
use pagewell_frame::FRAME_BYTES;
use pagewell_io::MemoryBackend;
use pagewell_io_testing::{Fault, FaultBackend};

use super::{OURS, SharedBackend, assert_at_rest, assert_ours, explore, open, pool, read, warm};
use crate::base::error::Op;
use crate::mapping::remove::refresh;
use crate::read::lookup::Lookup;
use crate::read::reader::{ReadPath, Reader};

/// The read returns old or new bytes, but not the zeros past the old end.
fn read_vs_growth(path: ReadPath) {
    let half = FRAME_BYTES / 2;
    let files = pool(4);
    let backend = FaultBackend::new(MemoryBackend::new(vec![OURS; half]), |_, _| Fault::None);
    let backend = Arc::new(backend);
    let mapping = open(&files, SharedBackend(Arc::clone(&backend)));
    warm(&mapping, 0);
    backend
        .inner()
        .modify(|bytes| bytes.resize(FRAME_BYTES, OURS));
    let reader = {
        let mapping = Arc::clone(mapping.mapping());
        thread::spawn(move || assert_ours(&read(&mapping, 0, path)))
    };
    refresh(&mapping, Op::Read).expect("a size");
    reader.join().unwrap();
    drop(mapping);
    assert_at_rest(&files);
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
        let reader = {
            let mapping = Arc::clone(mapping.mapping());
            thread::spawn(move || {
                let mut buf = [OURS; FRAME_BYTES];
                if let Ok(n) = Reader(&mapping).read_page_referenced(0, 0, 0, &mut buf, || 1) {
                    assert_ours(&buf[..n]);
                }
            })
        };
        backend.inner().modify(|bytes| bytes.truncate(half));
        refresh(&mapping, Op::Read).expect("a size");
        drop(Lookup(&mapping).get(0, || 1));
        backend
            .inner()
            .modify(|bytes| bytes.resize(FRAME_BYTES, OURS));
        refresh(&mapping, Op::Read).expect("a size");
        reader.join().unwrap();
        drop(mapping);
        assert_at_rest(&files);
    });
}

/// A fill of the last page zeros the bytes past the old end. After a refresh, none are read.
#[test]
fn loom_fill_vs_refresh() {
    explore(3, || {
        let half = FRAME_BYTES / 2;
        let files = pool(4);
        let backend = FaultBackend::new(MemoryBackend::new(vec![OURS; half]), |_, _| Fault::None);
        let backend = Arc::new(backend);
        let mapping = open(&files, SharedBackend(Arc::clone(&backend)));
        backend
            .inner()
            .modify(|bytes| bytes.resize(FRAME_BYTES, OURS));
        let filler = {
            let mapping = Arc::clone(mapping.mapping());
            thread::spawn(move || {
                let mut buf = [0; FRAME_BYTES];
                let n = Reader(&mapping)
                    .read_page_referenced(0, 0, 0, &mut buf, || 1)
                    .expect("a readable page");
                assert_ours(&buf[..n]);
            })
        };
        assert_eq!(
            refresh(&mapping, Op::Read).expect("a size"),
            FRAME_BYTES as u64
        );
        filler.join().unwrap();
        let bytes = read(&mapping, 0, ReadPath::Referenced);
        assert_eq!(bytes.len(), FRAME_BYTES);
        assert_ours(&bytes);
        drop(mapping);
        assert_at_rest(&files);
    });
}
