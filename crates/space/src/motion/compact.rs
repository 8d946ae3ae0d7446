//! Compaction: assembles a large block by moving pages of spaces and of files out of an aligned
//! range of frames, the block's *place*.
//!
//! Protocol.
//! 1. Rank the places for such a block in which only pages are in use, the emptiest first.
//! 2. Allocate the free parts of the place, so that no other thread allocates them.
//! 3. Isolate the pages of spaces in the place, found by their frames: acquire a reference first,
//!    and check that entries name the page. Move up to [`BATCH`] of them at a time by walks
//!    ([`crate::change::migrate`]). The cache moves pages of files, dirty or not
//!    ([`crate::FrameSource::move_page`]).
//! 4. Allocate the parts that became free, and join all parts. If another thread allocated a part
//!    first, or a page cannot be moved, free everything and try the next place.
//!
//! Pinned pages and frames that are no pages (tables, index leaves of files) are not moved. A page
//! moves only within its node if its area was bound to the node when the page was created, which
//! its metadata records. Other pages may leave their node. If no permitted block is free, the cache
//! evicts pages to free one, or else the place is given up. Eviction may wait for transfers of
//! backends. Isolated pages are moved first: during the wait, they could not be migrated, unmapping
//! would not free their frames, and writes would copy them.

use std::ops::Range;

use pagewell_frame::{AllocRequest, FrameKind, FrameNr, Order, Place, TryGetFrame, UniqueFrame};

use crate::motion::mover::Moving;
use crate::motion::report::{Engine, Migrated};
use crate::supply::frames::Supply;

const MAX_PLACES: usize = 16;

/// Maximum number of reclaim requests for the target of one page.
const MAKE_ROOM_TRIES: usize = 4;

/// Maximum number of pages that are moved at once.
pub(crate) const BATCH: usize = 64;

impl Supply {
    /// Assembles a block of several frames.
    pub(crate) fn compact(&self, order: Order, place: Place) -> Option<UniqueFrame<'_>> {
        self.places(order, place)
            .into_iter()
            .take(MAX_PLACES)
            .find_map(|first| self.empty_place(first, order))
    }

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

    /// Returns the number of used frames, or `None` if some are not movable pages. This is a hint.
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
                // A page of a file is movable only if no other thread has a reference.
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

    fn empty_place(&self, first: FrameNr, order: Order) -> Option<UniqueFrame<'_>> {
        let pool = self.pool();
        let mut parts = pool.take_free_within(first, order);
        if self.move_out(first, order, &mut parts) {
            parts.extend(pool.take_free_within(first, order));
        }
        parts.sort_unstable_by_key(UniqueFrame::frame);
        // If parts are missing, this frees all parts.
        pool.join(parts, order)
    }

    /// Step 3. Returns `false` if a page cannot be moved. Adds freed blocks to `parts`.
    fn move_out<'s>(
        &'s self,
        first: FrameNr,
        order: Order,
        parts: &mut Vec<UniqueFrame<'s>>,
    ) -> bool {
        let end = first.get() + order.frames();
        let mut targets = Targets {
            supply: self,
            place: first.get()..end,
            parts,
            spare: None,
        };
        let mut nr = first.get();
        let mut nr_tries = 0;
        let mut report = Migrated::default();
        while nr < end {
            let mut batch: Vec<Moving<'_>> = Vec::new();
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
            // If a target was missing, no page may stay isolated during reclaim.
            self.move_batch(&mut batch, Engine::Batched, &mut report);
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

    fn move_of_file<'s>(
        &'s self,
        frame: FrameNr,
        order: Order,
        targets: &mut Targets<'_, 's>,
    ) -> Found<'s> {
        let Some(node) = self.pool().node_of(frame) else {
            return Found::Stuck;
        };
        let wanted = Place::Prefer(node);
        let Some(to) = targets.next(order, wanted) else {
            return Found::NoRoom(order, wanted);
        };
        match self.move_page(frame, to) {
            Ok(left) => {
                targets.parts.push(left);
                Found::Done
            }
            Err(_) => Found::Stuck,
        }
    }

    /// Isolates the page in `frame`, if a permitted target outside the place is free.
    fn isolate_frame<'s>(
        &'s self,
        frame: FrameNr,
        order: Order,
        targets: &mut Targets<'_, 's>,
    ) -> Found<'s> {
        let TryGetFrame::Taken(reference) = self.pool().try_get(frame) else {
            return Found::Stuck;
        };
        // The reference keeps the frame from being freed, and so its kind from changing.
        let is_page = reference.meta().kind() == (FrameKind::Anon, order);
        let is_isolated = is_page && self.try_isolate(frame);
        // Dropped now: the check for pins would count it. The isolated bit keeps the frame.
        drop(reference);
        let Some(node) = self.pool().node_of(frame).filter(|_| is_isolated) else {
            return Found::Stuck;
        };
        // While the page is isolated, the metadata belongs to the page.
        let wanted = match self.owner_of(frame).is_bound {
            true => Place::Only(node),
            false => Place::Prefer(node),
        };
        match targets.next(order, wanted) {
            Some(to) => Found::Isolated(Moving::new(self, frame, to, None)),
            None => {
                self.end_isolation(frame);
                Found::NoRoom(order, wanted)
            }
        }
    }
}

enum Found<'s> {
    /// The frame contains nothing to be moved, or its page has been moved.
    Done,
    /// Isolated page of a space, to be moved with the batch.
    Isolated(Moving<'s>),
    /// No permitted block of this order is free. The page is unchanged.
    NoRoom(Order, Place),
    /// The page cannot be moved, for example because it is being freed or is pinned.
    Stuck,
}

/// Targets of pages: blocks outside the place.
struct Targets<'p, 's> {
    supply: &'s Supply,
    place: Range<u32>,
    parts: &'p mut Vec<UniqueFrame<'s>>,
    spare: Option<UniqueFrame<'s>>,
}

impl<'s> Targets<'_, 's> {
    fn next(&mut self, order: Order, wanted: Place) -> Option<UniqueFrame<'s>> {
        let pool = self.supply.pool();
        let fits = |spare: &UniqueFrame<'_>| {
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
            // This block of the place has just become free, so it is a part, not a target.
            self.parts.push(to);
        }
    }

    /// Requests a block from the source. May wait, so the caller must have no isolated page.
    fn make_room(&mut self, order: Order, wanted: Place) -> bool {
        // Progress: each iteration but the last adds a block of the place to `parts`.
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
