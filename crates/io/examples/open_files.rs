//! Time to open and close a file, which is not open: nanoseconds, the least of some rounds.
//!
//! `cargo run --release -p pagewell-io --example open_files [ROUNDS]`

use std::time::Instant;

use pagewell_io::{FileBackend, FileOptions};

const NR_FILES: usize = 1000;

fn main() -> std::io::Result<()> {
    let rounds = std::env::args().nth(1).map_or(20, |rounds| {
        rounds.parse().expect("ROUNDS must be a number")
    });
    let dir = pagewell_testkit::scratch::dir();
    let paths: Vec<_> = (0..NR_FILES)
        .map(|nr| dir.path().join(nr.to_string()))
        .collect();
    for path in &paths {
        std::fs::write(path, "bytes")?;
    }
    let mut least = [f64::INFINITY; 2];
    for _ in 0..rounds {
        for (is_write, least) in [false, true].into_iter().zip(&mut least) {
            let start = Instant::now();
            for path in &paths {
                match is_write {
                    true => FileBackend::open_writable(path, &FileOptions::new())?,
                    false => FileBackend::open(path)?,
                };
            }
            *least = least.min(start.elapsed().as_nanos() as f64 / NR_FILES as f64);
        }
    }
    let [read, write] = least;
    println!("{{\"read_ns\":{read:.0},\"write_ns\":{write:.0}}}");
    Ok(())
}
