//! Reads and pins against fills, evictions, replacements and removals of pages.

use std::sync::Arc;

use loom::sync::atomic::{AtomicUsize, Ordering};
use pagewell_frame::FRAME_BYTES;
use pagewell_io::MemoryBackend;
use pagewell_io_testing::{Fault, FaultBackend};

use super::{
    FOREIGN, OURS, SharedBackend, assert_at_rest, assert_closed_and_at_rest, assert_ours, copy_of,
    evict, explore, leaf_frame, mapping, open, pool, read, read_optimistically, scribble, shared,
    spawn, warm,
};
use crate::base::error::{ErrorKind, Op};
use crate::base::slot::State;
use crate::files::opened::Opened;
use crate::files::state::Files;
use crate::mapping::followers::Followers;
use crate::mapping::record::Mapping;
use crate::mapping::remove::{Remover, Unclean, refresh};
use crate::read::fill::{Fill, Filler};
use crate::read::lookup::{Found, Lookup};
use crate::read::reader::{FastRead, ReadPath, Reader};
use crate::supply::leaves::Leaves;

/// Two threads miss one page. The page is read once, and both threads get its bytes.
#[test]
fn loom_read_vs_fill() {
    explore(2, || {
        let files = pool(4);
        let (mapping, backend) = shared(&files, vec![OURS; FRAME_BYTES]);
        let other = spawn(mapping.mapping(), move |mapping| {
            assert_ours(&read(&mapping, 0, ReadPath::Optimistic))
        });
        assert_ours(&read(&mapping, 0, ReadPath::Optimistic));
        other.join().unwrap();
        assert_eq!(
            backend.nr_reads(),
            1,
            "concurrent misses read the page once"
        );
        assert_closed_and_at_rest(&files, mapping);
    });
}

/// Opens a file of one page, the first read of whose backend fails. Returns the backend too.
fn with_failing_read(files: &Arc<Files>) -> (Opened, Arc<FaultBackend<MemoryBackend>>) {
    let nr_reads = AtomicUsize::new(0);
    let backend =
        FaultBackend::new(
            MemoryBackend::new(vec![OURS; FRAME_BYTES]),
            move |_, _| match nr_reads.fetch_add(1, Ordering::Relaxed) {
                0 => Fault::Fail(std::io::Error::other("no device")),
                _ => Fault::None,
            },
        );
    let backend = Arc::new(backend);
    (open(files, SharedBackend(Arc::clone(&backend))), backend)
}

/// A reader that waits for a fill that fails finds the error when woken. A later reader reads anew.
#[test]
fn loom_failed_fill_vs_follower() {
    explore(3, || {
        let files = pool(4);
        let (mapping, _) = with_failing_read(&files);
        let report = Followers::join(&mapping.followers, 0);
        let leader = spawn(mapping.mapping(), move |mapping| {
            let error = Filler(&mapping).fill(0, 1).expect_err("the read fails");
            assert_eq!(error.kind(), ErrorKind::Io);
        });
        if let Some(seen) = mapping.index().look(0)
            && seen.slot.is_claimed_empty()
        {
            report.wait(seen, mapping.claims());
            assert!(report.error().is_some(), "a follower without an error");
        }
        leader.join().unwrap();
        assert!(report.error().is_some());
        drop(report);
        assert_ours(&read(&mapping, 0, ReadPath::Optimistic));
        assert_closed_and_at_rest(&files, mapping);
    });
}

/// A reader that waits for a fill that fails returns, though a later claim of the page stays.
#[test]
fn loom_failed_fill_vs_later_claim() {
    explore(3, || {
        let files = pool(4);
        let (mapping, _) = with_failing_read(&files);
        let report = Followers::join(&mapping.followers, 0);
        let follower = spawn(mapping.mapping(), move |mapping| {
            if let Some(seen) = mapping.index().look(0)
                && seen.slot.is_claimed_empty()
            {
                report.wait(seen, mapping.claims());
                assert!(report.error().is_some(), "a follower without an error");
            }
        });
        let error = Filler(&mapping).fill(0, 1).expect_err("the read fails");
        assert_eq!(error.kind(), ErrorKind::Io);
        let leaf = Leaves(files.supply()).leaf_or_new(mapping.index(), mapping.number(), 0);
        let claim = mapping.claim_empty(leaf.expect("a leaf"), 0);
        let claim = claim.expect("an empty slot that is not claimed");
        follower.join().unwrap();
        drop(claim);
        assert_closed_and_at_rest(&files, mapping);
    });
}

