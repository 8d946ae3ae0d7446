//! Policies against naive twins, and against each other.

use std::collections::VecDeque;

use proptest::prelude::*;

use crate::workload::Workload;
use crate::{Policy, hits};

fn count(policy: Policy, pages: usize, requests: &[u32]) -> u64 {
    let mut told = 0;
    let hits = hits(policy, pages, requests, &mut |done| {
        assert!(told <= done);
        told = done;
    });
    assert_eq!(told, requests.len() as u64);
    hits
}

/// LRU, said simply.
fn naive_lru(pages: usize, requests: &[u32]) -> u64 {
    let mut used = VecDeque::new();
    let mut hits = 0;
    for &page in requests {
        match used.iter().position(|&other| other == page) {
            Some(at) => {
                used.remove(at);
                hits += 1;
            }
            None if used.len() == pages => {
                used.pop_front();
            }
            None => {}
        }
        used.push_back(page);
    }
    hits
}

/// The most hits that any choice can have, tried out.
fn best(pages: usize, requests: &[u32]) -> u64 {
    fn go(held: &mut Vec<u32>, pages: usize, requests: &[u32]) -> u64 {
        let Some((page, rest)) = requests.split_first() else {
            return 0;
        };
        if held.contains(page) {
            return 1 + go(held, pages, rest);
        }
        if held.len() < pages {
            held.push(*page);
            let hits = go(held, pages, rest);
            held.pop();
            return hits;
        }
        // Nothing goes, or one of them.
        let mut hits = go(held, pages, rest);
        for at in 0..held.len() {
            let old = std::mem::replace(&mut held[at], *page);
            hits = hits.max(go(held, pages, rest));
            held[at] = old;
        }
        hits
    }
    go(&mut Vec::new(), pages, requests)
}

proptest! {
    #[test]
    fn lru_is_lru(pages in 1..20_usize, requests in prop::collection::vec(0..40_u32, 0..300)) {
        prop_assert_eq!(count(Policy::Lru, pages, &requests), naive_lru(pages, &requests));
    }

    #[test]
    fn no_choice_has_more_hits_than_the_limit(
        pages in 1..4_usize,
        requests in prop::collection::vec(0..5_u32, 0..11),
    ) {
        prop_assert_eq!(count(Policy::Belady, pages, &requests), best(pages, &requests));
    }

    #[test]
    fn every_policy_keeps_to_the_limit(
        pages in 1..60_usize,
        requests in prop::collection::vec(0..80_u32, 0..500),
    ) {
        let limit = count(Policy::Belady, pages, &requests);
        for policy in Policy::ALL {
            prop_assert!(count(policy, pages, &requests) <= limit, "{policy}");
        }
    }
}

#[test]
fn what_fits_is_missed_once() {
    let requests: Vec<u32> = (0..1000).map(|at| at % 100).collect();
    for policy in [
        Policy::Pagewell,
        Policy::Clock,
        Policy::Lru,
        Policy::S3Fifo,
        Policy::Arc,
        Policy::Belady,
    ] {
        assert_eq!(count(policy, 100, &requests), 900, "{policy}");
        assert_eq!(count(policy, 1 << 40, &requests), 900, "{policy}");
    }
}

#[test]
fn no_requests_and_no_pages_have_no_hits() {
    for policy in Policy::ALL {
        assert_eq!(count(policy, 100, &[]), 0, "{policy}");
        assert_eq!(count(policy, 0, &[1, 1, 1]), 0, "{policy}");
        assert_eq!(count(policy, 1, &[1, 1, 1]), 2, "{policy}");
    }
}

#[test]
fn names_are_read_as_they_are_written() {
    for policy in Policy::ALL {
        assert_eq!(policy.to_string().parse(), Ok(policy));
    }
    let error = "lirs".parse::<Policy>().unwrap_err().to_string();
    assert!(
        error.contains("lirs") && error.contains("s3-fifo"),
        "{error}"
    );
}

#[test]
fn the_same_seed_makes_the_same_requests() {
    for workload in Workload::ALL {
        let requests = |seed| workload.requests(50_000, 1000, 64, seed);
        assert_eq!(requests(7), requests(7), "{workload}");
        assert_eq!(requests(7).len(), 50_000);
        if workload != Workload::Loop {
            assert_ne!(requests(7), requests(8), "{workload}");
        }
    }
}

#[test]
fn popular_pages_follow_zipfs_law() {
    let mut counts = vec![0_u32; 1000];
    for page in Workload::Zipf99.requests(1_000_000, 1000, 0, 3) {
        counts[page as usize] += 1;
    }
    counts.sort_unstable_by(|a, b| b.cmp(a));
    for (rank, ratio) in [(2_usize, 1.99), (10, 9.77), (100, 95.5)] {
        let found = f64::from(counts[0]) / f64::from(counts[rank - 1]);
        assert!((found / ratio - 1.0).abs() < 0.1, "{rank}: {found}");
    }
}

/// What the policy is for, at a small size: a loop that does not fit, and pages that are asked for again between scans.
#[test]
fn loops_and_scans_do_not_wash_pagewell_out() {
    let ratio = |workload: Workload, policy| {
        let requests = workload.requests(400_000, 1 << 14, 1000, 1);
        count(policy, 1000, &requests) as f64 / requests.len() as f64
    };
    assert!(ratio(Workload::Loop, Policy::Pagewell) > 0.45);
    assert!(ratio(Workload::Loop, Policy::Clock) < 0.01);
    for workload in [Workload::ZipfScan, Workload::Zipf99, Workload::Zipf70] {
        let (ours, clock) = (
            ratio(workload, Policy::Pagewell),
            ratio(workload, Policy::Clock),
        );
        assert!(ours > clock + 0.02, "{workload}: {ours} {clock}");
    }
}
