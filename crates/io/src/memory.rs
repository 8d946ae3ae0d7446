//! Bytes in memory.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use pagewell_sync::bytes::RacyBytes;

use crate::{Backend, FileId};

/// The device number that the backends in memory share: no device of the system has it.
const DEVICE: u64 = u64::MAX;

/// A file that is a vector of bytes; each is a file of its own.
#[derive(Debug)]
pub struct MemoryBackend {
    bytes: RwLock<Vec<u8>>,
    id: FileId,
}

impl MemoryBackend {
    /// A file with these bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            bytes: RwLock::new(bytes),
            id: FileId {
                device: DEVICE,
                // ORDERING: Relaxed; only the uniqueness of the number matters.
                inode: NEXT.fetch_add(1, Ordering::Relaxed),
            },
        }
    }

    /// Changes the bytes behind the back of whoever caches them, as another process could.
    pub fn modify(&self, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.bytes.write().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Backend for MemoryBackend {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        let bytes = self.bytes.read().unwrap_or_else(PoisonError::into_inner);
        let start = usize::try_from(pos).map_or(bytes.len(), |pos| pos.min(bytes.len()));
        let mut rest = &bytes[start..];
        let mut done = 0;
        for buf in bufs {
            let (now, later) = rest.split_at(buf.len().min(rest.len()));
            buf.copy_from(0, now);
            done += now.len();
            rest = later;
        }
        Ok(done)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self
            .bytes
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .len() as u64)
    }

    fn id(&self) -> FileId {
        self.id
    }
}
