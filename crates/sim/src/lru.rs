//! LRU: the page goes that was not used for the longest time.

use crate::cache::Cache;
use crate::lists::Lists;

#[derive(Debug)]
pub(crate) struct Lru {
    used: Lists<1>,
    nr_frames: usize,
}

impl Lru {
    pub(crate) fn new(nr_frames: usize, nr_pages: usize) -> Self {
        Self {
            used: Lists::new(nr_pages),
            nr_frames,
        }
    }
}

impl Cache for Lru {
    fn request(&mut self, page: u32) -> bool {
        let is_hit = self.used.list_of(page).is_some();
        if !is_hit && self.used.len(0) == self.nr_frames {
            self.used.pop(0);
        }
        self.used.move_to(0, page);
        is_hit
    }
}
