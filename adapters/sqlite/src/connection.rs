//! One connection's open database, which SQLite calls a file.

use std::ffi::c_int;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pagewell::File;

use crate::abi;
use crate::databases::{self, Database, DatabaseUser};
use crate::error::Failure;
use crate::locks::{Level, Locked};
use crate::pins::Pins;
use crate::process::Process;
use crate::shm::{Mapped, ShmHandle, ShmLocked};

#[derive(Debug)]
pub(crate) struct Connection {
    pins: Pins,
    database: DatabaseUser,
    /// Path by which this connection opened the database. Other connections may use other paths.
    path: Box<Path>,
    process: Process,
    level: Level,
    shm: ShmHandle,
    pub(crate) is_read_only: bool,
    pub(crate) keeps_wal: bool,
    pub(crate) is_power_safe: bool,
    /// Bytes from the start of the file that SQLite may fetch in place (`PRAGMA mmap_size`).
    pub(crate) mmap_size: i64,
    /// `errno` of the last failed call, for `SQLITE_FCNTL_LAST_ERRNO`.
    pub(crate) errno: i32,
}

#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum WasRead {
    All,
    /// The file ends before the end of the range. The rest of the buffer is zeros.
    Short,
}

/// Locks `mutex`, and ignores poisoning: a panic under this lock leaves no partial change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    pub(crate) fn new(
        database: DatabaseUser,
        path: &Path,
        is_read_only: bool,
        is_power_safe: bool,
    ) -> Self {
        Self {
            path: path.into(),
            pins: Pins::new(database.file.clone()),
            process: Process::this(),
            level: Level::None,
            shm: ShmHandle::default(),
            is_read_only: is_read_only || database.is_read_only(),
            keeps_wal: false,
            is_power_safe,
            mmap_size: 0,
            errno: 0,
            database,
        }
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// Returns `true` if the path now leads to another file, or to none.
    ///
    /// SQLite calls this at each close, but uses the result only before it writes a journal (with a
    /// lock for writing) or checkpoints a log (with the wal-index mapped). Only then are the files
    /// compared, by several system calls. Otherwise, as always with `nolock=1`, only the device and
    /// inode number are compared, as in the VFS for Unix.
    pub(crate) fn has_moved(&self) -> bool {
        if self.level > Level::Shared || self.shm.is_mapped() {
            self.database.has_moved(&self.path)
        } else {
            !self.database.has_number_at(&self.path)
        }
    }

    #[inline]
    pub(crate) fn file(&self) -> &File {
        self.pins.file()
    }

    /// Fails unless this process opened the connection.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<(), Failure> {
        self.process.check()
    }

    /// Closes the connection, and with the last one the database. In a child of the process that
    /// opened the connection, fails and releases nothing.
    pub(crate) fn close(mut self) -> Result<(), Failure> {
        if let Err(failure) = self.check_process() {
            std::mem::forget(self);
            return Err(failure);
        }
        lock(&self.database.shm).leave(&mut self.shm);
        lock(&self.database.locks).lower(&mut self.level, Level::None);
        let Self { pins, database, .. } = self;
        drop(pins);
        databases::close(database)
    }

    #[inline]
    pub(crate) fn read(&self, buf: &mut [u8], pos: u64) -> Result<WasRead, Failure> {
        let mut nr = 0;
        while nr < buf.len() {
            match self.file().read_at(&mut buf[nr..], pos + nr as u64) {
                Ok(0) => {
                    buf[nr..].fill(0);
                    return Ok(WasRead::Short);
                }
                Ok(more) => nr += more,
                Err(error) => return Err(Failure::of(&error, abi::IOERR_READ)),
            }
        }
        Ok(WasRead::All)
    }

    pub(crate) fn write(&self, bytes: &[u8], pos: u64) -> Result<(), Failure> {
        self.check_writable()?;
        let mut nr = 0;
        while nr < bytes.len() {
            nr += self
                .file()
                .write_at(&bytes[nr..], pos + nr as u64)
                .map_err(|error| Failure::of(&error, abi::IOERR_WRITE))?;
        }
        Ok(())
    }

    pub(crate) fn truncate(&self, size: u64) -> Result<(), Failure> {
        self.check_writable()?;
        if self.database.take_behind() {
            self.end_checkpoint()?;
        }
        self.file()
            .set_size(size)
            .map_err(|error| Failure::of(&error, abi::IOERR_TRUNCATE))
    }

    /// Writes all dirty pages to the operating system, so that they survive this process.
    pub(crate) fn flush(&self) -> Result<(), Failure> {
        if self.is_read_only {
            return Ok(());
        }
        Database::flush(self.file()).map_err(|error| Failure::of(&error, abi::IOERR_WRITE))
    }

    /// Flushes at the end of a checkpoint. SQLite ignores the error, so it is recorded: before
    /// SQLite discards the log, it truncates the file, and `truncate` retries the flush.
    pub(crate) fn end_checkpoint(&self) -> Result<(), Failure> {
        self.flush().inspect_err(|_| self.database.note_behind())
    }

    pub(crate) fn sync(&self, flags: c_int) -> Result<(), Failure> {
        if self.is_read_only {
            return Ok(());
        }
        let sync = || match flags & abi::SYNC_DATAONLY {
            0 => self.file().sync_all(),
            _ => self.file().sync_data(),
        };
        // A failed sync leaves the pages dirty. If the second one succeeds, all writes are durable.
        sync()
            .or_else(|_| sync())
            .map_err(|error| Failure::of(&error, abi::IOERR_FSYNC))
    }

    pub(crate) fn level(&self) -> Level {
        self.level
    }

    pub(crate) fn raise(&mut self, wanted: Level) -> Locked {
        lock(&self.database.locks).raise(&mut self.level, wanted)
    }

    pub(crate) fn lower(&mut self, wanted: Level) {
        lock(&self.database.locks).lower(&mut self.level, wanted);
    }

    pub(crate) fn is_reserved(&self) -> bool {
        lock(&self.database.locks).is_reserved()
    }

    pub(crate) fn shm_map(&mut self, nr: usize, bytes: usize, may_grow: bool) -> Mapped {
        lock(&self.database.shm).map(&mut self.shm, nr, bytes, may_grow)
    }

    pub(crate) fn shm_lock(
        &mut self,
        first: usize,
        nr: usize,
        flags: c_int,
    ) -> Result<ShmLocked, Failure> {
        lock(&self.database.shm)
            .lock(&mut self.shm, first, nr, flags)
            .map_err(|_| {
                Failure::new(
                    abi::MISUSE,
                    format!(
                        "cannot lock or unlock the wal-index: invalid request for {nr} locks from \
                         {first}, flags {flags}"
                    ),
                )
            })
    }

    /// Orders earlier accesses of this connection to the wal-index before later ones.
    pub(crate) fn shm_barrier(&self) {
        // ORDERING: SeqCst, as in SQLite's VFS for Unix, which also orders earlier stores before
        // later loads. Pairs with the barrier of another connection, or with the lock below.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        drop(lock(&self.database.shm));
    }

    pub(crate) fn shm_unmap(&mut self) {
        lock(&self.database.shm).leave(&mut self.shm);
    }

    /// Pins the page with the `len` bytes at `pos`, and returns their address. Returns `None` if
    /// they end after `mmap_size`, are not in one page of the cache, or cannot be pinned.
    #[inline]
    pub(crate) fn fetch(&mut self, pos: u64, len: usize) -> Option<NonNull<u8>> {
        if pos.checked_add(len as u64)? > self.mmap_size.cast_unsigned() {
            return None;
        }
        let page_size = self.file().page_size() as u64;
        let (page, off) = (pos / page_size, (pos % page_size) as usize);
        self.pins.fetch(page, off, len)
    }

    #[inline]
    pub(crate) fn give_back(&mut self, start: NonNull<u8>) -> bool {
        self.pins.give_back(start)
    }

    pub(crate) fn statistics(&self) -> String {
        self.database.statistics(self.pins.nr_all())
    }

    pub(crate) fn nr_fetched(&self) -> usize {
        self.pins.nr_fetched()
    }

    fn check_writable(&self) -> Result<(), Failure> {
        match self.is_read_only {
            true => Err(Failure::new(
                abi::READONLY,
                format!(
                    "cannot write {}: the connection is read-only",
                    self.path.display()
                ),
            )),
            false => Ok(()),
        }
    }
}
