//! Blocks and frames that are owned by their number, and giving them back one by one.
//!
//! What. A block whose owner keeps its number instead of a handle, as programs do that manage their memory
//! themselves. Its kind is `Raw`, and one of its references is the owner's (I2 of `kind`). Giving it up is
//! safe to get wrong: what is wrong is an error, and nobody else's reference is ever dropped.
//!
//! # Protocol of giving up a raw frame
//!
//! 1. Look at the typed word; what is not `Raw` and of the right order is an error.
//! 2. If the count is 1, replace it by the lock: one compare-and-swap. Then the frame is the caller's alone,
//!    and its word settled. If it is not `Raw` after all (it was freed and allocated between 1 and 2, by
//!    another thread, which is a misuse) unfreeze it and say so.
//! 3. Else others hold references. Take one too, so that the frame stays what it is and 2 fails for
//!    everybody. Make it `Held` by compare-and-swap: of all that try, one succeeds. That one puts two
//!    references; the others theirs, and say so.
//!
//! What 2 can do to others at the worst, in a program that frees one frame from two threads at once: a
//! block with a single reference is frozen for some nanoseconds; a `try_get` fails meanwhile, as it does
//! while anybody freezes it, and a put panics.
//!
//! Proved by: `tests/range.rs`, `tests/loom_pool.rs`.

use crate::error::{FreeError, Misuse};
use crate::handle::UniqueFrame;
use crate::kind::FrameKind;
use crate::meta;
use crate::refcount::{RefScheme, TryGet};
use crate::{FrameNr, FramePool, Order};

/// What came of giving up a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "memory that others hold is not free yet"]
pub enum Freed {
    /// It is free.
    Now,
    /// Others hold references; the last of them frees it.
    Later,
}

/// What came of giving up the owner's reference to a block.
pub(crate) enum Dropped {
    /// The block is locked and the caller's alone.
    Alone,
    /// Others hold references.
    Held,
}

impl<S: RefScheme> UniqueFrame<'_, S> {
    /// The number alone; the block stays allocated, is owned by its number, and others may take references
    /// to it ([`FramePool::try_get`]). [`FramePool::free`] gives it back, [`FramePool::split`] splits it.
    pub fn into_raw(self) -> FrameNr {
        self.publish_as(FrameKind::Raw, (0, 0), 1)
    }
}

impl<S: RefScheme> FramePool<S> {
    /// Gives a block back that is owned by its number: one from [`UniqueFrame::into_raw`], or a frame of a
    /// split block (then `order` is 0).
    ///
    /// A number that was freed, and is freed again while another thread frees or allocates the same frame, is a misuse
    /// that cannot always be told from a right call: the new owner's block is freed then. Nobody's reference is
    /// dropped for it, but whoever drops the only one at that very moment may panic.
    ///
    /// # Errors
    ///
    /// [`FreeError`] when it is no such block; nothing is changed then.
    pub fn free(&self, frame: FrameNr, order: Order) -> Result<Freed, FreeError> {
        self.check_raw(frame, order)?;
        match self.drop_raw(frame, order)? {
            Dropped::Alone => {
                self.free_locked(frame, order);
                Ok(Freed::Now)
            }
            Dropped::Held => Ok(Freed::Later),
        }
    }

    /// Splits a block that is owned by its number into single frames, each owned by its own.
    ///
    /// # Errors
    ///
    /// [`FreeError`] when it is no such block, or others hold references to it; nothing is changed then.
    pub fn split(&self, frame: FrameNr, order: Order) -> Result<(), FreeError> {
        self.check_raw(frame, order)?;
        let record = self.meta(frame);
        if !record.refs.free_if_unique() {
            let misuse = if record.refs.is_locked() {
                self.misuse_of(frame, order)
            } else {
                Misuse::InUse
            };
            return Err(FreeError::new(misuse, frame.get()));
        }
        if !record.is_raw(order) {
            return Err(self.thaw(frame, order));
        }
        self.split_locked(frame, order);
        Ok(())
    }

    /// Makes single frames, each with one reference, of a block that is locked and the caller's alone.
    pub(crate) fn split_locked(&self, frame: FrameNr, order: Order) {
        let head = self.meta(frame);
        // Each of the frames has a flag of its own.
        if head.flags() & meta::HAS_POISONED != 0 {
            head.clear_flag(meta::HAS_POISONED);
        }
        let frames = frame.index()..frame.index() + order.frames() as usize;
        for record in &self.table[frames] {
            record.set_kind(FrameKind::Raw, Order::ZERO);
            record.refs.set(1);
        }
    }

