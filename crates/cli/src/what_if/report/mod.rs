//! Tables, JSON lines, a page of HTML.

mod chart;
pub(super) mod html;

use pagewell_sim::Policy;
use serde::Serialize;

use super::answers::{Answers, misses};
use super::settings::WhatIfSettings;
use super::sweep::{Curve, Point};
use super::workload::Workload;
use crate::size::Bytes;

/// All that there is to print.
pub(super) struct Results<'r> {
    pub(super) settings: &'r WhatIfSettings,
    pub(super) workload: &'r Workload,
    pub(super) curves: &'r [Curve],
    pub(super) answers: &'r Answers,
}

/// One line of JSON. The names are stable: programs read them.
#[derive(Serialize)]
pub(super) struct Record {
    what_if: String,
    policy: String,
    pages: u64,
    /// Page requests of the trace; those that are not in the sample included.
    requests: u64,
    hit_ratio: f64,
    misses: u64,
    page_size: u64,
    /// The part of the pages that was simulated: 1 for all.
    sample: f64,
    /// Two standard errors of the hit ratio; null if it is exact, or if the sample is too small to tell.
    error: Option<f64>,
}

pub(super) fn records(results: &Results<'_>) -> Vec<Record> {
    let workload = results.workload;
    let record = |policy: Policy, point: &Point| Record {
        what_if: results.settings.trace.display().to_string(),
        policy: policy.to_string(),
        pages: point.pages,
        requests: workload.nr_page_requests,
        hit_ratio: point.hit_ratio,
        misses: misses(workload, point),
        page_size: workload.page_size,
        sample: workload.sample.rate(),
        error: point.error,
    };
    let curves = results.curves.iter();
    curves
        .flat_map(|curve| curve.points.iter().map(move |point| (curve.policy, point)))
        .map(|(policy, point)| record(policy, point))
        .collect()
}

/// Columns that a line may have.
const COLUMNS: usize = 100;
/// Columns of the bar.
const BAR: usize = 14;

/// The table, and the words under it.
pub(super) fn text(results: &Results<'_>) -> String {
    let curves = results.curves;
    let mut text = format!("{}\n\n", heading(results));
    let widths: Vec<usize> = curves
        .iter()
        .map(|curve| curve.policy.to_string().chars().count().max(5) + 1)
        .collect();
    text.push_str(&format!("{:>9}{:>10}", "pages", "memory"));
    for (curve, width) in curves.iter().zip(&widths) {
        let name = curve.policy.to_string();
        text.push_str(&format!("{name:>width$}"));
    }
    text.push('\n');
    text.push_str(&"─".repeat(19 + widths.iter().sum::<usize>()));
    text.push('\n');
    let first = curves.first().map_or(&[][..], |curve| &curve.points);
    for (row, point) in first.iter().enumerate() {
        let bytes = Bytes(point.pages.saturating_mul(results.workload.page_size));
        text.push_str(&format!("{:>9}{:>10}", point.pages, bytes));
        for (curve, width) in curves.iter().zip(&widths) {
            let hits = curve
                .points
                .get(row)
                .map_or(0.0, |point| 100.0 * point.hit_ratio);
            text.push_str(&format!("{hits:>width$.1}"));
        }
        text.push_str(&format!("  {}\n", bar(point.hit_ratio)));
    }
    if let Some(curve) = curves.first() {
        text.push_str(&wrap(&format!(
            "Hits in per cent of the page requests; the bar is that of {}.",
            curve.policy
        )));
    }
    text.push('\n');
    for sentence in &results.answers.sentences {
        text.push_str(&wrap(sentence));
    }
    text
}

/// What was read.
fn heading(results: &Results<'_>) -> String {
    let report = &results.workload.report;
    let packed = report
        .packed
        .map_or(String::new(), |packed| format!(", {packed}"));
    format!(
        "{} ({}{packed})",
        results.settings.trace.display(),
        report.format.name()
    )
}

/// A bar of eighths of a character.
fn bar(part: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (part.clamp(0.0, 1.0) * (BAR * 8) as f64).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    bar.push_str(EIGHTHS[eighths % 8]);
    bar
}

/// A sentence in lines of at most [`COLUMNS`], with a mark before the first.
fn wrap(sentence: &str) -> String {
    let (mut text, mut columns) = (String::new(), 0);
    for word in sentence.split(' ') {
        let width = word.chars().count();
        if columns > 0 && columns + 1 + width > COLUMNS {
            text.push_str("\n  ");
            columns = 2;
        } else if columns > 0 {
            text.push(' ');
            columns += 1;
        }
        text.push_str(word);
        columns += width;
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_grow_by_eighths() {
        assert_eq!(bar(0.0), "");
        assert_eq!(bar(1.0), "█".repeat(BAR));
        assert_eq!(bar(2.0), "█".repeat(BAR));
        assert_eq!(bar(1.0 / (8 * BAR) as f64), "▏");
        assert_eq!(bar(0.5), "█".repeat(BAR / 2));
    }

    #[test]
    fn sentences_are_broken_at_spaces() {
        let long = wrap(&"word ".repeat(60));
        assert!(long.lines().all(|line| line.chars().count() <= COLUMNS));
        assert_eq!(long.split_whitespace().count(), 60);
        assert_eq!(wrap("short"), "short\n");
    }
}
