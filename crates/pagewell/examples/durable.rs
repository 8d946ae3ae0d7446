//! Megabytes a second of writes that end durable: through a file of a cache that is transferred directly (`ours`), beside `fio` on the same file.
//!
//! ```sh
//! cargo run --release -p pagewell --example durable -- [--file PATH] [--mib N] [--cache N] [--rounds N] [sequential|random...]
//! ```
//!
//! `sequential` writes the file from its begin to its end, 1 MiB a call; `random` writes as many pages of 4 KiB in a shuffled order. Both end with `sync_data`, which
//! counts. `ours` begins with an empty cache, whose memory the system has yet to give; `ours-again` is the same once more, when the pages are cached (as far as they fit). fio does
//! the same with `O_DIRECT`, io_uring and 32 requests at once. The file is there before, written once. Each line of the output is a JSON
//! object, with the processor seconds that this process has used; the last ones are medians.

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use pagewell::{Cache, OpenOptions, io::Direct};

const PAGE: usize = 4096;
const CHUNK: usize = 1 << 20;

struct Settings {
    file: PathBuf,
    mib: usize,
    cache_mib: u64,
    rounds: usize,
    patterns: Vec<String>,
}

fn settings() -> Result<Settings, Box<dyn Error>> {
    let mut settings = Settings {
        file: "durable.scratch".into(),
        mib: 256,
        cache_mib: 128,
        rounds: 3,
        patterns: Vec::new(),
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
            "--mib" => settings.mib = value()?.parse()?,
            "--cache" => settings.cache_mib = value()?.parse()?,
            "--rounds" => settings.rounds = value()?.parse()?,
            "sequential" | "random" => settings.patterns.push(word),
            _ => return Err(format!("{word}: no such option").into()),
        }
    }
    if settings.patterns.is_empty() {
        settings.patterns = vec!["sequential".into(), "random".into()];
    }
    Ok(settings)
}

/// The numbers below `nr` in an order that looks random: the same in each run.
fn shuffled(nr: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..nr).collect();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for last in (1..nr).rev() {
        // xorshift64 (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        numbers.swap(last, (state % (last as u64 + 1)) as usize);
    }
    numbers
}

/// Bytes a second, and processor seconds.
type Figure = (f64, f64);

/// With an empty cache, and again.
fn ours(settings: &Settings, pattern: &str) -> Result<[Figure; 2], Box<dyn Error>> {
    let cache = Cache::builder()
        .capacity(settings.cache_mib << 20)
        .build()?;
    let options = OpenOptions::new().write().direct(Direct::Always);
    let file = cache.open_with(&settings.file, &options)?;
    let bytes = settings.mib << 20;
    let (len, order): (usize, Vec<usize>) = match pattern {
        "sequential" => (CHUNK, (0..bytes / CHUNK).collect()),
        _ => (PAGE, shuffled(bytes / PAGE)),
    };
    let buf = vec![7; len];
    let pass = || -> Result<Figure, Box<dyn Error>> {
        let (began, used) = (Instant::now(), processor_seconds());
        for nr in &order {
            file.write_at(&buf, (nr * len) as u64)?;
        }
        file.sync_data()?;
        let rate = bytes as f64 / began.elapsed().as_secs_f64();
        Ok((rate, processor_seconds() - used))
    };
    Ok([pass()?, pass()?])
}

/// What this process has used, in steps of a hundredth.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name, which may have anything in it, the 12th and the 13th: ticks as a user, and in the system.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0
}

/// Bytes a second, by fio's own clock.
fn fio(settings: &Settings, pattern: &str) -> Result<f64, Box<dyn Error>> {
    let (rw, bs) = match pattern {
        "sequential" => ("write", "1M"),
        _ => ("randwrite", "4k"),
    };
    let output = Command::new("fio")
        .args([
            "--name=durable",
            "--ioengine=io_uring",
            "--iodepth=32",
            "--direct=1",
        ])
        .args(["--end_fsync=1", "--overwrite=1", "--output-format=json"])
        .arg(format!("--filename={}", settings.file.display()))
        .arg(format!("--size={}M", settings.mib))
        .args([format!("--rw={rw}"), format!("--bs={bs}")])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Of the job's `write`, which comes before those of groups of jobs.
    let of_write = text
        .split("\"write\" :")
        .nth(1)
        .ok_or("fio says nothing of writes")?;
    let rate = of_write
        .split("\"bw_bytes\" :")
        .nth(1)
        .ok_or("fio says no rate")?;
    let number: String = rate
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    Ok(number.parse()?)
}

fn make(path: &Path, mib: usize) -> std::io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    for _ in 0..mib {
        file.write_all(&[1; CHUNK])?;
    }
    file.sync_all()
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let settings = settings()?;
    make(&settings.file, settings.mib)?;
    println!(
        r#"{{"processor":"{}","mib":{}}}"#,
        pagewell_testkit::machine::processor(),
        settings.mib
    );
    let print = |round, pattern: &str, engine, (rate, used): Figure| {
        println!(
            r#"{{"round":{round},"pattern":"{pattern}","engine":"{engine}","mib_per_second":{:.1},"processor_seconds":{used:.2}}}"#,
            rate / 1048576.0
        );
        rate
    };
    for pattern in &settings.patterns {
        let mut rates = [(); 3].map(|()| Vec::new());
        for round in 0..settings.rounds {
            let [first, again] = ours(&settings, pattern)?;
            rates[0].push(print(round, pattern, "ours", first));
            rates[1].push(print(round, pattern, "ours-again", again));
            rates[2].push(print(
                round,
                pattern,
                "fio",
                (fio(&settings, pattern)?, 0.0),
            ));
        }
        let [ours, again, fio] = rates.map(|rates| median(rates) / 1048576.0);
        println!(
            r#"{{"median":true,"pattern":"{pattern}","ours":{ours:.1},"again":{again:.1},"fio":{fio:.1},"to_fio":{:.2},"again_to_fio":{:.2}}}"#,
            ours / fio,
            again / fio
        );
    }
    std::fs::remove_file(&settings.file)?;
    Ok(())
}
