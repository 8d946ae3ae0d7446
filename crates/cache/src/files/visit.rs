//! Visits: looks at open files that do not keep them open. The protocol is in [`super::opened`].

use std::ops::Deref;

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::Arc;

use crate::files::state::Files;
use crate::mapping::record::Mapping;
use crate::mapping::users::Users;

/// A look at an open file that does not keep it open.
#[derive(Debug)]
pub(crate) struct Visit<'s, S: RefScheme> {
    // Dropped first.
    mapping: Arc<Mapping<S>>,
    _leaving: Leaving<'s, S>,
}

/// A counted visitor.
#[derive(Debug)]
struct Leaving<'s, S: RefScheme> {
    files: &'s Files<S>,
    users: Arc<Users>,
}

impl<S: RefScheme> Drop for Leaving<'_, S> {
    fn drop(&mut self) {
        if self.users.leave() {
            self.files.supply().claims.waits.wake(&*self.users);
        }
    }
}

impl<S: RefScheme> Deref for Visit<'_, S> {
    type Target = Mapping<S>;

    fn deref(&self) -> &Mapping<S> {
        &self.mapping
    }
}

/// Visits the open file with this number, if it has a share. Claims and locks may be held, but not the registry's.
pub(crate) fn visit<S: RefScheme>(files: &Files<S>, number: u64) -> Option<Visit<'_, S>> {
    let (mapping, users) = files.registry.registered(number)?;
    if !users.enter() {
        return None;
    }
    let leaving = Leaving { files, users };
    Some(Visit {
        mapping: mapping.upgrade()?,
        _leaving: leaving,
    })
}
