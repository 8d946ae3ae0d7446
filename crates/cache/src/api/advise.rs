use std::ops::Range;

use crate::api::file::File;
use crate::base::error::{Error, Op};
use crate::read::ahead::Advice;
use crate::read::prefetch::Prefetcher;

impl File {
    /// Starts concurrent reads of the pages in `ranges` (of bytes) that are not cached, without
    /// waiting for them. Returns the number of pages whose read was started.
    ///
    /// A hint: the call reads no page past the end of the file, and at most an eighth of the cache.
    /// The first missing page for which memory (a budget reservation, an index leaf or a frame) is
    /// not available at once ends the whole call: that page and all later ones are not read. A
    /// failed read is not reported; a later read of the page tries again.
    ///
    /// # Errors
    ///
    /// [`Forked`](crate::ErrorKind::Forked); [`Deadlock`](crate::ErrorKind::Deadlock) in a codec.
    ///
    /// ```
    /// # mod pagewell { pub use pagewell_cache::*;
    /// #     pub mod io { pub use pagewell_io::MemoryBackend; } }
    /// # let cache = pagewell::Cache::builder().build()?;
    /// # let bytes = pagewell::io::MemoryBackend::new(vec![7; 64 << 10]);
    /// # let file = cache.open_backend(bytes, "bytes")?;
    /// // The tables of contents of two segments, which are read next.
    /// assert_eq!(file.prefetch(&[0..4096, 32768..40000])?, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prefetch(&self, ranges: &[Range<u64>]) -> Result<usize, Error> {
        self.mapping().check_home(Op::Read)?;
        let mut prefetcher = Prefetcher::new(self.mapping());
        for range in ranges {
            if !prefetcher.add(self.pages_of(range.clone())) {
                break;
            }
        }
        Ok(prefetcher.submit())
    }

    /// Declares how the bytes in `range` will be read, as `posix_fadvise` does.
    ///
    /// [`Normal`](Advice::Normal), [`Sequential`](Advice::Sequential), [`Random`](Advice::Random)
    /// and [`Once`](Advice::Once) apply to the handle, whatever the range, until one of them is
    /// declared again. [`Soon`](Advice::Soon) and [`NotSoon`](Advice::NotSoon) take effect at once.
    ///
    /// # Errors
    ///
    /// [`Forked`](crate::ErrorKind::Forked); [`Deadlock`](crate::ErrorKind::Deadlock) in a codec.
    pub fn advise(&self, range: Range<u64>, advice: Advice) -> Result<(), Error> {
        let op = match advice {
            Advice::NotSoon => Op::Invalidate,
            _ => Op::Read,
        };
        self.mapping().check_home(op)?;
        match advice {
            Advice::Normal | Advice::Sequential | Advice::Random | Advice::Once => {
                self.sequence().set_advice(advice);
            }
            Advice::Soon => {
                self.prefetch(std::slice::from_ref(&range))?;
            }
            Advice::NotSoon => self.invalidate(range),
        }
        Ok(())
    }
}
