//! Leaves of the index that are taken out of use, made again, or used for another file.

use std::sync::Arc;

use loom::thread;
use pagewell_frame::FRAME_BYTES;
use pagewell_frame::refcount::LockBit;

use super::{
    FOREIGN, assert_at_rest, assert_ours, explore, leaf_frame, mapping, mapping_of, pool, read,
    read_optimistically, scribble, warm,
};
use crate::base::slot::State;
use crate::mapping::record::Mapping;
use crate::read::lookup::{Found, Lookup};
use crate::read::reader::ReadPath;
use crate::supply::evict::Evictor;
use crate::supply::leaves::Leaves;
use crate::supply::policy::clock::Marks;

/// During one copy the page is evicted, its frame used for something else, the leaf taken out of use and made
/// again, and the page filled again in the same frame: the slot must not have its old word again.
fn vs_leaf_remade(look: impl Fn(&Mapping<LockBit>) + Send + Sync + Copy + 'static) {
    explore(3, move || {
        let files = pool::<LockBit>(4);
        let mapping = mapping(&files, 1);
        let frame = warm(&mapping, 0);
        let leaf_frame = leaf_frame(&mapping);
        let other = {
            let mapping = Arc::clone(mapping.mapping());
            thread::spawn(move || look(&mapping))
        };
        if let Some(page) = Evictor(files.supply()).try_evict(frame, Marks::Ignored) {
            scribble(&page);
            drop(Evictor(files.supply()).try_evict(leaf_frame, Marks::Ignored));
            // The frame that is freed last is used first.
            drop(page);
            assert_eq!(warm(&mapping, 0), frame);
        }
        other.join().unwrap();
        drop(mapping);
        assert_at_rest(&files);
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
            let mut bytes = [0; FRAME_BYTES];
            reference.bytes().copy_to(0, &mut bytes);
            assert_ours(&bytes);
        }
    });
}

/// A thread that is about to sleep on a claimed slot is not left asleep when the claim ends and the leaf goes.
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

/// A leaf that has just become empty is taken out while a page of it is filled: neither is lost.
#[test]
fn loom_fill_vs_evict_leaf() {
    explore(2, || {
        let files = pool::<LockBit>(4);
        let mapping = mapping(&files, 1);
        drop(Leaves(files.supply()).leaf_or_new(mapping.index(), mapping.number(), 0));
        let leaf_frame = leaf_frame(&mapping);
        let evictor = {
            let files = Arc::clone(&files);
            thread::spawn(move || {
                drop(Evictor(files.supply()).try_evict(leaf_frame, Marks::Ignored))
            })
        };
        assert_ours(&read(&mapping, 0, ReadPath::Optimistic));
        evictor.join().unwrap();
        assert_ours(&read(&mapping, 0, ReadPath::Optimistic));
        drop(mapping);
        assert_at_rest(&files);
    });
}

/// An empty leaf is taken out, and its frame becomes a leaf of another file, while a page of the first
/// file is filled: each page ends up in its own file.
#[test]
fn loom_fill_vs_leaf_reuse() {
    explore(3, || {
        let files = pool::<LockBit>(4);
        let ours = mapping(&files, 1);
        let other = mapping_of(&files, vec![FOREIGN; FRAME_BYTES]);
        // The other file's root is charged now, so that its leaf is the next that wants a frame.
        drop(Leaves(files.supply()).leaf_or_new(other.index(), other.number(), 0));
        drop(Evictor(files.supply()).try_evict(leaf_frame(&other), Marks::Ignored));
        drop(Leaves(files.supply()).leaf_or_new(ours.index(), ours.number(), 0));
        let leaf_frame = leaf_frame(&ours);
        let stealer = {
            let (files, other) = (Arc::clone(&files), Arc::clone(other.mapping()));
            thread::spawn(move || {
                drop(Evictor(files.supply()).try_evict(leaf_frame, Marks::Ignored));
                drop(Leaves(files.supply()).leaf_or_new(other.index(), other.number(), 0));
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
}
