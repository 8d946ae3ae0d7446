//! Lines and tables of what was measured.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde::Serialize;

use crate::engines::Engine;
use crate::queries;
use crate::run::{Case, Record};

/// The page of the cache.
const PAGE: u64 = 64 << 10;

/// All records of a run.
pub(crate) struct Report {
    file_bytes: u64,
    latency_ms: u64,
    scale: f64,
    /// In the order of the rounds.
    records: BTreeMap<(Engine, Case, u8), Vec<Record>>,
    answers: BTreeMap<u8, (usize, u64)>,
}

/// A line: what an engine took in a case, for a query or for all.
#[derive(Serialize)]
struct Line {
    bench: &'static str,
    engine: Engine,
    case: &'static str,
    block: u64,
    file_bytes: u64,
    threads: usize,
    unit: &'static str,
    value: f64,
    min: f64,
    max: f64,
    rounds: usize,
    /// A number, or `all`.
    query: String,
    /// Of the time, or of the bytes; median of the rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    reading_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<f64>,
    latency_ms: u64,
    scale: f64,
    processor: Option<String>,
}

/// A figure of several rounds.
#[derive(Clone, Copy, Debug)]
struct Figure {
    median: f64,
    min: f64,
    max: f64,
}

impl Figure {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let nr = values.len();
        Self {
            median: (values[(nr - 1) / 2] + values[nr / 2]) / 2.0,
            min: values[0],
            max: values[nr - 1],
        }
    }
}

impl Report {
    pub(crate) fn new(file_bytes: u64, latency_ms: u64, scale: f64) -> Self {
        Self {
            file_bytes,
            latency_ms,
            scale,
            records: BTreeMap::new(),
            answers: BTreeMap::new(),
        }
    }

    /// Takes a record, if its answer is that of all others.
    pub(crate) fn add(&mut self, engine: Engine, record: Record) -> Result<()> {
        let answer = (record.nr_rows, record.digest);
        let before = *self.answers.entry(record.query).or_insert(answer);
        ensure!(
            before == answer,
            "query {} by {engine} ({}) has {} rows that are not the {} of before",
            record.query,
            record.case.name(),
            answer.0,
            before.0
        );
        let key = (engine, record.case, record.query);
        self.records.entry(key).or_default().push(record);
        Ok(())
    }

    /// Whether each query has as many rows as TPC-H says for scale 1.
    pub(crate) fn check_answers(&self) -> Result<()> {
        for (&query, &(nr_rows, _)) in &self.answers {
            let expected = queries::nr_rows(query)?;
            ensure!(
                nr_rows == expected,
                "query {query} has {nr_rows} rows instead of {expected}"
            );
        }
        Ok(())
    }

    /// Engines and cases that there are records of.
    fn cells(&self) -> Vec<(Engine, Case)> {
        let mut cells: Vec<_> = self.records.keys().map(|key| (key.0, key.1)).collect();
        cells.dedup();
        cells
    }

    /// By round: what `of` says, summed over the queries (or of one).
    fn figure(
        &self,
        cell: (Engine, Case),
        query: Option<u8>,
        of: impl Fn(&Record) -> f64,
    ) -> Figure {
        let mut rounds: Vec<f64> = Vec::new();
        for ((engine, case, nr), records) in &self.records {
            if (*engine, *case) != cell || query.is_some_and(|query| query != *nr) {
                continue;
            }
            rounds.resize(records.len(), 0.0);
            for (sum, record) in rounds.iter_mut().zip(records) {
                *sum += of(record);
            }
        }
        Figure::of(rounds)
    }

    /// One JSON object a line: for each cell its queries, then all of them.
    pub(crate) fn print_lines(&self) {
        let processor = processor();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        for cell in self.cells() {
            let queries = self.answers.keys().map(|query| Some(*query)).chain([None]);
            for query in queries {
                let seconds = self.figure(cell, query, |record| record.seconds);
                let reading = self.figure(cell, query, |record| record.reading_seconds);
                let bytes = self.figure(cell, query, |record| record.bytes as f64);
                let requests = self.figure(cell, query, |record| record.nr_requests as f64);
                let line = |unit, figure: Figure| Line {
                    bench: "object-store",
                    engine: cell.0,
                    case: cell.1.name(),
                    block: PAGE,
                    file_bytes: self.file_bytes,
                    threads,
                    unit,
                    value: figure.median,
                    min: figure.min,
                    max: figure.max,
                    rounds: self.records.values().next().map_or(0, Vec::len),
                    query: query.map_or_else(|| "all".into(), |nr| nr.to_string()),
                    reading_s: (unit == "s").then_some(reading.median),
                    requests: (unit == "bytes").then_some(requests.median),
                    latency_ms: self.latency_ms,
                    scale: self.scale,
                    processor: processor.clone(),
                };
                for line in [line("s", seconds), line("bytes", bytes)] {
                    println!(
                        "{}",
                        serde_json::to_string(&line).expect("a line has no other keys than text")
                    );
                }
            }
        }
    }

    /// A table of all queries together, and one of each.
    pub(crate) fn print_tables(&self) {
        println!(
            "| case | engine | time | min to max | waiting for reads | from the store | requests |"
        );
        println!("|---|---|---|---|---|---|---|");
        let mut cells = self.cells();
        cells.sort_by_key(|(engine, case)| (*case, *engine));
        for &cell in &cells {
            let seconds = self.figure(cell, None, |record| record.seconds);
            let reading = self.figure(cell, None, |record| record.reading_seconds);
            let bytes = self.figure(cell, None, |record| record.bytes as f64);
            let requests = self.figure(cell, None, |record| record.nr_requests as f64);
            println!(
                "| {} | `{}` | {:.2} s | {:.2} to {:.2} | {:.3} s | {:.1} MB | {:.0} |",
                cell.1.name(),
                cell.0,
                seconds.median,
                seconds.min,
                seconds.max,
                reading.median,
                bytes.median / 1e6,
                requests.median
            );
        }
        println!();
        let names: Vec<_> = cells
            .iter()
            .map(|cell| format!("{} {}", cell.1.name(), cell.0))
            .collect();
        println!("| query | {} |", names.join(" | "));
        println!("|---|{}", "---|".repeat(names.len()));
        for query in self.answers.keys() {
            let times: Vec<_> = cells
                .iter()
                .map(|&cell| {
                    let seconds = self
                        .figure(cell, Some(*query), |record| record.seconds)
                        .median;
                    let bytes = self
                        .figure(cell, Some(*query), |record| record.bytes as f64)
                        .median;
                    format!("{seconds:.3} s, {:.1} MB", bytes / 1e6)
                })
                .collect();
            println!("| {query} | {} |", times.join(" | "));
        }
    }
}

/// What the processor calls itself.
fn processor() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"))?;
    Some(line.split_once(": ")?.1.to_owned())
}
