//! The log: records one behind the other, and how far they are durable.
//!
//! **Numbers.** A record's log sequence number is where the log ends with it, counted in bytes since the tree was made. It never becomes
//! smaller, however often the log is started over.
//!
//! **The file.** Two pages for the head, in turns, then the records. A head says from which number on there are records (`base`), and which
//! time this is (`epoch`). To start over is to write the next head: from then on records are written over the old ones. These are taken for none,
//! since the checksum of a record covers its epoch and its number.
//!
//! **Order.** A head is durable before the first record of its epoch is written. So at any time the newest good head has its records.
//!
//! **Locks.** `position`, and `durable` before it. Under both only the log's own file is used, so the hook of the data file may take them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pagewell::File;

use super::bytes::{Bytes, part};
use super::error::Error;
use super::node::PAGE;

const MAGIC: u64 = u64::from_le_bytes(*b"PwBtLog1");
/// Bytes of a head: the magic, the base, the epoch, the checksum.
const HEAD: usize = 28;
/// Where the records begin.
const RECORDS: u64 = 2 * PAGE as u64;
/// What a record has before its body: the checksum, the length of all of it.
const RECORD_HEAD: usize = 8;
/// The longest record: some pages.
const MAX_RECORD: usize = 8 * PAGE;

/// The log, open for writing.
pub(super) struct Log {
    file: File,
    position: Mutex<Position>,
    /// Up to where the log is durable.
    durable: Mutex<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Position {
    epoch: u64,
    base: u64,
    end: u64,
    /// Whether it is known which head is durable.
    is_sound: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Both are set by one store, behind what may fail.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The checksum of a record: of its epoch, its number, and its bytes behind the checksum.
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
        // What could not be written is told by the next write.
        done += file.write_at(&bytes[done..], at + done as u64)?;
    }
    Ok(())
}

fn read_head(file: &File, slot: u64) -> Result<Option<Position>, Error> {
    let mut bytes = [0; HEAD];
    if file.read_at(&mut bytes, slot * PAGE as u64)? < HEAD {
        return Ok(None);
    }
    let field = |at| bytes[..].u64(at).unwrap_or(0);
    let (base, epoch) = (field(8), field(16));
    let is_good =
        field(0) == MAGIC && bytes[24..] == checksum(epoch, base, &bytes[..8]).to_le_bytes();
    Ok(is_good.then_some(Position {
        epoch,
        base,
        end: base,
        is_sound: true,
    }))
}

/// Writes a head, and makes it durable.
fn write_head(file: &File, head: Position) -> Result<(), Error> {
    let mut bytes = [0; HEAD];
    bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[8..16].copy_from_slice(&head.base.to_le_bytes());
    bytes[16..24].copy_from_slice(&head.epoch.to_le_bytes());
    let sum = checksum(head.epoch, head.base, &bytes[..8]);
    bytes[24..].copy_from_slice(&sum.to_le_bytes());
    write_all(file, &bytes, head.epoch % 2 * PAGE as u64)?;
    Ok(file.sync_data()?)
}

/// Whether the file had a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Log,
    Nothing,
}

impl Log {
    /// Opens the log in `file`, or makes one. The records that it has are durable then, and are to be read by [`read`](Self::read) before
    /// any is added.
    pub(super) fn open(file: File) -> Result<(Log, Found), Error> {
        let heads = [read_head(&file, 0)?, read_head(&file, 1)?];
        let newest = heads.into_iter().flatten().max_by_key(|head| head.epoch);
        let found = match newest {
            Some(_) => Found::Log,
            None if file.size() > RECORDS => {
                return Err(Error::NoTree("the log has no good head"));
            }
            None => Found::Nothing,
        };
        let head = newest.unwrap_or(Position {
            epoch: 1,
            base: 0,
            end: 0,
            is_sound: true,
        });
        // Also one that was there: what is read now, the system may have in memory only. After this sync it is durable.
        write_head(&file, head)?;
        let log = Log {
            file,
            position: Mutex::new(head),
            durable: Mutex::new(head.end),
        };
        Ok((log, found))
    }

    /// Gives each record's number and body to `take`, in order, up to the first one that is missing or torn.
    pub(super) fn read(
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

    /// Adds a record; returns its number. If it fails nothing was added, as far as anybody who has not crashed can tell.
    pub(super) fn append(&self, body: &[&[u8]]) -> Result<u64, Error> {
        let len = RECORD_HEAD + body.iter().map(|part| part.len()).sum::<usize>();
        debug_assert!(len <= MAX_RECORD, "a record of {len} bytes");
        let mut record = Vec::with_capacity(len);
        record.extend_from_slice(&[0; 4]);
        record.extend_from_slice(&(len as u32).to_le_bytes());
        body.iter().for_each(|part| record.extend_from_slice(part));
        let mut position = lock(&self.position);
        if !position.is_sound {
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

    /// Makes the log durable up to `lsn`, if it is not. Threads that wait meanwhile find theirs done, most of them.
    pub(super) fn sync_to(&self, lsn: u64) -> Result<(), Error> {
        let mut durable = lock(&self.durable);
        if *durable < lsn {
            let end = lock(&self.position).end;
            self.file.sync_data()?;
            *durable = end;
        }
        Ok(())
    }

    /// The number of the last record.
    pub(super) fn end(&self) -> u64 {
        lock(&self.position).end
    }

    /// The number that the records begin at.
    pub(super) fn base(&self) -> u64 {
        lock(&self.position).base
    }

    /// How many bytes of records there are since the log was started over.
    pub(super) fn len(&self) -> u64 {
        let position = lock(&self.position);
        position.end - position.base
    }

    /// Starts the log over: what it has is not needed any more, since the pages are durable.
    pub(super) fn start_over(&self) -> Result<(), Error> {
        let mut durable = lock(&self.durable);
        let mut position = lock(&self.position);
        if !position.is_sound {
            return Err(Error::LogLost);
        }
        let next = Position {
            epoch: position.epoch + 1,
            base: position.end,
            ..*position
        };
        // If it fails, the storage may get this head later all the same; a record of the old epoch would be lost then.
        position.is_sound = false;
        write_head(&self.file, next)?;
        *position = next;
        *durable = next.end;
        Ok(())
    }
}

/// A part of a record's body, taken from its front.
pub(super) fn take<'b>(body: &mut &'b [u8], len: usize) -> Option<&'b [u8]> {
    let taken = part(body, 0, len).ok()?;
    *body = &body[len..];
    Some(taken)
}
