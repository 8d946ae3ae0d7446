//! Requests for frames of certain nodes, in pools with simulated nodes.

use pagewell_frame::{Place, UniqueFrame};

use super::*;
use crate::base::slot::{Slot, State};
use crate::index::claim::Leaf;
use crate::mapping::remove::{Remover, Unclean};
use crate::spaces::frames::CacheFrames;
use crate::supply::evict::unmark;
use crate::supply::reclaim::nodes::alloc_free;

const NR_NODES: usize = 2;
const OF_NODE: usize = NR_FRAMES / NR_NODES;

fn nr_pages(files: &Files) -> [usize; NR_NODES] {
    [0, 1].map(|node| {
        let frames = files.supply().pool().frames_of(node).map(FrameNr::new);
        let is_page =
            |frame: &FrameNr| files.supply().pool().meta(*frame).kind().0 == FrameKind::Page;
        frames.filter(is_page).count()
    })
}

/// Creates a cache of two nodes that are full of clean pages of one file, without accessed bits.
fn full() -> (Arc<Files>, Opened) {
    let files = files_with(NR_NODES);
    let mapping = open(&files, 4 * NR_FRAMES as u64);
    for page in 0..2 * NR_FRAMES as u64 {
        drop(pin(&mapping, page));
    }
    assert!(
        files.supply().pool().alloc(Order::ZERO).is_none(),
        "not full"
    );
    for page in 0..2 * NR_FRAMES as u64 {
        cool(&mapping, page);
    }
    let before = nr_pages(&files);
    assert!(
        before[0] > OF_NODE - 16 && before[1] > OF_NODE - 16,
        "{before:?}"
    );
    (files, mapping)
}

fn cool(mapping: &Mapping, page: u64) {
    let Some(leaf) = mapping.index().leaf(mapping.claims(), page) else {
        return;
    };
    let position = Leaf::slot_of(page);
    // ORDERING: Relaxed; there is one thread.
    let slot = Slot::from_bits(leaf.slot(position).load(Ordering::Relaxed));
    if slot.is_hot() {
        unmark(&leaf, position, slot);
    }
}

fn pages_on(files: &Files, mapping: &Mapping, node: usize) -> Vec<u64> {
    let is_there = |page: &u64| {
        let seen = mapping.index().look(*page).map(|seen| seen.slot.state());
        let pool = files.supply().pool();
        matches!(seen, Some(State::Present(frame)) if pool.node_of(frame) == Some(node))
    };
    (0..4 * NR_FRAMES as u64).filter(is_there).collect()
}

fn take_block(files: &Files, order: Order, place: Place) -> Option<UniqueFrame<'_>> {
    Allocator(files.supply()).alloc_at(order, place).ok()
}

fn take(files: &Files, place: Place, nr: usize) -> Vec<UniqueFrame<'_>> {
    let blocks = (0..nr).map(|_| take_block(files, Order::ZERO, place).unwrap());
    blocks.collect()
}

fn nr_on(files: &Files, blocks: &[UniqueFrame<'_>], node: usize) -> usize {
    let is_there =
        |block: &&UniqueFrame<'_>| files.supply().pool().node_of(block.frame()) == Some(node);
    blocks.iter().filter(is_there).count()
}

fn pin_on<'m>(files: &Files, mapping: &'m Mapping, node: usize) -> Vec<FrameRef<'m>> {
    let pages = pages_on(files, mapping, node);
    pages.into_iter().map(|page| pin(mapping, page)).collect()
}

/// Regression test: an area bound to a node full of clean pages got no frame. Pages were evicted on
/// any node, or not at all, since another node had free frames.
#[test]
fn frames_of_a_node_are_freed_there_and_nowhere_else() {
    let (files, mapping) = full();
    // Node 0 has free frames throughout, but the request cannot use them.
    for page in &pages_on(&files, &mapping, 0)[..32] {
        Remover(&mapping).remove(*page, *page + 1, Unclean::Drop);
    }
    let before = nr_pages(&files);
    let taken = take(&files, Place::Only(1), 300);
    assert_eq!(nr_on(&files, &taken, 1), 300);
    let after = nr_pages(&files);
    assert_eq!(after[0], before[0], "pages of the other node were evicted");
    // The evictions freed the requested frames, and at most the additional frames of one request.
    let nr_evicted = before[1] - after[1];
    assert!((284..=316).contains(&nr_evicted), "{nr_evicted}");
    drop(taken);
    drop(mapping);
    assert_at_rest(&files);
}

