//! The limit: the page goes whose next use is the furthest away, which may be the one that was just asked for (Belady 1966).

use std::collections::BinaryHeap;

/// Never again.
const NEVER: u32 = u32::MAX;

/// Not in the cache.
const ABSENT: u32 = u32::MAX - 1;

pub(crate) fn hits(
    nr_frames: usize,
    nr_pages: usize,
    requests: &[u32],
    mut tick: impl FnMut(u64),
) -> u64 {
    let next = next_uses(nr_pages, requests);
    // Of each page in the cache, when it is used next. Entries of the heap that say otherwise are of the past.
    let mut next_of = vec![ABSENT; nr_pages];
    let mut heap = BinaryHeap::new();
    let mut len = 0;
    let mut hits = 0;
    for (at, (&page, &next)) in requests.iter().zip(&next).enumerate() {
        if next_of[page as usize] == ABSENT {
            len += 1;
        } else {
            hits += 1;
        }
        next_of[page as usize] = next;
        heap.push((next, page));
        while len > nr_frames {
            let Some((next, page)) = heap.pop() else {
                break;
            };
            if next_of[page as usize] == next {
                next_of[page as usize] = ABSENT;
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
