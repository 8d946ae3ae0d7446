//! Weak references to open files. The protocol is in [`super::opened`].

use std::ops::Deref;

use pagewell_sync::Arc;

use crate::files::state::Files;
use crate::mapping::record::Mapping;
use crate::mapping::users::Users;

#[derive(Debug)]
pub(crate) struct Visit<'s> {
    // Dropped before `_leaving`, which decrements the weak count.
    mapping: Arc<Mapping>,
    _leaving: Leaving<'s>,
}

#[derive(Debug)]
struct Leaving<'s> {
    files: &'s Files,
    users: Arc<Users>,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if self.users.leave() {
            self.files.supply().claims.waits.wake(&*self.users);
        }
    }
}

impl Deref for Visit<'_> {
    type Target = Mapping;

    fn deref(&self) -> &Mapping {
        &self.mapping
    }
}

/// Returns `None` if file `number` has no strong reference. The caller may hold claims and locks,
/// but not the registry lock.
pub(crate) fn visit(files: &Files, number: u64) -> Option<Visit<'_>> {
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
