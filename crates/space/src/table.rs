//! Tables of page-table entries: frames of 512 words, each used by one space or by several.
//!
//! What. A fork does not copy tables: it gives the child a share of each. While a table has several shares no page is
//! mapped in it and none is written through it; a space that wants to writes a table of its own first
//! ([`Shared::copy_table`]). So to fork costs a count for each 2 MiB, and the first write to each 2 MiB afterwards costs
//! the copy of a table.
//!
//! The frame's record has the number of shares, and one reference on behalf of them; who drops the last share drops
//! all entries, and then the reference.
//!
//! Who may claim entries of a table, and why it is not freed meanwhile:
//!
//! | who | why |
//! |---|---|
//! | a writer at work ([`Shared::as_writer`]) | the table is its space's alone, and is taken from a directory only while writers are stopped |
//! | a fault, or a change of areas, with the structure lock | the same, and is taken out only by a holder of the lock for writing |
//! | who copies the table | has a share, which its space drops only afterwards, under the lock for unsharing |
//! | a walk, a pin, a slow read | has a reference to the frame ([`Held`]) |
//! | who drops the last share | has the reference of the shares |
//!
//! T1: a table with several shares has none of its empty entries filled. T2: an entry that is marked writable is the
//! only one that names its frame; copying a table takes the mark off both.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FRAME_WORDS, FrameNr, FrameRef, TryGetFrame};
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::thread::Backoff;

use crate::claim::Claim;
use crate::error::ErrorKind;
use crate::pmd::Pmd;
use crate::pte::{Pte, State};
use crate::raw;
use crate::shared::Shared;

/// A table that a directory named a moment ago, and that is not freed while this exists.
#[derive(Debug)]
pub(crate) struct Held<'s, S: RefScheme> {
    pub(crate) pmd: Pmd,
    _reference: FrameRef<'s, S>,
}

/// Loads an entry.
#[inline(always)]
pub(crate) fn look(word: &AtomicU64) -> Pte {
    // ORDERING: Acquire; pairs with the release that ended the last claim: what the entry names is seen as it was
    // published.
    Pte::from_bits(word.load(Ordering::Acquire))
}

/// Claims an entry when it is settled, and not empty.
pub(crate) fn claim_used(word: &AtomicU64) -> Option<Claim<'_>> {
    let mut backoff = Backoff::new();
    loop {
        let seen = look(word);
        match seen.state() {
            State::Empty => return None,
            State::Present(_) | State::Migration(_) => {
                if let Some(claim) = Claim::try_new(word, seen) {
                    return Some(claim);
                }
            }
            State::Busy => backoff.wait(),
        }
    }
}

impl<S: RefScheme> Shared<S> {
    /// A new table without entries, and with one share; none if there is no frame.
    pub(crate) fn new_table(&self) -> Option<FrameNr> {
        let frame = self.alloc_table_frame()?;
        let bytes = frame.bytes();
        bytes.zero(0, bytes.len());
        Some(raw::publish_table(frame))
    }

    fn shares(&self, table: FrameNr) -> &AtomicU64 {
        raw::counts_of(self.pool(), table)
    }

