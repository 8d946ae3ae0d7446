//! Reading ahead, by the file's own finding, or as its reader says.

use std::ops::Range;

use pagewell_frame::refcount::RefScheme;

use crate::api::file::File;
use crate::base::error::{Error, Op};
use crate::read::ahead::Advice;
use crate::read::prefetch::Prefetcher;

impl<S: RefScheme> File<S> {
    /// Begins to read the pages in `ranges` (of bytes) that are not in the cache, and does not wait for them; returns how many pages it has
    /// begun to read. All are under way at once.
    ///
    /// It is a hint: what would take waiting is not read, nor what is more than an eighth of the cache in one call, or past the end.
    /// If reading fails, nobody is told; who wants the page reads it, and gets the error.
    ///
    /// # Errors
    ///
    /// [`Forked`](crate::ErrorKind::Forked).
    ///
    /// ```
    /// # mod pagewell { pub use pagewell_cache::*; pub mod io { pub use pagewell_io::MemoryBackend; } }
    /// # let cache = pagewell::Cache::builder().build()?;
    /// # let file = cache.open_backend(pagewell::io::MemoryBackend::new(vec![7; 64 << 10]), "bytes")?;
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

    /// Says how the bytes in `range` are going to be read, as `posix_fadvise` does.
    ///
    /// [`Normal`](Advice::Normal), [`Sequential`](Advice::Sequential), [`Random`](Advice::Random) and [`Once`](Advice::Once) are said of the
    /// handle, whatever the range, and hold until something else is said; [`Soon`](Advice::Soon) and [`NotSoon`](Advice::NotSoon) are
    /// done at once.
    ///
    /// # Errors
    ///
    /// [`Forked`](crate::ErrorKind::Forked).
    pub fn advise(&self, range: Range<u64>, advice: Advice) -> Result<(), Error> {
        self.mapping().check_home(Op::Read)?;
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
