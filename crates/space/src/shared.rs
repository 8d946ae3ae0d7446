//! What the spaces of one pool share: the frames, the places to wait, the writers that forks stop.

use std::fmt;
use std::sync::Arc;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{
    AllocError, AllocRequest, FrameNr, FramePool, Order, Place, Reserve, UniqueFrame,
};
use pagewell_sync::asymmetric::Fences;
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::per_thread::{AtWork, PerThread, Reach};

use crate::claim;
use crate::raw::PoolView;
use crate::table_stock::TableStock;

/// Where spaces get their frames from.
///
/// A pool is one. What shares its frames with others, such as a cache of files, makes room by taking from them.
pub trait FrameSource<S: RefScheme>: Send + Sync {
    /// The pool; the same one for as long as the source lives.
    fn pool(&self) -> &FramePool<S>;

    /// Makes room: a block of `order` that may be at `place`, taken from what else the source has in its frames; none if
    /// there is nothing to take. It is asked when no such block is free.
    ///
    /// It is called with locks of a space held, so it must not use spaces of this source, nor wait for anybody who does. A
    /// block of another pool or order is dropped, and counts as none.
    fn make_room(&self, order: Order, place: Place) -> Option<UniqueFrame<'_, S>> {
        let _ = (order, place);
        None
    }

    /// Does what takes waiting, so that [`make_room`](Self::make_room) may find something at `place` where it has found
    /// nothing: gives what is dirty to a storage, say. Whether it is worth to ask again.
    ///
    /// It is called with no lock held. It may call programs that use spaces.
    fn make_clean(&self, order: Order, place: Place) -> bool {
        let _ = (order, place);
        false
    }

    /// Moves what the source has in `frame`, a block of the order of `to`, to that; returns the block that it was in. As
    /// [`make_room`](Self::make_room), it must not use spaces; and any other block counts as if it could not be done.
    ///
    /// # Errors
    ///
    /// `to`, when that cannot be done.
    fn move_page<'f>(
        &'f self,
        frame: FrameNr,
        to: UniqueFrame<'f, S>,
    ) -> Result<UniqueFrame<'f, S>, UniqueFrame<'f, S>> {
        let _ = frame;
        Err(to)
    }
}

impl<S: RefScheme> FrameSource<S> for FramePool<S> {
    fn pool(&self) -> &FramePool<S> {
        self
    }
}

impl<S: RefScheme> FrameSource<S> for std::sync::Arc<FramePool<S>> {
    fn pool(&self) -> &FramePool<S> {
        self
    }
}

/// The frames of a cache of files: pages of files are evicted for those of spaces, on the nodes where these may be; they
/// are written back before, if they have to be.
impl<S: RefScheme> FrameSource<S> for pagewell_cache::CacheFrames<S> {
    fn pool(&self) -> &FramePool<S> {
        Self::pool(self)
    }

    fn make_room(&self, order: Order, place: Place) -> Option<UniqueFrame<'_, S>> {
        Self::make_room(self, order, place)
    }

    fn make_clean(&self, order: Order, place: Place) -> bool {
        Self::make_clean(self, order, place)
    }

    fn move_page<'f>(
        &'f self,
        frame: FrameNr,
        to: UniqueFrame<'f, S>,
    ) -> Result<UniqueFrame<'f, S>, UniqueFrame<'f, S>> {
        Self::move_page(self, frame, to)
    }
}

/// What the spaces of one pool share.
pub(crate) struct Shared<S: RefScheme> {
    /// Of the pool of `source`: the two live together.
    pub(crate) view: PoolView<S>,
    pub(crate) source: Arc<dyn FrameSource<S>>,
    /// Who is writing a page where it is, of any space: at work between looking at the directory and the end of the
    /// claim. Whoever visits knows that nobody is, and that nobody begins before the visit ends.
    writers: PerThread<()>,
    next_id: AtomicU64,
    pub(crate) tables: TableStock,
}

/// The system refused to stop the writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused;

impl<S: RefScheme> Shared<S> {
    pub(crate) fn new(source: Arc<dyn FrameSource<S>>) -> Self {
        let nr_writers = if cfg!(loom) {
            3
        } else {
            std::thread::available_parallelism().map_or(1, usize::from) * 2
        };
        Self {
            view: PoolView::new(source.pool()),
            source,
            writers: PerThread::new(nr_writers, Fences::new(), || ()),
            next_id: AtomicU64::new(1),
            tables: TableStock::default(),
        }
    }

    #[inline]
    pub(crate) fn pool(&self) -> &FramePool<S> {
        self.view.pool()
    }

    /// A number that nothing else has.
    pub(crate) fn next_id(&self) -> u64 {
        // ORDERING: Relaxed; only the uniqueness of the number matters, and atomicity gives it.
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Does `work` as a writer that [`stop_writers`](Self::stop_writers) waits for; none, and nothing is done, if this
    /// thread cannot be one (there are more threads than places).
    #[inline(always)]
    pub(crate) fn as_writer<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        self.writers.with_mine(|()| work())
    }

    /// As [`as_writer`](Self::as_writer), until the answer is dropped; none while there is a visitor too.
    #[inline(always)]
    pub(crate) fn enter_writer(&self) -> Option<AtWork<'_>> {
        self.writers.try_enter()
    }

    /// Does `work` while nobody is within [`as_writer`](Self::as_writer). It must neither wait nor allocate.
    pub(crate) fn stop_writers<R>(&self, work: impl FnOnce() -> R) -> Result<R, Refused> {
        self.writers.with_all(|_, reach| match reach {
            Reach::All => Ok(work()),
            Reach::Own => Err(Refused),
        })
    }

    /// A block that the source makes room for, if it is one of the pool's and of this order. What a source answers is not
    /// trusted: anybody may be one, and a table that named a frame of another pool would name any memory.
    pub(crate) fn room_of_source(&self, order: Order, place: Place) -> Option<UniqueFrame<'_, S>> {
        let block = self.source.make_room(order, place);
        block.filter(|block| std::ptr::eq(block.pool(), self.pool()) && block.order() == order)
    }

    /// Allocates a block, making room if there is none; for a large one by moving pages out of the way too.
    pub(crate) fn alloc(&self, order: Order, place: Place) -> Option<UniqueFrame<'_, S>> {
        claim::assert_none_held();
        if place == Place::Anywhere
            && let Some(frame) = self.pool().alloc(order)
        {
            return Some(frame);
        }
        let request = AllocRequest {
            order,
            place,
            reserve: Reserve::Keep,
        };
        match self.pool().alloc_by(&request) {
            Ok(frame) => return Some(frame),
            Err(AllocError::Exhausted { .. }) => {}
            Err(_) => return None,
        }
        if self.drain_table_stock() > 0
            && let Ok(frame) = self.pool().alloc_by(&request)
        {
            return Some(frame);
        }
        if let Some(block) = self.room_of_source(order, place) {
            return Some(block);
        }
        // The frames may be there, and scattered.
        (order > Order::ZERO)
            .then(|| self.compact(order, place))
            .flatten()
    }
}

impl<S: RefScheme> fmt::Debug for Shared<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("pool", self.pool())
            .finish_non_exhaustive()
    }
}
