//! Pins in hazard slots, against changes of the page and the drop of the file and of the cache.

use std::sync::Arc;

use loom::thread;
use pagewell_frame::{FRAME_BYTES, FrameNr, Order};

use super::{
    OURS, assert_at_rest, clean, explore, explore_file, only_byte, other_node, pool, read,
    scribble, spawn, two_nodes, warm, writable, write,
};
use crate::files::opened::Opened;
use crate::mapping::record::Mapping;
use crate::mapping::remove::{Remover, Unclean};
use crate::read::lookup::Lookup;
use crate::read::pinner::Pinner;
use crate::read::reader::ReadPath;
use crate::supply::clock::Marks;
use crate::supply::evict::Evictor;
use crate::write::moves::{PageMove, move_page};

fn mark(mapping: &Mapping) -> FrameNr {
    let found = Lookup(mapping).get(0, || 1).expect("a readable page");
    Pinner(mapping).note_counted(0, &found.reference);
    Pinner(mapping).mark(0, &found.reference);
    let frame = found.reference.frame();
    assert!(mapping.pool().meta(frame).is_marked());
    frame
}

/// Pins page 0 if it is hot, in a hazard slot if it is protected, and returns the byte that fills
/// it in both of two reads.
fn pin_hot(mapping: &Mapping) -> Option<u8> {
    let (hold, len) = Pinner(mapping).pin(0)?;
    let mut bytes = vec![0; FRAME_BYTES];
    hold.bytes().slice(0, len).copy_to(0, &mut bytes[..len]);
    let first = only_byte(&bytes[..FRAME_BYTES]);
    thread::yield_now();
    hold.bytes().slice(0, len).copy_to(0, &mut bytes[..len]);
    assert_eq!(
        only_byte(&bytes),
        first,
        "the bytes of a pinned page changed"
    );
    Some(first)
}

fn pinner(
    mapping: &Arc<Mapping>,
    expected: impl Fn(u8) -> bool + Send + 'static,
) -> thread::JoinHandle<()> {
    spawn(mapping, move |mapping| {
        // A counted pin gives the thread a hazard slot, as if it had pinned the page before.
        if let Ok(found) = Lookup(&mapping).get(0, || 1) {
            Pinner(&mapping).note_counted(0, &found.reference);
        }
        if let Some(byte) = pin_hot(&mapping) {
            assert!(expected(byte), "foreign bytes in a pinned page: {byte:x}");
        }
    })
}

/// A write finds a hazard-protected page. The page moves, and a pin does not see the change.
#[test]
fn loom_announced_pin_vs_write() {
    explore_file(2, clean, pool::<6>, writable, |files, mapping, _| {
        mark(&mapping);
        let pinner = pinner(&mapping, |byte| byte == OURS || byte == 1);
        write(&mapping, 0, 1);
        if let Some(next) = files.supply().pool().alloc(mapping.order()) {
            scribble(&next);
        }
        pinner.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), 1);
    });
}

/// A scan ends the protection of a page, which is then evicted, but never while the page is pinned.
#[test]
fn loom_announced_pin_vs_evict() {
    explore_file(2, clean, pool::<6>, writable, |files, mapping, _| {
        let frame = mark(&mapping);
        let pinner = pinner(&mapping, |byte| byte == OURS);
        let evictor = Evictor(files.supply());
        // Queries the page's frame, so that the next scan may end its hazard protection.
        drop(evictor.try_evict(frame, Marks::Ignored));
        files.supply().pool().look_at_announced();
        if let Some(unique) = evictor.try_evict(frame, Marks::Ignored) {
            scribble(&unique);
        }
        pinner.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), OURS);
    });
}

/// The frame of a removed page becomes free when no thread pins it any more.
#[test]
fn loom_announced_pin_vs_cut() {
    explore(2, || {
        let files = pool::<6>();
        let (mapping, _) = writable(&files);
        mark(&mapping);
        let pinner = pinner(mapping.mapping(), |byte| byte == OURS);
        Remover(&mapping).remove(0, 1, Unclean::Drop);
        if let Some(next) = files.supply().pool().alloc(mapping.order()) {
            scribble(&next);
        }
        pinner.join().unwrap();
        drop(mapping);
        assert_eq!(files.supply().pool().nr_marked(), 0);
        assert_at_rest(&files);
    });
}

#[test]
fn loom_announced_pin_vs_move() {
    explore_file(2, clean, two_nodes::<8>, writable, |files, mapping, _| {
        let frame = mark(&mapping);
        let node = other_node(files, frame);
        let pinner = pinner(&mapping, |byte| byte == OURS);
        // The first try ends the protection, if no thread has the page pinned.
        let moved = (0..2).any(|_| move_page(&mapping, 0, node) == PageMove::Done);
        if moved && let Some(next) = files.supply().pool().alloc(mapping.order()) {
            scribble(&next);
        }
        pinner.join().unwrap();
    });
}

#[test]
fn loom_mark_vs_write() {
    explore_file(2, clean, pool::<6>, writable, |_, mapping, _| {
        warm(&mapping, 0);
        let marker = spawn(&mapping, move |mapping| {
            let found = Lookup(&mapping).get(0, || 1).expect("a readable page");
            Pinner(&mapping).note_counted(0, &found.reference);
            Pinner(&mapping).mark(0, &found.reference);
            drop(found);
            let _ = pin_hot(&mapping);
        });
        write(&mapping, 0, 1);
        marker.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), 1);
    });
}

/// Starts a thread that drops its strong reference before its owned pin of page 0.
fn owner(file: Opened) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        if let Ok(found) = Lookup(&file).get(0, || 1) {
            Pinner(&file).note_counted(0, &found.reference);
        }
        let pinned = Pinner(&file).announced_owned(0);
        drop(file);
        if let Some((hold, len)) = pinned {
            assert!(hold.is_announced());
            let mut bytes = vec![0; FRAME_BYTES];
            hold.bytes().slice(0, len).copy_to(0, &mut bytes[..len]);
            assert_eq!(only_byte(&bytes), OURS);
        }
    })
}

/// The drop of the last strong reference closes the file; that of the pin does not.
#[test]
fn loom_announced_owned_pin_vs_close() {
    explore(2, || {
        let files = pool::<6>();
        let (mapping, storage) = writable(&files);
        mark(&mapping);
        let owner = owner(mapping.clone());
        drop(mapping);
        // A free frame may be used for other content.
        if let Some(next) = files.supply().pool().alloc(Order::ZERO) {
            scribble(&next);
        }
        owner.join().unwrap();
        assert_eq!(Arc::strong_count(&storage), 1, "a closed file is open");
        assert_eq!(files.supply().pool().nr_marked(), 0);
        assert_at_rest(&files);
    });
}

/// As the previous model, but the cache's frames exist exactly as long as the pin.
#[test]
fn loom_announced_owned_pin_vs_end_of_cache() {
    explore(2, || {
        let files = pool::<6>();
        let (mapping, storage) = writable(&files);
        mark(&mapping);
        let shared = Arc::downgrade(&files.shared);
        let owner = owner(mapping.clone());
        drop(files);
        drop(mapping);
        owner.join().unwrap();
        assert_eq!(Arc::strong_count(&storage), 1, "a closed file is open");
        assert!(shared.upgrade().is_none(), "frames are kept for nobody");
    });
}
