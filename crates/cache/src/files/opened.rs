//! Strong and weak references to an open file.
//!
//! A handle has a *strong reference* to its file ([`Opened`]). When the last one is dropped, the
//! file is closed: its pages and its index are freed, and its lock is released. The watcher,
//! flushers, in-flight fills, offloaded calls, threads that wait for clean pages, and evictions of
//! leaves have *weak references* ([`crate::mapping::visitor`]). The thread that drops the last
//! strong reference waits until no weak reference is left, so the drop of a weak one never closes a
//! file. Pins do not keep a file open.
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
//! Both counts are in one word ([`crate::mapping::users`]), so steps 1 and a are ordered. If step a
//! comes first, step 2 waits for step e, and the mapping, which is dropped afterwards, exists at
//! step b. If step 1 comes first and drops the last strong reference, every later step a fails. So
//! a thread with a weak reference tears no mapping down, and may hold claims and locks.
//!
//! If the file is opened again while a thread waits at step 2, another thread will close the file,
//! and the wait is over. The thread that opens the file wakes the waiting one, since step e wakes
//! no thread while the file has a strong reference.
//!
//! # Waits
//!
//! A thread with a weak reference may acquire the file's writeback lock, and call the backend and
//! the callback. The thread that drops the last handle of a file open for writing acquires that
//! lock to make everything durable. Step 2 also waits for in-flight fills and offloaded calls.
//!
//! In a codec, and in a callback if the file is open for writing, the drop waits for nothing, since
//! the thread may itself have a weak reference to the file. If the last strong reference is dropped
//! there, a flusher drops it later. If the last handle of a file open for writing is dropped there,
//! a flusher gets a strong reference of its own, and makes the file durable.
//!
//! A thread has a weak reference to one file at a time, with two exceptions: to a second file for a
//! few steps, while it evicts a leaf of that file; and in a callback or an offloaded call, while it
//! is throttled or waits for clean pages. In-flight fills have their own.
//!
//! Verified by `loom_close_vs_evict_leaf`, `loom_close_vs_sync`, `loom_reopen_vs_close_vs_visit`,
//! `loom_reopen_vs_who_waits_for_a_visitor`; `crates/pagewell/tests/files/closing.rs`. loom does
//! not see the count of the mapping's `Arc` (it is std's). That no weak reference can be acquired
//! between steps 2 and 3 is therefore tested only on the word.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use pagewell_io::engine::Target;
use pagewell_io::{Backend, FileId};

use crate::base::error::{Error, Op};
use crate::base::page::PageSize;
use crate::base::page_hooks::is_in_page_hook;
use crate::dirty::handles::{Handle, Handles};
use crate::dirty::hook::InHook;
#[cfg(any(test, loom))]
use crate::dirty::writes::Access;
use crate::dirty::writes::Writes;
use crate::files::registry::{Begun, Origin, Share};
use crate::files::same;
use crate::files::state::Files;
use crate::mapping::record::{How, Mapping};
use crate::mapping::shared::Keeper;
use crate::mapping::users::Users;
use crate::writeback::flush::Flusher;

#[derive(Debug)]
pub(crate) struct Opened {
    mapping: pagewell_sync::Arc<Mapping>,
}

impl Opened {
    pub(super) fn new(share: Share) -> Self {
        Self {
            mapping: share.into_mapping(),
        }
    }

    pub(crate) fn of_open(files: &Files, id: FileId) -> Option<Self> {
        files.registry.open(id).map(Self::new)
    }

    /// Returns a strong reference to the file of `backend`, whose name in errors is `path`, and
    /// whether it was already open. If so, drops `backend` and ignores page size and `how`. May
    /// evict pages. Fails as [`Mapping::new`], [`Target::new`] and [`same::check`] do.
    pub(crate) fn of_backend(
        files: &Arc<Files>,
        backend: Arc<dyn Backend>,
        path: PathBuf,
        page_size: PageSize,
        how: How,
    ) -> Result<(Self, Origin), Error> {
        let id = backend.id();
        let (given, called) = (Arc::clone(&backend), path.clone());
        let (share, origin) = files.registry.open_or_make(id, |number| {
            let keeper: Arc<dyn Keeper> = Arc::<Files>::clone(files);
            let shared = pagewell_sync::Arc::clone(&files.shared);
            let known_by = (id, number);
            Mapping::new((shared, keeper), backend, path, page_size, known_by, how)
        })?;
        let opened = Self::new(share);
        if origin == Origin::Open {
            opened
                .check_same(given)
                .map_err(|error| error.with_path(&called))?;
        }
        Ok((opened, origin))
    }

    /// Opens a file with the smallest page size, for a test or a model.
    #[cfg(any(test, loom))]
    pub(crate) fn simple(files: &Arc<Files>, backend: impl Backend, access: Access) -> Self {
        let (backend, path) = (Arc::new(backend), "file".into());
        let opened = Self::of_backend(files, backend, path, PageSize::SMALLEST, How::of(access));
        opened.expect("a small file").0
    }

    /// Checks that `backend`, which has this file's device and inode number, refers to this file.
    fn check_same(&self, backend: Arc<dyn Backend>) -> Result<(), Error> {
        let target = Target::new(backend).map_err(|error| Error::from_io(Op::Open, error))?;
        match target.descriptor() {
            Some(descriptor) if target.is_locked() => same::check_locked(self, descriptor),
            Some(descriptor) => same::check(self, descriptor),
            None => Ok(()),
        }
    }

