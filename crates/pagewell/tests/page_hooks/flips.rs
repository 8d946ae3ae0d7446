//! Bits that flip in the storage, below the hooks.

use std::sync::Arc;

use pagewell::OpenOptions;
use pagewell::io::{Direct, MemoryBackend};
use pagewell::{File, PageHooks};
use pagewell_testkit::{content, scratch};

use crate::doubles::{Checked, TRAILER, cache, is_corrupt, manual, memory, open};
use crate::support::PAGE;

/// Three pages with a checksum each, and what readers should see of them.
fn pages() -> (Arc<MemoryBackend>, Arc<Checked>, Vec<u8>) {
    let (storage, hooks) = (memory(), Arc::new(Checked::default()));
    let mut bytes = content(1, 3 * PAGE);
    for page in bytes.chunks_mut(PAGE) {
        page[PAGE - TRAILER..].fill(0);
    }
    let file = open(&cache(64), &storage, &manual(&hooks));
    file.write_at(&bytes, 0).unwrap();
    file.close().unwrap();
    (storage, hooks, bytes)
}

/// Flips a bit of the storage, has `look` look, and flips it back.
fn with_bit(storage: &MemoryBackend, bit: usize, look: impl FnOnce()) {
    let flip = || storage.modify(|bytes| bytes[bit / 8] ^= 1 << (bit % 8));
    flip();
    look();
    flip();
}

#[test]
fn every_flipped_bit_is_an_error_that_names_the_page_and_shows_nothing() {
    let (storage, hooks, bytes) = pages();
    let cache = cache(64);
    let options = OpenOptions::new().page_hooks(hooks as Arc<dyn PageHooks>);
    let file: File = open(&cache, &storage, &options);
    let mut buf = vec![0; PAGE];
    // All bits of one page, and some of the others.
    let all = (PAGE * 8..2 * PAGE * 8).chain((0..3 * PAGE * 8).step_by(97));
    for bit in all {
        let page = bit / 8 / PAGE;
        file.invalidate(0..u64::MAX);
        with_bit(&storage, bit, || {
            buf.fill(0xa5);
            is_corrupt(file.read_at(&mut buf, (page * PAGE) as u64), page as u64);
            assert!(buf.iter().all(|byte| *byte == 0xa5) || buf == [0; PAGE]);
            if bit.is_multiple_of(101) {
                // Its neighbours are as good as ever, also if they are read together with it.
                for good in (0..3).filter(|good| *good != page) {
                    let at = good * PAGE;
                    assert_eq!(file.read_at(&mut buf, at as u64).unwrap(), PAGE);
                    assert!(buf == bytes[at..at + PAGE]);
                }
            }
        });
        let at = page * PAGE;
        assert_eq!(file.read_at(&mut buf, at as u64).unwrap(), PAGE);
        assert!(buf == bytes[at..at + PAGE], "bit {bit}");
    }
}

#[test]
fn pages_that_changed_places_or_were_swapped_for_zeros_are_told() {
    let (storage, hooks, _) = pages();
    let file = open(&cache(64), &storage, &manual(&hooks));
    storage.modify(|bytes| bytes.copy_within(0..PAGE, PAGE));
    is_corrupt(file.pin(1).map(drop), 1);
    // All but zeros: that would be a hole.
    storage.modify(|bytes| bytes[2 * PAGE..3 * PAGE - 1].fill(0));
    is_corrupt(file.pin(2).map(drop), 2);
    assert!(file.pin(0).is_ok());
}

#[test]
fn bits_that_flip_in_a_file_of_the_system_are_told_on_every_way_of_transfer() {
    use std::os::unix::fs::FileExt;
    let dir = scratch::dir();
    for (name, direct) in [("direct", Direct::Auto), ("buffered", Direct::Never)] {
        let path = dir.path().join(name);
        let hooks = Arc::new(Checked::default());
        let options = OpenOptions::new()
            .create()
            .direct(direct)
            .page_hooks(Arc::clone(&hooks) as Arc<dyn PageHooks>);
        let file = cache(256).open_with(&path, &options).unwrap();
        for page in 0..64_u64 {
            file.write_at(&[page as u8; PAGE - TRAILER], page * PAGE as u64)
                .unwrap();
        }
        file.write_at(&[1], 64 * PAGE as u64 + 10).unwrap();
        file.close().unwrap();
        let system = std::fs::File::options()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        let mut byte = [0];
        let at = 40 * PAGE as u64 + 1234;
        system.read_exact_at(&mut byte, at).unwrap();
        system.write_all_at(&[byte[0] ^ 16], at).unwrap();
        let options = OpenOptions::new()
            .direct(direct)
            .page_hooks(Arc::clone(&hooks) as Arc<dyn PageHooks>);
        let file = cache(256).open_with(&path, &options).unwrap();
        // In order, so that much is read ahead.
        for page in 0..64 {
            match file.pin(page) {
                Ok(pin) => assert_eq!((pin[0], page == 40), (page as u8, false)),
                Err(error) => is_corrupt::<()>(Err(error), 40),
            }
        }
    }
}
