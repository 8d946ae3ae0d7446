//! Tests of reclaim: evictions, frames that it does not touch, and failures.

mod nodes;
mod queues;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{Error, ErrorKind, Op};
use crate::dirty::writes::{Access, WriteOptions, Writeback};
use crate::files::clean::Cleaner;
use crate::files::opened::Opened;
use crate::files::serve::files_of;
use crate::files::state::Files;
use crate::mapping::record::Mapping;
use crate::read::lookup::Lookup;
use crate::read::raw::{keep, kept_reference};
use crate::supply::alloc::Allocator;
use crate::supply::census::OutOfFrames;
use crate::supply::clock::{Among, Marks};
use crate::supply::parts::Event;
use crate::supply::permits::OfFile;
use crate::supply::reclaim::reclaimer::Reclaimer;
use crate::supply::transfers::NodeSet;
use crate::write::growth::Writer;
use crate::writeback::flush::Flusher;
use pagewell_frame::{FrameKind, FrameNr, FramePool, FrameRef, Nodes, Order, PoolConfig};
use pagewell_io::{Backend, FileId, MemoryBackend};
use pagewell_io_testing::{Fault, FaultBackend, Operation};
use pagewell_sync::atomic::Ordering;
use pagewell_sync::bytes::RacyBytes;
use pagewell_testkit::wait::until;

const NR_FRAMES: usize = 1024;

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

fn files() -> Arc<Files> {
    files_with(1)
}

fn files_with(nr_nodes: usize) -> Arc<Files> {
    files_of_frames(NR_FRAMES, nr_nodes)
}

fn files_of_frames(nr_frames: usize, nr_nodes: usize) -> Arc<Files> {
    let mut config = PoolConfig::new(nr_frames);
    config.nodes = Nodes::Unbound(nr_nodes);
    files_of(FramePool::new(&config).unwrap())
}

fn open(files: &Arc<Files>, nr_pages: u64) -> Opened {
    Opened::simple(files, Zeros(nr_pages * 4096), Access::Read)
}

fn pin(mapping: &Mapping, page: u64) -> FrameRef<'_> {
    Lookup(mapping).get(page, || 1).unwrap().reference
}

/// Fills the cache. Pins a page in each aligned range of sixteen frames that contains a page.
fn pin_every_place(mapping: &Mapping) -> Vec<FrameRef<'_>> {
    let mut places = HashSet::new();
    (0..2 * NR_FRAMES as u64)
        .map(|page| pin(mapping, page))
        .filter(|pinned| places.insert(pinned.frame().get() / 16))
        .collect()
}

fn nr_evicted(files: &Files) -> u64 {
    files.supply().counters.get(Event::Eviction)
}

fn assert_at_rest(files: &Files) {
    files.supply().pool().verify().unwrap();
    assert_eq!(files.supply().pool().stats().nr_available(), NR_FRAMES);
}

fn sixteen() -> Order {
    Order::new(4).unwrap()
}

/// Lets 64 threads miss one page of a full cache concurrently. Returns the numbers of evicted and
/// filled pages. Budget reservations are granted once all threads wait for one, and the backend
/// returns the page once no thread waits.
fn evicted_by_64_misses(is_leaf_there: bool) -> (u64, u64) {
    const THREADS: usize = 64;
    let files = files();
    let script = {
        let files = Arc::downgrade(&files);
        move |_: &Operation| {
            let files = files.upgrade().expect("a cache");
            until("all threads are past the permit", || {
                files.supply().in_flight.nr_waiters() == 0
            });
            Fault::None
        }
    };
    let zeros = Zeros(1024 * NR_FRAMES as u64 * 4096);
    let backend = FaultBackend::with_script(zeros, script);
    let mapping = Opened::simple(&files, backend, Access::Read);
    let missing = 512 * NR_FRAMES as u64;
    let neighbour = is_leaf_there.then(|| pin(&mapping, missing + 1));
    for page in 0..2 * NR_FRAMES as u64 {
        drop(pin(&mapping, page));
    }
    let (evicted, read) = (nr_evicted(&files), files.supply().counters.get(Event::Fill));
    let of_file = OfFile::default();
    let all = files.supply().in_flight.all(&of_file);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| drop(pin(&mapping, missing)));
        }
        until("all threads want a permit", || {
            files.supply().in_flight.nr_waiters() == THREADS
        });
        drop(all);
    });
    drop(neighbour);
    let counts = (
        nr_evicted(&files) - evicted,
        files.supply().counters.get(Event::Fill) - read,
    );
    drop(mapping);
    assert_at_rest(&files);
    counts
}

/// Regression test: each of 64 threads that missed one page evicted another page for it. Now only
/// the thread that fills the page allocates a frame.
#[test]
fn threads_that_miss_one_page_evict_one() {
    assert_eq!(evicted_by_64_misses(true), (1, 1));
}

/// As above, but the page's leaf does not exist. The leaf needs a frame for its metadata, and at
/// most two for the memory that it shares with its neighbours.
#[test]
fn threads_that_miss_one_leaf_make_one() {
    let (nr_evicted, nr_read) = evicted_by_64_misses(false);
    assert!((1..=4).contains(&nr_evicted), "{nr_evicted}");
    assert_eq!(nr_read, 1);
}

