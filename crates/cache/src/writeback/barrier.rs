//! Barriers: ending a group, and making the earlier one durable. The protocol is in [`crate::dirty::groups`].

use pagewell_frame::refcount::RefScheme;

use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page::PageNr;
use crate::dirty::commits::Sync;
use crate::dirty::order::InOrder;
use crate::dirty::storage::Storage;
use crate::dirty::writes::Writes;
use crate::mapping::record::Mapping;
use crate::writeback::durable::Durable;
use crate::writeback::give::{Giver, Next};

/// Keeps the order of a file's groups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Barriers<'m, S: RefScheme>(pub(crate) &'m Mapping<S>);

impl<S: RefScheme> Barriers<'_, S> {
    /// Ends the current group: later writes are given to the storage when all earlier ones are
    /// durable.
    pub(crate) fn barrier(self) -> Result<(), Error> {
        let writes = self.0.writes(Op::Barrier)?;
        let mut storage = self.0.lock_storage(writes, Op::Barrier)?;
        self.settle_earlier(writes, &mut storage)
            .map_err(|error| error.with_op(Op::Barrier))?;
        if !writes.groups.end_current() {
            return Err(self.0.error(ErrorKind::Locked, Op::Barrier));
        }
        storage.is_split = true;
        Ok(())
    }

    /// Makes the earlier group durable, for a writer to a page of it, which then looks again; or waits until somebody else has done that, or has
    /// failed. The lock of the file's size may be held.
    pub(crate) fn settle_groups(self, writes: &Writes) -> Result<(), Error> {
        self.0.check_no_hook(writes, Op::Write)?;
        {
            // As before the lock, for whose holder this waits.
            let _order = InOrder::before_lock(self.0);
            if writes.groups.wait_while_settling(&self.0.claims().waits) {
                return Ok(());
            }
        }
        let mut storage = self.0.lock_storage(writes, Op::Write)?;
        self.settle_earlier(writes, &mut storage)
            .map(drop)
            .map_err(|error| error.with_op(Op::Write))
    }

    /// Makes the rest of the earlier group durable; returns how many pages the storage took.
    pub(crate) fn settle_earlier(
        self,
        writes: &Writes,
        storage: &mut Storage,
    ) -> Result<usize, Error> {
        let earlier = writes.groups.earlier();
        let _settling = writes.groups.settling(&self.0.claims().waits);
        let mut nr_given = 0;
        loop {
            storage.passed_over = None;
            nr_given +=
                Giver(self.0).give_dirty(writes, storage, 0..PageNr::MAX, (earlier, Next::Sync))?;
            // All that was given to the storage may be durable already.
            if storage.is_split && !storage.is_synced {
                Durable(self.0)
                    .sync_storage(writes, storage, Sync::Data)
                    .map_err(|error| self.0.write_failed(writes, Op::Sync, error))?;
            }
            match (
                writes.dirty(earlier).next(0, self.0.nr_pages()),
                storage.passed_over,
            ) {
                (None, _) => {
                    storage.is_split = false;
                    return Ok(nr_given);
                }
                (Some(_), Some(page)) => {
                    return Err(self
                        .0
                        .error(ErrorKind::Held, Op::Flush)
                        .with_page(page)
                        .with_detail("which is to be written before others"));
                }
                // A write that was under way during the barrier has stored its state since. There are only so many of these.
                (Some(_), None) => {}
            }
        }
    }
}
