//! Which sizes; the simulations, on all processors.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use pagewell_sim::Policy;

use super::settings::{Size, WhatIfSettings};
use super::workload::Workload;
use crate::failure::Failure;
use crate::machine;
use crate::progress::Progress;
use crate::size::Bytes;

/// The sizes that are simulated unless some are named, in per cent of the pages that are touched.
const DEFAULT: [f64; 10] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
/// A cache of fewer sampled pages says little: the default sweep leaves it out.
const LEAST_SAMPLED: f64 = 64.0;
/// And of fewer than this in a quarter of the sample, the quarters say nothing.
const LEAST_QUARTER: f64 = 8.0;

/// What is simulated: every policy at every size.
#[derive(Debug)]
pub(super) struct Sweep {
    policies: Vec<Policy>,
    /// Pages, ascending.
    pub(super) sizes: Vec<u64>,
    nr_requests: u64,
    has_quarters: bool,
}

/// How a policy does at each size.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) policy: Policy,
    /// By ascending size.
    pub(super) points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) pages: u64,
    pub(super) hit_ratio: f64,
    /// Two standard errors of the hit ratio; None if it is exact, or if the sample is too small to tell.
    pub(super) error: Option<f64>,
}

impl Sweep {
    pub(super) fn plan(workload: &Workload, settings: &WhatIfSettings) -> Result<Sweep, Failure> {
        let touched = workload.nr_touched();
        let percent = |percent: f64| ((touched as f64 * percent / 100.0).round() as u64).max(1);
        let mut sizes: Vec<u64> = match settings.sizes.is_empty() {
            true => {
                let least = LEAST_SAMPLED / workload.sample.rate();
                let is_exact = workload.sample.is_all();
                let sizes = DEFAULT.into_iter().map(percent);
                sizes
                    .filter(|&pages| is_exact || pages as f64 >= least || pages == touched)
                    .collect()
            }
            false => settings
                .sizes
                .iter()
                .map(|size| match *size {
                    Size::Pages(pages) => pages,
                    Size::Bytes(bytes) => bytes / settings.page_size,
                    Size::Percent(part) => percent(part),
                })
                .collect(),
        };
        if sizes.contains(&0) {
            return Err(Failure::Run(format!(
                "a cache of less than a page of {} holds nothing",
                Bytes(settings.page_size)
            )));
        }
        sizes.sort_unstable();
        sizes.dedup();
        Ok(Sweep {
            policies: settings.policies.clone(),
            sizes,
            nr_requests: workload.requests.len() as u64,
            has_quarters: !workload.sample.is_all(),
        })
    }

    /// Requests of all simulations together.
    pub(super) fn nr_steps(&self) -> u64 {
        let each = self.nr_requests * if self.has_quarters { 2 } else { 1 };
        each * (self.policies.len() * self.sizes.len()) as u64
    }

    /// Simulates. The processors take the cells as they come free.
    pub(super) fn run(&self, workload: &Workload, progress: &Progress) -> Vec<Curve> {
        let cells: Vec<(usize, usize)> = (0..self.policies.len())
            .flat_map(|policy| (0..self.sizes.len()).rev().map(move |size| (policy, size)))
            .collect();
        let quarters = quarters_of(workload);
        let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
        let nr_workers = nr_workers();
        let (sender, results) = mpsc::channel();
        let mut points = vec![vec![None; self.sizes.len()]; self.policies.len()];
        thread::scope(|scope| {
            for _ in 0..nr_workers.clamp(1, cells.len()) {
                let (sender, cells, quarters) = (sender.clone(), &cells, &quarters);
                let (next, done) = (&next, &done);
                scope.spawn(move || {
                    // ORDERING: Relaxed: the number alone says which cell is whose; what the cell is was there before the thread.
                    while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let (policy, pages) = (self.policies[cell.0], self.sizes[cell.1]);
                        let point = simulate(workload, quarters, policy, pages, done);
                        if sender.send((*cell, point)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            progress.say("simulating".to_owned());
            loop {
                match results.recv_timeout(Duration::from_millis(100)) {
                    Ok(((policy, size), point)) => points[policy][size] = Some(point),
                    Err(mpsc::RecvTimeoutError::Timeout) => {}
                    Err(mpsc::RecvTimeoutError::Disconnected) => break,
                }
                // ORDERING: Relaxed: for the eye alone.
                progress.step_to(done.load(Ordering::Relaxed));
            }
        });
        self.policies
            .iter()
            .zip(points)
            .map(|(&policy, points)| Curve {
                policy,
                points: points.into_iter().flatten().collect(),
            })
            .collect()
    }
}

/// The requests of each quarter of the sample; none if everything is simulated.
fn quarters_of(workload: &Workload) -> Vec<Vec<u32>> {
    if workload.quarters.is_empty() {
        return Vec::new();
    }
    // Numbers are dense in each.
    let mut nr = [0_u32; 4];
    let numbers: Vec<u32> = workload
        .quarters
        .iter()
        .map(|&quarter| {
            let number = nr[usize::from(quarter)];
            nr[usize::from(quarter)] += 1;
            number
        })
        .collect();
    let mut requests = vec![Vec::new(); nr.len()];
    for &page in &workload.requests {
        let quarter = workload.quarters[page as usize];
        requests[usize::from(quarter)].push(numbers[page as usize]);
    }
    requests
}

/// How many simulations run at once.
pub(super) fn nr_workers() -> usize {
    machine::nr_cpus(&machine::allowed_cpus()) as usize
}

/// One policy at some sizes, each on a processor. No errors are estimated.
pub(super) fn at_once(workload: &Workload, policy: Policy, sizes: &[u64]) -> Vec<Point> {
    let at = |pages| simulate(workload, &[], policy, pages, &AtomicU64::new(0));
    let [alone] = sizes else {
        return thread::scope(|scope| {
            let running: Vec<_> = sizes
                .iter()
                .map(|&pages| scope.spawn(move || at(pages)))
                .collect();
            let joined = running.into_iter().map(|thread| thread.join());
            joined
                .map(|point| point.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
    };
    vec![at(*alone)]
}

fn simulate(
    workload: &Workload,
    quarters: &[Vec<u32>],
    policy: Policy,
    pages: u64,
    done: &AtomicU64,
) -> Point {
    let rate = workload.sample.rate();
    let ratio = |requests: &[u32], rate: f64| {
        let scaled = (pages as f64 * rate).round().max(1.0);
        let scaled = (scaled as u64).min(u64::from(u32::MAX)) as usize;
        let hits = pagewell_sim::hits(policy, scaled, requests, &mut |more| {
            // ORDERING: Relaxed: for the eye alone.
            done.fetch_add(more, Ordering::Relaxed);
        });
        let nr = requests.len() as u64;
        workload.hit_ratio(nr.saturating_sub(hits), rate)
    };
    let hit_ratio = ratio(&workload.requests, rate);
    let quarter = rate / 4.0;
    let mut error = None;
    if !quarters.is_empty() && pages as f64 * quarter >= LEAST_QUARTER {
        let ratios = quarters.iter().map(|requests| ratio(requests, quarter));
        error = Some(2.0 * standard_error(&ratios.collect::<Vec<f64>>()));
    }
    Point {
        pages,
        hit_ratio,
        error,
    }
}

/// The standard error of the mean of several estimates.
fn standard_error(estimates: &[f64]) -> f64 {
    let nr = estimates.len() as f64;
    let mean = estimates.iter().sum::<f64>() / nr;
    let squares: f64 = estimates.iter().map(|x| (x - mean).powi(2)).sum();
    (squares / (nr - 1.0) / nr).sqrt()
}
