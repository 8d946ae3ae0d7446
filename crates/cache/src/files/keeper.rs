//! What rooms below ask of the cache as a whole.

use pagewell_frame::UniqueFrame;
use pagewell_frame::refcount::RefScheme;
use pagewell_io::FileId;

use crate::base::error::Error;
use crate::files::clean::Cleaner;
use crate::files::state::Files;
use crate::files::visit::visit;
use crate::index::claims::Claims;
use crate::index::leaf::Leaf;
use crate::mapping::keeper::Keeper;
use crate::supply::owners::LeafOwners;

impl<S: RefScheme> Keeper for Files<S> {
    fn forget(&self, id: FileId, number: u64) {
        self.registry.forget(id, number);
    }

    fn make_clean(&self) {
        Cleaner(self).make_clean();
    }

    fn make_room(&self, error: Error) -> Result<(), Error> {
        Cleaner(self).make_room(error)
    }
}

impl<S: RefScheme> LeafOwners<S> for Files<S> {
    fn take_leaf<'s>(
        &self,
        claims: &'s Claims<S>,
        number: u64,
        leaf: usize,
        held: Leaf<'s, S>,
    ) -> Option<UniqueFrame<'s, S>> {
        let mapping = visit(self, number)?;
        mapping.index().take_empty_leaf(claims, leaf, held).ok()
    }
}
