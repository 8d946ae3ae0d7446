//! Quiet cache: a cache without background work of flushers.
//!
//! Place. A program that examines a whole cache, to count its frames or to
//! [`verify`](Cache::verify) it, holds a [`Quiet`], and keeps its own threads from using the cache.
//!
//! Protocol. Between requests a flusher holds no reference, and only free frames in its thread
//! cache. So once requests are stopped ([`crate::files::flushers`]) and those in progress have
//! ended, no flusher uses the cache. The holder then closes the files that were left to flushers.
//!
//! Locks. The quiet lock (`Rounds`) is acquired without any other lock of the cache, and never in a
//! callback or a codec. The holder waits for flushers, so no flusher that serves a request may
//! acquire it, not even in a call of a backend; `are_held_here` detects this.

use std::fmt;

use crate::api::cache::Cache;
use crate::base::error::{Error, ErrorKind, Op};
use crate::dirty::hook::InHook;
use crate::files::flushers::Held;
use crate::files::serve::close_left;

/// Guard that keeps the threads of a cache from background work. Returned by [`Cache::quiesce`].
#[must_use = "the drop restarts the threads of the cache"]
pub struct Quiet<'c> {
    cache: &'c Cache,
    held: Option<Held<'c>>,
}

impl Cache {
    /// Waits, without a limit, until the flushers of the cache have finished their current calls,
    /// and stops them until the guard is dropped. Closes the files that were left to them.
    ///
    /// Call this before a call of [`stats`](Self::stats) that counts frames, or of
    /// [`verify`](Self::verify). While the guard exists, only the program's threads, and readahead
    /// and futures begun by them, change the cache. To close files, the call is needed only if
    /// their last handle was dropped in a page codec or a callback
    /// ([`OpenOptions::before_write`](crate::OpenOptions::before_write)).
    ///
    /// Until the guard is dropped, no file is written back in the background. A writer reaches its
    /// file's quota of dirty frames sooner, and then writes the file back itself. Another call of
    /// this function waits.
    ///
    /// # Errors
    ///
    /// - [`Deadlock`](ErrorKind::Deadlock) if this thread is in a callback or a page codec, has
    ///   another guard, or is in a call of a [`Backend`](pagewell_io::Backend) by the cache.
    /// - [`Forked`](ErrorKind::Forked).
    pub fn quiesce(&self) -> Result<Quiet<'_>, Error> {
        let files = self.files();
        files.shared.home.check(Op::Quiesce)?;
        if InHook::is_so() || files.flushers.are_held_here() {
            return Err(Error::new(ErrorKind::Deadlock, Op::Quiesce));
        }
        let quiet = Quiet {
            cache: self,
            held: Some(files.flushers.hold()),
        };
        // Writers that wait for flushers must now continue without them.
        files.shared.pressure.changed.tell();
        close_left(files);
        Ok(quiet)
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        if !self.cache.files().shared.home.is_here() {
            // In a fork, another thread of the parent may have held the locks.
            std::mem::forget(self.held.take());
        }
    }
}

impl fmt::Debug for Quiet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Quiet").field(self.cache).finish()
    }
}
