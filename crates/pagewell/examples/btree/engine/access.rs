//! Ways to look at a page. The tree is read by views; the others are there to be compared with, and for who has only them.

use pagewell::{File, Token, Torn};

use super::bytes::Bytes;
use super::error::Error;
use super::node::PAGE;

/// What is asked of a page. It may be asked any number of times, as the closure of a view.
pub(crate) trait Question {
    type Answer;
    fn ask<B: Bytes + ?Sized>(&mut self, page: &B) -> Result<Self::Answer, Torn>;
}

/// A way to look at the pages of a tree.
pub(crate) trait Access {
    /// What a page was when it was looked at.
    type Token;

    /// What the page answers, all of it true of one moment; and what the page was at that moment.
    fn ask<Q: Question>(
        &self,
        page: u64,
        question: &mut Q,
    ) -> Result<(Q::Answer, Self::Token), Error>;

    /// Whether the page is still what it was. It may say no for no reason.
    fn is_unchanged(&self, token: &Self::Token) -> Result<bool, Error>;
}

/// By views and tokens: nothing is copied but the answer, and nothing written that threads share.
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

/// A page and the log sequence number that it had. Each change of a page gives it a larger one; so these are tokens for who has none.
pub(crate) struct Numbered {
    page: u64,
    lsn: u64,
}

/// Reads a page's log sequence number anew.
fn still_has(file: &File, token: &Numbered) -> Result<bool, Error> {
    let mut lsn = [0; 8];
    let nr_read = file.read_at(&mut lsn, token.page * PAGE as u64)?;
    Ok(nr_read == lsn.len() && u64::from_le_bytes(lsn) == token.lsn)
}

/// What the bytes of a page, which do not change, answer.
pub(super) fn ask_slice<Q: Question>(
    page: u64,
    bytes: &[u8],
    question: &mut Q,
) -> Result<(Q::Answer, Numbered), Error> {
    let malformed = |Torn| Error::Malformed {
        page,
        what: "something in it leads out of it",
    };
    let answer = question.ask(bytes).map_err(malformed)?;
    let lsn = bytes.u64(0).map_err(malformed)?;
    Ok((answer, Numbered { page, lsn }))
}

/// By pins: each page is referenced while it is looked at.
#[derive(Clone, Copy)]
pub(crate) struct Pins<'f>(pub(crate) &'f File);

impl Access for Pins<'_> {
    type Token = Numbered;

    #[inline(always)]
    fn ask<Q: Question>(
        &self,
        page: u64,
        question: &mut Q,
    ) -> Result<(Q::Answer, Numbered), Error> {
        let pin = self.0.pin(page)?;
        ask_slice(page, &pin, question)
    }

    #[inline(always)]
    fn is_unchanged(&self, token: &Numbered) -> Result<bool, Error> {
        still_has(self.0, token)
    }
}

/// By reads: each page is copied, all of it.
#[derive(Clone, Copy)]
pub(crate) struct Reads<'f>(pub(crate) &'f File);

impl Access for Reads<'_> {
    type Token = Numbered;

    #[inline(always)]
    fn ask<Q: Question>(
        &self,
        page: u64,
        question: &mut Q,
    ) -> Result<(Q::Answer, Numbered), Error> {
        let mut bytes = [0; PAGE];
        let nr_read = self.0.read_at(&mut bytes, page * PAGE as u64)?;
        ask_slice(page, &bytes[..nr_read], question)
    }

    #[inline(always)]
    fn is_unchanged(&self, token: &Numbered) -> Result<bool, Error> {
        still_has(self.0, token)
    }
}
