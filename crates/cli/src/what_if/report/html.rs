//! One page of HTML, which needs nothing from elsewhere.

use std::fs;
use std::path::Path;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::chart::{chart, colour};
use super::{Results, heading};
use crate::failure::Failure;
use crate::size::Bytes;
use crate::what_if::answers::{duration, misses};

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1b1b;--soft:#666;--line:#e3e3e3;--paper:#fff}\
@media(prefers-color-scheme:dark){:root{--ink:#e8e8e8;--soft:#a0a0a0;--line:#383838;\
--paper:#191919}}\
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);\
max-width:62rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.4rem;margin-bottom:0;overflow-wrap:anywhere}\
.under{color:var(--soft);margin-top:.2rem}\
svg{width:100%;height:auto;font:12px system-ui,sans-serif}\
.grid{stroke:var(--line)}.tick{fill:var(--soft)}\
polyline{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round}\
circle{fill:currentColor}\
.limit polyline{stroke-dasharray:5 4}.name{fill:currentColor}\
.leader{stroke:currentColor;opacity:.35}\
.reachable{stroke:var(--soft);stroke-dasharray:1 4}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;width:100%}\
table{font-size:.88rem}\
th,td{text-align:right;padding:.25rem .45rem;border-bottom:1px solid var(--line);\
white-space:nowrap}\
.best{font-weight:600}footer{color:var(--soft);font-size:.85rem;margin-top:2rem}";

/// Writes the page to `path`.
pub(in crate::what_if) fn write(path: &Path, results: &Results<'_>) -> Result<(), Failure> {
    let text = page(results).into_string();
    fs::write(path, text)
        .map_err(|error| Failure::because(format_args!("cannot write {}", path.display()), error))
}

fn page(results: &Results<'_>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                title { "What if: " (results.settings.trace.display()) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "How often a cache would hit" }
                p.under { (heading(results)) }
                (chart(results))
                @for sentence in &results.answers.sentences { p { (sentence) } }
                div.wide { (table(results)) }
                p.under {
                    "Hits in per cent of the page requests; in bold the best of each size but for \
                     belady, which knows the future."
                    " The dotted line is what a cache of everything would reach."
                }
                footer { "pagewell what-if, version " (env!("CARGO_PKG_VERSION")) }
            }
        }
    }
}

fn table(results: &Results<'_>) -> Markup {
    let curves = results.curves;
    let first = curves.first().map_or(&[][..], |curve| &curve.points);
    let workload = results.workload;
    let hits = |ratio: f64| format!("{:.1}", 100.0 * ratio);
    let best = |row: usize| {
        curves
            .iter()
            .filter(|curve| curve.policy != pagewell_sim::Policy::Belady)
            .filter_map(|curve| curve.points.get(row))
            .map(|point| hits(point.hit_ratio))
            .max_by(|a, b| a.len().cmp(&b.len()).then(a.cmp(b)))
    };
    html! {
        table {
            thead {
                tr {
                    th { "pages" } th { "memory" } th { "of all" }
                    @for curve in curves {
                        th style={ "color:" (colour(curve.policy)) } { (curve.policy) }
                    }
                    @if let Some(curve) = curves.first() {
                        th { "misses of " (curve.policy) }
                        th { "at " (results.settings.miss_us) " µs each" }
                    }
                }
            }
            tbody {
                @for (row, point) in first.iter().enumerate() {
                    @let best = best(row);
                    tr {
                        td { (point.pages) }
                        td { (Bytes(point.pages.saturating_mul(workload.page_size))) }
                        @let share = point.pages as f64 / workload.nr_touched().max(1) as f64;
                        td { (format!("{:.1} %", 100.0 * share)) }
                        @for curve in curves {
                            @if let Some(point) = curve.points.get(row) {
                                @let text = hits(point.hit_ratio);
                                @let is_real = curve.policy != pagewell_sim::Policy::Belady;
                                td.best[is_real && Some(&text) == best.as_ref()] {
                                    (text)
                                    @if let Some(error) = point.error {
                                        " ± " (format!("{:.1}", 100.0 * error))
                                    }
                                }
                            }
                        }
                        td { (misses(workload, point)) }
                        td { (duration(misses(workload, point), results.settings.miss_us)) }
                    }
                }
            }
        }
    }
}
