//! Record of a page that is being moved: isolated, with its new frame.

use pagewell_frame::{FrameNr, Order, UniqueFrame};

use crate::motion::report::NotMoved;
use crate::pages::owner::Owner;
use crate::pages::record::Pages;

pub(crate) struct Moving<'s> {
    from: FrameNr,
    order: Order,
    pub(super) owner: Owner,
    /// Address in the migrated space, or `None` if compaction found the page by its frame.
    addr: Option<u64>,
    /// New frame, until it is published.
    pub(super) to: Option<UniqueFrame<'s>>,
    pub(super) stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Leaving,
    /// The page is in this new frame. Both frames are isolated until the end.
    Arriving(FrameNr),
    Failed(NotMoved),
}

impl<'s> Moving<'s> {
    /// Creates the record of a page that the caller has isolated.
    pub(crate) fn new(pages: Pages<'_>, from: FrameNr, to: UniqueFrame<'s>) -> Self {
        Self {
            from,
            order: to.order(),
            owner: pages.owner_of(from),
            addr: None,
            to: Some(to),
            stage: Stage::Leaving,
        }
    }

    pub(crate) fn at(self, addr: u64) -> Self {
        let addr = Some(addr);
        Self { addr, ..self }
    }

    pub(crate) fn from(&self) -> FrameNr {
        self.from
    }

    pub(crate) fn index(&self) -> u64 {
        self.owner.index
    }

    pub(crate) fn order(&self) -> Order {
        self.order
    }

    pub(crate) fn addr(&self) -> Option<u64> {
        self.addr
    }

    pub(crate) fn failure(&self) -> Option<NotMoved> {
        match self.stage {
            Stage::Failed(why) => Some(why),
            Stage::Leaving | Stage::Arriving(_) => None,
        }
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.stage == Stage::Leaving
    }
}
