//! Direct transfers of a simulated file, with the code for the partial blocks of real files.

use std::io;

use pagewell_sync::bytes::{RacyBytes, RacySource};

use super::blocks::{self, Blocks, are_aligned};
use super::gate::Gate;
use crate::backend::{Span, Transfers};

/// Direct transfers of one simulated file, in whole blocks.
#[derive(Debug)]
pub struct DirectTransfers {
    unit: usize,
    gate: Gate,
}

impl DirectTransfers {
    /// Creates transfers in blocks of `unit` bytes, a power of two from 512 to 4096.
    #[must_use]
    pub fn new(unit: usize) -> Self {
        let gate = Gate::default();
        Self { unit, gate }
    }

    /// Returns the number of bytes of a block.
    #[must_use]
    pub fn unit(&self) -> usize {
        self.unit
    }

    /// Returns the kind of the transfers, for [`Backend`](crate::Backend).
    #[must_use]
    pub fn transfers(&self) -> Transfers {
        let alignment = self.unit;
        Transfers::Direct { alignment }
    }

    /// Performs [`Backend::read_at`](crate::Backend::read_at) of `file`.
    pub fn read(&self, file: &impl Blocks, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        blocks::read(file, bufs, pos, self.unit)
    }

    /// Performs [`Backend::write_at`](crate::Backend::write_at) of `file`.
    pub fn write(&self, file: &impl Blocks, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
        blocks::write(file, &self.gate, bufs, pos, self.unit)
    }

    /// Calls `size` while no partial block is being written.
    pub fn size(&self, size: impl FnOnce() -> io::Result<u64>) -> io::Result<u64> {
        let _shared = self.gate.share();
        size()
    }

    /// Calls `set_size` while nothing is being written.
    pub fn set_size(&self, set_size: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let _alone = self.gate.alone();
        set_size()
    }

    /// Fails with `EINVAL`, as the system does, unless the transfer is one of whole blocks.
    pub fn check<'a>(&self, bufs: &[impl Into<RacySource<'a>> + Copy], pos: u64) -> io::Result<()> {
        match are_aligned(
            bufs.iter().map(|buf| Span::from((*buf).into())),
            pos,
            self.unit,
        ) {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        }
    }
}
