//! Pages pinned for writing (`pin_mut`), against writes, discards and evictions.

use pagewell_frame::FRAME_BYTES;

use super::{
    OURS, assert_clean_and_at_rest, evict, explore, only_byte, pool, read, read_optimistically,
    spawn, stored, sync, token, warm, writable, write,
};
use crate::base::edit::Edit;
use crate::mapping::record::Mapping;
use crate::mapping::remove::{Remover, Unclean};
use crate::read::lookup::Lookup;
use crate::read::reader::ReadPath;
use crate::write::growth::Writer;
use crate::write::pin_mut::{IfLocked, PageLocks, ThenLock};
use crate::writeback::flush::{Flusher, discard};

const HALF: usize = FRAME_BYTES / 2;

/// Replaces page 0 as a guard does. Returns its previous bytes.
fn replace(mapping: &Mapping, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let holder = mapping.shared.next_holder();
    let (mut bytes, spare) = PageLocks(mapping)
        .lock_page(0, holder, IfLocked::Wait)
        .expect("a page and a frame");
    let before = bytes.to_vec();
    change(&mut bytes);
    let whole = Edit::whole(&bytes, 0);
    PageLocks(mapping).replace_locked(0, (holder, ThenLock::Ends), whole, Some(spare));
    before
}

/// A read returns all of one version or all of the other.
#[test]
fn loom_read_vs_pin_mut() {
    explore(3, || {
        let files = pool(4);
        let (mapping, _) = writable(&files);
        let reader = spawn(mapping.mapping(), move |mapping| {
            if let Some(bytes) = read_optimistically(&mapping, 0) {
                let byte = only_byte(&bytes);
                assert!(byte == OURS || byte == 1);
            }
        });
        replace(&mapping, |bytes| bytes.fill(1));
        reader.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), 1);
        assert_clean_and_at_rest(&files, mapping);
    });
}

/// A page is locked, and unlocked unchanged, while another thread writes to it. The writer is
/// woken, and a token from before the lock stays valid until the write.
#[test]
fn loom_cancel_vs_write() {
    explore(2, || {
        let files = pool(6);
        let (mapping, _) = writable(&files);
        let token = token(&mapping, 0).expect("a page that nobody has claimed");
        let holder = mapping.shared.next_holder();
        let locked = PageLocks(&mapping).lock_page(0, holder, IfLocked::Wait);
        drop(locked.expect("a page and a frame"));
        assert!(mapping.is_unchanged(&token));
        let writer = spawn(mapping.mapping(), move |mapping| write(&mapping, 0, 1));
        PageLocks(&mapping).unlock(0, holder);
        writer.join().unwrap();
        assert!(!mapping.is_unchanged(&token));
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), 1);
        assert_clean_and_at_rest(&files, mapping);
    });
}

/// A page is published and stays locked. Writers wait for its unlock, even if it moves.
#[test]
fn loom_publish_vs_write() {
    explore(2, || {
        let files = pool(8);
        let (mapping, _) = writable(&files);
        let pin = Lookup(&mapping).get(0, || 1).expect("a page");
        let holder = mapping.shared.next_holder();
        let (mut bytes, spare) = PageLocks(&mapping)
            .lock_page(0, holder, IfLocked::Wait)
            .expect("a page and a frame");
        let writer = spawn(mapping.mapping(), move |mapping| write(&mapping, 0, 2));
        bytes.fill(1);
        let whole = Edit::whole(&bytes, 0);
        PageLocks(&mapping).replace_locked(0, (holder, ThenLock::Stays), whole, Some(spare));
        drop(pin);
        let before_the_end = only_byte(&read(&mapping, 0, ReadPath::Referenced));
        assert_eq!(before_the_end, 1, "written while it is locked");
        PageLocks(&mapping).unlock(0, holder);
        writer.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), 2);
        assert_clean_and_at_rest(&files, mapping);
    });
}

/// One half of a page is replaced while the other half is written. Neither change undoes the other.
#[test]
fn loom_pin_mut_vs_write() {
    explore(2, || {
        let files = pool(6);
        let (mapping, backend) = writable(&files);
        let writer = spawn(mapping.mapping(), move |mapping| {
            let n = Writer(&mapping).write_bytes(&[2; HALF], HALF as u64, 0);
            assert_eq!(n.expect("a writable page"), HALF);
        });
        replace(&mapping, |bytes| bytes[..HALF].fill(1));
        writer.join().unwrap();
        let expected = [[1; HALF], [2; HALF]].concat();
        assert_eq!(read(&mapping, 0, ReadPath::Optimistic), expected);
        sync(&mapping);
        assert_eq!(stored(&backend), expected);
        assert_clean_and_at_rest(&files, mapping);
    });
}

