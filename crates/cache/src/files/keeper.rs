//! Cache-wide callbacks of lower layers.

use std::sync::Arc;

use pagewell_frame::{Order, UniqueFrame};
use pagewell_io::FileId;
use pagewell_io::pools::Engines;
use pagewell_sync::lock;

use crate::base::error::Error;
use crate::dirty::calls::Call;
use crate::files::clean::Cleaner;
use crate::files::share::Share;
use crate::files::state::Files;
use crate::files::visit::visit;
use crate::index::leaf::Leaf;
use crate::mapping::keeper::Keeper;
use crate::supply::leaves::Leaves;
use crate::supply::owners::LeafOwners;

impl Keeper for Files {
    fn engines(&self) -> &Arc<Engines> {
        &self.engines
    }

    fn forget(&self, id: FileId, number: u64) {
        // In a fork, a thread of the parent may have held the lock, which is then never released.
        if self.shared.home.is_here() {
            self.registry.forget(id, number);
        }
    }

    fn take_share(self: Arc<Self>, number: u64) {
        if let Some(mapping) = self.registry.mapping(number) {
            lock(&self.left).push(Share::of_counted(mapping));
        }
        // If no thread can be started now, the request waits until one is: in a model, for ever.
        let _ = self.flushers.start(&self);
        self.shared.pressure.calls.call(Call::Close);
    }

    fn throttle(&self, number: u64) -> Result<(), Error> {
        Cleaner(self).throttle(number)
    }

    fn make_room(&self, error: Error, order: Order) -> Result<(), Error> {
        Cleaner(self).make_room(error, order)
    }
}

impl LeafOwners for Files {
    fn take_leaf<'s>(&self, number: u64, leaf: usize, held: Leaf<'s>) -> Option<UniqueFrame<'s>> {
        let mapping = visit(self, number)?;
        Leaves(self.supply()).take(mapping.index(), leaf, held).ok()
    }
}
