//! Strong and weak references to an open file.
//!
//! A handle has a *strong reference* to its file ([`Opened`]). When the last one is dropped the
//! file is closed: its pages and its index are freed, and its lock is released. Other code accesses
//! files without keeping them open: the watcher, a flusher, a thread that waits for pages to be
//! cleaned, and the eviction of a leaf. Each has a *weak reference* ([`super::visit`]), and the
//! thread that drops the last strong reference waits until no weak one is left. So a file is closed
//! by the drop of its last strong reference, and not later, when a weak one happens to be dropped.
//! (After a drop in a callback a flusher does this; see Waits.) Pins do not keep it open: one that
//! borrows nothing ([`OwnedPageGuard`](crate::OwnedPageGuard)) keeps its frame, and the memory that
//! contains the frame.
//!
//! # Protocol
//!
//! ```text
//! thread that drops a strong reference     thread with a weak reference
//! 1 decrement the strong count             a increment the weak count, unless the
//! 2 was it the last one? then wait             strong count is 0
//!   until the weak count is 0              b upgrade the mapping (which exists)
//! 3 drop the mapping                       c access the file
//!                                          d drop the mapping
//!                                          e decrement the weak count;
//!                                              wake the waiting thread
//! ```
//!
//! Both counts are in one word ([`crate::mapping::users`]), so steps 1 and a are ordered. If a
//! comes first, step 2 waits for e, and the mapping exists at b, since it is dropped after step 2.
//! If step 1 comes first, and dropped the last strong reference, then a fails, and so does every
//! later one. So a thread with a weak reference is never the last owner of a mapping and tears
//! nothing down, and it may hold claims and locks.
//!
//! A file without a strong reference may still be kept by a thread that waits at step 2. If the
//! file is opened again in between, it has a strong reference, and may get more weak ones. The
//! thread at step 2 need not wait any more then: another one closes the file. The thread that opens
//! the file wakes it, since step e wakes no thread while the file has a strong reference.
//!
//! # Waits
//!
//! A thread with a weak reference acquires the file's writeback lock, and calls the backend and the
//! file's callback. The thread that drops the last strong reference has acquired the same lock
//! before, to make everything durable. So it waits here for nothing that it has not waited for
//! there.
//!
//! In a callback the drop waits for nothing: the callback may run on a thread with a weak
//! reference, and would wait for that reference. So if the last strong reference is dropped in a
//! callback, a flusher drops it later. If the last handle is dropped there, the flusher gets a
//! strong reference of its own, makes the file durable, and drops it.
//!
//! A thread has a weak reference to one file at a time, or briefly to a second one for the eviction
//! of a leaf.
//!
//! Verified by `loom_close_vs_evict_leaf`, `loom_close_vs_sync`, `loom_reopen_vs_close_vs_visit`,
//! `loom_reopen_vs_who_waits_for_a_visitor`; `crates/pagewell/tests/files/closing.rs`. loom does
//! not see the mapping's own count (it is std's), so it does not try a weak reference between steps
//! 2 and 3: that there is none follows from the word alone, and is tested as that.

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

#[derive(Debug)]
pub(crate) struct Opened<S: RefScheme> {
    mapping: pagewell_sync::Arc<Mapping<S>>,
}

impl<S: RefScheme> Opened<S> {
    /// Takes over the counted reference; the drop releases it.
    pub(super) fn new(share: Share<S>) -> Self {
        Self {
            mapping: share.into_mapping(),
        }
    }

    /// Returns a strong reference to the file `id`, if it is open.
    pub(crate) fn of_open(files: &Files<S>, id: FileId) -> Option<Self> {
        files.registry.open(id).map(Self::new)
    }

    /// Returns a strong reference to the file of `backend`, which errors call `path`, and whether
    /// the file was open already. If it was, the backend is dropped, and the page size and `how`
    /// are those of the first opening. May evict pages.
    ///
    /// # Errors
    ///
    /// Those of [`Mapping::new`], and of [`same::check`].
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

