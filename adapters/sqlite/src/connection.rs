//! One connection's open database: what SQLite calls a file.

use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pagewell::File;

use crate::abi;
use crate::databases::{self, Database};
use crate::error::Failure;
use crate::locks::{Level, Locked};
use crate::pins::Pins;
use crate::process::Process;
use crate::shm::{Mapped, ShmHandle, ShmLocked};

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pins: Pins,
    database: Arc<Database>,
    process: Process,
    level: Level,
    shm: ShmHandle,
    pub(crate) is_read_only: bool,
    pub(crate) keeps_wal: bool,
    pub(crate) is_power_safe: bool,
    /// How much of the file may be fetched, from its start on (`PRAGMA mmap_size`).
    pub(crate) mmap_size: i64,
    /// Of the system's last error, for `SQLITE_FCNTL_LAST_ERRNO`.
    pub(crate) errno: i32,
}

/// What a read came to.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum WasRead {
    All,
    /// The file ends before; zeros are in the place of the rest.
    Short,
}

/// A panic while it was held has left whole words: nothing is called in between.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    pub(crate) fn new(database: Arc<Database>, is_read_only: bool, is_power_safe: bool) -> Self {
        Self {
            pins: Pins::new(database.file.clone()),
            process: Process::this(),
            level: Level::None,
            shm: ShmHandle::default(),
            is_read_only: is_read_only || database.is_read_only,
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

    #[inline]
    pub(crate) fn file(&self) -> &File {
        self.pins.file()
    }

    /// Fails in a child of the process that has opened it.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<(), Failure> {
        self.process.check()
    }

    /// Gives everything back; the last connection closes the database. In a child nothing is given back: it is the parent's.
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

    /// Gives everything that was written to the operating system, so that it survives this process.
    pub(crate) fn flush(&self) -> Result<(), Failure> {
        if self.is_read_only {
            return Ok(());
        }
        Database::flush(self.file()).map_err(|error| Failure::of(&error, abi::IOERR_WRITE))
    }

    /// As [`flush`](Self::flush), at the end of a checkpoint. SQLite does not look at what comes of that; but it then cuts the file to its size before it forgets the log, so a failure
    /// is told there.
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
        // What has failed is dirty again, and is written again by the next sync: if that succeeds, everything is durable, and there is no error left.
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
                    format!("locks {first}, {nr} of them, flags {flags}"),
                )
            })
    }

    /// What one connection has written to the memory of the log's index before, others see after it.
    pub(crate) fn shm_barrier(&self) {
        // ORDERING: SeqCst, as SQLite's VFS for Unix has it: stores before and loads after are not exchanged either. Its partner is the same
        // barrier of another connection, or the lock of the memory's locks.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        drop(lock(&self.database.shm));
    }

    pub(crate) fn shm_unmap(&mut self) {
        lock(&self.database.shm).leave(&mut self.shm);
    }

    /// The `len` bytes from `pos` on where they are, if they are in one page of the cache.
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

    /// What is known of the cache, the database and this connection, as an object of JSON.
    pub(crate) fn statistics(&self) -> String {
        self.database.statistics(self.pins.nr_all())
    }

    pub(crate) fn nr_fetched(&self) -> usize {
        self.pins.nr_fetched()
    }

    fn check_writable(&self) -> Result<(), Failure> {
        match self.is_read_only {
            true => Err(Failure::new(abi::READONLY, "open for reading only")),
            false => Ok(()),
        }
    }
}
