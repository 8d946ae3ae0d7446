//! Pages pinned for writing (`pin_mut`), against writes, discards and evictions.

use super::{
    HALF, OURS, assert_synced, clean, copy_of, evict, explore_file, flush, only_byte,
    optimistic_reader, pool, read, spawn, stored, sync, token, warm, writable, write, write_at,
};
use crate::base::edit::Edit;
use crate::mapping::record::Mapping;
use crate::mapping::remove::{Remover, Unclean};
use crate::read::lookup::Lookup;
use crate::read::reader::ReadPath;
use crate::write::pin_mut::{IfLocked, PageLocks, ThenLock};
use crate::writeback::flush::discard;
use pagewell_frame::UniqueFrame;

/// Locks page 0. Returns the holder, the page's bytes and a frame.
fn lock(mapping: &Mapping) -> (u64, Box<[u8]>, UniqueFrame<'_>) {
    let holder = mapping.shared.next_holder();
    let locked = PageLocks(mapping).lock_page(0, holder, IfLocked::Wait);
    let (bytes, spare) = locked.expect("a page and a frame");
    (holder, bytes, spare)
}

/// Replaces page 0 as a guard does. Returns its previous bytes.
fn replace(mapping: &Mapping, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let (holder, mut bytes, spare) = lock(mapping);
    let before = bytes.to_vec();
    change(&mut bytes);
    let whole = Edit::whole(&bytes, 0);
    PageLocks(mapping).replace_locked(0, (holder, ThenLock::Ends), whole, Some(spare));
    before
}

/// A read returns all of one version or all of the other.
#[test]
fn loom_read_vs_pin_mut() {
    explore_file(3, clean, pool::<4>, writable, |_, mapping, _| {
        let reader = optimistic_reader(&mapping, &[OURS, 1]);
        replace(&mapping, |bytes| bytes.fill(1));
        reader.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), 1);
    });
}

/// A page is locked, and unlocked unchanged, while another thread writes to it. The writer is
/// woken, and a token from before the lock stays valid until the write.
#[test]
fn loom_cancel_vs_write() {
    explore_file(2, clean, pool::<6>, writable, |_, mapping, _| {
        let token = token(&mapping, 0).expect("a page that nobody has claimed");
        let (holder, ..) = lock(&mapping);
        assert!(mapping.is_unchanged(&token));
        let writer = spawn(&mapping, move |mapping| write(&mapping, 0, 1));
        PageLocks(&mapping).unlock(0, holder);
        writer.join().unwrap();
        assert!(!mapping.is_unchanged(&token));
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), 1);
    });
}

/// A page is published and stays locked. Writers wait for its unlock, even if it moves.
#[test]
fn loom_publish_vs_write() {
    explore_file(2, clean, pool::<8>, writable, |_, mapping, _| {
        let pin = Lookup(&mapping).get(0, || 1).expect("a page");
        let (holder, mut bytes, spare) = lock(&mapping);
        let writer = spawn(&mapping, move |mapping| write(&mapping, 0, 2));
        bytes.fill(1);
        let whole = Edit::whole(&bytes, 0);
        PageLocks(&mapping).replace_locked(0, (holder, ThenLock::Stays), whole, Some(spare));
        drop(pin);
        let before_the_end = only_byte(&read(&mapping, 0, ReadPath::Referenced));
        assert_eq!(before_the_end, 1, "written while it is locked");
        PageLocks(&mapping).unlock(0, holder);
        writer.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), 2);
    });
}

/// One half of a page is replaced while the other half is written. Neither change undoes the other.
#[test]
fn loom_pin_mut_vs_write() {
    explore_file(2, clean, pool::<6>, writable, |_, mapping, backend| {
        let writer = spawn(&mapping, move |mapping| {
            write_at(&mapping, HALF as u64, &[2; HALF])
        });
        replace(&mapping, |bytes| bytes[..HALF].fill(1));
        writer.join().unwrap();
        let expected = [[1; HALF], [2; HALF]].concat();
        assert_eq!(read(&mapping, 0, ReadPath::Optimistic), expected);
        sync(&mapping);
        assert_eq!(stored(&backend), expected);
    });
}

