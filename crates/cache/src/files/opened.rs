//! Shares and visits: what keeps a file open, and what only looks at it.
//!
//! A handle has a *share* of its file ([`Opened`]). When the last share is dropped the file is closed: its pages and its index are
//! given back, its lock is free. Four others look at files without keeping them open: the thread that writes back, a throttled
//! writer, a request for frames on one node, and the eviction of a leaf. They *visit* the file ([`super::visit`]), and the thread
//! that drops the last share waits until all visitors have left. So a file is closed when its last handle has been dropped, and
//! not later, when a visitor happens to be done. Only a pin that owns a share ([`OwnedPageGuard`](crate::OwnedPageGuard)) keeps
//! it open longer. Such a pin is no handle; the last of them closes the file.
//!
//! # Protocol
//!
//! ```text
//! a thread that drops a share              a visitor
//! 1 one share less                         a one visitor more, unless there is no share
//! 2 was it the last? then wait until       b get hold of the mapping (it is there)
//!   there is no visitor                    c look
//! 3 let go of the mapping                  d let go of the mapping
//!                                          e one visitor less; wake the waiting thread
//! ```
//!
//! Both numbers are in one word ([`crate::mapping::users`]), so steps 1 and a are ordered. If a comes first, 2 waits for e, and the
//! mapping is there at b, since it is let go of after 2. If 1 comes first, and it was the last share, a fails, and so does every
//! later visit. So a visitor is never the last holder of a mapping, and tears nothing down; it may hold claims and locks.
//!
//! A file without a share may still be kept by pins, or by a thread that waits at 2. If it is opened again meanwhile it has a share,
//! and may get more visitors. The thread at 2 need not wait any more then: another one closes the file. Whoever opens the file
//! wakes it, since the visitor that it waits for leaves a file with a share, and wakes nobody.
//!
//! # Waits
//!
//! A visitor takes the writeback lock of the file that it visits, calls the storage, and calls the file's hook. The thread that
//! drops the last share has taken the same lock before, to make everything durable. So it waits here for nothing that it has not
//! waited for there.
//!
//! In a hook nothing is waited for: the hook may run in a visit, and would wait for that visit. So if the last share is dropped in
//! a hook, the thread of the cache drops it later; if the last handle is dropped there, that thread gets a share of its own, makes
//! the file durable, and drops it.
//!
//! A visitor visits one file at a time, or a second one for the few steps that the eviction of a leaf takes.
//!
//! Proved by `loom_close_vs_evict_leaf`, `loom_close_vs_sync`, `loom_reopen_vs_close_vs_visit`,
//! `loom_reopen_vs_who_waits_for_a_visitor`, `loom_give_back_vs_evict`; `crates/pagewell/tests/closing.rs`. loom does not see
//! the mapping's own count (it is std's), so it does not try a visitor between 2 and 3: that none comes there follows from
//! the word alone, and is tested as that.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use pagewell_frame::refcount::RefScheme;
use pagewell_io::{Backend, FileId};

use crate::base::error::Error;
use crate::base::page::PageSize;
use crate::dirty::hook::InHook;
use crate::dirty::options::Access;
use crate::files::registry::{Begin, Begun, Origin};
use crate::files::share::Share;
use crate::files::state::Files;
use crate::mapping::keeper::Keeper;
use crate::mapping::record::Mapping;
use crate::mapping::remove::Remover;
use crate::mapping::users::Users;
use crate::writeback::flush::Flusher;

/// A share of an open file.
#[derive(Debug)]
pub(crate) struct Opened<S: RefScheme> {
    mapping: Arc<Mapping<S>>,
}

impl<S: RefScheme> Opened<S> {
    /// The share, which is dropped with this.
    pub(super) fn new(share: Share<S>) -> Self {
        Self {
            mapping: share.into_mapping(),
        }
    }

