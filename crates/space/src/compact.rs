//! Compaction: a large block is made free by moving pages out of its place: of spaces, and of the files beside them.
//!
//! Protocol.
//! 1. Rank the places where such a block may be: those of which nothing but pages is in use, the emptiest first.
//! 2. Take what is free in the place, so that nobody allocates it meanwhile.
//! 3. Isolate the pages of spaces in it, found by their frames: with a reference in hand, and if anything still names them.
//!    Move them to frames elsewhere, by the walks of [`crate::migrate`]. Pages of files are moved by the cache that they are
//!    of, dirty or not ([`crate::FrameSource::move_page`]).
//! 4. Take what has become free, and join the parts. What somebody else was quicker to allocate, or could not be moved, makes the
//!    place useless: everything is given back, and the next one is tried.
//!
//! What is not moved: tables, pinned pages, the leaves of files' indices, and everything that is no page. A page of an area
//! that is bound to a node is moved within the node where it is, and to no other; the place is given up if there is no room.
//! The page's record says that it is bound, since the areas that map it are found by a walk only: it goes by the policy that
//! the page was made under, as do those of areas whose policy was changed since. Other pages, and those of files, go to other
//! nodes if theirs has no room. Where frames run out for those that are moved, the cache evicts some.
//!
//! It runs by itself when a large page is written first and no block is free.

use std::ops::Range;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{
    AllocRequest, FrameKind, FrameNr, Order, Place, Reserve, TryGetFrame, UniqueFrame,
};

use crate::error::{Error, ErrorKind, Op};
use crate::frames::Binding;
use crate::migrate::{Engine, Migrated};
use crate::moving::Moving;
use crate::shared::Shared;
use crate::space::Spaces;

/// How many places are tried for one block.
const MAX_PLACES: usize = 16;

/// How often the source is asked to make room for one page.
const MAKE_ROOM_TRIES: usize = 4;

/// How many pages are moved at once.
const BATCH: usize = 64;

impl<S: RefScheme> Spaces<S> {
    /// Allocates a block of `order`, wherever it is. If there is none free, pages of spaces are moved until there is. Accesses
    /// go on meanwhile, as during a migration.
    ///
    /// # Errors
    ///
    /// [`OutOfFrames`](ErrorKind::OutOfFrames) when too few frames are free, or there is something in every place that cannot
    /// be moved.
    pub fn alloc_block(&self, order: Order) -> Result<UniqueFrame<'_, S>, Error> {
        let shared = self.shared();
        shared
            .alloc(order, Place::Anywhere)
            .ok_or_else(|| Error::new(ErrorKind::OutOfFrames, Op::Compact))
    }
}

