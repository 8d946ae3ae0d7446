//! Reading.
//!
//! # The optimistic read
//!
//! Nothing shared is written, and no reference is taken.
//!
//! ```text
//! reader                                       who changes the page, or its place
//! 1 load the directory's entry  (acquire)      a claim the entry, or change the directory's
//! 2 load the table's entry      (acquire)      b end the claim: new version   (release)
//! 3 give up unless it is hot                   c drop the count, the share: the frame is free
//! 4 copy the bytes                             d someone allocates it (acquire)
//! 5 fence(Acquire)                             e fence(Release)
//! 6 load both entries again: unchanged?        f write other bytes, or entries
//! ```
//!
//! If step 4 copies a byte that step f wrote, or step 2 loads a word that step f wrote, then step 6 sees the change of
//! step a or b that came before it. So a read that finds both entries unchanged has the bytes of its own page, of one
//! moment between steps 2 and 6.
//!
//! Why the directory's entry is checked too: a table that was shared may become another space's alone, which then
//! writes its own pages through it, and the entry would be read in a state that it never had in this space. And a table
//! that was freed may be a page of data by now, whose words are any numbers: step 4 makes sure that they name frames of
//! the pool, and reads there at the worst.
//!
//! # The slow read
//!
//! Under the structure lock, with the table held and the entry claimed. What was never written is zeros, for which
//! no page is made, or what the file has that the area shows ([`crate::access::files`]). A migration entry is waited for
//! with no lock held.
//!
//! Proved by `loom_read_vs_write`, `loom_read_vs_migration_there_and_back`, `loom_read_vs_fork_and_write`, `loom_wait_vs_table_reuse`.

use pagewell_frame::FRAME_BYTES;
use pagewell_frame::refcount::RefScheme;
use pagewell_sync::atomic::{AtomicU64, Ordering, fence};
use pagewell_sync::read;
use pagewell_sync::thread::Backoff;

use crate::access::files::Slow;
use crate::error::{Error, ErrorKind, Op};
use crate::mm::mm::{Inner, Space};
use crate::supply::view;
use crate::tables::table::look;
use crate::words::claim::{self, Claim};
use crate::words::geometry::{entry_of, offset_in_page, page_bytes};
use crate::words::pmd::Pmd;
use crate::words::pte::{Pte, State};

/// The longest read that is tried in line: what the racy copy does without a call.
pub(crate) const SHORT_BYTES: usize = 64;

impl<S: RefScheme> Space<S> {
    /// Fills `buf` with the bytes from `addr` on.
    ///
    /// Of each page it has the bytes of one moment. Bytes that were never written are zeros.
    ///
    /// # Errors
    ///
    /// [`Unmapped`](ErrorKind::Unmapped), [`Protected`](ErrorKind::Protected),
    /// [`InvalidRange`](ErrorKind::InvalidRange) when it reaches beyond the addresses of the space. Where a file is
    /// mapped, [`PastEnd`](ErrorKind::PastEnd) beyond its last page, [`OutOfFrames`](ErrorKind::OutOfFrames),
    /// [`TooManyPins`](ErrorKind::TooManyPins), and [`File`](ErrorKind::File) when it cannot be read. What is in `buf`
    /// then is zeros from the page on that could not be read.
    #[inline]
    pub fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), Error> {
        if self.inner.read_short(addr, buf) {
            return Ok(());
        }
        self.inner.read_other(addr, buf)
    }
}

impl<S: RefScheme> Inner<S> {
    /// As [`read_page_optimistic`](Self::read_page_optimistic), for a short read of a page of one frame, in line: with shifts
    /// by constants, and without a call. Every instruction counts here: on random reads, how many of them overlap is decided
    /// by how many fit into the processor's window (`docs/adr/0004-hit-path.md`).
    #[inline(always)]
    pub(crate) fn read_short(&self, addr: u64, buf: &mut [u8]) -> bool {
        if buf.len() > SHORT_BYTES {
            return false;
        }
        // Loaded before the first atomic access, or the compiler must load it again after it.
        let view = self.view;
        let Some(pmd_word) = self.pmd_word(addr) else {
            return false;
        };
        // 1.
        let pmd = Self::look(pmd_word);
        if !pmd.has_small_pages() {
            return false;
        }
        let off = offset_in_page(addr, 0);
        if off + buf.len() > FRAME_BYTES {
            return false;
        }
        // 2.
        let word = view::entry(&view, pmd.frame(), entry_of(addr, 0));
        let entry = look(word);
        // 3 and 4.
        if !entry.is_hot() || !view::copy_small_page(&view, entry, off, buf) {
            return false;
        }
        // 5 and 6; see `read_page_optimistic`.
        // ORDERING: Acquire fence, then Relaxed, as there.
        fence(Ordering::Acquire);
        word.load(Ordering::Relaxed) == entry.bits()
            && pmd_word.load(Ordering::Relaxed) == pmd.bits()
    }

    /// Fills `buf` from within one page; false, and `buf` may have been written to, if the slow read has to decide. The
    /// numbers are those of the module's text.
    #[inline(always)]
    pub(crate) fn read_page_optimistic(&self, addr: u64, buf: &mut [u8]) -> bool {
        let shared = &*self.shared;
        let Some(pmd_word) = self.pmd_word(addr) else {
            return false;
        };
        // 1.
        let pmd = Self::look(pmd_word);
        if !pmd.is_present() {
            return false;
        }
        let order = pmd.order();
        let off = offset_in_page(addr, order);
        if off as u64 + buf.len() as u64 > page_bytes(order) {
            return false;
        }
        // 2.
        let word = view::entry(&shared.view, pmd.frame(), entry_of(addr, order));
        let entry = look(word);
        // 3.
        if !entry.is_hot() {
            return false;
        }
        // 4.
        if !view::copy_page(&shared.view, entry.frame(), order, off, buf) {
            return false;
        }
        // 5.
        // ORDERING: Acquire fence; pairs with the release fence of whoever overwrites the bytes
        // (`Claim::before_writing`, `UniqueFrame::bytes`), through the bytes. It keeps the loads below from being done
        // before the copy.
        fence(Ordering::Acquire);
        // 6.
        // ORDERING: Relaxed, both; ordered by the fence.
        word.load(Ordering::Relaxed) == entry.bits()
            && pmd_word.load(Ordering::Relaxed) == pmd.bits()
    }

