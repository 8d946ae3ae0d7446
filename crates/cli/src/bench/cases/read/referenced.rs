//! The cache's referenced read, with either scheme of counting.

use pagewell::refcount::RefScheme;
use pagewell::{Error, File};

use super::reader::Reader;

/// Reads with `read_at_referenced`.
pub(super) struct Referenced<S: RefScheme>(pub(super) File<S>);

impl<S: RefScheme> Reader for Referenced<S> {
    type Error = Error;

    #[inline(always)]
    fn read(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.0.read_at_referenced(buf, offset)
    }
}
