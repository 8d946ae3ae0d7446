//! loom models of the cache's protocols: the code that ships, with frames of two words.
//!
//! Each model is named after its race. `verify/mutants` breaks the code in one place at a time and
//! shows that the model that is meant for it fails.
//!
//! loom explores interleavings, and stale values of relaxed and acquire loads; it does not show every
//! reordering that weak machines do. The litmus tests in `verify/litmus` are for those.

use std::sync::Arc;

use loom::thread;
use pagewell_frame::refcount::{CasLoop, LockBit, RefScheme};
use pagewell_frame::{
    FRAME_BYTES, FrameKind, FrameNr, FramePool, HugePages, Nodes, PoolConfig, UniqueFrame,
};
use pagewell_io::{Fault, FaultBackend, MemoryBackend};

use crate::error::Op;
use crate::fill::Fill;
use crate::flush::Sync as What;
use crate::lookup::Found;
use crate::mapping::{Mapping, Unclean};
use crate::page_size::PageSize;
use crate::read::{FastRead, ReadPath};
use crate::reclaim::Marks;
use crate::shared::Shared;
use crate::slot::State;
use crate::writes::{Access, WriteOptions};

/// The bytes of a page in the file, and bytes that are in none.
const OURS: u8 = 0xA1;
const FOREIGN: u8 = 0xF0;

/// Explores a model with at most `preemptions` forced switches.
fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    if builder.preemption_bound.is_none() {
        builder.preemption_bound = Some(preemptions);
    }
    builder.max_branches = 20_000;
    builder.check(model);
}

fn pool<S: RefScheme>(nr_frames: usize) -> Arc<Shared<S>> {
    let mut config = PoolConfig::new(nr_frames);
    config.nodes = Nodes::Unbound(1);
    config.huge_pages = HugePages::System;
    Arc::new(Shared::new(FramePool::new(&config).expect("a small pool")))
}

/// A mapping of a file of `nr_pages` pages of [`OURS`].
fn mapping<S: RefScheme>(shared: &Arc<Shared<S>>, nr_pages: usize) -> Arc<Mapping<S>> {
    mapping_of(shared, vec![OURS; nr_pages * FRAME_BYTES])
}

fn mapping_of<S: RefScheme>(shared: &Arc<Shared<S>>, bytes: Vec<u8>) -> Arc<Mapping<S>> {
    let backend = FaultBackend::new(MemoryBackend::new(bytes), |_, _| Fault::None);
    open(shared, backend)
}

fn open<S: RefScheme>(
    shared: &Arc<Shared<S>>,
    backend: impl pagewell_io::Backend,
) -> Arc<Mapping<S>> {
    open_for(shared, backend, Access::Read)
}

fn open_for<S: RefScheme>(
    shared: &Arc<Shared<S>>,
    backend: impl pagewell_io::Backend,
    access: Access,
) -> Arc<Mapping<S>> {
    let id = pagewell_io::Backend::id(&backend);
    shared
        .mapping_or_else(id, |number| {
            Mapping::new(
                Arc::clone(shared),
                Box::new(backend),
                "model".into(),
                PageSize::SMALLEST,
                (id, number),
                access,
            )
        })
        .expect("a small file")
        .0
}

/// Brings `page` in and marks it as referenced; returns its frame.
fn warm<S: RefScheme>(mapping: &Mapping<S>, page: u64) -> FrameNr {
    drop(mapping.get(page, || 1).expect("a readable page"));
    let found = mapping.get(page, || 1).expect("a readable page");
    found.reference.frame()
}

/// One optimistic attempt at the whole of `page`; the bytes if it succeeded.
fn read_optimistically<S: RefScheme>(mapping: &Mapping<S>, page: u64) -> Option<Vec<u8>> {
    let mut buf = vec![0; FRAME_BYTES];
    let pos = page * FRAME_BYTES as u64;
    match mapping.read_page_optimistic(pos, &mut buf) {
        FastRead::Done => Some(buf),
        FastRead::Fallback => None,
    }
}

fn read<S: RefScheme>(mapping: &Mapping<S>, page: u64, path: ReadPath) -> Vec<u8> {
    let mut buf = vec![0; FRAME_BYTES];
    let n = mapping
        .read_pages(&mut buf, page * FRAME_BYTES as u64, path, |_, left| left)
        .expect("a readable page");
    buf.truncate(n);
    buf
}

