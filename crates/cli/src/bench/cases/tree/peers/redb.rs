//! redb: a copy-on-write B+tree with a cache of its own.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use redb::{Database, Durability, ReadOnlyTable, ReadableDatabase, TableDefinition};

use super::store::{Durable, Find, Insert, Lookup, Opening, Store, copy, entries, failed, text};
use crate::failure::Failure;

type Bytes = &'static [u8];

const TABLE: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("entries");

/// After how many commits that are not durable there is one that is: only that gives the pages back that were written in between. The tree's log
/// has about as many entries from one checkpoint to the next.
const NOT_DURABLE: u32 = 400_000;

pub(super) struct Redb {
    db: Arc<Database>,
    durable: Durable,
}

impl Redb {
    pub(super) fn open(folder: &Path, opening: Opening) -> Result<Redb, Failure> {
        let db = Database::builder()
            .set_cache_size(usize::try_from(opening.cache_bytes).unwrap_or(usize::MAX))
            .create(folder.join("redb"))
            .map_err(failed)?;
        let store = Redb {
            db: Arc::new(db),
            durable: opening.durable,
        };
        // The table is there from the first commit on.
        store.fill(0..0)?;
        Ok(store)
    }
}

impl Store for Redb {
    fn finder(&self) -> Result<Box<dyn Find>, Failure> {
        let transaction = self.db.begin_read().map_err(failed)?;
        Ok(Box::new(Finder {
            table: transaction.open_table(TABLE).map_err(failed)?,
            _db: Arc::clone(&self.db),
        }))
    }

    fn writer(&self) -> Result<Box<dyn Insert>, Failure> {
        Ok(Box::new(Writer {
            db: Arc::clone(&self.db),
            durable: self.durable,
            nr_not_durable: 0,
        }))
    }

    fn fill(&self, numbers: Range<u64>) -> Result<(), Failure> {
        let transaction = self.db.begin_write().map_err(failed)?;
        let mut table = transaction.open_table(TABLE).map_err(failed)?;
        for (key, value) in entries(numbers) {
            table.insert(&key[..], &value[..]).map_err(failed)?;
        }
        drop(table);
        transaction.commit().map_err(failed)
    }
}

struct Finder {
    table: ReadOnlyTable<Bytes, Bytes>,
    /// When the last of these is dropped, tables are closed.
    _db: Arc<Database>,
}

impl Find for Finder {
    fn with(
        &mut self,
        work: &mut dyn FnMut(&mut Lookup<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        work(&mut |key, value| {
            let found = self.table.get(key).map_err(text)?;
            if let Some(found) = &found {
                copy(found.value(), value);
            }
            Ok(found.is_some())
        })
    }
}

struct Writer {
    db: Arc<Database>,
    durable: Durable,
    nr_not_durable: u32,
}

impl Insert for Writer {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, String> {
        let mut transaction = self.db.begin_write().map_err(text)?;
        if self.durable == Durable::Later && self.nr_not_durable < NOT_DURABLE {
            self.nr_not_durable += 1;
            transaction.set_durability(Durability::None).map_err(text)?;
        } else {
            self.nr_not_durable = 0;
        }
        let mut table = transaction.open_table(TABLE).map_err(text)?;
        let was_there = table.insert(key, value).map_err(text)?.is_some();
        drop(table);
        transaction.commit().map_err(text)?;
        Ok(was_there)
    }
}
