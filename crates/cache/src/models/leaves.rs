//! Leaves of the index that are removed, created again, or used for another file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use loom::thread;
use pagewell_frame::FRAME_BYTES;

use super::{
    FOREIGN, assert_at_rest, assert_ours, closed, cold, evict, explore, explore_file, leaf_frame,
    make_leaf, mapping, mapping_of, pin_seen, pool, read, read_optimistically, scribble, spawn,
    warm, write,
};
use crate::mapping::record::Mapping;
use crate::read::lookup::Lookup;
use crate::read::reader::ReadPath;
use crate::supply::leaves::Leaves;

/// During one copy, the page is evicted, its frame is reused, the leaf is removed and created
/// again, and the page is filled again in the same frame. The slot must not repeat its old word.
fn vs_leaf_remade(look: impl Fn(&Mapping) + Send + Sync + Copy + 'static) {
    explore_file(
        3,
        closed,
        pool::<12>,
        mapping::<4>,
        move |files, mapping, _| {
            // A neighbouring leaf keeps the memory that both share.
            warm(&mapping, 2);
            let frame = warm(&mapping, 0);
            let leaf_frame = leaf_frame(&mapping);
            let other = spawn(&mapping, move |mapping| look(&mapping));
            if let Some(page) = evict(files.supply(), frame) {
                scribble(&page);
                // Frames freed last are used first: leaf and page get their previous frames.
                drop(page);
                drop(evict(files.supply(), leaf_frame));
                assert_eq!(warm(&mapping, 0), frame);
            }
            other.join().unwrap();
        },
    );
}

#[test]
fn loom_read_vs_leaf_remade() {
    vs_leaf_remade(|mapping| {
        if let Some(bytes) = read_optimistically(mapping, 0) {
            assert_ours(&bytes);
        }
    });
}

#[test]
fn loom_pin_vs_leaf_remade() {
    vs_leaf_remade(pin_seen);
}

/// A thread about to sleep on a slot is woken when the claim ends and the leaf is removed.
#[test]
fn loom_wait_vs_leaf_remade() {
    vs_leaf_remade(|mapping| {
        if let Some(seen) = mapping.index().look(0)
            && seen.slot.is_busy()
        {
            seen.wait_while_busy(mapping.claims());
        }
    });
}

/// A page of the leaf is filled while the leaf is removed. No page or frame is lost.
#[test]
fn loom_fill_vs_evict_leaf() {
    // Both threads have enough frames, even while the evictor holds the leaf's frame.
    explore_file(2, closed, pool::<6>, mapping::<1>, |files, mapping, _| {
        let leaf_frame = make_leaf(&mapping, 0);
        let evictor = spawn(files, move |files| drop(evict(files.supply(), leaf_frame)));
        assert_ours(&read(&mapping, 0, ReadPath::Optimistic));
        evictor.join().unwrap();
        assert_ours(&read(&mapping, 0, ReadPath::Optimistic));
    });
}

/// The leaf's frame becomes a leaf of another file. Each page is filled in its own file.
#[test]
fn loom_fill_vs_leaf_reuse() {
    let is_reused = Arc::new(AtomicBool::new(false));
    let reused = Arc::clone(&is_reused);
    explore(2, move || {
        let files = pool::<8>();
        let ours = mapping::<1>(&files).0;
        let other = mapping_of(&files, vec![FOREIGN; 4 * FRAME_BYTES]);
        // A neighbouring leaf keeps the memory that both share, so that the other file's next leaf
        // needs one frame.
        make_leaf(&other, 2);
        let leaf_frame = make_leaf(&ours, 0);
        let stealer = {
            let (files, other) = (Arc::clone(&files), Arc::clone(other.mapping()));
            let reused = Arc::clone(&reused);
            thread::spawn(move || {
                drop(evict(files.supply(), leaf_frame));
                let made = Leaves(files.supply()).leaf_or_new(other.index(), other.number(), 0);
                if made.is_ok_and(|leaf| leaf.reference.frame() == leaf_frame) {
                    reused.store(true, Ordering::Relaxed);
                }
            })
        };
        drop(Lookup(&ours).get(0, || 1));
        stealer.join().unwrap();
        assert_eq!(
            read(&other, 0, ReadPath::Referenced),
            [FOREIGN; FRAME_BYTES]
        );
        assert_ours(&read(&ours, 0, ReadPath::Referenced));
        drop((ours, other));
        assert_at_rest(&files);
    });
    assert!(is_reused.load(Ordering::Relaxed), "a new frame");
}

/// A part's last leaf is removed while a neighbour is created, whose entry and dirty page stay.
#[test]
fn loom_make_leaf_vs_neighbour_leaves() {
    explore_file(3, closed, pool::<16>, cold::<4>, |files, mapping, _| {
        let leaf_frame = make_leaf(&mapping, 0);
        let evictor = spawn(files, move |files| drop(evict(files.supply(), leaf_frame)));
        write(&mapping, 2, FOREIGN);
        evictor.join().unwrap();
        let writes = mapping.writes_if_any().expect("a file that is written to");
        assert_eq!(writes.any_dirty(0..4), Some(2), "a dirty page was lost");
        assert_eq!(
            read(&mapping, 2, ReadPath::Referenced),
            [FOREIGN; FRAME_BYTES]
        );
    });
}

/// One of two threads that miss creates the leaf. No frame is lost or stays allocated.
#[test]
fn loom_make_leaf_vs_make_leaf() {
    explore_file(2, closed, pool::<8>, mapping::<2>, |_, mapping, _| {
        let other = spawn(&mapping, move |mapping| make_leaf(&mapping, 1));
        let ours = make_leaf(&mapping, 0);
        assert_eq!(other.join().unwrap(), ours);
    });
}
