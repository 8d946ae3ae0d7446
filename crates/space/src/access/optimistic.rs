//! The optimistic read: nothing shared is written, and no reference is taken.
//!
//! ```text
//! reader                                       who changes the page, or its place
//! 1 load the edition            (acquire)      a claim the entry, or change the directory's
//! 2 load the directory's entry  (acquire)      b end the claim: new version   (release);
//! 3 load the table's entry      (acquire)        or move the edition          (release)
//! 4 give up unless it is hot                   c drop the count, the share: the frame is free
//! 5 copy the bytes                             d someone allocates it (acquire)
//! 6 fence(Acquire)                             e fence(Release)
//! 7 load entry and edition again: unchanged?   f write other bytes, or entries
//! ```
//!
//! If step 5 copies a byte that step f wrote, or step 3 loads a word that step f wrote, then step 7 sees the change of
//! step a or b that came before it. So a read that finds both unchanged has the bytes of its own page, of one
//! moment between steps 3 and 7.
//!
//! Why there is an edition: a table that was shared may become another space's alone, which then
//! writes its own pages through it, and the entry would be read in a state that it never had in this space. And a table
//! that was freed may be a page of data by now, whose words are any numbers: step 5 makes sure that they name frames of
//! the pool, and reads there at the worst. Either comes after the table has left this space's directory, which moves the edition
//! (D1 of [`crate::tables::of_space`]). If step 1 has the edition from after that, step 2 does not find the table; if it has
//! the one from before, step 7 has another, as soon as anything of the table's new user was read.
//!
//! The directory's entry need not be looked at again: while the table stays in it, the entry changes in what writers ask for
//! only. That leaves two registers more to the read, which so needs none of the stack's memory (`docs/adr/0032-directory-sequence-counter.md`).
//!
//! Proved by `loom_read_vs_write`, `loom_read_vs_migration_there_and_back`, `loom_read_vs_fork_and_write`.

use pagewell_frame::FRAME_BYTES;
use pagewell_frame::refcount::RefScheme;
use pagewell_sync::atomic::{Ordering, fence};

use crate::supply::view;
use crate::tables::of_space::PageTables;
use crate::words::claim::look;
use crate::words::directory::Directory;
use crate::words::geometry::{MAX_PAGE_ORDER, entry_of, offset_in_page, page_bytes};
use crate::words::pmd::Pmd;

/// The longest read that is tried in line: what the racy copy does without a call.
pub(crate) const SHORT_BYTES: usize = 64;

/// Reads of pages that are present, by the tables of a space alone.
#[derive(Clone, Copy)]
pub(crate) struct Optimistic<'m, S: RefScheme> {
    tables: &'m PageTables<S>,
}

impl<'m, S: RefScheme> Optimistic<'m, S> {
    #[inline(always)]
    pub(crate) fn of(tables: &'m PageTables<S>) -> Self {
        Self { tables }
    }

    /// As [`read_page`](Self::read_page), for a short read of a page of one frame, in line: with shifts
    /// by constants, and without a call. Every instruction counts here: on random reads, how many of them overlap is decided
    /// by how many fit into the processor's window (`docs/adr/0004-hit-path.md`).
    #[inline(always)]
    pub(crate) fn read_short(self, addr: u64, buf: &mut [u8]) -> bool {
        if buf.len() > SHORT_BYTES {
            return false;
        }
        // 1.
        let edition = self.tables.edition();
        let Some(pmd_word) = self.tables.pmd_word(addr) else {
            return false;
        };
        // 2.
        let pmd = Directory::look(pmd_word);
        if !pmd.has_small_pages() {
            return false;
        }
        let off = offset_in_page(addr, 0);
        if off + buf.len() > FRAME_BYTES {
            return false;
        }
        // 3.
        let view = self.tables.view();
        let word = view::entry_from(view, pmd.table_start(), entry_of(addr, 0));
        let entry = look(word);
        // 4 and 5.
        if !entry.is_hot() || !view::copy_small_page(view, entry, off, buf) {
            return false;
        }
        // 6 and 7; see `read_page`.
        // ORDERING: Acquire fence, then Relaxed, as there.
        fence(Ordering::Acquire);
        word.load(Ordering::Relaxed) == entry.bits() && self.tables.is_edition(edition)
    }

    /// As [`read_short`](Self::read_short), for pages of 2 MiB, with shifts by constants. A table has one entry of such pages, in a
    /// line that its neighbours leave to it ([`crate::words::geometry`]).
    #[inline(always)]
    pub(crate) fn read_huge(self, addr: u64, buf: &mut [u8]) -> bool {
        const ORDER: u32 = MAX_PAGE_ORDER.get() as u32;
        if buf.len() > SHORT_BYTES {
            return false;
        }
        self.read_if(addr, buf, Pmd::has_huge_pages, |_| ORDER)
    }

    /// Fills `buf` from within one page; false, and `buf` may have been written to, if the slow read has to decide. The
    /// numbers are those of the module's text.
    #[inline(always)]
    pub(crate) fn read_page(self, addr: u64, buf: &mut [u8]) -> bool {
        self.read_if(addr, buf, Pmd::is_present, Pmd::order)
    }

    /// As [`read_page`](Self::read_page), of tables that `is_meant` takes: for pages of the order that `order` says.
    #[inline(always)]
    fn read_if(
        self,
        addr: u64,
        buf: &mut [u8],
        is_meant: impl FnOnce(Pmd) -> bool,
        order: impl FnOnce(Pmd) -> u32,
    ) -> bool {
        let view = *self.tables.view();
        // 1.
        let edition = self.tables.edition();
        let Some(pmd_word) = self.tables.pmd_word(addr) else {
            return false;
        };
        // 2.
        let pmd = Directory::look(pmd_word);
        if !is_meant(pmd) {
            return false;
        }
        let order = order(pmd);
        let off = offset_in_page(addr, order);
        if off as u64 + buf.len() as u64 > page_bytes(order) {
            return false;
        }
        // 3.
        let word = view::entry(&view, pmd.frame(), entry_of(addr, order));
        let entry = look(word);
        // 4.
        if !entry.is_hot() {
            return false;
        }
        // 5.
        if !view::copy_page(&view, entry.frame(), order, off, buf) {
            return false;
        }
        // 6.
        // ORDERING: Acquire fence; pairs with the release fence of whoever overwrites the bytes
        // (`Claim::before_writing`, `UniqueFrame::bytes`), through the bytes. It keeps the loads below from being done
        // before the copy.
        fence(Ordering::Acquire);
        // 7.
        // ORDERING: Relaxed; ordered by the fence.
        word.load(Ordering::Relaxed) == entry.bits() && self.tables.is_edition(edition)
    }
}
