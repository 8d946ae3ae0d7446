//! Blocks of contiguous frames that are freed by evicting their content.

use pagewell_frame::{FRAME_BYTES, FrameNr, Order, UniqueFrame};

use super::{
    FOREIGN, OURS, clean, closed, cold, copy_of, evict, explore_file, mapping, only_byte, pool,
    read, spawn, stored, sync, warm,
};
use crate::files::state::Files;
use crate::mapping::record::Mapping;
use crate::read::lookup::{Found, Lookup};
use crate::read::reader::ReadPath;
use crate::supply::alloc::Allocator;
use crate::write::growth::Writer;

/// Writes to and frees two contiguous frames. Returns `false` if no block was available.
fn take_block(files: &Files) -> bool {
    let block = Allocator(files.supply()).alloc(Order::new(1).expect("an order"));
    if let Ok(block) = &block {
        assert_eq!(block.order().frames(), 2);
        block.bytes().copy_from(0, &[FOREIGN; 2 * FRAME_BYTES]);
    }
    block.is_ok()
}

/// Pages 0 and 1, in the only two frames that can become a block; first the one in the lower frame.
struct Place<'s> {
    pages: [u64; 2],
    frames: [FrameNr; 2],
    taken: Vec<UniqueFrame<'s>>,
}

impl<'s> Place<'s> {
    fn new(files: &'s Files, mapping: &Mapping) -> Self {
        // After the leaf has its frame, allocate all free frames except two contiguous ones.
        let frame = warm(mapping, 0);
        drop(evict(files.supply(), frame));
        let free = || files.supply().pool().alloc(Order::ZERO);
        let mut taken: Vec<_> = std::iter::from_fn(free).collect();
        taken.sort_by_key(|frame| frame.frame().get());
        let nr = |frame: &UniqueFrame<'_>| frame.frame().get();
        let at = taken
            .windows(2)
            .position(|pair| nr(&pair[0]) / 2 == nr(&pair[1]) / 2)
            .expect("frames in a row");
        drop(taken.drain(at..at + 2));
        let mut pages = [0, 1].map(|page| (warm(mapping, page), page));
        pages.sort_by_key(|(frame, _)| frame.get());
        Self {
            pages: pages.map(|(_, page)| page),
            frames: pages.map(|(frame, _)| frame),
            taken,
        }
    }
}

/// Pins and reads `page`, if a frame is available for it.
fn pin(mapping: &Mapping, page: u64) {
    if let Ok(Found { reference, .. }) = Lookup(mapping).get(page, || 1) {
        let bytes = copy_of(&reference);
        assert_eq!(only_byte(&bytes), OURS);
    }
}

/// The pin of one page of a block keeps its bytes or fills it again, and no frame is lost.
#[test]
fn loom_block_vs_pin() {
    explore_file(2, closed, pool::<8>, mapping::<2>, |files, mapping, _| {
        let place = Place::new(files, &mapping);
        let second = place.pages[1];
        let pinner = spawn(&mapping, move |mapping| pin(&mapping, second));
        take_block(files);
        pinner.join().unwrap();
        drop(place.taken);
        assert!(take_block(files), "nobody holds a page any more");
    });
}

/// A page is filled while contiguous frames are needed. The fill may use one of these frames.
#[test]
fn loom_block_vs_fill() {
    explore_file(1, closed, pool::<8>, mapping::<2>, |files, mapping, _| {
        let place = Place::new(files, &mapping);
        let [first, _] = place.frames;
        drop(evict(files.supply(), first).expect("a page"));
        let missing = place.pages[0];
        let filler = spawn(&mapping, move |mapping| pin(&mapping, missing));
        take_block(files);
        filler.join().unwrap();
        drop(place.taken);
        assert!(take_block(files), "nobody holds a page any more");
    });
}

/// A dirty page is not evicted for a block.
#[test]
fn loom_block_vs_write() {
    explore_file(2, clean, pool::<8>, cold::<2>, |files, mapping, backend| {
        let place = Place::new(files, &mapping);
        let second = place.pages[1];
        let pos = second * FRAME_BYTES as u64;
        let writer = spawn(&mapping, move |mapping| {
            Writer(&mapping).write_bytes(&[1; FRAME_BYTES], pos, 0)
        });
        take_block(files);
        // If the page was evicted, the write may have found no frame for it.
        let expected = match writer.join().unwrap() {
            Ok(_) => 1,
            Err(_) => OURS,
        };
        drop(place.taken);
        let byte = only_byte(&read(&mapping, second, ReadPath::Referenced));
        assert_eq!(byte, expected);
        sync(&mapping);
        assert_eq!(stored(&backend)[pos as usize], expected);
    });
}
