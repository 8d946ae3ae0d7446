//! Write-ahead log: records, durability, restart after a checkpoint.
//!
//! **Log sequence numbers.** A record's number is the end of the log with that record, in bytes
//! since the tree was created. It never decreases, however often the log is restarted.
//!
//! **File.** Two head pages, used alternately, then the records. A head contains the number at
//! which the records begin (`base`) and the number of restarts (`epoch`). A restart writes the next
//! head; later records overwrite older ones. The checksum of a record covers epoch and number, so
//! older records are never taken for newer ones.
//!
//! **Invariant.** A head is durable before the first record of its epoch is written. So the newest
//! valid head always has its records.
//!
//! **Locks.** `durable`, then `position`. Under them only the log file is used, so the write-ahead
//! callback of the data file may take them.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pagewell::File;

use super::access::Bytes as _;
use super::error::Error;
use super::node::PAGE;

const MAGIC: u64 = u64::from_le_bytes(*b"PwBtLog2");
/// Bytes of a head: magic, base, epoch, identifier of the tree, checksum.
const HEAD: usize = 32;
/// Offset of the first record.
const RECORDS: u64 = 2 * PAGE as u64;
/// Bytes of a record before its body: checksum, length of the record.
const RECORD_HEAD: usize = 8;
/// Maximum length of a record, which has the bytes of three pages at most.
const MAX_RECORD: usize = 4 * PAGE;

