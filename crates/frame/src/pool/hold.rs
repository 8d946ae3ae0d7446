//! [`Hold`]: a counted reference or a hazard, which borrows from the pool.

use std::fmt;

use pagewell_sync::bytes::RacySource;
use pagewell_sync::shard::{Identity, known_identity, own_identity};

use super::frame_pool::FramePool;
use super::handle::FrameRef;
use crate::announce::{Ended, Slot, Word};
use crate::records::FrameMeta;
use crate::words::FrameNr;

/// One reference to a block: counted, like a [`FrameRef`], or a hazard
/// ([`FramePool::try_announce`]). It may be sent to other threads, and outlive its creator.
#[repr(C)]
pub struct Hold<'p> {
    pool: &'p FramePool,
    /// Slot of the hazard, or `None` if the reference is counted.
    slot: Option<&'p Slot>,
    /// Word of the hazard, or the frame with serial 0 if the reference is counted. (One field for
    /// both cases: one load of two fields that were stored separately would fail store forwarding.)
    word: Word,
}

impl<'p> Hold<'p> {
    /// Returns the number of the block's first frame.
    #[inline]
    pub fn frame(&self) -> FrameNr {
        self.word.frame()
    }

    /// Returns the pool of the block.
    #[inline]
    pub fn pool(&self) -> &'p FramePool {
        self.pool
    }

    /// Returns `true` if this is a hazard, not a counted reference.
    #[inline]
    pub fn is_announced(&self) -> bool {
        self.slot.is_some()
    }

    /// Returns the bytes of the block, like [`FrameRef::bytes`].
    pub fn bytes(&self) -> RacySource<'_> {
        let (_, order) = self.pool.meta(self.frame()).kind();
        self.pool
            .memory()
            .bytes_of(self.frame(), order.bytes())
            .source()
    }
}

impl<'p> From<FrameRef<'p>> for Hold<'p> {
    #[inline]
    fn from(reference: FrameRef<'p>) -> Self {
        Self {
            pool: reference.pool(),
            slot: None,
            word: Word::new(reference.into_raw(), 0),
        }
    }
}

impl Drop for Hold<'_> {
    // Only the end of a hazard whose slot is not awaited is inlined. The other calls take no
    // reference to `self`, so a `Hold` can stay in registers.
    #[inline(always)]
    fn drop(&mut self) {
        let ended = match self.slot {
            Some(slot) => self.pool.announcements().end(slot, self.word),
            None => Ended::Counted,
        };
        match ended {
            Ended::Done => {}
            Ended::Counted => put_counted(self.pool, self.frame()),
            Ended::Wanted => look(self.pool),
        }
    }
}

#[inline(never)]
fn put_counted(pool: &FramePool, frame: FrameNr) {
    drop(FrameRef::new(pool, frame));
}

#[cold]
#[inline(never)]
fn look(pool: &FramePool) {
    pool.announcements().look(pool.lists());
}

impl fmt::Debug for Hold<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.is_announced() {
            "announced"
        } else {
            "counted"
        };
        write!(f, "Hold({:?}, {how})", self.frame())
    }
}

/// Frame that was protected, from [`FramePool::protected`].
#[derive(Clone, Copy)]
pub struct Protected<'p> {
    pool: &'p FramePool,
    frame: FrameNr,
    record: &'p FrameMeta,
}

impl<'p> Protected<'p> {
    /// Publishes a reference to the frame, like [`FramePool::try_announce`].
    #[inline(always)]
    pub fn try_announce(self, is_still: impl FnOnce() -> bool) -> Option<Hold<'p>> {
        // A thread without an identity owns no slots.
        self.try_announce_as(known_identity()?, is_still)
    }

    #[inline(always)]
    fn try_announce_as(self, me: Identity, is_still: impl FnOnce() -> bool) -> Option<Hold<'p>> {
        let word = Word::new(self.frame, me.serial());
        let slot = self.announce((me, word), is_still)?;
        Some(Hold {
            pool: self.pool,
            slot: Some(slot),
            word,
        })
    }

    #[inline(always)]
    pub(super) fn announce(
        self,
        hazard: (Identity, Word),
        is_still: impl FnOnce() -> bool,
    ) -> Option<&'p Slot> {
        let (pool, record) = (self.pool, self.record);
        pool.announcements()
            .announce(pool.lists(), record, hazard, is_still)
    }
}

