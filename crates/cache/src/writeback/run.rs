use std::io;
use std::ops::Range;

use pagewell_frame::FrameRef;
use pagewell_sync::bytes::RacySource;

use crate::base::error::{Cause, Failure};
use crate::base::page::PageNr;
use crate::base::page_hooks::{Hooks, OutgoingPage, call_page_hook, is_zeros};
use crate::base::page_state::PageState;
use crate::dirty::hook::InHook;
use crate::dirty::reserve::Chunk;
use crate::dirty::service::Step;
use crate::dirty::writes::Writes;
use crate::mapping::record::Mapping;
use crate::writeback::durable::States;

/// Returns the error of a page codec that has encoded a page with a nonzero byte as zeros.
pub(super) fn stored_as_zeros() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the page codec encodes a page that is not zeros as zeros, which would be read as a hole",
    )
}

/// Returns the failure of a callback or codec that refused `page`.
pub(super) fn refused(page: Option<PageNr>, error: io::Error) -> Failure {
    Failure {
        cause: Cause::Hook,
        error,
        page,
    }
}

pub(super) struct Outgoing<'m> {
    pub(super) page: PageNr,
    pub(super) reference: FrameRef<'m>,
    pub(super) len: usize,
}

/// Range of consecutive pages in flight to the backend. Unless `is_given` is set, the drop makes
/// its pages dirty again, also on unwind.
pub(super) struct Run<'m> {
    mapping: &'m Mapping,
    writes: &'m Writes,
    pub(super) outgoing: Vec<Outgoing<'m>>,
    /// Encoded copies of all pages, each as long as a whole page, which are written instead.
    changed: Option<Chunk<'m>>,
    pub(super) is_given: bool,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        if !self.is_given {
            self.take_back(0);
        }
    }
}

impl<'m> Run<'m> {
    pub(super) fn new(mapping: &'m Mapping, writes: &'m Writes) -> Self {
        Self {
            mapping,
            writes,
            outgoing: Vec::new(),
            changed: None,
            is_given: false,
        }
    }

    pub(super) fn push(&mut self, outgoing: Outgoing<'m>) {
        self.outgoing.push(outgoing);
    }

    pub(super) fn nr_pages(&self) -> usize {
        self.outgoing.len()
    }

    pub(super) fn failed(&self, error: io::Error) -> Failure {
        Failure {
            page: self.outgoing.first().map(|outgoing| outgoing.page),
            ..error.into()
        }
    }

    pub(super) fn start(&self) -> u64 {
        let first = self.outgoing.first().map_or(0, |outgoing| outgoing.page);
        first * self.mapping.page_size() as u64
    }

    pub(super) fn end(&self) -> u64 {
        let lens = self.outgoing.iter().map(|outgoing| outgoing.len as u64);
        self.start() + lens.sum::<u64>()
    }

    /// Returns the byte range in the backend, to the end of a page in a file in whole pages.
    pub(super) fn stored(&self) -> Range<u64> {
        self.start()..self.mapping.layout().pages_end(self.end())
    }

    /// The bytes do not change, since a writer moves a page that has another reference.
    pub(super) fn sources(&self) -> Vec<RacySource<'_>> {
        if let Some(memory) = self.changed.as_ref().and_then(Chunk::memory) {
            let len = self.outgoing.len() * self.mapping.page_size();
            return vec![memory.bytes().slice(0, len).into()];
        }
        self.outgoing
            .iter()
            .map(|outgoing| outgoing.reference.bytes().slice(0, outgoing.len))
            .collect()
    }

    /// Calls the writeback callback for each page. On an error, removes that page and later ones.
    pub(super) fn ask_hook(&mut self) -> Result<(), Failure> {
        let Some(before_write) = &self.writes.before_write else {
            return Ok(());
        };
        let _in_hook = InHook::enter(&self.writes.in_hook);
        for nr in 0..self.outgoing.len() {
            let outgoing = &self.outgoing[nr];
            let [_, lsn] = outgoing.reference.meta().private();
            let step = self.mapping.begin_step(Step::Hook);
            let answer = before_write(outgoing.page, lsn);
            drop(step);
            if let Err(error) = answer {
                self.take_back(nr);
                return Err(refused(None, error));
            }
        }
        Ok(())
    }

    /// Encodes copies of the pages in a chunk of the reserve. After an error, none may be written.
    pub(super) fn change_bytes(&mut self, hooks: &Hooks) -> Result<(), Failure> {
        let first = self.outgoing.first().map(|outgoing| outgoing.page);
        let taken = self
            .writes
            .reserve
            .as_ref()
            .and_then(|reserve| reserve.take());
        let Some(mut chunk) = taken else {
            // The caller has ensured that a chunk is free.
            return Err(io::Error::other("no memory is left for encoded pages").into());
        };
        let page_size = self.mapping.page_size();
        let memory = chunk.memory_mut().map(|memory| memory.bytes_mut());
        let mut copies = memory.unwrap_or_default().chunks_exact_mut(page_size);
        let mut pages = Vec::with_capacity(self.outgoing.len());
        let mut were_zeros = Vec::with_capacity(self.outgoing.len());
        for outgoing in &self.outgoing {
            let Some(copy) = copies.next() else {
                return Err(io::Error::other("a page range is larger than a chunk").into());
            };
            let (used, rest) = copy.split_at_mut(outgoing.len);
            outgoing.reference.bytes().copy_to(0, used);
            rest.fill(0);
            were_zeros.push(is_zeros(used));
            let [_, lsn] = outgoing.reference.meta().private();
            pages.push(OutgoingPage::new(outgoing.page, lsn, outgoing.len, copy));
        }
        let step = self.mapping.begin_step(Step::Hook);
        let changed = call_page_hook(|| hooks.0.before_write(&mut pages));
        drop(step);
        changed.map_err(|error| refused(first, error))?;
        for (page, was_zeros) in pages.iter().zip(were_zeros) {
            if !was_zeros && is_zeros(page.bytes()) {
                return Err(refused(Some(page.page()), stored_as_zeros()));
            }
        }
        drop(pages);
        self.changed = Some(chunk);
        Ok(())
    }

    /// Keeps the first page. The others become dirty again.
    pub(super) fn keep_first(&mut self) {
        self.take_back(1.min(self.outgoing.len()));
    }

    fn take_back(&mut self, first: usize) {
        for outgoing in self.outgoing.drain(first..) {
            States(self.mapping).change_state(self.writes, outgoing.page, PageState::failed);
        }
    }
}
