//! Visitors that own what they visit: transfers under way, and calls that other threads make.
//!
//! They follow the protocol of `files::opened`: the thread that drops the last share of a file waits until they have left. So a
//! transfer never is the last holder of a mapping, and a file is closed when its last handle has been dropped, and no sooner than the
//! storage is done with its memory.

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::Arc;

use crate::mapping::record::Mapping;
use crate::mapping::shared::Shared;
use crate::mapping::users::Users;

/// A visitor of an open file.
#[derive(Debug)]
pub(crate) struct Visitor<S: RefScheme> {
    // Dropped first.
    mapping: Arc<Mapping<S>>,
    _leaving: Leaving<S>,
}

/// A counted visitor.
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
    /// A visitor of the file, if it has a share.
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

    /// What it visits.
    pub(crate) fn mapping(&self) -> &Arc<Mapping<S>> {
        &self.mapping
    }
}