impl fmt::Debug for Protected<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Protected({:?})", self.frame)
    }
}

/// Hazards: references that are published instead of counted. Protocol: module `announce`.
impl FramePool {
    /// Publishes a reference to `frame`, if it is [protected](Self::mark) and this thread has an
    /// empty slot. `is_still` then checks, by loading its data again, that the frame is the one
    /// that the caller needs. On `None` the caller acquires a counted reference instead.
    #[inline(always)]
    pub fn try_announce(
        &self,
        frame: FrameNr,
        is_still: impl FnOnce() -> bool,
    ) -> Option<Hold<'_>> {
        self.protected(frame)?.try_announce(is_still)
    }

    /// Like [`try_announce`](Self::try_announce), for an explicit thread, in models.
    #[doc(hidden)]
    #[inline(always)]
    pub fn try_announce_as(
        &self,
        me: Identity,
        frame: FrameNr,
        is_still: impl FnOnce() -> bool,
    ) -> Option<Hold<'_>> {
        self.protected(frame)?.try_announce_as(me, is_still)
    }

    /// Returns `frame` if it is protected. A hint, which [`Protected::try_announce`] checks again.
    #[inline(always)]
    pub fn protected(&self, frame: FrameNr) -> Option<Protected<'_>> {
        let record = self.lists().table.get(frame.index())?;
        record.is_open().then_some(Protected {
            pool: self,
            frame,
            record,
        })
    }

    /// Records that this thread has acquired `reference`. Returns `true` if the frame should be
    /// [protected](Self::mark), because this thread often acquires references to it.
    #[inline(always)]
    pub fn note_counted(&self, reference: &FrameRef<'_>) -> bool {
        // Passed by value: a borrow of `reference` would force it into memory.
        self.note_frame(reference.frame())
    }

    #[inline(never)]
    fn note_frame(&self, frame: FrameNr) -> bool {
        match known_identity() {
            Some(me) => self.note_counted_as(me, frame),
            None => self.note_first(frame),
        }
    }

    /// Assigns this thread an identity, with which it may take a block.
    #[cold]
    #[inline(never)]
    fn note_first(&self, frame: FrameNr) -> bool {
        own_identity().is_some_and(|me| self.note_counted_as(me, frame))
    }

    #[doc(hidden)]
    #[inline]
    pub fn note_counted_as(&self, me: Identity, frame: FrameNr) -> bool {
        self.announcements().note_counted(self.lists(), me, frame)
    }

    /// Protects the frame of `reference`: until a [scan](Self::look_at_announced) ends the
    /// protection, references to it may be published, and one counted reference stands for all of
    /// them. Returns `false` without `membarrier(2)`, if too many frames are protected, or for
    /// another pool's reference.
    ///
    /// The owner must later [retire](Self::retire) or [query](Self::doubt) the frame, which is
    /// otherwise never freed. For a cache page, the caller holds the page's claim.
    pub fn mark(&self, reference: &FrameRef<'_>) -> bool {
        std::ptr::eq(reference.pool(), self)
            && self.announcements().mark(self.lists(), reference.frame())
    }

    /// Ends the protection of a frame that lookups no longer find, before the owner puts its own
    /// reference. Existing hazards keep the frame, and later hazards are not valid.
    #[inline]
    pub fn retire(&self, frame: FrameNr) {
        self.announcements().retire(self.lists(), frame);
    }

    /// Requests that the next [scan](Self::look_at_announced) ends the protection of `frame`,
    /// unless it finds a hazard. Called by an owner that cannot freeze the frame. Does nothing if
    /// the frame is not protected, has a third counted reference, or too many frames are queried.
    #[inline]
    pub fn doubt(&self, frame: FrameNr) {
        if let Some(record) = self.lists().table.get(frame.index())
            && record.is_marked()
            && record.count() <= 2
        {
            self.announcements().doubt(frame);
        }
    }

    /// If frames are queried or retired, scans the hazard slots (some microseconds). Returns the
    /// number of frames that lost protection. The caller holds no lock that a free needs.
    #[inline]
    pub fn look_at_announced(&self) -> usize {
        self.announcements().look_if_pending(self.lists())
    }

    /// Returns the number of protected frames, including retired frames that hazards keep.
    pub fn nr_marked(&self) -> usize {
        self.announcements().nr_marked()
    }
}
