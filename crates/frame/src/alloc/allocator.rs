//! Allocation of blocks: from this thread's cache, the nodes, then the caches of all threads; its
//! [requests](AllocRequest) and errors.

use std::fmt;

use pagewell_sync::lock;

use crate::lists::{Buddy, Class, FreeLists, Front};
use crate::memory::numa;
use crate::words::{FrameKind, FrameNr, Order};

/// Error of [`FramePool::alloc_by`](crate::FramePool::alloc_by).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocError {
    /// The pool has no node with this number.
    NoSuchNode {
        /// Requested node.
        node: usize,
        /// Number of nodes of the pool.
        nr_nodes: usize,
    },
    /// No permitted node has a free block of this order.
    Exhausted {
        /// Requested order.
        order: Order,
    },
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchNode { node, nr_nodes } => {
                write!(
                    f,
                    "cannot allocate from node {node}: the pool has {nr_nodes}, counted from 0"
                )
            }
            Self::Exhausted { order } => {
                write!(f, "cannot allocate: no free block of order {}", order.get())
            }
        }
    }
}

impl std::error::Error for AllocError {}

/// Request for a block; see [`FramePool::alloc_by`](crate::FramePool::alloc_by).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocRequest {
    /// Order of the block.
    pub order: Order,
    /// Permitted nodes.
    pub place: Place,
}

impl AllocRequest {
    /// Requests a block of `order` from any node.
    pub fn new(order: Order) -> Self {
        Self {
            order,
            place: Place::Anywhere,
        }
    }
}

/// Nodes from which a block may be allocated. Nodes are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// Preferably the current processor's node, otherwise the nearest one with a free block.
    Anywhere,
    /// Preferably this node, otherwise the nearest one with a free block.
    Prefer(usize),
    /// Only this node.
    Only(usize),
}

/// Allocation. An allocated block is `Owned`, has the lock bit set, and is the caller's.
impl FreeLists {
    /// Allocates from this thread's cache only; [`alloc_by`](Self::alloc_by) searches further.
    #[inline]
    pub(crate) fn alloc_at_hand(&self, order: Order) -> Option<FrameNr> {
        if let Some(class) = Class::of(order)
            && let Some(Some(frame)) = self.fronts.with_mine(|front| front.pop(class))
        {
            self.adopt(frame, order);
            return Some(frame);
        }
        None
    }

    #[cold]
    pub(crate) fn alloc_by(&self, request: &AllocRequest) -> Result<FrameNr, AllocError> {
        let nr_nodes = self.nr_nodes();
        if let Place::Prefer(node) | Place::Only(node) = request.place
            && node >= nr_nodes
        {
            return Err(AllocError::NoSuchNode { node, nr_nodes });
        }
        let order = request.order;
        let frame = self.find_near(request).or_else(|| {
            // The caches of other threads may contain the block, or parts of it.
            (self.drain() > 0)
                .then(|| self.alloc_from_nodes(request))
                .flatten()
        });
        self.adopt_found(frame, order)
            .ok_or(AllocError::Exhausted { order })
    }

    /// Like [`alloc_by`](Self::alloc_by), but does not drain the caches of other threads.
    #[cold]
    pub(crate) fn alloc_near(&self, order: Order) -> Option<FrameNr> {
        self.adopt_found(self.find_near(&AllocRequest::new(order)), order)
    }

    fn find_near(&self, request: &AllocRequest) -> Option<FrameNr> {
        self.alloc_from_front(request)
            .or_else(|| self.alloc_from_nodes(request))
    }

    fn adopt_found(&self, found: Option<FrameNr>, order: Order) -> Option<FrameNr> {
        if let Some(frame) = found {
            self.adopt(frame, order);
        }
        found
    }

    /// Allocates up to `nr` single frames, and appends the handles that `hold` creates to
    /// `handles`. Returns their number: less than `nr` only if no more free frames are found.
    pub(crate) fn alloc_bulk<H>(
        &self,
        nr: usize,
        handles: &mut Vec<H>,
        hold: impl Fn(FrameNr) -> H + Copy,
    ) -> usize {
        let start = handles.len();
        let wanted = nr.min(self.nr_frames());
        // Allocate memory for the handles before any lock is acquired.
        handles.reserve(wanted);
        let adopt = move |frame| {
            self.adopt(frame, Order::ZERO);
            hold(frame)
        };
        if let Some(class) = Class::of(Order::ZERO) {
            let handles = &mut *handles;
            self.fronts.with_mine(move |front| {
                while handles.len() - start < wanted
                    && let Some(frame) = front.pop(class)
                {
                    handles.push(adopt(frame));
                }
            });
        }
        for is_drained in [false, true] {
            if is_drained && (handles.len() - start == wanted || self.drain() == 0) {
                break;
            }
            for &node in &*self.nodes[self.home_node()].fallback {
                let left = wanted - (handles.len() - start);
                if left == 0 {
                    break;
                }
                let mut buddy = lock(&self.nodes[node].buddy);
                buddy.alloc_bulk(&self.table, left, |frame| handles.push(adopt(frame)));
            }
        }
        handles.len() - start
    }

