//! Who keeps a file open, and who only looks at it.
//!
//! What. Handles *share* an open file ([`Opened`]): when the last of them goes, the file is closed, and its pages and its
//! index are given back. Others have to look at files that they do not keep: the thread that writes back, writers that are
//! throttled, who makes room where a page of a space is to be, the eviction of a leaf. Those *visit* it ([`Visit`]), and
//! who drops the last share waits for them. So when all handles have been dropped the file is closed, its lock is free, and
//! its frames are: not a moment later, when somebody who happened to look at it is done. What keeps it longer are pins that
//! own a share of it ([`OwnedPageGuard`](crate::OwnedPageGuard)); they are no handles, and the last one closes it.
//!
//! # Protocol
//!
//! ```text
//! who drops a share                        visitor
//! 1 one share less                         a one visitor more, unless there is no share
//! 2 was it the last? then wait until       b get hold of the mapping (it is there)
//!   there is no visitor                    c look
//! 3 let go of the mapping                  d let go of the mapping
//!                                          e one visitor less; wake who waits
//! ```
//!
//! Both numbers are in one word, so 1 and a are in an order. If a comes first, 2 waits for e, and the mapping is there at b:
//! whoever drops the last share lets go of it after that. If 1 comes first, and it was the last share, nobody visits the
//! file any more. So a visitor is never the last who has the mapping, and tears nothing down; it may hold claims and locks.
//!
//! A file that has no share may still have pins, or be kept by who waits at 2, and be opened again: it has a share then,
//! and may get more visitors. Who waits at 2 goes on, since somebody else closes the file, and is woken by who opens it: the
//! visitor that it has waited for leaves a file that has a share, and wakes nobody.
//!
//! # Who waits for whom
//!
//! A visitor takes the writeback lock of the file that it visits, asks its storage, and calls its hook. Who drops the
//! last share has taken that lock before, to make everything durable: so it waits here for nothing that it has not waited
//! for there. But in a hook nothing is waited for, or a visitor whose visit calls the file's hook, which lets the last share
//! go, would wait for itself: there the thread of the cache is given the last share to drop, and one more if it was the
//! last handle that went, since that thread makes the file durable then.
//! A visitor visits one file at a time, or a second one for the few steps that the eviction of a leaf takes.
//!
//! Proved by `loom_close_vs_evict_leaf`, `loom_close_vs_sync`, `loom_reopen_vs_close_vs_visit`,
//! `loom_reopen_vs_who_waits_for_a_visitor`, `loom_give_back_vs_evict`; `crates/pagewell/tests/closing.rs`. loom does not see
//! the mapping's own count (it is std's), so it does not try a visitor between 2 and 3: that none comes there is a matter of
//! the word alone, and tested as one.

use std::ops::Deref;
use std::sync::Arc;

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::atomic::{AtomicU64, Ordering};

use crate::mapping::Mapping;
use crate::shared::Shared;
use crate::writeback::{InHook, close_later};

/// One visitor, in the word; shares are counted below it.
const VISITOR: u64 = 1 << 32;

/// How many shares and visitors a file has. It outlives the mapping, whose visitors leave after they have let go of it.
#[derive(Debug, Default)]
pub(crate) struct Users(AtomicU64);

impl Users {
    /// Counts a share; whether somebody may be waiting at 2 who need not any more.
    #[must_use]
    fn add_share(&self) -> bool {
        // ORDERING: Relaxed; whoever makes a share has the mapping, and nothing is published.
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        before != 0 && before.is_multiple_of(VISITOR)
    }

    /// Whether there is a share: a hint, unless the caller has one.
    pub(crate) fn has_share(&self) -> bool {
        // ORDERING: Relaxed; nothing follows from it but that a look at what is given back was in vain.
        !self.0.load(Ordering::Relaxed).is_multiple_of(VISITOR)
    }

    /// Counts a share no more; whether it was the last one.
    fn remove_share(&self) -> bool {
        // ORDERING: Release; what was done with the share is done before the file is closed. Who closes it is ordered
        // by the mapping's own count.
        let before = self.0.fetch_sub(1, Ordering::Release);
        before % VISITOR == 1
    }

    /// Counts a share no more, unless it is the last one; whether it was not.
    fn remove_share_unless_last(&self) -> bool {
        let remove = |users: u64| (users % VISITOR != 1).then(|| users - 1);
        // The loop ends with the first exchange that no other one has come before.
        // ORDERING: Release, as in `remove_share`.
        self.0
            .fetch_update(Ordering::Release, Ordering::Relaxed, remove)
            .is_ok()
    }

