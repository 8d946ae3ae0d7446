//! A quiet cache: nobody is at work on it but the program's own threads.
//!
//! Place. Whoever wants to look at a cache as a whole, to count its frames or to [`verify`](Cache::verify) it, holds a
//! [`Quiet`] meanwhile, and sees to it that the threads of the program do nothing.
//!
//! Protocol. The thread that writes back holds the lock `rounds` in each of its rounds, and between them it has nothing:
//! no file, no page, no frame, but for those in its front cache, which are free. So who takes the lock has waited for the
//! round that was under way, and keeps the next one from beginning. What was left to the thread is done here: files are
//! closed whose last handle went in a hook.
//!
//! Locks. `rounds` is taken with no other lock held, and never in a hook: hooks may be called in a round. A backend may be
//! called in a round, too, so it is known which thread has the lock.

use std::fmt;

use pagewell_frame::refcount::RefScheme;

use crate::api::cache::Cache;
use crate::base::error::{Error, ErrorKind, Op};
use crate::dirty::hook::InHook;
use crate::files::background::Round;
use crate::files::rounds::close_left;

/// As long as this exists, nothing is done in the background of a cache; from [`Cache::quiesce`].
#[must_use = "the thread of the cache goes on when this is dropped"]
pub struct Quiet<'c, S: RefScheme> {
    cache: &'c Cache<S>,
    _round: Round<'c>,
}

impl<S: RefScheme> Cache<S> {
    /// Waits until the thread of the cache is done with what it is at, closes what it has left to close, and keeps it from
    /// beginning anything new until the answer is dropped.
    ///
    /// To count frames with [`stats`](Self::stats), or to [`verify`](Self::verify) the cache: while the program's own
    /// threads do nothing either, nobody does. Who only closes files need not call this: with the last handle that is
    /// dropped a file is closed, and its frames are free. What is left to the thread of the cache are files whose last
    /// handle was dropped in a hook ([`OpenOptions::before_write`](crate::OpenOptions::before_write)).
    ///
    /// Nothing is written back in the background meanwhile, so writers come to the limit of dirty frames sooner, and write
    /// pages back themselves then. A call of another thread waits until the answer is dropped.
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
