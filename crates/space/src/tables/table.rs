//! Tables of page-table entries: frames of 512 words, each used by one or more spaces.
//!
//! A fork copies no table, but gives the child a share of each. While a table has several shares,
//! no new page is mapped in it, and no page is written through it: a space that writes copies the
//! table first ([`Tables::copy`]). So a fork increments one count for each 2 MiB, and the first
//! write to each 2 MiB after the fork costs the copy of a table.
//!
//! The metadata of the table's frame contains the number of shares. All shares together hold one
//! reference to the frame. The thread that drops the last share drops all entries, and then the
//! reference.
//!
//! Threads that may claim entries of a table, and the reason why the table is not freed in the
//! process:
//!
//! | thread | reason |
//! |---|---|
//! | writer at work ([`crate::supply::writers`]) | exclusive; leaves only with writers stopped |
//! | fault, change of areas: structure lock | exclusive; leaves only under that lock for writing |
//! | copier | share, which its space drops only afterwards, under the unsharing lock |
//! | walk, pin, slow read | has a reference to the frame ([`Held`]) |
//! | dropper of the last share | has the reference of the shares |
//!
//! T1: in a table with several shares, no empty entry is filled. T2: an entry that is marked
//! writable is the only one that names its frame; copying a table clears the bit in both tables.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FRAME_WORDS, FrameNr, FramePool, FrameRef, TryGetFrame};
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::thread::Backoff;

use crate::error::ErrorKind;
use crate::pages::record::Pages;
use crate::supply::frames::Supply;
use crate::supply::raw;
use crate::words::claim::{self, claim_used, look};
use crate::words::directory::Directory;
use crate::words::pmd::Pmd;
use crate::words::pte::{Pte, State};

/// Table that a directory named when it was held, and that is not freed while this value exists.
#[derive(Debug)]
pub(crate) struct Held<'s, S: RefScheme> {
    pub(crate) pmd: Pmd,
    _reference: FrameRef<'s, S>,
}

#[derive(Clone, Copy)]
pub(crate) struct Tables<'s, S: RefScheme> {
    supply: &'s Supply<S>,
}

impl<'s, S: RefScheme> Tables<'s, S> {
    #[inline]
    pub(crate) fn of(supply: &'s Supply<S>) -> Self {
        Self { supply }
    }