/// Two threads miss a page whose first read fails. It is read at most twice; each gets bytes or an
/// error.
#[test]
fn loom_failed_fill_vs_read() {
    explore(2, || {
        let files = pool(4);
        let (mapping, backend) = with_failing_read(&files);
        let has_failed = |mapping: &Mapping| match Lookup(mapping).get(0, || 1) {
            Ok(_) => false,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io);
                true
            }
        };
        let other = spawn(mapping.mapping(), move |mapping| has_failed(&mapping));
        let nr_failed = usize::from(has_failed(&mapping)) + usize::from(other.join().unwrap());
        let nr_reads = backend.nr_reads();
        assert!((nr_failed, nr_reads) == (2, 1) || (nr_failed, nr_reads) == (1, 2));
        assert_ours(&read(&mapping, 0, ReadPath::Optimistic));
        assert_eq!(backend.nr_reads(), 2);
        assert_closed_and_at_rest(&files, mapping);
    });
}

/// ABA: during one copy, the page is evicted, and filled again in its reused frame and slot.
fn read_vs_evict_and_reuse() {
    let files = pool(4);
    let mapping = mapping(&files, 1);
    let frame = warm(&mapping, 0);
    let reader = spawn(mapping.mapping(), move |mapping| {
        if let Some(bytes) = read_optimistically(&mapping, 0) {
            assert_ours(&bytes);
        }
    });
    if let Some(unique) = evict(files.supply(), frame) {
        scribble(&unique);
        drop(unique);
        if let Ok(Fill::Filled(reference, _)) = Filler(&mapping).fill(0, 1) {
            assert_eq!(
                reference.frame(),
                frame,
                "the frame freed last is used first"
            );
            drop(reference);
            drop(Lookup(&mapping).get(0, || 1));
        }
    }
    reader.join().unwrap();
    assert_closed_and_at_rest(&files, mapping);
}

#[test]
fn loom_read_vs_evict_and_reuse() {
    explore(3, read_vs_evict_and_reuse);
}

/// The read returns the old or the new content, never a mixture.
#[test]
fn loom_read_vs_replacement() {
    explore(3, || {
        let files = pool(4);
        let (mapping, backend) = shared(&files, vec![OURS; FRAME_BYTES]);
        warm(&mapping, 0);
        backend.inner().modify(|bytes| bytes.fill(FOREIGN));
        let reader = spawn(mapping.mapping(), move |mapping| {
            if let Some(bytes) = read_optimistically(&mapping, 0) {
                assert!(bytes.iter().all(|b| *b == bytes[0]), "torn: {bytes:x?}");
            }
        });
        Remover(&mapping).remove(0, 1, Unclean::Drop);
        warm(&mapping, 0);
        reader.join().unwrap();
        assert_eq!(
            read(&mapping, 0, ReadPath::Referenced),
            [FOREIGN; FRAME_BYTES]
        );
        assert_closed_and_at_rest(&files, mapping);
    });
}

/// A read that fails its check and then ends leaves no byte of another page in the buffer.
fn failed_read_leaves_no_foreign_bytes(is_cut: bool) {
    let files = pool(4);
    let content = MemoryBackend::new(vec![OURS; FRAME_BYTES]);
    let is_warm = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let backend = {
        let is_warm = Arc::clone(&is_warm);
        FaultBackend::new(content, move |_, _| {
            if is_warm.load(std::sync::atomic::Ordering::SeqCst) {
                Fault::Fail(std::io::Error::other("no device"))
            } else {
                Fault::None
            }
        })
    };
    let backend = Arc::new(backend);
    let mapping = open(&files, SharedBackend(Arc::clone(&backend)));
    let frame = warm(&mapping, 0);
    is_warm.store(true, std::sync::atomic::Ordering::SeqCst);
    if is_cut {
        backend.inner().modify(Vec::clear);
    }
    let reader = spawn(mapping.mapping(), move |mapping| {
        let mut buf = [0; FRAME_BYTES];
        if Reader(&mapping).read_page_optimistic(0, &mut buf) == FastRead::Fallback {
            let _ = Reader(&mapping).read_pages(&mut buf, 0, ReadPath::Optimistic, |_, left| left);
        }
        assert!(!buf.contains(&FOREIGN), "foreign bytes: {buf:x?}");
    });
    if let Some(unique) = evict(files.supply(), frame) {
        scribble(&unique);
        drop(unique);
    }
    if is_cut {
        refresh(&mapping, Op::Read).expect("a size");
    }
    reader.join().unwrap();
    assert_closed_and_at_rest(&files, mapping);
}

