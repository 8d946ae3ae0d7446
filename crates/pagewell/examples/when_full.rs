//! How long the answer takes that no frame can become free: `cargo run --release -p pagewell --example when_full [GIB]`.
//!
//! A cache of so many GiB (64) in which a program manages every frame by its number. That needs memory for the records alone, 1 GiB
//! for 64. Then a cache of a thirty-second of that, in which every page is pinned, and which needs all its memory. Each figure is
//! the fastest and the median of several requests, by the clock on the wall.

use std::time::Instant;

use pagewell::frame::{Order, Place, UniqueFrame};
use pagewell::io::MemoryBackend;
use pagewell::{Cache, HugePages};

/// Requests of each kind.
const TURNS: usize = if cfg!(test) { 1 } else { 25 };

/// GiB of frames, unless told.
const GIB: f64 = if cfg!(test) { 0.5 } else { 64.0 };

/// What a frame costs of the capacity: its bytes, and its record.
const FRAME_COST: u64 = 4096 + 64;

type Failure = Box<dyn std::error::Error>;

fn cache(nr_frames: u64) -> Result<Cache, pagewell::Error> {
    Cache::builder()
        .capacity(nr_frames * FRAME_COST)
        .huge_pages(HugePages::Never)
        .build()
}

/// Takes all frames that are free, by number; how many these are.
fn take_rest(cache: &Cache) -> usize {
    let frames = cache.frames();
    let rest = std::iter::from_fn(|| frames.pool().alloc(Order::ZERO));
    rest.map(UniqueFrame::into_raw).count()
}

/// Asks for a frame, of which there is none, and prints how long the answer takes.
fn ask(cache: &Cache, what: &str) -> Result<(), Failure> {
    let frames = cache.frames();
    let mut times = Vec::with_capacity(TURNS);
    for _ in 0..TURNS {
        let began = Instant::now();
        let found = frames.make_room(Order::ZERO, Place::Anywhere);
        times.push(began.elapsed());
        if found.is_some() {
            return Err("a frame was free".into());
        }
    }
    times.sort_unstable();
    let (fastest, median) = (times[0], times[TURNS / 2]);
    let nr = frames.pool().nr_frames();
    println!(
        "{nr} frames, {what}: {:.1} ms, median {:.1} ms; {:.2} ns a frame",
        fastest.as_secs_f64() * 1e3,
        median.as_secs_f64() * 1e3,
        fastest.as_secs_f64() * 1e9 / nr as f64
    );
    Ok(())
}

fn main() -> Result<(), Failure> {
    let gib = match std::env::args().nth(1) {
        Some(gib) if !cfg!(test) => gib.parse()?,
        _ => GIB,
    };
    let nr_frames = (gib * f64::from(1 << 18)) as u64;
    {
        let cache = cache(nr_frames)?;
        take_rest(&cache);
        ask(&cache, "managed by the program")?;
    }
    let nr_frames = nr_frames / 32;
    let cache = cache(nr_frames)?;
    // An index, and a few frames for it, beside the pages.
    let nr_pages = nr_frames - nr_frames / 256 - 64;
    let backend = MemoryBackend::new(vec![1; (nr_pages * 4096) as usize]);
    let file = cache.open_backend(backend, "pages")?;
    let pins: Vec<_> = (0..nr_pages)
        .map(|page| file.pin(page))
        .collect::<Result<_, _>>()?;
    take_rest(&cache);
    ask(&cache, "pinned pages")?;
    drop(pins);
    Ok(())
}

#[test]
fn the_answer_is_that_there_is_none() {
    main().unwrap();
}