    /// Begins to open the file `id`, which the caller then locks and registers. If the file is open
    /// already, fails with a reference to it: the caller checks the identity, and creates a handle.
    pub(crate) fn begin_to_open(files: &Files, id: FileId) -> Result<Begun<'_>, Self> {
        files.registry.begin_to_open(id).map_err(Self::new)
    }

    /// Returns the mapping, for a caller that keeps it without a strong reference.
    pub(crate) fn mapping(&self) -> &pagewell_sync::Arc<Mapping> {
        &self.mapping
    }

    /// Counts a clone of a handle, or an area.
    pub(crate) fn add_handle(&self, access: Handle) {
        if let Some(writes) = self.writes_if_any() {
            writes.add_handle(access);
        }
    }

    /// Whether the file is open for writing, and has no handle.
    pub(super) fn has_no_handle(&self) -> bool {
        self.writes_if_any()
            .is_some_and(|writes| writes.handles.is_empty())
    }

    fn close_later(&self) {
        Arc::clone(self.keeper()).take_share(self.number());
    }

    /// If `remove` removes the last handle of a file open for writing, makes everything durable
    /// ([`Flusher::save_at_the_end`]), except in a fork. In a callback or codec, a flusher does it.
    fn save_after_last(&self, remove: impl FnOnce(&Handles) -> bool) -> Result<(), Error> {
        let Some(writes) = self.writes_if_any() else {
            return Ok(());
        };
        if !remove(&writes.handles) || !self.shared.home.is_here() {
            return Ok(());
        }
        if InHook::is_so() {
            // The flusher needs a strong reference of its own: the owners of others may be past the
            // point at which they make the file durable. This thread's reference still exists, so
            // no thread waits at step 2, and the result of `add_share` is not needed.
            let _ = self.users.add_share();
            self.close_later();
            return Ok(());
        }
        Flusher(self).save_at_the_end()
    }

    /// Closes a handle. If it is the last one, first makes the file durable. After an error
    /// ([`Flusher::save_at_the_end`]), the handle stays counted. A writer counts until it is
    /// closed, so that no exclusive open succeeds before.
    pub(crate) fn close_handle(&self, access: Handle) -> Result<(), Error> {
        let saved = self.save_after_last(Handles::remove_keeping_writer);
        if let Some(writes) = self.writes_if_any() {
            match (&saved, access) {
                (Err(_), _) => writes.add_admitted_handle(),
                (Ok(()), Handle::Write) => writes.handles.remove_writer(),
                (Ok(()), Handle::Read) => {}
            }
        }
        saved
    }

    /// Drops a handle. Reports lost data on standard error, since a drop returns no error.
    pub(crate) fn drop_handle(&self, access: Handle) {
        if let Err(error) = self.save_after_last(|handles| handles.remove(access)) {
            self.tell_loss(&error);
        }
    }

    pub(super) fn save_or_tell(&self) {
        if let Err(error) = Flusher(self).save_at_the_end() {
            self.tell_loss(&error);
        }
    }

    fn tell_loss(&self, error: &Error) {
        use std::io::Write;
        if !Flusher(self).would_lose() || !self.has_no_handle() {
            return;
        }
        // Standard error may be closed.
        let _ = writeln!(
            std::io::stderr(),
            "pagewell: written data is lost: {error}; the file is closed, and its lock is released"
        );
    }
}

impl Deref for Opened {
    type Target = Mapping;

    #[inline(always)]
    fn deref(&self) -> &Mapping {
        &self.mapping
    }
}

impl Clone for Opened {
    fn clone(&self) -> Self {
        Self::new(Share::count(pagewell_sync::Arc::clone(&self.mapping)))
    }
}

impl Drop for Opened {
    /// Steps 1 and 2 of the protocol. The drop of the field is step 3.
    fn drop(&mut self) {
        let mapping = &*self.mapping;
        if !mapping.shared.home.is_here() {
            // Weak references of the parent are never dropped in its child, so nothing waits.
            mapping.users.remove_share();
            return;
        }
        let users = &mapping.users;
        // A codec may run on a thread with a weak reference even if the file is only read.
        if InHook::is_so() && (mapping.writes_if_any().is_some() || is_in_page_hook()) {
            if !users.remove_share_unless_last() {
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

/// Admission of a handle to be created. One that may write is counted as a writer until the drop of
/// this value, or of the handle.
#[derive(Debug)]
#[must_use]
pub(crate) struct Admitted<'m> {
    mapping: &'m Mapping,
    access: Handle,
}

impl<'m> Admitted<'m> {
    pub(crate) fn for_reading(mapping: &'m Mapping) -> Self {
        Self {
            mapping,
            access: Handle::Read,
        }
    }

    /// Returns `None` if the handle is excluded, or would exclude others that exist
    /// ([`Handles::admit_writer`]).
    pub(crate) fn for_writing(
        mapping: &'m Mapping,
        writes: &Writes,
        is_exclusive: bool,
    ) -> Option<Self> {
        let is_admitted = writes.handles.admit_writer(is_exclusive);
        // Created only if admitted: the drop of the value removes a writer.
        is_admitted.then(|| Self {
            mapping,
            access: Handle::Write,
        })
    }

    /// Counts the handle, which the caller creates next. Returns its access.
    pub(crate) fn into_counted(self) -> Handle {
        if let Some(writes) = self.mapping.writes_if_any() {
            writes.add_admitted_handle();
        }
        let access = self.access;
        std::mem::forget(self);
        access
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if let (Handle::Write, Some(writes)) = (self.access, self.mapping.writes_if_any()) {
            writes.handles.remove_writer();
        }
    }
}

#[cfg(test)]
mod tests;