#[test]
fn loom_failed_read_leaves_no_foreign_bytes() {
    explore(3, || failed_read_leaves_no_foreign_bytes(true));
}

/// The page is evicted during the read, and the backend fails when the page is filled again.
#[test]
fn loom_failed_read_leaves_no_foreign_bytes_on_error() {
    explore(3, || failed_read_leaves_no_foreign_bytes(false));
}

fn pin_vs_evict() {
    let files = pool(4);
    let mapping = mapping(&files, 1);
    let frame = warm(&mapping, 0);
    let pinner = spawn(mapping.mapping(), move |mapping| {
        let Some(seen) = mapping.index().look(0) else {
            return;
        };
        if !matches!(seen.slot.state(), State::Present(_)) {
            return;
        }
        if let Ok(Some(Found { reference, .. })) = Lookup(&mapping).try_get_seen(seen) {
            for _ in 0..2 {
                let bytes = copy_of(&reference);
                assert_ours(&bytes);
            }
        }
    });
    if let Some(unique) = evict(files.supply(), frame) {
        scribble(&unique);
        // As another page: if the pinner has a stray reference, its drop must free the frame.
        let frame = crate::index::raw::publish_page(unique, (u64::MAX, 0), [0, 0], 1);
        drop(crate::index::raw::published(files.supply().pool(), frame));
    }
    pinner.join().unwrap();
    assert_closed_and_at_rest(&files, mapping);
}

#[test]
fn loom_pin_vs_evict() {
    explore(3, pin_vs_evict);
}

/// The guard of a removed page keeps the bytes. The last reference frees the frame, once.
#[test]
fn loom_remove_vs_unpin() {
    explore(3, || {
        let files = pool(4);
        let mapping = mapping(&files, 1);
        warm(&mapping, 0);
        let frame = {
            let found = Lookup(&mapping).get(0, || 1).expect("a readable page");
            found.reference.into_raw()
        };
        let guard = spawn(&files, move |files| {
            let reference = crate::read::raw::kept_reference(files.supply().pool(), frame);
            let bytes = copy_of(&reference);
            assert_ours(&bytes);
        });
        Remover(&mapping).remove(0, 1, Unclean::Drop);
        guard.join().unwrap();
        assert_closed_and_at_rest(&files, mapping);
    });
}

#[test]
fn loom_evict_vs_evict() {
    explore(3, || {
        let files = pool(4);
        let mapping = mapping(&files, 1);
        let frame = warm(&mapping, 0);
        let evict = move |files: &Files| {
            let unique = evict(files.supply(), frame);
            if let Some(unique) = &unique {
                scribble(unique);
            }
            unique.is_some()
        };
        let other = spawn(&files, move |files| evict(&files));
        let ours = evict(&files);
        let theirs = other.join().unwrap();
        assert!(!(ours && theirs), "one frame was evicted twice");
        assert_closed_and_at_rest(&files, mapping);
    });
}

/// The last handle is dropped during an eviction. Every frame is freed, once.
#[test]
fn loom_teardown_vs_evict() {
    explore(2, || {
        let files = pool(4);
        let mapping = mapping(&files, 1);
        let frame = warm(&mapping, 0);
        let leaf_frame = leaf_frame(&mapping);
        let evictor = spawn(&files, move |files| {
            drop(evict(files.supply(), frame));
            drop(evict(files.supply(), leaf_frame));
        });
        drop(mapping);
        evictor.join().unwrap();
        assert_at_rest(&files);
    });
}
