//! Weak references that own their target. Transfers in flight and offloaded calls have them.
//!
//! They follow the protocol of `files::opened`: the thread that drops the last strong reference to
//! a file waits until all weak references are dropped. So a transfer is never the last holder of a
//! mapping: the thread that drops the last handle closes the file, after the backend has stopped
//! using its memory.

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::Arc;

use crate::mapping::record::Mapping;
use crate::mapping::shared::Shared;
use crate::mapping::users::Users;

/// Weak reference to an open file.
#[derive(Debug)]
pub(crate) struct Visitor<S: RefScheme> {
    // Dropped before `_leaving`, whose drop decrements the number of weak references.
    mapping: Arc<Mapping<S>>,
    _leaving: Leaving<S>,
}

/// Decrements the count of weak references when dropped.
#[derive(Debug)]
struct Leaving<S: RefScheme> {
    shared: Arc<Shared<S>>,
    users: Arc<Users>,
}

impl<S: RefScheme> Drop for Leaving<S> {
    fn drop(&mut self) {
        if self.users.leave() {
            self.shared.supply.claims.waits.wake(&*self.users);
        }
    }
}

impl<S: RefScheme> Visitor<S> {
    /// Creates a weak reference. Returns `None` if the file has no strong reference.
    pub(crate) fn of(mapping: &Arc<Mapping<S>>) -> Option<Self> {
        if !mapping.users().enter() {
            return None;
        }
        let leaving = Leaving {
            shared: Arc::clone(mapping.shared_arc()),
            users: Arc::clone(mapping.users()),
        };
        Some(Self {
            mapping: Arc::clone(mapping),
            _leaving: leaving,
        })
    }

    pub(crate) fn mapping(&self) -> &Arc<Mapping<S>> {
        &self.mapping
    }
}
