//! Who keeps a file open, and who only looks at it.
//!
//! What. Handles *share* an open file ([`Opened`]): when the last of them goes, the file is closed, and its pages and its
//! index are given back. Others have to look at files that they do not keep: the thread that writes back, writers that are
//! throttled, who makes room where a page of a space is to be, the eviction of a leaf. Those *visit* it ([`super::visit`]), and
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
use std::path::PathBuf;
use std::sync::Arc;

use pagewell_frame::refcount::RefScheme;
use pagewell_io::{Backend, FileId};
use pagewell_sync::lock;

use crate::base::error::Error;
use crate::base::page::PageSize;
use crate::dirty::hook::InHook;
use crate::dirty::options::Access;
use crate::files::registry::{Begin, Begun, Origin};
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
    files: Arc<Files<S>>,
}

impl<S: RefScheme> Opened<S> {
    /// A share more of a file that is one of `files`.
    fn new(files: &Arc<Files<S>>, mapping: Arc<Mapping<S>>) -> Self {
        let users = mapping.users();
        if users.add_share() {
            mapping.claims().waits.wake(&**users);
        }
        Self::of_counted(files, mapping)
    }

    /// A share that is counted already.
    pub(super) fn of_counted(files: &Arc<Files<S>>, mapping: Arc<Mapping<S>>) -> Self {
        let files = Arc::clone(files);
        Self { mapping, files }
    }

    /// A share of the file `id`, if it is open.
    pub(crate) fn of_open(files: &Arc<Files<S>>, id: FileId) -> Option<Self> {
        let open = files.registry.open(id)?;
        Some(Self::new(files, open))
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
        let (mapping, origin) = files.registry.open_or_make(id, |number| {
            let keeper: Arc<dyn Keeper> = Arc::<Files<S>>::clone(files);
            let shared = Arc::clone(&files.shared);
            let known_by = (id, number);
            Mapping::new((shared, keeper), backend, path, page_size, known_by, access)
        })?;
        Ok((Self::new(files, mapping), origin))
    }

    /// A share of the file `id`, if it is open, or else the right to open it for writing. Waits for who is just opening it,
    /// and until its storage is closed if it is just being closed.
    pub(crate) fn begin_to_open(files: &Arc<Files<S>>, id: FileId) -> Opening<'_, S> {
        match files.registry.begin_to_open(id) {
            Begin::Already(open) => Opening::Already(Self::new(files, open)),
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

    /// Has the thread of the cache drop a share of this file, and make the file durable before if no handle is left. Until it did the
    /// share keeps the cache, so the thread does not end before.
    ///
    /// `share` is counted, and the thread's from now on.
    fn close_later(&self, share: Arc<Mapping<S>>) {
        let files = &self.files;
        lock(&files.left).push(share);
        // In a model there is no thread. If none can be started now, the next one that is finds the file.
        #[cfg(not(loom))]
        let _ = files.background.start(files);
        files.background.wake();
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
            let share = Arc::clone(&self.mapping);
            let _ = share.users().add_share();
            self.close_later(share);
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
        Self::new(&self.files, Arc::clone(&self.mapping))
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
                self.close_later(Arc::clone(&self.mapping));
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
