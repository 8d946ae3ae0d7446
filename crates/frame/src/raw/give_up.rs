//! Blocks and frames that are owned by their number, and giving them back one by one.
//!
//! What. A block whose owner keeps its number instead of a handle, as programs do that manage their memory
//! themselves. Its kind is `Raw`, and one of its references is the owner's (I2 of `kind`). Giving it up is
//! safe to get wrong: misuse is an error, and never drops the reference of another holder.
//!
//! # Protocol of giving up a raw frame
//!
//! 1. Look at the typed word; if it is not `Raw` and of the right order, that is an error.
//! 2. If the count is 1, replace it by the lock: one compare-and-swap. Then the frame is the caller's alone,
//!    and its word settled. If it is not `Raw` after all (another thread freed and allocated it between 1 and 2,
//!    which is a misuse), unfreeze it and return an error.
//! 3. Otherwise there are other references. Take one too, so that the frame stays what it is and 2 fails for
//!    every thread. Make it `Held` by compare-and-swap: of all threads that try, one succeeds. That one puts two
//!    references; the others put theirs, and return an error.
//!
//! The worst that 2 can do to others, in a program that frees one frame from two threads at once: a
//! block with a single reference is frozen for some nanoseconds; a `try_get` fails meanwhile, as it does
//! during any freeze, and a put panics.
//!
//! Proved by: `tests/range.rs`, `tests/loom_pool.rs`.

use super::error::{FreeError, Misuse};
use crate::count::{RefScheme, TryGet};
use crate::lists::FreeLists;
use crate::records::head_of;
use crate::words::{FrameKind, FrameNr, Order};

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
pub(super) enum Dropped {
    /// The block is locked and the caller's alone.
    Alone,
    /// Others hold references.
    Held,
}

/// Gives a block back that is owned by its number: see [`FramePool::free`](crate::FramePool::free).
pub(crate) fn free<S: RefScheme>(
    lists: &FreeLists<S>,
    frame: FrameNr,
    order: Order,
) -> Result<Freed, FreeError> {
    check_raw(lists, frame, order)?;
    match drop_raw(lists, frame, order)? {
        Dropped::Alone => {
            lists.free_locked(frame, order);
            Ok(Freed::Now)
        }
        Dropped::Held => Ok(Freed::Later),
    }
}

/// Splits a block that is owned by its number: see [`FramePool::split`](crate::FramePool::split).
pub(crate) fn split<S: RefScheme>(
    lists: &FreeLists<S>,
    frame: FrameNr,
    order: Order,
) -> Result<(), FreeError> {
    check_raw(lists, frame, order)?;
    let record = lists.meta(frame);
    if !record.refs.free_if_unique() {
        let misuse = if record.refs.is_locked() {
            misuse_of(lists, frame, order)
        } else {
            Misuse::InUse
        };
        return Err(FreeError::new(misuse, frame.get()));
    }
    if !record.is_raw(order) {
        return Err(thaw(lists, frame, order));
    }
    split_locked(lists, frame, order);
    Ok(())
}

/// Makes single frames, each with one reference, of a block that is locked and the caller's alone.
pub(crate) fn split_locked<S: RefScheme>(lists: &FreeLists<S>, frame: FrameNr, order: Order) {
    let frames = frame.index()..frame.index() + order.frames() as usize;
    for record in &lists.table[frames] {
        record.set_kind(FrameKind::Raw, Order::ZERO);
        record.refs.set(1);
    }
}

/// Checks that the block is a raw one of `order`, as far as that can be seen without holding it.
fn check_raw<S: RefScheme>(
    lists: &FreeLists<S>,
    frame: FrameNr,
    order: Order,
) -> Result<(), FreeError> {
    let misuse = if lists.node_of(frame).is_none() {
        Misuse::OutsidePool
    } else if lists.meta(frame).is_raw(order) {
        return Ok(());
    } else {
        misuse_of(lists, frame, order)
    };
    Err(FreeError::new(misuse, frame.get()))
}

/// What is wrong with freeing a block of `order` at `frame`, by its typed word.
#[cold]
pub(super) fn misuse_of<S: RefScheme>(
    lists: &FreeLists<S>,
    frame: FrameNr,
    order: Order,
) -> Misuse {
    let record = lists.meta(frame);
    let (kind, of_block) = record.kind();
    match kind {
        // Free blocks and those of others have tails alike; their first frames are told apart.
        FrameKind::Tail => misuse_of_tail(lists, frame),
        // Raw and locked: a tail whose word was not written when its range was freed.
        FrameKind::Raw if of_block == Order::ZERO && record.refs.is_locked() => {
            misuse_of_tail(lists, frame)
        }
        FrameKind::Free | FrameKind::Front => Misuse::NotAllocated,
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

fn misuse_of_tail<S: RefScheme>(lists: &FreeLists<S>, frame: FrameNr) -> Misuse {
    let head = head_of(&lists.table, frame).map(|head| lists.meta(head).kind().0);
    match head {
        Some(FrameKind::Free | FrameKind::Front) | None => Misuse::NotAllocated,
        Some(_) => Misuse::Tail,
    }
}

/// Gives up the owner's reference to a raw block.
fn drop_raw<S: RefScheme>(
    lists: &FreeLists<S>,
    frame: FrameNr,
    order: Order,
) -> Result<Dropped, FreeError> {
    let record = lists.meta(frame);
    if !record.refs.free_if_unique() {
        drop_in_use(lists, frame, order)
    } else if record.is_raw(order) {
        Ok(Dropped::Alone)
    } else {
        Err(thaw(lists, frame, order))
    }
}

/// Step 2, when the frame is somebody else's after all.
#[cold]
pub(super) fn thaw<S: RefScheme>(lists: &FreeLists<S>, frame: FrameNr, order: Order) -> FreeError {
    let misuse = misuse_of(lists, frame, order);
    lists.meta(frame).refs.unfreeze(1);
    FreeError::new(misuse, frame.get())
}

/// Step 3 of the protocol.
#[cold]
pub(super) fn drop_in_use<S: RefScheme>(
    lists: &FreeLists<S>,
    frame: FrameNr,
    order: Order,
) -> Result<Dropped, FreeError> {
    let record = lists.meta(frame);
    let error = |misuse| Err(FreeError::new(misuse, frame.get()));
    match record.refs.try_get() {
        TryGet::Taken => {}
        // Raw and locked: freed, but not used since.
        TryGet::Locked => return error(misuse_of(lists, frame, order)),
        TryGet::Saturated => return error(Misuse::Saturated),
    }
    // Ours is one, and the owner's one, if nobody has stolen that.
    let misuse = if record.is_raw(order) && record.refs.count() < 2 {
        Some(Misuse::CountTooSmall)
    } else if record.give_up(order) {
        None
    } else {
        Some(misuse_of(lists, frame, order))
    };
    let given_up = if misuse.is_some() { 1 } else { 2 };
    let is_last = record.refs.sub_and_test(given_up).is_last();
    match misuse {
        None if is_last => Ok(Dropped::Alone),
        None => Ok(Dropped::Held),
        Some(misuse) => {
            if is_last {
                let (_, order) = record.kind();
                lists.free_locked(frame, order);
            }
            error(misuse)
        }
    }
}
