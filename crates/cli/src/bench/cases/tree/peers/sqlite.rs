//! SQLite, by `rusqlite`: a table that is its own B-tree (`WITHOUT ROWID`), with a write-ahead log. Each connection has a cache of its own.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use super::store::{Durable, Find, Insert, Lookup, Opening, Store, copy, entries, failed, text};
use crate::failure::Failure;

const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID";
const GET: &str = "SELECT value FROM entries WHERE key = ?1";
const INSERT: &str = "INSERT OR IGNORE INTO entries (key, value) VALUES (?1, ?2)";
const REPLACE: &str = "UPDATE entries SET value = ?2 WHERE key = ?1";

/// For how long a writer waits for the others.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Sqlite {
    path: PathBuf,
    opening: Opening,
}

impl Sqlite {
    pub(super) fn open(folder: &Path, opening: Opening) -> Result<Sqlite, Failure> {
        let store = Sqlite {
            path: folder.join("sqlite"),
            opening,
        };
        let connection = store.connect().map_err(failed)?;
        connection.execute_batch(TABLE).map_err(failed)?;
        // What the log has goes to the file.
        connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .map_err(failed)?;
        Ok(store)
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        let connection = Connection::open(&self.path)?;
        connection.busy_timeout(PATIENCE)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        // With `full` a commit is durable; with `normal` the log is synced before pages are written, as the tree's is.
        let synchronous = match self.opening.durable {
            Durable::Now => "full",
            Durable::Later => "normal",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        // Each connection's share, in KiB, which negative numbers stand for.
        let share = self.opening.cache_bytes / u64::from(self.opening.nr_threads.max(1)) / 1024;
        connection.pragma_update(None, "cache_size", -(share as i64))?;
        Ok(connection)
    }
}

impl Store for Sqlite {
    fn finder(&self) -> Result<Box<dyn Find>, Failure> {
        let connection = self.connect().map_err(failed)?;
        // One transaction for all gets.
        connection.execute_batch("BEGIN").map_err(failed)?;
        Ok(Box::new(Finder(connection)))
    }

    fn writer(&self) -> Result<Box<dyn Insert>, Failure> {
        Ok(Box::new(Writer(self.connect().map_err(failed)?)))
    }

    fn fill(&self, numbers: Range<u64>) -> Result<(), Failure> {
        let mut connection = self.connect().map_err(failed)?;
        let transaction = connection.transaction().map_err(failed)?;
        let mut statement = transaction.prepare(INSERT).map_err(failed)?;
        for (key, value) in entries(numbers) {
            statement.execute((&key[..], &value[..])).map_err(failed)?;
        }
        drop(statement);
        transaction.commit().map_err(failed)
    }
}

struct Finder(Connection);

impl Find for Finder {
    fn with(
        &mut self,
        work: &mut dyn FnMut(&mut Lookup<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut statement = self.0.prepare_cached(GET).map_err(text)?;
        work(&mut |key, value| {
            let mut rows = statement.query([key]).map_err(text)?;
            let row = rows.next().map_err(text)?;
            if let Some(row) = row {
                let found = row.get_ref(0).map_err(text)?;
                copy(found.as_blob().map_err(text)?, value);
            }
            Ok(row.is_some())
        })
    }
}

struct Writer(Connection);

impl Insert for Writer {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, String> {
        // A statement outside of a transaction is one by itself.
        let mut insert = self.0.prepare_cached(INSERT).map_err(text)?;
        if insert.execute((key, value)).map_err(text)? == 1 {
            return Ok(false);
        }
        let mut replace = self.0.prepare_cached(REPLACE).map_err(text)?;
        replace.execute((key, value)).map_err(text)?;
        Ok(true)
    }
}
