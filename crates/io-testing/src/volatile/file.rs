//! The backend of a file on a volatile device.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pagewell_io::testing::{Blocks, MOST_BYTES, gather, scatter, too_large, total_len};
use pagewell_io::{Backend, FileId, Transfers};
use pagewell_sync::bytes::{RacyBytes, RacySource};

use super::direct::DirectTransfers;
use super::state::{Shared, SyncNames};

/// A file of a [`VolatileDevice`](crate::VolatileDevice), open for reading and writing.
#[derive(Debug)]
pub struct VolatileFile {
    device: Shared,
    id: FileId,
    /// Whether the next sync includes the directory. Locked in a sync, before the device's lock.
    names: Mutex<SyncNames>,
    direct: Option<DirectTransfers>,
    is_changed: AtomicBool,
}

impl VolatileFile {
    pub(super) fn new(device: Shared, id: FileId, alignment: Option<usize>) -> Self {
        Self {
            device,
            id,
            names: Mutex::new(SyncNames::Too),
            direct: alignment.map(DirectTransfers::new),
            is_changed: AtomicBool::new(false),
        }
    }

    fn names(&self) -> MutexGuard<'_, SyncNames> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sync(&self) -> io::Result<()> {
        let mut names = self.names();
        self.device.sync(self.id.inode, *names)?;
        *names = SyncNames::Not;
        Ok(())
    }
}

impl VolatileFile {
    fn read_now(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        let len = total_len(bufs);
        // Copy to `bufs` after the device's lock is released: under loom, other threads may run
        // during that copy, and would wait for the lock.
        let bytes = self
            .device
            .look(self.id.inode, |content| content.read(pos, len))?;
        scatter(&bytes, bufs);
        Ok(bytes.len())
    }

    fn write_now(&self, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
        // ORDERING: Relaxed; the flag publishes no other memory.
        self.is_changed.store(true, Ordering::Relaxed);
        let bytes = gather(bufs);
        if bytes.is_empty() {
            return Ok(());
        }
        if MOST_BYTES.saturating_sub(pos) < bytes.len() as u64 {
            return Err(too_large());
        }
        self.device
            .change(self.id.inode, |content| content.write(pos, &bytes))
    }

    fn size_now(&self) -> io::Result<u64> {
        self.device.look(self.id.inode, |content| content.size())
    }

    fn set_size_now(&self, size: u64) -> io::Result<()> {
        // ORDERING: Relaxed, as in `write_now`.
        self.is_changed.store(true, Ordering::Relaxed);
        if size > MOST_BYTES {
            return Err(too_large());
        }
        self.device
            .change(self.id.inode, |content| content.set_size(size))
    }
}

impl Blocks for VolatileFile {
    fn read(&self, bufs: &[RacyBytes<'_>], pos: u64, _: usize) -> io::Result<usize> {
        if let Some(direct) = &self.direct {
            direct.check(bufs, pos)?;
        }
        self.read_now(bufs, pos)
    }

    fn write(&self, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
        if let Some(direct) = &self.direct {
            direct.check(bufs, pos)?;
        }
        self.write_now(bufs, pos)
    }

    fn size_if_any(&self) -> io::Result<Option<u64>> {
        self.size_now().map(Some)
    }

    fn set_size_apart(&self, size: u64) -> io::Result<()> {
        // The lock is released before `set_size_now`, which acquires it again.
        let keeps_padding = self.device.lock().keeps_padding;
        match keeps_padding {
            true => Ok(()),
            false => self.set_size_now(size),
        }
    }

    fn ends_at(&self, pos: u64) -> bool {
        self.size_now().is_ok_and(|size| size <= pos)
    }
}

impl Backend for VolatileFile {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        match &self.direct {
            Some(direct) => direct.read(self, bufs, pos),
            None => self.read_now(bufs, pos),
        }
    }

    fn size(&self) -> io::Result<u64> {
        match &self.direct {
            Some(direct) => direct.size(|| self.size_now()),
            None => self.size_now(),
        }
    }

    fn id(&self) -> FileId {
        self.id
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write_at(&self, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
        match &self.direct {
            Some(direct) => direct.write(self, bufs, pos),
            None => self.write_now(bufs, pos),
        }
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        match &self.direct {
            Some(direct) => direct.set_size(|| self.set_size_now(size)),
            None => self.set_size_now(size),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }

    fn alignment(&self) -> usize {
        self.direct.as_ref().map_or(1, DirectTransfers::unit)
    }

    fn is_as_found(&self) -> bool {
        // An empty file may have been created by the open.
        // ORDERING: Relaxed, as in `write_now`.
        !self.is_changed.load(Ordering::Relaxed) && self.size_now().is_ok_and(|size| size != 0)
    }

    fn file_transfers(&self) -> Option<Transfers> {
        self.direct.as_ref().map(DirectTransfers::transfers)
    }
}
