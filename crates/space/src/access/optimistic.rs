//! Optimistic read: takes no reference and writes no shared memory.
//!
//! ```text
//! reader                                       thread that changes the page, or its place
//! 1 load the sequence counter   (acquire)      a claim the entry, or change the directory's
//! 2 load the directory's entry  (acquire)      b end the claim: new version   (release);
//! 3 load the table's entry      (acquire)        or increment the counter     (release)
//! 4 give up unless it is hot                   c drop the count, the share: the frame is free
//! 5 copy the bytes                             d another thread allocates it  (acquire)
//! 6 fence(Acquire)                             e fence(Release)
//! 7 load entry and counter: unchanged?         f write other bytes, or entries
//! ```
//!
//! If step 5 copies a byte, or step 3 loads a word, that step f wrote, then step 7 sees the change
//! of step a or b before it. A read that finds both unchanged therefore has the bytes that its own
//! page had at one moment between steps 3 and 7.
//!
//! The sequence counter (`edition`) detects that a table has left this space's directory (D1 of
//! [`crate::tables::of_space`]). Only after that may the table become exclusive to another space,
//! which maps and writes its own pages through it, or may its frame become a page of data. (Step 5
//! checks that words name frames of the pool.) If step 1 loads the counter after the increment,
//! step 2 does not find the table. Otherwise, if steps 3 to 5 have read anything of the table's new
//! use, step 7 finds another value.
//!
//! The directory's entry needs no second load: while it names the same table, only bits that
//! concern writers change (`docs/adr/0032-directory-sequence-counter.md`).
//!
//! Verified by `loom_read_vs_write`, `loom_read_vs_migration_there_and_back`,
//! `loom_read_vs_fork_and_write`.

use pagewell_frame::FRAME_BYTES;
use pagewell_sync::atomic::{Ordering, fence};

use crate::supply::view;
use crate::tables::of_space::PageTables;
use crate::words::claim::look;
use crate::words::geometry::{MAX_PAGE_ORDER, entry_of, offset_in_page, page_bytes};
use crate::words::pmd::{Directory, Pmd};

/// Maximum length of an inlined read. Up to this length, the racy copy makes no call.
pub(crate) const SHORT_BYTES: usize = 64;

impl PageTables {
    /// As [`read_page`](Self::read_page), inlined, for a short read of a page of one frame:
    /// constant shifts, no call. The fewer instructions, the more random reads overlap in the
    /// processor's reorder window (`docs/adr/0004-hit-path.md`).
    #[inline(always)]
    pub(crate) fn read_short(&self, addr: u64, buf: &mut [u8]) -> bool {
        if buf.len() > SHORT_BYTES {
            return false;
        }
        // 1.
        let edition = self.edition();
        let Some(pmd_word) = self.pmd_word(addr) else {
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
        let view = &self.view;
        let word = view::entry_from(view, pmd.table_start(), entry_of(addr, 0));
        let entry = look(word);
        // 4 and 5.
        if !entry.is_hot() || !view::copy_small_page(view, entry, off, buf) {
            return false;
        }
        // ORDERING: Acquire fence, then Relaxed; steps 6 and 7, as in `read_if`.
        fence(Ordering::Acquire);
        word.load(Ordering::Relaxed) == entry.bits() && self.is_edition(edition)
    }

    /// As [`read_short`](Self::read_short), also with constant shifts, for pages of 2 MiB.
    #[inline(always)]
    pub(crate) fn read_huge(&self, addr: u64, buf: &mut [u8]) -> bool {
        const ORDER: u32 = MAX_PAGE_ORDER.get() as u32;
        if buf.len() > SHORT_BYTES {
            return false;
        }
        self.read_if(addr, buf, Pmd::has_huge_pages, |_| ORDER)
    }

    /// Fills `buf` from within one page, by the steps of the module. Returns `false` if a check
    /// fails: the caller then makes a slow read. `buf` may have been written to.
    #[inline(always)]
    pub(crate) fn read_page(&self, addr: u64, buf: &mut [u8]) -> bool {
        self.read_if(addr, buf, Pmd::is_present, Pmd::order)
    }

    /// As [`read_page`](Self::read_page), only for tables that `is_meant` accepts; `order` returns
    /// that of their pages.
    #[inline(always)]
    fn read_if(
        &self,
        addr: u64,
        buf: &mut [u8],
        is_meant: impl FnOnce(Pmd) -> bool,
        order: impl FnOnce(Pmd) -> u32,
    ) -> bool {
        // 1.
        let edition = self.edition();
        let Some(pmd_word) = self.pmd_word(addr) else {
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
        let view = self.view;
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
        // ORDERING: Acquire fence (step 6); pairs with the release fence of threads that overwrite
        // the bytes (`Claim::before_writing`, `UniqueFrame::bytes`), through these bytes.
        fence(Ordering::Acquire);
        // ORDERING: Relaxed (step 7); ordered by the fence.
        word.load(Ordering::Relaxed) == entry.bits() && self.is_edition(edition)
    }
}
