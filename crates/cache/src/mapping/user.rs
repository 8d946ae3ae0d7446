//! User of a file that maps the file's pages at addresses, and keeps copies of pages.

use std::any::Any;
use std::sync::{Arc, Weak};

use pagewell_sync::{Mutex, lock};

/// User that maps a file's pages at addresses. It is called when the file is truncated.
pub trait FileUser: Any + Send + Sync {
    /// Called after the file was truncated to `size` bytes.
    ///
    /// The caller holds the file's size lock, so the user may access the file only by the methods
    /// of [`MappedFile`](crate::MappedFile) that do not wait.
    fn cut(&self, size: u64);
}

#[derive(Debug, Default)]
pub(crate) struct User(Mutex<Option<Weak<dyn FileUser>>>);

impl User {
    /// Returns the user. If there is none, `make` creates it. The file does not keep it alive.
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

    /// The caller holds the size lock.
    pub(crate) fn tell_cut(&self, size: u64) {
        let user = lock(&self.0).as_ref().and_then(Weak::upgrade);
        if let Some(user) = user {
            user.cut(size);
        }
    }
}