/// Regression test: one pin of a 64 KiB page evicted nearly all of a cache of small pages one by
/// one, and then failed, since each aligned range contained a pinned page.
#[test]
fn pins_in_every_place_make_a_large_request_fail_without_an_eviction() {
    let files = files();
    let mapping = open(&files, 4 * NR_FRAMES as u64);
    let mut pins = pin_every_place(&mapping);
    let before = nr_evicted(&files);
    let error = Allocator(files.supply()).alloc(sixteen()).unwrap_err();
    assert!(
        matches!(error, OutOfFrames::Fragmented { nr_wanted: 16, nr_loose, .. } if nr_loose > 900),
        "{error:?}"
    );
    assert!(
        error.to_string().contains("no 16 contiguous frames"),
        "{error}"
    );
    // Regression test: frames that could be evicted were reported as pinned.
    assert!(
        error
            .to_string()
            .contains(&format!(" {} pinned", pins.len())),
        "{error}"
    );
    assert_eq!(nr_evicted(&files), before);

    // With one place unpinned, the request uses this place, and changes no other.
    pins.swap_remove(20);
    let block = Allocator(files.supply()).alloc(sixteen()).unwrap();
    assert_eq!(block.order(), sixteen());
    assert!(nr_evicted(&files) <= before + 16);
    drop(block);
    drop(pins);
    drop(mapping);
    assert_at_rest(&files);
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
    assert_at_rest(&files);
}

/// Regression test: places in a larger block, which has a kind only at its head, used up all tries.
#[test]
fn a_place_in_a_larger_block_is_not_tried() {
    let files = files();
    let pool = files.supply().pool();
    let mut blocks: Vec<_> = (0..30).map(|_| pool.alloc(sixteen()).unwrap()).collect();
    let mapping = open(&files, 64);
    for page in 0..64 {
        drop(pin(&mapping, page));
    }
    // No frame is free, so only a place with pages is fit.
    blocks.extend(std::iter::from_fn(|| pool.alloc(sixteen())));
    blocks.extend(std::iter::from_fn(|| pool.alloc(Order::ZERO)));
    let four = Order::new(2).unwrap();
    // The first pass may clear accessed bits.
    let found = (0..2).find_map(|_| Reclaimer(files.supply()).find_unmarked(four));
    assert_eq!(found.map(|block| block.order()), Some(four));
    drop((blocks, mapping));
    assert_at_rest(&files);
}

/// Scattered reads leave a leaf in every place, and a leaf with a page cannot be moved. A block
/// must be available nevertheless, at the cost of few pages.
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
    assert_at_rest(&files);
}

/// Regression test: requests failed after 0.1 s while all frames were being filled by a slow
/// backend. Now they wait for transfers in flight, until none has ended for 0.9 s.
#[test]
fn a_request_waits_for_transfers_that_end() {
    let files = files();
    let mut all: Vec<_> = std::iter::from_fn(|| files.supply().pool().alloc(Order::ZERO)).collect();
    assert!(matches!(
        Allocator(files.supply()).alloc(Order::ZERO).unwrap_err(),
        OutOfFrames::InUse(_)
    ));

    let _transfer = files.supply().transfers.begin(NodeSet::ALL);
    std::thread::scope(|scope| {
        let request = scope.spawn(|| Allocator(files.supply()).alloc(Order::ZERO).is_ok());
        std::thread::sleep(Duration::from_millis(500));
        assert!(!request.is_finished());
        all.pop();
        assert!(request.join().unwrap());

        // For a block of sixteen, a place whose frames are all being filled may become free.
        let request = scope.spawn(|| Allocator(files.supply()).alloc(sixteen()).is_ok());
        std::thread::sleep(Duration::from_millis(500));
        assert!(!request.is_finished());
        all.clear();
        assert!(request.join().unwrap());
    });
}

/// With pins in every place, the request does not wait for transfers, which may never cease.
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

/// A cache of 4096 frames in which nothing can be evicted: 700 pages are dirty, 300 unsynced and
/// 2000 pinned. The index and the test use the rest.
struct Stuck {
    files: Arc<Files>,
    dirty: Opened,
    clean: Opened,
    pinned: Vec<FrameNr>,
    rest: Vec<FrameNr>,
}

impl Stuck {
    fn new() -> Self {
        const PAGES: u64 = 4096;
        let files = files_of_frames(PAGES as usize, 1);
        let options = WriteOptions {
            mode: Some(Writeback::Manual),
            before_write: None,
        };
        let backend = MemoryBackend::writable(vec![0; 1 << 20]);
        let dirty = Opened::simple(&files, backend, Access::Write(options));
        let write = |pages: Range<u64>| {
            for page in pages {
                Writer(&dirty)
                    .write_bytes(&[1; 4096], page * 4096, 0)
                    .unwrap();
            }
        };
        write(0..300);
        assert_eq!(Flusher(&dirty).flush(0..300).unwrap(), 300);
        write(300..1000);
        let clean = open(&files, 8 * PAGES);
        let pinned = (0..2000).map(|page| pin(&clean, page).into_raw()).collect();
        files.supply().leaf_stock.drain(&files.supply().claims);
        let rest = std::iter::from_fn(|| files.supply().pool().alloc(Order::ZERO));
        let rest = rest.map(keep).collect();
        Self {
            dirty,
            clean,
            pinned,
            rest,
            files,
        }
    }

