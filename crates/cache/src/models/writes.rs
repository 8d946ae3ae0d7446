//! Writes against reads, pins, evictions, other writes, and changes of the file's size.

use loom::thread;
use pagewell_frame::FRAME_BYTES;

use super::{
    OURS, append, assert_clean_and_at_rest, assert_closed_and_at_rest, cold, copy_of, evict,
    explore, only_byte, pool, read, read_optimistically, resize, spawn, stored, sync, warm,
    writable, write,
};
use crate::read::lookup::{Found, Lookup};
use crate::read::reader::ReadPath;
use crate::supply::reclaim::reclaimer::Reclaimer;
use crate::write::growth::Writer;

/// A page is read while it is written. The read returns all of the write or nothing of it.
#[test]
fn loom_read_vs_write() {
    explore(3, || {
        let files = pool(4);
        let (mapping, _) = writable(&files);
        let reader = spawn(mapping.mapping(), move |mapping| {
            if let Some(bytes) = read_optimistically(&mapping, 0) {
                let byte = only_byte(&bytes);
                assert!(byte == OURS || byte == 1 || byte == 2);
            }
        });
        write(&mapping, 0, 1);
        write(&mapping, 0, 2);
        reader.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), 2);
        assert_closed_and_at_rest(&files, mapping);
    });
}

/// As the previous model, with a referenced read.
#[test]
fn loom_referenced_read_vs_write() {
    explore(3, || {
        let files = pool(4);
        let (mapping, _) = writable(&files);
        let reader = spawn(mapping.mapping(), move |mapping| {
            let byte = only_byte(&read(&mapping, 0, ReadPath::Referenced));
            assert!(byte == OURS || byte == 1);
        });
        write(&mapping, 0, 1);
        reader.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Referenced)), 1);
        assert_closed_and_at_rest(&files, mapping);
    });
}

/// Two threads write all of one page. The page ends with all bytes of one of the writes.
#[test]
fn loom_write_vs_write() {
    explore(3, || {
        let files = pool(4);
        let (mapping, _) = writable(&files);
        let other = spawn(mapping.mapping(), move |mapping| write(&mapping, 0, 1));
        write(&mapping, 0, 2);
        other.join().unwrap();
        let byte = only_byte(&read(&mapping, 0, ReadPath::Optimistic));
        assert!(byte == 1 || byte == 2);
        assert_closed_and_at_rest(&files, mapping);
    });
}

#[test]
fn loom_write_vs_pin() {
    explore(3, || {
        let files = pool(4);
        let (mapping, _) = writable(&files);
        let pinner = spawn(mapping.mapping(), move |mapping| {
            let Found { reference, .. } = Lookup(&mapping).get(0, || 1).expect("a page");
            let bytes = || {
                let bytes = copy_of(&reference);
                only_byte(&bytes)
            };
            let first = bytes();
            thread::yield_now();
            assert_eq!(bytes(), first, "a pinned page has changed");
        });
        write(&mapping, 0, 1);
        pinner.join().unwrap();
        assert_closed_and_at_rest(&files, mapping);
    });
}

/// An eviction is tried while the page is written. Once the page is dirty, it is not evicted.
#[test]
fn loom_write_vs_evict() {
    explore(3, || {
        let files = pool(4);
        let (mapping, backend) = writable(&files);
        let frame = warm(&mapping, 0);
        let evictor = spawn(&files, move |files| drop(evict(files.supply(), frame)));
        write(&mapping, 0, 1);
        evictor.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), 1);
        sync(&mapping);
        assert_eq!(only_byte(&stored(&backend)), 1);
        assert_closed_and_at_rest(&files, mapping);
    });
}

/// Either the write is visible, or the page is removed.
#[test]
fn loom_write_vs_truncate() {
    explore(3, || {
        let files = pool(4);
        let (mapping, backend) = writable(&files);
        let cutter = spawn(mapping.mapping(), move |mapping| resize(&mapping, 0));
        write(&mapping, 0, 1);
        cutter.join().unwrap();
        let size = mapping.size();
        assert!(size == 0 || size == FRAME_BYTES as u64);
        sync(&mapping);
        let written = stored(&backend);
        assert_eq!(written.len() as u64, size);
        assert!(written.iter().all(|b| *b == 1), "{written:x?}");
        // Extend the file: the truncated bytes do not reappear.
        resize(&mapping, FRAME_BYTES as u64);
        let byte = if size == 0 { 0 } else { 1 };
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Referenced)), byte);
        assert_closed_and_at_rest(&files, mapping);
    });
}

