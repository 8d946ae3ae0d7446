//! Threads that write, read, fork, pin, unmap and migrate at once.
#![cfg(not(loom))]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::spaces;
use pagewell_space::{Engine, ForkMode, Policy, Space};
use pagewell_testkit::Seed;
use pagewell_testkit::rng::Rng;

const PAGE: u64 = 4096;

/// How long a stress test runs, unless `PAGEWELL_SOAK_SECONDS` says otherwise.
fn duration() -> Duration {
    let seconds = std::env::var("PAGEWELL_SOAK_SECONDS").ok();
    let seconds = seconds.map(|text| text.parse().expect("a number of seconds"));
    Duration::from_secs(seconds.unwrap_or(3))
}

fn engine(rng: &mut Rng) -> Engine {
    [Engine::FullWalk, Engine::EarlyStop, Engine::Batched][rng.index(3)]
}

/// The round that each page was written in last, page by page from `start` on: all words of a page have it.
fn rounds(space: &Space, start: u64, nr: u64) -> Vec<u64> {
    (0..nr)
        .map(|page| {
            let mut bytes = [0; PAGE as usize];
            space.read(start + page * PAGE, &mut bytes).unwrap();
            let (words, _) = bytes.as_chunks::<8>();
            let round = u64::from_ne_bytes(words[0]);
            assert!(
                words.iter().all(|word| u64::from_ne_bytes(*word) == round),
                "torn"
            );
            round
        })
        .collect()
}

/// A writer writes the pages in turn, round after round. So in every snapshot the rounds do not increase from page to
/// page, and differ by one at the most.
#[test]
fn forks_are_points_in_time_while_pages_move() {
    const PAGES: u64 = 40;
    let seed = Seed::of_run();
    let spaces = spaces(4096, 2);
    let space = spaces.space().unwrap();
    // Over the border of two tables.
    let area = space.map((512 + PAGES) * PAGE, Policy::Interleave).unwrap();
    let start = area.start + (512 - PAGES / 2) * PAGE;
    let used = start..start + PAGES * PAGE;
    let end = Instant::now() + duration();
    let latest = end + pagewell_testkit::wait::limit();
    let (forks, moved) = (AtomicU64::new(0), AtomicU64::new(0));
    // A busy machine takes longer for some of each.
    let some_of_each = || {
        [&forks, &moved]
            .iter()
            .all(|nr| nr.load(Ordering::Relaxed) > 10)
    };
    let is_over = || Instant::now() > latest || (Instant::now() > end && some_of_each());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1_u64.. {
                for page in 0..PAGES {
                    let bytes = round.to_ne_bytes().repeat(PAGE as usize / 8);
                    space.write(start + page * PAGE, &bytes).unwrap();
                }
                if is_over() {
                    break;
                }
            }
        });
        for part in 0..2 {
            let (space, seed, forks, used) = (&space, &seed, &forks, &used);
            scope.spawn(move || {
                let mut rng = seed.part(part);
                let mut kept: Vec<(Space, Vec<u64>)> = Vec::new();
                while !is_over() {
                    let mode = if rng.one_in(4) {
                        ForkMode::Copy
                    } else {
                        ForkMode::Share
                    };
                    let fork = space.fork_with(mode).unwrap();
                    forks.fetch_add(1, Ordering::Relaxed);
                    if rng.one_in(2) {
                        fork.migrate_with(used.clone(), rng.index(2), engine(&mut rng))
                            .unwrap();
                    }
                    let rounds = rounds(&fork, start, PAGES);
                    assert!(rounds.is_sorted_by(|a, b| a >= b), "{rounds:?}");
                    assert!(rounds[0] - rounds[PAGES as usize - 1] <= 1, "{rounds:?}");
                    if rng.one_in(3) {
                        let page = rng.below(PAGES);
                        fork.write(start + page * PAGE, &[0; PAGE as usize])
                            .unwrap();
                    }
                    if rng.one_in(3) {
                        fork.unmap(used.start..used.start + PAGE).unwrap();
                    }
                    if rng.one_in(4) {
                        let fork = space.fork().unwrap();
                        let rounds = crate::rounds(&fork, start, PAGES);
                        kept.push((fork, rounds));
                    }
                    if kept.len() > 10 {
                        let (fork, rounds) = kept.swap_remove(rng.index(10));
                        assert_eq!(
                            rounds,
                            crate::rounds(&fork, start, PAGES),
                            "a snapshot changed"
                        );
                    }
                }
            });
        }
        let (space, seed, moved, used) = (&space, &seed, &moved, &used);
        scope.spawn(move || {
            let mut rng = seed.part(2);
            while !is_over() {
                let report = space
                    .migrate_with(used.clone(), rng.index(2), engine(&mut rng))
                    .unwrap();
                moved.fetch_add(report.nr_moved as u64, Ordering::Relaxed);
            }
        });
    });
    assert!(some_of_each());
    spaces.verify(&[&space]).unwrap();
    drop(space);
    let stats = spaces.pool().stats();
    assert_eq!(stats.nr_available(), stats.nr_frames, "frames were lost");
}

