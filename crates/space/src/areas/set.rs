//! Set of the areas of a space, which its structure lock guards.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::areas::area::Area;
use crate::areas::file::LinkedSpace;
use crate::areas::options::Policy;
use crate::error::{Error, ErrorKind, Op};
use crate::words::geometry::TABLE_BYTES;
use crate::words::pte::Protection;

pub(crate) struct Areas {
    by_start: BTreeMap<u64, Area>,
    /// End of the addresses of the space, which is that of the last table.
    limit: u64,
    /// Address above all areas that were ever mapped.
    top: u64,
    /// Starts of empty tables that stay without areas, since writers could not be stopped.
    pub(crate) left: Vec<u64>,
}

impl Areas {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            by_start: BTreeMap::new(),
            limit,
            top: 0,
            left: Vec::new(),
        }
    }

    pub(crate) fn empty_like(&self) -> Self {
        Self {
            top: self.top,
            ..Self::new(self.limit)
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Area> {
        self.by_start.values()
    }

    #[inline]
    pub(crate) fn area_of(&self, addr: u64) -> Option<&Area> {
        let (_, area) = self.by_start.range(..=addr).next_back()?;
        area.range.contains(&addr).then_some(area)
    }

    pub(crate) fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = &Area> {
        let first = self
            .area_of(range.start)
            .map_or(range.start, |area| area.range.start);
        self.by_start.range(first..range.end).map(|(_, area)| area)
    }

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

    /// Returns `true` if the table at `start` is used only by areas that lie within `except`.
    pub(crate) fn is_table_free_but(&self, start: u64, except: &Range<u64>) -> bool {
        self.overlapping(&(start..start + TABLE_BYTES))
            .all(|area| except.start <= area.range.start && area.range.end <= except.end)
    }

    /// Checks that `range` consists of whole mapped pages.
    pub(crate) fn check(&self, range: &Range<u64>, op: Op) -> Result<(), Error> {
        if range.start >= range.end || range.end > self.limit {
            return Err(Error::at(ErrorKind::InvalidRange, op, range.start));
        }
        if let Some(addr) = self.first_gap(range) {
            return Err(Error::at(ErrorKind::Unmapped, op, addr));
        }
        for (addr, at) in [(range.start, range.start), (range.end, range.end - 1)] {
            if let Some(area) = self.area_of(at)
                && !addr.is_multiple_of(area.page_bytes())
            {
                return Err(Error::at(ErrorKind::Misaligned, op, addr));
            }
        }
        Ok(())
    }

    /// Returns the start of `len` free bytes, at a table boundary: mappings share no tables.
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
            // A table that is partly in use is skipped: its pages may have another size.
            let end = range.start & !(TABLE_BYTES - 1);
            if end.saturating_sub(start) >= len {
                return Some(start);
            }
            start = start.max(range.end.next_multiple_of(TABLE_BYTES));
        }
        (self.limit.checked_sub(start)? >= len).then_some(start)
    }

    pub(crate) fn insert(&mut self, area: Area) {
        self.top = self.top.max(area.range.end.next_multiple_of(TABLE_BYTES));
        self.by_start.insert(area.range.start, area);
    }

    /// Removes and returns the areas that begin within `range`.
    pub(crate) fn remove_within(&mut self, range: &Range<u64>) -> Vec<Area> {
        let removed = self.by_start.extract_if(range.clone(), |_, _| true);
        removed.map(|(_, area)| area).collect()
    }

    pub(crate) fn set_protection(&mut self, range: &Range<u64>, protection: Protection) {
        for (_, area) in self.by_start.range_mut(range.clone()) {
            area.protection = protection;
            if let Some(file) = &mut area.file {
                *file = Arc::new(file.protected(protection));
            }
        }
    }

    pub(crate) fn set_policy(&mut self, range: &Range<u64>, policy: Policy) {
        for (_, area) in self.by_start.range_mut(range.clone()) {
            area.policy = policy;
        }
    }

    /// Splits areas at the ends of `range`. Links parts before it unlinks the whole (F1 of
    /// `links`).
    pub(crate) fn split_at_ends(
        &mut self,
        range: &Range<u64>,
        space: &Arc<impl LinkedSpace + 'static>,
        mut next_id: impl FnMut() -> u64,
    ) {
        for addr in [range.start, range.end] {
            let inside = self.area_of(addr).filter(|area| area.range.start != addr);
            let Some(start) = inside.map(|area| area.range.start) else {
                continue;
            };
            if let Some(whole) = self.by_start.remove(&start) {
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
