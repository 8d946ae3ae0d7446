use std::fmt;

use pagewell_frame::UniqueFrame;

use crate::index::leaf::Leaf;

/// Owner of the files to which leaves belong, which a higher layer registers.
pub(crate) trait LeafOwners: fmt::Debug + Send + Sync {
    /// Removes `held`, leaf number `leaf` of file `number`, from the file's index. Returns the
    /// leaf's frame, or `None` if the file is not open or the leaf is in use. Acquires only short
    /// locks, such as the registry lock, and those of ranks 12 and 13 (`docs/LOCKING.md`), to
    /// release withheld frames. So the caller may hold claims and locks of lower rank.
    fn take_leaf<'s>(&self, number: u64, leaf: usize, held: Leaf<'s>) -> Option<UniqueFrame<'s>>;
}