#[test]
fn no_addition_is_lost_while_pages_move_and_forks_come_and_go() {
    const WORDS: u64 = 24;
    let seed = Seed::of_run();
    let spaces = spaces(2048, 2);
    let space = spaces.space().unwrap();
    let area = space.map(4 * PAGE, Policy::Local).unwrap();
    let word = |nr: u64| area.start + (nr % 4) * PAGE + nr * 8;
    let is_over = AtomicBool::new(false);
    let end = Instant::now() + duration();
    let sums = std::thread::scope(|scope| {
        let adders: Vec<_> = (0..3)
            .map(|part| {
                let mut rng = seed.part(part);
                let (space, is_over) = (&space, &is_over);
                scope.spawn(move || {
                    let mut sums = [0_u64; WORDS as usize];
                    while !is_over.load(Ordering::Relaxed) {
                        let nr = rng.below(WORDS);
                        let value = rng.below(1000);
                        let addr = word(nr);
                        if rng.one_in(2) {
                            space.fetch_add(addr, value).unwrap();
                        } else {
                            let mut seen = space.load(addr).unwrap();
                            while let Err(now) = space
                                .compare_exchange(addr, seen, seen.wrapping_add(value))
                                .unwrap()
                            {
                                seen = now;
                            }
                        }
                        sums[nr as usize] += value;
                    }
                    sums
                })
            })
            .collect();
        let mut rng = seed.part(10);
        while Instant::now() < end {
            match rng.below(4) {
                0 => drop(space.fork().unwrap()),
                1 => {
                    let fork = space.fork().unwrap();
                    fork.fetch_add(word(rng.below(WORDS)), 1).unwrap();
                }
                2 => {
                    let pin = space.pin(area.start, 64).unwrap();
                    let before = pin.to_vec();
                    std::thread::yield_now();
                    assert!(*pin == *before, "a pinned page has changed");
                }
                _ => {
                    let engine = engine(&mut rng);
                    space
                        .migrate_with(area.clone(), rng.index(2), engine)
                        .unwrap();
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
        let mut sums = vec![0_u64; WORDS as usize];
        for adder in adders {
            for (sum, part) in sums.iter_mut().zip(adder.join().unwrap()) {
                *sum += part;
            }
        }
        sums
    });
    for (nr, sum) in sums.into_iter().enumerate() {
        assert_eq!(space.load(word(nr as u64)).unwrap(), sum, "word {nr}");
    }
    spaces.verify(&[&space]).unwrap();
}

/// Areas are mapped, protected, moved and unmapped by two threads, each its own, while a third forks and migrates.
#[test]
fn areas_come_and_go_while_forks_and_migrations_do() {
    let seed = Seed::of_run();
    let spaces = spaces(4096, 2);
    let space = spaces.space().unwrap();
    let end = Instant::now() + duration();
    std::thread::scope(|scope| {
        for part in 0..2 {
            let (space, seed) = (&space, &seed);
            scope.spawn(move || {
                let mut rng = seed.part(part);
                while Instant::now() < end {
                    let nr = 1 + rng.below(12);
                    let mut area = space.map(nr * PAGE, Policy::Local).unwrap();
                    let fill = [rng.next_u64() as u8; PAGE as usize];
                    for addr in area.clone().step_by(PAGE as usize) {
                        space.write(addr, &fill).unwrap();
                    }
                    if rng.one_in(2) {
                        area = space.move_to_free(area).unwrap();
                    }
                    let mut buf = [0; PAGE as usize];
                    for addr in area.clone().step_by(PAGE as usize) {
                        space.read(addr, &mut buf).unwrap();
                        assert!(buf == fill, "other bytes");
                        space.write(addr, &[1]).unwrap();
                    }
                    space.unmap(area).unwrap();
                }
            });
        }
        let mut rng = seed.part(2);
        let mut forks = Vec::new();
        while Instant::now() < end {
            if forks.len() < 8 {
                forks.push(space.fork().unwrap());
            } else {
                forks.swap_remove(rng.index(8));
            }
            let moving = forks.get(rng.index(9)).unwrap_or(&space);
            for area in moving.areas() {
                // It may be gone by now.
                let _ = moving.migrate_with(area.range, rng.index(2), engine(&mut rng));
            }
        }
    });
    spaces.verify(&[&space]).unwrap();
    drop(space);
    let stats = spaces.pool().stats();
    assert_eq!(stats.nr_available(), stats.nr_frames, "frames were lost");
}
