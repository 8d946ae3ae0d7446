//! What reclaim finds, what it leaves alone, and when it gives up.

mod nodes;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::base::page::PageSize;
use crate::dirty::options::Access;
use crate::files::opened::Opened;
use crate::files::setup::files_of;
use crate::files::state::Files;
use crate::mapping::record::Mapping;
use crate::read::lookup::Lookup;
use crate::supply::alloc::Allocator;
use crate::supply::counters::Event;
use crate::supply::out_of_frames::OutOfFrames;
use crate::supply::policy::clock::{Among, Marks};
use crate::supply::transfers::NodeSet;
use pagewell_frame::refcount::LockBit;
use pagewell_frame::{FrameKind, FrameNr, FramePool, FrameRef, Nodes, Order, PoolConfig};
use pagewell_io::{Backend, FileId};
use pagewell_sync::bytes::RacyBytes;

const NR_FRAMES: usize = 1024;

/// A file of zeros, of any size.
#[derive(Debug)]
struct Zeros(u64);

impl Backend for Zeros {
    fn read_at(&self, bufs: &[RacyBytes<'_>], _: u64) -> std::io::Result<usize> {
        for buf in bufs {
            buf.zero(0, buf.len());
        }
        Ok(bufs.iter().map(|buf| buf.len()).sum())
    }

    fn size(&self) -> std::io::Result<u64> {
        Ok(self.0)
    }

    fn id(&self) -> FileId {
        FileId {
            device: 0,
            inode: self.0,
        }
    }
}

fn files() -> Arc<Files<LockBit>> {
    files_with(1)
}

fn files_with(nr_nodes: usize) -> Arc<Files<LockBit>> {
    let mut config = PoolConfig::new(NR_FRAMES);
    config.nodes = Nodes::Unbound(nr_nodes);
    files_of(FramePool::new(&config).unwrap())
}

/// A file of zeros with pages of one frame.
fn open(files: &Arc<Files<LockBit>>, nr_pages: u64) -> Opened<LockBit> {
    let backend = Box::new(Zeros(nr_pages * 4096));
    let (path, page_size) = ("zeros".into(), PageSize::SMALLEST);
    Opened::of_backend(files, backend, path, page_size, Access::Read)
        .unwrap()
        .0
}

fn pin(mapping: &Mapping<LockBit>, page: u64) -> FrameRef<'_, LockBit> {
    Lookup(mapping).get(page, || 1).unwrap().reference
}

/// Fills the cache, and pins a page in each place for a block of sixteen frames that has any.
fn pin_every_place(mapping: &Mapping<LockBit>) -> Vec<FrameRef<'_, LockBit>> {
    let mut places = HashSet::new();
    (0..2 * NR_FRAMES as u64)
        .map(|page| pin(mapping, page))
        .filter(|pinned| places.insert(pinned.frame().get() / 16))
        .collect()
}

fn nr_evicted(files: &Files<LockBit>) -> u64 {
    files.supply().counters.get(Event::Eviction)
}

fn sixteen() -> Order {
    Order::new(4).unwrap()
}

/// One pin of a 64 KiB page evicted nearly all of a cache of small pages, and then failed: frames were
/// evicted one by one in the hope that they would merge, which one pinned page in each place prevented. A
/// request now looks for a place first.
#[test]
fn pins_in_every_place_make_a_large_request_fail_without_an_eviction() {
    let files = files();
    let mapping = open(&files, 4 * NR_FRAMES as u64);
    let mut pins = pin_every_place(&mapping);
    let before = nr_evicted(&files);
    let error = Allocator(files.supply()).alloc(sixteen()).unwrap_err();
    assert!(
        matches!(error, OutOfFrames::Fragmented { nr_wanted: 16, nr_loose } if nr_loose > 900),
        "{error:?}"
    );
    assert!(error.to_string().contains("16 in a row"), "{error}");
    assert_eq!(nr_evicted(&files), before);

    // One place becomes free: that one is taken, and no other.
    pins.swap_remove(20);
    let block = Allocator(files.supply()).alloc(sixteen()).unwrap();
    assert_eq!(block.order(), sixteen());
    assert!(nr_evicted(&files) <= before + 16);
    drop(block);
    drop(pins);
    drop(mapping);
    files.supply().pool().verify().unwrap();
    assert_eq!(files.supply().pool().stats().nr_available(), NR_FRAMES);
}

#[test]
fn a_large_request_evicts_one_place() {
    let files = files();
    let mapping = open(&files, 4 * NR_FRAMES as u64);
    for page in 0..2 * NR_FRAMES as u64 {
        drop(pin(&mapping, page));
    }
    let before = nr_evicted(&files);
    let blocks: Vec<_> = (0..10)
        .map(|_| Allocator(files.supply()).alloc(sixteen()).unwrap())
        .collect();
    assert!(nr_evicted(&files) <= before + 160);
    drop(blocks);
    drop(mapping);
    files.supply().pool().verify().unwrap();
    assert_eq!(files.supply().pool().stats().nr_available(), NR_FRAMES);
}

