//! Reads and pins against fills, evictions, replacements and removals of pages.

use std::sync::Arc;

use loom::sync::atomic::{AtomicUsize, Ordering};
use pagewell_frame::FRAME_BYTES;
use pagewell_io::MemoryBackend;
use pagewell_io_testing::{Fault, FaultBackend};

use super::{
    FOREIGN, OURS, SharedBackend, assert_at_rest, assert_ours, closed, copy_of, evict, explore,
    explore_file, leaf_frame, mapping, open, optimistic_reader, pin_seen, pool, read,
    read_optimistically, scribble, shared, spawn, vs_evict_and_reuse, warm,
};
use crate::base::error::{ErrorKind, Op};
use crate::files::opened::Opened;
use crate::files::state::Files;
use crate::mapping::followers::Followers;
use crate::mapping::record::Mapping;
use crate::mapping::remove::{Remover, Unclean, refresh};
use crate::read::fill::Filler;
use crate::read::lookup::Lookup;
use crate::read::reader::{FastRead, ReadPath, Reader};
use crate::supply::leaves::Leaves;

/// Two threads miss one page. The page is read once, and both threads get its bytes.
#[test]
fn loom_read_vs_fill() {
    explore_file(2, closed, pool::<4>, shared::<1>, |_, mapping, backend| {
        let other = spawn(&mapping, move |mapping| {
            assert_ours(&read(&mapping, 0, ReadPath::Optimistic))
        });
        assert_ours(&read(&mapping, 0, ReadPath::Optimistic));
        other.join().unwrap();
        assert_eq!(
            backend.nr_reads(),
            1,
            "concurrent misses read the page once"
        );
    });
}

/// Opens a file of one page. Reads of its backend fail if `fails` selects their numbers.
fn failing_reads(
    files: &Arc<Files>,
    fails: fn(usize) -> bool,
) -> (Opened, Arc<FaultBackend<MemoryBackend>>) {
    let (content, nr_reads) = (vec![OURS; FRAME_BYTES], AtomicUsize::new(0));
    let backend = FaultBackend::new(MemoryBackend::new(content), move |_, _| {
        if fails(nr_reads.fetch_add(1, Ordering::Relaxed)) {
            return Fault::Fail(std::io::Error::other("no device"));
        }
        Fault::None
    });
    let backend = Arc::new(backend);
    (open(files, SharedBackend(Arc::clone(&backend))), backend)
}

fn first_fails(files: &Arc<Files>) -> (Opened, Arc<FaultBackend<MemoryBackend>>) {
    failing_reads(files, |nr| nr == 0)
}

