//! Known objects.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use object_store::path::Path;
use object_store::{Attributes, ObjectMeta};
use pagewell::File;

use super::closer::Closer;
use crate::error::Shared;
use crate::fetch::object::Object;
use crate::identity::State;

pub(super) const MAX_FIRST_BYTES: u64 = 4 << 20;

/// Answer by which an object was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenedBy {
    /// A part of the object, so the store supports ranges.
    Part,
    /// The whole object, or its metadata after a request for a range has failed.
    Whole,
    /// Metadata alone, since the tier has the first pages.
    Metadata,
}

/// State of an object, with its pages in the cache.
#[derive(Debug)]
pub(crate) struct Known {
    /// Path by which the object is requested.
    pub(crate) location: Path,
    /// The location in its metadata is the one that the store returned. It may differ from
    /// `location`: a `PrefixStore` returns the location in the store that it wraps.
    pub(crate) state: State,
    pub(crate) attributes: Attributes,
    pub(crate) file: Arc<Opened>,
    pub(crate) object: Object,
    pub(crate) opened_by: OpenedBy,
    /// Time when the store last confirmed this state.
    seen: Mutex<Instant>,
}

impl Known {
    pub(crate) fn new(
        location: Path,
        state: State,
        attributes: Attributes,
        object: Object,
        file: Opened,
        opened_by: OpenedBy,
    ) -> Self {
        Self {
            location,
            state,
            attributes,
            file: Arc::new(file),
            object,
            opened_by,
            seen: Mutex::new(Instant::now()),
        }
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        self.object.is(&other.object)
    }

    /// Records that the store confirmed this state by `meta`. If the object was written again, with
    /// the same bytes but another time or attributes, returns the replacement of this value.
    pub(crate) fn confirmed(&self, meta: &ObjectMeta, attributes: &Attributes) -> Option<Self> {
        self.touch();
        let rewritten = self.state.rewritten(meta);
        if rewritten.is_none() && *attributes == self.attributes {
            return None;
        }
        Some(Self {
            location: self.location.clone(),
            state: rewritten.unwrap_or_else(|| self.state.clone()),
            attributes: attributes.clone(),
            file: Arc::clone(&self.file),
            object: self.object.clone(),
            opened_by: self.opened_by,
            seen: Mutex::new(Instant::now()),
        })
    }

    /// Restarts the time for which this state is trusted.
    pub(crate) fn touch(&self) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Returns `true` if the object is received whole from a store that does not support ranges.
    pub(crate) fn is_small(&self) -> bool {
        self.state.meta.size <= MAX_FIRST_BYTES
    }

    /// Returns `true` if `error` may be caused by a store that does not support ranges.
    pub(crate) fn may_lack_ranges(&self, error: &Shared) -> bool {
        !self.object.has_ranges() && !error.is_abandoned() && !error.is_timeout()
    }

    pub(crate) fn is_trusted(&self, trust: Duration) -> bool {
        let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.elapsed() < trust
    }
}

/// File that is closed by the closer thread.
#[derive(Debug)]
pub(crate) struct Opened {
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
