//! Reads and pins against fills, evictions and replacements; what takes a page out against the like.

use std::sync::Arc;

use loom::thread;
use pagewell_frame::FRAME_BYTES;
use pagewell_frame::refcount::{CasLoop, LockBit, RefScheme};
use pagewell_io::{Fault, FaultBackend, MemoryBackend};

use super::{
    FOREIGN, OURS, SharedBackend, assert_at_rest, assert_ours, explore, leaf_frame, mapping, open,
    pool, read, read_optimistically, scribble, warm,
};
use crate::error::Op;
use crate::fill::Fill;
use crate::lookup::Found;
use crate::mapping::Unclean;
use crate::read::{FastRead, ReadPath};
use crate::reclaim::Marks;
use crate::shared::Shared;
use crate::slot::State;

/// Two threads miss one page: it is read once, and both get its bytes.
#[test]
fn loom_read_vs_fill() {
    explore(2, || {
        let shared = pool::<LockBit>(4);
        let backend = FaultBackend::new(MemoryBackend::new(vec![OURS; FRAME_BYTES]), |_, _| {
            Fault::None
        });
        let backend = Arc::new(backend);
        let mapping = open(&shared, SharedBackend(Arc::clone(&backend)));
        let other = {
            let mapping = Arc::clone(mapping.mapping());
            thread::spawn(move || assert_ours(&read(&mapping, 0, ReadPath::Optimistic)))
        };
        assert_ours(&read(&mapping, 0, ReadPath::Optimistic));
        other.join().unwrap();
        assert_eq!(
            backend.nr_reads(),
            1,
            "concurrent misses read the page once"
        );
        drop(mapping);
        assert_at_rest(&shared);
    });
}

/// The ABA: during one copy the page is evicted, its frame used for something else, and filled again
/// with the same page in the same frame and slot.
fn read_vs_evict_and_reuse<S: RefScheme>() {
    let shared = pool::<S>(4);
    let mapping = mapping(&shared, 1);
    let frame = warm(&mapping, 0);
    let reader = {
        let mapping = Arc::clone(mapping.mapping());
        thread::spawn(move || {
            if let Some(bytes) = read_optimistically(&mapping, 0) {
                assert_ours(&bytes);
            }
        })
    };
    if let Some(unique) = shared.try_evict(frame, Marks::Ignored) {
        scribble(&unique);
        drop(unique);
        if let Ok(Fill::Filled(reference, _)) = mapping.fill(0, 1) {
            assert_eq!(
                reference.frame(),
                frame,
                "the frame freed last is used first"
            );
            drop(reference);
            drop(mapping.get(0, || 1));
        }
    }
    reader.join().unwrap();
    drop(mapping);
    assert_at_rest(&shared);
}

#[test]
fn loom_read_vs_evict_and_reuse() {
    explore(3, read_vs_evict_and_reuse::<LockBit>);
}

/// The page is replaced by newer contents while it is being read: old or new, never a mixture.
#[test]
fn loom_read_vs_replacement() {
    explore(3, || {
        let shared = pool::<LockBit>(4);
        let backend = FaultBackend::new(MemoryBackend::new(vec![OURS; FRAME_BYTES]), |_, _| {
            Fault::None
        });
        let backend = Arc::new(backend);
        let mapping = open(&shared, SharedBackend(Arc::clone(&backend)));
        warm(&mapping, 0);
        backend.inner().modify(|bytes| bytes.fill(FOREIGN));
        let reader = {
            let mapping = Arc::clone(mapping.mapping());
            thread::spawn(move || {
                if let Some(bytes) = read_optimistically(&mapping, 0) {
                    assert!(bytes.iter().all(|b| *b == bytes[0]), "torn: {bytes:x?}");
                }
            })
        };
        mapping.remove(0, 1, Unclean::Drop);
        // Take the freed frame away, so that the new contents land in it, or in another.
        warm(&mapping, 0);
        reader.join().unwrap();
        assert_eq!(
            read(&mapping, 0, ReadPath::Referenced),
            [FOREIGN; FRAME_BYTES]
        );
        drop(mapping);
        assert_at_rest(&shared);
    });
}