/// A reader that waits for a fill that fails finds the error when woken. A later reader reads anew.
#[test]
fn loom_failed_fill_vs_follower() {
    explore_file(3, closed, pool::<4>, first_fails, |_, mapping, _| {
        let report = Followers::join(&mapping.followers, 0);
        let leader = spawn(&mapping, move |mapping| {
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
    });
}

/// A reader that waits for a fill that fails returns, though a later claim of the page stays.
#[test]
fn loom_failed_fill_vs_later_claim() {
    explore_file(3, closed, pool::<4>, first_fails, |files, mapping, _| {
        let report = Followers::join(&mapping.followers, 0);
        let follower = spawn(&mapping, move |mapping| {
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
    });
}

/// Two threads miss a page whose first read fails. It is read at most twice; each gets bytes or an
/// error.
#[test]
fn loom_failed_fill_vs_read() {
    explore_file(2, closed, pool::<4>, first_fails, |_, mapping, backend| {
        let has_failed = |mapping: &Mapping| match Lookup(mapping).get(0, || 1) {
            Ok(_) => false,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io);
                true
            }
        };
        let other = spawn(&mapping, move |mapping| has_failed(&mapping));
        let nr_failed = usize::from(has_failed(&mapping)) + usize::from(other.join().unwrap());
        let nr_reads = backend.nr_reads();
        assert!((nr_failed, nr_reads) == (2, 1) || (nr_failed, nr_reads) == (1, 2));
        assert_ours(&read(&mapping, 0, ReadPath::Optimistic));
        assert_eq!(backend.nr_reads(), 2);
    });
}

/// ABA: during one copy, the page is evicted, and filled again in its reused frame and slot.
#[test]
fn loom_read_vs_evict_and_reuse() {
    vs_evict_and_reuse(|mapping| {
        if let Some(bytes) = read_optimistically(mapping, 0) {
            assert_ours(&bytes);
        }
    });
}

/// The read returns the old or the new content, never a mixture.
#[test]
fn loom_read_vs_replacement() {
    explore_file(3, closed, pool::<4>, shared::<1>, |_, mapping, backend| {
        warm(&mapping, 0);
        backend.inner().modify(|bytes| bytes.fill(FOREIGN));
        let reader = optimistic_reader(&mapping, &[OURS, FOREIGN]);
        Remover(&mapping).remove(0, 1, Unclean::Drop);
        warm(&mapping, 0);
        reader.join().unwrap();
        assert_eq!(
            read(&mapping, 0, ReadPath::Referenced),
            [FOREIGN; FRAME_BYTES]
        );
    });
}

fn rest_fails(files: &Arc<Files>) -> (Opened, Arc<FaultBackend<MemoryBackend>>) {
    failing_reads(files, |nr| nr != 0)
}

/// A read that fails its check and then ends leaves no byte of another page in the buffer. While it
/// runs, the page is evicted, and the file truncated, or the backend fails when it is read again.
fn failed_read_leaves_no_foreign_bytes(is_cut: bool) {
    explore_file(
        3,
        closed,
        pool::<4>,
        rest_fails,
        move |files, mapping, storage| {
            let frame = warm(&mapping, 0);
            if is_cut {
                storage.inner().modify(Vec::clear);
            }
            let reader = spawn(&mapping, move |mapping| {
                let (mut buf, reader) = ([0; FRAME_BYTES], Reader(&mapping));
                if reader.read_page_optimistic(0, &mut buf) == FastRead::Fallback {
                    let _ = reader.read_pages(&mut buf, 0, ReadPath::Optimistic, |_, left| left);
                }
                assert!(!buf.contains(&FOREIGN), "foreign bytes: {buf:x?}");
            });
            if let Some(unique) = evict(files.supply(), frame) {
                scribble(&unique);
            }
            if is_cut {
                refresh(&mapping, Op::Read).expect("a size");
            }
            reader.join().unwrap();
        },
    );
}

#[test]
fn loom_failed_read_leaves_no_foreign_bytes() {
    failed_read_leaves_no_foreign_bytes(true);
}

#[test]
fn loom_failed_read_leaves_no_foreign_bytes_on_error() {
    failed_read_leaves_no_foreign_bytes(false);
}

#[test]
fn loom_pin_vs_evict() {
    explore_file(3, closed, pool::<4>, mapping::<1>, |files, mapping, _| {
        let frame = warm(&mapping, 0);
        let pinner = spawn(&mapping, move |mapping| pin_seen(&mapping));
        if let Some(unique) = evict(files.supply(), frame) {
            scribble(&unique);
            // As another page: if the pinner has a stray reference, its drop must free the frame.
            let frame = crate::index::raw::publish_page(unique, (u64::MAX, 0), [0, 0], 1);
            drop(crate::index::raw::published(files.supply().pool(), frame));
        }
        pinner.join().unwrap();
    });
}

/// The guard of a removed page keeps the bytes. The last reference frees the frame, once.
#[test]
fn loom_remove_vs_unpin() {
    explore_file(3, closed, pool::<4>, mapping::<1>, |files, mapping, _| {
        warm(&mapping, 0);
        let frame = {
            let found = Lookup(&mapping).get(0, || 1).expect("a readable page");
            found.reference.into_raw()
        };
        let guard = spawn(files, move |files| {
            let reference = crate::read::raw::kept_reference(files.supply().pool(), frame);
            let bytes = copy_of(&reference);
            assert_ours(&bytes);
        });
        Remover(&mapping).remove(0, 1, Unclean::Drop);
        guard.join().unwrap();
    });
}

#[test]
fn loom_evict_vs_evict() {
    explore_file(3, closed, pool::<4>, mapping::<1>, |files, mapping, _| {
        let frame = warm(&mapping, 0);
        let evict = move |files: &Files| {
            let unique = evict(files.supply(), frame);
            unique.inspect(scribble).is_some()
        };
        let other = spawn(files, move |files| evict(&files));
        let ours = evict(files);
        let theirs = other.join().unwrap();
        assert!(!(ours && theirs), "one frame was evicted twice");
    });
}

/// The last handle is dropped during an eviction. Every frame is freed, once.
#[test]
fn loom_teardown_vs_evict() {
    explore(2, || {
        let files = pool::<4>();
        let mapping = mapping::<1>(&files).0;
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
