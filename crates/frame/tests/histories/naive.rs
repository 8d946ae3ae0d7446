//! The naive allocator: what each frame is, one by one. It has no lists, and knows nothing of buddies.

use std::ops::Range;

use pagewell_frame::{FrameNr, Order, Place};

/// Whose a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A handle's.
    Handle,
    /// A range's.
    Range,
    /// Only references are left.
    Nobody,
}

/// An allocated block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) order: Order,
    pub(crate) owner: Owner,
    /// The range's, if it has one, and those that were taken.
    pub(crate) refs: u32,
}

#[derive(Clone, Copy, Debug)]
enum Frame {
    Free,
    Head(Block),
    Tail,
}

pub(crate) struct Naive {
    /// Where each node begins, and where the last one ends.
    borders: Vec<usize>,
    frames: Vec<Frame>,
}

impl Naive {
    pub(crate) fn new(nr_frames: usize, nr_nodes: usize) -> Self {
        let mut borders: Vec<usize> = (0..=nr_nodes).map(|i| nr_frames * i / nr_nodes).collect();
        let smallest = borders.windows(2).map(|node| node[1] - node[0]).min();
        // Borders of large nodes are aligned to blocks of which a node has 64 or more.
        let unit = (0..=10).rev().map(|order| 1 << order);
        let unit = unit.clone().find(|unit| smallest.unwrap_or(0) / unit >= 64);
        for border in &mut borders[..nr_nodes] {
            *border -= *border % unit.unwrap_or(1);
        }
        Self {
            borders,
            frames: vec![Frame::Free; nr_frames],
        }
    }

    pub(crate) fn nr_nodes(&self) -> usize {
        self.borders.len() - 1
    }

    fn node(&self, node: usize) -> Range<usize> {
        self.borders[node]..self.borders[node + 1]
    }

    fn node_of(&self, frame: usize) -> Option<Range<usize>> {
        let mut nodes = (0..self.nr_nodes()).map(|node| self.node(node));
        nodes.find(|node| node.contains(&frame))
    }

    pub(crate) fn is_free(&self, frame: usize) -> bool {
        matches!(self.frames[frame], Frame::Free)
    }

    fn count(&self, frames: Range<usize>, is_counted: impl Fn(&Frame) -> bool) -> usize {
        let frames = self.frames[frames].iter();
        frames.filter(|frame| is_counted(frame)).count()
    }

    /// How many frames are allocated, and free.
    pub(crate) fn accounts(&self) -> (usize, usize) {
        let free = self.count(0..self.frames.len(), |frame| matches!(frame, Frame::Free));
        (self.frames.len() - free, free)
    }

    /// Whether there can be a block of `order` at `first`: aligned, and all of it in one node.
    pub(crate) fn may_be_block(&self, first: usize, order: Order) -> bool {
        let len = order.frames() as usize;
        first.is_multiple_of(len)
            && self
                .node_of(first)
                .is_some_and(|node| first + len <= node.end)
    }

    /// Whether there is a free block of `order` that such a request may have.
    pub(crate) fn has(&self, order: Order, place: Place) -> bool {
        let len = order.frames() as usize;
        (0..self.nr_nodes()).any(|node| {
            let is_allowed = place == Place::Only(node) || !matches!(place, Place::Only(_));
            let frames = self.node(node);
            is_allowed
                && (frames.start.next_multiple_of(len)..frames.end)
                    .step_by(len)
                    .any(|first| {
                        first + len <= frames.end && (first..first + len).all(|at| self.is_free(at))
                    })
        })
    }

    /// Allocates a block that the pool has chosen; false if it could not be that one.
    pub(crate) fn alloc(&mut self, first: FrameNr, order: Order) -> bool {
        let first = first.index();
        let frames = first..first + order.frames() as usize;
        let may_be =
            self.may_be_block(first, order) && frames.clone().all(|frame| self.is_free(frame));
        if may_be {
            self.frames[frames].fill(Frame::Tail);
            self.frames[first] = Frame::Head(Block {
                order,
                owner: Owner::Handle,
                refs: 0,
            });
        }
        may_be
    }

    pub(crate) fn block(&self, first: usize) -> Option<Block> {
        match self.frames.get(first)? {
            Frame::Head(block) => Some(*block),
            Frame::Free | Frame::Tail => None,
        }
    }

    /// Leaves a handle's block to one reference.
    pub(crate) fn publish(&mut self, first: FrameNr) {
        if let Frame::Head(block) = &mut self.frames[first.index()] {
            block.owner = Owner::Nobody;
            block.refs = 1;
        }
    }

    /// Makes one block, a handle's, of frames that a handle had.
    pub(crate) fn join(&mut self, first: FrameNr, order: Order) {
        let first = first.index();
        self.frames[first..first + order.frames() as usize].fill(Frame::Free);
        self.alloc(FrameNr::new(first as u32), order);
    }

    pub(crate) fn make_handle(&mut self, first: FrameNr) {
        if let Frame::Head(block) = &mut self.frames[first.index()] {
            block.owner = Owner::Handle;
            block.refs = 0;
        }
    }

    /// Makes single frames of a block.
    pub(crate) fn split_block(&mut self, first: FrameNr, order: Order) {
        let first = first.index();
        self.frames[first..first + order.frames() as usize].fill(Frame::Head(Block {
            order: Order::ZERO,
            owner: Owner::Range,
            refs: 1,
        }));
    }

    /// Frees a block, whoever holds it.
    pub(crate) fn free_block(&mut self, first: FrameNr) {
        if let Some(block) = self.block(first.index()) {
            self.free_frames(first.index()..first.index() + block.order.frames() as usize);
        }
    }

    pub(crate) fn free_frames(&mut self, frames: Range<usize>) {
        self.frames[frames].fill(Frame::Free);
    }

    /// Frees a range; how many of its frames are held.
    pub(crate) fn free_range(&mut self, first: usize, nr: usize) -> usize {
        let frames = first..first + nr;
        frames.filter(|at| !self.give_up(*at)).count()
    }

    fn give_up(&mut self, first: usize) -> bool {
        if let Frame::Head(block) = &mut self.frames[first] {
            assert_eq!(block.owner, Owner::Range);
            block.owner = Owner::Nobody;
        }
        self.put(FrameNr::new(first as u32))
    }

    /// Takes a reference; whether there is one to be had.
    pub(crate) fn try_get(&mut self, frame: usize) -> bool {
        match &mut self.frames[frame] {
            Frame::Head(block) if block.refs > 0 => {
                block.refs += 1;
                true
            }
            _ => false,
        }
    }

    /// Drops a reference; whether that frees the block.
    pub(crate) fn put(&mut self, frame: FrameNr) -> bool {
        let Frame::Head(block) = &mut self.frames[frame.index()] else {
            return false;
        };
        block.refs -= 1;
        let is_last = block.refs == 0;
        if is_last {
            self.free_block(frame);
        }
        is_last
    }
}
