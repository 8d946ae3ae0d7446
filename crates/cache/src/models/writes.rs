//! Writes against reads, pins, evictions, other writes, and changes of the file's size.

use loom::thread;
use pagewell_frame::FRAME_BYTES;

use super::{
    HALF, OURS, append, assert_synced, clean, closed, cold, cold_half, copy_of, evict,
    explore_file, only_byte, optimistic_reader, pool, read, resize, spawn, stored, sync, warm,
    writable, write, write_at,
};
use crate::files::opened::Opened;
use crate::files::state::Files;
use crate::read::lookup::{Found, Lookup};
use crate::read::reader::ReadPath;
use crate::supply::reclaim::reclaimer::Reclaimer;
use pagewell_io::MemoryBackend;
use std::sync::Arc;

/// A page is read while it is written. The read returns all of the write or nothing of it.
#[test]
fn loom_read_vs_write() {
    explore_file(3, closed, pool::<4>, writable, |_, mapping, _| {
        let reader = optimistic_reader(&mapping, &[OURS, 1, 2]);
        write(&mapping, 0, 1);
        write(&mapping, 0, 2);
        reader.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), 2);
    });
}

/// As the previous model, with a referenced read.
#[test]
fn loom_referenced_read_vs_write() {
    explore_file(3, closed, pool::<4>, writable, |_, mapping, _| {
        let reader = spawn(&mapping, move |mapping| {
            let byte = only_byte(&read(&mapping, 0, ReadPath::Referenced));
            assert!(byte == OURS || byte == 1);
        });
        write(&mapping, 0, 1);
        reader.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Referenced)), 1);
    });
}

/// Two threads write all of one page. The page ends with all bytes of one of the writes.
#[test]
fn loom_write_vs_write() {
    explore_file(3, closed, pool::<4>, writable, |_, mapping, _| {
        let other = spawn(&mapping, move |mapping| write(&mapping, 0, 1));
        write(&mapping, 0, 2);
        other.join().unwrap();
        let byte = only_byte(&read(&mapping, 0, ReadPath::Optimistic));
        assert!(byte == 1 || byte == 2);
    });
}

#[test]
fn loom_write_vs_pin() {
    explore_file(3, closed, pool::<4>, writable, |_, mapping, _| {
        let pinner = spawn(&mapping, move |mapping| {
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
    });
}

/// An eviction is tried while the page is written. Once the page is dirty, it is not evicted.
#[test]
fn loom_write_vs_evict() {
    explore_file(3, closed, pool::<4>, writable, |files, mapping, backend| {
        let frame = warm(&mapping, 0);
        let evictor = spawn(files, move |files| drop(evict(files.supply(), frame)));
        write(&mapping, 0, 1);
        evictor.join().unwrap();
        assert_synced(&mapping, &backend, 1);
    });
}

/// Either the write of all of a page is visible, or the page is removed.
fn write_vs_truncate(
    end: fn(&Files, Opened),
    open: fn(&Arc<Files>) -> (Opened, Arc<MemoryBackend>),
) {
    explore_file(3, end, pool::<4>, open, |_, mapping, backend| {
        let cutter = spawn(&mapping, move |mapping| resize(&mapping, 0));
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
    });
}

#[test]
fn loom_write_vs_truncate() {
    write_vs_truncate(closed, writable);
}

/// As the previous model, with a missing page.
#[test]
fn loom_create_vs_truncate() {
    write_vs_truncate(clean, cold::<1>);
}

/// All of a missing page is written while other threads fill the page. The write is not lost.
fn fills_vs_whole_write(preemptions: usize, pool: fn() -> Arc<Files>, paths: &'static [ReadPath]) {
    explore_file(
        preemptions,
        clean,
        pool,
        cold::<1>,
        |_, mapping, backend| {
            let reader = |path: &'static ReadPath| {
                spawn(&mapping, move |mapping| {
                    let byte = only_byte(&read(&mapping, 0, *path));
                    assert!(byte == OURS || byte == 1);
                })
            };
            let readers: Vec<_> = paths.iter().map(reader).collect();
            write(&mapping, 0, 1);
            for reader in readers {
                reader.join().unwrap();
            }
            assert_synced(&mapping, &backend, 1);
        },
    );
}

#[test]
fn loom_fill_vs_whole_write() {
    fills_vs_whole_write(2, pool::<5>, &[ReadPath::Optimistic]);
}

#[test]
fn loom_two_fills_vs_whole_write() {
    fills_vs_whole_write(1, pool::<6>, &[ReadPath::Optimistic, ReadPath::Referenced]);
}

/// A write covers the file's part of a page, so it reads nothing. Concurrently the file grows, the
/// added bytes become durable, and the page is evicted. The added bytes are not lost.
#[test]
fn loom_whole_write_vs_growth() {
    explore_file(1, clean, pool::<5>, cold_half, |_, mapping, backend| {
        let other = spawn(&mapping, move |mapping| {
            append(&mapping, &[2; HALF]);
            sync(&mapping);
            Reclaimer(mapping.supply()).evict_pages(1);
        });
        write_at(&mapping, 0, &[1; HALF]);
        other.join().unwrap();
        let expected = [[1; HALF], [2; HALF]].concat();
        assert_eq!(read(&mapping, 0, ReadPath::Referenced), expected);
        sync(&mapping);
        assert_eq!(stored(&backend), expected);
    });
}

/// A page that is pinned at each of two writes moves to another frame and back while it is read.
#[test]
fn loom_read_vs_two_moves() {
    explore_file(3, clean, pool::<4>, writable, |_, mapping, _| {
        let frame = warm(&mapping, 0);
        let reader = optimistic_reader(&mapping, &[OURS, 1, 2]);
        for byte in [1, 2] {
            let pin = Lookup(&mapping).get(0, || 1).expect("a page");
            write(&mapping, 0, byte);
            drop(pin);
        }
        assert_eq!(warm(&mapping, 0), frame);
        reader.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), 2);
    });
}