/// As the previous model, with a write to all of a missing page.
#[test]
fn loom_create_vs_truncate() {
    explore(3, || {
        let files = pool(4);
        let (mapping, backend) = cold(&files, FRAME_BYTES);
        let cutter = spawn(mapping.mapping(), move |mapping| resize(&mapping, 0));
        write(&mapping, 0, 1);
        cutter.join().unwrap();
        let size = mapping.size();
        sync(&mapping);
        let written = stored(&backend);
        assert_eq!(written.len() as u64, size);
        assert!(written.iter().all(|b| *b == 1), "{written:x?}");
        resize(&mapping, FRAME_BYTES as u64);
        let byte = if size == 0 { 0 } else { 1 };
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Referenced)), byte);
        assert_clean_and_at_rest(&files, mapping);
    });
}

/// All of a missing page is written while another thread fills the page. The write is not lost.
#[test]
fn loom_fill_vs_whole_write() {
    explore(2, || {
        let files = pool(5);
        let (mapping, backend) = cold(&files, FRAME_BYTES);
        let reader = spawn(mapping.mapping(), move |mapping| {
            let byte = only_byte(&read(&mapping, 0, ReadPath::Optimistic));
            assert!(byte == OURS || byte == 1);
        });
        write(&mapping, 0, 1);
        reader.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), 1);
        sync(&mapping);
        assert_eq!(only_byte(&stored(&backend)), 1);
        assert_clean_and_at_rest(&files, mapping);
    });
}

/// As the previous model, with two threads that fill the page.
#[test]
fn loom_two_fills_vs_whole_write() {
    explore(1, || {
        let files = pool(6);
        let (mapping, backend) = cold(&files, FRAME_BYTES);
        let readers = [ReadPath::Optimistic, ReadPath::Referenced].map(|path| {
            spawn(mapping.mapping(), move |mapping| {
                let byte = only_byte(&read(&mapping, 0, path));
                assert!(byte == OURS || byte == 1);
            })
        });
        write(&mapping, 0, 1);
        for reader in readers {
            reader.join().unwrap();
        }
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), 1);
        sync(&mapping);
        assert_eq!(only_byte(&stored(&backend)), 1);
        assert_clean_and_at_rest(&files, mapping);
    });
}

/// A write covers the file's part of a page, so it reads nothing. Concurrently the file grows, the
/// added bytes become durable, and the page is evicted. The added bytes are not lost.
#[test]
fn loom_whole_write_vs_growth() {
    explore(1, || {
        let half = FRAME_BYTES / 2;
        let files = pool(5);
        let (mapping, backend) = cold(&files, half);
        let other = spawn(mapping.mapping(), move |mapping| {
            append(&mapping, &vec![2; half]);
            sync(&mapping);
            Reclaimer(mapping.supply()).evict_pages(1);
        });
        let n = Writer(&mapping).write_bytes(&vec![1; half], 0, 0);
        assert_eq!(n.expect("a writable page"), half);
        other.join().unwrap();
        let expected = [vec![1; half], vec![2; half]].concat();
        assert_eq!(read(&mapping, 0, ReadPath::Referenced), expected);
        sync(&mapping);
        assert_eq!(stored(&backend), expected);
        assert_clean_and_at_rest(&files, mapping);
    });
}

/// A page that is pinned at each of two writes moves to another frame and back while it is read.
#[test]
fn loom_read_vs_two_moves() {
    explore(3, || {
        let files = pool(4);
        let (mapping, _) = writable(&files);
        let frame = warm(&mapping, 0);
        let reader = spawn(mapping.mapping(), move |mapping| {
            if let Some(bytes) = read_optimistically(&mapping, 0) {
                let byte = only_byte(&bytes);
                assert!(byte == OURS || byte == 1 || byte == 2);
            }
        });
        for byte in [1, 2] {
            let pin = Lookup(&mapping).get(0, || 1).expect("a page");
            write(&mapping, 0, byte);
            drop(pin);
        }
        assert_eq!(warm(&mapping, 0), frame);
        reader.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), 2);
        assert_clean_and_at_rest(&files, mapping);
    });
}
