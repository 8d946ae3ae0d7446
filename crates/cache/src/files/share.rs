use pagewell_sync::Arc;

use crate::mapping::record::Mapping;

/// Counted strong reference without an owner. It must be converted into an
/// [`Opened`](super::opened::Opened), whose drop decrements the count.
#[derive(Debug)]
#[must_use = "otherwise the reference stays counted forever"]
pub(super) struct Share(Arc<Mapping>);

impl Share {
    pub(super) fn count(mapping: Arc<Mapping>) -> Self {
        let users = mapping.users();
        if users.add_share() {
            mapping.claims().waits.wake(&**users);
        }
        Self(mapping)
    }

    pub(super) fn of_counted(mapping: Arc<Mapping>) -> Self {
        Self(mapping)
    }

    pub(super) fn into_mapping(self) -> Arc<Mapping> {
        self.0
    }
}
