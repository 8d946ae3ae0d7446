//! Areas: ranges of addresses with one protection and one policy; and the set of them that a space has.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FRAME_BYTES, Order, Place};
use pagewell_sync::{Mutex, lock};

use crate::areas::file::FileArea;
use crate::mm::mm::Inner;
use crate::pages::family::{Family, Link};
use crate::pages::frames::Binding;
use crate::words::claim;
use crate::words::geometry::{TABLE_BYTES, page_bytes};
use crate::words::pte::Protection;

/// On which nodes the pages of an area are to be. Nodes are numbered from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// On the node of the processor that writes a page first, or else as near as can be. In the frames of a cache, pages of
    /// files are evicted when no node has a frame free, wherever they are.
    #[default]
    Local,
    /// On this node. In the frames of a cache, pages of files are evicted on this node alone when it is full; if there are
    /// none that can be, those that are dirty there are written back first, and the write waits for that. It fails
    /// ([`OutOfFrames`](crate::ErrorKind::OutOfFrames)) when all that the node has is pinned, or of spaces, or dirty and
    /// written back by the program only. Nothing but [`Space::migrate`](crate::Space::migrate) moves such a page
    /// to another node, where it stays until it is told to move again.
    Bind(usize),
    /// On this node, or else as near as can be. In the frames of a cache, pages of files are evicted only when no node has a
    /// frame free: those on this node, and if there are none that can be, on others.
    Prefer(usize),
    /// On all nodes in turn, page by page: each page as if it preferred ([`Prefer`](Self::Prefer)) the node whose turn it is.
    Interleave,
}

/// A range of addresses with one protection and one policy.
pub(crate) struct Area<S: RefScheme> {
    pub(crate) range: Range<u64>,
    /// The index, in all families, of the frame of addresses that the area begins with.
    pub(crate) first: u64,
    pub(crate) order: Order,
    pub(crate) protection: Protection,
    pub(crate) policy: Policy,
    /// The file that the area shows, if it does.
    pub(crate) file: Option<Arc<FileArea<S>>>,
    /// Under which the area is linked.
    id: u64,
    /// The families of the pages that it got by forks.
    inherited: Vec<Arc<Family<S>>>,
    /// The family of the pages that it makes; made with the first of them.
    own: Mutex<Option<Arc<Family<S>>>>,
}

impl<S: RefScheme> Area<S> {
    /// An area without pages, which is not linked to anything.
    pub(crate) fn new(
        range: Range<u64>,
        order: Order,
        protection: Protection,
        policy: Policy,
        id: u64,
    ) -> Self {
        Self {
            range,
            first: 0,
            order,
            protection,
            policy,
            file: None,
            id,
            inherited: Vec::new(),
            own: Mutex::new(None),
        }
    }

    /// An area that shows a file, without copies of its pages; not linked yet.
    pub(crate) fn of_file(
        range: Range<u64>,
        order: Order,
        policy: Policy,
        id: u64,
        file: Arc<FileArea<S>>,
    ) -> Self {
        Self {
            file: Some(Arc::clone(&file)),
            ..Self::new(range, order, file.protection, policy, id)
        }
    }

    /// The index of the page that `addr`, of this area, is in.
    pub(crate) fn index_of(&self, addr: u64) -> u64 {
        let page = (addr - self.range.start) & !(self.page_bytes() - 1);
        self.first + page / FRAME_BYTES as u64
    }

    pub(crate) fn page_bytes(&self) -> u64 {
        page_bytes(u32::from(self.order.get()))
    }

    fn end_index(&self) -> u64 {
        self.first + (self.range.end - self.range.start) / FRAME_BYTES as u64
    }

    /// Where the page with this index is to be.
    pub(crate) fn place(&self, index: u64, nr_nodes: usize) -> Place {
        match self.policy {
            Policy::Local => Place::Anywhere,
            Policy::Bind(node) => Place::Only(node),
            Policy::Prefer(node) => Place::Prefer(node),
            Policy::Interleave => {
                let page = index >> self.order.get();
                Place::Prefer((page % nr_nodes as u64) as usize)
            }
        }
    }

