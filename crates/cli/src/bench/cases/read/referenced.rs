//! The cache's referenced read, with either scheme of counting.

use super::reader::Reader;

/// Reads with `read_at_referenced`.
pub(super) struct Referenced<F>(pub(super) F);

/// Implements the read on the files of one copy of the cache.
macro_rules! impl_reader {
    ($cache:ident) => {
        impl Reader for Referenced<$cache::File> {
            type Error = $cache::Error;

            #[inline(always)]
            fn read(&self, buf: &mut [u8], offset: u64) -> Result<usize, Self::Error> {
                self.0.read_at_referenced(buf, offset)
            }
        }
    };
}

impl_reader!(pagewell);
impl_reader!(pagewell_cache_cas);
