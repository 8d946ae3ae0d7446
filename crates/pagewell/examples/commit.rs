//! Commits a second: threads that each write a page and make it durable, through one file of a cache (`ours`) and by the system's own calls
//! (`fdatasync`), on the same file system.
//!
//! ```sh
//! cargo run --release -p pagewell --example commit -- [--file PATH] [--seconds N] [--rounds N] [--direct] [THREADS...]
//! ```
//!
//! Each thread has a page of its own in a file that is there already, so a commit changes no metadata but the times. All measurements of a round are made one after
//! the other; each line of the output is a JSON object. The last lines are medians, with the ratio to one thread and to `fdatasync` of as
//! many threads.

use std::error::Error;
use std::fs::OpenOptions as Options;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pagewell::{Cache, OpenOptions, io::Direct};

const PAGE: usize = 4096;

struct Settings {
    file: PathBuf,
    time: Duration,
    rounds: usize,
    direct: bool,
    threads: Vec<usize>,
}

fn settings() -> Result<Settings, Box<dyn Error>> {
    let mut settings = Settings {
        file: "commit.scratch".into(),
        time: Duration::from_secs(2),
        rounds: 5,
        direct: false,
        threads: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .ok_or_else(|| format!("{word}: a value is missing"))
        };
        match word.as_str() {
            "--file" => settings.file = value()?.into(),
            "--seconds" => settings.time = Duration::from_secs_f64(value()?.parse()?),
            "--rounds" => settings.rounds = value()?.parse()?,
            "--direct" => settings.direct = true,
            threads => settings.threads.push(threads.parse()?),
        }
    }
    if settings.threads.is_empty() {
        settings.threads = vec![1, 64];
    }
    Ok(settings)
}

/// Commits a second of so many threads that each call `commit` with their number and a byte.
fn rate(
    nr_threads: usize,
    time: Duration,
    commit: impl Fn(usize, u8) -> Result<(), Box<dyn Error>> + Sync,
) -> f64 {
    let (begin, stop) = (Barrier::new(nr_threads + 1), AtomicBool::new(false));
    let nr_commits = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..nr_threads {
            let (begin, stop, nr_commits, commit) = (&begin, &stop, &nr_commits, &commit);
            scope.spawn(move || {
                begin.wait();
                let mut nr = 0_u64;
                // ORDERING: Relaxed, all of them; the end of the scope orders the sum.
                while !stop.load(Ordering::Relaxed) {
                    commit(thread, nr as u8).expect("a healthy storage");
                    nr += 1;
                }
                nr_commits.fetch_add(nr, Ordering::Relaxed);
            });
        }
        begin.wait();
        let began = Instant::now();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        began
    });
    nr_commits.load(Ordering::Relaxed) as f64 / time.as_secs_f64()
}

fn ours(settings: &Settings, nr_threads: usize) -> Result<f64, Box<dyn Error>> {
    let cache = Cache::builder().capacity(64 << 20).build()?;
    let direct = if settings.direct {
        Direct::Always
    } else {
        Direct::Never
    };
    let file = cache.open_with(&settings.file, &OpenOptions::new().write().direct(direct))?;
    Ok(rate(nr_threads, settings.time, |thread, byte| {
        file.write_at(&[byte; PAGE], (thread * PAGE) as u64)?;
        file.sync_data()?;
        Ok(())
    }))
}

fn fdatasync(settings: &Settings, nr_threads: usize) -> Result<f64, Box<dyn Error>> {
    let file = Options::new().read(true).write(true).open(&settings.file)?;
    Ok(rate(nr_threads, settings.time, |thread, byte| {
        file.write_all_at(&[byte; PAGE], (thread * PAGE) as u64)?;
        file.sync_data()?;
        Ok(())
    }))
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// A file with room for as many threads as there may be, durable.
fn make(path: &Path, nr_threads: usize) -> std::io::Result<()> {
    std::fs::write(path, vec![0; nr_threads * PAGE])?;
    std::fs::File::open(path)?.sync_all()
}

fn main() -> Result<(), Box<dyn Error>> {
    let settings = settings()?;
    let most = settings.threads.iter().copied().max().unwrap_or(1);
    make(&settings.file, most)?;
    let nr_processors = std::thread::available_parallelism()?;
    println!(
        r#"{{"processor":"{}","processors":{nr_processors},"direct":{}}}"#,
        pagewell_testkit::machine::processor(),
        settings.direct
    );
    type Engine = fn(&Settings, usize) -> Result<f64, Box<dyn Error>>;
    let engines: [(&str, Engine); 2] = [("ours", ours), ("fdatasync", fdatasync)];
    let mut rates = vec![vec![Vec::new(); engines.len()]; settings.threads.len()];
    for round in 0..settings.rounds {
        for (at, threads) in settings.threads.iter().enumerate() {
            for (nr, (name, engine)) in engines.iter().enumerate() {
                let rate = engine(&settings, *threads)?;
                println!(
                    r#"{{"round":{round},"engine":"{name}","threads":{threads},"commits_per_second":{rate:.0}}}"#
                );
                rates[at][nr].push(rate);
            }
        }
    }
    std::fs::remove_file(&settings.file)?;
    let medians: Vec<Vec<f64>> = rates
        .into_iter()
        .map(|engines| engines.into_iter().map(median).collect())
        .collect();
    for (threads, rates) in settings.threads.iter().zip(&medians) {
        for ((name, _), (rate, first)) in engines.iter().zip(rates.iter().zip(&medians[0])) {
            println!(
                r#"{{"median":true,"engine":"{name}","threads":{threads},"commits_per_second":{rate:.0},"to_first":{:.2},"to_fdatasync":{:.2}}}"#,
                rate / first,
                rate / rates[1],
            );
        }
    }
    Ok(())
}