    /// Where compaction may move its pages.
    pub(crate) fn binding(&self) -> Binding {
        match self.policy {
            Policy::Bind(_) => Binding::Node,
            Policy::Local | Policy::Prefer(_) | Policy::Interleave => Binding::Anywhere,
        }
    }

    /// The family of the pages that the area makes. It may have to be made, which takes locks and allocates: so not with
    /// an entry claimed.
    pub(crate) fn own_family(&self, space: &Arc<Inner<S>>) -> Arc<Family<S>> {
        claim::assert_none_held();
        let mut own = lock(&self.own);
        let family = own.get_or_insert_with(|| {
            let family = Arc::new(Family::new());
            self.link_to(&family, space);
            family
        });
        Arc::clone(family)
    }

    fn link_to(&self, family: &Family<S>, space: &Arc<Inner<S>>) {
        let link = Link {
            space: Arc::clone(space),
            addr: self.range.start,
            first: self.first,
            end: self.end_index(),
        };
        family.link(self.id, link);
    }

    fn families(&self) -> Vec<Arc<Family<S>>> {
        let own = lock(&self.own).clone();
        self.inherited.iter().cloned().chain(own).collect()
    }

    /// How many families the area is linked to.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn nr_families(&self) -> usize {
        self.families().len()
    }

    /// Links the area to all of its families, and to its file.
    pub(crate) fn link(&self, space: &Arc<Inner<S>>) {
        if let Some(file) = &self.file {
            file.link(self.id, space);
        }
        for family in self.families() {
            self.link_to(&family, space);
        }
    }

    /// Takes all links of the area out.
    pub(crate) fn unlink(&self) {
        for family in self.families() {
            family.unlink(self.id, self.first);
        }
        if let Some(file) = &self.file {
            file.unlink(self.id);
        }
    }

    /// A part of this area, with an id of its own; not linked yet.
    pub(crate) fn part(&self, range: Range<u64>, id: u64) -> Self {
        let file = self.file.as_ref();
        Self {
            file: file.map(|file| Arc::new(file.part(&range, range.start))),
            first: self.index_of(range.start),
            range,
            order: self.order,
            protection: self.protection,
            policy: self.policy,
            id,
            inherited: self.inherited.clone(),
            own: Mutex::new(lock(&self.own).clone()),
        }
    }

    /// This area at other addresses, with an id of its own; not linked yet.
    pub(crate) fn moved(&self, start: u64, id: u64) -> Self {
        let len = self.range.end - self.range.start;
        let mut moved = self.part(self.range.clone(), id);
        let file = self.file.as_ref();
        moved.file = file.map(|file| Arc::new(file.part(&self.range, start)));
        moved.range = start..start + len;
        moved
    }

    /// A fork's area: it may map the pages of all families that have any. Not linked yet.
    ///
    /// The structure lock of this area's space is held for writing, so no page is being made in it.
    pub(crate) fn forked(&self, id: u64) -> Self {
        let mut inherited = self.families();
        inherited.retain(|family| family.has_frames());
        Self {
            range: self.range.clone(),
            first: self.first,
            order: self.order,
            protection: self.protection,
            policy: self.policy,
            file: self.file.clone(),
            id,
            inherited,
            own: Mutex::new(None),
        }
    }
}

/// The areas of a space; what the structure lock guards.
pub(crate) struct Areas<S: RefScheme> {
    by_start: BTreeMap<u64, Area<S>>,
    /// The end of the addresses.
    limit: u64,
    /// No area was ever mapped from here on.
    top: u64,
    /// Where there are tables, without entries and of no area, that could not be taken out.
    left: Vec<u64>,
}

