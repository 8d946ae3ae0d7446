//! Blocks of frames in a row that are made free by evicting what is in them.

use std::sync::Arc;

use loom::thread;
use pagewell_frame::refcount::LockBit;
use pagewell_frame::{FRAME_BYTES, Order};

use super::{
    FOREIGN, OURS, assert_at_rest, assert_clean_and_at_rest, cold, explore, mapping, only_byte,
    pool, read, stored, sync, warm, write,
};
use crate::lookup::Found;
use crate::read::ReadPath;
use crate::shared::Shared;

/// Takes two frames in a row for a moment, and writes to them.
fn take_block(shared: &Shared<LockBit>) {
    if let Ok(block) = shared.alloc(Order::new(1).expect("an order")) {
        assert_eq!(block.order().frames(), 2);
        block.bytes().copy_from(0, &[FOREIGN; 2 * FRAME_BYTES]);
    }
}

/// A page is pinned while its frame is wanted for a block, after the frame before it was evicted for that: the pin keeps
/// its bytes, or finds them anew, and what was evicted in vain is not lost.
#[test]
fn loom_block_vs_pin() {
    explore(2, || {
        let shared = pool::<LockBit>(4);
        let mapping = mapping(&shared, 2);
        let frames = [0, 1].map(|page| warm(&mapping, page).get());
        assert_eq!(frames[0] / 2, frames[1] / 2, "the pages are in one place");
        let second = u64::from(frames[1] > frames[0]);
        let pinner = {
            let mapping = Arc::clone(&mapping);
            thread::spawn(move || {
                let Ok(Found { reference, .. }) = mapping.get(second, || 1) else {
                    return;
                };
                for _ in 0..2 {
                    let mut bytes = vec![0; FRAME_BYTES];
                    reference.bytes().copy_to(0, &mut bytes);
                    assert_eq!(only_byte(&bytes), OURS);
                }
            })
        };
        take_block(&shared);
        pinner.join().unwrap();
        drop(mapping);
        assert_at_rest(&shared);
    });
}

/// A page is read in while frames in a row are wanted, of which it may take one.
#[test]
fn loom_block_vs_fill() {
    explore(2, || {
        let shared = pool::<LockBit>(4);
        let mapping = mapping(&shared, 2);
        warm(&mapping, 1);
        let filler = {
            let mapping = Arc::clone(&mapping);
            thread::spawn(move || {
                // There may be no frame for it for a moment.
                if let Ok(Found { reference, .. }) = mapping.get(0, || 1) {
                    let mut bytes = vec![0; FRAME_BYTES];
                    reference.bytes().copy_to(0, &mut bytes);
                    assert_eq!(only_byte(&bytes), OURS);
                }
            })
        };
        take_block(&shared);
        filler.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Referenced)), OURS);
        assert_eq!(only_byte(&read(&mapping, 1, ReadPath::Referenced)), OURS);
        drop(mapping);
        assert_at_rest(&shared);
    });
}

/// A page is written while its frame is wanted for a block: once it is dirty it stays.
#[test]
fn loom_block_vs_write() {
    explore(2, || {
        let shared = pool::<LockBit>(4);
        let (mapping, backend) = cold(&shared, 2 * FRAME_BYTES);
        warm(&mapping, 0);
        warm(&mapping, 1);
        let writer = {
            let mapping = Arc::clone(&mapping);
            thread::spawn(move || write(&mapping, 0, 1))
        };
        take_block(&shared);
        writer.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Referenced)), 1);
        assert_eq!(only_byte(&read(&mapping, 1, ReadPath::Referenced)), OURS);
        sync(&mapping);
        assert_eq!(only_byte(&stored(&backend)[..FRAME_BYTES]), 1);
        assert_clean_and_at_rest(&shared, mapping);
    });
}