fn assert_ours(bytes: &[u8]) {
    assert!(
        bytes.iter().all(|b| *b == OURS),
        "foreign bytes: {bytes:x?}"
    );
}

fn scribble<S: RefScheme>(unique: &UniqueFrame<'_, S>) {
    unique.bytes().copy_from(0, &[FOREIGN; FRAME_BYTES]);
}

/// The frame of the leaf of page 0.
fn leaf_frame<S: RefScheme>(shared: &Shared<S>, mapping: &Mapping<S>) -> FrameNr {
    let leaf = mapping.index().leaf(shared, 0).expect("a leaf");
    leaf.reference.frame()
}

/// Everything was given back.
fn assert_at_rest<S: RefScheme>(shared: &Shared<S>) {
    shared.pool.verify().expect("a consistent pool");
    let stats = shared.pool.stats();
    assert_eq!(stats.nr_available(), stats.nr_frames, "a frame was lost");
}

/// The ABA: during one copy the page is evicted, its frame used for something else, and filled again
/// with the same page in the same frame and slot.
fn read_vs_evict_and_reuse<S: RefScheme>() {
    let shared = pool::<S>(4);
    let mapping = mapping(&shared, 1);
    let frame = warm(&mapping, 0);
    let reader = {
        let mapping = Arc::clone(&mapping);
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
            let mapping = Arc::clone(&mapping);
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
            let mapping = Arc::clone(&mapping);
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

/// A pinned page is not evicted, and its bytes do not change.
fn pin_vs_evict<S: RefScheme>() {
    let shared = pool::<S>(4);
    let mapping = mapping(&shared, 1);
    let frame = warm(&mapping, 0);
    let pinner = {
        let mapping = Arc::clone(&mapping);
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
        let frame = unique.publish(FrameKind::Page, (u64::MAX, 0), 1);
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

/// During one copy the page is evicted, its frame used for something else, the leaf taken out of use and made
/// again, and the page filled again in the same frame: the slot must not have its old word again.
fn vs_leaf_remade(look: impl Fn(&Mapping<LockBit>) + Send + Sync + Copy + 'static) {
    explore(3, move || {
        let shared = pool::<LockBit>(4);
        let mapping = mapping(&shared, 1);
        let frame = warm(&mapping, 0);
        let leaf_frame = leaf_frame(&shared, &mapping);
        let other = {
            let mapping = Arc::clone(&mapping);
            thread::spawn(move || look(&mapping))
        };
        if let Some(page) = shared.try_evict(frame, Marks::Ignored) {
            scribble(&page);
            drop(shared.try_evict(leaf_frame, Marks::Ignored));
            // The frame that is freed last is used first.
            drop(page);
            assert_eq!(warm(&mapping, 0), frame);
        }
        other.join().unwrap();
        drop(mapping);
        assert_at_rest(&shared);
    });
}

#[test]
fn loom_read_vs_leaf_remade() {
    vs_leaf_remade(|mapping| {
        if let Some(bytes) = read_optimistically(mapping, 0) {
            assert_ours(&bytes);
        }
    });
}

#[test]
fn loom_pin_vs_leaf_remade() {
    vs_leaf_remade(|mapping| {
        if let Some(seen) = mapping.index().look(0)
            && matches!(seen.slot.state(), State::Present(_))
            && let Ok(Some(Found { reference, .. })) = mapping.try_get_seen(seen)
        {
            let mut bytes = [0; FRAME_BYTES];
            reference.bytes().copy_to(0, &mut bytes);
            assert_ours(&bytes);
        }
    });
}

/// Who is about to sleep on a claimed slot is not left asleep when the claim ends and the leaf goes.
#[test]
fn loom_wait_vs_leaf_remade() {
    vs_leaf_remade(|mapping| {
        if let Some(seen) = mapping.index().look(0)
            && seen.slot.is_busy()
        {
            seen.wait_while_busy(mapping.shared());
        }
    });
}

/// The file grows while it is being read: old bytes or new bytes, and none of the zeros that were past
/// the old end.
fn read_vs_growth(path: ReadPath) {
    let half = FRAME_BYTES / 2;
    let shared = pool::<LockBit>(4);
    let backend = FaultBackend::new(MemoryBackend::new(vec![OURS; half]), |_, _| Fault::None);
    let backend = Arc::new(backend);
    let mapping = open(&shared, SharedBackend(Arc::clone(&backend)));
    warm(&mapping, 0);
    backend
        .inner()
        .modify(|bytes| bytes.resize(FRAME_BYTES, OURS));
    let reader = {
        let mapping = Arc::clone(&mapping);
        thread::spawn(move || assert_ours(&read(&mapping, 0, path)))
    };
    mapping.refresh(Op::Read).expect("a size");
    reader.join().unwrap();
    drop(mapping);
    assert_at_rest(&shared);
}

#[test]
fn loom_read_vs_growth() {
    explore(2, || read_vs_growth(ReadPath::Optimistic));
}

#[test]
fn loom_referenced_read_vs_growth() {
    explore(2, || read_vs_growth(ReadPath::Referenced));
}

/// The file shrinks, its cut page is read in, and it grows again, all during one lookup: the page's end is that of
/// the cut page, not that of before and after.
#[test]
fn loom_read_vs_shrink_and_growth() {
    explore(2, || {
        let half = FRAME_BYTES / 2;
        let shared = pool::<LockBit>(4);
        let content = MemoryBackend::new(vec![OURS; FRAME_BYTES]);
        let backend = Arc::new(FaultBackend::new(content, |_, _| Fault::None));
        let mapping = open(&shared, SharedBackend(Arc::clone(&backend)));
        let reader = {
            let mapping = Arc::clone(&mapping);
            thread::spawn(move || {
                let mut buf = [OURS; FRAME_BYTES];
                if let Ok(n) = mapping.read_page_referenced(0, 0, 0, &mut buf, || 1) {
                    assert_ours(&buf[..n]);
                }
            })
        };
        backend.inner().modify(|bytes| bytes.truncate(half));
        mapping.refresh(Op::Read).expect("a size");
        drop(mapping.get(0, || 1));
        backend
            .inner()
            .modify(|bytes| bytes.resize(FRAME_BYTES, OURS));
        mapping.refresh(Op::Read).expect("a size");
        reader.join().unwrap();
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
            let mapping = Arc::clone(&mapping);
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

/// A leaf that has just become empty is taken out while a page of it is filled: neither is lost.
#[test]
fn loom_fill_vs_evict_leaf() {
    explore(2, || {
        let shared = pool::<LockBit>(4);
        let mapping = mapping(&shared, 1);
        drop(mapping.index().leaf_or_new(&shared, mapping.number(), 0));
        let leaf_frame = leaf_frame(&shared, &mapping);
        let evictor = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || drop(shared.try_evict(leaf_frame, Marks::Ignored)))
        };
        assert_ours(&read(&mapping, 0, ReadPath::Optimistic));
        evictor.join().unwrap();
        assert_ours(&read(&mapping, 0, ReadPath::Optimistic));
        drop(mapping);
        assert_at_rest(&shared);
    });
}

/// An empty leaf is taken out, and its frame becomes a leaf of another file, while a page of the first
/// file is filled: each page ends up in its own file.
#[test]
fn loom_fill_vs_leaf_reuse() {
    explore(3, || {
        let shared = pool::<LockBit>(4);
        let ours = mapping(&shared, 1);
        let other = mapping_of(&shared, vec![FOREIGN; FRAME_BYTES]);
        // The other file's root is charged now, so that its leaf is the next that wants a frame.
        drop(other.index().leaf_or_new(&shared, other.number(), 0));
        drop(shared.try_evict(leaf_frame(&shared, &other), Marks::Ignored));
        drop(ours.index().leaf_or_new(&shared, ours.number(), 0));
        let leaf_frame = leaf_frame(&shared, &ours);
        let stealer = {
            let (shared, other) = (Arc::clone(&shared), Arc::clone(&other));
            thread::spawn(move || {
                drop(shared.try_evict(leaf_frame, Marks::Ignored));
                drop(other.index().leaf_or_new(&shared, other.number(), 0));
            })
        };
        drop(ours.get(0, || 1));
        stealer.join().unwrap();
        assert_eq!(
            read(&other, 0, ReadPath::Referenced),
            [FOREIGN; FRAME_BYTES]
        );
        assert_ours(&read(&ours, 0, ReadPath::Referenced));
        drop((ours, other));
        assert_at_rest(&shared);
    });
}

/// The file is found to have grown while its last page is being filled: afterwards the cache has the new
/// bytes, not the zeros that were past the old end.
#[test]
fn loom_fill_vs_refresh() {
    explore(2, || {
        let half = FRAME_BYTES / 2;
        let shared = pool::<LockBit>(4);
        let backend = FaultBackend::new(MemoryBackend::new(vec![OURS; half]), |_, _| Fault::None);
        let backend = Arc::new(backend);
        let mapping = open(&shared, SharedBackend(Arc::clone(&backend)));
        backend
            .inner()
            .modify(|bytes| bytes.resize(FRAME_BYTES, OURS));
        let filler = {
            let mapping = Arc::clone(&mapping);
            thread::spawn(move || drop(mapping.get(0, || 1)))
        };
        assert_eq!(
            mapping.refresh(Op::Read).expect("a size"),
            FRAME_BYTES as u64
        );
        filler.join().unwrap();
        let bytes = read(&mapping, 0, ReadPath::Referenced);
        assert_eq!(bytes.len(), FRAME_BYTES);
        assert_ours(&bytes);
        drop(mapping);
        assert_at_rest(&shared);
    });
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

/// A backend that the model keeps a hand on.
#[derive(Debug)]
struct SharedBackend(Arc<FaultBackend<MemoryBackend>>);

impl pagewell_io::Backend for SharedBackend {
    fn read_at(
        &self,
        bufs: &[pagewell_sync::bytes::RacyBytes<'_>],
        pos: u64,
    ) -> std::io::Result<usize> {
        self.0.read_at(bufs, pos)
    }

    fn size(&self) -> std::io::Result<u64> {
        self.0.size()
    }

    fn id(&self) -> pagewell_io::FileId {
        self.0.id()
    }
}

/// A file of `nr_pages` pages of [`OURS`] that can be written to; page 0 is cached and marked.
fn writable(
    shared: &Arc<Shared<LockBit>>,
    nr_pages: usize,
) -> (Arc<Mapping<LockBit>>, Arc<MemoryBackend>) {
    let backend = Arc::new(MemoryBackend::writable(vec![OURS; nr_pages * FRAME_BYTES]));
    let access = Access::Write(WriteOptions::default());
    let mapping = open_for(shared, Arc::clone(&backend), access);
    warm(&mapping, 0);
    (mapping, backend)
}

/// Writes all of a page.
fn write(mapping: &Mapping<LockBit>, page: u64, byte: u8) {
    let n = mapping
        .write_bytes(&[byte; FRAME_BYTES], page * FRAME_BYTES as u64, 0)
        .expect("a writable page");
    assert_eq!(n, FRAME_BYTES);
}

/// The one byte that a page is made of.
#[track_caller]
fn only_byte(bytes: &[u8]) -> u8 {
    assert_eq!(bytes.len(), FRAME_BYTES);
    assert!(bytes.iter().all(|b| *b == bytes[0]), "torn: {bytes:x?}");
    bytes[0]
}

/// What the storage has of the file.
fn stored(backend: &MemoryBackend) -> Vec<u8> {
    let size = pagewell_io::Backend::size(backend).unwrap() as usize;
    let words: Vec<_> = (0..size.div_ceil(8))
        .map(|_| pagewell_sync::atomic::AtomicU64::new(0))
        .collect();
    let bytes = pagewell_sync::bytes::RacyBytes::from_words(&words).slice(0, size);
    assert_eq!(
        pagewell_io::Backend::read_at(backend, &[bytes], 0).unwrap(),
        size
    );
    let mut copy = vec![0; size];
    bytes.copy_to(0, &mut copy);
    copy
}

/// A read while the page is written: all of the write, or nothing of it, on both paths.
#[test]
fn loom_read_vs_write() {
    explore(2, || {
        let shared = pool::<LockBit>(4);
        let (mapping, _) = writable(&shared, 1);
        let reader = {
            let mapping = Arc::clone(&mapping);
            thread::spawn(move || {
                if let Some(bytes) = read_optimistically(&mapping, 0) {
                    let byte = only_byte(&bytes);
                    assert!(byte == OURS || byte == 1 || byte == 2);
                }
            })
        };
        write(&mapping, 0, 1);
        write(&mapping, 0, 2);
        reader.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), 2);
        drop(mapping);
        assert_at_rest(&shared);
    });
}

/// As above, with a reference.
#[test]
fn loom_referenced_read_vs_write() {
    explore(2, || {
        let shared = pool::<LockBit>(4);
        let (mapping, _) = writable(&shared, 1);
        let reader = {
            let mapping = Arc::clone(&mapping);
            thread::spawn(move || {
                let byte = only_byte(&read(&mapping, 0, ReadPath::Referenced));
                assert!(byte == OURS || byte == 1);
            })
        };
        write(&mapping, 0, 1);
        reader.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Referenced)), 1);
        drop(mapping);
        assert_at_rest(&shared);
    });
}

/// Two writes of one page: the page is one of them, whole.
#[test]
fn loom_write_vs_write() {
    explore(2, || {
        let shared = pool::<LockBit>(4);
        let (mapping, _) = writable(&shared, 1);
        let other = {
            let mapping = Arc::clone(&mapping);
            thread::spawn(move || write(&mapping, 0, 1))
        };
        write(&mapping, 0, 2);
        other.join().unwrap();
        let byte = only_byte(&read(&mapping, 0, ReadPath::Optimistic));
        assert!(byte == 1 || byte == 2);
        drop(mapping);
        assert_at_rest(&shared);
    });
}

/// A page is pinned while it is written: the pin's bytes do not change.
#[test]
fn loom_write_vs_pin() {
    explore(2, || {
        let shared = pool::<LockBit>(4);
        let (mapping, _) = writable(&shared, 1);
        let pinner = {
            let mapping = Arc::clone(&mapping);
            thread::spawn(move || {
                let Found { reference, .. } = mapping.get(0, || 1).expect("a page");
                let bytes = || {
                    let mut bytes = vec![0; FRAME_BYTES];
                    reference.bytes().copy_to(0, &mut bytes);
                    only_byte(&bytes)
                };
                let first = bytes();
                thread::yield_now();
                assert_eq!(bytes(), first, "a pinned page has changed");
            })
        };
        write(&mapping, 0, 1);
        pinner.join().unwrap();
        drop(mapping);
        assert_at_rest(&shared);
    });
}

/// A page is written while it is on its way to the storage: the storage gets one version or the other, whole,
/// and after the next flush the last one.
#[test]
fn loom_write_vs_flush() {
    explore(2, || {
        let shared = pool::<LockBit>(4);
        let (mapping, backend) = writable(&shared, 1);
        write(&mapping, 0, 1);
        let flusher = {
            let mapping = Arc::clone(&mapping);
            thread::spawn(move || mapping.flush(0..1).expect("a healthy storage"))
        };
        write(&mapping, 0, 2);
        flusher.join().unwrap();
        let byte = only_byte(&stored(&backend));
        assert!(byte == OURS || byte == 1 || byte == 2, "{byte}");
        mapping.sync(What::Data).expect("a healthy storage");
        assert_eq!(only_byte(&stored(&backend)), 2);
        // All is clean, and can be evicted.
        assert_eq!(shared.evict_pages(1), 1);
        drop(mapping);
        assert_at_rest(&shared);
    });
}

/// A page is evicted while it is written: not once it is dirty.
#[test]
fn loom_write_vs_evict() {
    explore(2, || {
        let shared = pool::<LockBit>(4);
        let (mapping, backend) = writable(&shared, 1);
        let frame = warm(&mapping, 0);
        let evictor = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || drop(shared.try_evict(frame, Marks::Ignored)))
        };
        write(&mapping, 0, 1);
        evictor.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), 1);
        mapping.sync(What::Data).expect("a healthy storage");
        assert_eq!(only_byte(&stored(&backend)), 1);
        drop(mapping);
        assert_at_rest(&shared);
    });
}

/// The file is cut while a page of it is written: the write is there, or the page is not.
#[test]
fn loom_write_vs_truncate() {
    explore(2, || {
        let shared = pool::<LockBit>(4);
        let (mapping, backend) = writable(&shared, 1);
        let cutter = {
            let mapping = Arc::clone(&mapping);
            thread::spawn(move || mapping.resize(0).expect("a healthy storage"))
        };
        write(&mapping, 0, 1);
        cutter.join().unwrap();
        let size = mapping.size();
        assert!(size == 0 || size == FRAME_BYTES as u64);
        mapping.sync(What::Data).expect("a healthy storage");
        let written = stored(&backend);
        assert_eq!(written.len() as u64, size);
        assert!(written.iter().all(|b| *b == 1), "{written:x?}");
        // What was cut off does not come back.
        mapping
            .resize(FRAME_BYTES as u64)
            .expect("a healthy storage");
        let byte = if size == 0 { 0 } else { 1 };
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Referenced)), byte);
        drop(mapping);
        assert_at_rest(&shared);
    });
}
