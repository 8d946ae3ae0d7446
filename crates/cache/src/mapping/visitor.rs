//! Weak references of in-flight transfers and offloaded calls, with an `Arc` of the mapping. The
//! thread that drops the last strong reference waits for them (`files::opened`). So that thread,
//! never a transfer, closes the file, after the backend has stopped using the transfers' memory.

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

    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}
