//! Reading bytes of a page: in place by a view, while other threads may be writing them, or in a
//! copy.
//!
//! All code that reads nodes is generic over [`Bytes`]. Every access is checked and returns `Torn`
//! if it leads out of the page: the page may be changing concurrently, or may not be a node.

use std::cmp::Ordering;

use pagewell::{File, PageView, Token, Torn, View};

use super::error::Error;

/// Bytes of a page, read by value. All methods return `Torn` if the range is not within the page.
pub(crate) trait Bytes {
    fn u16(&self, at: usize) -> Result<u16, Torn>;
    fn u64(&self, at: usize) -> Result<u64, Torn>;
    /// Compares the `other.len()` bytes at `at` with `other`.
    fn compare(&self, at: usize, other: &[u8]) -> Result<Ordering, Torn>;
    fn copy_to(&self, at: usize, buf: &mut [u8]) -> Result<(), Torn>;
}

impl Bytes for View<'_> {
    #[inline(always)]
    fn u16(&self, at: usize) -> Result<u16, Torn> {
        self.u16_le(at)
    }

    #[inline(always)]
    fn u64(&self, at: usize) -> Result<u64, Torn> {
        self.u64_le(at)
    }

    #[inline(always)]
    fn compare(&self, at: usize, other: &[u8]) -> Result<Ordering, Torn> {
        PageView::compare(self, at, other)
    }

    #[inline(always)]
    fn copy_to(&self, at: usize, buf: &mut [u8]) -> Result<(), Torn> {
        PageView::copy_to(self, at, buf)
    }
}

/// Returns the `len` bytes at `at`.
#[inline(always)]
pub(super) fn part(bytes: &[u8], at: usize, len: usize) -> Result<&[u8], Torn> {
    bytes.get(at..).and_then(|rest| rest.get(..len)).ok_or(Torn)
}

#[inline(always)]
fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Torn> {
    let rest = bytes.get(at..).ok_or(Torn)?;
    rest.first_chunk().copied().ok_or(Torn)
}

impl Bytes for [u8] {
    #[inline(always)]
    fn u16(&self, at: usize) -> Result<u16, Torn> {
        array(self, at).map(u16::from_le_bytes)
    }

    #[inline(always)]
    fn u64(&self, at: usize) -> Result<u64, Torn> {
        array(self, at).map(u64::from_le_bytes)
    }

    #[inline(always)]
    fn compare(&self, at: usize, other: &[u8]) -> Result<Ordering, Torn> {
        Ok(part(self, at, other.len())?.cmp(other))
    }

    #[inline(always)]
    fn copy_to(&self, at: usize, buf: &mut [u8]) -> Result<(), Torn> {
        buf.copy_from_slice(part(self, at, buf.len())?);
        Ok(())
    }
}

/// Query of one page. It may run several times for one answer, as the closure of a view does.
pub(crate) trait Question {
    type Answer;
    fn ask<B: Bytes + ?Sized>(&mut self, page: &B) -> Result<Self::Answer, Torn>;
}

/// Method of reading pages: [`Views`]; `pagewell bench tree` compares it with others.
pub(crate) trait Access {
    /// Version of a page.
    type Token;

    /// Returns the answer of a page as of one moment, and the page's version at that moment.
    fn ask<Q: Question>(
        &self,
        page: u64,
        question: &mut Q,
    ) -> Result<(Q::Answer, Self::Token), Error>;

    /// Returns whether the page still has this version. `false` may be spurious.
    fn is_unchanged(&self, token: &Self::Token) -> Result<bool, Error>;
}

/// Reading by views and tokens: copies only the answer, and writes no memory that threads share.
#[derive(Clone, Copy)]
pub(crate) struct Views<'f>(pub(crate) &'f File);

impl Access for Views<'_> {
    type Token = Token;

    #[inline(always)]
    fn ask<Q: Question>(&self, page: u64, question: &mut Q) -> Result<(Q::Answer, Token), Error> {
        Ok(self.0.view(page, |v| Ok((question.ask(v)?, v.token())))?)
    }

    #[inline(always)]
    fn is_unchanged(&self, token: &Token) -> Result<bool, Error> {
        Ok(self.0.is_unchanged(token))
    }
}
