//! Forks: at one point in time, without a copy of any page.
//!
//! # Protocol
//!
//! 1. Hold the structure lock for writing: no fault, slow write or change of areas is in progress.
//! 2. Create the child's areas. Each is linked to the families of the pages that it may map, after
//!    the parent's link, and before an entry can name a page (F1 of [`crate::pages::links`]).
//! 3. Stop the writers. For each table, clear `exclusive` in the parent's directory, give the child
//!    a share, and enter the table in the child's directory. Release the writers.
//!
//! The point in time is step 3; [`crate::access::write`] has the argument. The step takes one
//! increment and two stores for each table, whatever is mapped in it, and allocates nothing.
//!
//! A fork reads no entry, so it does not interact with migrations: entries stay in the shared
//! table, even if they are migration entries or claimed, and a walk converts one for all spaces.
//! Only a copy of a table duplicates entries, and counts them.
//!
//! Verified by `loom_fork_vs_two_writes_in_order`, `loom_fork_vs_first_walk`,
//! `loom_fork_and_unmap_between_the_walks`. Source: Zhao, Gong and Fonseca, "On-demand-fork: a
//! microsecond fork for memory-intensive and latency-sensitive applications", EuroSys 2021, which
//! shares the lowest level of page tables.

#[cfg(feature = "baselines")]
use pagewell_sync::read;
use pagewell_sync::write;

use crate::error::{Error, ErrorKind, Op};
use crate::mm::space::{Mm, Space};
use crate::words::geometry::table_of;
use crate::words::pmd::Directory;

/// Treatment of page tables in a fork.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForkMode {
    /// The spaces share the tables until one of them writes.
    #[default]
    Share,
    /// The fork copies the tables at once, as most systems do. This is the baseline.
    Copy,
}

impl Space {
    /// Creates a space with the same areas and, as of one point in time, the same bytes. All pages
    /// are shared until one of the spaces writes. Fails with [`ErrorKind`] `OutOfMemory` for the
    /// directory, or `Refused`.
    pub fn fork(&self) -> Result<Self, Error> {
        let failed = |kind| Error::new(kind, Op::Fork);
        let shared = &self.mm.shared;
        let directory = &self.mm.tables.directory;
        // 1.
        let areas = write(&self.mm.structure);
        // 2.
        let child = Mm::new(shared, areas.empty_like(), directory.len())
            .ok_or_else(|| failed(ErrorKind::OutOfMemory))?;
        let mut childs_areas = write(&child.structure);
        for area in areas.iter() {
            let forked = area.forked(shared.next_id());
            forked.link(&child);
            childs_areas.insert(forked);
        }
        drop(childs_areas);
        // 3.
        let stopped = shared.writers.stop(|| {
            let mut next = 0;
            for area in areas.iter() {
                let first = (table_of(area.range.start) as usize).max(next);
                next = table_of(area.range.end - 1) as usize + 1;
                let words = directory[first..next].iter();
                for (word, childs) in words.zip(&child.tables.directory[first..next]) {
                    let pmd = Directory::look(word);
                    let Some(table) = pmd.table() else {
                        continue;
                    };
                    shared.supply.share_table(table);
                    if pmd.is_exclusive() {
                        self.mm.tables.set(word, pmd.shared());
                    }
                    child.tables.set(childs, pmd.shared());
                }
            }
        });
        if stopped.is_err() {
            child.tear_down();
            return Err(failed(ErrorKind::Refused));
        }
        Ok(Space { mm: child })
    }

    /// As [`fork`](Self::fork), with `mode`. [`ForkMode::Copy`] may also fail with `OutOfFrames` or
    /// `TooManyEntries`.
    #[cfg(feature = "baselines")]
    pub fn fork_with(&self, mode: ForkMode) -> Result<Self, Error> {
        let child = self.fork()?;
        if mode == ForkMode::Copy {
            // If this fails, the drop of the child undoes the fork.
            child.mm.with_room_for_tables(|| {
                let areas = read(&child.mm.structure);
                child.own_tables(&areas, &(0..u64::MAX), Op::Fork, |_| false)
            })?;
        }
        Ok(child)
    }
}
