//! Tokens: the state of a page when it was read, for a later comparison.
//!
//! A token holds no resource. It consists of the file, the page, the word of the slot without claim
//! and accessed bit, the slot's generation, and the number of bytes of the page in the file. Word
//! and generation together do not repeat ([`super::lives`]). The number of bytes is compared
//! separately, since the size of a file does not change together with the words of its pages.
//!
//! *Order.* A check of a token returns the state of the page at step 3 of [`super::lives`]. Earlier
//! reads of the thread are ordered before that load: each begins with an acquiring load of its
//! slot, and after the copy ends with an acquire fence and another load. So if a thread makes a
//! token of page A, reads page B, and then finds A unchanged, then at the moment when the read of B
//! began, both pages had the bytes that the thread has read.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::page::PageNr;
use crate::base::slot::{Slot, State};
use crate::index::file_index::Seen;
use crate::index::lives::Lives;

/// Word of a token that counts as changed from the start: at step 2 the slot was claimed, had no
/// page, or had another word. It differs from every [`Slot::of_page`] by its busy bit.
const GONE: u64 = u64::MAX;

/// State of a page of a file, as a [`View`](crate::View) read it, for a later comparison
/// ([`File::is_unchanged`](crate::File::is_unchanged)).
///
/// A token keeps neither the page in memory nor the file open. It can be kept for any time: once
/// the page has changed, it is never reported as unchanged again.
#[derive(Clone, Copy)]
pub struct Token {
    file: u64,
    page: PageNr,
    word: u64,
    life: u64,
    len: u32,
}

/// State of a page, compared with a token of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum TokenState {
    /// The page has not changed since the token was made.
    Unchanged,
    /// The page is unchanged, but another thread has claimed it and may be about to change it. The
    /// claim usually lasts as long as a write of a page. If a file with a page codec is opened for
    /// writing or extended, a claim of its last page lasts up to two transfers and two codec calls.
    Busy,
    /// The page was (or may have been) written, moved, removed or truncated, or the token is of
    /// another file.
    Changed,
}

impl Token {
    /// Number of the page.
    #[must_use]
    pub const fn page(self) -> u64 {
        self.page
    }

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

#[derive(Debug)]
pub(crate) struct Origin {
    /// Number of the mapping, unique within the process, across caches.
    file: u64,
    lives: Arc<Lives>,
}

impl Origin {
    pub(crate) fn new(lives: &Arc<Lives>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            // ORDERING: Relaxed; only the uniqueness of the number matters.
            file: NEXT.fetch_add(1, Ordering::Relaxed),
            lives: Arc::clone(lives),
        }
    }

    /// Makes a token of `page`, whose slot was loaded as `seen`: steps 1 and 2 of the protocol.
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

    /// Makes a token that counts as changed from the start.
    pub(crate) fn gone(&self, page: PageNr) -> Token {
        Token {
            file: self.file,
            page,
            word: GONE,
            life: 0,
            len: 0,
        }
    }

    /// Returns the slot, just loaded as `seen`, if the page is unchanged: steps 3 and 4.
    #[inline(always)]
    pub(crate) fn unchanged(&self, token: &Token, seen: Seen<'_>) -> Option<Slot> {
        let is_same = seen.slot.of_page() == token.word
            && self.lives.now(seen.word) == token.life
            && self.file == token.file;
        is_same.then_some(seen.slot)
    }
}