    /// Reads any number of pages. Apart, so that the read in line has few registers to save.
    #[inline(never)]
    pub(crate) fn read_pages(&self, addr: u64, buf: &mut [u8]) -> Result<(), Error> {
        let mut done = 0;
        while done < buf.len() {
            let result = addr
                .checked_add(done as u64)
                .ok_or(Error::at(ErrorKind::InvalidRange, Op::Read, addr))
                .and_then(|at| self.read_within_page(at, &mut buf[done..]));
            match result {
                Ok(n) => done += n,
                Err(error) => {
                    // A copy that failed its check may have left foreign bytes behind.
                    buf[done..].fill(0);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Fills the part of `buf` that is in the page of `addr`; returns how much that is.
    fn read_within_page(&self, addr: u64, buf: &mut [u8]) -> Result<usize, Error> {
        let word = self
            .pmd_word(addr)
            .ok_or(Error::at(ErrorKind::InvalidRange, Op::Read, addr))?;
        // Without a table the order is unknown, and it does not matter: the slow read asks the area.
        let pmd = Self::look(word);
        if pmd.is_present() {
            let order = pmd.order();
            let rest = page_bytes(order) - offset_in_page(addr, order) as u64;
            let len = buf.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
            if self.read_page_optimistic(addr, &mut buf[..len]) {
                return Ok(len);
            }
        }
        if let Some(len) = self.read_file(addr, buf) {
            return Ok(len);
        }
        self.read_slowly(addr, buf)
    }

    /// The slow read, but for getting pages of files.
    #[cold]
    pub(crate) fn read_locked(&self, addr: u64, buf: &mut [u8]) -> Result<Slow<S>, Error> {
        let failed = |kind| Error::at(kind, Op::Read, addr);
        let mut backoff = Backoff::new();
        loop {
            let areas = read(&self.structure);
            let area = areas
                .area_of(addr)
                .ok_or_else(|| failed(ErrorKind::Unmapped))?;
            if !area.protection.allows_reads() {
                return Err(failed(ErrorKind::Protected));
            }
            let order = u32::from(area.order.get());
            let off = offset_in_page(addr, order);
            let len = buf.len().min((page_bytes(order) - off as u64) as usize);
            let buf = &mut buf[..len];
            let pmd_word = self
                .pmd_word(addr)
                .ok_or_else(|| failed(ErrorKind::InvalidRange))?;
            let Some(table) = self.shared.hold_table(pmd_word) else {
                let is_absent = || !Self::look(pmd_word).is_present();
                match self
                    .read_absent(area, addr, buf, is_absent)
                    .map_err(failed)?
                {
                    Some(slow) => return Ok(slow),
                    None => continue,
                }
            };
            let word = view::entry(&self.shared.view, table.pmd.frame(), entry_of(addr, order));
            let entry = look(word);
            let claim = match entry.state() {
                State::Empty if Self::look(pmd_word) == table.pmd => {
                    let is_absent = || look(word) == entry && Self::look(pmd_word) == table.pmd;
                    match self
                        .read_absent(area, addr, buf, is_absent)
                        .map_err(failed)?
                    {
                        Some(slow) => return Ok(slow),
                        None => continue,
                    }
                }
                State::Migration(_) => {
                    let pmd = table.pmd;
                    drop(table);
                    drop(areas);
                    self.wait_for_migration((pmd_word, pmd), (word, entry));
                    continue;
                }
                State::Present(_) => Claim::try_new(word, entry),
                State::Empty | State::Busy => None,
            };
            // The claim sees what the last one did, and with it the change of the directory, if the table became
            // somebody else's before.
            if let Some(claim) = claim
                && Self::look(pmd_word) == table.pmd
            {
                view::page_bytes_of(&self.shared.view, entry.frame(), off, len).copy_to(0, buf);
                if !entry.is_accessed() {
                    claim.end(entry.touched());
                }
                return Ok(Slow::Done(len));
            }
            drop(table);
            drop(areas);
            backoff.wait();
        }
    }

    /// Waits until an entry is not what it was seen as, a migration entry, or its table is not in the directory any more.
    /// With no lock held, nor the table.
    ///
    /// Why the directory is looked at: the table may be freed, and its frame be used for anything, before the waiter
    /// gets to look at the word; which may then be what it was seen as for as long as the other user likes, who
    /// wakes nobody. Why nobody has to be woken for the directory: a table that is taken out of it is somebody else's
    /// still, where the walk finds the entry and wakes who waits for it; or it is freed, and whoever empties it
    /// wakes for every migration entry in it. Both come after the change of the directory, and a waiter that was woken
    /// looks at both words.
    pub(crate) fn wait_for_migration(
        &self,
        (pmd_word, pmd): (&AtomicU64, Pmd),
        (word, entry): (&AtomicU64, Pte),
    ) {
        claim::assert_none_held();
        self.shared.pool().waits().wait_while(word, |word| {
            look(word) == entry && Self::look(pmd_word) == pmd
        });
    }
}