/// The log, open for writing.
pub(super) struct Log {
    file: File,
    /// Random number that the root of the tree contains too, so that the files of two trees are
    /// told apart.
    tree_id: u32,
    position: Mutex<Position>,
    /// End of the durable part.
    durable: Mutex<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Position {
    epoch: u64,
    base: u64,
    end: u64,
    /// Whether a restart failed, so that it is unknown which head is durable.
    is_lost: bool,
}

impl Position {
    fn new(epoch: u64, base: u64) -> Self {
        Self {
            epoch,
            base,
            end: base,
            is_lost: false,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic leaves no partial change: each critical section ends with one store.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checksum of a record: over its epoch, its number, and its bytes after the checksum.
fn checksum(epoch: u64, lsn: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&epoch.to_le_bytes());
    hasher.update(&lsn.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

fn write_all(file: &File, bytes: &[u8], at: u64) -> Result<(), Error> {
    let mut done = 0;
    while done < bytes.len() {
        // The next write returns the error of a short one.
        done += file.write_at(&bytes[done..], at + done as u64)?;
    }
    Ok(())
}

/// Reads a head; `None` if it is not valid.
fn read_head(file: &File, slot: u64) -> Result<Option<(u32, Position)>, Error> {
    let mut bytes = [0; HEAD];
    if file.read_at(&mut bytes, slot * PAGE as u64)? < HEAD {
        return Ok(None);
    }
    let field = |at| bytes[..].u64(at).unwrap_or(0);
    let (base, epoch, last) = (field(8), field(16), field(24));
    let is_valid = field(0) == MAGIC && (last >> 32) as u32 == crc32fast::hash(&bytes[..HEAD - 4]);
    Ok(is_valid.then(|| (last as u32, Position::new(epoch, base))))
}

/// Writes a head, and makes it durable.
fn write_head(file: &File, tree_id: u32, head: Position) -> Result<(), Error> {
    let mut bytes = Vec::with_capacity(HEAD);
    for field in [MAGIC, head.base, head.epoch] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.extend_from_slice(&tree_id.to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    write_all(file, &bytes, head.epoch % 2 * PAGE as u64)?;
    Ok(file.sync_data()?)
}

/// Returns whether a file without a valid head is empty, as after a crash during the first
/// [`write_head`].
fn is_empty(file: &File) -> Result<bool, Error> {
    let mut first = [0; PAGE];
    file.read_at(&mut first, 0)?;
    Ok(file.size() <= RECORDS && first.iter().all(|byte| *byte == 0))
}

impl Log {
    /// Opens the log in `file`, or creates one. Returns whether it was created.
    ///
    /// The records of the log are durable then. They must be read by [`replay`](Self::replay)
    /// before one is appended.
    pub(super) fn open(file: File) -> Result<(Log, bool), Error> {
        let heads = [read_head(&file, 0)?, read_head(&file, 1)?];
        let newest = heads
            .into_iter()
            .flatten()
            .max_by_key(|(_, head)| head.epoch);
        if newest.is_none() && !is_empty(&file)? {
            return Err(Error::NotATree("the log file has no valid head"));
        }
        let (tree_id, head) = newest.unwrap_or_else(|| {
            let random = RandomState::new().build_hasher().finish() as u32;
            (random.max(1), Position::new(1, 0))
        });
        // An existing head is rewritten too: it and the records may be in the system's page cache
        // only, and this sync makes them durable.
        write_head(&file, tree_id, head)?;
        let log = Log {
            file,
            tree_id,
            position: Mutex::new(head),
            durable: Mutex::new(head.end),
        };
        Ok((log, newest.is_none()))
    }

    pub(super) fn tree_id(&self) -> u32 {
        self.tree_id
    }

    /// Passes number and body of each record to `take`, in order, up to the first record that is
    /// missing or torn.
    pub(super) fn replay(
        &self,
        mut take: impl FnMut(u64, &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let head = *lock(&self.position);
        let (mut end, mut record) = (head.base, Vec::new());
        loop {
            let at = RECORDS + (end - head.base);
            record.resize(RECORD_HEAD, 0);
            if self.file.read_at(&mut record, at)? < RECORD_HEAD {
                break;
            }
            let word = record[..].u64(0).unwrap_or(0);
            let len = (word >> 32) as usize;
            if !(RECORD_HEAD..=MAX_RECORD).contains(&len) {
                break;
            }
            record.resize(len, 0);
            if self.file.read_at(&mut record, at)? < len {
                break;
            }
            let lsn = end + len as u64;
            if checksum(head.epoch, lsn, &record[4..]) != word as u32 {
                break;
            }
            take(lsn, &record[RECORD_HEAD..])?;
            end = lsn;
        }
        lock(&self.position).end = end;
        *lock(&self.durable) = end;
        Ok(())
    }

    /// Appends a record, and returns its number. If it fails, the log is unchanged unless the
    /// process crashes.
    pub(super) fn append(&self, body: &[&[u8]]) -> Result<u64, Error> {
        let len = RECORD_HEAD + body.iter().map(|part| part.len()).sum::<usize>();
        assert!(len <= MAX_RECORD, "a record of {len} bytes");
        let mut record = Vec::with_capacity(len);
        record.extend_from_slice(&[0; 4]);
        record.extend_from_slice(&(len as u32).to_le_bytes());
        body.iter().for_each(|part| record.extend_from_slice(part));
        let mut position = lock(&self.position);
        if position.is_lost {
            return Err(Error::LogLost);
        }
        let lsn = position.end + len as u64;
        let sum = checksum(position.epoch, lsn, &record[4..]);
        record[..4].copy_from_slice(&sum.to_le_bytes());
        let at = RECORDS + (position.end - position.base);
        write_all(&self.file, &record, at)?;
        position.end = lsn;
        Ok(lsn)
    }

    /// Makes the log durable up to `lsn`. Concurrent callers wait, and mostly share one sync of the
    /// storage.
    pub(super) fn sync_to(&self, lsn: u64) -> Result<(), Error> {
        let mut durable = lock(&self.durable);
        if *durable < lsn {
            let end = lock(&self.position).end;
            self.file.sync_data()?;
            *durable = end;
        }
        Ok(())
    }

    /// Returns the number of the last record.
    pub(super) fn end(&self) -> u64 {
        lock(&self.position).end
    }

    /// Returns the number at which the records begin.
    pub(super) fn base(&self) -> u64 {
        lock(&self.position).base
    }

    /// Returns the length of the records in bytes.
    pub(super) fn len(&self) -> u64 {
        let position = lock(&self.position);
        position.end - position.base
    }

    /// Discards all records, after a checkpoint has made their pages durable.
    pub(super) fn restart(&self) -> Result<(), Error> {
        let mut durable = lock(&self.durable);
        let mut position = lock(&self.position);
        if position.is_lost {
            return Err(Error::LogLost);
        }
        let next = Position::new(position.epoch + 1, position.end);
        // If the write fails, the head may still become durable later, and would invalidate records
        // of the old epoch.
        position.is_lost = true;
        write_head(&self.file, self.tree_id, next)?;
        *position = next;
        *durable = next.end;
        Ok(())
    }
}