    /// A share of the file `id`, if it is open.
    pub(crate) fn of_open(files: &Files<S>, id: FileId) -> Option<Self> {
        files.registry.open(id).map(Self::new)
    }

    /// A share of the file that `backend` holds, which is called `path` in errors; and whether it was open already. Then the
    /// backend is dropped, and the page size and `access` are those of the first opening. It may evict.
    ///
    /// # Errors
    ///
    /// As of [`Mapping::new`].
    pub(crate) fn of_backend(
        files: &Arc<Files<S>>,
        backend: Box<dyn Backend>,
        path: PathBuf,
        page_size: PageSize,
        access: Access,
    ) -> Result<(Self, Origin), Error> {
        let id = backend.id();
        let (share, origin) = files.registry.open_or_make(id, |number| {
            let keeper: Arc<dyn Keeper> = Arc::<Files<S>>::clone(files);
            let shared = Arc::clone(&files.shared);
            let known_by = (id, number);
            Mapping::new((shared, keeper), backend, path, page_size, known_by, access)
        })?;
        Ok((Self::new(share), origin))
    }

    /// A share of the file `id`, if it is open, or else the right to open it for writing. Waits for who is just opening it,
    /// and until its storage is closed if it is just being closed.
    pub(crate) fn begin_to_open(files: &Files<S>, id: FileId) -> Opening<'_, S> {
        match files.registry.begin_to_open(id) {
            Begin::Already(share) => Opening::Already(Self::new(share)),
            Begin::Begun(begun) => Opening::Begun(begun),
        }
    }

    /// The mapping, for who keeps it without a share.
    pub(crate) fn mapping(&self) -> &Arc<Mapping<S>> {
        &self.mapping
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.mapping, &other.mapping)
    }

    /// Gives a share that is counted to the thread of the cache ([`Keeper::take_share`]).
    fn close_later(&self) {
        Arc::clone(self.keeper()).take_share(self.number());
    }

    /// Counts a handle no more, and makes everything durable if it was the last one: now, or if this is in a hook, by the
    /// thread of the cache. The hook's thread has the writeback lock of a file, maybe of this one.
    pub(crate) fn remove_handle(&self) {
        let Some(writes) = self.writes_if_any() else {
            return;
        };
        if !writes.remove_handle() || !self.shared().home.is_here() {
            return;
        }
        if InHook::is_so() {
            // With a share of its own, whoever else has one: they may be past the moment at which they save, or have had
            // no handle.
            // There is ours, so nobody waits for one.
            let _ = self.users().add_share();
            self.close_later();
        } else {
            Flusher(self).save_at_the_end();
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
        Self::new(Share::count(Arc::clone(&self.mapping)))
    }
}

impl<S: RefScheme> Drop for Opened<S> {
    /// Steps 1 and 2 of the protocol; step 3 is what follows.
    fn drop(&mut self) {
        let mapping = &*self.mapping;
        if !mapping.shared().home.is_here() {
            // Visitors of the parent never leave in its child.
            return;
        }
        let users = mapping.users();
        if InHook::is_so() && mapping.writes_if_any().is_some() {
            if !users.remove_share_unless_last() {
                // Our share goes along.
                self.close_later();
            }
            return;
        }
        if !users.remove_share() {
            return;
        }
        if users.is_visited_only() {
            let waits = &mapping.claims().waits;
            waits.wait_while(&**users, Users::is_visited_only);
        }
        if Arc::strong_count(&self.mapping) > 1 {
            // Pins keep it, and need their own frames only; or it has been opened again.
            Remover(mapping).give_back();
        }
    }
}

/// What there is to do for who wants to open a file for writing.
#[derive(Debug)]
pub(crate) enum Opening<'f, S: RefScheme> {
    /// Nothing: it is open.
    Already(Opened<S>),
    /// To lock it, and to register it.
    Begun(Begun<'f, S>),
}

#[cfg(all(test, not(loom)))]
mod tests;
