//! Record of a page that is being moved: isolated, with its new frame.

use pagewell_frame::{FrameNr, Order, UniqueFrame};

use crate::motion::report::NotMoved;
use crate::pages::owner::Owner;
use crate::pages::record::Pages;

pub(crate) struct Moving<'s> {
    pub(crate) from: FrameNr,
    pub(super) order: Order,
    pub(super) owner: Owner,
    /// Address in the migrated space, or `None` if compaction found the page by its frame.
    pub(crate) addr: Option<u64>,
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
    pub(crate) fn new(
        pages: Pages<'_>,
        from: FrameNr,
        to: UniqueFrame<'s>,
        addr: Option<u64>,
    ) -> Self {
        Self {
            from,
            order: to.order(),
            owner: pages.owner_of(from),
            addr,
            to: Some(to),
            stage: Stage::Leaving,
        }
    }

    pub(crate) fn index(&self) -> u64 {
        self.owner.index
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
