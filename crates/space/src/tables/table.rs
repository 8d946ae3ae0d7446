//! Tables of page-table entries: frames of 512 words, each used by one or more spaces.
//!
//! A fork gives the child a share of each table. While a table has several shares, no new page is
//! mapped in it, and no page is written through it: a space copies the table before it writes.
//!
//! The metadata of the table's frame counts the shares, which together hold one reference to the
//! frame. The thread that drops the last share drops all entries, and then the reference.
//!
//! Threads that may claim entries of a table, and why the table is not freed while they do so:
//!
//! | thread | reason |
//! |---|---|
//! | writer at work ([`crate::supply::writers`]) | exclusive; removed only with writers stopped |
//! | fault, change of areas: structure lock | exclusive; removed only under this lock for writing |
//! | copier | its space has a share, and drops it only afterwards, under the unsharing lock |
//! | walk, pin, slow read | has a reference to the frame ([`Held`]) |
//! | thread that drops the last share | has the reference of the shares |
//!
//! T1: in a table with several shares, no empty entry is filled. T2: an entry that is marked
//! writable is the only one that names its frame; copying a table clears the bit in both tables.

use pagewell_frame::{FRAME_WORDS, FrameNr, FrameRef, TryGetFrame};
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::thread::Backoff;

use crate::error::ErrorKind;
use crate::supply::frames::Supply;
use crate::supply::view;
use crate::words::claim::{self, claim_used, look};
use crate::words::pmd::{Directory, Pmd};
use crate::words::pte::{Pte, State};

/// Table that a directory named, and that is not freed while this value exists.
#[derive(Debug)]
pub(crate) struct Held<'s> {
    pub(crate) pmd: Pmd,
    _reference: FrameRef<'s>,
}

impl Supply {
    /// Creates a table without entries, with one share. Returns `None` if no frame is available.
    pub(crate) fn make_table(&self) -> Option<FrameNr> {
        let frame = self.alloc_table()?;
        let bytes = frame.bytes();
        bytes.zero(0, bytes.len());
        Some(view::publish_table(frame))
    }

    fn table_shares(&self, table: FrameNr) -> &AtomicU64 {
        view::counts_of(self.pool(), table)
    }

    pub(crate) fn share_table(&self, table: FrameNr) {
        // ORDERING: Relaxed; the caller's own share orders its accesses of the table.
        self.table_shares(table).fetch_add(1, Ordering::Relaxed);
    }

    /// Returns `true` if the caller's share is the only one. It stays so until the space is forked.
    pub(crate) fn is_only_share(&self, table: FrameNr) -> bool {
        // ORDERING: Acquire; pairs with `drop_share`: the caller sees other spaces' changes.
        self.table_shares(table).load(Ordering::Acquire) == 1
    }

    pub(crate) fn drop_share(&self, table: FrameNr) {
        // ORDERING: AcqRel; release for `is_only_share`; acquire for the drop of the entries.
        if self.table_shares(table).fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        // Only earlier lookups may have a reference: the directory no longer names the table.
        match view::counted_reference(self.pool(), table).try_unique() {
            Ok(unique) => {
                for word in self.table_entries(table) {
                    // No other thread has a reference to the table, so none claims the entry.
                    let entry = look(word);
                    // ORDERING: Release; pairs with the acquire of a late reader, which finds an
                    // empty entry, and then sees that its directory names another table or none.
                    word.store(Pte::EMPTY.bits(), Ordering::Release);
                    self.drop_entry_waited_for(word, entry);
                }
                self.free_table(unique);
            }
            Err(reference) => {
                for word in self.table_entries(table) {
                    self.empty_entry(word);
                }
                drop(reference);
                self.forget_table();
            }
        }
    }

    pub(crate) fn empty_entry(&self, word: &AtomicU64) {
        if let Some(claim) = claim_used(word) {
            let before = claim.before();
            claim.end(before.emptied());
            self.drop_entry_waited_for(word, before);
        }
    }

    #[inline]
    fn drop_entry_waited_for(&self, word: &AtomicU64, before: Pte) {
        self.drop_entry(before);
        self.wake_entry(word, before);
    }

    /// Copies a table that has several shares, one of them the caller's. Afterwards neither table
    /// has writable bits. After an error, only writable bits of the original may have been cleared.
    pub(crate) fn copy_table(&self, table: FrameNr) -> Result<FrameNr, ErrorKind> {
        let copy = self.make_table().ok_or(ErrorKind::OutOfFrames)?;
        let words = std::iter::zip(self.table_entries(table), self.table_entries(copy));
        for (from, to) in words {
            // T1: empty entries stay empty.
            let Some(claim) = claim_used(from) else {
                continue;
            };
            let before = claim.before();
            // While the entry is claimed, no walk converts it, and no other copy of it is counted.
            if self.count_copy(before).is_err() {
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

    /// Acquires a reference to the table that the directory entry `word` names, if it names one. A
    /// caller that relies on the directory checks it again after claiming an entry of the table.
    #[inline]
    pub(crate) fn hold_table(&self, word: &AtomicU64) -> Option<Held<'_>> {
        let mut backoff = Backoff::new();
        loop {
            let pmd = Directory::look(word);
            let table = pmd.table()?;
            match self.pool().try_get(table) {
                TryGetFrame::Taken(reference) => {
                    // ORDERING: Acquire. If the frame was reused before the reference was acquired,
                    // the acquisition synchronized with the publication for the new use. The
                    // directory was changed before that, so this load sees the change.
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

    pub(crate) fn table_entries(&self, table: FrameNr) -> &[AtomicU64] {
        let words = view::table_words(self.pool(), table);
        debug_assert_eq!(words.len(), FRAME_WORDS);
        words
    }

    /// Waits while a migration entry is unchanged and its table is in the directory. The caller
    /// holds no lock and no reference to the table, so the table may be freed before this thread
    /// loads the word, and the frame's next user may store an equal word and wake no waiter. The
    /// check of the directory detects that. A change of the directory needs no wake: if another
    /// space still uses the table, a walk wakes the waiters; otherwise the thread that empties it.
    pub(crate) fn wait_for_migration(
        &self,
        (pmd_word, pmd): (&AtomicU64, Pmd),
        (word, entry): (&AtomicU64, Pte),
    ) {
        claim::assert_none_held();
        self.pool().waits().wait_while(word, |word| {
            look(word) == entry && Directory::look(pmd_word) == pmd
        });
    }

    pub(crate) fn wake_entry(&self, word: &AtomicU64, before: Pte) {
        if let State::Migration(_) = before.state() {
            self.pool().waits().wake(word);
        }
    }
}
