//! The curves as a drawing (SVG).

use maud::{Markup, html};
use pagewell_sim::Policy;

use crate::size::Bytes;
use crate::what_if::report::Results;
use crate::what_if::sweep::{Curve, Point};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 128.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 52.0;

/// A colour for each policy, told apart by people who see no red or green too; the limit is dashed.
pub(super) fn colour(policy: Policy) -> &'static str {
    match policy {
        Policy::Pagewell => "#d9480f",
        Policy::Clock => "#0072b2",
        Policy::Lru => "#56a3d9",
        Policy::S3Fifo => "#009e73",
        Policy::Arc => "#b8860b",
        Policy::QuickCache => "#a04a8c",
        Policy::Moka => "#7a6ff0",
        _ => "#7f7f7f",
    }
}

/// The scale of the drawing: sizes by their logarithm, hit ratios as they are.
struct Scale {
    from: f64,
    to: f64,
}

impl Scale {
    fn of(curves: &[Curve]) -> Scale {
        let sizes = || curves.iter().flat_map(|curve| &curve.points);
        let least = sizes().map(|point| point.pages).min().unwrap_or(1);
        let most = sizes().map(|point| point.pages).max().unwrap_or(1);
        Scale {
            from: (least as f64).ln(),
            to: (most as f64).ln(),
        }
    }

    fn x(&self, pages: u64) -> f64 {
        let width = WIDTH - LEFT - RIGHT;
        if self.to <= self.from {
            return LEFT + width / 2.0;
        }
        LEFT + width * ((pages as f64).ln() - self.from) / (self.to - self.from)
    }

    fn y(&self, hit_ratio: f64) -> f64 {
        let height = HEIGHT - TOP - BOTTOM;
        TOP + height * (1.0 - hit_ratio)
    }
}

pub(super) fn chart(results: &Results<'_>) -> Markup {
    let scale = Scale::of(results.curves);
    let page_size = results.workload.page_size;
    let sizes = results
        .curves
        .first()
        .map_or(&[][..], |curve| &curve.points);
    let labels = label_places(results.curves, &scale);
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img"
            aria-label="Hit ratio by size of the cache" {
            @for tenth in 0..=5 {
                @let hits = f64::from(tenth) / 5.0;
                line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(scale.y(hits)) y2=(scale.y(hits)) {}
                text.tick x=(LEFT - 8.0) y=(scale.y(hits) + 4.0) text-anchor="end" {
                    (tenth * 20) " %"
                }
            }
            @for point in shown_sizes(sizes, &scale) {
                line.grid x1=(scale.x(point.pages)) x2=(scale.x(point.pages))
                    y1=(TOP) y2=(HEIGHT - BOTTOM) {}
                text.tick x=(scale.x(point.pages)) y=(HEIGHT - BOTTOM + 18.0) text-anchor="middle" {
                    (Bytes(point.pages.saturating_mul(page_size)))
                }
            }
            text.tick x=(LEFT + (WIDTH - LEFT - RIGHT) / 2.0) y=(HEIGHT - 10.0)
                text-anchor="middle" {
                "size of the cache (logarithmic)"
            }
            @let reachable = results.workload.reachable();
            line.reachable x1=(LEFT) x2=(WIDTH - RIGHT)
                y1=(scale.y(reachable)) y2=(scale.y(reachable)) {
                title { "with everything cached: " (format!("{:.1} %", 100.0 * reachable)) }
            }
            // The first is drawn last, over the others.
            @for (curve, label) in results.curves.iter().zip(labels).rev() {
                g style={ "color:" (colour(curve.policy)) }
                    class=[(curve.policy == Policy::Belady).then_some("limit")] {
                    polyline points=(points(&curve.points, &scale)) {}
                    @for point in &curve.points {
                        circle cx=(format!("{:.1}", scale.x(point.pages)))
                            cy=(format!("{:.1}", scale.y(point.hit_ratio))) r="3" {
                            title {
                                (curve.policy) ", "
                                (Bytes(point.pages.saturating_mul(page_size))) ": "
                                (format!("{:.1} % hits", 100.0 * point.hit_ratio))
                            }
                        }
                    }
                    @if let Some(last) = curve.points.last() {
                        line.leader x1=(scale.x(last.pages) + 5.0) y1=(scale.y(last.hit_ratio))
                            x2=(WIDTH - RIGHT + 18.0) y2=(label) {}
                    }
                    text.name x=(WIDTH - RIGHT + 22.0) y=(label + 4.0) { (curve.policy) }
                }
            }
        }
    }
}

fn points(points: &[Point], scale: &Scale) -> String {
    let pairs = points.iter().map(|point| {
        let (x, y) = (scale.x(point.pages), scale.y(point.hit_ratio));
        format!("{x:.1},{y:.1}")
    });
    pairs.collect::<Vec<String>>().join(" ")
}

/// Sizes whose words do not run into each other.
fn shown_sizes<'p>(points: &'p [Point], scale: &Scale) -> Vec<&'p Point> {
    const APART: f64 = 66.0;
    let mut shown: Vec<&Point> = Vec::new();
    for point in points.iter().rev() {
        if shown
            .last()
            .is_none_or(|last| scale.x(last.pages) - scale.x(point.pages) >= APART)
        {
            shown.push(point);
        }
    }
    shown
}

/// Where the name of each curve stands: near its end, and apart from the others.
fn label_places(curves: &[Curve], scale: &Scale) -> Vec<f64> {
    const APART: f64 = 17.0;
    let end = |curve: &Curve| curve.points.last().map_or(0.0, |point| point.hit_ratio);
    let mut order: Vec<usize> = (0..curves.len()).collect();
    // Those that end alike stand in their order.
    order.sort_by(|&a, &b| end(&curves[b]).total_cmp(&end(&curves[a])));
    let mut places = vec![0.0; curves.len()];
    let mut above = TOP - APART + 4.0;
    for at in order {
        above = scale.y(end(&curves[at])).max(above + APART);
        places[at] = above;
    }
    // If they run out below, all of them move up.
    let over = (above - (HEIGHT - BOTTOM)).max(0.0);
    places.iter().map(|place| place - over).collect()
}