    fn pool(self) -> &'s FramePool<S> {
        self.supply.pool()
    }

    fn pages(self) -> Pages<'s, S> {
        Pages::of(self.pool())
    }

    /// Creates a table without entries, with one share. Returns `None` if no frame is available.
    pub(crate) fn make(self) -> Option<FrameNr> {
        let frame = self.supply.alloc_table()?;
        let bytes = frame.bytes();
        bytes.zero(0, bytes.len());
        Some(raw::publish_table(frame))
    }

    fn shares(self, table: FrameNr) -> &'s AtomicU64 {
        raw::counts_of(self.pool(), table)
    }

    pub(crate) fn share(self, table: FrameNr) {
        // ORDERING: Relaxed; the caller has a share already, which orders its accesses of the
        // table.
        self.shares(table).fetch_add(1, Ordering::Relaxed);
    }

    /// Returns `true` if the caller's share is the only one. A result of `true` holds until the
    /// caller's space is forked.
    pub(crate) fn is_only_share(self, table: FrameNr) -> bool {
        // ORDERING: Acquire; pairs with the release of `drop_share`: the caller sees the other
        // spaces' changes of the table.
        self.shares(table).load(Ordering::Acquire) == 1
    }

    /// Drops a share. The drop of the last share drops the entries and frees the table.
    pub(crate) fn drop_share(self, table: FrameNr) {
        // ORDERING: AcqRel; release for `is_only_share`; acquire for the thread that drops the last
        // share, and with it the entries.
        if self.shares(table).fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        // Lookups that begin now do not find the table in their directory. Earlier ones may hold a
        // reference to it.
        match raw::counted_reference(self.pool(), table).try_unique() {
            Ok(unique) => {
                for word in self.entries(table) {
                    // No other thread has a reference to the table, so none claims the entry.
                    let entry = look(word);
                    // ORDERING: Release; pairs with the acquire of a late reader. It finds an empty
                    // entry, and then sees that its directory names another table or none.
                    word.store(Pte::EMPTY.bits(), Ordering::Release);
                    self.drop_entry_waited_for(word, entry);
                }
                self.supply.free_table(unique);
            }
            Err(reference) => {
                for word in self.entries(table) {
                    self.empty(word);
                }
                drop(reference);
                self.supply.forget_table();
            }
        }
    }

    pub(crate) fn empty(self, word: &AtomicU64) {
        if let Some(claim) = claim_used(word) {
            let before = claim.before();
            claim.end(before.emptied());
            self.drop_entry_waited_for(word, before);
        }
    }

    #[inline]
    fn drop_entry_waited_for(self, word: &AtomicU64, before: Pte) {
        self.pages().drop_entry(before);
        self.wake(word, before);
    }

    /// Copies a table that has several shares, one of them the caller's. The copy has one share.
    /// Pages that were writable through the original are then writable through neither table.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::OutOfFrames`] or [`ErrorKind::TooManyEntries`]. Some writable bits of the
    /// original may have been cleared; nothing else has changed.
    pub(crate) fn copy(self, table: FrameNr) -> Result<FrameNr, ErrorKind> {
        let copy = self.make().ok_or(ErrorKind::OutOfFrames)?;
        let words = self.entries(table).iter().zip(self.entries(copy));
        for (from, to) in words {
            // T1 (see the module): empty entries stay empty.
            let Some(claim) = claim_used(from) else {
                continue;
            };
            let before = claim.before();
            // The copy is counted while the entry is claimed, so no walk can convert the entry, and
            // no other copy of it can be counted, between the count and the copy.
            if self.pages().count_copy(before).is_err() {
                drop(claim);
                self.drop_share(copy);
                return Err(ErrorKind::TooManyEntries);
            }
            // ORDERING: Relaxed; the directory's entry publishes the copy.
            to.store(before.shared().bits(), Ordering::Relaxed);
            if before.is_writable() {
                claim.end(before.shared());
            }
        }
        Ok(copy)
    }

    /// Acquires a reference to the table that `word`, a directory entry, names. Returns `None` if
    /// it names no table.
    ///
    /// The directory may have changed since. A caller that relies on it loads the directory's entry
    /// again after claiming an entry of the table.
    pub(crate) fn hold(self, word: &AtomicU64) -> Option<Held<'s, S>> {
        let mut backoff = Backoff::new();
        loop {
            let pmd = Directory::look(word);
            let table = pmd.table()?;
            match self.pool().try_get(table) {
                TryGetFrame::Taken(reference) => {
                    // ORDERING: Acquire. If the table was freed and its frame reused before the
                    // reference was acquired, the acquisition synchronized with the later
                    // publication of the frame. The change of the directory happened before that
                    // publication, so this load sees it.
                    if word.load(Ordering::Acquire) == pmd.bits() {
                        return Some(Held {
                            pmd,
                            _reference: reference,
                        });
                    }
                }
                TryGetFrame::Locked | TryGetFrame::Saturated => {}
            }
            backoff.wait();
        }
    }

    pub(crate) fn entries(self, table: FrameNr) -> &'s [AtomicU64] {
        let words = raw::table_words(self.pool(), table);
        debug_assert_eq!(words.len(), FRAME_WORDS);
        words
    }

    /// Waits while a migration entry is unchanged and its table is in the directory. The caller
    /// holds no lock and no reference to the table.
    ///
    /// The directory is checked because the table may be freed before the waiter loads the word.
    /// The frame's next user may store an equal word there for any time, and wakes no waiter. A
    /// change of the directory needs no wake of its own. If another space still uses the table, the
    /// walk finds the entry and wakes its waiters. Otherwise the thread that empties the table
    /// wakes the waiters of every migration entry in it. Both wakes come after the change of the
    /// directory, and a woken waiter checks both words.
    pub(crate) fn wait_for_migration(
        self,
        (pmd_word, pmd): (&AtomicU64, Pmd),
        (word, entry): (&AtomicU64, Pte),
    ) {
        claim::assert_none_held();
        self.pool().waits().wait_while(word, |word| {
            look(word) == entry && Directory::look(pmd_word) == pmd
        });
    }

    /// Wakes the waiters for the entry in `word` if `before` is a migration entry.
    pub(crate) fn wake(self, word: &AtomicU64, before: Pte) {
        if let State::Migration(_) = before.state() {
            self.pool().waits().wake(word);
        }
    }
}
