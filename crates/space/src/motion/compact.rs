//! Compaction: assembles a large block by moving pages, of spaces and of files, out of its place.
//!
//! Protocol.
//! 1. Rank the places for such a block: those in which only pages are in use, the emptiest first.
//! 2. Allocate the free parts of the place, so that no other thread does.
//! 3. Isolate the pages of spaces in it. They are found by their frames, so hold a reference, and
//!    check that entries name the page. Move them to other frames, by the walks of
//!    [`crate::motion::migrate`], up to [`BATCH`] at a time. The cache moves pages of files, dirty
//!    or not ([`crate::FrameSource::move_page`]).
//! 4. Allocate the parts that became free, and join all parts. If another thread allocated a part
//!    first, or a page cannot be moved, free everything and try the next place.
//!
//! Not moved: tables, pinned pages, index leaves of files, and all frames that are no pages. A page
//! of an area that is bound to a node is moved within its node only; if that has no room, the place
//! is given up. The page's metadata has the binding, since only a walk finds the areas that map it.
//! It follows the policy under which the page was created, also in areas whose policy was changed
//! since. Other pages, and those of files, move to other nodes if theirs has no room. If frames run
//! out for moved pages, the cache evicts some: on the same nodes.
//!
//! Eviction may wait for transfers of backends. Pages that are already isolated are moved first, so
//! no page is isolated during the wait: other threads could not migrate it, its frame would not
//! become free when it is unmapped, and a write would copy it although it is not shared.
//!
//! Compaction starts by itself when a new large page finds no free block; `Spaces::alloc_block`
//! requests it, too.

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

const MAX_PLACES: usize = 16;

/// Maximum number of reclaim requests for a page.
const MAKE_ROOM_TRIES: usize = 4;

/// Maximum number of pages that are moved at once.
pub(crate) const BATCH: usize = 64;

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

    /// Allocates a block. If none is free, evicts pages, and for a large block also moves some.
    pub(crate) fn alloc(self, order: Order, place: Place) -> Option<UniqueFrame<'s, S>> {
        if let Some(block) = self.supply.alloc(order, place) {
            return Some(block);
        }
        // Enough frames may be free, but scattered.
        (order > Order::ZERO)
            .then(|| self.compact(order, place))
            .flatten()
    }

    fn compact(self, order: Order, place: Place) -> Option<UniqueFrame<'s, S>> {
        self.places(order, place)
            .into_iter()
            .take(MAX_PLACES)
            .find_map(|first| self.empty_place(first, order))
    }

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

    /// Returns the number of used frames of a place, or `None` if some are no movable pages. A
    /// hint.
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
                // Pages of files with other references stay.
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

    fn empty_place(self, first: FrameNr, order: Order) -> Option<UniqueFrame<'s, S>> {
        let pool = self.pool();
        let mut parts = pool.take_free_within(first, order);
        if self.move_out(first, order, &mut parts) {
            parts.extend(pool.take_free_within(first, order));
        }
        parts.sort_unstable_by_key(UniqueFrame::frame);
        // If parts are missing, all are freed.
        pool.join(parts, order)
    }

    /// Step 3. Returns `false` if a page cannot be moved. Frames of the place that are allocated
    /// here are added to `parts`.
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
            // Also the pages isolated before a target was missing: none is isolated during reclaim.
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

    /// Isolates the page in `frame`, and allocates a permitted target outside the place.
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
        // The reference keeps the frame from changing.
        let is_page = reference.meta().kind() == (FrameKind::Anon, order);
        let is_isolated = is_page && pages.try_isolate(frame);
        // The counts keep the frame from being freed now, and a reference would look like a pin.
        drop(reference);
        let Some(node) = self.pool().node_of(frame).filter(|_| is_isolated) else {
            return Found::Stuck;
        };
        // The isolation keeps the metadata the page's.
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

enum Found<'s, S: RefScheme> {
    /// Nothing was to be moved, or it was moved.
    Done,
    /// Isolated page of a space, to be moved with the batch.
    Isolated(Moving<'s, S>),
    /// No permitted block of this order is free. Nothing has changed.
    NoRoom(Order, Place),
    /// Cannot be moved: being freed, or pinned.
    Stuck,
}

/// Targets of pages: blocks outside the place.
struct Targets<'p, 's, S: RefScheme> {
    supply: &'s Supply<S>,
    place: Range<u32>,
    parts: &'p mut Vec<UniqueFrame<'s, S>>,
    spare: Option<UniqueFrame<'s, S>>,
}

impl<'s, S: RefScheme> Targets<'_, 's, S> {
    /// Returns a block that is permitted for a page, if one is free.
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
            // Just became free.
            self.parts.push(to);
        }
    }

    /// Has the source reclaim a block, or returns `false`. May wait, so no page is isolated.
    fn make_room(&mut self, order: Order, wanted: Place) -> bool {
        // Blocks of the place are added to its parts, so the loop is bounded by its frames.
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
