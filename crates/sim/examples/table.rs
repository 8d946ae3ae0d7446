//! Hit ratios of all policies, on the traces of a folder and on the five workloads made up by rule.
//!
//! ```text
//! cargo run --release -p pagewell-sim --example table -- FOLDER [--policy P,P] [--format json]
//! ```
//!
//! Of each trace five sizes are tried, in even ratios from a thousandth (but at least 64 pages) to a fifth of its pages. Files that end
//! in `.lis` have lines `first-block number-of-blocks ignored request`; others have a block number a line. Either may be compressed,
//! by gzip (`.gz`) or zstd (`.zst`). Lines that begin with no number are marks of the trace's phases, and are passed over.

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};
use pagewell_sim::workload::Workload;
use pagewell_sim::{Policy, hits};

#[derive(Debug, Parser)]
struct Args {
    /// The folder of the traces; without one, only the workloads are run.
    folder: Option<PathBuf>,
    /// Only these.
    #[arg(long = "policy", value_delimiter = ',', default_values_t = Policy::ALL)]
    policies: Vec<Policy>,
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Requests, and the sizes of caches for them.
struct Case {
    name: String,
    requests: Vec<u32>,
    sizes: Vec<usize>,
}

/// How the workloads are asked for: as in the table of clock's figures that this policy is to better.
const NR_REQUESTS: usize = 3_000_000;
const NR_PAGES: u32 = 256 << 10;
const NR_FRAMES: usize = 16_131;
const SEED: u64 = 1;

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    if args.format == Format::Text {
        print!("{:<16}{:>9}", "requests of", "pages");
        for policy in &args.policies {
            print!("{policy:>13}");
        }
        println!();
    }
    for path in traces(args.folder.as_deref())? {
        let case = trace(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        show(&args, &case)?;
    }
    for workload in Workload::ALL {
        let case = Case {
            name: workload.to_string(),
            requests: workload.requests(NR_REQUESTS, NR_PAGES, NR_FRAMES, SEED),
            sizes: vec![NR_FRAMES],
        };
        show(&args, &case)?;
    }
    Ok(())
}

fn show(args: &Args, case: &Case) -> Result<(), Box<dyn Error>> {
    for &pages in &case.sizes {
        if args.format == Format::Text {
            print!("{:<16}{pages:>9}", case.name);
        }
        for &policy in &args.policies {
            let hits = hits(policy, pages, &case.requests, &mut |_| {});
            let ratio = hits as f64 / case.requests.len().max(1) as f64;
            match args.format {
                Format::Text => print!("{:>13.2}", 100.0 * ratio),
                Format::Json => println!(
                    "{}",
                    serde_json::json!({
                        "table": case.name, "policy": policy.name(), "pages": pages,
                        "requests": case.requests.len(), "hit_ratio": ratio,
                    })
                ),
            }
            std::io::stdout().flush()?;
        }
        if args.format == Format::Text {
            println!();
        }
    }
    Ok(())
}

/// The files of the folder, in order of their names; none, and a word about it, if it is not there.
fn traces(folder: Option<&Path>) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let Some(folder) = folder else {
        eprintln!("no folder of traces is given: only the workloads are run");
        return Ok(Vec::new());
    };
    if !folder.is_dir() {
        eprintln!(
            "{} is no folder: only the workloads are run",
            folder.display()
        );
        return Ok(Vec::new());
    }
    let mut paths = Vec::new();
    for entry in folder.read_dir()? {
        let path = entry?.path();
        let name = path.to_string_lossy();
        if [".gz", ".zst", ".lis", ".trace"]
            .iter()
            .any(|end| name.ends_with(end))
        {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn trace(path: &Path) -> Result<Case, Box<dyn Error>> {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let file = File::open(path)?;
    let (plain, bytes): (&str, Box<dyn Read>) = if let Some(plain) = name.strip_suffix(".gz") {
        (plain, Box::new(flate2::read::MultiGzDecoder::new(file)))
    } else if let Some(plain) = name.strip_suffix(".zst") {
        (plain, Box::new(zstd::Decoder::new(file)?))
    } else {
        (&name, Box::new(file))
    };
    let has_counts = plain.ends_with(".lis");
    let mut numbers = HashMap::new();
    let mut requests = Vec::new();
    for (at, line) in BufReader::new(bytes).lines().enumerate() {
        let line = line?;
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next().and_then(|word| word.parse::<u64>().ok()) else {
            continue;
        };
        let nr = match (has_counts, words.next()) {
            (false, _) => 1,
            (true, Some(word)) => word
                .parse()
                .map_err(|error| format!("line {}: {error}", at + 1))?,
            (true, None) => return Err(format!("line {}: no number of blocks", at + 1).into()),
        };
        for block in first..first.saturating_add(nr) {
            let next = numbers.len() as u32;
            requests.push(*numbers.entry(block).or_insert(next));
        }
    }
    let nr_pages = numbers.len() as f64;
    let (least, most) = ((nr_pages / 1000.0).max(64.0), nr_pages / 5.0);
    let size = |step: i32| (least * (most / least).powf(f64::from(step) / 4.0)).round() as usize;
    Ok(Case {
        name: plain.split('.').next().unwrap_or(plain).to_owned(),
        requests,
        sizes: (0..5).map(size).collect(),
    })
}
