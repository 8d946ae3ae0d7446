//! Several writers, readers, a flusher and a truncater on real files, in a cache that is too small for them.
//!
//! The first part of each file is cut into blocks, each of which is written whole and within one page, by one writer
//! after the other: it says which version it has, and all the rest of it follows from that. So a reader can tell
//! whether what it reads is one write, and whether a writer's own last write is there. Past that part the file grows
//! and is cut.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pagewell::{Cache, ErrorKind, File, OpenOptions};
use pagewell_crash::{BLOCK, Block, block};
use pagewell_testkit::Seed;
use pagewell_testkit::rng::Rng;
use pagewell_testkit::wait::bounded_by;

use crate::support::{PAGE, assert_all_free, cache};

const BLOCKS: u64 = 150 * (PAGE / BLOCK) as u64;
const WRITERS: u64 = 3;
const TIME: Duration = Duration::from_millis(1500);
/// Where the part begins that grows and is cut: within a page of blocks' neighbours.
const END: u64 = BLOCKS * BLOCK as u64 + 100;

/// Checks that the bytes are one version of the block; returns which.
#[track_caller]
fn check(nr: u64, bytes: &[u8]) -> u64 {
    match Block::of(nr, bytes) {
        Block::Version(version) => version,
        found => panic!("block {nr} is {found:?}"),
    }
}

fn write_some(file: &File, writer: u64, latest: &[AtomicU64], mut rng: Rng) {
    let start = Instant::now();
    let mut version = 1;
    while start.elapsed() < TIME {
        version += 1;
        // A writer has blocks of its own, in pages that it shares with the others.
        let nr = rng.below(BLOCKS / WRITERS) * WRITERS + writer;
        let pos = nr * BLOCK as u64;
        if rng.one_in(8) {
            let mut page = file.pin_mut(pos / PAGE as u64).unwrap();
            let off = pos as usize % PAGE;
            check(nr, &page[off..off + BLOCK]);
            page[off..off + BLOCK].copy_from_slice(&block(nr, version));
        } else {
            assert_eq!(file.write_at(&block(nr, version), pos).unwrap(), BLOCK);
        }
        // ORDERING: Release; who reads the version finds the block, or a later one.
        latest[nr as usize].store(version, Ordering::Release);
        let mut bytes = [0; BLOCK];
        assert_eq!(file.read_at(&mut bytes, pos).unwrap(), BLOCK);
        assert_eq!(check(nr, &bytes), version, "a writer reads what it wrote");
    }
}

fn read_some(file: &File, latest: &[AtomicU64], mut rng: Rng, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let nr = rng.below(BLOCKS);
        let pos = nr * BLOCK as u64;
        let before = latest[nr as usize].load(Ordering::Acquire);
        let mut bytes = [0; BLOCK];
        match rng.below(3) {
            0 => assert_eq!(file.read_at(&mut bytes, pos).unwrap(), BLOCK),
            1 => assert_eq!(file.read_at_referenced(&mut bytes, pos).unwrap(), BLOCK),
            _ => {
                let page = file.pin(pos / PAGE as u64).unwrap();
                bytes.copy_from_slice(&page[pos as usize % PAGE..][..BLOCK]);
            }
        }
        assert!(
            check(nr, &bytes) >= before,
            "older than what was read before"
        );
    }
}

/// Makes the file longer and shorter past the blocks, by all means.
fn resize_some(file: &File, mut rng: Rng, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let size = file.size();
        assert!(size >= END);
        match rng.below(4) {
            0 if size < END + 64 * PAGE as u64 => {
                let len = rng.index(3 * PAGE);
                let at = file.append(&vec![0xEE; len]).unwrap();
                assert_eq!(at, size..size + len as u64);
            }
            1 => {
                file.write_at(&[0xEE; 100], END + rng.below(64 * PAGE as u64))
                    .unwrap();
            }
            2 => file.set_size(END + rng.below(64 * PAGE as u64)).unwrap(),
            _ => {
                file.set_size(END).unwrap();
                // What was cut off does not come back.
                let new = END + rng.below(4 * PAGE as u64);
                file.set_size(new).unwrap();
                let mut bytes = vec![1; (new - END) as usize];
                assert_eq!(file.read_at(&mut bytes, END).unwrap(), bytes.len());
                assert!(
                    bytes.iter().all(|byte| *byte == 0),
                    "cut off, and there again"
                );
            }
        }
    }
}

