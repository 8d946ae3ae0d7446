//! Samples, sizes and words.

use pagewell_sim::Policy;

use super::settings::{Rate, Size, WhatIfSettings};
use super::sweep::{self, Sweep};
use super::workload::Workload;
use crate::output::Format;
use crate::progress::Progress;

fn settings(sizes: &[Size]) -> WhatIfSettings {
    WhatIfSettings {
        trace: "a trace".into(),
        trace_format: None,
        page_size: 4096,
        sizes: sizes.to_vec(),
        policies: vec![Policy::Lru, Policy::Belady],
        sample: Rate::All,
        miss_us: 100.0,
        html: None,
        format: Format::Table,
    }
}

/// Requests that prefer small numbers.
fn skewed(nr: u64, pages: u64) -> Vec<u64> {
    let mut rng = pagewell_testkit::rng::Rng::new(7);
    (0..nr)
        .map(|_| {
            let range = 1 + rng.below(pages);
            rng.below(range)
        })
        .collect()
}

#[test]
fn hits_of_a_small_trace_are_what_a_hand_counts() {
    let workload = Workload::of(&[1, 2, 3, 1, 2, 3, 1, 1], Rate::All);
    assert_eq!((workload.nr_touched(), workload.nr_page_requests), (3, 8));
    let points = sweep::at_once(&workload, Policy::Lru, &[3, 2]);
    let ratios: Vec<f64> = points.iter().map(|point| point.hit_ratio).collect();
    assert_eq!(ratios, [5.0 / 8.0, 1.0 / 8.0]);
    assert_eq!(workload.reachable(), 5.0 / 8.0);
}

#[test]
fn sizes_are_in_order_and_each_is_there_once() {
    let workload = Workload::of(&(0..1000).collect::<Vec<u64>>(), Rate::All);
    let sizes = |asked: &[Size]| Sweep::plan(&workload, &settings(asked)).map(|sweep| sweep.sizes);
    let default = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
    assert_eq!(sizes(&[]).unwrap(), default);
    let asked = [
        Size::Pages(7),
        Size::Percent(0.5),
        Size::Bytes(8192),
        Size::Bytes(20_480),
    ];
    assert_eq!(sizes(&asked).unwrap(), [2, 5, 7]);
    assert!(sizes(&[Size::Bytes(4095)]).is_err());
}

#[test]
fn a_sample_estimates_what_all_pages_give_within_its_error() {
    let requests = skewed(400_000, 40_000);
    let whole = Workload::of(&requests, Rate::All);
    let sampled = Workload::of(&requests, Rate::Part(0.2));
    let rate = f64::from(sampled.nr_sampled) / f64::from(whole.nr_sampled);
    assert!((rate - 0.2).abs() < 0.02, "{rate}");
    let asked = settings(&[Size::Percent(5.0), Size::Percent(20.0), Size::Percent(50.0)]);
    let silent = Progress::of_steps(0);
    let curve = |workload: &Workload| {
        let sweep = Sweep::plan(workload, &asked).unwrap();
        sweep.run(workload, &silent).swap_remove(0).points
    };
    for (exact, estimate) in curve(&whole).iter().zip(curve(&sampled)) {
        assert_eq!(exact.error, None);
        let off = (exact.hit_ratio - estimate.hit_ratio).abs();
        // Two standard errors are passed one time in twenty; four never, with this seed.
        let error = estimate.error.unwrap();
        assert!(off < (2.0 * error).max(0.01), "{exact:?} {estimate:?}");
        assert!(error < 0.05, "{estimate:?}");
    }
}

#[test]
fn a_sample_that_is_found_by_itself_keeps_all_requests_of_its_pages() {
    // More pages than are kept, each requested three times.
    let pages: Vec<u64> = (0..200_000).collect();
    let workload = Workload::of(&[pages.clone(), pages.clone(), pages].concat(), Rate::Auto);
    assert!(workload.nr_sampled <= 1 << 16, "{}", workload.nr_sampled);
    assert!(workload.nr_sampled > 1 << 14, "{}", workload.nr_sampled);
    assert_eq!(
        workload.requests.len() as u64,
        3 * u64::from(workload.nr_sampled)
    );
    let touched = workload.nr_touched() as f64;
    assert!((touched / 200_000.0 - 1.0).abs() < 0.05, "{touched}");
    // A small trace is simulated whole.
    assert!(Workload::of(&[1, 2, 1], Rate::Auto).sample.is_all());
}

#[test]
fn a_long_trace_is_sampled_unless_all_is_asked_for() {
    let pages: Vec<u64> = (0..100_000).collect();
    assert!(Workload::of(&pages, Rate::Usual).sample.is_all());
    assert!(!Workload::of(&pages, Rate::Auto).sample.is_all());
    let long = [pages.clone(), pages.clone(), pages].concat();
    assert!(Workload::of(&long, Rate::All).sample.is_all());
    let usual = Workload::of(&long, Rate::Usual);
    assert!(usual.nr_sampled <= 1 << 16, "{}", usual.nr_sampled);
    assert_eq!(usual.nr_page_requests, 300_000);
    assert_eq!(
        usual.requests.len() as u64,
        3 * u64::from(usual.nr_sampled),
        "all requests of its pages"
    );
}

#[test]
fn the_least_cache_that_is_enough_is_found() {
    // A loop: LRU has nothing below its size, and two thirds from there on.
    let pages: Vec<u64> = (0..500).collect();
    let workload = Workload::of(&[pages.clone(), pages.clone(), pages].concat(), Rate::All);
    let settings = settings(&[]);
    let silent = Progress::of_steps(0);
    let curves = Sweep::plan(&workload, &settings)
        .unwrap()
        .run(&workload, &silent);
    let answers = super::Answers::find(&workload, &curves, &settings, &silent);
    let words = answers.sentences.join("\n");
    assert!(words.contains("66.7 of 66.7 % hits"), "{words}");
    let (_, size) = words.split_once("A cache of ").unwrap();
    let (_, pages) = size.split_once('(').unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    assert!((500..=510).contains(&pages), "{words}");
}

#[test]
fn pages_that_come_once_are_told() {
    let workload = Workload::of(&[1, 2, 3], Rate::All);
    let settings = settings(&[]);
    let silent = Progress::of_steps(0);
    let curves = Sweep::plan(&workload, &settings)
        .unwrap()
        .run(&workload, &silent);
    let answers = super::Answers::find(&workload, &curves, &settings, &silent);
    assert!(answers.sentences.join(" ").contains("no cache would hit"));
}
