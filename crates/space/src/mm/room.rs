//! Room for what an operation needs, where making it takes waiting.
//!
//! Place. Whatever allocates does so with locks of a space held, and so its source may evict what is clean, and no more:
//! to write back what is dirty would be to wait for a storage, and to call programs' hooks, which may use spaces. So an
//! operation that has failed for lack of frames lets go of everything, has the source do that, and is done again from its
//! beginning. Operations that fail have changed nothing that keeps them from it.
//!
//! Progress. An operation is done again [`TRIES`] times at the most, and only if pages were made clean; others may take what has
//! become free.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{Order, Place};
use pagewell_sync::read;

use crate::error::{Error, ErrorKind};
use crate::mm::mm::Inner;
use crate::supply::source::Shared;
use crate::words::claim;

/// How often an operation is done again.
const TRIES: usize = 4;

impl<S: RefScheme> Shared<S> {
    /// Does `attempt`, and if it fails for lack of frames again when the source has made some fit to be taken: for such
    /// a block as `wanted` says. No lock is held.
    pub(crate) fn with_room<R>(
        &self,
        wanted: impl Fn(Error) -> (Order, Place),
        mut attempt: impl FnMut() -> Result<R, Error>,
    ) -> Result<R, Error> {
        for _ in 0..TRIES {
            match attempt() {
                Err(error) if error.kind() == ErrorKind::OutOfFrames => {
                    if !self.make_clean(wanted(error)) {
                        return Err(error);
                    }
                }
                done => return done,
            }
        }
        attempt()
    }

    #[cold]
    fn make_clean(&self, (order, place): (Order, Place)) -> bool {
        claim::assert_none_held();
        if self.source.make_clean(order, place) {
            return true;
        }
        // It may have been a table that there was no frame for, which may be anywhere.
        place != Place::Anywhere
            && self.pool().alloc(Order::ZERO).is_none()
            && self.source.make_clean(Order::ZERO, Place::Anywhere)
    }
}

impl<S: RefScheme> Inner<S> {
    /// As [`Shared::with_room`], for a page at the address that the error names, or else for a table.
    pub(crate) fn with_room<R>(
        &self,
        attempt: impl FnMut() -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.shared.with_room(|error| self.wanted(error), attempt)
    }

    fn wanted(&self, error: Error) -> (Order, Place) {
        let areas = read(&self.structure);
        let area = error
            .addr()
            .and_then(|addr| Some((areas.area_of(addr)?, addr)));
        area.map_or((Order::ZERO, Place::Anywhere), |(area, addr)| {
            let place = area.place(area.index_of(addr), self.shared.pool().nr_nodes());
            (area.order, place)
        })
    }
}