/// Pages read here and there in a huge file leave a leaf in every place, and a leaf with a page cannot be
/// moved. Nothing is pinned, so there must be a block all the same, at the price of few pages.
#[test]
fn leaves_in_every_place_are_emptied_for_a_large_request() {
    let files = files();
    let mapping = open(&files, 512 * 2 * NR_FRAMES as u64);
    for leaf in 0..NR_FRAMES as u64 {
        drop(pin(&mapping, 512 * leaf));
    }
    let used = |first| {
        (first..first + 16).any(|nr| {
            let record = files.supply().pool().meta(FrameNr::new(nr));
            record.kind().0 == FrameKind::Leaf && record.count() > 1
        })
    };
    assert!((0..NR_FRAMES as u32).step_by(16).all(used));
    let before = nr_evicted(&files);
    let block = Allocator(files.supply()).alloc(sixteen()).unwrap();
    assert!(nr_evicted(&files) - before <= 32);
    drop(block);
    drop(mapping);
    files.supply().pool().verify().unwrap();
    assert_eq!(files.supply().pool().stats().nr_available(), NR_FRAMES);
}

/// Requests failed after a tenth of a second while all frames were being filled by a storage that was
/// merely slow. Now they wait for as long as transfers are under way.
#[test]
fn a_request_waits_for_transfers_however_long_they_take() {
    let files = files();
    let mut all: Vec<_> = std::iter::from_fn(|| files.supply().pool().alloc(Order::ZERO)).collect();
    assert_eq!(
        Allocator(files.supply()).alloc(Order::ZERO).unwrap_err(),
        OutOfFrames::InUse
    );

    let _transfer = files.supply().transfers.begin(NodeSet::ALL);
    std::thread::scope(|scope| {
        let request = scope.spawn(|| Allocator(files.supply()).alloc(Order::ZERO).is_ok());
        std::thread::sleep(Duration::from_millis(500));
        assert!(!request.is_finished());
        all.pop();
        assert!(request.join().unwrap());

        // A block of sixteen: a place all of whose frames are being filled may be free one day.
        let request = scope.spawn(|| Allocator(files.supply()).alloc(sixteen()).is_ok());
        std::thread::sleep(Duration::from_millis(500));
        assert!(!request.is_finished());
        all.clear();
        assert!(request.join().unwrap());
    });
}

/// With pins in every place, no transfer will ever make room for a block: the request does not wait for
/// those of others, of which there may always be some.
#[test]
fn a_request_that_transfers_cannot_help_fails_while_they_go_on() {
    let files = files();
    let mapping = open(&files, 4 * NR_FRAMES as u64);
    let _pins = pin_every_place(&mapping);
    let _transfer = files.supply().transfers.begin(NodeSet::ALL);
    assert!(matches!(
        Allocator(files.supply()).alloc(sixteen()).unwrap_err(),
        OutOfFrames::Fragmented { .. }
    ));
}

/// With several requests at a time, each saw only some of the frames in its rounds, and reported that all
/// were in use. A round that ignores the marks is over all frames, whatever others do.
#[test]
fn a_firm_round_is_over_every_frame_while_others_move_the_hand() {
    let files = files();
    for order in [Order::ZERO, sixteen()] {
        let nr_places = NR_FRAMES / order.frames() as usize;
        let mut ours = HashSet::new();
        let mut theirs = files.supply().clock.lap(
            files.supply().pool(),
            Order::ZERO,
            Marks::Respected,
            Among::All,
        );
        for place in
            files
                .supply()
                .clock
                .lap(files.supply().pool(), order, Marks::Ignored, Among::All)
        {
            ours.insert(place);
            theirs.next();
        }
        assert_eq!(ours.len(), nr_places);
    }
}

#[test]
fn many_threads_that_want_blocks_of_all_sizes_get_them_and_lose_none() {
    let files = files();
    let mapping = open(&files, 4 * NR_FRAMES as u64);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (files, mapping) = (&files, &mapping);
            scope.spawn(move || {
                for i in 0..400_u64 {
                    let page = (i * 7919 + thread * 1021) % (4 * NR_FRAMES as u64);
                    drop(pin(mapping, page));
                    let order = Order::new((i % 5) as u8).unwrap();
                    drop(Allocator(files.supply()).alloc(order).unwrap());
                }
            });
        }
    });
    drop(mapping);
    files.supply().pool().verify().unwrap();
    assert_eq!(files.supply().pool().stats().nr_available(), NR_FRAMES);
}