    /// Checks that `backend`, which has the device and inode number of this file, refers to this
    /// file.
    #[cfg(not(loom))]
    fn check_same(&self, backend: Arc<dyn Backend>) -> Result<(), Error> {
        let target = Target::new(backend).map_err(|error| Error::from_io(Op::Open, error))?;
        match target.descriptor() {
            Some(descriptor) => same::check(self, descriptor),
            None => Ok(()),
        }
    }

    /// Returns a strong reference to the file `id` if it is open, or else the right to open it for
    /// writing. Waits for a thread that is opening the file; if the file is being closed, waits
    /// until its backend is closed.
    pub(crate) fn begin_to_open(files: &Files<S>, id: FileId) -> Opening<'_, S> {
        match files.registry.begin_to_open(id) {
            Begin::Already(share) => Opening::Already(Self::new(share)),
            Begin::Begun(begun) => Opening::Begun(begun),
        }
    }

    /// Returns the mapping, for a caller that keeps it without a strong reference.
    pub(crate) fn mapping(&self) -> &pagewell_sync::Arc<Mapping<S>> {
        &self.mapping
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        pagewell_sync::Arc::ptr_eq(&self.mapping, &other.mapping)
    }

    /// Passes a counted reference to a flusher ([`Keeper::take_share`]).
    fn close_later(&self) {
        Arc::clone(self.keeper()).take_share(self.number());
    }

    /// Removes a handle from the count. If it was the last one, makes everything durable: now, or
    /// in a callback, by a flusher. The callback's thread holds the writeback lock of a file,
    /// possibly of this one.
    ///
    /// # Errors
    ///
    /// That of a sync that has failed for some time.
    fn let_handle_go(&self) -> Result<(), Error> {
        let Some(writes) = self.writes_if_any() else {
            return Ok(());
        };
        if !writes.remove_handle() || !self.shared().home.is_here() {
            return Ok(());
        }
        if InHook::is_so() {
            // The flusher gets a strong reference of its own even if there are others: their owners
            // may be past the point at which they make the file durable, or have had no handle.
            // This thread's reference still exists, so no thread waits for the last one.
            let _ = self.users().add_share();
            self.close_later();
            return Ok(());
        }
        Flusher(self).save_at_the_end()
    }

    /// Closes a handle. It stays counted if it is the last one and the file cannot be made durable.
    ///
    /// # Errors
    ///
    /// That of a sync that has failed for some time. The handle stays counted.
    pub(crate) fn close_handle(&self) -> Result<(), Error> {
        self.let_handle_go().inspect_err(|_| {
            if let Some(writes) = self.writes_if_any() {
                writes.add_handle();
            }
        })
    }

    /// Drops a handle. A loss can only be reported to the program's standard error.
    pub(crate) fn drop_handle(&self) {
        if let Err(error) = self.let_handle_go() {
            self.tell_loss(&error);
        }
    }

    /// Makes everything durable for a flusher that closes the file, or reports the loss.
    pub(super) fn save_or_tell(&self) {
        if let Err(error) = Flusher(self).save_at_the_end() {
            self.tell_loss(&error);
        }
    }

    fn tell_loss(&self, error: &Error) {
        use std::io::Write;
        if !Flusher(self).would_lose() {
            return;
        }
        if !self.writes_if_any().is_some_and(Writes::is_unhandled) {
            // The file was opened again in between: the new handle has the written data.
            return;
        }
        // Standard error may be closed.
        let _ = writeln!(
            std::io::stderr(),
            "pagewell: written data is lost: {error}; the file is closed, and its lock is released"
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
            // Weak references of the parent are never dropped in its child.
            return;
        }
        let users = mapping.users();
        // A file that is only read has weak references too, and its codec may run with one.
        if InHook::is_so() && (mapping.writes_if_any().is_some() || is_in_page_hook()) {
            if !users.remove_share_unless_last() {
                // The flusher gets this reference.
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

/// Next step of a caller that opens a file for writing.
#[derive(Debug)]
pub(crate) enum Opening<'f, S: RefScheme> {
    /// None: the file is open.
    Already(Opened<S>),
    /// Lock the file and register it.
    Begun(Begun<'f, S>),
}

#[cfg(all(test, not(loom)))]
mod tests;
