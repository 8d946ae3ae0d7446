//! The cache's optimistic read: it writes nothing that threads share.

use pagewell::{Error, File};

use super::reader::Reader;

/// Reads with `read_at`.
pub(super) struct Optimistic(pub(super) File);

impl Reader for Optimistic {
    type Error = Error;

    #[inline(always)]
    fn read(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.0.read_at(buf, offset)
    }
}
