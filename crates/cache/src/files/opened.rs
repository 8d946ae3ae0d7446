//! Shares and visits: what keeps a file open, and what only looks at it.
//!
//! A handle has a *share* of its file ([`Opened`]). When the last share is dropped the file is closed: its pages and its index
//! are given back, its lock is free. Others look at files without keeping them open: the watcher, a flusher, a thread that waits
//! for pages to be made clean, and the eviction of a leaf. They *visit* the file ([`super::visit`]), and the thread that drops
//! the last share waits until all visitors have left. So a file is closed when its last handle has been dropped, and not later,
//! when a visitor happens to be done. Pins do not keep it open: one that borrows nothing ([`OwnedPageGuard`](crate::OwnedPageGuard)) keeps its frame,
//! and the memory that the frame is in.
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
//! A file without a share may still be kept by a thread that waits at 2. If it is opened again meanwhile it has a
//! share, and may get more visitors. The thread at 2 need not wait any more then: another one closes the file. Whoever opens the
//! file wakes it, since the visitor that it waits for leaves a file with a share, and wakes nobody.
//!
//! # Waits
//!
//! A visitor takes the writeback lock of the file that it visits, calls the storage, and calls the file's hook. The thread that
//! drops the last share has taken the same lock before, to make everything durable. So it waits here for nothing that it has not
//! waited for there.
//!
//! In a hook nothing is waited for: the hook may run in a visit, and would wait for that visit. So if the last share is dropped in
//! a hook, a flusher drops it later; if the last handle is dropped there, the flusher gets a share of its own, makes
//! the file durable, and drops it.
//!
//! A visitor visits one file at a time, or a second one for the few steps that the eviction of a leaf takes.
//!
//! Proved by `loom_close_vs_evict_leaf`, `loom_close_vs_sync`, `loom_reopen_vs_close_vs_visit`,
//! `loom_reopen_vs_who_waits_for_a_visitor`; `crates/pagewell/tests/files/closing.rs`. loom does not see
//! the mapping's own count (it is std's), so it does not try a visitor between 2 and 3: that none comes there follows from
//! the word alone, and is tested as that.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use pagewell_frame::refcount::RefScheme;
#[cfg(not(loom))]
use pagewell_io::engine::Target;
use pagewell_io::{Backend, FileId};

use crate::base::error::Error;
#[cfg(not(loom))]
use crate::base::error::Op;
use crate::base::page::PageSize;
use crate::base::page_hooks::is_in_page_hook;
use crate::dirty::hook::InHook;
use crate::dirty::writes::Writes;
use crate::files::registry::{Begin, Begun, Origin};
#[cfg(not(loom))]
use crate::files::same;
use crate::files::share::Share;
use crate::files::state::Files;
use crate::mapping::keeper::Keeper;
use crate::mapping::record::{How, Mapping};
use crate::mapping::users::Users;
use crate::writeback::flush::Flusher;

/// A share of an open file.
#[derive(Debug)]
pub(crate) struct Opened<S: RefScheme> {
    mapping: pagewell_sync::Arc<Mapping<S>>,
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

    /// A share of the file that `backend` holds, which is called `path` in errors; and whether it was open already. If it was,
    /// the backend is dropped, and the page size and `how` are those of the first opening. This may evict.
    ///
    /// # Errors
    ///
    /// As of [`Mapping::new`], and of [`same::check`].
    pub(crate) fn of_backend(
        files: &Arc<Files<S>>,
        backend: Arc<dyn Backend>,
        path: PathBuf,
        page_size: PageSize,
        how: How,
    ) -> Result<(Self, Origin), Error> {
        let id = backend.id();
        #[cfg(not(loom))]
        let (given, called) = (Arc::clone(&backend), path.clone());
        let (share, origin) = files.registry.open_or_make(id, |number| {
            let keeper: Arc<dyn Keeper> = Arc::<Files<S>>::clone(files);
            let shared = pagewell_sync::Arc::clone(&files.shared);
            let known_by = (id, number);
            Mapping::new((shared, keeper), backend, path, page_size, known_by, how)
        })?;
        let opened = Self::new(share);
        #[cfg(not(loom))]
        if origin == Origin::Open {
            opened
                .check_same(given)
                .map_err(|error| error.with_path(&called))?;
        }
        Ok((opened, origin))
    }

