//! Weak references, with an `Arc` of the mapping, of in-flight transfers, offloaded calls, and
//! threads that found the file by its number. The thread that drops the last strong reference waits
//! for them (`files::opened`). So that thread, never a transfer, closes the file, after the backend
//! has stopped using the transfers' memory.

use std::ops::Deref;

use pagewell_sync::Arc;

use crate::mapping::record::Mapping;
use crate::mapping::shared::Shared;
use crate::mapping::users::Users;

#[derive(Debug)]
pub(crate) struct Visitor {
    // Dropped before `_leaving`, whose drop decrements the number of weak references.
    mapping: Arc<Mapping>,
    _leaving: Leaving,
}

#[derive(Debug)]
struct Leaving {
    shared: Arc<Shared>,
    users: Arc<Users>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if self.users.leave() {
            self.shared.supply.claims.waits.wake(&*self.users);
        }
    }
}

impl Visitor {
    /// Creates a weak reference. Returns `None` if the file has no strong reference.
    pub(crate) fn of(mapping: &Arc<Mapping>) -> Option<Self> {
        let upgrade = || Some(Arc::clone(mapping));
        Self::enter(&mapping.shared, &mapping.users, upgrade)
    }

    /// As [`of`](Self::of), with a mapping that exists as long as `users` count a reference.
    pub(crate) fn enter(
        shared: &Arc<Shared>,
        users: &Arc<Users>,
        upgrade: impl FnOnce() -> Option<Arc<Mapping>>,
    ) -> Option<Self> {
        if !users.enter() {
            return None;
        }
        let leaving = Leaving {
            shared: Arc::clone(shared),
            users: Arc::clone(users),
        };
        Some(Self {
            mapping: upgrade()?,
            _leaving: leaving,
        })
    }

    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}

impl Deref for Visitor {
    type Target = Mapping;

    fn deref(&self) -> &Mapping {
        &self.mapping
    }
}
