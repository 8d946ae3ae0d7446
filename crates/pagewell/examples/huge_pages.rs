//! Whether asking for huge pages helps this machine, and what it costs: `cargo run --release -p pagewell --example huge_pages
//! [MIB]`.
//!
//! Several caches of one file with huge pages (`Advise`) and as many without (`Never`) take turns, so that a change of the
//! machine's speed meets both, and no figure depends on where one cache happens to lie. A figure is the median over caches and
//! turns; the ratio is of two neighbours in one turn, median again. Then the memory that a cache of the same capacity takes when
//! few pages are in it.

use std::hint::black_box;
use std::time::Instant;

use pagewell::io::MemoryBackend;
use pagewell::{Cache, File, HugePages};

/// Caches of each kind, and turns that each of them gets in a case.
const CACHES: usize = 3;
const TURNS: usize = if cfg!(test) { 1 } else { 9 };
/// Operations in a turn.
const OPERATIONS: usize = if cfg!(test) { 100 } else { 100_000 };

const PAGE: u64 = 4096;

type Failure = Box<dyn std::error::Error>;

/// An operation on the page that holds a position, which is a multiple of 64.
type Operation = fn(&File, u64) -> Result<(), pagewell::Error>;

fn read<const LEN: usize>(file: &File, pos: u64) -> Result<(), pagewell::Error> {
    let mut buf = [0; LEN];
    let start = if LEN == 64 { pos } else { pos / PAGE * PAGE };
    file.read_at(&mut buf, start)?;
    black_box(&buf);
    Ok(())
}

fn pin(file: &File, pos: u64) -> Result<(), pagewell::Error> {
    let page = file.pin(pos / PAGE)?;
    black_box(page[(pos % PAGE) as usize]);
    Ok(())
}

/// Where the operations go.
#[derive(Clone, Copy)]
enum Spread {
    Hot,
    Random,
}

const CASES: [(&str, Spread, Operation); 6] = [
    ("64 B, one page", Spread::Hot, read::<64>),
    ("4 KiB, one page", Spread::Hot, read::<4096>),
    ("pin, one page", Spread::Hot, pin),
    ("64 B, random", Spread::Random, read::<64>),
    ("4 KiB, random", Spread::Random, read::<4096>),
    ("pin, random", Spread::Random, pin),
];

fn cache(bytes: u64, huge_pages: HugePages) -> Result<Cache, pagewell::Error> {
    // An eighth more: records, index, and the frames on their way.
    let capacity = bytes + bytes / 8 + (4 << 20);
    Cache::builder()
        .capacity(capacity)
        .huge_pages(huge_pages)
        .build()
}

/// A file of so many bytes, all of them cached; and the seconds that took.
fn warm(bytes: u64, huge_pages: HugePages) -> Result<(File, f64), Failure> {
    let cache = cache(bytes, huge_pages)?;
    let backend = MemoryBackend::new(vec![7; bytes as usize]);
    let file = cache.open_backend(backend, "file")?;
    let mut buf = vec![0; 1 << 20];
    let begin = Instant::now();
    for pos in (0..bytes).step_by(buf.len()) {
        file.read_at(&mut buf, pos)?;
    }
    Ok((file, begin.elapsed().as_secs_f64()))
}

/// Nanoseconds of one operation, over a turn.
fn turn(file: &File, spread: Spread, operation: Operation, seed: u64) -> Result<f64, Failure> {
    let nr_lines = file.size() / 64;
    let mut state = seed | 1;
    let begin = Instant::now();
    for _ in 0..OPERATIONS {
        // Xorshift: George Marsaglia, 2003.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let line = match spread {
            Spread::Hot => state % (PAGE / 64),
            Spread::Random => state % nr_lines,
        };
        operation(file, line * 64)?;
    }
    Ok(begin.elapsed().as_secs_f64() * 1e9 / OPERATIONS as f64)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// KiB of memory that the process has now. (`statm` is behind by some hundred KiB for each thread.)
fn resident() -> Result<u64, Failure> {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:"));
    let number = line.and_then(|line| line.trim().split(' ').next());
    Ok(number.ok_or("no number of resident bytes")?.parse()?)
}

/// How many KiB a cache takes, beyond what was there before it, with so many pages in it.
fn taken(bytes: u64, huge_pages: HugePages, nr_pages: u64) -> Result<u64, Failure> {
    let storage = MemoryBackend::new(vec![7; (nr_pages * PAGE) as usize]);
    let before = resident()?;
    let cache = cache(bytes, huge_pages)?;
    let file = cache.open_backend(storage, "file")?;
    let mut buf = [0; 64];
    for page in 0..nr_pages {
        file.read_at(&mut buf, page * PAGE)?;
    }
    Ok(resident()?.saturating_sub(before))
}

fn main() -> Result<(), Failure> {
    let mib: u64 = match std::env::args().nth(1) {
        Some(text) if !text.starts_with('-') => text.parse()?,
        _ if cfg!(test) => 1,
        _ => 256,
    };
    memory(mib << 20)?;
    compare(mib << 20)
}

fn compare(bytes: u64) -> Result<(), Failure> {
    let mut files = Vec::new();
    let mut seconds = [Vec::new(), Vec::new()];
    for _ in 0..CACHES {
        for (kind, huge_pages) in [HugePages::Advise, HugePages::Never]
            .into_iter()
            .enumerate()
        {
            let (file, took) = warm(bytes, huge_pages)?;
            seconds[kind].push(took);
            files.push(file);
        }
    }
    let [huge, small] = seconds.map(|mut seconds| median(&mut seconds) * 1e3);
    println!("{} MiB, {CACHES} caches of each kind", bytes >> 20);
    println!("{:<18}{:>10}{:>10}{:>9}", "", "huge", "small", "ratio");
    let row = |what: &str, huge: f64, small: f64, ratio: f64, unit: &str| {
        println!("{what:<18}{huge:>10.1}{small:>10.1}{ratio:>9.3}  {unit}");
    };
    row("filled in", huge, small, small / huge, "ms");
    for (what, spread, operation) in CASES {
        let (mut of_kind, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
        for nr in 0..TURNS {
            for pair in files.chunks(2) {
                let seed = 0x9E37_79B9 + nr as u64;
                // Each goes first as often.
                let order = if nr % 2 == 0 { [0, 1] } else { [1, 0] };
                let mut took = [0.0; 2];
                for kind in order {
                    took[kind] = turn(&pair[kind], spread, operation, seed)?;
                    of_kind[kind].push(took[kind]);
                }
                ratios.push(took[1] / took[0]);
            }
        }
        let [huge, small] = of_kind.map(|mut values| median(&mut values));
        row(what, huge, small, median(&mut ratios), "ns");
    }
    Ok(())
}

/// What few pages take. To be called first: memory that was freed, and is used again, is not counted.
fn memory(bytes: u64) -> Result<(), Failure> {
    println!(
        "memory taken by a cache of {} MiB, in KiB, with so many pages in it:",
        bytes >> 20
    );
    for nr_pages in [0, 1, 100, 1000, 10_000] {
        if nr_pages * PAGE <= bytes {
            let huge = taken(bytes, HugePages::Advise, nr_pages)?;
            let small = taken(bytes, HugePages::Never, nr_pages)?;
            println!("{nr_pages:>8} pages {huge:>10} {small:>10}");
        }
    }
    Ok(())
}

#[test]
fn both_kinds_are_compared() {
    memory(1 << 20).expect("figures");
    compare(1 << 20).expect("figures");
}
