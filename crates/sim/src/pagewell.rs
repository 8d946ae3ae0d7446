//! The policy that Pagewell ships, driven as its cache drives it: in batches, with notes of arrivals, and marks in slots.

use std::collections::VecDeque;

use pagewell_policy::{Content, Ghost, Group, Notes, Pages, Policy, Quota, Scope, Stays};

use crate::cache::Cache;

/// No page, or no frame.
const NONE: u32 = u32::MAX;

/// The most frames that are made free at once.
const MOST_AT_ONCE: usize = 64;

#[derive(Debug)]
pub(crate) struct Pagewell {
    policy: Policy,
    notes: Notes,
    pages: Slots,
    batch: usize,
}

/// What the policy sees.
#[derive(Debug)]
struct Slots {
    /// The page in each frame.
    page_of: Vec<u32>,
    slots: Vec<Slot>,
    free: VecDeque<u32>,
    /// The pages are spread over so many groups.
    nr_groups: usize,
    /// All are in this group, which may have so many frames.
    all_in: Option<(Group, usize)>,
}

impl Slots {
    const fn group_of(&self, page: u32) -> Group {
        if let Some((group, _)) = self.all_in {
            return group;
        }
        match Group::new(page as usize % self.nr_groups) {
            Some(group) => group,
            None => Group::NONE,
        }
    }
}

/// Where a page is found, as the cache has it in one word.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The frame, if it has one.
    frame: u32,
    /// The mark, if it has a frame; otherwise the ghost.
    rest: u32,
}

const MARKED: u32 = 1;

/// A page that was never in the cache.
const EMPTY: Slot = Slot {
    frame: NONE,
    rest: NONE,
};

impl Pagewell {
    pub(crate) fn new(nr_frames: usize, nr_pages: usize) -> Self {
        Self {
            policy: Policy::new(nr_frames),
            notes: Notes::new(nr_frames),
            pages: Slots {
                page_of: vec![NONE; nr_frames],
                slots: vec![EMPTY; nr_pages],
                free: (0..nr_frames as u32).collect(),
                nr_groups: 1,
                all_in: None,
            },
            batch: (nr_frames / 64).clamp(1, MOST_AT_ONCE),
        }
    }
}

impl Cache for Pagewell {
    fn request(&mut self, page: u32) -> bool {
        let slot = &mut self.pages.slots[page as usize];
        if slot.frame != NONE {
            slot.rest = MARKED;
            return true;
        }
        if self.pages.free.is_empty() {
            let Self { policy, notes, .. } = self;
            policy.evict(self.batch, Scope::All, notes, &mut self.pages);
        }
        let Some(frame) = self.pages.free.pop_front() else {
            return false;
        };
        let slot = &mut self.pages.slots[page as usize];
        let ghost = (slot.rest != NONE).then(|| Ghost::from_bits(slot.rest));
        *slot = Slot { frame, rest: 0 };
        self.pages.page_of[frame as usize] = page;
        self.notes.arrived(frame, ghost);
        false
    }
}

impl Pages for Slots {
    fn quota(&mut self, _group: Group) -> Quota {
        let nr_frames = self.page_of.len() - self.free.len();
        Quota {
            nr_frames: nr_frames as u64,
            nr_spare: u64::MAX,
            is_growing: self
                .all_in
                .is_some_and(|(_, max)| nr_frames < max - max / 32),
        }
    }

    fn content(&mut self, frame: u32) -> Content {
        match self.page_of[frame as usize] {
            NONE => Content::Nothing,
            page => Content::Page(1, self.group_of(page)),
        }
    }

    fn take_mark(&mut self, frame: u32) -> bool {
        let page = self.page_of[frame as usize];
        let slot = &mut self.slots[page as usize];
        std::mem::replace(&mut slot.rest, 0) == MARKED
    }

    fn evict(&mut self, frame: u32, ghost: Ghost) -> Result<(), Stays> {
        let page = std::mem::replace(&mut self.page_of[frame as usize], NONE);
        self.slots[page as usize] = Slot {
            frame: NONE,
            rest: ghost.bits(),
        };
        self.free.push_back(frame);
        Ok(())
    }

    fn prefetch(&mut self, _frame: u32, _level: u8) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;

    /// The ratio of hits with the pages spread over so many groups.
    fn hit_ratio(workload: Workload, nr_groups: usize) -> f64 {
        let (nr_pages, nr_frames) = (40_000, 2000);
        let requests = workload.requests(400_000, nr_pages, nr_frames, 1);
        let nr_pages = requests.iter().max().map_or(0, |most| most + 1);
        let mut cache = Pagewell::new(nr_frames, nr_pages as usize);
        cache.pages.nr_groups = nr_groups;
        for group in (1..nr_groups).filter_map(Group::new) {
            cache.policy.add_group(group);
        }
        let hits = requests.iter().filter(|&&page| cache.request(page));
        hits.count() as f64 / requests.len() as f64
    }

    /// The ratio of hits of a group that may have so many frames of a cache that has many more.
    fn hit_ratio_of_limited(workload: Workload, nr_pages: u32, max: usize) -> f64 {
        const MANY: usize = 20_000;
        let requests = workload.requests(400_000, nr_pages, max, 1);
        let nr_pages = requests.iter().max().map_or(0, |most| most + 1);
        let mut cache = Pagewell::new(MANY, nr_pages as usize);
        let group = Group::new(1).unwrap();
        cache.policy.set_apart(group, true);
        cache.pages.all_in = Some((group, max));
        let mut arrived = Vec::new();
        let hits = requests.iter().filter(|&&page| {
            let Pagewell {
                policy,
                notes,
                pages,
                ..
            } = &mut cache;
            let is_full = MANY - pages.free.len() >= max;
            if is_full && pages.slots[page as usize].frame == NONE {
                policy.sort_in(group, &arrived, notes, pages);
                arrived.clear();
                assert!(
                    policy.evict((max / 128).clamp(1, 32), Scope::Only(group), notes, pages) != 0
                );
            }
            let is_hit = cache.request(page);
            if !is_hit {
                arrived.push(cache.pages.slots[page as usize].frame);
            }
            is_hit
        });
        hits.count() as f64 / requests.len() as f64
    }

    #[test]
    fn a_group_with_a_limit_is_as_a_cache_of_that_size() {
        for workload in Workload::ALL {
            let (nr_pages, nr_frames) = (40_000, 2000);
            let requests = workload.requests(400_000, nr_pages, nr_frames, 1);
            let all = requests.iter().max().map_or(0, |most| most + 1);
            let mut cache = Pagewell::new(nr_frames, all as usize);
            let hits = requests.iter().filter(|&&page| cache.request(page)).count();
            let alone = hits as f64 / requests.len() as f64;
            let limited = hit_ratio_of_limited(workload, nr_pages, nr_frames);
            assert!(
                (alone - limited).abs() < 0.01,
                "{workload:?}: {alone}, {limited}"
            );
        }
    }

    #[test]
    fn groups_without_limits_are_one() {
        for workload in Workload::ALL {
            let [one, some, many] = [1, 3, 100].map(|nr| hit_ratio(workload, nr));
            for other in [some, many] {
                assert!((one - other).abs() < 0.01, "{workload:?}: {one}, {other}");
            }
        }
    }
}
