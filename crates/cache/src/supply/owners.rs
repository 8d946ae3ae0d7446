//! Who has the files that leaves belong to.

use std::fmt;

use pagewell_frame::UniqueFrame;
use pagewell_frame::refcount::RefScheme;

use crate::index::claims::Claims;
use crate::index::leaf::Leaf;

/// Who has the files that leaves belong to: registered by a room above, asked by the eviction of a leaf.
pub(crate) trait LeafOwners<S: RefScheme>: fmt::Debug + Send + Sync {
    /// Takes `held`, leaf number `leaf` of the file with this number, out of its index, if the file is open and none of the
    /// leaf's slots is in use. Waits for nothing. The frame is the caller's then.
    fn take_leaf<'s>(
        &self,
        claims: &'s Claims<S>,
        number: u64,
        leaf: usize,
        held: Leaf<'s, S>,
    ) -> Option<UniqueFrame<'s, S>>;
}
