//! What the curves say, in words.

use pagewell_sim::Policy;

use super::settings::WhatIfSettings;
use super::sweep::{self, Curve, Point, at_once};
use super::workload::Workload;
use crate::progress::Progress;
use crate::size::Bytes;

/// Sentences, each of which stands by itself.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) sentences: Vec<String>,
}

/// How much of what is reachable is asked for.
const GOAL: f64 = 0.95;
/// The policies whose users would gain: what programs have now.
const COMPARED: [Policy; 2] = [Policy::Clock, Policy::Lru];

impl Answers {
    pub(super) fn none() -> Answers {
        Answers {
            sentences: Vec::new(),
        }
    }

    pub(super) fn find(
        workload: &Workload,
        curves: &[Curve],
        settings: &WhatIfSettings,
        progress: &Progress,
    ) -> Answers {
        let mut sentences = vec![touched(workload)];
        sentences.extend(of_sample(workload, curves));
        let ours = curves
            .iter()
            .find(|curve| curve.policy == Policy::Pagewell)
            .or(curves.first());
        let Some(ours) = ours else {
            return Answers { sentences };
        };
        let reachable = workload.reachable();
        if reachable <= 0.0 {
            sentences.push("No page is requested twice: no cache would hit.".to_owned());
            return Answers { sentences };
        }
        progress.say("looking for the size that is enough".to_owned());
        let enough = enough(workload, ours);
        sentences.push(format!(
            "A cache of {} ({} pages, {:.1} % of what is touched) reaches 95 % of what is \
             reachable with {}: {:.1} of {:.1} % hits.",
            Bytes(enough.pages.saturating_mul(workload.page_size)),
            enough.pages,
            100.0 * enough.pages as f64 / workload.nr_touched() as f64,
            ours.policy,
            100.0 * enough.hit_ratio,
            100.0 * reachable,
        ));
        let others = COMPARED.into_iter().filter(|&policy| policy != ours.policy);
        for other in others.filter_map(|policy| curves.iter().find(|curve| curve.policy == policy))
        {
            sentences.push(worth(ours, other, workload));
        }
        sentences.extend(cost(ours, curves, enough, workload, settings));
        Answers { sentences }
    }
}

fn touched(workload: &Workload) -> String {
    let report = &workload.report;
    let mut text = format!(
        "{} page requests ({} {}s of the trace, {:.1} % writes) of {}{} pages of {}: {}",
        workload.nr_page_requests,
        report.nr_requests,
        if report.format.has_blocks() {
            "block request"
        } else {
            "request"
        },
        100.0 * report.nr_writes as f64 / report.nr_requests as f64,
        if workload.sample.is_all() {
            ""
        } else {
            "about "
        },
        workload.nr_touched(),
        Bytes(workload.page_size),
        Bytes(workload.nr_touched().saturating_mul(workload.page_size)),
    );
    if report.nr_files > 1 {
        text.push_str(&format!(" in {} files", report.nr_files));
    }
    text.push('.');
    if report.format.has_blocks() {
        text.push_str(" A block or object of this format counts as a page.");
    }
    text
}

/// How far a sample can be trusted.
fn of_sample(workload: &Workload, curves: &[Curve]) -> Option<String> {
    if workload.sample.is_all() {
        return None;
    }
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let errors: Vec<f64> = points().filter_map(|point| point.error).collect();
    let nr_untold = points().count() - errors.len();
    let mut text = format!(
        "Estimated from {} of the pages (a sample of {:.3} %, by a hash of the page). ",
        workload.nr_sampled,
        100.0 * workload.sample.rate(),
    );
    match errors.iter().copied().reduce(f64::max) {
        None => text.push_str("The sample is too small to tell the error"),
        Some(most) => text.push_str(&format!(
            "Expected error: {:.2} points in the mean, {:.2} at most, of what a simulation of \
             all pages would find: two standard errors, from the spread of four quarters \
             of the sample",
            100.0 * errors.iter().sum::<f64>() / errors.len() as f64,
            100.0 * most
        )),
    }
    if nr_untold > 0 && !errors.is_empty() {
        text.push_str(&format!(
            "; for {nr_untold} of the smallest caches the quarters are too small to tell it"
        ));
    }
    text.push('.');
    Some(text)
}

