//! The owner of the files that leaves belong to.

use std::fmt;

use pagewell_frame::UniqueFrame;
use pagewell_frame::refcount::RefScheme;

use crate::index::leaf::Leaf;

/// The owner of the files that leaves belong to. A room above registers it, and the eviction of a leaf asks it.
pub(crate) trait LeafOwners<S: RefScheme>: fmt::Debug + Send + Sync {
    /// Takes `held`, leaf number `leaf` of the file with this number, out of its index, if the file is open and no slot of the
    /// leaf is in use. Waits for nothing. The frame then belongs to the caller.
    fn take_leaf<'s>(
        &self,
        number: u64,
        leaf: usize,
        held: Leaf<'s, S>,
    ) -> Option<UniqueFrame<'s, S>>;
}
