//! What rooms below ask of the cache as a whole.

use std::sync::Arc;

use pagewell_frame::UniqueFrame;
use pagewell_frame::refcount::RefScheme;
use pagewell_io::FileId;
use pagewell_sync::lock;

use crate::base::error::Error;
use crate::files::clean::Cleaner;
use crate::files::share::Share;
use crate::files::state::Files;
use crate::files::visit::visit;
use crate::index::claims::Claims;
use crate::index::leaf::Leaf;
use crate::mapping::keeper::Keeper;
use crate::supply::owners::LeafOwners;

impl<S: RefScheme> Keeper for Files<S> {
    fn forget(&self, id: FileId, number: u64) {
        // In a child, another thread of the parent may have had the lock.
        if self.shared.home.is_here() {
            self.registry.forget(id, number);
        }
    }

    fn take_share(self: Arc<Self>, number: u64) {
        // It is there: the caller has it.
        if let Some(mapping) = self.registry.mapping(number) {
            lock(&self.left).push(Share::of_counted(mapping));
        }
        // In a model there is no thread. If none can be started now, the next one that is finds the file.
        #[cfg(not(loom))]
        let _ = self.background.start(&self);
        self.background.wake();
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
