//! Moves of pages: to other nodes, and to assemble large blocks.

use std::ops::Range;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{Order, Place, UniqueFrame};
use pagewell_sync::read;

use crate::api::handles::{Space, Spaces};
use crate::error::{Error, ErrorKind, Op};
use crate::motion::compact::Compactor;
use crate::motion::migrate::Migrator;
use crate::motion::report::{Engine, Migrated};

impl<S: RefScheme> Space<S> {
    /// Moves the pages of `range`, which must be mapped completely, to `node`, also if other spaces
    /// share them. Concurrent accesses continue; an access of a page that is being moved waits.
    /// Cached pages of files that are mapped there are moved too.
    ///
    /// Pages that cannot be moved stay where they are. The result lists them with the reason.
    ///
    /// # Errors
    ///
    /// [`NoSuchNode`](ErrorKind::NoSuchNode), [`InvalidRange`](ErrorKind::InvalidRange),
    /// [`Misaligned`](ErrorKind::Misaligned), [`Unmapped`](ErrorKind::Unmapped).
    pub fn migrate(&self, range: Range<u64>, node: usize) -> Result<Migrated, Error> {
        self.migrate_by(range, node, Engine::default())
    }

    /// As [`migrate`](Self::migrate), by `engine`, so that benchmarks can compare the engines.
    ///
    /// # Errors
    ///
    /// As [`migrate`](Self::migrate).
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

impl<S: RefScheme> Spaces<S> {
    /// Allocates a block of `order` on any node. If none is free, moves pages until one is.
    /// Concurrent accesses continue, as during a migration.
    ///
    /// # Errors
    ///
    /// [`OutOfFrames`](ErrorKind::OutOfFrames) if too few frames are free, or every place for such
    /// a block contains a frame that cannot be moved.
    pub fn alloc_block(&self, order: Order) -> Result<UniqueFrame<'_, S>, Error> {
        let shared = self.shared();
        shared.supply.with_room(
            |_| (order, Place::Anywhere),
            || {
                Compactor::of(&shared.supply)
                    .alloc(order, Place::Anywhere)
                    .ok_or_else(|| Error::new(ErrorKind::OutOfFrames, Op::Compact))
            },
        )
    }
}
