//! Allocating blocks: from this thread's front cache, then from the preferred node, then from others, and
//! at last from what the front caches of all threads hold.
//!
//! Watermarks. A node that has fewer than its `low` frames on its lists, or would have, is used after the
//! others; below `min` only by those that ask for the reserve. Front caches are not counted: what is in
//! them is as good as allocated until somebody needs it.

use std::fmt;

use pagewell_sync::atomic::Ordering;
use pagewell_sync::lock;
use pagewell_sync::per_thread::Reach;

use super::error::AllocError;
use crate::count::RefScheme;
use crate::lists::{Buddy, Class, Front};
use crate::memory::numa;
use crate::pool::{FramePool, UniqueFrame};
use crate::words::{FrameKind, FrameNr, Order};

/// What a block is to be like; see [`FramePool::alloc_by`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocRequest {
    /// Its order.
    pub order: Order,
    /// Where it is to be.
    pub place: Place,
    /// Whether it may be one of the last frames.
    pub reserve: Reserve,
}

impl AllocRequest {
    /// A block of `order`, anywhere, not from the reserve.
    pub fn new(order: Order) -> Self {
        Self {
            order,
            place: Place::Anywhere,
            reserve: Reserve::Keep,
        }
    }
}

/// In which node of the pool a block is to be. Nodes are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// In the node of the processor that the caller is running on, or else as near as can be.
    Anywhere,
    /// In this node, or else as near as can be.
    Prefer(usize),
    /// In this node.
    Only(usize),
}

/// Whether a block may be one of the frames below the `min` watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// No: they are for those who free memory.
    Keep,
    /// Yes: the caller is about to free memory, and needs some for it.
    Use,
}

/// Whoever frees memory when little is left; see [`FramePool::set_low_memory`].
pub trait LowMemory: Send + Sync {
    /// A node has fewer free frames than its `low` watermark.
    ///
    /// Called by the thread whose allocation made it so, with no lock of the pool held; to be quick, e.g. by
    /// waking another thread. Called again only after `high` frames were free; what is in front caches does not
    /// count.
    fn low(&self, node: usize);
}

impl fmt::Debug for dyn LowMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LowMemory")
    }
}

/// How far down a node may be emptied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Low,
    Min,
    Zero,
}

