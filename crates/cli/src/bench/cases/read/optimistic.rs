//! The cache's optimistic read: it writes nothing that threads share.

use pagewell::refcount::RefScheme;
use pagewell::{Error, File};

use super::reader::Reader;

/// Reads with `read_at`.
pub(super) struct Optimistic<S: RefScheme>(pub(super) File<S>);

impl<S: RefScheme> Reader for Optimistic<S> {
    type Error = Error;

    #[inline(always)]
    fn read(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.0.read_at(buf, offset)
    }
}
