//! Waits for a page that is pinned for writing ([`super::pin_mut`]).
//!
//! Except in a callback, a waiting thread holds no lock of the file: the guard's owner may need it.
//! A wait for a guard of the same thread fails with [`Deadlock`](ErrorKind::Deadlock). A detached
//! guard has no owner: a thread that has one and waits for its page sleeps forever.
//!
//! The state of a locked page has the number of the guard's lock, which
//! [`Groups`](crate::dirty::hook::Groups) maps to the owner thread. Only a thread that would
//! sleep queries the owner. No other thread can change whether this thread is the owner.

use std::task::Waker;

use pagewell_frame::FrameNr;
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::parking::Left;

use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page::PageNr;
use crate::base::page_state::PageState;
use crate::base::slot::State;
use crate::dirty::writes::Writes;
use crate::mapping::record::Mapping;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeenLock {
    pub(crate) frame: FrameNr,
    pub(crate) holder: u64,
}

impl SeenLock {
    pub(crate) fn of(frame: FrameNr, state: PageState) -> Option<Self> {
        let holder = state.holder();
        state.is_locked().then_some(Self { frame, holder })
    }
}

/// Sleeps while `page` is in the frame of `lock` and locked. The caller holds no claim and, outside
/// a callback of the file, no lock of the file. Fails with [`Deadlock`](ErrorKind::Deadlock) if
/// this thread owns the guard.
pub(crate) fn wait_while_locked(
    mapping: &Mapping,
    writes: &Writes,
    page: PageNr,
    lock: SeenLock,
) -> Result<(), Error> {
    check_not_ours(mapping, writes, page, lock)?;
    let word = PageState::word(mapping.pool().meta(lock.frame));
    let waits = &mapping.claims().waits;
    waits.wait_while(word, |state| is_locked(mapping, page, lock, state));
    Ok(())
}

/// As [`wait_while_locked`], but stores `waker` instead of sleeping. If the wait is over, stores
/// nothing and returns `None`.
pub(crate) fn leave_waker(
    mapping: &Mapping,
    writes: &Writes,
    (page, lock): (PageNr, SeenLock),
    waker: &Waker,
) -> Result<Option<Left>, Error> {
    check_not_ours(mapping, writes, page, lock)?;
    let word = PageState::word(mapping.pool().meta(lock.frame));
    let waits = &mapping.claims().waits;
    Ok(waits.leave_waker(word, waker, |state| is_locked(mapping, page, lock, state)))
}

/// `state` is the state word of the frame of `lock`.
fn is_locked(mapping: &Mapping, page: PageNr, lock: SeenLock, state: &AtomicU64) -> bool {
    let in_frame = || {
        let slot = mapping.index().look(page)?.slot;
        (slot.state() == State::Present(lock.frame)).then(|| slot.bits())
    };
    let before = in_frame();
    // ORDERING: Acquire; orders the second load of the slot after this load. If the slot is
    // unchanged, the word was the page's state. Otherwise it may be of another page, whose guard's
    // owner might be waiting for this thread.
    let is_locked = PageState::from_bits(state.load(Ordering::Acquire)).is_locked();
    is_locked && before.is_some() && in_frame() == before
}

pub(crate) fn check_not_ours(
    mapping: &Mapping,
    writes: &Writes,
    page: PageNr,
    lock: SeenLock,
) -> Result<(), Error> {
    if writes.groups.is_of_this_thread(lock.holder) {
        return Err(mapping
            .error(ErrorKind::Deadlock, Op::Write)
            .with_page(page)
            .with_detail("the calling thread has it pinned for writing"));
    }
    Ok(())
}

/// Sleeps while the page of a [`Locked`](ErrorKind::Locked) error is locked. Returns `error` itself
/// if it is of another kind or names no page, and [`Deadlock`](ErrorKind::Deadlock) if this thread
/// owns the guard. The caller has released all locks of the file.
pub(crate) fn wait_after(mapping: &Mapping, writes: &Writes, error: Error) -> Result<(), Error> {
    let (ErrorKind::Locked, Some(page)) = (error.kind(), error.page()) else {
        return Err(error);
    };
    if let Some(seen) = mapping.index().look(page)
        && let State::Present(frame) = seen.slot.state()
    {
        // The state is a hint: the wait ends at once if the page has moved or is not locked.
        let state = PageState::of(mapping.pool().meta(frame));
        if let Some(lock) = SeenLock::of(frame, state) {
            return wait_while_locked(mapping, writes, page, lock);
        }
    }
    Ok(())
}
