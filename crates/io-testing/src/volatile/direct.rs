//! Direct transfers of a simulated file, with the code for the partial blocks of real files.

use std::io;

use pagewell_io::Transfers;
use pagewell_io::engine::Span;
use pagewell_io::testing::{Blocks, Gate, are_aligned, read_blocks, write_blocks};
use pagewell_sync::bytes::{RacyBytes, RacySource};

/// Direct transfers of one simulated file, in whole blocks.
#[derive(Debug)]
pub(super) struct DirectTransfers {
    unit: usize,
    gate: Gate,
}

impl DirectTransfers {
    /// Creates transfers in blocks of `unit` bytes, a power of two from 512 to 4096.
    pub(super) fn new(unit: usize) -> Self {
        let gate = Gate::default();
        Self { unit, gate }
    }

    /// Returns the number of bytes of a block.
    pub(super) fn unit(&self) -> usize {
        self.unit
    }

    /// Returns the kind of the transfers, for [`Backend`](pagewell_io::Backend).
    pub(super) fn transfers(&self) -> Transfers {
        let alignment = self.unit;
        Transfers::Direct { alignment }
    }

    /// Performs [`Backend::read_at`](pagewell_io::Backend::read_at) of `file`.
    pub(super) fn read(
        &self,
        file: &impl Blocks,
        bufs: &[RacyBytes<'_>],
        pos: u64,
    ) -> io::Result<usize> {
        read_blocks(file, bufs, pos, self.unit)
    }

    /// Performs [`Backend::write_at`](pagewell_io::Backend::write_at) of `file`.
    pub(super) fn write(
        &self,
        file: &impl Blocks,
        bufs: &[RacySource<'_>],
        pos: u64,
    ) -> io::Result<()> {
        write_blocks(file, &self.gate, bufs, pos, self.unit)
    }

    /// Calls `size` while no partial block is being written.
    pub(super) fn size(&self, size: impl FnOnce() -> io::Result<u64>) -> io::Result<u64> {
        let _shared = self.gate.share();
        size()
    }

    /// Calls `set_size` while nothing is being written.
    pub(super) fn set_size(&self, set_size: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let _alone = self.gate.alone();
        set_size()
    }

    /// Fails with `EINVAL`, as the system does, unless the transfer is one of whole blocks.
    pub(super) fn check<'a>(
        &self,
        bufs: &[impl Into<RacySource<'a>> + Copy],
        pos: u64,
    ) -> io::Result<()> {
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
