//! Readahead and accessed bits of a handle's reads.

use pagewell_policy::readahead::{Ahead, Way};
use pagewell_sync::Arc;

use crate::base::page::PageNr;
use crate::mapping::record::Mapping;
use crate::read::ahead::Sequence;
use crate::read::prefetch::Prefetcher;
use crate::read::reader::Guide;

#[derive(Debug)]
pub(crate) struct OfHandle<'h> {
    mapping: &'h Arc<Mapping>,
    sequence: &'h Sequence,
}

impl<'h> OfHandle<'h> {
    pub(crate) fn new(mapping: &'h Arc<Mapping>, sequence: &'h Sequence) -> Self {
        Self { mapping, sequence }
    }

    #[cold]
    fn begin(&self, ahead: Ahead) {
        let mut prefetcher = Prefetcher::new(self.mapping);
        for run in ahead.runs() {
            if !prefetcher.add(run) {
                break;
            }
        }
        prefetcher.submit();
    }
}

impl Guide for OfHandle<'_> {
    fn on_miss(&self, page: PageNr, wanted: usize) -> usize {
        let way = match self.mapping.is_deep() {
            true => Way::Apart,
            false => Way::Together,
        };
        let plan = self.sequence.on_miss(page, wanted, way);
        if let Some(ahead) = plan.ahead {
            self.begin(ahead);
        }
        plan.now
    }

    fn on_touch(&self, page: PageNr) {
        if let Some(ahead) = self.sequence.on_touch(page) {
            self.begin(ahead);
        }
    }

    fn marks(&self) -> bool {
        !self.sequence.is_once()
    }
}
