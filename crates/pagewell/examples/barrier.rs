//! What a commit costs a concurrent put: with a barrier between its two parts and one sync, and with two plain syncs.
//!
//! ```sh
//! cargo run --release -p pagewell --example barrier -- [--file PATH] [--pages N] [--seconds N] [--rounds N]
//! ```
//!
//! One thread commits all the time: it writes so many pages, here and there, orders them before a head page, and makes all of it durable. Another one writes
//! single pages among them. Each line of the output is a JSON object, with the mean and the worst time of a put and the commits a second.

use std::error::Error;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pagewell::{Cache, File, OpenOptions};

const PAGE: usize = 4096;

struct Settings {
    file: PathBuf,
    pages: u64,
    time: Duration,
    rounds: usize,
}

fn settings() -> Result<Settings, Box<dyn Error>> {
    let mut settings = Settings {
        file: "barrier.scratch".into(),
        pages: 256,
        time: Duration::from_secs(2),
        rounds: 3,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words
            .next()
            .ok_or_else(|| format!("{word}: a value is missing"))?;
        match word.as_str() {
            "--file" => settings.file = value.into(),
            "--pages" => settings.pages = value.parse()?,
            "--seconds" => settings.time = Duration::from_secs_f64(value.parse()?),
            "--rounds" => settings.rounds = value.parse()?,
            _ => return Err(format!("{word}: no such option").into()),
        }
    }
    Ok(settings)
}

/// How many pages the file has for each that a commit writes.
const SPREAD: u64 = 16;

fn write(file: &File, page: u64, byte: u8) -> Result<(), pagewell::Error> {
    file.write_at(&[byte; PAGE], page * PAGE as u64).map(drop)
}

fn commit(file: &File, pages: u64, nr: u64, with_barrier: bool) -> Result<(), pagewell::Error> {
    for page in 0..pages {
        write(
            file,
            1 + (page * SPREAD + nr * 7) % (pages * SPREAD),
            nr as u8,
        )?;
    }
    if with_barrier {
        file.barrier()?;
    } else {
        file.sync_data()?;
    }
    write(file, 0, nr as u8)?;
    file.sync_data()
}

fn measure(settings: &Settings, with_barrier: bool) -> Result<(f64, f64, f64), Box<dyn Error>> {
    let cache = Cache::builder().capacity(256 << 20).build()?;
    let file = cache.open_with(&settings.file, &OpenOptions::new().write())?;
    let (stop, nr_commits) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut sum, mut worst, mut nr_puts) = (0.0, 0.0_f64, 0.0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut nr = 0;
            // ORDERING: Relaxed, all of them; the end of the scope orders the count.
            while !stop.load(Ordering::Relaxed) {
                commit(&file, settings.pages, nr, with_barrier).expect("a healthy storage");
                nr += 1;
            }
            nr_commits.store(nr, Ordering::Relaxed);
        });
        let began = Instant::now();
        let mut page = 1_u64;
        while began.elapsed() < settings.time {
            page = (page
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407)
                >> 7)
                % (settings.pages * SPREAD);
            let put = Instant::now();
            write(&file, 1 + page, 7).expect("a healthy storage");
            let took = put.elapsed().as_secs_f64() * 1e3;
            (sum, worst, nr_puts) = (sum + took, worst.max(took), nr_puts + 1.0);
            std::thread::sleep(Duration::from_micros(500));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let rate = nr_commits.load(Ordering::Relaxed) as f64 / settings.time.as_secs_f64();
    Ok((sum / nr_puts, worst, rate))
}

fn main() -> Result<(), Box<dyn Error>> {
    let settings = settings()?;
    std::fs::write(
        &settings.file,
        vec![0; (1 + settings.pages * SPREAD) as usize * PAGE],
    )?;
    std::fs::File::open(&settings.file)?.sync_all()?;
    for round in 0..settings.rounds {
        for (name, with_barrier) in [("two syncs", false), ("barrier", true)] {
            let (mean, worst, rate) = measure(&settings, with_barrier)?;
            println!(
                r#"{{"round":{round},"order":"{name}","put_mean_ms":{mean:.3},"put_worst_ms":{worst:.1},"commits_per_second":{rate:.1}}}"#
            );
        }
    }
    std::fs::remove_file(&settings.file)?;
    Ok(())
}