impl<S: RefScheme> Areas<S> {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            by_start: BTreeMap::new(),
            limit,
            top: 0,
            left: Vec::new(),
        }
    }

    /// The same bounds, without areas.
    pub(crate) fn empty_like(&self) -> Self {
        Self {
            by_start: BTreeMap::new(),
            limit: self.limit,
            top: self.top,
            left: Vec::new(),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Area<S>> {
        self.by_start.values()
    }

    /// The area that `addr` is in.
    pub(crate) fn area_of(&self, addr: u64) -> Option<&Area<S>> {
        let (_, area) = self.by_start.range(..=addr).next_back()?;
        area.range.contains(&addr).then_some(area)
    }

    /// The areas that overlap `range`, in ascending order.
    pub(crate) fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = &Area<S>> {
        let first = self
            .area_of(range.start)
            .map_or(range.start, |area| area.range.start);
        self.by_start.range(first..range.end).map(|(_, area)| area)
    }

    /// The first address of `range` that is in no area.
    pub(crate) fn first_gap(&self, range: &Range<u64>) -> Option<u64> {
        let mut at = range.start;
        for area in self.overlapping(range) {
            if area.range.start > at {
                break;
            }
            at = area.range.end;
        }
        (at < range.end).then_some(at)
    }

    /// Whether the table that has the entry for the addresses from `start` on is of no area but those within
    /// `except`.
    pub(crate) fn is_table_free_but(&self, start: u64, except: &Range<u64>) -> bool {
        self.overlapping(&(start..start + TABLE_BYTES))
            .all(|area| except.start <= area.range.start && area.range.end <= except.end)
    }

    /// Addresses for `len` bytes, from a multiple of what a table spans on, so that areas that were mapped one by one
    /// do not share tables.
    pub(crate) fn find_room(&self, len: u64) -> Option<u64> {
        if len <= self.limit - self.top.min(self.limit) {
            return Some(self.top);
        }
        let used = self.iter().map(|area| area.range.clone());
        let left = self.left.iter().map(|start| *start..start + TABLE_BYTES);
        let mut used: Vec<Range<u64>> = used.chain(left).collect();
        used.sort_unstable_by_key(|range| range.start);
        let mut start = 0_u64;
        for range in used {
            // Not in a table of which a part is in use: it has pages of another size, perhaps.
            let end = range.start & !(TABLE_BYTES - 1);
            if end.saturating_sub(start) >= len {
                return Some(start);
            }
            start = start.max(range.end.next_multiple_of(TABLE_BYTES));
        }
        (self.limit.checked_sub(start)? >= len).then_some(start)
    }

    pub(crate) fn insert(&mut self, area: Area<S>) {
        self.top = self.top.max(area.range.end.next_multiple_of(TABLE_BYTES));
        self.by_start.insert(area.range.start, area);
    }

    /// Where the areas begin that begin within `range`.
    pub(crate) fn starts_within(&self, range: &Range<u64>) -> Vec<u64> {
        self.by_start
            .range(range.clone())
            .map(|(start, _)| *start)
            .collect()
    }

    /// Sets the protection of the areas that begin within `range`.
    pub(crate) fn set_protection(&mut self, range: &Range<u64>, protection: Protection) {
        for (_, area) in self.by_start.range_mut(range.clone()) {
            area.protection = protection;
            if let Some(file) = &mut area.file {
                *file = Arc::new(file.protected(protection));
            }
        }
    }

    /// Sets the policy of the areas that begin within `range`.
    pub(crate) fn set_policy(&mut self, range: &Range<u64>, policy: Policy) {
        for (_, area) in self.by_start.range_mut(range.clone()) {
            area.policy = policy;
        }
    }

    /// Remembers a table, without entries and of no area, that could not be taken out of the directory.
    pub(crate) fn leave_table(&mut self, start: u64) {
        self.left.push(start);
    }

    /// The tables that were left, which are forgotten.
    pub(crate) fn take_left(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.left)
    }

    /// Takes out the area that begins at `start`.
    pub(crate) fn remove(&mut self, start: u64) -> Option<Area<S>> {
        self.by_start.remove(&start)
    }

    /// All areas, which are taken out.
    pub(crate) fn take_all(&mut self) -> Vec<Area<S>> {
        std::mem::take(&mut self.by_start).into_values().collect()
    }

    /// Makes an area begin at each end of `range` that is inside of one. The parts are linked before the whole is
    /// unlinked.
    pub(crate) fn split_at_ends(
        &mut self,
        range: &Range<u64>,
        space: &Arc<Inner<S>>,
        mut next_id: impl FnMut() -> u64,
    ) {
        for addr in [range.start, range.end] {
            let inside = self.area_of(addr).filter(|area| area.range.start != addr);
            let Some(start) = inside.map(|area| area.range.start) else {
                continue;
            };
            if let Some(whole) = self.remove(start) {
                let parts = [start..addr, addr..whole.range.end];
                for part in parts {
                    let part = whole.part(part, next_id());
                    part.link(space);
                    self.insert(part);
                }
                whole.unlink();
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use pagewell_frame::refcount::LockBit;
    use pagewell_frame::{FramePool, PoolConfig};
    use pagewell_sync::read;

    use super::*;
    use crate::mm::mm::{Space, Spaces};

    fn most_families(space: &Space<LockBit>) -> usize {
        let areas = read(&space.inner.structure);
        areas.iter().map(Area::nr_families).max().unwrap_or(0)
    }

    /// Each generation is a fork of the one before, which ends; and writes all of its memory.
    #[test]
    fn generations_of_forks_do_not_pile_up_families() {
        let spaces = Spaces::new(FramePool::<LockBit>::new(&PoolConfig::new(256)).unwrap());
        let mut space = spaces.space().unwrap();
        let area = space.map(4 * FRAME_BYTES as u64, Policy::Local).unwrap();
        for round in 0..100_u64 {
            for addr in area.clone().step_by(FRAME_BYTES) {
                space.write(addr, &round.to_ne_bytes()).unwrap();
            }
            space = space.fork().unwrap();
            assert!(most_families(&space) <= 2, "{}", most_families(&space));
        }
        spaces.verify(&[&space]).unwrap();
    }

    /// The rest of an area, unmapped from its beginning, is in a table with pages of its size. Another area was put before it,
    /// into the same table, when the addresses had been used up.
    #[test]
    fn areas_do_not_share_tables_when_addresses_are_used_again() {
        let spaces = Spaces::new(FramePool::<LockBit>::new(&PoolConfig::new(1024)).unwrap());
        let space = spaces.space_of(2 * TABLE_BYTES).unwrap();
        let first = space.map(TABLE_BYTES, Policy::Local).unwrap();
        space.map(TABLE_BYTES, Policy::Local).unwrap();
        let middle = first.start + TABLE_BYTES / 2;
        space.write(middle, b"kept").unwrap();
        space.unmap(first.start..middle).unwrap();
        assert!(space.map(4096, Policy::Local).is_err());
        space.unmap(middle..first.end).unwrap();
        assert_eq!(space.map(4096, Policy::Local).unwrap().start, first.start);
        spaces.verify(&[&space]).unwrap();
    }

    #[test]
    fn a_page_that_no_generation_writes_keeps_its_family_only() {
        let spaces = Spaces::new(FramePool::<LockBit>::new(&PoolConfig::new(256)).unwrap());
        let mut space = spaces.space().unwrap();
        let area = space.map(2 * FRAME_BYTES as u64, Policy::Local).unwrap();
        space.write(area.start, b"first").unwrap();
        for _ in 0..50 {
            space
                .write(area.start + FRAME_BYTES as u64, b"later")
                .unwrap();
            space = space.fork().unwrap();
            assert!(most_families(&space) <= 3);
        }
        let mut buf = [0; 5];
        space.read(area.start, &mut buf).unwrap();
        assert_eq!(&buf, b"first");
    }
}
