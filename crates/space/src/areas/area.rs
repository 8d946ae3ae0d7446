//! Areas, and their links to the pages that they may map.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use pagewell_frame::{FRAME_BYTES, Order, Place};
use pagewell_sync::{Mutex, lock};

use crate::areas::file::{FileArea, LinkedSpace};
use crate::areas::options::Policy;
use crate::pages::links::{Family, Link};
use crate::words::claim;
use crate::words::geometry::page_bytes;
use crate::words::pte::Protection;

pub(crate) struct Area {
    pub(crate) range: Range<u64>,
    /// Index, in all families, of the area's first frame.
    pub(crate) first: u64,
    pub(crate) order: Order,
    pub(crate) protection: Protection,
    pub(crate) policy: Policy,
    pub(crate) file: Option<Arc<FileArea>>,
    id: u64,
    /// Families of the parent's area that had pages when it was forked.
    inherited: Vec<Arc<Family>>,
    /// Family of the pages that the area creates. The first such page creates it.
    own: Mutex<Option<Arc<Family>>>,
}

impl Area {
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

    /// Returns the index of the page of `addr`, which must be in the area.
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

    pub(crate) fn place(&self, index: u64, nr_nodes: usize) -> Place {
        self.policy.place(index >> self.order.get(), nr_nodes)
    }

    /// Returns the family of the pages that the area creates. The first call creates it.
    pub(crate) fn own_family(&self, space: &impl LinkedSpace) -> Arc<Family> {
        claim::assert_none_held();
        let mut own = lock(&self.own);
        let family = own.get_or_insert_with(|| {
            let family = Arc::<Family>::default();
            self.link_to(&family, space);
            family
        });
        Arc::clone(family)
    }

    fn link_to(&self, family: &Family, space: &impl LinkedSpace) {
        let link = Link {
            to: space.directory().clone(),
            addr: self.range.start,
            first: self.first,
            end: self.end_index(),
        };
        family.links.link(self.id, link);
    }

    fn families(&self) -> Vec<Arc<Family>> {
        let own = lock(&self.own).clone();
        self.inherited.iter().cloned().chain(own).collect()
    }

    #[cfg(test)]
    pub(crate) fn nr_families(&self) -> usize {
        self.families().len()
    }

    pub(crate) fn link<T: LinkedSpace + 'static>(&self, space: &Arc<T>) {
        if let Some(file) = &self.file {
            file.link(self.id, space);
        }
        for family in self.families() {
            self.link_to(&family, &**space);
        }
    }

    pub(crate) fn unlink(&self) {
        for family in self.families() {
            family.links.unlink(self.id, self.first);
        }
        if let Some(file) = &self.file {
            file.unlink(self.id);
        }
    }

    /// Returns an area for a part of this area, with its own id. It is not linked yet.
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

    /// Returns an area like this one at other addresses, with its own id. It is not linked yet.
    pub(crate) fn moved(&self, start: u64, id: u64) -> Self {
        let len = self.range.end - self.range.start;
        let mut moved = self.part(self.range.clone(), id);
        let file = self.file.as_ref();
        moved.file = file.map(|file| Arc::new(file.part(&self.range, start)));
        moved.range = start..start + len;
        moved
    }

    /// Returns this area's counterpart in a fork. It is not linked yet. The caller holds the
    /// structure lock of this area's space for writing.
    pub(crate) fn forked(&self, id: u64) -> Self {
        let mut inherited = self.families();
        inherited.retain(|family| family.has_frames());
        Self {
            file: self.file.clone(),
            inherited,
            own: Mutex::new(None),
            ..self.part(self.range.clone(), id)
        }
    }
}

/// Drops unmapped areas one by one. The caller holds no lock. If a backend panics, the other files
/// are still closed, and then the first panic resumes.
pub(crate) fn close(areas: Vec<Area>) {
    let mut first = None;
    for area in areas {
        // A panic leaves no state of this crate inconsistent; a backend guards its own state.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(area))) {
            first.get_or_insert(panic);
        }
    }
    // If this thread is panicking already, only that panic is reported.
    if let Some(panic) = first
        && !std::thread::panicking()
    {
        resume_unwind(panic);
    }
}
