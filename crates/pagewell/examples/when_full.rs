//! How long the answer takes that no frame can become free: `cargo run --release -p pagewell --example when_full [GIB]`.
//!
//! A cache of so many GiB (4) in which a program manages every frame by its number. That needs memory for the records alone, a
//! sixty-fourth. Then a cache of an eighth of that, in which every page is pinned, and which needs all its memory. Each figure is
//! the fastest of several requests, by the clock on the wall, and by that of the thread: on a machine that is busy otherwise, that is
//! nearer to what a quiet one takes.
//!
//! A cache is at most as large as the machine's memory; the figures for 64 GiB follow from that a look at a frame takes as long there.

use std::time::{Duration, Instant};

use pagewell::Cache;
use pagewell::frame::{Order, Place};
use pagewell::io::MemoryBackend;

/// Requests of each kind.
const TURNS: usize = if cfg!(test) { 1 } else { 100 };

/// GiB of frames, unless told.
const GIB: f64 = if cfg!(test) { 0.5 } else { 4.0 };

/// What a frame costs of the capacity: its bytes, and its record.
const FRAME_COST: u64 = 4096 + 64;

type Failure = Box<dyn std::error::Error>;

fn cache(nr_frames: u64) -> Result<Cache, pagewell::Error> {
    Cache::builder().capacity(nr_frames * FRAME_COST).build()
}

/// Takes all frames by number that are free, or can be made free.
fn take_rest(cache: &Cache) {
    let frames = cache.frames();
    let free = std::iter::from_fn(|| frames.pool().alloc(Order::ZERO));
    free.for_each(|frame| _ = frame.into_raw());
    let evicted = std::iter::from_fn(|| frames.make_room(Order::ZERO, Place::Anywhere));
    evicted.for_each(|frame| _ = frame.into_raw());
}

/// How long this thread has been on a processor.
fn of_thread() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure is this function's, for the system to fill in.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0, "every system has this clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Asks for a frame, of which there is none, and prints how long the answer takes.
fn ask(cache: &Cache, what: &str) -> Result<(), Failure> {
    let frames = cache.frames();
    let mut least = [Duration::MAX; 2];
    for _ in 0..TURNS {
        let (began, before) = (Instant::now(), of_thread());
        let found = frames.make_room(Order::ZERO, Place::Anywhere);
        let took = [began.elapsed(), of_thread() - before];
        if found.is_some() {
            return Err("a frame was free".into());
        }
        for (least, took) in least.iter_mut().zip(took) {
            *least = took.min(*least);
        }
    }
    let nr = frames.pool().nr_frames();
    print!("{nr} frames, {what}:");
    for (time, clock) in least.into_iter().zip(["wall", "processor"]) {
        let ns = time.as_secs_f64() * 1e9 / nr as f64;
        let ms_of_64_gib = ns * f64::from(1 << 24) / 1e6;
        print!(" {ns:.2} ns a frame, {ms_of_64_gib:.0} ms for 64 GiB ({clock}).");
    }
    println!();
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
    let nr_frames = nr_frames / 8;
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
