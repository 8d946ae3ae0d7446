//! LMDB, by `heed`: a copy-on-write B+tree in a mapping of its file. It has no cache but the operating system's.

#![allow(unsafe_code)] // To open an environment maps a file.

use std::ops::Range;
use std::path::Path;

use heed::types::Bytes;
use heed::{
    CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, Error, MdbError, PutFlags, RoTxn,
    WithoutTls,
};

use super::store::{
    Durable, Find, Insert, Lookup, Opening, Residence, Store, copy, entries, failed, text,
};
use crate::failure::Failure;

type Entries = Database<'static, Bytes, Bytes>;

/// Addresses for the file: more than any run fills.
const MAP_BYTES: usize = 64 << 30;

pub(super) struct Lmdb {
    env: Env<WithoutTls>,
    entries: Entries,
}

impl Lmdb {
    pub(super) fn open(folder: &Path, opening: Opening) -> Result<Lmdb, Failure> {
        let mut flags = EnvFlags::empty();
        if opening.durable == Durable::Later {
            flags |= EnvFlags::NO_SYNC;
        }
        if opening.residence == Residence::Partly {
            // As its documentation has it for what is larger than memory.
            flags |= EnvFlags::NO_READ_AHEAD;
        }
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(MAP_BYTES).max_readers(1024);
        // SAFETY: without syncs a loss of power may spoil the file; it is a temporary one, and nobody uses it after one.
        unsafe { options.flags(flags) };
        // SAFETY: nobody but this process knows the folder, which is a temporary one, and it is opened once at a time; so nothing but the
        // environment changes the file that it maps.
        let env = unsafe { options.open(folder) }.map_err(failed)?;
        let made = env.create_databases_and_commit(
            env.write_txn().map_err(failed)?,
            |opener, transaction| {
                let made = opener.create_database(transaction, None);
                made.map(CommitOrAbort::<_, ()>::Commit)
            },
        );
        let entries: Option<Entries> = made.map_err(failed)?.commit();
        let entries = entries.ok_or_else(|| failed("there is no database"))?;
        Ok(Lmdb { env, entries })
    }
}

impl Store for Lmdb {
    fn finder(&self) -> Result<Box<dyn Find>, Failure> {
        Ok(Box::new(Finder {
            transaction: self.env.clone().static_read_txn().map_err(failed)?,
            entries: self.entries,
        }))
    }

    fn writer(&self) -> Result<Box<dyn Insert>, Failure> {
        Ok(Box::new(Writer {
            env: self.env.clone(),
            entries: self.entries,
        }))
    }

    fn fill(&self, numbers: Range<u64>) -> Result<(), Failure> {
        let mut transaction = self.env.write_txn().map_err(failed)?;
        for (key, value) in entries(numbers) {
            self.entries
                .put(&mut transaction, &key, &value)
                .map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }
}

struct Finder {
    transaction: RoTxn<'static, WithoutTls>,
    entries: Entries,
}

impl Find for Finder {
    fn with(
        &mut self,
        work: &mut dyn FnMut(&mut Lookup<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        work(&mut |key, value| {
            let found = self.entries.get(&self.transaction, key).map_err(text)?;
            if let Some(found) = found {
                copy(found, value);
            }
            Ok(found.is_some())
        })
    }
}

struct Writer {
    env: Env<WithoutTls>,
    entries: Entries,
}

impl Insert for Writer {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, String> {
        let mut transaction = self.env.write_txn().map_err(text)?;
        // Finds out whether the key is there on the one way down.
        let flags = PutFlags::NO_OVERWRITE;
        let put = self
            .entries
            .put_with_flags(&mut transaction, flags, key, value);
        let there = match put {
            Ok(()) => false,
            Err(Error::Mdb(MdbError::KeyExist)) => {
                let put = self.entries.put(&mut transaction, key, value);
                put.map_err(text)?;
                true
            }
            Err(error) => return Err(text(error)),
        };
        transaction.commit().map_err(text)?;
        Ok(there)
    }
}
