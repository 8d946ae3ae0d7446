//! The limit: the page goes whose next use is the furthest away, which may be the one that was just asked for (Belady 1966).
//!
//! A page in the cache is known by its next request. So the cache is a set of numbers of requests; a request hits if its own number is
//! in the set, and what goes is the greatest. A page that is never asked for again is never put in.

use crate::numbers::Numbers;

/// Never again.
const NEVER: u32 = u32::MAX;

pub(crate) fn hits(
    nr_frames: usize,
    nr_pages: usize,
    requests: &[u32],
    mut tick: impl FnMut(u64),
) -> u64 {
    let mut cached = Numbers::below(requests.len());
    let mut len = 0;
    let mut hits = 0;
    for (at, next) in next_uses(nr_pages, requests).into_iter().enumerate() {
        if cached.remove(at) {
            len -= 1;
            hits += 1;
        }
        if next != NEVER {
            cached.insert(next as usize);
            len += 1;
            if len > nr_frames
                && let Some(furthest) = cached.last()
            {
                cached.remove(furthest);
                len -= 1;
            }
        }
        tick(at as u64 + 1);
    }
    hits
}

/// For each request, which one asks for the same page next.
fn next_uses(nr_pages: usize, requests: &[u32]) -> Vec<u32> {
    let mut last = vec![NEVER; nr_pages];
    let mut next = vec![NEVER; requests.len()];
    for (at, &page) in requests.iter().enumerate().rev() {
        next[at] = std::mem::replace(&mut last[page as usize], at as u32);
    }
    next
}