    /// Checks that the block is a raw one of `order`, as far as that can be seen without holding it.
    pub(crate) fn check_raw(&self, frame: FrameNr, order: Order) -> Result<(), FreeError> {
        let misuse = if self.node_of(frame).is_none() {
            Misuse::OutsidePool
        } else if self.meta(frame).is_raw(order) {
            return Ok(());
        } else {
            self.misuse_of(frame, order)
        };
        Err(FreeError::new(misuse, frame.get()))
    }

    /// What is wrong with freeing a block of `order` at `frame`, by its typed word.
    #[cold]
    pub(crate) fn misuse_of(&self, frame: FrameNr, order: Order) -> Misuse {
        let record = self.meta(frame);
        let (kind, of_block) = record.kind();
        match kind {
            // Free blocks and those of others have tails alike; their first frames are told apart.
            FrameKind::Tail => self.misuse_of_tail(frame),
            // Raw and locked: a tail whose word was not written when its range was freed.
            FrameKind::Raw if of_block == Order::ZERO && record.refs.is_locked() => {
                self.misuse_of_tail(frame)
            }
            FrameKind::Free | FrameKind::Front | FrameKind::Leaked => Misuse::NotAllocated,
            FrameKind::Held => Misuse::GivenUp,
            FrameKind::Raw if of_block == order => Misuse::NotAllocated,
            FrameKind::Raw if order == Order::ZERO => Misuse::Unsplit { order: of_block },
            FrameKind::Raw => Misuse::WrongOrder { order: of_block },
            FrameKind::Owned
            | FrameKind::Page
            | FrameKind::Leaf
            | FrameKind::Anon
            | FrameKind::Table => Misuse::OwnedByHandle,
        }
    }

    fn misuse_of_tail(&self, frame: FrameNr) -> Misuse {
        let head = self.head_of(frame).map(|head| self.meta(head).kind().0);
        match head {
            Some(FrameKind::Free | FrameKind::Front) | None => Misuse::NotAllocated,
            Some(_) => Misuse::Tail,
        }
    }

    /// The first frame of the block of several frames that `frame` is in, if it is in one.
    pub(crate) fn head_of(&self, frame: FrameNr) -> Option<FrameNr> {
        // From the largest on: what the words of tails say means nothing.
        let orders = (1..=Order::MAX.get()).rev().filter_map(Order::new);
        orders
            .map(|order| (FrameNr::new(frame.get() & !(order.frames() - 1)), order))
            .find(|(head, order)| {
                let (kind, of_block) = self.meta(*head).kind();
                of_block >= *order && kind != FrameKind::Tail
            })
            .map(|(head, _)| head)
    }

    /// Gives up the owner's reference to a raw block.
    pub(crate) fn drop_raw(&self, frame: FrameNr, order: Order) -> Result<Dropped, FreeError> {
        let record = self.meta(frame);
        if !record.refs.free_if_unique() {
            self.drop_in_use(frame, order)
        } else if record.is_raw(order) {
            Ok(Dropped::Alone)
        } else {
            Err(self.thaw(frame, order))
        }
    }

    /// Step 2, when the frame is somebody else's after all.
    #[cold]
    pub(crate) fn thaw(&self, frame: FrameNr, order: Order) -> FreeError {
        let misuse = self.misuse_of(frame, order);
        self.meta(frame).refs.unfreeze(1);
        FreeError::new(misuse, frame.get())
    }

    /// Step 3 of the protocol.
    #[cold]
    pub(crate) fn drop_in_use(&self, frame: FrameNr, order: Order) -> Result<Dropped, FreeError> {
        let record = self.meta(frame);
        let error = |misuse| Err(FreeError::new(misuse, frame.get()));
        match record.refs.try_get() {
            TryGet::Taken => {}
            // Raw and locked: freed, but not used since.
            TryGet::Locked => return error(self.misuse_of(frame, order)),
            TryGet::Saturated => return error(Misuse::Saturated),
        }
        // Ours is one, and the owner's one, if nobody has stolen that.
        let misuse = if record.is_raw(order) && record.refs.count() < 2 {
            Some(Misuse::CountTooSmall)
        } else if record.give_up(order) {
            None
        } else {
            Some(self.misuse_of(frame, order))
        };
        let given_up = if misuse.is_some() { 1 } else { 2 };
        let is_last = record.refs.sub_and_test(given_up).is_last();
        match misuse {
            None if is_last => Ok(Dropped::Alone),
            None => Ok(Dropped::Held),
            Some(misuse) => {
                if is_last {
                    let (_, order) = record.kind();
                    self.free_locked(frame, order);
                }
                error(misuse)
            }
        }
    }
}