    /// Counts a visitor, unless there is no share.
    fn enter(&self) -> bool {
        let enter = |users: u64| (!users.is_multiple_of(VISITOR)).then(|| users + VISITOR);
        // The loop ends with the first exchange that no other one has come before.
        // ORDERING: Relaxed; by atomicity, who removes the last share later sees us counted. So the mapping's count is
        // not zero when the visitor takes part in it: that happens before we leave, which is acquired before the last
        // share lets go.
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, enter)
            .is_ok()
    }

    /// Counts a visitor no more; whether somebody may be waiting for that.
    fn leave(&self) -> bool {
        // ORDERING: Release; pairs with the acquire in `is_visited_only`: the visitor has let go of the mapping.
        let before = self.0.fetch_sub(VISITOR, Ordering::Release);
        before == VISITOR
    }

    /// Whether there are visitors, and no share.
    fn is_visited_only(&self) -> bool {
        // ORDERING: Acquire; pairs with the release in `leave`.
        let users = self.0.load(Ordering::Acquire);
        users != 0 && users.is_multiple_of(VISITOR)
    }
}

/// A share of an open file.
#[derive(Debug)]
pub(crate) struct Opened<S: RefScheme> {
    mapping: Arc<Mapping<S>>,
}

impl<S: RefScheme> Opened<S> {
    pub(crate) fn new(mapping: Arc<Mapping<S>>) -> Self {
        let users = mapping.users();
        if users.add_share() {
            mapping.shared().waits.wake(&**users);
        }
        Self { mapping }
    }

    /// The mapping, for who keeps it without a share.
    pub(crate) fn mapping(&self) -> &Arc<Mapping<S>> {
        &self.mapping
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.mapping, &other.mapping)
    }

    /// Counts a handle no more, and makes everything durable if it was the last one: now, or if this is in a hook, by the
    /// thread of the cache. The hook's thread has the writeback lock of a file, maybe of this one.
    pub(crate) fn remove_handle(&self) {
        let Some(writes) = self.writes_if_any() else {
            return;
        };
        if !writes.remove_handle() || !self.shared().is_home() {
            return;
        }
        if InHook::is_so() {
            // With a share of its own, whoever else has one: they may be past the moment at which they save, or have had
            // no handle.
            close_later(self.clone());
        } else {
            self.save_at_the_end();
        }
    }
}

impl<S: RefScheme> Deref for Opened<S> {
    type Target = Mapping<S>;

    #[inline(always)]
    fn deref(&self) -> &Mapping<S> {
        &self.mapping
    }
}

impl<S: RefScheme> Clone for Opened<S> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.mapping))
    }
}

impl<S: RefScheme> Drop for Opened<S> {
    /// Steps 1 and 2 of the protocol; step 3 is what follows.
    fn drop(&mut self) {
        let mapping = &*self.mapping;
        if !mapping.shared().is_home() {
            // Visitors of the parent never leave in its child.
            return;
        }
        let users = mapping.users();
        if InHook::is_so() && mapping.writes_if_any().is_some() {
            if !users.remove_share_unless_last() {
                // Our share goes along.
                close_later(Self {
                    mapping: Arc::clone(&self.mapping),
                });
            }
            return;
        }
        if !users.remove_share() {
            return;
        }
        if users.is_visited_only() {
            let waits = &mapping.shared().waits;
            waits.wait_while(&**users, Users::is_visited_only);
        }
        if Arc::strong_count(&self.mapping) > 1 {
            // Pins keep it, and need their own frames only; or it has been opened again.
            mapping.give_back();
        }
    }
}

/// A look at an open file by who does not keep it open.
#[derive(Debug)]
pub(crate) struct Visit<'s, S: RefScheme> {
    // Dropped first.
    mapping: Arc<Mapping<S>>,
    _leaving: Leaving<'s, S>,
}

/// A visitor who is counted.
#[derive(Debug)]
struct Leaving<'s, S: RefScheme> {
    shared: &'s Shared<S>,
    users: Arc<Users>,
}

impl<S: RefScheme> Drop for Leaving<'_, S> {
    fn drop(&mut self) {
        if self.users.leave() {
            self.shared.waits.wake(&*self.users);
        }
    }
}

impl<S: RefScheme> Deref for Visit<'_, S> {
    type Target = Mapping<S>;

    fn deref(&self) -> &Mapping<S> {
        &self.mapping
    }
}

impl<S: RefScheme> Shared<S> {
    /// Visits the open file with this number, if it has a share. Claims and locks may be held, but not the registry's.
    pub(crate) fn visit(&self, number: u64) -> Option<Visit<'_, S>> {
        let (mapping, users) = self.registered(number)?;
        if !users.enter() {
            return None;
        }
        let leaving = Leaving {
            shared: self,
            users,
        };
        Some(Visit {
            mapping: mapping.upgrade()?,
            _leaving: leaving,
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
