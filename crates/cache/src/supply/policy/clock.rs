//! CLOCK (Corbató, "A paging experiment with the Multics system", 1968): hands that go round over the frames, and marks that a
//! hand takes.
//!
//! Hands. Requests for any place share one hand over all frames; each node has another one for those that look there. A page
//! that both hands come by loses its mark to one, and is evicted by the other earlier than either alone would.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameNr, FramePool, Order};
use pagewell_sync::atomic::{AtomicUsize, Ordering};

/// Whether the marks of referenced pages are respected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    Respected,
    Ignored,
}

/// Among which frames a lap goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Among {
    All,
    /// Those of one node.
    Node(usize),
    /// Those of all nodes but one.
    Others(usize),
}

/// Where the hands are.
#[derive(Debug)]
pub(crate) struct Clock {
    /// Of the laps over all frames.
    hand: AtomicUsize,
    /// Of those over the frames of one node.
    of_nodes: Box<[AtomicUsize]>,
}

impl Clock {
    pub(crate) fn new(nr_nodes: usize) -> Self {
        Self {
            hand: AtomicUsize::new(0),
            of_nodes: (0..nr_nodes).map(|_| AtomicUsize::new(0)).collect(),
        }
    }

    pub(crate) fn hand(&self, among: Among) -> &AtomicUsize {
        match among {
            Among::All | Among::Others(_) => &self.hand,
            Among::Node(node) => &self.of_nodes[node],
        }
    }

    /// One round of the hand, by places for blocks of `order`: the first frame of each.
    ///
    /// With marks respected, a place that another request's round has just come to is skipped, as its
    /// marks were taken by that; else every place is in the round once.
    pub(crate) fn lap<S: RefScheme>(
        &self,
        pool: &FramePool<S>,
        order: Order,
        marks: Marks,
        among: Among,
    ) -> impl Iterator<Item = FrameNr> {
        let len = order.frames() as usize;
        let nr_frames = pool.nr_frames() as u32;
        let (frames, passed_over) = match among {
            Among::All => (0..nr_frames, 0..0),
            Among::Node(node) => (pool.frames_of(node), 0..0),
            Among::Others(node) => (0..nr_frames, pool.frames_of(node)),
        };
        let hand = self.hand(among);
        let first = (frames.start as usize).next_multiple_of(len);
        let nr_places = (frames.end as usize).saturating_sub(first) / len;
        let mut start = None;
        let places = (0..nr_places).map(move |i| {
            // ORDERING: Relaxed; the hand only spreads the work. Two requests never get the same step of
            // it, by atomicity.
            let step = hand.fetch_add(len, Ordering::Relaxed) / len;
            let own = *start.get_or_insert(step) + i;
            let place = match marks {
                Marks::Respected => step,
                Marks::Ignored => own,
            };
            FrameNr::new((first + place % nr_places * len) as u32)
        });
        places.filter(move |frame| !passed_over.contains(&frame.get()))
    }
}
