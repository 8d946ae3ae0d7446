//! Moves of pages: to other nodes, and to assemble large blocks.

use std::ops::Range;

use pagewell_frame::{Order, Place, UniqueFrame};
use pagewell_sync::read;

use crate::change::migrate::Migrator;
use crate::error::{Error, ErrorKind, Op};
use crate::mm::handles::{Space, Spaces};
use crate::motion::report::{Engine, Migrated};

impl Space {
    /// Moves the pages of `range`, which must be mapped completely, to `node`. This includes pages
    /// that other spaces share, and cached pages of mapped files. Only accesses of a page that is
    /// being moved wait. The result lists the pages that could not be moved. Fails with
    /// [`ErrorKind`] `NoSuchNode`, `InvalidRange`, `Misaligned` or `Unmapped`.
    pub fn migrate(&self, range: Range<u64>, node: usize) -> Result<Migrated, Error> {
        self.migrate_by(range, node, Engine::default())
    }

    /// As [`migrate`](Self::migrate), by `engine`, so that benchmarks can compare the engines.
    #[cfg(feature = "baselines")]
    pub fn migrate_with(
        &self,
        range: Range<u64>,
        node: usize,
        engine: Engine,
    ) -> Result<Migrated, Error> {
        self.migrate_by(range, node, engine)
    }

    fn migrate_by(
        &self,
        range: Range<u64>,
        node: usize,
        engine: Engine,
    ) -> Result<Migrated, Error> {
        let mm = &*self.mm;
        if node >= mm.shared.pool().nr_nodes() {
            return Err(Error::at(ErrorKind::NoSuchNode, Op::Migrate, range.start));
        }
        read(&mm.structure).check(&range, Op::Migrate)?;
        let migrator = Migrator::new(&mm.structure, &mm.tables, &mm.shared.supply);
        Ok(migrator.migrate(&range, node, engine))
    }
}

impl Spaces {
    /// Allocates a block of `order` on any node. If none is free, moves pages, as a migration does.
    /// Fails with [`OutOfFrames`](ErrorKind::OutOfFrames) if too few frames are free, or every
    /// place for such a block contains a frame that cannot be moved.
    pub fn alloc_block(&self, order: Order) -> Result<UniqueFrame<'_>, Error> {
        let shared = self.shared();
        shared.supply.with_room(
            |_| (order, Place::Anywhere),
            || {
                let block = shared.alloc(order, Place::Anywhere);
                block.ok_or_else(|| Error::new(ErrorKind::OutOfFrames, Op::Compact))
            },
        )
    }
}
