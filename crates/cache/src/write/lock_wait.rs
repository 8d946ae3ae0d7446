//! Waiting for a page that is pinned to be changed ([`super::page_lock`]).
//!
//! A thread waits with no lock of the file held: the thread that has the guard may want any of them before it drops it. It does not
//! wait for a guard of its own, which would last for ever: that is an error. The state of a locked page has the number of the
//! guard's lock, and [`Groups`](crate::dirty::groups::Groups) knows whose that guard is. So only a thread that would sleep asks for
//! the owner, and it gets a certain answer: no other thread can make a guard this thread's, or end that.

#[cfg(not(loom))]
use std::task::Waker;

use pagewell_frame::FrameNr;
use pagewell_frame::refcount::RefScheme;
use pagewell_sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use pagewell_sync::parking::Left;

use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page::PageNr;
use crate::base::page_state::PageState;
use crate::base::slot::State;
use crate::dirty::writes::Writes;
use crate::mapping::record::Mapping;

/// The lock of a page, as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeenLock {
    /// Where the page was.
    pub(crate) frame: FrameNr,
    /// The number of the lock.
    pub(crate) holder: u64,
}

impl SeenLock {
    /// The lock of the page in `frame`, if `state`, which is its state, is locked.
    pub(crate) fn of(frame: FrameNr, state: PageState) -> Option<Self> {
        let holder = state.holder();
        state.is_locked().then_some(Self { frame, holder })
    }
}

/// Sleeps while `page` is where it was seen, and locked.
///
/// # Errors
///
/// [`Deadlock`](ErrorKind::Deadlock) if this thread has the guard.
pub(crate) fn wait_while_locked<S: RefScheme>(
    mapping: &Mapping<S>,
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

/// Leaves `waker` for when `page` is not where it was seen any more, or not locked; unless that is so.
///
/// # Errors
///
/// As of [`wait_while_locked`].
#[cfg(not(loom))]
pub(crate) fn leave_waker<S: RefScheme>(
    mapping: &Mapping<S>,
    writes: &Writes,
    (page, lock): (PageNr, SeenLock),
    waker: &Waker,
) -> Result<Option<Left>, Error> {
    check_not_ours(mapping, writes, page, lock)?;
    let word = PageState::word(mapping.pool().meta(lock.frame));
    let waits = &mapping.claims().waits;
    Ok(waits.leave_waker(word, waker, |state| is_locked(mapping, page, lock, state)))
}

/// Whether `page` is where it was seen, and locked; `state` is the word of its state.
fn is_locked<S: RefScheme>(
    mapping: &Mapping<S>,
    page: PageNr,
    lock: SeenLock,
    state: &AtomicU64,
) -> bool {
    let in_frame = || {
        let slot = mapping.index().look(page)?.slot;
        (slot.state() == State::Present(lock.frame)).then(|| slot.bits())
    };
    let before = in_frame();
    // ORDERING: Acquire; the thread that unlocks stores, and wakes. Acquire also keeps the second load of the slot after
    // this: if the slot is unchanged, the frame was the page's all the time, and its word meant this. Otherwise the frame
    // may be something else, or another page: nobody wakes us for that one, or its holder waits for us.
    let is_locked = PageState::from_bits(state.load(Ordering::Acquire)).is_locked();
    is_locked && before.is_some() && in_frame() == before
}

/// An error if this thread has the guard of `page`.
pub(crate) fn check_not_ours<S: RefScheme>(
    mapping: &Mapping<S>,
    writes: &Writes,
    page: PageNr,
    lock: SeenLock,
) -> Result<(), Error> {
    if writes.groups.is_of_this_thread(lock.holder) {
        return Err(mapping
            .error(ErrorKind::Deadlock, Op::Write)
            .with_page(page)
            .with_detail("which it has pinned to be changed"));
    }
    Ok(())
}

/// For a caller that has met `error` with a lock of the file held, and has none any more: sleeps while the page that was
/// [`Locked`](ErrorKind::Locked) is.
///
/// # Errors
///
/// `error`, if it is another one.
pub(crate) fn wait_after<S: RefScheme>(
    mapping: &Mapping<S>,
    writes: &Writes,
    error: Error,
) -> Result<(), Error> {
    let (ErrorKind::Locked, Some(page)) = (error.kind(), error.page()) else {
        return Err(error);
    };
    if let Some(seen) = mapping.index().look(page)
        && let State::Present(frame) = seen.slot.state()
    {
        // A hint: if the page is in another frame by now, or is not locked, the wait ends at once.
        let state = PageState::of(mapping.pool().meta(frame));
        if let Some(lock) = SeenLock::of(frame, state) {
            return wait_while_locked(mapping, writes, page, lock);
        }
    }
    Ok(())
}
