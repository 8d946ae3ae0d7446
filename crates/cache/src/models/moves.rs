//! Moves of pages to other frames, against all other operations on these pages.

use std::sync::Arc;

use loom::thread;
use pagewell_frame::FRAME_BYTES;

use super::{
    OURS, assert_clean_and_at_rest, copy_of, evict, explore, only_byte, other_node, pool_of, read,
    read_optimistically, scribble, spawn, stored, sync, warm, writable, write,
};
use crate::base::page_state::PageState;
use crate::read::lookup::Lookup;
use crate::read::reader::ReadPath;
use crate::write::moves::{PageMove, move_out_of, move_page};

/// A page is read while it moves, and its old frame is reused.
#[test]
fn loom_move_vs_read_and_reuse() {
    explore(3, || {
        let files = pool_of(8, 2);
        let (mapping, _) = writable(&files);
        let frame = warm(&mapping, 0);
        let reader = spawn(mapping.mapping(), move |mapping| {
            if let Some(bytes) = read_optimistically(&mapping, 0) {
                assert_eq!(only_byte(&bytes), OURS, "foreign bytes");
            }
        });
        let moved = move_page(&mapping, 0, other_node(&files, frame));
        assert_eq!(moved, PageMove::Done);
        if let Some(next) = files.supply().pool().alloc(mapping.order()) {
            scribble(&next);
        }
        reader.join().unwrap();
        assert_clean_and_at_rest(&files, mapping);
    });
}

/// A page is written while it moves. The write is not lost, and the page is dirty in either frame.
#[test]
fn loom_move_vs_write() {
    explore(3, || {
        let files = pool_of(8, 2);
        let (mapping, backend) = writable(&files);
        let frame = warm(&mapping, 0);
        let mover = {
            let (mapping, node) = (Arc::clone(mapping.mapping()), other_node(&files, frame));
            thread::spawn(move || move_page(&mapping, 0, node))
        };
        write(&mapping, 0, 1);
        let _ = mover.join().unwrap();
        assert_eq!(
            only_byte(&read(&mapping, 0, ReadPath::Optimistic)),
            1,
            "a lost write"
        );
        sync(&mapping);
        assert_eq!(
            stored(&backend),
            [1; FRAME_BYTES],
            "a dirty page was forgotten"
        );
        assert_clean_and_at_rest(&files, mapping);
    });
}

/// The page is pinned in its old frame and stays there, or has moved before.
#[test]
fn loom_move_vs_pin() {
    explore(3, || {
        let files = pool_of(8, 2);
        let (mapping, _) = writable(&files);
        let frame = warm(&mapping, 0);
        let pinner = spawn(mapping.mapping(), move |mapping| {
            let found = Lookup(&mapping).get(0, || 1).expect("a page");
            thread::yield_now();
            let bytes = copy_of(&found.reference);
            assert_eq!(only_byte(&bytes), OURS, "foreign bytes in a pinned page");
        });
        if move_page(&mapping, 0, other_node(&files, frame)) == PageMove::Done
            && let Some(next) = files.supply().pool().alloc(mapping.order())
        {
            scribble(&next);
        }
        pinner.join().unwrap();
        assert_clean_and_at_rest(&files, mapping);
    });
}

/// A page is evicted while it moves. One of the two operations has no effect.
#[test]
fn loom_move_vs_evict() {
    explore(3, || {
        let files = pool_of(8, 2);
        let (mapping, _) = writable(&files);
        let frame = warm(&mapping, 0);
        let evictor = spawn(&files, move |files| drop(evict(files.supply(), frame)));
        let _ = move_page(&mapping, 0, other_node(&files, frame));
        evictor.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), OURS);
        assert_clean_and_at_rest(&files, mapping);
    });
}

/// A dirty page that is moved during a flush keeps its state, and its bytes in flight.
#[test]
fn loom_move_vs_flush() {
    explore(2, || {
        let files = pool_of(8, 2);
        let (mapping, backend) = writable(&files);
        write(&mapping, 0, 1);
        let frame = warm(&mapping, 0);
        let flusher = spawn(mapping.mapping(), move |mapping| sync(&mapping));
        let to = files
            .supply()
            .pool()
            .alloc(mapping.order())
            .expect("a frame");
        drop(move_out_of(files.supply(), frame, to));
        flusher.join().unwrap();
        assert_eq!(
            stored(&backend),
            [1; FRAME_BYTES],
            "a dirty page was forgotten"
        );
        let record = files.supply().pool().meta(warm(&mapping, 0));
        assert!(PageState::of(record).may_go(), "a synced page is dirty");
        assert_clean_and_at_rest(&files, mapping);
    });
}