fn flush_some(cache: &Cache, file: &File, mut rng: Rng, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let pos = rng.below(END);
        match rng.below(4) {
            0 => file.sync_data().unwrap(),
            1 => _ = file.flush(pos..pos + 40 * PAGE as u64).unwrap(),
            2 => _ = cache.reclaim(rng.index(30)),
            _ => file.invalidate(pos..pos + 40 * PAGE as u64),
        }
    }
}

#[test]
fn blocks_are_whole_and_the_last_ones_on_files_that_everybody_uses() {
    let seed = Seed::of_run();
    bounded_by(Duration::from_secs(90), "stress", move || {
        let dir = pagewell_testkit::scratch::dir();
        let cache = cache(192);
        let options = OpenOptions::new().create();
        let latest: Vec<Vec<_>> = (0..2)
            .map(|_| (0..BLOCKS).map(|_| AtomicU64::new(1)).collect())
            .collect();
        let files: Vec<_> = (0..2)
            .map(|nr| {
                cache
                    .open_with(dir.path().join(format!("{nr}")), &options)
                    .unwrap()
            })
            .collect();
        for file in &files {
            for nr in 0..BLOCKS {
                file.append(&block(nr, 1)).unwrap();
            }
            file.append(&[7; 100]).unwrap();
        }
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let mut writers = Vec::new();
            for (at, (file, latest)) in (0..).zip(files.iter().zip(&latest)) {
                let rng = |part| seed.part(at * 100 + part);
                for writer in 0..WRITERS {
                    let rng = rng(writer);
                    writers.push(scope.spawn(move || write_some(file, writer, latest, rng)));
                }
                let (cache, is_over) = (&cache, &is_over);
                let parts = [rng(10), rng(11), rng(12), rng(13)];
                let [first, second, third, fourth] = parts;
                scope.spawn(move || read_some(file, latest, first, is_over));
                scope.spawn(move || read_some(file, latest, second, is_over));
                scope.spawn(move || resize_some(file, third, is_over));
                scope.spawn(move || flush_some(cache, file, fourth, is_over));
            }
            let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
            is_over.store(true, Ordering::Relaxed);
            assert!(ended.iter().all(Result::is_ok), "a writer has failed");
        });
        for (nr, (file, latest)) in files.into_iter().zip(&latest).enumerate() {
            let size = file.size();
            file.close().map_err(|(_, error)| error).unwrap();
            let bytes = std::fs::read(dir.path().join(format!("{nr}"))).unwrap();
            assert_eq!(bytes.len() as u64, size);
            for (nr, bytes) in (0..BLOCKS).zip(bytes.chunks(BLOCK)) {
                let last = latest[nr as usize].load(Ordering::Acquire);
                assert_eq!(check(nr, bytes), last, "block {nr} of the file");
            }
            assert_eq!(bytes[END as usize - 100..END as usize], [7; 100]);
        }
        pagewell_testkit::wait::until("all frames are free", || {
            let stats = cache.stats();
            stats.nr_free == stats.nr_frames
        });
        assert_all_free(&cache);
        // Nothing is left open.
        let path = dir.path().join("0");
        let error = cache.open_with(&path, &OpenOptions::new().create_new());
        assert_ne!(error.unwrap_err().kind(), ErrorKind::Busy);
        cache.open_with(&path, &options).unwrap();
    });
}
