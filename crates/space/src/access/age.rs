//! Which pages are in use: the mark that accesses set, looked at and taken off.
//!
//! A read or write of a page without the mark sets it, on its slow path; with the mark it has nothing to set. So whoever takes
//! the marks off now and then learns which pages were used in between, at the cost of one slow access to each of them.

use std::ops::Range;

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::{RwLock, read};

use crate::areas::set::Areas;
use crate::error::{Error, Op};
use crate::supply::frames::Supply;
use crate::tables::of_space::PageTables;
use crate::tables::table::Tables;
use crate::words::claim::{Claim, look};
use crate::words::directory::Directory;
use crate::words::geometry::{TABLE_BYTES, entry_of};
use crate::words::pte::State;

/// The marks of a space's pages.
pub(crate) struct Marks<'m, S: RefScheme> {
    areas: &'m RwLock<Areas<S>>,
    tables: &'m PageTables<S>,
    supply: &'m Supply<S>,
}

impl<'m, S: RefScheme> Marks<'m, S> {
    /// For a space with these areas and tables, in these frames.
    pub(crate) fn new(
        areas: &'m RwLock<Areas<S>>,
        tables: &'m PageTables<S>,
        supply: &'m Supply<S>,
    ) -> Self {
        Self {
            areas,
            tables,
            supply,
        }
    }

    /// The addresses of the pages of `range` that have the mark, which is taken off.
    pub(crate) fn take(&self, range: Range<u64>) -> Result<Vec<u64>, Error> {
        let areas = read(self.areas);
        areas.check(&range, Op::Age)?;
        let mut accessed = Vec::new();
        for area in areas.overlapping(&range) {
            let end = area.range.end.min(range.end);
            let mut addr = area.range.start.max(range.start);
            while addr < end {
                let pmd_word = self.tables.word_of(addr);
                let next_table = (addr + 1).next_multiple_of(TABLE_BYTES).min(end);
                let Some(table) = Tables::of(self.supply).hold(pmd_word) else {
                    addr = next_table;
                    continue;
                };
                // A table that was exchanged meanwhile is another space's, and so are its pages; the new one is looked at
                // from here on. Why it is enough to look after the entry, and under its claim, is said in [`crate::motion::find`].
                let is_ours = || Directory::look(pmd_word) == table.pmd;
                while addr < next_table {
                    let entry = entry_of(addr, u32::from(area.order.get()));
                    let word = self.tables.entry(table.pmd, entry);
                    let entry = look(word);
                    let is_accessed = match entry.state() {
                        State::Empty => false,
                        State::Busy | State::Migration(_) => true,
                        State::Present(_) => entry.is_accessed(),
                    };
                    if !is_ours() {
                        break;
                    }
                    // One that is claimed meanwhile keeps its mark.
                    if let State::Present(_) = entry.state()
                        && is_accessed
                        && let Some(claim) = Claim::try_new(word, entry)
                    {
                        if !is_ours() {
                            break;
                        }
                        claim.end(entry.aged());
                    }
                    if is_accessed {
                        accessed.push(addr);
                    }
                    addr += area.page_bytes();
                }
            }
        }
        Ok(accessed)
    }
}
