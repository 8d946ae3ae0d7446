//! The system call.

use std::fs::File;

use rustix::io::Errno;

use super::reader::Reader;

/// Reads with `pread`, without a C library between.
pub(super) struct Pread(pub(super) File);

impl Reader for Pread {
    type Error = Errno;

    #[inline(always)]
    fn read(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        rustix::io::pread(&self.0, buf, offset)
    }
}
