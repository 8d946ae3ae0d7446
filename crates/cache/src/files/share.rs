//! A share of an open file, counted and passed on.

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::Arc;

use crate::mapping::record::Mapping;

/// A share of an open file that is counted and has no owner yet. Dropping this drops no share: it is to be made an
/// [`Opened`](super::opened::Opened), which does.
#[derive(Debug)]
#[must_use = "the share is counted for ever"]
pub(super) struct Share<S: RefScheme>(Arc<Mapping<S>>);

impl<S: RefScheme> Share<S> {
    /// Counts a share more.
    pub(super) fn count(mapping: Arc<Mapping<S>>) -> Self {
        let users = mapping.users();
        if users.add_share() {
            mapping.claims().waits.wake(&**users);
        }
        Self(mapping)
    }

    /// A share that the caller has counted.
    pub(super) fn of_counted(mapping: Arc<Mapping<S>>) -> Self {
        Self(mapping)
    }

    pub(super) fn into_mapping(self) -> Arc<Mapping<S>> {
        self.0
    }
}
