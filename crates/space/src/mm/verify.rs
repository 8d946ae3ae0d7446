//! Consistency check of spaces, for tests and diagnostics.

use std::collections::HashMap;
use std::sync::Arc;

use pagewell_frame::{FrameKind, FrameNr};
use pagewell_sync::read;

use crate::mm::space::{Mm, Space, Spaces};
use crate::words::claim::look;
use crate::words::geometry::table_of;
use crate::words::pmd::Directory;
use crate::words::pte::State;

#[derive(Default)]
struct Found {
    mappings: u32,
    migrations: u32,
    is_writable: bool,
}

impl Spaces {
    /// Checks that every table has as many shares as directories that name it, that every page is
    /// counted once by each entry that names it and writable through at most one, and that the
    /// pool's counts are correct. `spaces` must be all spaces. The caller must have exclusive use
    /// of them, and of a cache that shares their frames, whose own threads must be stopped
    /// ([`Cache::quiesce`](pagewell_cache::Cache::quiesce)). The error describes the inconsistency.
    pub fn verify(&self, spaces: &[&Space]) -> Result<(), String> {
        let mut shares: HashMap<FrameNr, u64> = HashMap::new();
        for space in spaces {
            if !Arc::ptr_eq(&space.mm.shared, &self.shared) {
                return Err("a space belongs to another pool".into());
            }
            count_shares(&space.mm, &mut shares)?;
        }
        let mut pages: HashMap<FrameNr, Found> = HashMap::new();
        for (table, nr) in &shares {
            let record = self.pool().meta(*table);
            let counted = record.private()[0];
            if record.kind().0 != FrameKind::Table || counted != *nr {
                return Err(format!("{table:?} has {nr} users, but is {record:?}"));
            }
            for word in self.shared.supply.table_entries(*table) {
                let entry = look(word);
                let (frame, is_migration) = match entry.state() {
                    State::Empty => continue,
                    State::Present(frame) => (frame, false),
                    State::Migration(frame) => (frame, true),
                    State::Busy => return Err(format!("{table:?} has a claimed {entry:?}")),
                };
                let found = pages.entry(frame).or_default();
                found.mappings += u32::from(!is_migration);
                found.migrations += u32::from(is_migration);
                found.is_writable |= entry.is_writable();
            }
        }
        for (frame, found) in &pages {
            let record = self.pool().meta(*frame);
            let counts = self.shared.supply.counts(*frame);
            let is_counted = found.mappings == counts.mappings()
                && found.migrations == counts.migrations()
                && !counts.is_isolated();
            if record.kind().0 != FrameKind::Anon || !is_counted {
                return Err(format!(
                    "{frame:?} has {} mappings and {} migration entries, but is {record:?} with \
                     {counts:?}",
                    found.mappings, found.migrations
                ));
            }
            if found.is_writable && !counts.is_mapped_once() {
                return Err(format!("{frame:?} is marked writable, with {counts:?}"));
            }
        }
        self.verify_all_counted(&shares, &pages)?;
        self.pool().verify()
    }

    /// Checks that all tables and pages of the pool were found, except pages that only pins keep.
    fn verify_all_counted(
        &self,
        shares: &HashMap<FrameNr, u64>,
        pages: &HashMap<FrameNr, Found>,
    ) -> Result<(), String> {
        let mut nr = 0;
        while nr < self.pool().nr_frames() {
            let frame = FrameNr::new(nr as u32);
            let record = self.pool().meta(frame);
            let (kind, order) = record.kind();
            let is_lost = match kind {
                FrameKind::Anon => !pages.contains_key(&frame) && record.private()[0] != 0,
                FrameKind::Table => !shares.contains_key(&frame),
                _ => false,
            };
            if is_lost {
                return Err(format!("{frame:?} is in no space, but is {record:?}"));
            }
            nr += order.frames() as usize;
        }
        Ok(())
    }
}

fn count_shares(mm: &Mm, shares: &mut HashMap<FrameNr, u64>) -> Result<(), String> {
    let areas = read(&mm.structure);
    let mut next = 0;
    for area in areas.iter() {
        let first = (table_of(area.range.start) as usize).max(next);
        next = table_of(area.range.end - 1) as usize + 1;
        for word in &mm.tables.directory[first..next] {
            let pmd = Directory::look(word);
            let Some(table) = pmd.table() else {
                continue;
            };
            *shares.entry(table).or_default() += 1;
            if pmd.order() != u32::from(area.order.get()) {
                return Err(format!("{pmd:?} in an area of order {}", area.order.get()));
            }
            if pmd.is_exclusive() && !mm.shared.supply.is_only_share(table) {
                return Err(format!("{pmd:?}, whose table has other users"));
            }
        }
    }
    Ok(())
}
