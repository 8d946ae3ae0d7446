//! ARC (Megiddo and Modha, "ARC: a self-tuning, low overhead replacement cache", FAST 2003), as the paper's figure 4 has it.

use crate::cache::Cache;
use crate::lists::Lists;

const T1: usize = 0;
const T2: usize = 1;
const B1: usize = 2;
const B2: usize = 3;

#[derive(Debug)]
pub(crate) struct Arc {
    lists: Lists<4>,
    nr_frames: usize,
    /// How large T1 is to be.
    p: usize,
}

impl Arc {
    pub(crate) fn new(nr_frames: usize, nr_pages: usize) -> Self {
        Self {
            lists: Lists::new(nr_pages),
            nr_frames,
            p: 0,
        }
    }

    fn replace(&mut self, is_in_b2: bool) {
        let nr = self.lists.len(T1);
        let (from, to) = if nr >= 1 && (nr > self.p || is_in_b2 && nr == self.p) {
            (T1, B1)
        } else {
            (T2, B2)
        };
        if let Some(page) = self.lists.pop(from) {
            self.lists.push(to, page);
        }
    }
}

impl Cache for Arc {
    fn request(&mut self, page: u32) -> bool {
        let [t1, t2, b1, b2] = [T1, T2, B1, B2].map(|list| self.lists.len(list));
        match self.lists.list_of(page) {
            Some(T1 | T2) => {
                self.lists.move_to(T2, page);
                return true;
            }
            Some(list) => {
                if list == B1 {
                    self.p = (self.p + (b2 / b1).max(1)).min(self.nr_frames);
                } else {
                    self.p = self.p.saturating_sub((b1 / b2).max(1));
                }
                self.replace(list == B2);
                self.lists.move_to(T2, page);
            }
            None => {
                if t1 + b1 == self.nr_frames {
                    if t1 < self.nr_frames {
                        self.lists.pop(B1);
                        self.replace(false);
                    } else {
                        self.lists.pop(T1);
                    }
                } else if t1 + t2 + b1 + b2 >= self.nr_frames {
                    if t1 + t2 + b1 + b2 == 2 * self.nr_frames {
                        self.lists.pop(B2);
                    }
                    self.replace(false);
                }
                self.lists.push(T1, page);
            }
        }
        false
    }
}
