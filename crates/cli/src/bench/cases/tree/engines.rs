//! Gets, and the tree in a mapping.

use std::hint::black_box;

use pagewell::Torn;

use super::btree::{Access, Error, PAGE, Question, Reader};
use super::entries::{VALUE, key};
use crate::bench::crew::Op;
use crate::bench::data::Rng;

/// The names of the engines that read the tree.
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

/// The pages of a tree in a mapping of its file, which nobody changes.
#[derive(Clone, Copy)]
pub(super) struct FromMapping<'m>(pub(super) &'m [u8]);

impl Access for FromMapping<'_> {
    type Token = ();

    #[inline(always)]
    fn ask<Q: Question>(&self, page: u64, question: &mut Q) -> Result<(Q::Answer, ()), Error> {
        let malformed = |what| Error::Malformed { page, what };
        let at = (page as usize).checked_mul(PAGE);
        let bytes = at.and_then(|at| self.0.get(at..)?.get(..PAGE));
        let bytes = bytes.ok_or(malformed("the file ends before it"))?;
        let answer = question
            .ask(bytes)
            .map_err(|Torn| malformed("something in it leads out of it"))?;
        Ok((answer, ()))
    }

    #[inline(always)]
    fn is_unchanged(&self, (): &()) -> Result<bool, Error> {
        Ok(true)
    }
}
