//! A stand-in until the policies are there: every policy is LRU.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::str::FromStr;

/// An eviction policy.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[allow(missing_docs)]
pub enum Policy {
    Pagewell,
    Clock,
    Lru,
    S3Fifo,
    Arc,
    QuickCache,
    Moka,
    Belady,
}

const NAMES: [(Policy, &str); 8] = [
    (Policy::Pagewell, "pagewell"),
    (Policy::Clock, "clock"),
    (Policy::Lru, "lru"),
    (Policy::S3Fifo, "s3-fifo"),
    (Policy::Arc, "arc"),
    (Policy::QuickCache, "quick_cache"),
    (Policy::Moka, "moka"),
    (Policy::Belady, "belady"),
];

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(policy, _)| policy == self);
        f.pad(name.map_or("", |(_, name)| name))
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Policy, String> {
        let found = NAMES.iter().find(|(_, name)| *name == text);
        found
            .map(|(policy, _)| *policy)
            .ok_or_else(|| format!("no policy is called {text}"))
    }
}

/// How many of `requests` a cache of so many pages has.
pub fn hits(_: Policy, pages: usize, requests: &[u32], tick: &mut dyn FnMut(u64)) -> u64 {
    let (mut last, mut by_age, mut hits) = (HashMap::new(), BTreeMap::new(), 0);
    for (now, &page) in requests.iter().enumerate() {
        if let Some(then) = last.insert(page, now) {
            by_age.remove(&then);
            hits += 1;
        } else if last.len() > pages
            && let Some((_, oldest)) = by_age.pop_first()
        {
            last.remove(&oldest);
        }
        by_age.insert(now, page);
    }
    tick(requests.len() as u64);
    hits
}
