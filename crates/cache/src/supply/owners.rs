//! Owner of the files that leaves belong to.

use std::fmt;

use pagewell_frame::UniqueFrame;
use pagewell_frame::refcount::RefScheme;

use crate::index::leaf::Leaf;

/// Owner of the files that leaves belong to. A higher layer registers it, and the eviction of a
/// leaf calls it.
pub(crate) trait LeafOwners<S: RefScheme>: fmt::Debug + Send + Sync {
    /// Removes `held`, leaf number `leaf` of the file with this number, from its index. Returns
    /// `None` if the file is not open, or a slot of the leaf is in use. Waits for nothing. The
    /// frame then belongs to the caller.
    fn take_leaf<'s>(
        &self,
        number: u64,
        leaf: usize,
        held: Leaf<'s, S>,
    ) -> Option<UniqueFrame<'s, S>>;
}