    /// Like [`alloc_bulk`](Self::alloc_bulk), but only from one node's free lists.
    pub(crate) fn alloc_bulk_on<H>(
        &self,
        node: usize,
        nr: usize,
        handles: &mut Vec<H>,
        hold: impl Fn(FrameNr) -> H + Copy,
    ) -> usize {
        let Some(of_node) = self.nodes.get(node) else {
            return 0;
        };
        let start = handles.len();
        let wanted = nr.min(self.nr_frames());
        handles.reserve(wanted);
        let mut buddy = lock(&of_node.buddy);
        buddy.alloc_bulk(&self.table, wanted, |frame| {
            self.adopt(frame, Order::ZERO);
            handles.push(hold(frame));
        });
        handles.len() - start
    }

    fn alloc_from_front(&self, request: &AllocRequest) -> Option<FrameNr> {
        let class = Class::of(request.order)?;
        if request.place != Place::Anywhere {
            return None;
        }
        self.fronts
            .with_mine(|front| front.pop(class).or_else(|| self.refill(front, class)))?
    }

    /// Allocates a block from this thread's node, and refills half of the stack.
    fn refill(&self, front: &mut Front, class: Class) -> Option<FrameNr> {
        let order = class.order();
        let home = self.home_node();
        if home != front.home {
            // The thread has moved. Its stacks contain blocks of the previous node.
            let mut buddy = lock(&self.nodes[front.home].buddy);
            for (frame, order) in front.take_all() {
                self.free_to_buddy(&mut buddy, frame, order);
            }
            front.home = home;
        }
        let mut buddy = lock(&self.nodes[front.home].buddy);
        let wanted = 1 + front.batch(class);
        let mut nr_taken = 0;
        let mut first = None;
        let mut keep = |frame: FrameNr| {
            nr_taken += 1;
            if first.is_none() {
                self.meta(frame).set_kind(FrameKind::Owned, order);
                first = Some(frame);
                return;
            }
            self.meta(frame).set_kind(FrameKind::Front, order);
            let has_room = front.push(class, frame);
            debug_assert!(has_room, "the stack was empty, and a batch is half of it");
        };
        if order == Order::ZERO {
            self.take_frames(&mut buddy, wanted, &mut keep);
        } else {
            self.take_blocks(&mut buddy, wanted, order, &mut keep);
        }
        let nr_pushed = nr_taken.max(1) - 1;
        if nr_pushed > 0 {
            self.note_cached();
        }
        // The lowest block must be on top, so that successive allocations return ascending frames.
        front.reverse_top(class, nr_pushed);
        first
    }

    /// Allocates up to `nr` frames: first from the transfer cache, then from the smallest blocks.
    fn take_frames(&self, buddy: &mut Buddy, nr: usize, keep: &mut impl FnMut(FrameNr)) {
        let mut left = nr;
        while left > 0
            && let Some(frame) = buddy.depot.pop()
        {
            keep(frame);
            left -= 1;
        }
        buddy.alloc_bulk(&self.table, left, keep);
    }

    /// Allocates up to `nr` blocks. Splits a larger block only for the first: others are optional.
    fn take_blocks(
        &self,
        buddy: &mut Buddy,
        nr: usize,
        order: Order,
        keep: &mut impl FnMut(FrameNr),
    ) {
        for at in 0..nr {
            let frame = match at {
                0 => buddy.alloc(&self.table, order),
                _ => buddy.alloc_exact(&self.table, order),
            };
            let Some(frame) = frame else {
                break;
            };
            keep(frame);
        }
    }

    fn alloc_from_nodes(&self, request: &AllocRequest) -> Option<FrameNr> {
        let fallback = match request.place {
            Place::Anywhere => &*self.nodes[self.home_node()].fallback,
            Place::Prefer(node) => &*self.nodes[node].fallback,
            Place::Only(node) => &self.nodes[node].fallback[..1],
        };
        fallback.iter().find_map(|&node| {
            let mut buddy = lock(&self.nodes[node].buddy);
            buddy.alloc(&self.table, request.order)
        })
    }

    /// Returns the node of the processor that runs this thread, or node 0 if it is unknown.
    fn home_node(&self) -> usize {
        if self.nr_nodes() == 1 {
            return 0;
        }
        #[cfg(test)]
        if let Some(node) = testing::HOME.get() {
            return node;
        }
        let numa = numa::current();
        let node = self
            .nodes
            .iter()
            .position(|node| node.numa.is_some() && node.numa == numa);
        node.unwrap_or(0)
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use std::cell::Cell;

    thread_local! {
        pub(crate) static HOME: Cell<Option<usize>> = const { Cell::new(None) };
    }
}
