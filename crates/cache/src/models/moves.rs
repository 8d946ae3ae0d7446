//! Moves of pages to other frames, against all other operations on these pages.

use std::sync::Arc;

use loom::thread;
use pagewell_frame::FRAME_BYTES;

use super::{
    OURS, clean, copy_of, evict, explore_file, only_byte, optimistic_reader, other_node, read,
    scribble, spawn, stored, sync, two_nodes, warm, writable, write,
};
use crate::base::page_state::PageState;
use crate::read::lookup::Lookup;
use crate::read::reader::ReadPath;
use crate::write::moves::{PageMove, move_out_of, move_page};

/// A page is read while it moves, and its old frame is reused.
#[test]
fn loom_move_vs_read_and_reuse() {
    explore_file(3, clean, two_nodes::<8>, writable, |files, mapping, _| {
        let frame = warm(&mapping, 0);
        let reader = optimistic_reader(&mapping, &[OURS]);
        let moved = move_page(&mapping, 0, other_node(files, frame));
        assert_eq!(moved, PageMove::Done);
        if let Some(next) = files.supply().pool().alloc(mapping.order()) {
            scribble(&next);
        }
        reader.join().unwrap();
    });
}

/// A page is written while it moves. The write is not lost, and the page is dirty in either frame.
#[test]
fn loom_move_vs_write() {
    explore_file(
        3,
        clean,
        two_nodes::<8>,
        writable,
        |files, mapping, backend| {
            let frame = warm(&mapping, 0);
            let mover = {
                let (mapping, node) = (Arc::clone(&mapping), other_node(files, frame));
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
        },
    );
}

/// The page is pinned in its old frame and stays there, or has moved before.
#[test]
fn loom_move_vs_pin() {
    explore_file(3, clean, two_nodes::<8>, writable, |files, mapping, _| {
        let frame = warm(&mapping, 0);
        let pinner = spawn(&mapping, move |mapping| {
            let found = Lookup(&mapping).get(0, || 1).expect("a page");
            thread::yield_now();
            let bytes = copy_of(&found.reference);
            assert_eq!(only_byte(&bytes), OURS, "foreign bytes in a pinned page");
        });
        if move_page(&mapping, 0, other_node(files, frame)) == PageMove::Done
            && let Some(next) = files.supply().pool().alloc(mapping.order())
        {
            scribble(&next);
        }
        pinner.join().unwrap();
    });
}

/// A page is evicted while it moves. One of the two operations has no effect.
#[test]
fn loom_move_vs_evict() {
    explore_file(3, clean, two_nodes::<8>, writable, |files, mapping, _| {
        let frame = warm(&mapping, 0);
        let evictor = spawn(files, move |files| drop(evict(files.supply(), frame)));
        let _ = move_page(&mapping, 0, other_node(files, frame));
        evictor.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), OURS);
    });
}

/// A dirty page that is moved during a flush keeps its state, and its bytes in flight.
#[test]
fn loom_move_vs_flush() {
    explore_file(
        2,
        clean,
        two_nodes::<8>,
        writable,
        |files, mapping, backend| {
            write(&mapping, 0, 1);
            let frame = warm(&mapping, 0);
            let flusher = spawn(&mapping, move |mapping| sync(&mapping));
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
        },
    );
}
