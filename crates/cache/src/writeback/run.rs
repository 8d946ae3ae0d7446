//! A run: neighbouring pages on their way to the storage.

use pagewell_frame::FrameRef;
use pagewell_frame::refcount::RefScheme;
use pagewell_sync::bytes::RacySource;

use crate::base::error::{Cause, Failure};
use crate::base::page::PageNr;
use crate::base::page_state::PageState;
use crate::dirty::hook::InHook;
use crate::dirty::service::Step;
use crate::dirty::writes::Writes;
use crate::mapping::record::Mapping;
use crate::writeback::states::States;

/// A page on its way to the storage.
pub(super) struct Outgoing<'m, S: RefScheme> {
    pub(super) page: PageNr,
    pub(super) reference: FrameRef<'m, S>,
    /// How many of its bytes are the file's.
    pub(super) len: usize,
}

/// Neighbouring pages on their way to the storage. Unless it took them, dropping this makes them dirty again,
/// also by a panic.
pub(super) struct Run<'m, S: RefScheme> {
    mapping: &'m Mapping<S>,
    writes: &'m Writes,
    pub(super) outgoing: Vec<Outgoing<'m, S>>,
    pub(super) is_given: bool,
}

impl<S: RefScheme> Drop for Run<'_, S> {
    fn drop(&mut self) {
        if !self.is_given {
            self.take_back(0);
        }
    }
}

impl<'m, S: RefScheme> Run<'m, S> {
    /// A run without pages.
    pub(super) fn new(mapping: &'m Mapping<S>, writes: &'m Writes) -> Self {
        Self {
            mapping,
            writes,
            outgoing: Vec::new(),
            is_given: false,
        }
    }

    /// Adds the page after its last one.
    pub(super) fn push(&mut self, outgoing: Outgoing<'m, S>) {
        self.outgoing.push(outgoing);
    }

    pub(super) fn nr_pages(&self) -> usize {
        self.outgoing.len()
    }

    /// The first byte of the file that it has; 0 if it has none.
    pub(super) fn start(&self) -> u64 {
        let first = self.outgoing.first().map_or(0, |outgoing| outgoing.page);
        first * self.mapping.page_size() as u64
    }

    /// Where its bytes end in the file.
    pub(super) fn end(&self) -> u64 {
        let lens = self.outgoing.iter().map(|outgoing| outgoing.len as u64);
        self.start() + lens.sum::<u64>()
    }

    /// Its bytes, which do not change: a writer moves a page that has references.
    pub(super) fn sources(&self) -> Vec<RacySource<'_>> {
        self.outgoing
            .iter()
            .map(|outgoing| outgoing.reference.bytes().slice(0, outgoing.len))
            .collect()
    }

    /// Asks the program's hook. The first page that it refuses is taken out, with those after it.
    pub(super) fn ask_hook(&mut self) -> Result<(), Failure> {
        let Some(before_write) = &self.writes.before_write else {
            return Ok(());
        };
        let pressure = &self.mapping.shared().pressure;
        let _in_hook = InHook::enter(&self.writes.in_hook);
        for nr in 0..self.outgoing.len() {
            let outgoing = &self.outgoing[nr];
            let [_, lsn] = outgoing.reference.meta().private();
            let step = self.writes.service.begin_step(pressure, Step::Hook);
            let answer = before_write(outgoing.page, lsn);
            drop(step);
            if let Err(error) = answer {
                self.take_back(nr);
                let cause = Cause::Hook;
                return Err(Failure { cause, error });
            }
        }
        Ok(())
    }

    /// Takes the pages from number `first` of the run on out: they are dirty again.
    fn take_back(&mut self, first: usize) {
        for outgoing in self.outgoing.drain(first..) {
            States(self.mapping).change_state(self.writes, outgoing.page, PageState::failed);
        }
    }
}
