//! What becomes of a page: pure decisions.
//!
//! A page begins in the window, or in the main queue if its ghost says that it was gone for a short time only.

use crate::words::{Epoch, From, Ghost, How, MAX_AGE, Queue};

/// What the hand does with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Verdict {
    /// It goes, and this stays.
    Evict,
    /// To the end of a queue, with an age.
    To(Queue, u8),
}

/// The state of the decisions.
#[derive(Debug)]
pub(crate) struct Rules {
    evicted: [Epoch; 2],
}

/// How large the queues are, in frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) window: u64,
    pub(crate) main: u64,
}

impl Rules {
    pub(crate) fn new() -> Self {
        Self {
            evicted: [Epoch::default(); 2],
        }
    }

    /// Where a page begins.
    pub(crate) fn admit(&mut self, ghost: Option<Ghost>, how: How, sizes: Sizes) -> (Queue, u8) {
        match ghost {
            Some(ghost) if how == How::Asked && ghost.from() == From::Window => {
                let age = u64::from(ghost.age(self.evicted[ghost.from() as usize]));
                if age <= sizes.window + sizes.main {
                    (Queue::Main, 0)
                } else {
                    (Queue::Window, 0)
                }
            }
            _ => (Queue::Window, 0),
        }
    }

    /// The queue whose first page is looked at next.
    pub(crate) fn next(&self, sizes: Sizes) -> Queue {
        let all = sizes.window + sizes.main;
        if sizes.window * 10 >= all || sizes.main == 0 {
            Queue::Window
        } else {
            Queue::Main
        }
    }

    pub(crate) fn verdict(&self, queue: Queue, age: u8, is_marked: bool) -> Verdict {
        match (queue, is_marked, age) {
            (Queue::Window, true, _) => Verdict::To(Queue::Main, 0),
            (Queue::Window, false, _) => Verdict::Evict,
            (_, true, age) => Verdict::To(Queue::Main, (age + 1).min(MAX_AGE)),
            (_, false, 0) => Verdict::Evict,
            (_, false, age) => Verdict::To(Queue::Main, age - 1),
        }
    }

    /// The ghost of a page that goes now.
    pub(crate) fn ghost(&self, queue: Queue) -> Ghost {
        let from = Self::from(queue);
        Ghost::new(self.evicted[from as usize], from)
    }

    /// A page of so many frames has gone.
    pub(crate) fn has_gone(&mut self, queue: Queue, nr_frames: u32) {
        let epoch = &mut self.evicted[Self::from(queue) as usize];
        *epoch = epoch.after(nr_frames);
    }

    fn from(queue: Queue) -> From {
        match queue {
            Queue::Main => From::Main,
            _ => From::Window,
        }
    }
}
