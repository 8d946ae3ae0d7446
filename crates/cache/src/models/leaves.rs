//! Leaves of the index that are removed, created again, or used for another file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use loom::thread;
use pagewell_frame::FRAME_BYTES;

use super::{
    FOREIGN, assert_at_rest, assert_closed_and_at_rest, assert_ours, cold, copy_of, evict, explore,
    leaf_frame, mapping, mapping_of, pool, read, read_optimistically, scribble, spawn, warm, write,
};
use crate::base::slot::State;
use crate::mapping::record::Mapping;
use crate::read::lookup::{Found, Lookup};
use crate::read::reader::ReadPath;
use crate::supply::leaves::Leaves;

/// During one copy, the page is evicted, its frame is reused, the leaf is removed and created
/// again, and the page is filled again in the same frame. The slot must not repeat its old word.
fn vs_leaf_remade(look: impl Fn(&Mapping) + Send + Sync + Copy + 'static) {
    explore(3, move || {
        let files = pool(12);
        let mapping = mapping(&files, 4);
        // A neighbouring leaf keeps the memory that both share.
        warm(&mapping, 2);
        let frame = warm(&mapping, 0);
        let leaf_frame = leaf_frame(&mapping);
        let other = spawn(mapping.mapping(), move |mapping| look(&mapping));
        if let Some(page) = evict(files.supply(), frame) {
            scribble(&page);
            // Frames freed last are used first: the leaf and the page get their previous frames.
            drop(page);
            drop(evict(files.supply(), leaf_frame));
            assert_eq!(warm(&mapping, 0), frame);
        }
        other.join().unwrap();
        assert_closed_and_at_rest(&files, mapping);
    });
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
    vs_leaf_remade(|mapping| {
        if let Some(seen) = mapping.index().look(0)
            && matches!(seen.slot.state(), State::Present(_))
            && let Ok(Some(Found { reference, .. })) = Lookup(mapping).try_get_seen(seen)
        {
            let bytes = copy_of(&reference);
            assert_ours(&bytes);
        }
    });
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
    explore(2, || {
        // Both threads have enough frames, even while the evictor holds the leaf's frame.
        let files = pool(6);
        let mapping = mapping(&files, 1);
        drop(Leaves(files.supply()).leaf_or_new(mapping.index(), mapping.number(), 0));
        let leaf_frame = leaf_frame(&mapping);
        let evictor = spawn(&files, move |files| drop(evict(files.supply(), leaf_frame)));
        assert_ours(&read(&mapping, 0, ReadPath::Optimistic));
        evictor.join().unwrap();
        assert_ours(&read(&mapping, 0, ReadPath::Optimistic));
        assert_closed_and_at_rest(&files, mapping);
    });
}

/// The leaf's frame becomes a leaf of another file. Each page is filled in its own file.
#[test]
fn loom_fill_vs_leaf_reuse() {
    let is_reused = Arc::new(AtomicBool::new(false));
    let reused = Arc::clone(&is_reused);
    explore(2, move || {
        let files = pool(8);
        let ours = mapping(&files, 1);
        let other = mapping_of(&files, vec![FOREIGN; 4 * FRAME_BYTES]);
        // A neighbouring leaf keeps the memory that both share, so that the other file's next leaf
        // needs one frame.
        drop(Leaves(files.supply()).leaf_or_new(other.index(), other.number(), 2));
        drop(Leaves(files.supply()).leaf_or_new(ours.index(), ours.number(), 0));
        let leaf_frame = leaf_frame(&ours);
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
    explore(3, || {
        let files = pool(16);
        let (mapping, _) = cold(&files, 4 * FRAME_BYTES);
        drop(Leaves(files.supply()).leaf_or_new(mapping.index(), mapping.number(), 0));
        let leaf_frame = leaf_frame(&mapping);
        let evictor = spawn(&files, move |files| drop(evict(files.supply(), leaf_frame)));
        write(&mapping, 2, FOREIGN);
        evictor.join().unwrap();
        let writes = mapping.writes_if_any().expect("a file that is written to");
        assert_eq!(writes.any_dirty(0..4), Some(2), "a dirty page was lost");
        assert_eq!(
            read(&mapping, 2, ReadPath::Referenced),
            [FOREIGN; FRAME_BYTES]
        );
        assert_closed_and_at_rest(&files, mapping);
    });
}

/// One of two threads that miss creates the leaf. No frame is lost or stays allocated.
#[test]
fn loom_make_leaf_vs_make_leaf() {
    explore(2, || {
        let files = pool(8);
        let mapping = mapping(&files, 2);
        let other = {
            let (files, mapping) = (Arc::clone(&files), Arc::clone(mapping.mapping()));
            thread::spawn(move || {
                let made = Leaves(files.supply()).leaf_or_new(mapping.index(), mapping.number(), 1);
                made.expect("a frame").reference.frame()
            })
        };
        let made = Leaves(files.supply()).leaf_or_new(mapping.index(), mapping.number(), 0);
        let ours = made.expect("a frame").reference.frame();
        assert_eq!(other.join().unwrap(), ours);
        assert_closed_and_at_rest(&files, mapping);
    });
}
