//! A quiet cache: only the program's own threads use it.
//!
//! Place. A program that looks at a cache as a whole, to count its frames or to [`verify`](Cache::verify) it, holds a
//! [`Quiet`] meanwhile, and keeps its own threads from using the cache.
//!
//! Protocol. Between calls a flusher has no file, no page, and no frame but those in its front cache, which are free. So a thread
//! that has stopped the calls ([`crate::files::flushers`]), and waited for those under way, finds none at work. It then does
//! the work that was left to them: it closes the files whose last handle went in a hook.
//!
//! Locks. `rounds` is taken with no other lock held, and never in a hook: hooks may be called by flushers. A backend may be
//! called by them too, so a flusher that is at work is known as one.

use std::fmt;

use pagewell_frame::refcount::RefScheme;

use crate::api::cache::Cache;
use crate::base::error::{Error, ErrorKind, Op};
use crate::dirty::hook::InHook;
use crate::files::flushers::Held;
use crate::files::serve::close_left;

/// As long as this exists, a cache does nothing in the background; from [`Cache::quiesce`].
#[must_use = "the threads of the cache go on when this is dropped"]
pub struct Quiet<'c, S: RefScheme> {
    cache: &'c Cache<S>,
    /// None only while this is dropped.
    held: Option<Held<'c>>,
}

impl<S: RefScheme> Cache<S> {
    /// Waits until the threads of the cache have finished their present work, closes the files that were left to them, and keeps
    /// them from beginning anything new until the answer is dropped. It waits as long as the calls of storages and hooks take
    /// that are under way.
    ///
    /// Call it before counting frames with [`stats`](Self::stats) or verifying the cache ([`verify`](Self::verify)): if the
    /// program's own threads do nothing either, nothing changes. A program that only closes files need not call it: when the
    /// last handle is dropped the file is closed, and its frames are free. Only files whose last handle was dropped in a hook
    /// ([`OpenOptions::before_write`](crate::OpenOptions::before_write)) are left to the threads of the cache.
    ///
    /// Nothing is written back in the background meanwhile, so a writer reaches its file's share of dirty frames sooner, and then
    /// writes the file back itself. A call of another thread waits until the answer is dropped.
    ///
    /// # Errors
    ///
    /// [`Deadlock`](ErrorKind::Deadlock) in a hook, which a thread of the cache may be calling; if this thread has the
    /// answer of another call; and in a call of a [`Backend`](pagewell_io::Backend) by a thread of the cache, or by
    /// this call. [`Forked`](ErrorKind::Forked).
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
        // Writers that wait for flushers have to do without them.
        files.shared.pressure.changed.tell();
        close_left(files);
        Ok(quiet)
    }
}

impl<S: RefScheme> Drop for Quiet<'_, S> {
    fn drop(&mut self) {
        if !self.cache.files().shared.home.is_here() {
            // In a child, another thread of the parent may have had the lock.
            std::mem::forget(self.held.take());
        }
    }
}

impl<S: RefScheme> fmt::Debug for Quiet<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Quiet").field(self.cache).finish()
    }
}