/// If any node will do, no page is evicted while a frame is free. Otherwise pages of the preferred
/// node are evicted first, then those of other nodes.
#[test]
fn a_preference_is_for_free_frames_first_and_then_for_pages_that_go() {
    let (files, mapping) = full();
    for page in &pages_on(&files, &mapping, 0)[..32] {
        Remover(&mapping).remove(*page, *page + 1, Unclean::Drop);
    }
    let before = nr_pages(&files);
    let free = take(&files, Place::Prefer(1), 32);
    assert_eq!(nr_on(&files, &free, 0), 32);
    assert_eq!(nr_pages(&files), before, "evicted with frames free");

    let evicted = take(&files, Place::Prefer(1), 100);
    assert_eq!(nr_on(&files, &evicted, 1), 100);
    assert_eq!(nr_pages(&files)[0], before[0]);

    drop(evicted);
    let (pins, before) = (pin_on(&files, &mapping, 1), nr_pages(&files));
    let mut elsewhere = take(&files, Place::Prefer(1), 300);
    // The request first gets the free frames of the node.
    elsewhere.retain(|block| files.supply().pool().node_of(block.frame()) == Some(0));
    assert!(elsewhere.len() >= 180, "{}", elsewhere.len());
    assert_eq!(nr_pages(&files)[1], before[1]);
    drop((free, elsewhere, pins));
    drop(mapping);
    assert_at_rest(&files);
}

#[test]
fn pages_of_a_node_have_a_second_chance() {
    let (files, mapping) = full();
    let there = pages_on(&files, &mapping, 1);
    let (hot, cold) = there.split_at(100);
    assert!(cold.len() > 200);
    let mut taken = Vec::new();
    for _ in 0..10 {
        for page in hot {
            drop(pin(&mapping, *page));
        }
        taken.append(&mut take(&files, Place::Only(1), 20));
    }
    let left = pages_on(&files, &mapping, 1);
    let nr_kept = hot.iter().filter(|page| left.contains(page)).count();
    assert_eq!(nr_kept, hot.len());
    drop(taken);
    drop(mapping);
    assert_at_rest(&files);
}

/// Even if all pages of the node were recently accessed, some are evicted for requests.
#[test]
fn pages_of_a_node_that_are_all_hot_go_too() {
    let (files, mapping) = full();
    for page in pages_on(&files, &mapping, 0) {
        drop(pin(&mapping, page));
    }
    let before = nr_pages(&files);
    let taken = take(&files, Place::Only(0), 50);
    assert_eq!(nr_on(&files, &taken, 0), 50);
    assert_eq!(nr_pages(&files)[1], before[1]);
}

#[test]
fn a_block_of_a_node_is_put_together_there() {
    let (files, mapping) = full();
    let before = nr_pages(&files);
    let blocks: Vec<_> = (0..10)
        .map(|_| take_block(&files, sixteen(), Place::Only(1)).unwrap())
        .collect();
    assert_eq!(nr_on(&files, &blocks, 1), 10);
    let after = nr_pages(&files);
    assert_eq!(after[0], before[0]);
    assert!(before[1] - after[1] <= 160);
    // The file has too few leaves for one in every place for a block, so the preference is met.
    let preferred = take_block(&files, sixteen(), Place::Prefer(0)).unwrap();
    assert_eq!(files.supply().pool().node_of(preferred.frame()), Some(0));
    drop((blocks, preferred));
    drop(mapping);
    assert_at_rest(&files);
}

/// All pages of one node are pinned, another node has many pages to evict, and transfers are always
/// in flight. A request for the first node ends nevertheless.
#[test]
fn a_request_for_a_node_of_pinned_pages_ends_though_others_have_room_and_transfers() {
    let (files, mapping) = full();
    let mut pins = pin_on(&files, &mapping, 1);
    let elsewhere = files.supply().transfers.begin(NodeSet::only(0));
    // Evict the leaves that are no longer in use.
    let take_there = |order| take_block(&files, order, Place::Only(1));
    let _leaves: Vec<_> = std::iter::from_fn(|| take_there(Order::ZERO)).collect();
    let before = nr_pages(&files);
    for order in [Order::ZERO, sixteen()] {
        assert!(take_there(order).is_none(), "{order:?}");
    }
    assert_eq!(nr_pages(&files), before, "evicted in vain");
    drop(elsewhere);

    let _there = files.supply().transfers.begin(NodeSet::only(1));
    std::thread::scope(|scope| {
        let request = scope.spawn(|| take_there(Order::ZERO).is_some());
        std::thread::sleep(Duration::from_millis(500));
        assert!(!request.is_finished());
        pins.pop();
        assert!(request.join().unwrap());
    });
}

