//! A quiet cache: only the program's own threads use it.
//!
//! Place. A program that looks at a cache as a whole, to count its frames or to [`verify`](Cache::verify) it, holds a
//! [`Quiet`] meanwhile, and keeps its own threads from using the cache.
//!
//! Protocol. The thread that writes back holds the lock `rounds` in each of its rounds. Between rounds it has
//! no file, no page, and no frame but those in its front cache, which are free. So a thread that takes the lock has waited for the
//! round under way, and keeps the next one from beginning. It then does the work that was left to the thread: it closes the
//! files whose last handle went in a hook.
//!
//! Locks. `rounds` is taken with no other lock held, and never in a hook: hooks may be called in a round. A backend may be
//! called in a round too, so the lock records which thread has it.

use std::fmt;

use pagewell_frame::refcount::RefScheme;

use crate::api::cache::Cache;
use crate::base::error::{Error, ErrorKind, Op};
use crate::dirty::hook::InHook;
use crate::files::background::Round;
use crate::files::rounds::close_left;

/// As long as this exists, a cache does nothing in the background; from [`Cache::quiesce`].
#[must_use = "the thread of the cache goes on when this is dropped"]
pub struct Quiet<'c, S: RefScheme> {
    cache: &'c Cache<S>,
    _round: Round<'c>,
}

impl<S: RefScheme> Cache<S> {
    /// Waits until the thread of the cache has finished its present work, closes the files that were left to it, and keeps it
    /// from beginning anything new until the answer is dropped.
    ///
    /// Call it before counting frames with [`stats`](Self::stats) or verifying the cache ([`verify`](Self::verify)): if the
    /// program's own threads do nothing either, nothing changes. A program that only closes files need not call it: when the
    /// last handle is dropped the file is closed, and its frames are free. Only files whose last handle was dropped in a hook
    /// ([`OpenOptions::before_write`](crate::OpenOptions::before_write)) are left to the thread of the cache.
    ///
    /// Nothing is written back in the background meanwhile, so writers reach the limit of dirty frames sooner, and then write
    /// pages back themselves. A call of another thread waits until the answer is dropped.
    ///
    /// # Errors
    ///
    /// [`Deadlock`](ErrorKind::Deadlock) in a hook, which the thread of the cache may be calling; if this thread has the
    /// answer of another call; and in a call of a [`Backend`](pagewell_io::Backend) by the thread of the cache, or by
    /// this call. [`Forked`](ErrorKind::Forked).
    pub fn quiesce(&self) -> Result<Quiet<'_, S>, Error> {
        let files = self.files();
        files.shared.home.check(Op::Quiesce)?;
        if InHook::is_so() || files.rounds.is_held_here() {
            return Err(Error::new(ErrorKind::Deadlock, Op::Quiesce));
        }
        let quiet = Quiet {
            cache: self,
            _round: files.rounds.hold(),
        };
        close_left(files);
        Ok(quiet)
    }
}

impl<S: RefScheme> fmt::Debug for Quiet<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Quiet").field(self.cache).finish()
    }
}
