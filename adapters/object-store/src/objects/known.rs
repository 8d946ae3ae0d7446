//! A known object.

use std::ops::Deref;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use object_store::{Attributes, ObjectMeta};
use pagewell::File;

use super::closer::Closer;
use crate::fetch::object::Object;

/// A state of an object, with the pages that the cache has of it.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) meta: ObjectMeta,
    pub(crate) attributes: Attributes,
    pub(crate) file: Opened,
    /// The storage of the file.
    pub(crate) object: Object,
    /// When the store has last said that it is the same.
    seen: Mutex<Instant>,
}

impl Known {
    pub(crate) fn new(
        meta: ObjectMeta,
        attributes: Attributes,
        object: Object,
        file: Opened,
    ) -> Self {
        Self {
            meta,
            attributes,
            file,
            object,
            seen: Mutex::new(Instant::now()),
        }
    }

    /// The store says that it is the same.
    pub(crate) fn touch(&self) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Whether what is known is believed without asking.
    pub(crate) fn is_trusted(&self, trust: Duration) -> bool {
        let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.elapsed() < trust
    }
}

/// A file that is closed by a thread that may wait.
#[derive(Debug)]
pub(crate) struct Opened {
    /// There until the drop.
    file: Option<File>,
    closer: Closer,
}

impl Opened {
    pub(crate) fn new(file: File, closer: Closer) -> Self {
        Self {
            file: Some(file),
            closer,
        }
    }
}

impl Deref for Opened {
    type Target = File;

    fn deref(&self) -> &File {
        self.file.as_ref().expect("it is there until the drop")
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            self.closer.close(file);
        }
    }
}
