//! Threads that append records to one log, or each to its own: what the lock of a file's size costs.
//!
//!     cargo run --release -p pagewell --example append [SECONDS [ROUNDS]]
//!
//! A JSON line for each case: `own` (a file a thread) or `shared` (one file), the record's bytes, the threads, and nanoseconds a
//! record, over all threads (so two that do not disturb each other take half of what one takes). Files are in memory and are cut when they
//! have 1 MiB; what is measured is the fastest of the rounds, which the cases take in turns. `docs/adr/0040-appends-one-after-the-other.md` has figures.

use std::error::Error;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use pagewell::io::MemoryBackend;
use pagewell::{Cache, File, OpenOptions, Writeback};

/// A file that has this many bytes is cut.
const MOST: u64 = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let seconds: f64 = args.next().map_or(Ok(0.1), |arg| arg.parse())?;
    let rounds: u32 = args.next().map_or(Ok(9), |arg| arg.parse())?;
    let time = Duration::try_from_secs_f64(seconds)?;
    let cache = Cache::builder().capacity(64 << 20).build()?;
    let files = (0..2)
        .map(|nr| {
            let options = OpenOptions::new().write().writeback(Writeback::Manual);
            cache.open_backend_with(
                MemoryBackend::writable(Vec::new()),
                format!("{nr}"),
                &options,
            )
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut cases = Vec::new();
    for record in [64, 256, 1024, 4096, 16384] {
        cases.push((record, &files[..1], 1, "own", f64::INFINITY));
        cases.push((record, &files[..2], 2, "own", f64::INFINITY));
        cases.push((record, &files[..1], 2, "shared", f64::INFINITY));
    }
    for _ in 0..rounds {
        for (record, files, threads, _, best) in &mut cases {
            let took = run(files, *threads, *record, time)?;
            *best = best.min(took);
        }
    }
    for (record, _, threads, which, best) in cases {
        println!(
            "{{\"example\":\"append\",\"case\":\"{which}\",\"record\":{record},\"threads\":{threads},\"unit\":\"ns/op\",\"value\":{best:.1},\"processor\":{:?}}}",
            pagewell_testkit::machine::processor()
        );
    }
    Ok(())
}

/// Nanoseconds a record, over all threads.
fn run(
    files: &[File],
    threads: usize,
    record: usize,
    time: Duration,
) -> Result<f64, pagewell::Error> {
    let start = Barrier::new(threads);
    let counts = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|nr| {
                let (file, start) = (&files[nr % files.len()], &start);
                scope.spawn(move || {
                    let bytes = vec![nr as u8; record];
                    let mut count = 0_u64;
                    start.wait();
                    let begun = Instant::now();
                    while begun.elapsed() < time {
                        for _ in 0..256 {
                            // The two of a shared file may both cut it; that is a cut too many at the most.
                            if file.append(&bytes)?.end >= MOST {
                                file.set_size(0)?;
                            }
                        }
                        count += 256;
                    }
                    Ok((count, begun.elapsed()))
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("a thread that does not panic"))
            .collect::<Result<Vec<(u64, Duration)>, pagewell::Error>>()
    })?;
    let count: u64 = counts.iter().map(|(count, _)| count).sum();
    let longest = counts.iter().map(|(_, took)| *took).max();
    Ok(longest.unwrap_or_default().as_nanos() as f64 / count as f64)
}
