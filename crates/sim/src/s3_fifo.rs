//! S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023), with the sizes of the paper.
//!
//! A small queue of a tenth of the cache, a main queue, and ghosts as many as pages in the main queue. A page that was used twice in
//! the small queue goes on to the main queue, and so does one that comes again as a ghost. Counts of uses end at 3.

use crate::cache::Cache;
use crate::lists::Lists;

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOSTS: usize = 2;

/// How many uses in the small queue lead to the main queue.
const ENOUGH: u8 = 2;

#[derive(Debug)]
pub(crate) struct S3Fifo {
    queues: Lists<3>,
    uses: Vec<u8>,
    nr_frames: usize,
    most_small: usize,
}

impl S3Fifo {
    pub(crate) fn new(nr_frames: usize, nr_pages: usize) -> Self {
        Self {
            queues: Lists::new(nr_pages),
            uses: vec![0; nr_pages],
            nr_frames,
            most_small: (nr_frames / 10).max(1),
        }
    }

    fn evict(&mut self) {
        loop {
            let is_small = self.queues.len(SMALL) >= self.most_small;
            let queue = if is_small || self.queues.len(MAIN) == 0 {
                SMALL
            } else {
                MAIN
            };
            let Some(page) = self.queues.pop(queue) else {
                return;
            };
            let uses = &mut self.uses[page as usize];
            if queue == SMALL {
                if *uses >= ENOUGH {
                    *uses = 0;
                    self.queues.push(MAIN, page);
                    continue;
                }
                self.queues.push(GHOSTS, page);
                if self.queues.len(GHOSTS) > self.nr_frames - self.most_small {
                    self.queues.pop(GHOSTS);
                }
                return;
            }
            if *uses == 0 {
                return;
            }
            *uses -= 1;
            self.queues.push(MAIN, page);
        }
    }
}

impl Cache for S3Fifo {
    fn request(&mut self, page: u32) -> bool {
        let list = self.queues.list_of(page);
        if matches!(list, Some(SMALL | MAIN)) {
            let uses = &mut self.uses[page as usize];
            *uses = (*uses + 1).min(3);
            return true;
        }
        // Before the ghost is looked at: the eviction may be the end of it.
        self.queues.remove(page);
        if self.queues.len(SMALL) + self.queues.len(MAIN) == self.nr_frames {
            self.evict();
        }
        self.uses[page as usize] = 0;
        self.queues
            .push(if list == Some(GHOSTS) { MAIN } else { SMALL }, page);
        false
    }
}