/// The file is found to be empty during a read whose copy has failed its check: no foreign byte is left in
/// the buffer.
#[test]
fn loom_failed_read_leaves_no_foreign_bytes() {
    explore(3, || {
        let shared = pool::<LockBit>(4);
        let content = MemoryBackend::new(vec![OURS; FRAME_BYTES]);
        let backend = Arc::new(FaultBackend::new(content, |_, _| Fault::None));
        let mapping = open(&shared, SharedBackend(Arc::clone(&backend)));
        let frame = warm(&mapping, 0);
        backend.inner().modify(Vec::clear);
        let reader = {
            let mapping = Arc::clone(mapping.mapping());
            thread::spawn(move || {
                let mut buf = [0; FRAME_BYTES];
                if mapping.read_short(&mut buf, 0) == FastRead::Fallback {
                    let _ = mapping.read_pages(&mut buf, 0, ReadPath::Optimistic, |_, left| left);
                }
                assert!(!buf.contains(&FOREIGN), "foreign bytes: {buf:x?}");
            })
        };
        if let Some(unique) = shared.try_evict(frame, Marks::Ignored) {
            scribble(&unique);
            drop(unique);
        }
        mapping.refresh(Op::Read).expect("a size");
        reader.join().unwrap();
        drop(mapping);
        assert_at_rest(&shared);
    });
}

/// A pinned page is not evicted, and its bytes do not change.
fn pin_vs_evict<S: RefScheme>() {
    let shared = pool::<S>(4);
    let mapping = mapping(&shared, 1);
    let frame = warm(&mapping, 0);
    let pinner = {
        let mapping = Arc::clone(mapping.mapping());
        thread::spawn(move || {
            let Some(seen) = mapping.index().look(0) else {
                return;
            };
            if !matches!(seen.slot.state(), State::Present(_)) {
                return;
            }
            if let Ok(Some(Found { reference, .. })) = mapping.try_get_seen(seen) {
                for _ in 0..2 {
                    let mut bytes = [0; FRAME_BYTES];
                    reference.bytes().copy_to(0, &mut bytes);
                    assert_ours(&bytes);
                }
            }
        })
    };
    if let Some(unique) = shared.try_evict(frame, Marks::Ignored) {
        scribble(&unique);
        // Someone else's page, which the pinner's stray reference may have to free.
        let frame = crate::publish::page(unique, (u64::MAX, 0), [0, 0], 1);
        drop(crate::raw::published(&shared, frame));
    }
    pinner.join().unwrap();
    drop(mapping);
    assert_at_rest(&shared);
}

#[test]
fn loom_pin_vs_evict() {
    explore(3, pin_vs_evict::<LockBit>);
}

#[test]
fn loom_pin_vs_evict_cas_loop() {
    explore(3, pin_vs_evict::<CasLoop>);
}

/// A page is taken out while it is pinned: the guard keeps its bytes, and the last of the two frees
/// the frame, once.
#[test]
fn loom_remove_vs_unpin() {
    explore(3, || {
        let shared = pool::<LockBit>(4);
        let mapping = mapping(&shared, 1);
        warm(&mapping, 0);
        let frame = {
            let found = mapping.get(0, || 1).expect("a readable page");
            found.reference.into_raw()
        };
        let guard = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let reference = crate::raw::guards_reference(&shared, frame);
                let mut bytes = [0; FRAME_BYTES];
                reference.bytes().copy_to(0, &mut bytes);
                assert_ours(&bytes);
            })
        };
        mapping.remove(0, 1, Unclean::Drop);
        guard.join().unwrap();
        drop(mapping);
        assert_at_rest(&shared);
    });
}

/// Two evictions of one page: one of them gets the frame.
#[test]
fn loom_evict_vs_evict() {
    explore(3, || {
        let shared = pool::<LockBit>(4);
        let mapping = mapping(&shared, 1);
        let frame = warm(&mapping, 0);
        let evict = move |shared: &Shared<LockBit>| {
            let unique = shared.try_evict(frame, Marks::Ignored);
            if let Some(unique) = &unique {
                scribble(unique);
            }
            unique.is_some()
        };
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || evict(&shared))
        };
        let ours = evict(&shared);
        let theirs = other.join().unwrap();
        assert!(!(ours && theirs), "one frame was evicted twice");
        drop(mapping);
        assert_at_rest(&shared);
    });
}

/// The last handle goes while an eviction is under way: every frame is given back, once.
#[test]
fn loom_teardown_vs_evict() {
    explore(2, || {
        let shared = pool::<LockBit>(4);
        let mapping = mapping(&shared, 1);
        let frame = warm(&mapping, 0);
        let leaf_frame = leaf_frame(&shared, &mapping);
        let evictor = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                drop(shared.try_evict(frame, Marks::Ignored));
                drop(shared.try_evict(leaf_frame, Marks::Ignored));
            })
        };
        drop(mapping);
        evictor.join().unwrap();
        assert_at_rest(&shared);
    });
}
