//! Walks: from pages of a family to the entries that may name them.
//!
//! A walk visits the areas that are linked to the family, in the order of the links, and the pages
//! within each. It loads the entry for a page, and if that names the page, acquires a reference to
//! the table and visits the entry. One visit converts it for all spaces that share the table. The
//! first load, without a reference, may miss an entry while tables are exchanged. A thread that
//! must find all entries relies on the counts ([`crate::change::migrate`], A4).

use std::ops::ControlFlow;

use pagewell_frame::Order;
use pagewell_sync::atomic::AtomicU64;

use crate::motion::mover::Moving;
use crate::pages::links::Family;
use crate::supply::frames::Supply;
use crate::supply::view;
use crate::tables::table::Held;
use crate::words::claim::look;
use crate::words::geometry::{entry_of, table_of};
use crate::words::pmd::Directory;

struct TableCursor<'s> {
    supply: &'s Supply,
    last: Option<(*const AtomicU64, Held<'s>)>,
}

impl<'s> TableCursor<'s> {
    /// Returns the entry for `addr` of the space with this directory, in a table for pages of
    /// `order`. The cursor keeps its reference to the table until the next call.
    fn entry(&mut self, directory: &Directory, addr: u64, order: Order) -> Option<&'s AtomicU64> {
        let word = directory.get(table_of(addr) as usize)?;
        let is_last = |(last, held): &(*const AtomicU64, Held<'s>)| {
            std::ptr::eq(*last, word) && Directory::look(word) == held.pmd
        };
        if !self.last.as_ref().is_some_and(is_last) {
            self.last = None;
            let held = self.supply.hold_table(word)?;
            self.last = Some((std::ptr::from_ref(word), held));
        }
        let (_, held) = self.last.as_ref()?;
        let order = u32::from(order.get());
        let view = self.supply.view();
        (held.pmd.order() == order)
            .then(|| view::entry(view, held.pmd.frame(), entry_of(addr, order)))
    }
}

impl Supply {
    /// Calls `visit` for each found entry that may name one of `pages`, until it returns `Break`.
    /// The pages must be of `family`, and sorted by index.
    pub(crate) fn walk<'p>(
        &self,
        family: &Family,
        pages: &mut [Moving<'p>],
        mut visit: impl FnMut(&mut Moving<'p>, &AtomicU64) -> ControlFlow<()>,
    ) {
        let (Some(first), Some(last)) = (pages.first(), pages.last()) else {
            return;
        };
        let (first, end) = (first.index(), last.index() + 1);
        let _ = family.links.walk(first, end, |link| {
            let directory = &link.to;
            let begin = pages.partition_point(|page| page.index() < link.first);
            // If the table was dropped since, the drop of the cursor only frees the table's frame.
            let mut cursor = TableCursor {
                supply: self,
                last: None,
            };
            for page in &mut pages[begin..] {
                if page.index() >= link.end {
                    break;
                }
                let addr = link.addr_of(page.index());
                if !self.may_name(directory, addr, page) {
                    continue;
                }
                if let Some(entry) = cursor.entry(directory, addr, page.order) {
                    visit(page, entry)?;
                }
            }
            ControlFlow::Continue(())
        });
    }

    /// Returns `true` if the entry for `addr` names the page. This is a hint.
    fn may_name(&self, directory: &Directory, addr: u64, page: &Moving<'_>) -> bool {
        let Some(word) = directory.word(addr) else {
            return false;
        };
        let pmd = Directory::look(word);
        let order = u32::from(page.order.get());
        if !pmd.is_present() || pmd.order() != order {
            return false;
        }
        let entry = look(view::entry(self.view(), pmd.frame(), entry_of(addr, order)));
        entry.frame() == page.from.get()
    }
}
