//! Tables of page-table entries: frames of 512 words, each used by one space or by several.
//!
//! What. A fork copies no table: it gives the child a share of each. While a table has several shares, no page is mapped in it
//! and none is written through it; a space that writes copies the table first ([`Tables::copy`]). So a fork costs one count for
//! each 2 MiB, and the first write to each 2 MiB after it costs the copy of a table.
//!
//! The frame's record has the number of shares, and one reference for all of them. Who drops the last share drops all entries,
//! and then the reference.
//!
//! Who may claim entries of a table, and why it is not freed meanwhile:
//!
//! | who | why |
//! |---|---|
//! | a writer at work ([`crate::supply::writers`]) | the table is its space's alone, and is taken from a directory only while writers are stopped |
//! | a fault, or a change of areas, with the structure lock | the same, and is taken out only by a holder of the lock for writing |
//! | who copies the table | has a share, which its space drops only afterwards, under the lock for unsharing |
//! | a walk, a pin, a slow read | has a reference to the frame ([`Held`]) |
//! | who drops the last share | has the reference of the shares |
//!
//! T1: a table with several shares has none of its empty entries filled. T2: an entry that is marked writable is the
//! only one that names its frame; copying a table takes the mark off both.

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

/// A table that a directory named a moment ago, and that is not freed while this exists.
#[derive(Debug)]
pub(crate) struct Held<'s, S: RefScheme> {
    pub(crate) pmd: Pmd,
    _reference: FrameRef<'s, S>,
}

/// The tables of all spaces of a pool.
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

    /// A new table without entries, and with one share; none if there is no frame.
    pub(crate) fn make(self) -> Option<FrameNr> {
        let frame = self.supply.alloc_table()?;
        let bytes = frame.bytes();
        bytes.zero(0, bytes.len());
        Some(raw::publish_table(frame))
    }

    fn shares(self, table: FrameNr) -> &'s AtomicU64 {
        raw::counts_of(self.pool(), table)
    }

    /// One more share of a table, for a holder of one.
    pub(crate) fn share(self, table: FrameNr) {
        // ORDERING: Relaxed; the holder's own share came with what there is to see.
        self.shares(table).fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the caller's share of a table is the only one; then it stays so, unless the caller's space is forked.
    pub(crate) fn is_only_share(self, table: FrameNr) -> bool {
        // ORDERING: Acquire; pairs with the release of `drop_share`: what others did to the entries is seen.
        self.shares(table).load(Ordering::Acquire) == 1
    }

    /// Gives a share up; the last one takes the table with it.
    pub(crate) fn drop_share(self, table: FrameNr) {
        // ORDERING: AcqRel; release, as said above; acquire, for whoever drops the entries.
        if self.shares(table).fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        // Walks that look the table up from now on find that the directory names another one, or hold it already.
        match raw::counted_reference(self.pool(), table).try_unique() {
            Ok(unique) => {
                for word in self.entries(table) {
                    // Nobody else has a reference, so nobody claims.
                    let entry = look(word);
                    // ORDERING: Release; pairs with the acquire of a late reader, who finds nothing here, and then sees
                    // that its directory names another table, or none.
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

    /// Takes out whatever an entry has.
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

    /// A copy of a table of which the caller has one share of several, with one share. Pages that may be written by
    /// nobody else until now may be by nobody now.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::OutOfFrames`] or [`ErrorKind::TooManyEntries`]; nothing has changed then, but for marks.
    pub(crate) fn copy(self, table: FrameNr) -> Result<FrameNr, ErrorKind> {
        let copy = self.make().ok_or(ErrorKind::OutOfFrames)?;
        let words = self.entries(table).iter().zip(self.entries(copy));
        for (from, to) in words {
            // T1: what is empty stays so.
            let Some(claim) = claim_used(from) else {
                continue;
            };
            let before = claim.before();
            // Counted while the entry is claimed: no walk can have turned it, and no other copy can have been counted
            // between what is counted and what is copied.
            if self.pages().count_copy(before).is_err() {
                drop(claim);
                self.drop_share(copy);
                return Err(ErrorKind::TooManyEntries);
            }
            // ORDERING: Relaxed; the copy is published with the directory's entry.
            to.store(before.shared().bits(), Ordering::Relaxed);
            if before.is_writable() {
                claim.end(before.shared());
            }
        }
        Ok(copy)
    }

    /// Gets hold of the table that `word`, an entry of a directory, names.
    ///
    /// What is found then is the directory's own table, unless that was changed a moment ago: who has to know looks at
    /// the directory again after claiming an entry.
    pub(crate) fn hold(self, word: &AtomicU64) -> Option<Held<'s, S>> {
        let mut backoff = Backoff::new();
        loop {
            let pmd = Directory::look(word);
            let table = pmd.table()?;
            match self.pool().try_get(table) {
                TryGetFrame::Taken(reference) => {
                    // ORDERING: Acquire. If the frame was freed before the reference was taken, and is something else
                    // now, the reference was acquired from the publication of that, which the change of the directory
                    // happened before: it is seen here.
                    if word.load(Ordering::Acquire) == pmd.bits() {
                        return Some(Held {
                            pmd,
                            _reference: reference,
                        });
                    }
                }
                // Freed meanwhile.
                TryGetFrame::Locked | TryGetFrame::Saturated => {}
            }
            backoff.wait();
        }
    }

    /// All words of a table.
    pub(crate) fn entries(self, table: FrameNr) -> &'s [AtomicU64] {
        let words = raw::table_words(self.pool(), table);
        debug_assert_eq!(words.len(), FRAME_WORDS);
        words
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
        self,
        (pmd_word, pmd): (&AtomicU64, Pmd),
        (word, entry): (&AtomicU64, Pte),
    ) {
        claim::assert_none_held();
        self.pool().waits().wait_while(word, |word| {
            look(word) == entry && Directory::look(pmd_word) == pmd
        });
    }

    /// Wakes those who wait for the migration entry in `word`, if it was one `before`.
    pub(crate) fn wake(self, word: &AtomicU64, before: Pte) {
        if let State::Migration(_) = before.state() {
            self.pool().waits().wake(word);
        }
    }
}
