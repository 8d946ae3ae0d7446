//! Compaction: a large block is made free by moving pages out of its place: of spaces, and of the files beside them.
//!
//! Protocol.
//! 1. Rank the places where such a block may be: those of which nothing but pages is in use, the emptiest first.
//! 2. Take what is free in the place, so that nobody allocates it meanwhile.
//! 3. Isolate the pages of spaces in it, found by their frames: with a reference in hand, and if anything still names them.
//!    Move them to frames elsewhere, by the walks of [`crate::migrate`], up to [`BATCH`] at a time. Pages of files are moved by
//!    the cache that they are of, dirty or not ([`crate::FrameSource::move_page`]).
//! 4. Take what has become free, and join the parts. What somebody else was quicker to allocate, or could not be moved, makes the
//!    place useless: everything is given back, and the next one is tried.
//!
//! What is not moved: tables, pinned pages, the leaves of files' indices, and everything that is no page. A page of an area
//! that is bound to a node is moved within the node where it is, and to no other; the place is given up if there is no room.
//! The page's record says that it is bound, since the areas that map it are found by a walk only: it goes by the policy that
//! the page was made under, as do those of areas whose policy was changed since. Other pages, and those of files, go to other
//! nodes if theirs has no room. Where frames run out for those that are moved, the cache evicts some: on the same nodes.
//!
//! Evicting may wait, for about a tenth of a second when there is nothing to evict. What is isolated by then is moved
//! first, so no page is isolated meanwhile: it could not be migrated by others, its frame would not become free when
//! it is unmapped, and a write to it would copy it though nobody else has it.
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
        shared.with_room(
            |_| (order, Place::Anywhere),
            || {
                shared
                    .alloc(order, Place::Anywhere)
                    .ok_or_else(|| Error::new(ErrorKind::OutOfFrames, Op::Compact))
            },
        )
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
        let mut targets = Targets {
            shared: self,
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

    /// Moves the page of a file that is in `frame`; to any node.
    fn move_of_file<'s>(
        &'s self,
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
        match self.source.move_page(frame, to) {
            // As of `room_of_source`: a block of another pool is none of the place.
            Ok(left) if std::ptr::eq(left.pool(), self.pool()) && left.frame() == frame => {
                targets.parts.push(left);
                Found::Done
            }
            Ok(_) | Err(_) => Found::Stuck,
        }
    }

    /// Isolates the page in `frame`, with a frame for it to go to: out of the place, and where it may be.
    fn isolate_frame<'s>(
        &'s self,
        frame: FrameNr,
        order: Order,
        targets: &mut Targets<'_, 's, S>,
    ) -> Found<'s, S> {
        let TryGetFrame::Taken(reference) = self.pool().try_get(frame) else {
            return Found::Stuck;
        };
        // With the reference in hand the frame stays what it is.
        let is_page = reference.meta().kind() == (FrameKind::Anon, order);
        let is_isolated = is_page && self.try_isolate(frame);
        // What is counted keeps it from being freed now; and a reference would look like a pin.
        drop(reference);
        let Some(node) = self.pool().node_of(frame).filter(|_| is_isolated) else {
            return Found::Stuck;
        };
        // While it is isolated the record is the page's.
        let wanted = match self.owner_of(frame).binding {
            Binding::Anywhere => Place::Prefer(node),
            Binding::Node => Place::Only(node),
        };
        match targets.next(order, wanted) {
            Some(to) => Found::Isolated(Moving::new(self, frame, to)),
            None => {
                self.end_isolation(frame);
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
    shared: &'s Shared<S>,
    place: Range<u32>,
    /// What there is of the place.
    parts: &'p mut Vec<UniqueFrame<'s, S>>,
    /// A block that room was made for.
    spare: Option<UniqueFrame<'s, S>>,
}

impl<'s, S: RefScheme> Targets<'_, 's, S> {
    /// A block that is wanted for a page, if one is free.
    fn next(&mut self, order: Order, wanted: Place) -> Option<UniqueFrame<'s, S>> {
        let pool = self.shared.pool();
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
            reserve: Reserve::Use,
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
        while let Some(block) = self.shared.room_of_source(order, wanted) {
            if !self.place.contains(&block.frame().get()) {
                self.spare = Some(block);
                return true;
            }
            self.parts.push(block);
        }
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use pagewell_frame::refcount::LockBit;
    use pagewell_frame::{FRAME_BYTES, FramePool, Nodes, PoolConfig};
    use pagewell_sync::atomic::{AtomicUsize, Ordering};
    use pagewell_sync::{Mutex, lock};

    use super::*;
    use crate::area::Policy;
    use crate::counts::Counts;
    use crate::raw;
    use crate::shared::FrameSource;

    const PAGE: u64 = FRAME_BYTES as u64;

    /// A source that makes room by frames that it has kept, one at a time.
    struct Keeper {
        pool: FramePool<LockBit>,
        kept: Mutex<Vec<FrameNr>>,
        /// How often it was asked for a frame.
        nr_asked: AtomicUsize,
        /// How many pages were isolated then, in all.
        nr_isolated: AtomicUsize,
    }

    impl FrameSource<LockBit> for Arc<Keeper> {
        fn pool(&self) -> &FramePool<LockBit> {
            &self.pool
        }

        fn make_room(&self, order: Order, _: Place) -> Option<UniqueFrame<'_, LockBit>> {
            if order > Order::ZERO {
                return None;
            }
            let isolated = (0..self.pool.nr_frames() as u32).filter(|nr| {
                let record = self.pool.meta(FrameNr::new(*nr));
                // ORDERING: Relaxed, here and below; there is one thread.
                let counts = Counts::from_bits(record.private()[0]);
                record.kind().0 == FrameKind::Anon && counts.is_isolated()
            });
            self.nr_isolated
                .fetch_add(isolated.count(), Ordering::Relaxed);
            self.nr_asked.fetch_add(1, Ordering::Relaxed);
            let kept = lock(&self.kept).pop()?;
            Some(raw::withheld(&self.pool, kept))
        }
    }

    /// Up to 63 pages stayed isolated while room was made for the next one, which may wait for a tenth of a second: nobody could
    /// migrate them, writes copied them, and what was unmapped did not become free. They are moved before now.
    #[test]
    fn no_page_is_isolated_while_room_is_made() {
        let mut config = PoolConfig::new(1024);
        config.nodes = Nodes::Unbound(1);
        let keeper = Arc::new(Keeper {
            pool: FramePool::new(&config).unwrap(),
            kept: Mutex::default(),
            nr_asked: AtomicUsize::new(0),
            nr_isolated: AtomicUsize::new(0),
        });
        let spaces = Spaces::from_source(Arc::clone(&keeper));
        let space = spaces.space().unwrap();
        let area = space.map(1024 * PAGE, Policy::Local).unwrap();
        let mut written = Vec::new();
        for addr in area.step_by(FRAME_BYTES) {
            if space.write(addr, &addr.to_ne_bytes()).is_err() {
                break;
            }
            written.push(addr);
        }
        // Every third page stays.
        let mut kept = Vec::new();
        for (nr, addr) in written.into_iter().enumerate() {
            if nr % 3 == 0 {
                kept.push(addr);
            } else {
                space.unmap(addr..addr + PAGE).unwrap();
            }
        }
        // Of the two places one has the tables. What is free there is kept, but for one batch and a part of another.
        let has_tables = |nr| keeper.pool.meta(FrameNr::new(nr)).kind().0 == FrameKind::Table;
        let tables = if (0..512).any(has_tables) {
            0..512
        } else {
            512..1024
        };
        let free: Vec<_> = std::iter::from_fn(|| keeper.pool.alloc(Order::ZERO)).collect();
        let (mut others, place): (Vec<_>, Vec<_>) = free
            .into_iter()
            .partition(|frame| tables.contains(&frame.frame().get()));
        let left = others.split_off(others.len() - BATCH - BATCH / 2);
        drop((left, place));
        lock(&keeper.kept).extend(others.into_iter().map(UniqueFrame::into_withheld));
        keeper.nr_asked.store(0, Ordering::Relaxed);

        let block = spaces.alloc_block(Order::PAGE_BLOCK).unwrap();
        assert!(!tables.contains(&block.frame().get()));
        assert!(
            keeper.nr_asked.load(Ordering::Relaxed) > 50,
            "there was room"
        );
        assert_eq!(keeper.nr_isolated.load(Ordering::Relaxed), 0);
        for addr in kept {
            let mut buf = [0; 8];
            space.read(addr, &mut buf).unwrap();
            assert_eq!(buf, addr.to_ne_bytes());
        }
        drop(block);
        spaces.verify(&[&space]).unwrap();
        drop(space);
        for frame in std::mem::take(&mut *lock(&keeper.kept)) {
            drop(raw::withheld(&keeper.pool, frame));
        }
        let stats = keeper.pool.stats();
        assert_eq!(stats.nr_available(), stats.nr_frames);
    }
}
