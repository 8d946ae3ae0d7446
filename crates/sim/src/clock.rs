//! CLOCK: a hand goes round, takes marks off, and evicts the first page without one (Corbató 1968).

use crate::cache::Cache;

/// No page, or no frame.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Clock {
    /// For each frame its page, and whether it was used since the hand came by.
    frames: Vec<(u32, bool)>,
    frame_of: Vec<u32>,
    hand: usize,
}

impl Clock {
    pub(crate) fn new(nr_frames: usize, nr_pages: usize) -> Self {
        Self {
            frames: vec![(NONE, false); nr_frames],
            frame_of: vec![NONE; nr_pages],
            hand: 0,
        }
    }
}

impl Cache for Clock {
    fn request(&mut self, page: u32) -> bool {
        let frame = self.frame_of[page as usize];
        if frame != NONE {
            self.frames[frame as usize].1 = true;
            return true;
        }
        while std::mem::take(&mut self.frames[self.hand].1) {
            self.hand = (self.hand + 1) % self.frames.len();
        }
        let (old, _) = std::mem::replace(&mut self.frames[self.hand], (page, false));
        if old != NONE {
            self.frame_of[old as usize] = NONE;
        }
        self.frame_of[page as usize] = self.hand as u32;
        self.hand = (self.hand + 1) % self.frames.len();
        false
    }
}
