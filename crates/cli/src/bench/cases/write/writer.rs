//! The engines of `bench write`: ways to change bytes of a file that is in memory.
//!
//! All stand in the same loops, with the same positions and bytes.

use std::fmt::Display;
use std::fs::{self, File};
use std::io;

use rustix::io::Errno;

use crate::bench::data::{DataFile, MappedMut};
use crate::failure::Failure;

/// A way to write to a file.
pub(super) trait Writer: Send {
    type Error: Display;

    /// Writes `bytes` from `at` on, counted from the start of the writer's part; returns how many.
    fn write(&mut self, bytes: &[u8], at: u64) -> Result<usize, Self::Error>;

    /// Makes what was written durable.
    fn sync(&mut self) -> Result<(), Self::Error>;
}

/// A way to write at the end of a file.
pub(super) trait Appender: Send {
    type Error: Display;

    /// Writes `bytes` at the end; returns how many.
    fn append(&mut self, bytes: &[u8]) -> Result<usize, Self::Error>;

    /// Makes what was written durable.
    fn sync(&mut self) -> Result<(), Self::Error>;

    /// Makes the file empty.
    fn cut(&mut self) -> Result<(), Self::Error>;
}

/// Writes through the cache.
pub(super) struct Cached {
    file: pagewell::File,
    start: u64,
}

impl Cached {
    pub(super) fn new(file: pagewell::File, start: u64) -> Self {
        Self { file, start }
    }
}

impl Writer for Cached {
    type Error = pagewell::Error;

    #[inline(always)]
    fn write(&mut self, bytes: &[u8], at: u64) -> Result<usize, pagewell::Error> {
        self.file.write_at(bytes, self.start + at)
    }

    fn sync(&mut self) -> Result<(), pagewell::Error> {
        self.file.sync_data()
    }
}

impl Appender for Cached {
    type Error = pagewell::Error;

    #[inline(always)]
    fn append(&mut self, bytes: &[u8]) -> Result<usize, pagewell::Error> {
        self.file.append(bytes)?;
        Ok(bytes.len())
    }

    fn sync(&mut self) -> Result<(), pagewell::Error> {
        self.file.sync_data()
    }

    fn cut(&mut self) -> Result<(), pagewell::Error> {
        self.file.set_size(0)
    }
}

/// The system calls, without a C library between. Every worker opens the file for itself, as separate tasks would.
pub(super) struct Pwrite {
    file: File,
    start: u64,
}

impl Pwrite {
    pub(super) fn new(data: &DataFile, start: u64) -> Result<Pwrite, Failure> {
        Pwrite::open(data, fs::OpenOptions::new().write(true), start)
    }

    /// Every write goes to the end of the file.
    pub(super) fn to_the_end(data: &DataFile) -> Result<Pwrite, Failure> {
        Pwrite::open(data, fs::OpenOptions::new().append(true), 0)
    }

    fn open(data: &DataFile, how: &fs::OpenOptions, start: u64) -> Result<Pwrite, Failure> {
        let file = how.open(&data.path).map_err(|error| {
            Failure::because(format_args!("cannot open {} again", data.label), error)
        })?;
        Ok(Pwrite { file, start })
    }
}

impl Writer for Pwrite {
    type Error = Errno;

    #[inline(always)]
    fn write(&mut self, bytes: &[u8], at: u64) -> Result<usize, Errno> {
        rustix::io::pwrite(&self.file, bytes, self.start + at)
    }

    fn sync(&mut self) -> Result<(), Errno> {
        rustix::fs::fdatasync(&self.file)
    }
}

impl Appender for Pwrite {
    type Error = Errno;

    #[inline(always)]
    fn append(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        rustix::io::write(&self.file, bytes)
    }

    fn sync(&mut self) -> Result<(), Errno> {
        rustix::fs::fdatasync(&self.file)
    }

    fn cut(&mut self) -> Result<(), Errno> {
        rustix::fs::ftruncate(&self.file, 0)
    }
}

/// Copies to the mapped bytes of a part of a file. The bounds are checked, as in any safe program.
pub(super) struct Mapping {
    map: MappedMut,
    /// Where the end of what was appended is.
    end: usize,
}

impl Mapping {
    pub(super) fn new(map: MappedMut) -> Mapping {
        Mapping { map, end: 0 }
    }

    #[inline(always)]
    fn copy(&mut self, bytes: &[u8], at: usize) -> Result<usize, io::Error> {
        match self.map.bytes().get_mut(at..at.wrapping_add(bytes.len())) {
            Some(place) => {
                place.copy_from_slice(bytes);
                Ok(bytes.len())
            }
            None => Err(io::ErrorKind::FileTooLarge.into()),
        }
    }
}

impl Writer for Mapping {
    type Error = io::Error;

    #[inline(always)]
    fn write(&mut self, bytes: &[u8], at: u64) -> Result<usize, io::Error> {
        self.copy(bytes, at as usize)
    }

    fn sync(&mut self) -> Result<(), io::Error> {
        self.map.sync()
    }
}

impl Appender for Mapping {
    type Error = io::Error;

    #[inline(always)]
    fn append(&mut self, bytes: &[u8]) -> Result<usize, io::Error> {
        let nr = self.copy(bytes, self.end)?;
        self.end += nr;
        Ok(nr)
    }

    fn sync(&mut self) -> Result<(), io::Error> {
        self.map.sync()
    }

    fn cut(&mut self) -> Result<(), io::Error> {
        self.end = 0;
        Ok(())
    }
}

#[cold]
pub(super) fn wrong_length(wanted: usize, at: u64, did: usize) -> String {
    format!("a write of {wanted} bytes at offset {at} of a part wrote {did} bytes")
}

#[cold]
pub(super) fn failed(wanted: usize, at: u64, error: &dyn Display) -> String {
    format!("a write of {wanted} bytes at offset {at} of a part failed: {error}")
}

#[cold]
pub(super) fn not_synced(error: &dyn Display) -> String {
    format!("a sync failed: {error}")
}
