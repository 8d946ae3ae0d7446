//! Forking: one point in time, and no page copied.
//!
//! # Protocol
//!
//! 1. Hold the structure lock for writing: no fault, no slow write, no change of areas is under way.
//! 2. Make the child, with an area for each of the parent's, linked to the families of the pages that it may map: at the
//!    tail, and before any entry of the child can name one (F1).
//! 3. Stop the writers. For each table: take the mark off the parent's directory that it is its alone, give the child a
//!    share, and enter it in the child's directory. Let the writers go on.
//!
//! The point in time is step 3; the argument is at the top of [`crate::access::write`]. It takes a count and two stores for each
//! 2 MiB that are in use, whatever is mapped there, and allocates nothing, so it cannot run out of memory half way.
//!
//! Tables are shared with all they have: present entries, migration entries, entries that are claimed at the moment (by a
//! walk, or a pin; not by a writer). No entry is read, so a fork does not meet a migration at all: what the walks turn in
//! a table they turn for all who share it. Entries multiply when a table is copied, which is where they are counted
//! ([`crate::tables::table`]).
//!
//! [`ForkMode::Copy`] is the baseline: it then gives the child tables of its own at once.
//!
//! Proved by `loom_fork_vs_two_writes_in_order`, `loom_fork_vs_first_walk`, `loom_fork_and_unmap_between_the_walks`.
//!
//! Source: Zhao, Gong and Fonseca, "On-demand-fork: a microsecond fork for memory-intensive and latency-sensitive
//! applications", EuroSys 2021, which shares the lowest level of the processor's page tables.

use std::sync::Arc;

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::{read, write};

use crate::error::{Error, ErrorKind, Op};
use crate::mm::mm::{Inner, Space};
use crate::words::geometry::table_of;

/// What a fork does with page tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForkMode {
    /// Share them until one of the spaces writes.
    #[default]
    Share,
    /// Copy them at once, as most systems do: the baseline.
    Copy,
}

impl<S: RefScheme> Space<S> {
    /// A space with the same areas and, as of one point in time, the same bytes. All pages are shared until either writes.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](ErrorKind::OutOfMemory) when the system gives no addresses for the directory,
    /// [`Refused`](ErrorKind::Refused). Nothing has changed then.
    pub fn fork(&self) -> Result<Self, Error> {
        self.fork_with(ForkMode::Share)
    }

    /// As [`fork`](Self::fork), as `mode` says.
    ///
    /// # Errors
    ///
    /// As [`fork`](Self::fork), and for [`ForkMode::Copy`] [`OutOfFrames`](ErrorKind::OutOfFrames) and
    /// [`TooManyEntries`](ErrorKind::TooManyEntries). The fork is undone whole then.
    pub fn fork_with(&self, mode: ForkMode) -> Result<Self, Error> {
        let child = Space {
            inner: self.inner.fork()?,
        };
        if mode == ForkMode::Copy {
            // If it fails, dropping the child undoes it.
            child.inner.with_room(|| child.inner.own_all_tables())?;
        }
        Ok(child)
    }
}

impl<S: RefScheme> Inner<S> {
    fn fork(&self) -> Result<Arc<Self>, Error> {
        let failed = |kind| Error::new(kind, Op::Fork);
        let shared = &self.shared;
        // 1.
        let areas = write(&self.structure);
        // 2.
        let child = Self::new(shared, areas.empty_like(), self.directory.len())
            .ok_or_else(|| failed(ErrorKind::OutOfMemory))?;
        let mut childs_areas = write(&child.structure);
        for area in areas.iter() {
            let forked = area.forked(shared.next_id());
            forked.link(&child);
            childs_areas.insert(forked);
        }
        drop(childs_areas);
        // 3.
        let stopped = shared.stop_writers(|| {
            let mut next = 0;
            for area in areas.iter() {
                let first = (table_of(area.range.start) as usize).max(next);
                next = table_of(area.range.end - 1) as usize + 1;
                let words = self.directory[first..next].iter();
                for (word, childs) in words.zip(&child.directory[first..next]) {
                    let pmd = Self::look(word);
                    let Some(table) = pmd.table() else {
                        continue;
                    };
                    shared.share_table(table);
                    if pmd.is_exclusive() {
                        Self::set(word, pmd.shared());
                    }
                    Self::set(childs, pmd.shared());
                }
            }
        });
        if stopped.is_err() {
            child.tear_down();
            return Err(failed(ErrorKind::Refused));
        }
        Ok(child)
    }

    /// Gives the space a copy of each table that it shares.
    fn own_all_tables(&self) -> Result<(), Error> {
        let areas = read(&self.structure);
        for area in areas.iter() {
            for (nr, word) in self.tables_of(&area.range).iter().enumerate() {
                if Self::look(word).is_present() {
                    let first = table_of(area.range.start) as usize;
                    let start = crate::words::geometry::table_start(first + nr);
                    self.own_table(area.order, start)
                        .map_err(|kind| Error::new(kind, Op::Fork))?;
                }
            }
        }
        Ok(())
    }
}
