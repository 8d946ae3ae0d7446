//! Which pages are in use: the mark that accesses set, looked at and taken off.
//!
//! A read or write of a page without the mark sets it, on its slow path; with the mark it has nothing to set. So whoever takes
//! the marks off now and then learns which pages were used in between, at the cost of one slow access to each of them.

use std::ops::Range;

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::read;

use crate::error::{Error, Op};
use crate::mm::mm::{Inner, Space};
use crate::supply::view;
use crate::tables::table::look;
use crate::words::claim::Claim;
use crate::words::geometry::{TABLE_BYTES, entry_of};
use crate::words::pte::State;

impl<S: RefScheme> Space<S> {
    /// The addresses of the pages of `range`, all of which must be mapped, that were accessed since this was last called for
    /// them, or since they were made: by this space, or by one that still shares the page table.
    ///
    /// Pages of a file are not among them, since the file's cache keeps their age for all who use the file; private copies
    /// are. A page that somebody is changing at the moment counts as accessed. A page that is made while this runs may be among
    /// them or not.
    ///
    /// # Errors
    ///
    /// [`InvalidRange`](crate::ErrorKind::InvalidRange), [`Misaligned`](crate::ErrorKind::Misaligned),
    /// [`Unmapped`](crate::ErrorKind::Unmapped).
    pub fn take_accessed(&self, range: Range<u64>) -> Result<Vec<u64>, Error> {
        let inner = &*self.inner;
        let shared = &*inner.shared;
        let areas = read(&inner.structure);
        inner.check(&areas, &range, Op::Age)?;
        let mut accessed = Vec::new();
        for area in areas.overlapping(&range) {
            let end = area.range.end.min(range.end);
            let mut addr = area.range.start.max(range.start);
            while addr < end {
                let pmd_word = &inner.tables_of(&(addr..addr + 1))[0];
                let next_table = (addr + 1).next_multiple_of(TABLE_BYTES).min(end);
                let Some(table) = shared.hold_table(pmd_word) else {
                    addr = next_table;
                    continue;
                };
                // A table that was exchanged meanwhile is another space's, and so are its pages; the new one is looked at
                // from here on. Why it is enough to look after the entry, and under its claim, is said in `find`.
                let is_ours = || Inner::<S>::look(pmd_word) == table.pmd;
                while addr < next_table {
                    let entry = entry_of(addr, u32::from(area.order.get()));
                    let word = view::entry(&shared.view, table.pmd.frame(), entry);
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
