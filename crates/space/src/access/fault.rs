//! Creation of pages that are missing or must be copied.

use std::sync::Arc;

use pagewell_frame::{FrameNr, UniqueFrame};

use crate::areas::area::Area;
use crate::areas::options::Policy;
use crate::error::ErrorKind;
use crate::mm::space::Mm;
use crate::pages::links::Family;
use crate::words::claim::{Claim, look};
use crate::words::counts::MAPPING;
use crate::words::geometry::entry_of;
use crate::words::pte::State;

/// Resources of a new page, allocated before its entry is claimed (C1 of [`crate::words::claim`]).
pub(crate) struct NewPage<'s> {
    pub(crate) block: UniqueFrame<'s>,
    family: Arc<Family>,
    index: u64,
    is_bound: bool,
}

impl Mm {
    /// Creates a page of zeros at `addr` if there is no page. The caller holds the structure lock.
    pub(crate) fn make_page(&self, area: &Area, addr: u64) -> Result<(), ErrorKind> {
        let pmd = self.own_table(area.order, addr)?;
        let entry = entry_of(addr, u32::from(area.order.get()));
        let word = self.tables.entry(pmd, entry);
        let mut spare = None;
        loop {
            let entry = look(word);
            if entry.state() != State::Empty {
                return Ok(());
            }
            let made = match spare.take() {
                Some(made) => made,
                None => {
                    let made = self.new_page(area, addr)?;
                    let bytes = made.block.bytes();
                    bytes.zero(0, bytes.len());
                    made
                }
            };
            if let Some(claim) = Claim::try_new(word, entry) {
                let frame = self.publish(made);
                claim.end(entry.made(frame, area.protection));
                return Ok(());
            }
            spare = Some(made);
        }
    }

    /// Allocates a page for `addr`. The caller must set all bytes of the block.
    pub(crate) fn new_page(&self, area: &Area, addr: u64) -> Result<NewPage<'_>, ErrorKind> {
        let index = area.index_of(addr);
        let place = area.place(index, self.shared.pool().nr_nodes());
        let block = self.shared.alloc(area.order, place);
        let block = block.ok_or(ErrorKind::OutOfFrames)?;
        let family = area.own_family(self);
        Ok(NewPage {
            block,
            family,
            index,
            is_bound: matches!(area.policy, Policy::Bind(_)),
        })
    }

    /// Publishes the page with one mapping, for the entry that the caller has claimed.
    pub(crate) fn publish(&self, made: NewPage<'_>) -> FrameNr {
        let supply = &self.shared.supply;
        supply.publish(made.block, made.family, made.index, made.is_bound, MAPPING)
    }
}