    /// Returns the numbers of frames that the hand has passed, and of attempts to claim a slot.
    fn effort(&self) -> (usize, u64) {
        let supply = self.files.supply();
        // ORDERING: Relaxed; there is one thread.
        let hand = supply.clock.hand(Among::All).load(Ordering::Relaxed);
        (hand, supply.claims.nr_claimed.load(Ordering::Relaxed))
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        for frame in self.rest.drain(..) {
            drop(kept_reference(self.files.supply().pool(), frame));
        }
        for frame in self.pinned.drain(..) {
            drop(kept_reference(self.files.supply().pool(), frame));
        }
        Flusher(&self.dirty)
            .sync(crate::dirty::commits::Sync::Data)
            .unwrap();
    }
}

/// Regression test: if nothing could be evicted, a request made 64 passes over all frames, and
/// claimed every page. Now it makes one pass, which reads only frame metadata.
#[test]
fn when_nothing_can_be_evicted_one_look_at_each_frame_says_so_and_nothing_is_claimed() {
    let stuck = Stuck::new();
    for order in [Order::ZERO, sixteen()] {
        let before = stuck.effort();
        let error = Allocator(stuck.files.supply()).alloc(order).unwrap_err();
        let after = stuck.effort();
        assert!(matches!(error, OutOfFrames::InUse(_)), "{error:?}");
        assert_eq!(after.0 - before.0, 4096, "looks at frames");
        assert_eq!(after.1, before.1, "claims");
    }
    assert!(Lookup(&stuck.clean).get(1, || 1).is_ok());
    // A read of a file fails in the same way.
    let error = Lookup(&stuck.clean).get(9000, || 1).unwrap_err();
    let text = error.to_string();
    let numbers = [
        "of 4096 frames",
        "700 dirty",
        "300 unsynced",
        "2000 pinned",
        "managed by the program",
        "used by indexes",
    ];
    for part in numbers {
        assert!(text.contains(part), "{text}");
    }
}

/// A request makes a limited number of passes, without sleeping, for a page that may soon be free.
#[test]
fn a_page_that_may_be_held_for_a_moment_is_looked_at_a_few_times_more() {
    let mut stuck = Stuck::new();
    for frame in stuck.pinned.split_off(10) {
        drop(kept_reference(stuck.files.supply().pool(), frame));
    }
    let mut others = Vec::new();
    while let Ok(unique) = Allocator(stuck.files.supply()).alloc(Order::ZERO) {
        others.push(keep(unique));
    }
    stuck.rest.append(&mut others);
    let before = stuck.effort();
    let error = Allocator(stuck.files.supply())
        .alloc(Order::ZERO)
        .unwrap_err();
    assert!(error.to_string().contains(", 10 pinned,"), "{error}");
    let nr_rounds = (stuck.effort().0 - before.0) / 4096;
    // A request scans at most four million frames again, and makes at least one more pass.
    assert!((2..=1025).contains(&nr_rounds), "{nr_rounds}");
    assert_eq!(stuck.effort().1, before.1, "claims");
    let held = stuck.pinned.pop().unwrap();
    drop(kept_reference(stuck.files.supply().pool(), held));
    assert!(Allocator(stuck.files.supply()).alloc(Order::ZERO).is_ok());
}

/// Regression test: each of several concurrent requests scanned only some of the frames, and
/// reported that all were in use. A pass that ignores the accessed bits now covers all frames.
#[test]
fn a_firm_round_is_over_every_frame_while_others_move_the_hand() {
    let files = files();
    for order in [Order::ZERO, sixteen()] {
        let nr_places = NR_FRAMES / order.frames() as usize;
        let mut ours = HashSet::new();
        let (clock, pool) = (&files.supply().clock, files.supply().pool());
        let mut theirs = clock.lap(pool, Order::ZERO, Marks::Respected, Among::All);
        for place in clock.lap(pool, order, Marks::Ignored, Among::All) {
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
    assert_at_rest(&files);
}

/// Regression test: the dirty pages were cleaned between the scan and the wait for clean pages, and
/// the write failed although frames could be evicted.
#[test]
fn who_finds_that_everything_is_clean_by_now_tries_again() {
    let files = files_of(FramePool::new(&PoolConfig::new(64)).unwrap());
    let error = |nr| Error::new(ErrorKind::OutOfFrames, Op::Write).with_unclean(nr);
    let room = |error| Cleaner(&files).make_room(error, Order::ZERO);
    assert!(room(error(5)).is_ok());
    assert!(room(error(0)).is_err());
    let other = Error::new(ErrorKind::Io, Op::Write).with_unclean(5);
    assert_eq!(room(other).unwrap_err().kind(), ErrorKind::Io);
}
