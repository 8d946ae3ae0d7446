//! The user that shows a file's pages at addresses, and keeps copies of them.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Weak};

use pagewell_sync::{Mutex, lock};

/// A user that shows a file's pages at addresses, and is told when the file gets shorter.
pub trait FileUser: Any + Send + Sync {
    /// The file has become shorter: it has `size` bytes now.
    ///
    /// It is called with the lock of the file's size held, so it may use the file only by the tries of
    /// [`MappedFile`](crate::MappedFile).
    fn cut(&self, size: u64);
}

/// The user of a file, if there is one.
#[derive(Default)]
pub(crate) struct User(Mutex<Option<Weak<dyn FileUser>>>);

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").finish_non_exhaustive()
    }
}

impl User {
    /// The user. If there is none, `make` makes it. It is not kept alive.
    pub(crate) fn get_or_make(
        &self,
        make: impl FnOnce() -> Arc<dyn FileUser>,
    ) -> Arc<dyn FileUser> {
        let mut user = lock(&self.0);
        let known = user.as_ref().and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let made = make();
            *user = Some(Arc::downgrade(&made));
            made
        })
    }

    /// Tells the user that the file has become shorter, and has `size` bytes now. The lock of the size is held.
    pub(crate) fn tell_cut(&self, size: u64) {
        let user = lock(&self.0).as_ref().and_then(Weak::upgrade);
        if let Some(user) = user {
            user.cut(size);
        }
    }
}
