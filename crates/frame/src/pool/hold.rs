//! [`Hold`]: a reference that is counted, or announced. [`OwnedHold`](super::OwnedHold) is the one that borrows nothing.

use std::fmt;

use pagewell_sync::bytes::RacySource;
use pagewell_sync::shard::{Identity, own_identity};

use super::frame_pool::FramePool;
use super::handle::FrameRef;
use crate::announce::{Ended, Slot, Word};
use crate::count::RefScheme;
use crate::words::FrameNr;

/// One reference to a block, as a [`FrameRef`], that may be announced instead of counted ([`FramePool::try_announce`]): then neither taking it
/// nor giving it back writes to memory that threads share.
///
/// It may be sent to another thread, and dropped there; and outlive the thread that has taken it.
#[repr(C)]
pub struct Hold<'p, S: RefScheme> {
    pool: &'p FramePool<S>,
    /// Where it is announced; none if it is counted.
    slot: Option<&'p Slot>,
    /// What is announced there; or the frame, and nobody. (One word, which is stored and loaded as one: what is stored in parts and loaded
    /// together, when a handle is returned, the processor waits for.)
    word: Word,
}

impl<'p, S: RefScheme> Hold<'p, S> {
    /// The number of the block's first frame.
    #[inline]
    pub fn frame(&self) -> FrameNr {
        self.word.frame()
    }

    /// The pool that the block is of.
    #[inline]
    pub fn pool(&self) -> &'p FramePool<S> {
        self.pool
    }

    /// Whether it is announced, and not counted.
    #[inline]
    pub fn is_announced(&self) -> bool {
        self.slot.is_some()
    }

    /// The block's bytes, as of a [`FrameRef`].
    pub fn bytes(&self) -> RacySource<'_> {
        let (_, order) = self.pool.meta(self.frame()).kind();
        self.pool
            .memory()
            .bytes_of(self.frame(), order.bytes())
            .source()
    }
}

impl<'p, S: RefScheme> From<FrameRef<'p, S>> for Hold<'p, S> {
    #[inline]
    fn from(reference: FrameRef<'p, S>) -> Self {
        Self {
            pool: reference.pool(),
            slot: None,
            word: Word::new(reference.into_raw(), 0),
        }
    }
}

impl<S: RefScheme> Drop for Hold<'_, S> {
    // Everything but the usual end of an announcement is in functions apart, so that this is compiled where a reference is dropped, which
    // then need not be in memory.
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
fn put_counted<S: RefScheme>(pool: &FramePool<S>, frame: FrameNr) {
    drop(FrameRef::new(pool, frame));
}

#[cold]
#[inline(never)]
fn look<S: RefScheme>(pool: &FramePool<S>) {
    pool.announcements().look(pool.lists());
}

impl<S: RefScheme> fmt::Debug for Hold<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.is_announced() {
            "announced"
        } else {
            "counted"
        };
        write!(f, "Hold({:?}, {how})", self.frame())
    }
}

/// References that are announced instead of counted. The text of the room `announce` has the protocol.
impl<S: RefScheme> FramePool<S> {
    /// An announced reference to `frame`, if the frame is marked, and this thread has room for one. `is_still` says whether the frame is
    /// the one that the caller wants: asked when the reference is announced, and has to load what it says anew.
    ///
    /// None is no failure: the reference is to be counted then.
    #[inline(always)]
    pub fn try_announce(
        &self,
        frame: FrameNr,
        is_still: impl FnOnce() -> bool,
    ) -> Option<Hold<'_, S>> {
        self.try_announce_as(own_identity()?, frame, is_still)
    }

    /// As [`try_announce`](Self::try_announce), of a thread that says who it is: for models of threads that come and go.
    #[doc(hidden)]
    #[inline(always)]
    pub fn try_announce_as(
        &self,
        me: Identity,
        frame: FrameNr,
        is_still: impl FnOnce() -> bool,
    ) -> Option<Hold<'_, S>> {
        let word = Word::new(frame, me.serial());
        let announcements = self.announcements();
        let slot = announcements.announce(self.lists(), me, word, is_still)?;
        Some(Hold {
            pool: self,
            slot: Some(slot),
            word,
        })
    }

    /// Notes that this thread has taken the counted `reference`; whether it has taken so many of the frame lately that the frame is worth
    /// a [mark](Self::mark).
    #[inline]
    pub fn note_counted(&self, reference: &FrameRef<'_, S>) -> bool {
        own_identity().is_some_and(|me| self.note_counted_as(me, reference))
    }

    /// As [`note_counted`](Self::note_counted), of a thread that says who it is.
    #[doc(hidden)]
    #[inline]
    pub fn note_counted_as(&self, me: Identity, reference: &FrameRef<'_, S>) -> bool {
        // Its owner has a reference, and so have we.
        let is_contended = reference.meta().count() > 2;
        self.announcements()
            .note_counted(self.lists(), me, reference.frame(), is_contended)
    }

    /// Marks the frame of `reference`: from now on references to it may be announced, and one counted reference stands for all of these, until a
    /// [look](Self::look_at_announced) finds none. Whether it is marked now: not if the system lacks what it takes, or too many are.
    ///
    /// Whoever owns the frame sees to it that somebody [retires](Self::retire) it, or doubts it, or it is never free. A frame
    /// that a page of a cache is in is marked under the claim of the page.
    pub fn mark(&self, reference: &FrameRef<'_, S>) -> bool {
        std::ptr::eq(reference.pool(), self)
            && self.announcements().mark(self.lists(), reference.frame())
    }

    /// To be called by the owner of a frame that nobody finds any more, before it puts its own reference: no announced references to it are
    /// taken from now on; those that there are keep it, and the last frees it.
    ///
    /// A frame that is not marked costs a load.
    #[inline]
    pub fn retire(&self, frame: FrameNr) {
        self.announcements().retire(self.lists(), frame);
    }

    /// Has the next [look](Self::look_at_announced) take the mark of `frame` off, unless there is an announced reference then: for who cannot freeze it.
    ///
    /// Nothing is done if a mark is not what keeps the frame.
    #[inline]
    pub fn doubt(&self, frame: FrameNr) {
        if let Some(record) = self.lists().table.get(frame.index())
            && record.is_marked()
            && record.count() <= 2
        {
            self.announcements().doubt(frame);
        }
    }

    /// Looks whether frames that are doubted or retired have announced references, if there are any such frames: for some microseconds. How
    /// many have lost the one that was counted for them.
    #[inline]
    pub fn look_at_announced(&self) -> usize {
        self.announcements().look_if_pending(self.lists())
    }

    /// How many frames have a counted reference for those that are announced.
    pub fn nr_marked(&self) -> usize {
        self.announcements().nr_marked()
    }
}
