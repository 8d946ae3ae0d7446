//! The JSON format: one object a line.
//!
//! The names are stable: programs read them.

use std::sync::OnceLock;

use serde::Serialize;

use super::measured::Measured;
use crate::bench::cases::{engines, ratios};
use crate::bench::crew::Bound;
use crate::bench::plan::DEFAULT_PAGE_SIZE;
use crate::copies;
use crate::failure::Failure;
use crate::machine;
use crate::output;

/// How fast one engine was, or what else the case measures.
#[derive(Serialize)]
struct Figure<'m> {
    bench: &'static str,
    engine: &'static str,
    /// Of `migrate` with the number of forks.
    case: String,
    /// Bytes a read or write, or of the range, block or memory; 0 for counts.
    block: u64,
    /// 0 where there is no file. Of `hit-ratio`, bytes of the cache.
    file_bytes: u64,
    /// Workers: threads, or processes in one-count-processes.
    threads: u32,
    unit: &'static str,
    /// The median of the rounds.
    value: f64,
    min: f64,
    max: f64,
    rounds: usize,
    /// Processor time of the whole process an operation, in nanoseconds; the median of the rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ns: Option<f64>,
    /// What each engine's memory was bounded to, that of the operating system for its files included.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    /// Why it could not be bounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_unbounded: Option<&'m str>,
    /// Width of Pagewell's copies.
    copy: &'static str,
    /// What the processor calls itself.
    processor: Option<&'static str>,
}

/// How many times faster one engine is than another.
#[derive(Serialize)]
struct Comparison {
    bench: &'static str,
    /// "A/B".
    ratio: String,
    /// Of `migrate` with the number of forks.
    case: String,
    block: u64,
    file_bytes: u64,
    threads: u32,
    /// The median of the rounds' ratios.
    value: f64,
    low: f64,
    high: f64,
    /// How many times less processor time A takes; the median of the rounds' ratios.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ratio: Option<f64>,
    copy: &'static str,
    processor: Option<&'static str>,
}

fn processor() -> Option<&'static str> {
    static PROCESSOR: OnceLock<Option<String>> = OnceLock::new();
    PROCESSOR.get_or_init(machine::cpu_model).as_deref()
}

/// Prints the hit ratio of a policy in a cache of `cache_bytes`, as a part of the requests of a made-up trace.
pub(in crate::bench) fn print_hit_ratio(
    policy: &'static str,
    trace: &str,
    cache_bytes: u64,
    value: f64,
) -> Result<(), Failure> {
    output::print_json(&Figure {
        bench: "hit-ratio",
        engine: policy,
        case: trace.to_owned(),
        block: DEFAULT_PAGE_SIZE as u64,
        file_bytes: cache_bytes,
        threads: 1,
        unit: "share",
        value,
        min: value,
        max: value,
        rounds: 1,
        cpu_ns: None,
        memory_bytes: None,
        memory_unbounded: None,
        copy: copies::width(),
        processor: processor(),
    })
}

/// Prints all figures of a cell, then all its comparisons.
pub(in crate::bench) fn print(measured: &Measured) -> Result<(), Failure> {
    let cell = measured.cell;
    let (memory_bytes, memory_unbounded) = match &measured.memory {
        Some(Bound::Bytes(bytes)) => (Some(*bytes), None),
        Some(Bound::CouldNot(why)) => (None, Some(why.as_str())),
        None => (None, None),
    };
    for &engine in engines(cell.case) {
        let Some(figure) = measured.figure(engine) else {
            continue;
        };
        output::print_json(&Figure {
            bench: cell.case.bench().name(),
            engine,
            case: cell.case_name(),
            block: cell.block,
            file_bytes: cell.file_bytes,
            threads: cell.threads,
            unit: cell.case.unit(),
            value: figure.median,
            min: figure.min,
            max: figure.max,
            rounds: measured.nr_rounds(),
            cpu_ns: measured.cpu_ns(engine).map(|cpu_ns| cpu_ns.median),
            memory_bytes,
            memory_unbounded,
            copy: copies::width(),
            processor: processor(),
        })?;
    }
    for (a, b) in ratios(cell.case) {
        let Some(ratio) = measured.ratio(a, b) else {
            continue;
        };
        output::print_json(&Comparison {
            bench: cell.case.bench().name(),
            ratio: format!("{a}/{b}"),
            case: cell.case_name(),
            block: cell.block,
            file_bytes: cell.file_bytes,
            threads: cell.threads,
            value: ratio.median,
            low: ratio.min,
            high: ratio.max,
            cpu_ratio: measured.cpu_ratio(a, b).map(|ratio| ratio.median),
            copy: copies::width(),
            processor: processor(),
        })?;
    }
    Ok(())
}