    /// Checks that `backend`, which has the device and inode number of this file, refers to this file.
    #[cfg(not(loom))]
    fn check_same(&self, backend: Arc<dyn Backend>) -> Result<(), Error> {
        let target = Target::new(backend).map_err(|error| Error::from_io(Op::Open, error))?;
        match target.descriptor() {
            Some(descriptor) => same::check(self, descriptor),
            None => Ok(()),
        }
    }

    /// A share of the file `id`, if it is open, or else the right to open it for writing. Waits for a thread that is just opening
    /// the file; if the file is just being closed, waits until its storage is closed.
    pub(crate) fn begin_to_open(files: &Files<S>, id: FileId) -> Opening<'_, S> {
        match files.registry.begin_to_open(id) {
            Begin::Already(share) => Opening::Already(Self::new(share)),
            Begin::Begun(begun) => Opening::Begun(begun),
        }
    }

    /// The mapping, for a caller that keeps it without a share.
    pub(crate) fn mapping(&self) -> &pagewell_sync::Arc<Mapping<S>> {
        &self.mapping
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        pagewell_sync::Arc::ptr_eq(&self.mapping, &other.mapping)
    }

    /// Gives a counted share to a flusher ([`Keeper::take_share`]).
    fn close_later(&self) {
        Arc::clone(self.keeper()).take_share(self.number());
    }

    /// Counts a handle no more, and if it was the last one makes everything durable: now, or in a hook, by a flusher. The hook's
    /// thread has the writeback lock of a file, maybe of this one.
    ///
    /// # Errors
    ///
    /// That of a sync that has failed for a while.
    fn let_handle_go(&self) -> Result<(), Error> {
        let Some(writes) = self.writes_if_any() else {
            return Ok(());
        };
        if !writes.remove_handle() || !self.shared().home.is_here() {
            return Ok(());
        }
        if InHook::is_so() {
            // The flusher gets a share of its own, even if others have one: these may be past the moment at which they
            // save, or have had no handle. Our own share is still there, so no thread waits for the last share to go.
            let _ = self.users().add_share();
            self.close_later();
            return Ok(());
        }
        Flusher(self).save_at_the_end()
    }

    /// A handle is closed: it counts no more, unless the file cannot be made durable though it is the last one.
    ///
    /// # Errors
    ///
    /// That of a sync that has failed for a while. The handle counts still.
    pub(crate) fn close_handle(&self) -> Result<(), Error> {
        self.let_handle_go().inspect_err(|_| {
            if let Some(writes) = self.writes_if_any() {
                writes.add_handle();
            }
        })
    }

    /// A handle is dropped: only the program's standard error is left to be told what is lost.
    pub(crate) fn drop_handle(&self) {
        if let Err(error) = self.let_handle_go() {
            self.tell_loss(&error);
        }
    }

    /// Makes everything durable for a flusher that closes the file, or tells what is lost.
    pub(super) fn save_or_tell(&self) {
        if let Err(error) = Flusher(self).save_at_the_end() {
            self.tell_loss(&error);
        }
    }

    fn tell_loss(&self, error: &Error) {
        use std::io::Write;
        if !self.writes_if_any().is_some_and(Writes::is_unhandled) {
            // The file was opened again meanwhile: that handle has what was written.
            return;
        }
        // There may be nobody to be told.
        let _ = writeln!(
            std::io::stderr(),
            "pagewell: written data is lost: {error}; the file is closed, and this process lets go of its lock"
        );
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
        Self::new(Share::count(pagewell_sync::Arc::clone(&self.mapping)))
    }
}

impl<S: RefScheme> Drop for Opened<S> {
    /// Steps 1 and 2 of the protocol; the drop of the field is step 3.
    fn drop(&mut self) {
        let mapping = &*self.mapping;
        if !mapping.shared().home.is_here() {
            // Visitors of the parent never leave in its child.
            return;
        }
        let users = mapping.users();
        // A file that is only read has visitors too, and hooks on its bytes may run in these.
        if InHook::is_so() && (mapping.writes_if_any().is_some() || is_in_page_hook()) {
            if !users.remove_share_unless_last() {
                // The thread gets our share.
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
    }
}

/// The next step of a caller that wants to open a file for writing.
#[derive(Debug)]
pub(crate) enum Opening<'f, S: RefScheme> {
    /// Nothing: it is open.
    Already(Opened<S>),
    /// To lock it, and to register it.
    Begun(Begun<'f, S>),
}

#[cfg(all(test, not(loom)))]
mod tests;
