//! Gets, and the ways of reading the tree that views are compared with.

use std::hint::black_box;

use pagewell::File;

use super::btree::{Access, Bytes as _, Error, PAGE, Question, Reader};
use super::entries::{VALUE, key};
use crate::bench::crew::Op;
use crate::bench::data::Rng;

/// Names of the engines that read the tree.
pub(super) const VIEWS: &str = "views";
pub(super) const PINS: &str = "pins";
pub(super) const READS: &str = "page-reads";
pub(super) const MMAP: &str = "mmap";

/// Gets of random keys, all of which are there.
pub(super) struct Gets<P> {
    tree: Reader<P>,
    nr_keys: u64,
    rng: Rng,
    value: Vec<u8>,
}

impl<P> Gets<P> {
    pub(super) fn new(tree: Reader<P>, nr_keys: u64, rng: Rng) -> Self {
        Gets {
            tree,
            nr_keys,
            rng,
            value: Vec::with_capacity(VALUE),
        }
    }
}

impl<P: Access + Send> Op for Gets<P> {
    #[inline(never)]
    fn batch(&mut self, times: u32) -> Result<(), String> {
        for _ in 0..times {
            let nr = self.rng.below(self.nr_keys);
            let key = black_box(key(nr));
            let is_there = self.tree.get(&key, &mut self.value);
            let is_right = self.value.len() == VALUE && self.value[..8] == nr.to_le_bytes();
            match is_there {
                Ok(true) if is_right => {}
                Ok(_) => return Err(format!("key {nr} has another value, or none")),
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }
}

/// Version of a page for engines without tokens: the log sequence number of its last change.
pub(super) struct Numbered {
    page: u64,
    lsn: u64,
}

/// Reads a page's log sequence number again.
fn is_unchanged(file: &File, token: &Numbered) -> Result<bool, Error> {
    let mut lsn = [0; 8];
    let nr_read = file.read_at(&mut lsn, token.page * PAGE as u64)?;
    Ok(nr_read == lsn.len() && u64::from_le_bytes(lsn) == token.lsn)
}

/// Returns the answer of bytes that do not change, and the version of the page.
#[inline(always)]
fn ask_slice<Q: Question>(
    page: u64,
    bytes: &[u8],
    question: &mut Q,
) -> Result<(Q::Answer, Numbered), Error> {
    let answer = question.ask(bytes).map_err(Error::damaged(page))?;
    let lsn = bytes.u64(0).map_err(Error::damaged(page))?;
    Ok((answer, Numbered { page, lsn }))
}

/// Reading by pins: holds a reference to each page while it is read.
#[derive(Clone, Copy)]
pub(super) struct Pins<'f>(pub(super) &'f File);

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
        is_unchanged(self.0, token)
    }
}

/// Reading by copies of whole pages.
#[derive(Clone, Copy)]
pub(super) struct Reads<'f>(pub(super) &'f File);

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
        is_unchanged(self.0, token)
    }
}

/// Reading of a mapping of the file, which must not change.
#[derive(Clone, Copy)]
pub(super) struct FromMapping<'m>(pub(super) &'m [u8]);

impl Access for FromMapping<'_> {
    type Token = ();

    #[inline(always)]
    fn ask<Q: Question>(&self, page: u64, question: &mut Q) -> Result<(Q::Answer, ()), Error> {
        let at = (page as usize).checked_mul(PAGE);
        let bytes = at.and_then(|at| self.0.get(at..)?.get(..PAGE));
        let what = "the file ends before it";
        let bytes = bytes.ok_or(Error::Damaged { page, what })?;
        let answer = question.ask(bytes).map_err(Error::damaged(page))?;
        Ok((answer, ()))
    }

    #[inline(always)]
    fn is_unchanged(&self, (): &()) -> Result<bool, Error> {
        Ok(true)
    }
}