/// As the previous model, but the page is pinned, so that its replacement moves to another frame,
/// while a thread that waits for the lock sleeps on the metadata of the old frame.
#[test]
fn loom_pin_mut_of_pinned_vs_write() {
    explore(2, || {
        let files = pool(8);
        let (mapping, _) = writable(&files);
        let pin = Lookup(&mapping).get(0, || 1).expect("a page");
        let writer = spawn(mapping.mapping(), move |mapping| {
            let n = Writer(&mapping).write_bytes(&[2; HALF], HALF as u64, 0);
            assert_eq!(n.expect("a writable page"), HALF);
        });
        replace(&mapping, |bytes| bytes[..HALF].fill(1));
        writer.join().unwrap();
        let mut pinned = vec![0; FRAME_BYTES];
        pin.reference.bytes().copy_to(0, &mut pinned);
        assert_eq!(only_byte(&pinned), OURS, "a pinned page has changed");
        drop(pin);
        let expected = [[1; HALF], [2; HALF]].concat();
        assert_eq!(read(&mapping, 0, ReadPath::Optimistic), expected);
        assert_clean_and_at_rest(&files, mapping);
    });
}

/// Two threads replace a page. The second thread sees the result of the first.
#[test]
fn loom_pin_mut_vs_pin_mut() {
    explore(2, || {
        let files = pool(8);
        let (mapping, _) = writable(&files);
        let other = spawn(mapping.mapping(), move |mapping| {
            drop(replace(&mapping, |bytes| bytes[..HALF].fill(1)))
        });
        replace(&mapping, |bytes| bytes[HALF..].fill(2));
        other.join().unwrap();
        let expected = [[1; HALF], [2; HALF]].concat();
        assert_eq!(read(&mapping, 0, ReadPath::Optimistic), expected);
        assert_clean_and_at_rest(&files, mapping);
    });
}

/// A page is discarded while it is locked, and another thread locks the page filled in its place.
/// The first guard replaces nothing, and does not end the second lock.
#[test]
fn loom_pin_mut_vs_discard() {
    explore(2, || {
        let files = pool(8);
        let (mapping, backend) = writable(&files);
        let holder = files.shared.next_holder();
        let (mut bytes, spare) = PageLocks(&mapping)
            .lock_page(0, holder, IfLocked::Wait)
            .expect("a page and a frame");
        let other = spawn(mapping.mapping(), move |mapping| {
            discard(&mapping, 0..1).expect("a healthy storage");
            let seen = only_byte(&replace(&mapping, |bytes| bytes.fill(2)));
            assert_eq!(seen, OURS, "what was discarded is there again");
        });
        bytes.fill(1);
        let whole = Edit::whole(&bytes, 0);
        PageLocks(&mapping).replace_locked(0, (holder, ThenLock::Ends), whole, Some(spare));
        other.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Referenced)), 2);
        sync(&mapping);
        assert_eq!(only_byte(&stored(&backend)), 2);
        assert_clean_and_at_rest(&files, mapping);
    });
}

/// A locked page is discarded. A thread that waits for its lock is woken, and writes the new page.
#[test]
fn loom_discard_of_locked_vs_write() {
    explore(2, || {
        let files = pool(8);
        let (mapping, _) = writable(&files);
        let holder = files.shared.next_holder();
        let locked = PageLocks(&mapping).lock_page(0, holder, IfLocked::Wait);
        drop(locked.expect("a page and a frame"));
        let writer = spawn(mapping.mapping(), move |mapping| write(&mapping, 0, 1));
        discard(&mapping, 0..1).expect("a healthy storage");
        writer.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), 1);
        assert_clean_and_at_rest(&files, mapping);
    });
}

/// A locked page is neither invalidated nor evicted.
#[test]
fn loom_pin_mut_vs_invalidate() {
    explore(2, || {
        let files = pool(6);
        let (mapping, backend) = writable(&files);
        let frame = warm(&mapping, 0);
        let other = spawn(mapping.mapping(), move |mapping| {
            Remover(&mapping).remove(0, 1, Unclean::Keep);
            drop(evict(mapping.supply(), frame));
        });
        replace(&mapping, |bytes| bytes.fill(1));
        other.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Referenced)), 1);
        sync(&mapping);
        assert_eq!(only_byte(&stored(&backend)), 1);
        assert_clean_and_at_rest(&files, mapping);
    });
}

/// The backend gets all of one version or all of the other, and finally the last one.
#[test]
fn loom_pin_mut_vs_flush() {
    explore(2, || {
        let files = pool(6);
        let (mapping, backend) = writable(&files);
        write(&mapping, 0, 1);
        let flusher = spawn(mapping.mapping(), move |mapping| {
            Flusher(&mapping).flush(0..1).expect("a healthy storage")
        });
        replace(&mapping, |bytes| bytes.fill(2));
        flusher.join().unwrap();
        let byte = only_byte(&stored(&backend));
        assert!(byte == 1 || byte == 2, "{byte}");
        sync(&mapping);
        assert_eq!(only_byte(&stored(&backend)), 2);
        assert_clean_and_at_rest(&files, mapping);
    });
}