impl<S: RefScheme> FramePool<S> {
    /// Allocates a block of `order`, or none when no node has one free above its `min` watermark.
    ///
    /// Its bytes are whatever was in them last.
    #[inline]
    pub fn alloc(&self, order: Order) -> Option<UniqueFrame<'_, S>> {
        if let Some(class) = Class::of(order)
            && let Some(Some(frame)) = self.fronts.with_mine(|front| front.pop(class))
            && self.is_fit(frame, order)
        {
            return Some(self.adopt(frame, order));
        }
        self.alloc_slowly(order)
    }

    #[cold]
    #[inline(never)]
    fn alloc_slowly(&self, order: Order) -> Option<UniqueFrame<'_, S>> {
        self.alloc_by(&AllocRequest::new(order)).ok()
    }

    /// Whether a block from a front cache can be handed out. One that was poisoned there, where whoever did it could
    /// not reach it ([`Reach::Own`]), cannot: it is freed, but for what is bad of it.
    #[inline]
    fn is_fit(&self, frame: FrameNr, order: Order) -> bool {
        let is_fit = self.meta(frame).flags() == 0;
        if !is_fit {
            self.free_to_node(frame, order);
        }
        is_fit
    }

    /// Allocates a block as `request` says.
    ///
    /// # Errors
    ///
    /// [`AllocError`] when the pool has no such node, or no such block free.
    #[cold]
    pub fn alloc_by(&self, request: &AllocRequest) -> Result<UniqueFrame<'_, S>, AllocError> {
        let nr_nodes = self.nr_nodes();
        if let Place::Prefer(node) | Place::Only(node) = request.place
            && node >= nr_nodes
        {
            return Err(AllocError::NoSuchNode { node, nr_nodes });
        }
        let frame = self
            .alloc_from_front(request)
            .filter(|frame| self.is_fit(*frame, request.order))
            .or_else(|| self.alloc_from_nodes(request))
            .or_else(|| {
                // What is free may all be in the front caches: of other threads, or as parts of a block.
                (self.drain_front_caches() > 0)
                    .then(|| self.alloc_from_nodes(request))
                    .flatten()
            });
        let order = request.order;
        let frame = frame.map(|frame| self.adopt(frame, order));
        self.tell_low_memory();
        frame.ok_or(AllocError::Exhausted { order })
    }

    /// Allocates up to `nr` single frames, and appends them to `frames`. Returns how many those are; fewer
    /// only when the pool has no more above its `min` watermark.
    ///
    /// Cheaper than as many allocations, and the frames are next to each other where memory allows.
    pub fn alloc_bulk<'p>(&'p self, nr: usize, frames: &mut Vec<UniqueFrame<'p, S>>) -> usize {
        let start = frames.len();
        let wanted = nr.min(self.nr_frames());
        // Not under a lock.
        frames.reserve(wanted);
        let adopt = |frame| self.adopt(frame, Order::ZERO);
        if let Some(class) = Class::of(Order::ZERO) {
            self.fronts.with_mine(|front| {
                while frames.len() - start < wanted
                    && let Some(frame) = front.pop(class)
                {
                    if self.is_fit(frame, Order::ZERO) {
                        frames.push(adopt(frame));
                    }
                }
            });
        }
        for is_drained in [false, true] {
            if is_drained && (frames.len() - start == wanted || self.drain_front_caches() == 0) {
                break;
            }
            for mark in [Mark::Low, Mark::Min] {
                for &node in &*self.nodes[self.home_node()].fallback {
                    let left = wanted - (frames.len() - start);
                    if left == 0 {
                        break;
                    }
                    let mut buddy = lock(&self.nodes[node].buddy);
                    let nr = left.min(room(&buddy, mark));
                    buddy.alloc_bulk(&self.table, nr, |frame| frames.push(adopt(frame)));
                    self.note_low(node, &mut buddy);
                }
            }
        }
        self.tell_low_memory();
        frames.len() - start
    }

    /// As [`alloc_bulk`](Self::alloc_bulk), from one node, and not from the front caches: whoever gets too few asks for
    /// the rest one by one ([`alloc_by`](Self::alloc_by)).
    pub fn alloc_bulk_on<'p>(
        &'p self,
        node: usize,
        nr: usize,
        frames: &mut Vec<UniqueFrame<'p, S>>,
    ) -> usize {
        let Some(of_node) = self.nodes.get(node) else {
            return 0;
        };
        let start = frames.len();
        let wanted = nr.min(self.nr_frames());
        // Not under a lock.
        frames.reserve(wanted);
        let mut buddy = lock(&of_node.buddy);
        for mark in [Mark::Low, Mark::Min] {
            let left = wanted - (frames.len() - start);
            let nr = left.min(room(&buddy, mark));
            let adopt = |frame| frames.push(self.adopt(frame, Order::ZERO));
            buddy.alloc_bulk(&self.table, nr, adopt);
        }
        self.note_low(node, &mut buddy);
        drop(buddy);
        self.tell_low_memory();
        frames.len() - start
    }

    /// Registers whoever frees memory when little is left: once, for as long as the pool lives.
    ///
    /// # Errors
    ///
    /// The argument, when somebody is registered already.
    pub fn set_low_memory(&self, low_memory: Box<dyn LowMemory>) -> Result<(), Box<dyn LowMemory>> {
        self.low_memory.set(low_memory)?;
        // Of what has become low before, too.
        self.tell_low_memory();
        Ok(())
    }

    /// Gives everything in the front caches, and what is on its way between them, back to the nodes, where it can be
    /// merged; returns how many frames that was.
    pub fn drain_front_caches(&self) -> usize {
        // When memory has run out this is asked again and again, and most of the time there is nothing; a visit
        // stops everybody.
        // ORDERING: Relaxed; see `note_cached`.
        if !self.has_cached.load(Ordering::Relaxed) {
            return 0;
        }
        self.fronts.with_all(|fronts, reach| {
            if reach == Reach::All {
                // ORDERING: Relaxed; see `note_cached`.
                self.has_cached.store(false, Ordering::Relaxed);
            }
            let mut drained = 0;
            for front in fronts {
                for (frame, order) in front.take_all() {
                    self.free_to_node(frame, order);
                    drained += order.frames() as usize;
                }
            }
            for node in &self.nodes {
                let mut buddy = lock(&node.buddy);
                while let Some(frame) = buddy.depot.pop() {
                    self.free_to_buddy(&mut buddy, frame, Order::ZERO);
                    drained += 1;
                }
            }
            drained
        })
    }

    /// Notes that a front cache has something; called with it at work.
    #[inline]
    pub(crate) fn note_cached(&self) {
        // ORDERING: Relaxed, both. Owners at work and visitors are ordered by the front caches' own protocol; who
        // asks without visiting may miss a block that is being cached at that moment, as if it came before.
        if !self.has_cached.load(Ordering::Relaxed) {
            self.has_cached.store(true, Ordering::Relaxed);
        }
    }

    /// Makes the handle of a block that was just taken off a list, and so is this thread's alone.
    #[inline]
    pub(crate) fn adopt(&self, frame: FrameNr, order: Order) -> UniqueFrame<'_, S> {
        self.meta(frame).set_kind(FrameKind::Owned, order);
        UniqueFrame::new(self, frame, order)
    }

    fn alloc_from_front(&self, request: &AllocRequest) -> Option<FrameNr> {
        let class = Class::of(request.order)?;
        if request.place != Place::Anywhere {
            return None;
        }
        self.fronts
            .with_mine(|front| front.pop(class).or_else(|| self.refill(front, class)))?
    }

    /// Takes a block from this thread's node, and half a stack for next time. None if that would take the
    /// node below its low watermark: then each block is looked for by itself.
    fn refill(&self, front: &mut Front, class: Class) -> Option<FrameNr> {
        let order = class.order();
        let home = self.home_node();
        if home != front.home {
            // The other stacks have blocks of the node that the thread was on before.
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
        self.note_low(front.home, &mut buddy);
        if nr_pushed > 0 {
            self.note_cached();
        }
        // Lowest on top, so that successive allocations come out in ascending order.
        front.reverse_top(class, nr_pushed);
        first
    }

    /// Takes up to `nr` single frames from a node, not going below its low watermark: what others have freed lately, as it
    /// is; then the smallest blocks.
    fn take_frames(&self, buddy: &mut Buddy, nr: usize, keep: &mut impl FnMut(FrameNr)) {
        let mut left = nr;
        while left > 0
            && let Some(frame) = buddy.depot.pop()
        {
            keep(frame);
            left -= 1;
        }
        let room = room(buddy, Mark::Low);
        buddy.alloc_bulk(&self.table, left.min(room), keep);
    }

    /// Takes a block of `order` from a node, and up to `nr` in all, not going below its low watermark.
    fn take_blocks(
        &self,
        buddy: &mut Buddy,
        nr: usize,
        order: Order,
        keep: &mut impl FnMut(FrameNr),
    ) {
        let nr = nr.min(room(buddy, Mark::Low) >> order.get());
        for at in 0..nr {
            // To split large blocks for later would be a waste of them.
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
        let marks = match request.reserve {
            Reserve::Keep => &[Mark::Low, Mark::Min][..],
            Reserve::Use => &[Mark::Low, Mark::Min, Mark::Zero],
        };
        marks.iter().find_map(|mark| {
            fallback.iter().find_map(|&node| {
                let mut buddy = lock(&self.nodes[node].buddy);
                let has_room = room(&buddy, *mark) >= request.order.frames() as usize;
                let frame = has_room
                    .then(|| buddy.alloc(&self.table, request.order))
                    .flatten();
                self.note_low(node, &mut buddy);
                frame
            })
        })
    }

    /// The node of the processor that this thread is running on, as far as that is known.
    fn home_node(&self) -> usize {
        if self.nr_nodes() == 1 {
            return 0;
        }
        #[cfg(all(test, not(loom)))]
        if let Some(node) = tests::HOME.get() {
            return node;
        }
        let numa = numa::current();
        let node = self
            .nodes
            .iter()
            .position(|node| node.numa.is_some() && node.numa == numa);
        node.unwrap_or(0)
    }

    /// Remembers that somebody is to be told that a node has few frames left.
    fn note_low(&self, node: usize, buddy: &mut Buddy) {
        if buddy.has_become_low() {
            // ORDERING: Relaxed; it says that there is something to tell, which is looked for under no lock.
            self.low_nodes.fetch_or(1 << node, Ordering::Relaxed);
        }
    }

    /// Tells whoever is registered of the nodes that have few frames left.
    fn tell_low_memory(&self) {
        // ORDERING: Relaxed, both; see `note_low`. The swap makes one thread tell.
        if self.low_nodes.load(Ordering::Relaxed) == 0 {
            return;
        }
        let Some(low_memory) = self.low_memory.get() else {
            return;
        };
        let low = self.low_nodes.swap(0, Ordering::Relaxed);
        let nodes = 0..self.nr_nodes();
        for node in nodes.filter(|node| low & (1 << node) != 0) {
            low_memory.low(node);
        }
    }
}

/// How many frames can be taken from a node before it is below a mark.
fn room(buddy: &Buddy, mark: Mark) -> usize {
    let kept = match mark {
        Mark::Low => buddy.watermarks().low,
        Mark::Min => buddy.watermarks().min,
        Mark::Zero => 0,
    };
    buddy.nr_free().saturating_sub(kept)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use crate::{FramePool, Nodes, Order, PoolConfig};

    thread_local! {
        /// The node that this thread pretends to be on.
        pub(super) static HOME: Cell<Option<usize>> = const { Cell::new(None) };
    }

    /// Symptom: blocks on the free list of a node that they are not of. Cause: a thread that moved to another
    /// node kept the front cache's blocks of the node that it was on before, and spilled them to the new one.
    #[test]
    fn a_thread_that_moves_to_another_node_leaves_its_cached_blocks_behind() {
        let pool: FramePool = FramePool::new(&PoolConfig {
            nodes: Nodes::Unbound(2),
            ..PoolConfig::new(1 << 16)
        })
        .unwrap();
        let orders = [Order::ZERO, Order::new(1).unwrap(), Order::new(3).unwrap()];
        for home in [0, 1, 0, 1, 1, 0] {
            HOME.set(Some(home));
            for order in orders {
                let blocks: Vec<_> = (0..200).filter_map(|_| pool.alloc(order)).collect();
                assert_eq!(blocks.len(), 200);
                drop(blocks);
                pool.verify().unwrap();
            }
        }
        pool.drain_front_caches();
        assert_eq!(pool.stats().nr_free, 1 << 16);
        pool.verify().unwrap();
    }
}
