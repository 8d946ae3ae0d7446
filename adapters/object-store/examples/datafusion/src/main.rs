//! TPC-H by DataFusion over an S3 server that is far away: with a page cache, without, and over local files.
//!
//! One command makes the tables, starts the server, puts a distance in front of it, runs the queries and prints what they took:
//!
//! ```sh
//! cargo run --release                        # scale 1, 30 ms, three rounds
//! cargo run --release -- --scale 0.1 --rounds 1
//! cargo run --release -- --format json
//! cargo run --release --features peers       # beside other caches
//! ```
//!
//! # Rooms
//!
//! | room | owns | calls |
//! |---|---|---|
//! | `main` | arguments; the order of things | all below |
//! | `report` | lines and tables of what was measured | `run` |
//! | `run` | one process with one engine: queries, and what each took | `engines`, `queries`, `distance` |
//! | `engines` | a session over local files, the bare store, or a store behind a cache | `server`, `peers`, `tables`, `reads` |
//! | `queries` | the 22 queries with the values that the benchmark validates with | |
//! | `tables` | the eight tables as Parquet files | |
//! | `peers` | the store behind caches of others (feature `peers`) | |
//! | `server` | the S3 server | |
//! | `distance` | a relay that delays each request, and counts | |
//! | `reads` | a store that counts how long its readers wait | |

mod distance;
mod engines;
#[cfg(feature = "peers")]
mod peers;
mod queries;
mod reads;
mod report;
mod run;
mod server;
mod tables;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Parser, Subcommand, ValueEnum};

use engines::Engine;
use report::Report;
use run::{Plan, Record};

/// TPC-H by DataFusion over an S3 server that is far away.
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    step: Option<Step>,
    /// The size of the tables: 1 is a gigabyte before compression.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Milliseconds that each request takes longer, as it would to a distant store.
    #[arg(long, default_value_t = 30)]
    latency: u64,
    /// How often all is run; figures are medians.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Mebibytes of memory of the cache.
    #[arg(long, default_value_t = 1024)]
    capacity: u64,
    /// The engines, with commas between.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Engine::all())]
    engines: Vec<Engine>,
    /// The numbers of the queries, with commas between. All by default.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=22))]
    queries: Vec<u8>,
    /// Where tables, server and second tier are kept.
    #[arg(long, default_value = "data")]
    folder: PathBuf,
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum, PartialEq, Eq)]
enum Format {
    Table,
    /// One object a line.
    Json,
}

#[derive(Debug, Subcommand)]
enum Step {
    /// One engine in a process of its own, as the plan says. (The command calls itself.)
    #[command(hide = true)]
    Run { plan: String },
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(Step::Run { plan }) = &args.step {
        return run::run(&serde_json::from_str(plan)?);
    }
    ensure!(
        args.scale > 0.0 && args.scale <= 100.0,
        "the scale is above 0, and 100 at the most"
    );
    ensure!(args.rounds > 0, "there is at least one round");
    std::fs::create_dir_all(&args.folder)
        .with_context(|| format!("cannot make {}", args.folder.display()))?;
    let folder = args.folder.canonicalize()?;
    let tables = folder.join(format!("tables-{}", args.scale));
    let file_bytes = tables::make(&tables, args.scale)?;
    let server = server::start(&folder)?;
    server.load(&tables)?;
    let queries = if args.queries.is_empty() {
        (1..=22).collect()
    } else {
        args.queries.clone()
    };
    let mut report = Report::new(file_bytes, args.latency, args.scale);
    for round in 0..args.rounds {
        for nr in 0..args.engines.len() {
            // In another order each round.
            let engine = args.engines[(nr + round) % args.engines.len()];
            let disk = tempfile::tempdir_in(&folder)?;
            for part in run::Part::ALL {
                eprintln!("round {} of {}: {engine}, {part}", round + 1, args.rounds);
                let plan = Plan {
                    engine,
                    part,
                    server: server.address(),
                    latency_ms: args.latency,
                    tables: tables.clone(),
                    scale: args.scale,
                    capacity: args.capacity << 20,
                    disk: disk.path().to_owned(),
                    queries: queries.clone(),
                };
                for record in run_apart(&plan)? {
                    report.add(engine, record)?;
                }
            }
        }
    }
    if args.scale == 1.0 {
        report.check_answers()?;
    }
    match args.format {
        Format::Table => report.print_tables(),
        Format::Json => report.print_lines(),
    }
    Ok(())
}

/// Runs the plan in a process of its own, so that nothing is left in memory of the one before.
fn run_apart(plan: &Plan) -> Result<Vec<Record>> {
    let me = std::env::current_exe()?;
    let output = Command::new(me)
        .arg("run")
        .arg(serde_json::to_string(plan)?)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        bail!(
            "the process of {} ended with {}",
            plan.engine,
            output.status
        );
    }
    let lines = String::from_utf8(output.stdout)?;
    lines
        .lines()
        .map(|line| Ok(serde_json::from_str(line)?))
        .collect()
}

/// The names of what is in a folder, in their order.
fn names_in(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let name = name.to_str().context("a name that is no text")?;
        names.push(name.to_owned());
    }
    names.sort_unstable();
    Ok(names)
}