/// Low enough that the writer is not throttled.
const NR_DIRTY: usize = 100;

/// Fills a cache, so that each frame is in use or has a dirty page of a file with mode `mode`, all
/// but possibly the first one on the second node.
fn full_of_dirty(files: &Arc<Files>, mode: Writeback) -> (Opened, Vec<FrameNr>) {
    let backend = MemoryBackend::writable(vec![0; OF_NODE * 4096]);
    let options = WriteOptions {
        mode: Some(mode),
        before_write: None,
    };
    let mapping = Opened::simple(files, backend, Access::Write(options));
    // The first write allocates the leaf too, on any node.
    Writer(&mapping).write_bytes(&[1; 4096], 0, 0).unwrap();
    let mut taken = Vec::new();
    for (node, left) in [(0, 0), (1, NR_DIRTY)] {
        let place = Place::Only(node);
        let mut free: Vec<_> =
            std::iter::from_fn(|| alloc_free(files.supply().pool(), Order::ZERO, place)).collect();
        free.truncate(free.len() - left);
        taken.extend(free.into_iter().map(keep));
    }
    for page in 1..=NR_DIRTY as u64 {
        Writer(&mapping)
            .write_bytes(&[1; 4096], page * 4096, 0)
            .unwrap();
    }
    assert_eq!(files.supply().pool().stats().nr_available(), 0);
    (mapping, taken)
}

#[test]
fn dirty_pages_of_a_node_are_written_back_and_then_go() {
    let files = files_with(NR_NODES);
    files.flushers.start(&files).unwrap();
    let (mapping, taken) = full_of_dirty(&files, Writeback::Background);
    let frames = CacheFrames::new(Arc::clone(&files));
    assert!(frames.make_room(Order::ZERO, Place::Only(1)).is_none());
    // The request did not make further passes to wait until the pages are clean.
    // ORDERING: Relaxed; there is one thread.
    let hand = files
        .supply()
        .clock
        .hand(Among::Node(1))
        .load(Ordering::Relaxed);
    assert!(hand / OF_NODE < 8, "{} rounds", hand / OF_NODE);
    if nr_pages(&files)[0] == 0 {
        assert!(
            !frames.make_clean(Order::ZERO, Place::Only(0)),
            "nothing is dirty there"
        );
    }
    assert!(frames.make_clean(Order::ZERO, Place::Only(1)));
    let block = frames.make_room(Order::ZERO, Place::Only(1)).unwrap();
    assert_eq!(files.supply().pool().node_of(block.frame()), Some(1));
    drop(block);
    assert!(
        !frames.make_clean(Order::ZERO, Place::Anywhere),
        "all are clean"
    );
    for frame in taken {
        drop(kept_reference(files.supply().pool(), frame));
    }
    drop((frames, mapping));
    assert_at_rest(&files);
}

/// Without background writeback, dirty pages are not written back to free frames.
#[test]
fn dirty_pages_that_only_the_program_writes_back_stay() {
    let files = files_with(NR_NODES);
    let (mapping, taken) = full_of_dirty(&files, Writeback::Manual);
    let frames = CacheFrames::new(Arc::clone(&files));
    assert!(!frames.make_clean(Order::ZERO, Place::Only(1)));
    assert!(frames.make_room(Order::ZERO, Place::Only(1)).is_none());
    Flusher(&mapping)
        .sync(crate::dirty::commits::Sync::Data)
        .unwrap();
    assert!(frames.make_room(Order::ZERO, Place::Only(1)).is_some());
    for frame in taken {
        drop(kept_reference(files.supply().pool(), frame));
    }
}

#[test]
fn a_node_that_the_pool_does_not_have_is_never_full_of_anything() {
    for nr_nodes in [1, NR_NODES] {
        let frames = CacheFrames::new(files_with(nr_nodes));
        for place in [Place::Only(nr_nodes), Place::Prefer(usize::MAX)] {
            assert!(frames.make_room(Order::ZERO, place).is_none());
            assert!(!frames.make_clean(Order::ZERO, place));
        }
        assert!(
            frames
                .make_room(Order::ZERO, Place::Only(nr_nodes - 1))
                .is_some()
        );
    }
}
