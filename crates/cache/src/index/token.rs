//! Tokens: what a page was when it was seen, to be compared with what it is now.
//!
//! A token is five numbers, and holds nothing. It says which file, page, and word of the slot without claim and mark; the life of
//! the slot ([`super::lives`], where the protocol is), because of which a word does not come back; and how many bytes of the page the file
//! had. The size of a file moves at another moment than the words of its pages, so it is compared by itself.
//!
//! *Order.* Who checks a token learns what the page was at the load of its slot, step 3. What a reader did before stays
//! before: each look begins with an acquiring load of its slot, and ends with an acquire fence after its bytes and another load. So what was read of a
//! second page, between the token of the first and its check, was there at a moment at which the first was as the token
//! says: that of the second look's first load.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::page::PageNr;
use crate::base::slot::{Slot, State};
use crate::index::file_index::Seen;
use crate::index::lives::Lives;

/// What a token has in place of a word if the page was not there any more when it was made: no slot has that, as it is claimed.
const GONE: u64 = u64::MAX;

/// A page of a file as it was seen by a [`View`](crate::View), to be compared with what it is later
/// ([`File::is_unchanged`](crate::File::is_unchanged)).
///
/// It is a few numbers: it keeps neither the page in memory nor the file open, it may be copied and sent, and kept for as long as one
/// likes. Once the page has changed a token never says again that it has not.
#[derive(Clone, Copy)]
pub struct Token {
    file: u64,
    page: PageNr,
    word: u64,
    life: u64,
    /// How many bytes of the page the file had.
    len: u32,
}

/// What has become of a page since a token was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum TokenState {
    /// Nothing: the page is as it was seen, and was so all the time.
    Unchanged,
    /// It is as it was seen, but somebody has just claimed it, and may be about to change it. That lasts a moment, as long as a write of
    /// a page at the most; then it is one of the others.
    Busy,
    /// It has changed, or may have: it was written, moved, taken out of the cache, cut off; or the token is of another file.
    Changed,
}

impl Token {
    /// The number of the page.
    #[must_use]
    pub const fn page(self) -> u64 {
        self.page
    }

    /// Of a view that has so many bytes.
    pub(crate) const fn of_len(self, len: usize) -> Self {
        Self {
            len: len as u32,
            ..self
        }
    }

    pub(crate) const fn len(self) -> usize {
        self.len as usize
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("page", &self.page)
            .finish_non_exhaustive()
    }
}

/// What all tokens of a file have in common. It does not change.
#[derive(Debug)]
pub(crate) struct Origin {
    /// The number of the mapping, which no other one in this process has had, of whatever cache.
    file: u64,
    lives: Arc<Lives>,
}

impl Origin {
    /// That of a new mapping, in a cache with these lives.
    pub(crate) fn new(lives: &Arc<Lives>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            // ORDERING: Relaxed; only the uniqueness of the number matters.
            file: NEXT.fetch_add(1, Ordering::Relaxed),
            lives: Arc::clone(lives),
        }
    }

    /// A token of `page`, whose slot was `seen`; steps 1 and 2 of the protocol.
    #[inline]
    pub(crate) fn token(&self, page: PageNr, seen: Seen<'_>) -> Token {
        // 1.
        let life = self.lives.now(seen.word);
        // 2.
        let now = seen.again();
        let is_there = matches!(now.state(), State::Present(_));
        let is_same = is_there && now.of_page() == seen.slot.of_page();
        Token {
            file: self.file,
            page,
            word: if is_same { now.of_page() } else { GONE },
            life,
            len: 0,
        }
    }

    /// A token of `page` as it was before it went: it has changed.
    pub(crate) fn gone(&self, page: PageNr) -> Token {
        Token {
            file: self.file,
            page,
            word: GONE,
            life: 0,
            len: 0,
        }
    }

    /// The slot of the token's page, if the page is as the token says; steps 3 and 4. `seen` is that slot now.
    #[inline(always)]
    pub(crate) fn unchanged(&self, token: &Token, seen: Seen<'_>) -> Option<Slot> {
        let is_same = seen.slot.of_page() == token.word
            && self.lives.now(seen.word) == token.life
            && self.file == token.file;
        is_same.then_some(seen.slot)
    }
}
