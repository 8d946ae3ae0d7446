//! Weak references to open files. The protocol is in [`super::opened`].

use std::ops::Deref;

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::Arc;

use crate::files::state::Files;
use crate::mapping::record::Mapping;
use crate::mapping::users::Users;

#[derive(Debug)]
pub(crate) struct Visit<'s, S: RefScheme> {
    // Dropped before `_leaving`, which decrements the weak count.
    mapping: Arc<Mapping<S>>,
    _leaving: Leaving<'s, S>,
}

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

/// Returns `None` if file `number` has no strong reference. The caller may hold claims and locks,
/// but not the registry lock.
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