/// The least cache that reaches the goal, to within 2 %: between two sizes that were simulated, of which one does, all processors try
/// sizes at once.
fn enough(workload: &Workload, ours: &Curve) -> Point {
    let goal = GOAL * workload.reachable();
    let reaches = |point: &&Point| point.hit_ratio >= goal;
    let known = ours.points.iter().find(reaches).copied();
    let mut most = known.unwrap_or_else(|| {
        // Of a sample, a cache for the last page may still miss.
        let all = workload.nr_touched().max(1);
        let tried = at_once(workload, ours.policy, &[all, all.saturating_mul(2)]);
        match tried.iter().find(reaches) {
            Some(point) => *point,
            None => tried[1],
        }
    });
    let below = ours.points.iter().rfind(|point| point.pages < most.pages);
    let mut least = below.map_or(0, |point| point.pages);
    let nr_at_once = sweep::nr_workers() as u64;
    while most.pages - least > 1 + most.pages / 50 {
        let mut sizes: Vec<u64> = (1..=nr_at_once)
            .map(|nr| match least {
                // By factors as long as nothing is known of the small ones.
                0 => most.pages >> (2 * nr).min(63),
                least => {
                    let part = nr as f64 / (nr_at_once + 1) as f64;
                    least + ((most.pages - least) as f64 * part) as u64
                }
            })
            .filter(|pages| (least + 1..most.pages).contains(pages))
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.is_empty() {
            break;
        }
        let tried = at_once(workload, ours.policy, &sizes);
        match tried.iter().position(|point| point.hit_ratio >= goal) {
            Some(at) => {
                most = tried[at];
                least = at.checked_sub(1).map_or(least, |at| sizes[at]);
            }
            None => least = sizes[sizes.len() - 1],
        }
    }
    most
}

/// What a policy is worth beside another one.
fn worth(ours: &Curve, other: &Curve, workload: &Workload) -> String {
    let gains: Vec<(Point, f64)> = ours
        .points
        .iter()
        .zip(&other.points)
        .map(|(ours, other)| (*ours, 100.0 * (ours.hit_ratio - other.hit_ratio)))
        .collect();
    let mean = gains.iter().map(|(_, gain)| gain).sum::<f64>() / gains.len() as f64;
    let mut text = format!(
        "{}'s hit ratio is {} {}'s in the mean of these sizes",
        ours.policy,
        points(mean),
        other.policy
    );
    let largest = gains.iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
    if let Some((at, gain)) = largest
        && *gain >= 0.05
    {
        text.push_str(&format!(
            ", and {} at {}",
            points(*gain)
                .trim_end_matches(" than")
                .replace(" above", " above it"),
            Bytes(at.pages.saturating_mul(workload.page_size)),
        ));
        if let Some(pages) = size_for(other, at.hit_ratio)
            && pages > at.pages
        {
            text.push_str(&format!(
                ", where {} needs about {} to hit as often",
                other.policy,
                Bytes(pages.saturating_mul(workload.page_size)),
            ));
        }
    }
    text.push('.');
    text
}

fn points(gain: f64) -> String {
    match gain {
        gain if gain >= 0.05 => format!("{gain:.1} points above"),
        gain if gain <= -0.05 => format!("{:.1} points below", -gain),
        _ => "as good as".to_owned(),
    }
}

/// The size at which a curve reaches `hit_ratio`, between the sizes that were simulated; None if it does not.
fn size_for(curve: &Curve, hit_ratio: f64) -> Option<u64> {
    let at = curve
        .points
        .iter()
        .position(|point| point.hit_ratio >= hit_ratio)?;
    let (high, low) = (curve.points[at], curve.points.get(at.checked_sub(1)?)?);
    let part = (hit_ratio - low.hit_ratio) / (high.hit_ratio - low.hit_ratio);
    let (from, to) = ((low.pages as f64).ln(), (high.pages as f64).ln());
    Some((from + part * (to - from)).exp().round() as u64)
}

/// What the misses of a size near the one that is enough would cost.
fn cost(
    ours: &Curve,
    curves: &[Curve],
    enough: Point,
    workload: &Workload,
    settings: &WhatIfSettings,
) -> Option<String> {
    let at = ours
        .points
        .iter()
        .rposition(|point| point.pages <= enough.pages)
        .unwrap_or(0);
    let point = ours.points.get(at)?;
    let missed = |point: &Point| misses(workload, point);
    let mut text = format!(
        "At {}, {} of {} page requests miss with {}: {} at {} µs a miss",
        Bytes(point.pages.saturating_mul(workload.page_size)),
        missed(point),
        workload.nr_page_requests,
        ours.policy,
        duration(missed(point), settings.miss_us),
        settings.miss_us,
    );
    let shown = [Policy::Clock, Policy::Lru, Policy::Belady];
    let others: Vec<String> = curves
        .iter()
        .filter(|curve| curve.policy != ours.policy && shown.contains(&curve.policy))
        .filter_map(|curve| {
            let time = duration(missed(curve.points.get(at)?), settings.miss_us);
            Some(format!("{time} with {}", curve.policy))
        })
        .collect();
    if !others.is_empty() {
        text.push_str(&format!(" ({})", others.join(", ")));
    }
    text.push('.');
    Some(text)
}

/// How many of all page requests miss.
pub(super) fn misses(workload: &Workload, point: &Point) -> u64 {
    ((1.0 - point.hit_ratio) * workload.nr_page_requests as f64).round() as u64
}

/// So many misses, one after the other.
pub(super) fn duration(misses: u64, miss_us: f64) -> String {
    let seconds = misses as f64 * miss_us / 1e6;
    match seconds {
        s if s < 0.001 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 600.0 => format!("{s:.1} s"),
        s if s < 36_000.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}
