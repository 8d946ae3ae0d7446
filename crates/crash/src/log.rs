//! A write-ahead log beside the file.
//!
//! Each write is first recorded. Before a page is given to the storage, the log is made durable up to the
//! highest record that belongs to the page ([`Log::before_write`], the hook). So no byte of the file
//! survives without a record in the log.
//!
//! A record is its number and a checksum. After a loss of power the log ends before the first record that
//! is missing or torn.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use pagewell::{Error, File};
use pagewell_testkit::rng::mix;

/// Bytes of a record.
const RECORD: usize = 16;

/// A log, open for writing.
#[derive(Debug)]
pub struct Log {
    file: File,
    /// The number of the last written record, and of the last durable one.
    written: AtomicU64,
    durable: AtomicU64,
    hook: Hook,
}

/// The action before a page is given to the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// The log is made durable.
    Syncs,
    /// Nothing: a test must notice.
    DoesNothing,
}

// ORDERING: the numbers are Relaxed throughout. One thread writes records, and the hook runs on it.
impl Log {
    /// Opens the log in `file`, cuts it after its last whole record, and returns that record's number too.
    ///
    /// # Errors
    ///
    /// The error of the file.
    pub fn recover(file: File, hook: Hook) -> Result<(Self, u64), Error> {
        let mut bytes = vec![0; file.size() as usize];
        let n = file.read_at(&mut bytes, 0)?;
        let records = bytes[..n].as_chunks::<RECORD>().0;
        let is_next = |&(found, lsn): &(&[u8; RECORD], u64)| *found == record(lsn);
        let last = records.iter().zip(1..).take_while(is_next).count() as u64;
        file.set_size(last * RECORD as u64)?;
        file.sync_data()?;
        let log = Self {
            file,
            written: AtomicU64::new(last),
            durable: AtomicU64::new(last),
            hook,
        };
        Ok((log, last))
    }

    /// Writes the next record; returns its number.
    ///
    /// # Errors
    ///
    /// The error of the file; nothing is recorded then.
    pub fn record(&self) -> Result<u64, Error> {
        let lsn = self.written.load(Ordering::Relaxed) + 1;
        self.file.append(&record(lsn))?;
        self.written.store(lsn, Ordering::Relaxed);
        Ok(lsn)
    }

    /// Makes all records durable.
    ///
    /// # Errors
    ///
    /// The error of the file.
    pub fn sync(&self) -> Result<(), Error> {
        let written = self.written.load(Ordering::Relaxed);
        self.file.sync_data()?;
        self.durable.store(written, Ordering::Relaxed);
        Ok(())
    }

    /// The hook for a page whose last record is `lsn`.
    ///
    /// # Errors
    ///
    /// The error of the file.
    pub fn before_write(&self, lsn: u64) -> io::Result<()> {
        if self.hook == Hook::Syncs && lsn > self.durable() {
            self.sync()?;
        }
        Ok(())
    }

    /// The number of the last record that was made durable.
    pub fn durable(&self) -> u64 {
        self.durable.load(Ordering::Relaxed)
    }
}

fn record(lsn: u64) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    let (number, check) = bytes.split_at_mut(8);
    number.copy_from_slice(&lsn.to_le_bytes());
    check.copy_from_slice(&mix(lsn).to_le_bytes());
    bytes
}
