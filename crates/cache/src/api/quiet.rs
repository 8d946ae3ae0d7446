//! A quiet cache: only the program's own threads use it.
//!
//! Place. A program that examines a whole cache, to count its frames or to
//! [`verify`](Cache::verify) it, holds a [`Quiet`], and keeps its own threads from using the cache.
//!
//! Protocol. Between requests a flusher has no file, no page, and no frame except free ones in its
//! thread cache. So a thread that has stopped the requests ([`crate::files::flushers`]), and waited
//! for those in progress, finds no busy flusher. It then does the work that was left to flushers:
//! it closes the files whose last handle was dropped in a callback.
//!
//! Locks. `rounds` is acquired with no other lock held, and never in a callback: flushers may call
//! callbacks. They may call backends too, so a flusher that serves a request is recorded as one.

use std::fmt;

use pagewell_frame::refcount::RefScheme;

use crate::api::cache::Cache;
use crate::base::error::{Error, ErrorKind, Op};
use crate::dirty::hook::InHook;
use crate::files::flushers::Held;
use crate::files::serve::close_left;

/// Guard that stops the background work of a cache; returned by [`Cache::quiesce`].
#[must_use = "the drop restarts the threads of the cache"]
pub struct Quiet<'c, S: RefScheme> {
    cache: &'c Cache<S>,
    /// `None` only during the drop.
    held: Option<Held<'c>>,
}

impl<S: RefScheme> Cache<S> {
    /// Waits until the threads of the cache have finished their current work, closes the files that
    /// were left to them, and stops them until the guard is dropped. It waits for the calls of
    /// backends and callbacks in progress, without a limit.
    ///
    /// Call it before counting frames with [`stats`](Self::stats) or verifying the cache
    /// ([`verify`](Self::verify)): if the program's own threads do nothing either, nothing changes.
    /// A program that only closes files need not call it: when the last handle is dropped the file
    /// is closed, and its frames are free. Only files whose last handle was dropped in a callback
    /// ([`OpenOptions::before_write`](crate::OpenOptions::before_write)) are left to the threads of
    /// the cache.
    ///
    /// Until the drop nothing is written back in the background, so a writer reaches its file's
    /// quota of dirty frames sooner, and then writes the file back itself. A call of this function
    /// by another thread waits until the guard is dropped.
    ///
    /// # Errors
    ///
    /// - [`Deadlock`](ErrorKind::Deadlock) in a callback, which a thread of the cache may be
    ///   calling; if this thread has the guard of another call; and in a call of a
    ///   [`Backend`](pagewell_io::Backend) by a thread of the cache, or by this function.
    /// - [`Forked`](ErrorKind::Forked).
    pub fn quiesce(&self) -> Result<Quiet<'_, S>, Error> {
        let files = self.files();
        files.shared.home.check(Op::Quiesce)?;
        if InHook::is_so() || files.flushers.are_held_here() {
            return Err(Error::new(ErrorKind::Deadlock, Op::Quiesce));
        }
        let quiet = Quiet {
            cache: self,
            held: Some(files.flushers.hold()),
        };
        // Writers that wait for flushers have to continue without them.
        files.shared.pressure.changed.tell();
        close_left(files);
        Ok(quiet)
    }
}

impl<S: RefScheme> Drop for Quiet<'_, S> {
    fn drop(&mut self) {
        if !self.cache.files().shared.home.is_here() {
            // In a forked child another thread of the parent may have held the lock.
            std::mem::forget(self.held.take());
        }
    }
}

impl<S: RefScheme> fmt::Debug for Quiet<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Quiet").field(self.cache).finish()
    }
}