/// As the previous model, but the page is pinned, so that its replacement moves to another frame,
/// while a thread that waits for the lock sleeps on the metadata of the old frame.
#[test]
fn loom_pin_mut_of_pinned_vs_write() {
    explore_file(2, clean, pool::<8>, writable, |_, mapping, _| {
        let pin = Lookup(&mapping).get(0, || 1).expect("a page");
        let writer = spawn(&mapping, move |mapping| {
            write_at(&mapping, HALF as u64, &[2; HALF])
        });
        replace(&mapping, |bytes| bytes[..HALF].fill(1));
        writer.join().unwrap();
        let pinned = copy_of(&pin.reference);
        assert_eq!(only_byte(&pinned), OURS, "a pinned page has changed");
        drop(pin);
        let expected = [[1; HALF], [2; HALF]].concat();
        assert_eq!(read(&mapping, 0, ReadPath::Optimistic), expected);
    });
}

/// Two threads replace a page. The second thread sees the result of the first.
#[test]
fn loom_pin_mut_vs_pin_mut() {
    explore_file(2, clean, pool::<8>, writable, |_, mapping, _| {
        let other = spawn(&mapping, move |mapping| {
            drop(replace(&mapping, |bytes| bytes[..HALF].fill(1)))
        });
        replace(&mapping, |bytes| bytes[HALF..].fill(2));
        other.join().unwrap();
        let expected = [[1; HALF], [2; HALF]].concat();
        assert_eq!(read(&mapping, 0, ReadPath::Optimistic), expected);
    });
}

/// A page is discarded while it is locked, and another thread locks the page filled in its place.
/// The first guard replaces nothing, and does not end the second lock.
#[test]
fn loom_pin_mut_vs_discard() {
    explore_file(2, clean, pool::<8>, writable, |_, mapping, backend| {
        let (holder, mut bytes, spare) = lock(&mapping);
        let other = spawn(&mapping, move |mapping| {
            discard(&mapping, 0..1).expect("a healthy storage");
            let seen = only_byte(&replace(&mapping, |bytes| bytes.fill(2)));
            assert_eq!(seen, OURS, "what was discarded is there again");
        });
        bytes.fill(1);
        let whole = Edit::whole(&bytes, 0);
        PageLocks(&mapping).replace_locked(0, (holder, ThenLock::Ends), whole, Some(spare));
        other.join().unwrap();
        assert_synced(&mapping, &backend, 2);
    });
}

/// A locked page is discarded. A thread that waits for its lock is woken, and writes the new page.
#[test]
fn loom_discard_of_locked_vs_write() {
    explore_file(2, clean, pool::<8>, writable, |_, mapping, _| {
        drop(lock(&mapping));
        let writer = spawn(&mapping, move |mapping| write(&mapping, 0, 1));
        discard(&mapping, 0..1).expect("a healthy storage");
        writer.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), 1);
    });
}

/// A locked page is neither invalidated nor evicted.
#[test]
fn loom_pin_mut_vs_invalidate() {
    explore_file(2, clean, pool::<6>, writable, |_, mapping, backend| {
        let frame = warm(&mapping, 0);
        let other = spawn(&mapping, move |mapping| {
            Remover(&mapping).remove(0, 1, Unclean::Keep);
            drop(evict(mapping.supply(), frame));
        });
        replace(&mapping, |bytes| bytes.fill(1));
        other.join().unwrap();
        assert_synced(&mapping, &backend, 1);
    });
}

/// The backend gets all of one version or all of the other, and finally the last one.
#[test]
fn loom_pin_mut_vs_flush() {
    explore_file(2, clean, pool::<6>, writable, |_, mapping, backend| {
        write(&mapping, 0, 1);
        let flusher = spawn(&mapping, move |mapping| flush(&mapping));
        replace(&mapping, |bytes| bytes.fill(2));
        flusher.join().unwrap();
        let byte = only_byte(&stored(&backend));
        assert!(byte == 1 || byte == 2, "{byte}");
        assert_synced(&mapping, &backend, 2);
    });
}
