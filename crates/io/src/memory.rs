//! A file in memory.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use pagewell_sync::bytes::{RacyBytes, RacySource};

use crate::backend::{Backend, FileId, gather, read_only, scatter, too_large, total_len};

/// Device number of every [`MemoryBackend`]. No device of the system has it.
const DEVICE: u64 = u64::MAX;

/// A file as a vector of bytes. Each backend is a separate file. A successful sync is only counted.
#[derive(Debug)]
pub struct MemoryBackend {
    bytes: RwLock<Vec<u8>>,
    id: FileId,
    /// Number of bytes to which the file may grow. `None`: the file is read-only.
    limit: Option<usize>,
    nr_syncs: AtomicU64,
}

impl MemoryBackend {
    /// Creates a read-only file with these bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self::with_limit(bytes, None)
    }

    /// Creates a writable file with these bytes. It may grow as long as memory is available.
    pub fn writable(bytes: Vec<u8>) -> Self {
        Self::writable_up_to(isize::MAX.cast_unsigned(), bytes)
    }

    /// Creates a writable file as on a device that is full at `limit` bytes: a call that would
    /// extend the file further fails, in general with [`io::ErrorKind::StorageFull`].
    pub fn writable_up_to(limit: usize, bytes: Vec<u8>) -> Self {
        Self::with_limit(bytes, Some(limit))
    }

    fn with_limit(bytes: Vec<u8>, limit: Option<usize>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            bytes: RwLock::new(bytes),
            id: FileId {
                device: DEVICE,
                // ORDERING: Relaxed; only the uniqueness of the number matters.
                inode: NEXT.fetch_add(1, Ordering::Relaxed),
            },
            limit,
            nr_syncs: AtomicU64::new(0),
        }
    }

    /// Changes the bytes without notifying a cache, as another process would.
    pub fn modify(&self, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.exclusive());
    }

    /// Returns the number of successful syncs of either kind.
    pub fn nr_syncs(&self) -> u64 {
        // ORDERING: Relaxed; the count is a statistic and orders nothing.
        self.nr_syncs.load(Ordering::Relaxed)
    }

    fn shared(&self) -> RwLockReadGuard<'_, Vec<u8>> {
        self.bytes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn exclusive(&self) -> RwLockWriteGuard<'_, Vec<u8>> {
        self.bytes.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn limit(&self) -> io::Result<usize> {
        self.limit.ok_or_else(read_only)
    }

    fn sync(&self) -> io::Result<()> {
        self.limit()?;
        // ORDERING: Relaxed; the count is a statistic and orders nothing.
        self.nr_syncs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Extends `bytes` to `len`, which exceeds their length. After an error, they are unchanged.
fn grow(bytes: &mut Vec<u8>, len: usize, limit: usize) -> io::Result<()> {
    if len > limit {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let more = len - bytes.len();
    bytes
        .try_reserve(more)
        .map_err(|_| io::ErrorKind::OutOfMemory)?;
    bytes.resize(len, 0);
    Ok(())
}

fn file_size(end: u64) -> io::Result<usize> {
    let end = i64::try_from(end).map_err(|_| too_large())?;
    usize::try_from(end).map_err(|_| too_large())
}

impl Backend for MemoryBackend {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        let bytes = self.shared();
        // Under loom, other threads may run during the copy, and would wait for this lock forever.
        #[cfg(loom)]
        let bytes = {
            let copy = bytes.clone();
            drop(bytes);
            copy
        };
        let start = usize::try_from(pos).map_or(bytes.len(), |pos| pos.min(bytes.len()));
        let rest = &bytes[start..];
        scatter(rest, bufs);
        Ok(total_len(bufs).min(rest.len()))
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.shared().len() as u64)
    }

    fn id(&self) -> FileId {
        self.id
    }

    fn is_writable(&self) -> bool {
        self.limit.is_some()
    }

    fn write_at(&self, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
        let limit = self.limit()?;
        // Copy before the lock is acquired, for the reason given in `read_at`.
        let new = gather(bufs);
        if new.is_empty() {
            return Ok(());
        }
        let end = file_size(pos.checked_add(new.len() as u64).ok_or_else(too_large)?)?;
        let mut bytes = self.exclusive();
        if end > bytes.len() {
            grow(&mut bytes, end, limit)?;
        }
        bytes[end - new.len()..end].copy_from_slice(&new);
        Ok(())
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        let limit = self.limit()?;
        let size = file_size(size)?;
        let mut bytes = self.exclusive();
        if size > bytes.len() {
            return grow(&mut bytes, size, limit);
        }
        bytes.truncate(size);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }
}
