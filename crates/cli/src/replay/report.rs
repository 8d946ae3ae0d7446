//! A table, or JSON lines.

use serde::Serialize;

use super::plan::Plan;
use super::settings::{Pace, ReplaySettings};
use super::timed::Outcome;
use crate::failure::Failure;
use crate::output::{self, Format};
use crate::size::Bytes;

/// One line of JSON. The names are stable: programs read them.
#[derive(Serialize)]
struct Record {
    replay: String,
    engine: String,
    file: String,
    requests: u64,
    writes: u64,
    bytes: u64,
    /// Requests past the end of the file, which were wrapped into it.
    wrapped: u64,
    seconds: f64,
    requests_per_second: f64,
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    max_ns: u64,
    /// null where the engine does not know.
    hit_ratio: Option<f64>,
    /// What the engine's own cache may take.
    cache_bytes: u64,
    /// What the operating system has of the file in memory at the end; null if it does not tell.
    system_cache_bytes: Option<u64>,
    /// `cachestat` or `mincore`.
    system_cache_by: Option<&'static str>,
    /// Both together.
    memory_bytes: Option<u64>,
    /// `closed` or `trace`.
    timing: &'static str,
    speed: f64,
}

fn memory(outcome: &Outcome) -> Option<u64> {
    let (system, _) = outcome.system_bytes?;
    system.checked_add(outcome.own_bytes)
}

fn per_second(outcome: &Outcome) -> f64 {
    outcome.nr_requests as f64 / outcome.time.as_secs_f64().max(1e-9)
}

/// Prints what there is to print as soon as an engine is through.
pub(super) fn each(
    outcome: &Outcome,
    plan: &Plan,
    settings: &ReplaySettings,
) -> Result<(), Failure> {
    if settings.format != Format::Json {
        return Ok(());
    }
    let at = |quantile| outcome.latencies.value_at_quantile(quantile);
    output::print_json(&Record {
        replay: settings.trace.display().to_string(),
        engine: outcome.engine.to_string(),
        file: settings.target.path().display().to_string(),
        requests: outcome.nr_requests,
        writes: outcome.nr_writes,
        bytes: outcome.nr_bytes,
        wrapped: plan.nr_wrapped,
        seconds: outcome.time.as_secs_f64(),
        requests_per_second: per_second(outcome),
        p50_ns: at(0.5),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        max_ns: outcome.latencies.max(),
        hit_ratio: outcome.hit_ratio,
        cache_bytes: outcome.own_bytes,
        system_cache_bytes: outcome.system_bytes.map(|(bytes, _)| bytes),
        system_cache_by: outcome.system_bytes.map(|(_, how)| how.name()),
        memory_bytes: memory(outcome),
        timing: match settings.pace {
            Pace::Closed => "closed",
            Pace::OfTrace { .. } => "trace",
        },
        speed: match settings.pace {
            Pace::Closed => 1.0,
            Pace::OfTrace { speed } => speed,
        },
    })
}

/// Prints the table of all engines.
pub(super) fn all(
    outcomes: &[Outcome],
    plan: &Plan,
    settings: &ReplaySettings,
) -> Result<(), Failure> {
    if settings.format != Format::Table {
        return Ok(());
    }
    let mut text = format!(
        "{}: {} requests on {} of {}, {} of them touched\n\n",
        settings.trace.display(),
        plan.actions.len(),
        settings.target.path().display(),
        Bytes(plan.len),
        Bytes(plan.touched),
    );
    text.push_str(&format!(
        "{:<10}{:>12}{:>10}{:>10}{:>10}{:>10}{:>8}{:>12}{:>12}\n",
        "engine", "requests/s", "50 %", "99 %", "99.9 %", "longest", "hits", "cache", "system's"
    ));
    text.push_str(&"─".repeat(94));
    text.push('\n');
    for outcome in outcomes {
        let at = |quantile| time(outcome.latencies.value_at_quantile(quantile));
        text.push_str(&format!(
            "{:<10}{:>12.0}{:>10}{:>10}{:>10}{:>10}{:>8}{:>12}{:>12}\n",
            outcome.engine,
            per_second(outcome),
            at(0.5),
            at(0.99),
            at(0.999),
            time(outcome.latencies.max()),
            outcome
                .hit_ratio
                .map_or("-".to_owned(), |hits| format!("{:.1} %", 100.0 * hits)),
            match outcome.own_bytes {
                0 => "-".to_owned(),
                bytes => Bytes(bytes).to_string(),
            },
            outcome
                .system_bytes
                .map_or("unknown".to_owned(), |(bytes, _)| Bytes(bytes).to_string()),
        ));
    }
    let by = outcomes.iter().find_map(|outcome| outcome.system_bytes);
    text.push_str(
        "\nMemory: the capacity of the engine's own cache, and what the operating system \
        has of the file\n",
    );
    text.push_str(&format!(
        "  in its cache at the end{}. Before each engine the system is asked to drop the file from \
         its cache.\n",
        by.map_or(String::new(), |(_, how)| format!(" (by {})", how.name()))
    ));
    if let Pace::OfTrace { speed } = settings.pace {
        text.push_str(&format!(
            "Requests are made at the times of the trace, {speed} times as fast; latencies count \
             from when a request was due.\n"
        ));
    }
    output::print(&text)
}

/// A time in at most seven characters.
fn time(ns: u64) -> String {
    let ns = ns as f64;
    let (value, unit) = match ns {
        ns if ns < 999.5 => (ns, "ns"),
        ns if ns < 999.5e3 => (ns / 1e3, "µs"),
        ns if ns < 999.5e6 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    match value {
        value if value < 9.995 => format!("{value:.2} {unit}"),
        value if value < 99.95 => format!("{value:.1} {unit}"),
        value => format!("{value:.0} {unit}"),
    }
}