    /// One more share of a table, for a holder of one.
    pub(crate) fn share_table(&self, table: FrameNr) {
        // ORDERING: Relaxed; the holder's own share came with what there is to see.
        self.shares(table).fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the caller's share of a table is the only one; then it stays so, unless the caller's space is forked.
    pub(crate) fn is_only_share(&self, table: FrameNr) -> bool {
        // ORDERING: Acquire; pairs with the release of `drop_share`: what others did to the entries is seen.
        self.shares(table).load(Ordering::Acquire) == 1
    }

    /// Gives a share up; the last one takes the table with it.
    pub(crate) fn drop_share(&self, table: FrameNr) {
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
                self.free_table_frame(unique);
            }
            Err(reference) => {
                for word in self.entries(table) {
                    self.empty(word);
                }
                drop(reference);
                self.forget_table_frame();
            }
        }
    }

    /// Takes out whatever an entry has.
    pub(crate) fn empty(&self, word: &AtomicU64) {
        if let Some(claim) = claim_used(word) {
            let before = claim.before();
            claim.end(before.emptied());
            self.drop_entry_waited_for(word, before);
        }
    }

    fn drop_entry_waited_for(&self, word: &AtomicU64, before: Pte) {
        self.drop_entry(before);
        if let State::Migration(_) = before.state() {
            self.pool().waits().wake(word);
        }
    }

    /// A copy of a table of which the caller has one share of several, with one share. Pages that may be written by
    /// nobody else until now may be by nobody now.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::OutOfFrames`] or [`ErrorKind::TooManyEntries`]; nothing has changed then, but for marks.
    pub(crate) fn copy_table(&self, table: FrameNr) -> Result<FrameNr, ErrorKind> {
        let copy = self.new_table().ok_or(ErrorKind::OutOfFrames)?;
        let words = self.entries(table).iter().zip(self.entries(copy));
        for (from, to) in words {
            // T1: what is empty stays so.
            let Some(claim) = claim_used(from) else {
                continue;
            };
            let before = claim.before();
            // Counted while the entry is claimed: no walk can have turned it, and no other copy can have been counted
            // between what is counted and what is copied.
            if self.count_copy(before).is_err() {
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
    pub(crate) fn hold_table(&self, word: &AtomicU64) -> Option<Held<'_, S>> {
        let mut backoff = Backoff::new();
        loop {
            // ORDERING: Acquire; pairs with the release that published the table.
            let pmd = Pmd::from_bits(word.load(Ordering::Acquire));
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
    pub(crate) fn entries(&self, table: FrameNr) -> &[AtomicU64] {
        let words = raw::table_words(self.pool(), table);
        debug_assert_eq!(words.len(), FRAME_WORDS);
        words
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use pagewell_frame::refcount::LockBit;
    use pagewell_frame::{FramePool, PoolConfig};

    use super::*;
    use crate::area::Policy;
    use crate::counts::{MAPPING, MAX_MAPPINGS, MAX_MIGRATION_ENTRIES, MIGRATION};
    use crate::space::{Inner, Spaces};

    /// A page that is counted as often as it can be, by entries that the test makes up, as present ones or as migration
    /// entries: a table that has an entry of it cannot be copied.
    #[test]
    fn an_entry_too_many_is_an_error_and_changes_nothing() {
        for (one, most) in [(MAPPING, MAX_MAPPINGS), (MIGRATION, MAX_MIGRATION_ENTRIES)] {
            let spaces = Spaces::new(FramePool::<LockBit>::new(&PoolConfig::new(256)).unwrap());
            let space = spaces.space().unwrap();
            let area = space.map(8192, Policy::Local).unwrap();
            space.write(area.start, b"ours").unwrap();
            space.write(area.start + 4096, b"more").unwrap();
            let fork = space.fork().unwrap();
            let pmd = Inner::<LockBit>::look(space.inner.pmd_word(area.start).unwrap());
            let word = &spaces.shared().entries(pmd.table().unwrap())[1];
            let before = look(word);
            let State::Present(frame) = before.state() else {
                panic!("{before:?}");
            };
            let counts = raw::counts_of(spaces.pool(), frame);
            if one == MIGRATION {
                // ORDERING: Relaxed, here and below; there is one thread.
                word.store(before.to_migration().bits(), Ordering::Relaxed);
                counts.fetch_add(MIGRATION.wrapping_sub(MAPPING), Ordering::Relaxed);
            }
            let made_up = u64::from(most - 1) * one;
            counts.fetch_add(made_up, Ordering::Relaxed);
            let error = fork.write(area.start, b"forks").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TooManyEntries);
            counts.fetch_sub(made_up, Ordering::Relaxed);
            if one == MIGRATION {
                word.store(before.bits(), Ordering::Relaxed);
                counts.fetch_sub(MIGRATION.wrapping_sub(MAPPING), Ordering::Relaxed);
            }
            spaces.verify(&[&space, &fork]).unwrap();
            fork.write(area.start, b"fork").unwrap();
            let mut buf = [0; 4];
            space.read(area.start, &mut buf).unwrap();
            assert_eq!(&buf, b"ours");
            drop((space, fork));
            let stats = spaces.pool().stats();
            assert_eq!(stats.nr_available(), stats.nr_frames);
        }
    }
}
