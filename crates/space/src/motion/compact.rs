//! Compaction: a large block is made free by moving pages out of its place: of spaces, and of the files beside them.
//!
//! Protocol.
//! 1. Rank the places where such a block may be: those of which nothing but pages is in use, the emptiest first.
//! 2. Take what is free in the place, so that nobody allocates it meanwhile.
//! 3. Isolate the pages of spaces in it, found by their frames: with a reference in hand, and if anything still names them. Move
//!    them to frames elsewhere, by the walks of [`crate::motion::migrate`], up to [`BATCH`] at a time. Pages of files are moved
//!    by the cache that they are of, dirty or not ([`crate::FrameSource::move_page`]).
//! 4. Take what has become free, and join the parts. What somebody else was quicker to allocate, or could not be moved, makes the
//!    place useless: everything is given back, and the next one is tried.
//!
//! What is not moved: tables, pinned pages, the leaves of files' indices, and everything that is no page. A page of an area
//! that is bound to a node is moved within the node where it is, and to no other; the place is given up if there is no room.
//! The page's record says that it is bound, since the areas that map it are found by a walk only: it goes by the policy that
//! the page was made under, as do those of areas whose policy was changed since. Other pages, and those of files, go to other
//! nodes if theirs has no room. Where frames run out for those that are moved, the cache evicts some: on the same nodes.
//!
//! Evicting may wait, for transfers from storages. What is isolated by then is moved
//! first, so no page is isolated meanwhile: it could not be migrated by others, its frame would not become free when
//! it is unmapped, and a write to it would copy it though nobody else has it.
//!
//! It runs by itself when a large page is written first and no block is free.

use std::ops::Range;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{
    AllocRequest, FrameKind, FrameNr, FramePool, Order, Place, TryGetFrame, UniqueFrame,
};

use crate::motion::mover::Mover;
use crate::motion::page::Moving;
use crate::motion::report::{Engine, Migrated};
use crate::pages::owner::Binding;
use crate::pages::record::Pages;
use crate::supply::frames::Supply;

/// How many places are tried for one block.
const MAX_PLACES: usize = 16;

/// How often the source is asked to make room for one page.
const MAKE_ROOM_TRIES: usize = 4;

/// How many pages are moved at once.
pub(crate) const BATCH: usize = 64;

/// Makes room for large blocks.
#[derive(Clone, Copy)]
pub(crate) struct Compactor<'s, S: RefScheme> {
    supply: &'s Supply<S>,
}

impl<'s, S: RefScheme> Compactor<'s, S> {
    pub(crate) fn of(supply: &'s Supply<S>) -> Self {
        Self { supply }
    }