impl<S: RefScheme> Shared<S> {
    /// A block of `order` that may be at `place`, made by moving pages.
    pub(crate) fn compact(&self, order: Order, place: Place) -> Option<UniqueFrame<'_, S>> {
        self.places(order, place)
            .into_iter()
            .take(MAX_PLACES)
            .find_map(|first| self.empty_place(first, order))
    }

    /// Step 1.
    fn places(&self, order: Order, place: Place) -> Vec<FrameNr> {
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
    fn nr_movable(&self, first: FrameNr, order: Order) -> Option<u32> {
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
    fn empty_place(&self, first: FrameNr, order: Order) -> Option<UniqueFrame<'_, S>> {
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
    fn move_out<'s>(
        &'s self,
        first: FrameNr,
        order: Order,
        parts: &mut Vec<UniqueFrame<'s, S>>,
    ) -> bool {
        let end = first.get() + order.frames();
        let place = first.get()..end;
        let mut nr = first.get();
        let mut report = Migrated::default();
        while nr < end {
            let mut batch: Vec<Moving<'_, S>> = Vec::new();
            let mut is_stuck = false;
            while nr < end && batch.len() < BATCH && !is_stuck {
                let frame = FrameNr::new(nr);
                let (kind, of_block) = self.pool().meta(frame).kind();
                nr += of_block.frames();
                // Being freed, pinned, or there is no room for it: then it is stuck.
                match kind {
                    FrameKind::Anon => match self.isolate_frame(frame, of_block, &place, parts) {
                        Some(page) => batch.push(page),
                        None => is_stuck = true,
                    },
                    FrameKind::Page => {
                        let to = self.frame_elsewhere(frame, of_block, &place, parts);
                        match to.map(|to| self.source.move_page(frame, to)) {
                            Some(Ok(left)) => parts.push(left),
                            Some(Err(_)) | None => is_stuck = true,
                        }
                    }
                    _ => {}
                }
            }
            self.move_batch(&mut batch, Engine::Batched, &mut report);
            if is_stuck || batch.iter().any(|page| page.failure().is_some()) {
                return false;
            }
        }
        true
    }

    /// A block for what is in `frame`, which may be on any node, outside of the place.
    fn frame_elsewhere<'s>(
        &'s self,
        frame: FrameNr,
        order: Order,
        place: &Range<u32>,
        parts: &mut Vec<UniqueFrame<'s, S>>,
    ) -> Option<UniqueFrame<'s, S>> {
        let wanted = Place::Prefer(self.pool().node_of(frame)?);
        let mut nr_tries = 0;
        loop {
            if let Some(to) = self.alloc_outside(order, wanted, place, parts) {
                return Some(to);
            }
            self.make_room_again(&mut nr_tries, order, wanted)?;
        }
    }

    /// A block that is not in the place, if one is free. What is in the place becomes a part of it.
    fn alloc_outside<'s>(
        &'s self,
        order: Order,
        wanted: Place,
        place: &Range<u32>,
        parts: &mut Vec<UniqueFrame<'s, S>>,
    ) -> Option<UniqueFrame<'s, S>> {
        let request = AllocRequest {
            order,
            place: wanted,
            reserve: Reserve::Use,
        };
        loop {
            let to = self.pool().alloc_by(&request).ok()?;
            if !place.contains(&to.frame().get()) {
                return Some(to);
            }
            // One that has just become free.
            parts.push(to);
        }
    }

    /// Has the owner of the frames evict some; None if that is no use any more.
    fn make_room_again(&self, nr_tries: &mut usize, order: Order, wanted: Place) -> Option<()> {
        *nr_tries += 1;
        (*nr_tries <= MAKE_ROOM_TRIES && self.source.make_room(order, wanted)).then_some(())
    }

    /// Isolates the page in `frame`, with a frame for it to go to: out of the place, and where it may be.
    fn isolate_frame<'s>(
        &'s self,
        frame: FrameNr,
        order: Order,
        place: &Range<u32>,
        parts: &mut Vec<UniqueFrame<'s, S>>,
    ) -> Option<Moving<'s, S>> {
        let mut nr_tries = 0;
        loop {
            let TryGetFrame::Taken(reference) = self.pool().try_get(frame) else {
                return None;
            };
            // With the reference in hand the frame stays what it is.
            let is_page = reference.meta().kind() == (FrameKind::Anon, order);
            let is_isolated = is_page && self.try_isolate(frame);
            // What is counted keeps it from being freed now; and a reference would look like a pin.
            drop(reference);
            if !is_isolated {
                return None;
            }
            let wanted = self.pool().node_of(frame).map(|node| {
                // While it is isolated the record is the page's.
                match self.owner_of(frame).binding {
                    Binding::Anywhere => Place::Prefer(node),
                    Binding::Node => Place::Only(node),
                }
            });
            let to = wanted.and_then(|wanted| self.alloc_outside(order, wanted, place, parts));
            if let Some(to) = to {
                return Some(Moving::new(self, frame, to));
            }
            // Eviction may wait, so this page is not isolated meanwhile. Those of the batch are; none of their entries was
            // turned yet, so nobody waits for them.
            self.end_isolation(frame);
            self.make_room_again(&mut nr_tries, order, wanted?)?;
        }
    }
}
