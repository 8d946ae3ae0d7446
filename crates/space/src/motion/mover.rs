//! Moves of isolated pages: steps 2 to 6 of a [migration](crate::change::migrate).

use std::ops::ControlFlow::{Break, Continue};
use std::time::Instant;

use pagewell_frame::{FrameNr, Order, UniqueFrame};
use pagewell_sync::atomic::AtomicU64;
use pagewell_sync::scaled;
use pagewell_sync::thread::Backoff;

use crate::motion::report::{Engine, Migrated, NotMoved};
use crate::pages::links::Family;
use crate::pages::owner::Owner;
use crate::supply::frames::Supply;
use crate::words::claim::claim_in;
use crate::words::counts::ISOLATED;
use crate::words::pte::State;

const FIRST_WALKS: usize = scaled(8, 2);

/// Maximum number of checks whether a page is pinned. Accesses wait during them.
const LOOKS: usize = scaled(4, 1);

/// Record of a page that is being moved: isolated, with its new frame.
pub(crate) struct Moving<'s> {
    pub(crate) from: FrameNr,
    pub(super) order: Order,
    owner: Owner,
    /// Address in the migrated space, or `None` if compaction found the page by its frame.
    pub(crate) addr: Option<u64>,
    /// New frame, until it is published.
    to: Option<UniqueFrame<'s>>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Leaving,
    /// The page is in this new frame. Both frames are isolated until the end.
    Arriving(FrameNr),
    Failed(NotMoved),
}

impl<'s> Moving<'s> {
    /// Creates the record of a page that the caller has isolated.
    pub(crate) fn new(
        supply: &Supply,
        from: FrameNr,
        to: UniqueFrame<'s>,
        addr: Option<u64>,
    ) -> Self {
        Self {
            from,
            order: to.order(),
            owner: supply.owner_of(from),
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

    fn is_leaving(&self) -> bool {
        self.stage == Stage::Leaving
    }
}

impl Supply {
    /// Steps 2 to 6. Then no page is isolated; each is `Arriving` (moved) or `Failed`.
    pub(crate) fn move_batch<'s>(
        &'s self,
        batch: &mut [Moving<'s>],
        engine: Engine,
        report: &mut Migrated,
    ) {
        batch.sort_unstable_by_key(|page| (page.owner.family, page.owner.index));
        let mut left = Vec::with_capacity(batch.len());
        for pages in batch.chunk_by_mut(|a, b| a.owner.family == b.owner.family) {
            // Kept until the end, since all pages of the family may be dropped earlier.
            let family = self.family_of(pages[0].from);
            let start = Instant::now();
            // 2.
            self.first_walk(&family, pages);
            // 3.
            for page in pages.iter_mut().filter(|page| page.is_leaving()) {
                if self.counts(page.from).mappings() != 0 {
                    page.stage = Stage::Failed(NotMoved::StillMapped);
                } else if self.is_pinned(page.from) {
                    page.stage = Stage::Failed(NotMoved::Pinned);
                }
            }
            let walked = Instant::now();
            // 4.
            for page in pages.iter().filter(|page| page.is_leaving()) {
                if let Some(to) = &page.to {
                    let bytes = to.bytes();
                    bytes.copy_from_racy(0, self.pool().bytes(page.from, bytes.len()));
                }
            }
            let copied = Instant::now();
            // 5, and the undo for failed pages.
            for page in pages.iter_mut().filter(|page| page.is_leaving()) {
                if let Some(to) = page.to.take() {
                    let arrived = self.publish_moved(to, page.owner, ISOLATED);
                    page.stage = Stage::Arriving(arrived);
                }
            }
            self.second_walk(&family, pages, engine);
            // 6.
            for page in pages.iter() {
                match page.stage {
                    Stage::Arriving(arrived) => {
                        self.end_isolation(arrived);
                        left.extend(self.let_go_moved(page.from));
                    }
                    Stage::Leaving | Stage::Failed(_) => self.end_isolation(page.from),
                }
            }
            report.first_walk += walked - start;
            report.copy += copied - walked;
            report.second_walk += Instant::now() - copied;
        }
        let start = Instant::now();
        left.sort_unstable_by_key(UniqueFrame::frame);
        self.pool().free_bulk(&mut left);
        report.second_walk += Instant::now() - start;
    }

    /// Returns `true` if a page without mappings is pinned. Waits for references held only briefly.
    fn is_pinned(&self, frame: FrameNr) -> bool {
        let mut backoff = Backoff::new();
        for _ in 0..LOOKS {
            if !self.has_other_references(frame) {
                return false;
            }
            backoff.wait();
        }
        true
    }

    /// Step 2. The pages must be of `family`, and sorted by index.
    fn first_walk(&self, family: &Family, pages: &mut [Moving<'_>]) {
        let mut backoff = Backoff::new();
        for _ in 0..FIRST_WALKS {
            let mut left = pages.iter().filter(|page| self.is_to_turn(page)).count();
            if left == 0 {
                return;
            }
            self.walk(family, pages, |page, entry| {
                if !self.is_to_turn(page) {
                    return Continue(());
                }
                let Some(claim) = claim_in(entry, State::Present(page.from)) else {
                    return Continue(());
                };
                match self.turn_to_migration(page.from) {
                    Ok(counts) => {
                        let before = claim.before();
                        claim.end(before.to_migration());
                        left -= usize::from(counts.mappings() == 0);
                    }
                    Err(_) => {
                        page.stage = Stage::Failed(NotMoved::TooManyEntries);
                        left -= 1;
                    }
                }
                if left == 0 { Break(()) } else { Continue(()) }
            });
            if left == 0 {
                return;
            }
            backoff.wait();
        }
    }

    fn is_to_turn(&self, page: &Moving<'_>) -> bool {
        page.is_leaving() && self.counts(page.from).mappings() != 0
    }

    /// Step 5, or the undo for pages that failed.
    fn second_walk(&self, family: &Family, pages: &mut [Moving<'_>], engine: Engine) {
        let is_waited_for = |page: &Moving<'_>| self.counts(page.from).migrations() != 0;
        let mut must_walk_all = engine == Engine::FullWalk;
        let mut backoff = Backoff::new();
        loop {
            let mut left = pages.iter().filter(|page| is_waited_for(page)).count();
            if left == 0 && !must_walk_all {
                return;
            }
            self.walk(family, pages, |page, entry| {
                if self.restore(page, entry) {
                    self.pool().waits().wake(entry);
                    left -= usize::from(!is_waited_for(page));
                }
                if left == 0 && !must_walk_all {
                    Break(())
                } else {
                    Continue(())
                }
            });
            if !pages.iter().any(is_waited_for) {
                return;
            }
            must_walk_all = false;
            // A4: repeat until complete.
            backoff.wait();
        }
    }

    /// Restores `entry` if it is a migration entry of the page. The caller must wake the waiters.
    fn restore(&self, page: &Moving<'_>, entry: &AtomicU64) -> bool {
        let Some(claim) = claim_in(entry, State::Migration(page.from)) else {
            return false;
        };
        let before = claim.before();
        match page.stage {
            Stage::Arriving(to) => {
                self.add_mapping(to);
                claim.end(before.restored(to));
                self.drop_entry(before);
            }
            Stage::Leaving | Stage::Failed(_) => {
                self.turn_back(page.from);
                claim.end(before.restored(page.from));
            }
        }
        true
    }
}