    fn pool(self) -> &'s FramePool<S> {
        self.supply.pool()
    }

    /// Allocates a block, making room if there is none; for a large one by moving pages out of the way too.
    pub(crate) fn alloc(self, order: Order, place: Place) -> Option<UniqueFrame<'s, S>> {
        if let Some(block) = self.supply.alloc(order, place) {
            return Some(block);
        }
        // The frames may be there, and scattered.
        (order > Order::ZERO)
            .then(|| self.compact(order, place))
            .flatten()
    }

    /// A block of `order` that may be at `place`, made by moving pages.
    fn compact(self, order: Order, place: Place) -> Option<UniqueFrame<'s, S>> {
        self.places(order, place)
            .into_iter()
            .take(MAX_PLACES)
            .find_map(|first| self.empty_place(first, order))
    }

    /// Step 1.
    fn places(self, order: Order, place: Place) -> Vec<FrameNr> {
        let pool = self.pool();
        let mut places = Vec::new();
        let mut first = 0;
        while first + order.frames() <= pool.nr_frames() as u32 {
            let frame = FrameNr::new(first);
            first += order.frames();
            let is_elsewhere =
                matches!(place, Place::Only(node) if pool.node_of(frame) != Some(node));
            if is_elsewhere || !pool.may_be_block(frame, order) {
                continue;
            }
            if let Some(nr_used) = self.nr_movable(frame, order) {
                places.push((nr_used, frame));
            }
        }
        places.sort_unstable();
        places.into_iter().map(|(_, frame)| frame).collect()
    }

    /// How many frames of a place are in use, if all of them are pages. A hint.
    fn nr_movable(self, first: FrameNr, order: Order) -> Option<u32> {
        let mut nr_used = 0;
        let mut nr = first.get();
        let end = first.get() + order.frames();
        while nr < end {
            let (kind, of_block) = self.pool().meta(FrameNr::new(nr)).kind();
            let in_block = of_block.frames().min(end - nr);
            match kind {
                FrameKind::Free | FrameKind::Front => {}
                FrameKind::Anon if of_block < order => nr_used += in_block,
                // A page of a file that somebody holds stays.
                FrameKind::Page
                    if of_block < order && self.pool().meta(FrameNr::new(nr)).count() == 1 =>
                {
                    nr_used += in_block;
                }
                _ => return None,
            }
            nr += in_block;
        }
        Some(nr_used)
    }

    /// Steps 2 to 4.
    fn empty_place(self, first: FrameNr, order: Order) -> Option<UniqueFrame<'s, S>> {
        let pool = self.pool();
        let mut parts = pool.take_free_within(first, order);
        if self.move_out(first, order, &mut parts) {
            parts.extend(pool.take_free_within(first, order));
        }
        parts.sort_unstable_by_key(UniqueFrame::frame);
        // If parts are missing they are all given back.
        pool.join(parts, order)
    }

    /// Step 3; false if there is something that cannot be moved. What is allocated of the place itself becomes a part of it.
    fn move_out(self, first: FrameNr, order: Order, parts: &mut Vec<UniqueFrame<'s, S>>) -> bool {
        let end = first.get() + order.frames();
        let mut targets = Targets {
            supply: self.supply,
            place: first.get()..end,
            parts,
            spare: None,
        };
        let mut nr = first.get();
        let mut nr_tries = 0;
        let mut report = Migrated::default();
        while nr < end {
            let mut batch: Vec<Moving<'_, S>> = Vec::new();
            let mut found = Found::Done;
            while nr < end && batch.len() < BATCH {
                let frame = FrameNr::new(nr);
                let (kind, of_block) = self.pool().meta(frame).kind();
                found = match kind {
                    FrameKind::Anon => self.isolate_frame(frame, of_block, &mut targets),
                    FrameKind::Page => self.move_of_file(frame, of_block, &mut targets),
                    _ => Found::Done,
                };
                match found {
                    Found::Isolated(page) => batch.push(page),
                    Found::Done => {}
                    Found::Stuck | Found::NoRoom(..) => break,
                }
                found = Found::Done;
                nr_tries = 0;
                nr += of_block.frames();
            }
            // Also what was isolated before it turned out that there is no room for more: nobody has a page isolated while
            // room is made.
            Mover::of(self.supply).move_batch(&mut batch, Engine::Batched, &mut report);
            if batch.iter().any(|page| page.failure().is_some()) {
                return false;
            }
            match found {
                Found::Stuck => return false,
                Found::NoRoom(order, wanted) => {
                    nr_tries += 1;
                    if nr_tries > MAKE_ROOM_TRIES || !targets.make_room(order, wanted) {
                        return false;
                    }
                }
                Found::Isolated(_) | Found::Done => {}
            }
        }
        true
    }

    /// Moves the page of a file that is in `frame`; to any node.
    fn move_of_file(
        self,
        frame: FrameNr,
        order: Order,
        targets: &mut Targets<'_, 's, S>,
    ) -> Found<'s, S> {
        let Some(node) = self.pool().node_of(frame) else {
            return Found::Stuck;
        };
        let wanted = Place::Prefer(node);
        let Some(to) = targets.next(order, wanted) else {
            return Found::NoRoom(order, wanted);
        };
        match self.supply.move_page(frame, to) {
            Ok(left) => {
                targets.parts.push(left);
                Found::Done
            }
            Err(_) => Found::Stuck,
        }
    }

    /// Isolates the page in `frame`, with a frame for it to go to: out of the place, and where it may be.
    fn isolate_frame(
        self,
        frame: FrameNr,
        order: Order,
        targets: &mut Targets<'_, 's, S>,
    ) -> Found<'s, S> {
        let pages = Pages::of(self.pool());
        let TryGetFrame::Taken(reference) = self.pool().try_get(frame) else {
            return Found::Stuck;
        };
        // With the reference in hand the frame stays what it is.
        let is_page = reference.meta().kind() == (FrameKind::Anon, order);
        let is_isolated = is_page && pages.try_isolate(frame);
        // What is counted keeps it from being freed now; and a reference would look like a pin.
        drop(reference);
        let Some(node) = self.pool().node_of(frame).filter(|_| is_isolated) else {
            return Found::Stuck;
        };
        // While it is isolated the record is the page's.
        let wanted = match pages.owner_of(frame).binding {
            Binding::Anywhere => Place::Prefer(node),
            Binding::Node => Place::Only(node),
        };
        match targets.next(order, wanted) {
            Some(to) => Found::Isolated(Moving::new(pages, frame, to)),
            None => {
                pages.end_isolation(frame);
                Found::NoRoom(order, wanted)
            }
        }
    }
}

/// What became of what is in a frame of the place.
enum Found<'s, S: RefScheme> {
    /// Nothing has to be moved, or it was.
    Done,
    /// It is a page of a space, isolated, to be moved with the batch.
    Isolated(Moving<'s, S>),
    /// There is no block of this order where it may go; nothing has changed.
    NoRoom(Order, Place),
    /// It cannot be moved: it is being freed, or pinned.
    Stuck,
}

/// Where pages are moved to: blocks out of the place.
struct Targets<'p, 's, S: RefScheme> {
    supply: &'s Supply<S>,
    place: Range<u32>,
    /// What there is of the place.
    parts: &'p mut Vec<UniqueFrame<'s, S>>,
    /// A block that room was made for.
    spare: Option<UniqueFrame<'s, S>>,
}

impl<'s, S: RefScheme> Targets<'_, 's, S> {
    /// A block that is wanted for a page, if one is free.
    fn next(&mut self, order: Order, wanted: Place) -> Option<UniqueFrame<'s, S>> {
        let pool = self.supply.pool();
        let fits = |spare: &UniqueFrame<'_, S>| {
            let node = pool.node_of(spare.frame());
            spare.order() == order && !matches!(wanted, Place::Only(only) if node != Some(only))
        };
        if let Some(spare) = self.spare.take_if(|spare| fits(spare)) {
            return Some(spare);
        }
        let request = AllocRequest {
            order,
            place: wanted,
        };
        loop {
            let to = pool.alloc_by(&request).ok()?;
            if !self.place.contains(&to.frame().get()) {
                return Some(to);
            }
            // One that has just become free.
            self.parts.push(to);
        }
    }

    /// Has the source make room for a block that is wanted; false if it has none. It may wait, so nothing is isolated.
    fn make_room(&mut self, order: Order, wanted: Place) -> bool {
        // Each that is of the place becomes a part of it, so there are no more of these than frames.
        while let Some(block) = self.supply.make_room(order, wanted) {
            if !self.place.contains(&block.frame().get()) {
                self.spare = Some(block);
                return true;
            }
            self.parts.push(block);
        }
        false
    }
}
