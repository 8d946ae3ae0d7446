//! The policy that Pagewell ships, driven as its cache drives it: in batches, with notes of arrivals, and marks in slots.

use std::collections::VecDeque;

use pagewell_policy::{Content, Ghost, Notes, Pages, Policy, Stays};

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
            policy.evict(self.batch, notes, &mut self.pages);
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
    fn content(&mut self, frame: u32) -> Content {
        match self.page_of[frame as usize] {
            NONE => Content::Nothing,
            _ => Content::Page(1),
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
