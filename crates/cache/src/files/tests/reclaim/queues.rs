//! Order of evictions under the default policy, in a cache with real slots, leaves and frames.

use pagewell_frame::FRAME_WORDS;
use pagewell_io::pools::Engines;
use pagewell_testkit::Seed;

use super::*;
use crate::base::page::PageSize;
use crate::base::slot::Slot;
use crate::dirty::pressure::Limits;
use crate::files::serve::files_with;
use crate::index::claim::Leaf;
use crate::mapping::record::How;
use crate::mapping::remove::{Remover, Unclean};
use crate::supply::queues::Eviction;

fn files(eviction: Eviction) -> Arc<Files> {
    let pool = FramePool::new(&PoolConfig::new(NR_FRAMES)).unwrap();
    let limits = Limits::of_cache(NR_FRAMES);
    files_with(pool, limits, eviction, Engines::default())
}

fn nr_filled(files: &Files) -> u64 {
    files.supply().counters.get(Event::Fill)
}

fn read(mapping: &Mapping, page: u64) {
    drop(pin(mapping, page));
}

fn hit_ratio(files: &Files, mapping: &Mapping, pages: &[u64]) -> f64 {
    let before = nr_filled(files);
    for page in pages {
        read(mapping, *page);
    }
    1.0 - (nr_filled(files) - before) as f64 / pages.len() as f64
}

/// Under CLOCK, a loop over twice as many pages as frames has no hit. Here some pages stay.
#[test]
fn a_loop_that_does_not_fit_finds_some_of_its_pages() {
    let pages: Vec<u64> = (0..20 * NR_FRAMES as u64)
        .map(|nr| nr % (2 * NR_FRAMES as u64))
        .collect();
    let [queues, clock] = [Eviction::Queues, Eviction::Clock].map(|eviction| {
        let files = files(eviction);
        let mapping = open(&files, 1 << 20);
        let ratio = hit_ratio(&files, &mapping, &pages);
        drop(mapping);
        assert_at_rest(&files);
        ratio
    });
    assert!(clock < 0.01, "{clock}");
    assert!(queues > 0.35, "{queues}");
}

/// Most pages that are read repeatedly are still resident after a scan of ten times the cache.
#[test]
fn a_scan_leaves_what_is_used() {
    let files = files(Eviction::Queues);
    let mapping = open(&files, 1 << 20);
    let used: Vec<u64> = (0..NR_FRAMES as u64 / 2).collect();
    let mut scan = 10_000..;
    for _ in 0..8 {
        for page in &used {
            read(&mapping, *page);
            for other in scan.by_ref().take(2) {
                read(&mapping, other);
            }
        }
    }
    for other in scan.take(10 * NR_FRAMES) {
        read(&mapping, other);
    }
    let ratio = hit_ratio(&files, &mapping, &used);
    assert!(ratio > 0.75, "{ratio}");
}

/// Between two reads of a page, the test reads more other pages than the cache has frames. Without
/// ghosts, the policy treats the page as new each time. With its ghost, the page stays.
#[test]
fn pages_with_ghosts_stay_when_they_come_back() {
    let files = files(Eviction::Queues);
    let mapping = open(&files, 1 << 20);
    let used = 0..NR_FRAMES as u64 / 4;
    let nr_used = used.end as usize;
    let mut scan = 10_000..;
    let mut ratio = 0.0;
    for _ in 0..4 {
        let nr_filled_before = nr_filled(&files);
        for page in used.clone() {
            read(&mapping, page);
            for other in scan.by_ref().take(8) {
                read(&mapping, other);
            }
        }
        let nr_misses = nr_filled(&files) - nr_filled_before - 8 * nr_used as u64;
        ratio = 1.0 - nr_misses as f64 / nr_used as f64;
    }
    assert!(ratio > 0.9, "{ratio}");
}

/// Each page of a sparse file has a leaf of its own. Few leaves with nothing but a ghost stay.
#[test]
fn leaves_that_have_nothing_but_ghosts_are_few() {
    let files = files(Eviction::Queues);
    let pages = 1 << 14;
    let mapping = open(&files, pages * FRAME_WORDS as u64);
    for page in 0..pages {
        read(&mapping, page * FRAME_WORDS as u64);
    }
    let pool = files.supply().pool();
    let kinds = (0..NR_FRAMES as u32).map(|nr| pool.meta(FrameNr::new(nr)));
    let nr_empty = kinds
        .filter(|record| record.kind().0 == FrameKind::Leaf && record.count() == 1)
        .count();
    assert!(nr_empty <= NR_FRAMES / 64 + 1, "{nr_empty}");
    assert!(nr_evicted(&files) > 0);
    drop(mapping);
    assert_at_rest(&files);
}

fn nr_ghosts(files: &Files, mapping: &Mapping, nr_pages: u64) -> usize {
    let of = |page| {
        let leaf = mapping.index().leaf(&files.supply().claims, page)?;
        let slot = leaf.slot(Leaf::slot_of(page));
        Slot::from_bits(slot.load(Ordering::Relaxed)).ghost()
    };
    (0..nr_pages).filter_map(of).count()
}

/// A page that is truncated and written again is a new page.
#[test]
fn taking_pages_out_takes_their_ghosts() {
    let files = files(Eviction::Queues);
    let nr_pages = 4 * NR_FRAMES as u64;
    let mapping = open(&files, nr_pages);
    for page in 0..nr_pages {
        read(&mapping, page);
    }
    let before = nr_ghosts(&files, &mapping, nr_pages);
    assert!(before > NR_FRAMES, "{before}");
    Remover(&mapping).remove(nr_pages / 2, nr_pages, Unclean::Drop);
    let after = nr_ghosts(&files, &mapping, nr_pages);
    assert!(after > 0 && after <= nr_pages as usize / 2, "{after}");
    Remover(&mapping).remove(0, nr_pages, Unclean::Drop);
    assert_eq!(nr_ghosts(&files, &mapping, nr_pages), 0);
}

/// An evicted page of sixteen frames makes room for the next one, beside pages of one frame.
#[test]
fn large_pages_and_small_ones_share_the_cache() {
    let files = files(Eviction::Queues);
    let small = open(&files, 1 << 20);
    let backend = Arc::new(Zeros(1 << 33));
    let page_size = PageSize::checked(65536, Op::Open).unwrap();
    let how = How::of(Access::Read);
    let (large, _) = Opened::of_backend(&files, backend, "large".into(), page_size, how).unwrap();
    let seed = Seed::of_run();
    let mut rng = seed.part(0);
    for _ in 0..20_000 {
        match rng.next_u64() {
            nr if nr % 4 == 0 => read(&large, nr / 4 % 200),
            nr => read(&small, nr / 4 % 2000),
        }
    }
    let cached = |mapping: &Mapping, nr_pages| {
        (0..nr_pages)
            .filter(|page| {
                let seen = mapping.index().look(*page);
                seen.is_some_and(|seen| seen.slot.ghost().is_none() && seen.slot.is_hot())
            })
            .count()
    };
    let nr_frames = cached(&small, 2000) + 16 * cached(&large, 200);
    assert!(nr_frames <= NR_FRAMES);
    let stats = files.supply().pool().stats();
    assert!(stats.nr_available() < NR_FRAMES / 4, "{stats:?}");
    drop((small, large));
    assert_at_rest(&files);
}
