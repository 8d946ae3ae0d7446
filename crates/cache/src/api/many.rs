//! Reads at many places of a file in one call, prefetch and other hints.

use std::ops::Range;

use crate::api::file::File;
use crate::api::read::ThisCrate;
use crate::base::error::{Error, Op};
use crate::read::ahead::{Advice, Prefetcher};
use crate::read::many::{GROUP, ReadRequest};
use crate::read::reader::Reader;

/// Maximum number of missed requests whose missing pages are read together.
const MAX_OTHERS: usize = 512;

impl File {
    /// Performs many reads, each as [`read_at`](Self::read_at) does, in any order, with a
    /// [`result`](ReadRequest::result) for each. Sixteen hits at a time overlap their memory
    /// accesses, which is faster at random places of a large cache than one by one, but slower if
    /// the pages are in the processor's caches (`batch-16` of `bench read`). Missing pages are read
    /// concurrently, as far as the engine allows ([`Builder::engine`](crate::Builder::engine)).
    ///
    /// ```
    /// # mod pagewell { pub use pagewell_cache::*;
    /// #     pub mod io { pub use pagewell_io::MemoryBackend; } }
    /// use pagewell::{Cache, ReadRequest};
    /// # use pagewell::io::MemoryBackend;
    /// # let cache = Cache::builder().build()?;
    /// # let file = cache.open_backend(MemoryBackend::new((0..=255).collect()), "bytes")?;
    /// let mut buffers = [[0; 8]; 3];
    /// let mut requests: Vec<_> = [16, 200, 252]
    ///     .into_iter()
    ///     .zip(&mut buffers)
    ///     .map(|(offset, buf)| ReadRequest::new(offset, buf))
    ///     .collect();
    /// file.read_many(&mut requests);
    /// let lens = requests.into_iter().map(|request| request.result);
    /// assert_eq!(lens.collect::<Result<Vec<_>, _>>()?, [8, 8, 4]);
    /// assert_eq!(buffers[1], [200, 201, 202, 203, 204, 205, 206, 207]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_many(&self, requests: &mut [ReadRequest<'_>]) {
        for (nr, group) in requests.chunks_mut(GROUP).enumerate() {
            let missed = Reader(self.mapping()).read_group(group);
            if missed != 0 {
                return self.read_rest(&mut requests[nr * GROUP..], missed);
            }
        }
    }

    /// Performs the requests of the first group that have a bit in `missed`, and all later ones.
    #[cold]
    #[inline(never)]
    fn read_rest(&self, requests: &mut [ReadRequest<'_>], mut missed: u32) {
        // Reads a fixed number of requests at a time, and so allocates no memory.
        let mut others = [0; MAX_OTHERS];
        let mut nr_others = 0;
        let mut first = 0;
        loop {
            while missed != 0 {
                others[nr_others] = first + missed.trailing_zeros() as usize;
                nr_others += 1;
                missed &= missed - 1;
            }
            first += GROUP;
            let is_end = first >= requests.len();
            if is_end || nr_others + GROUP > MAX_OTHERS {
                self.read_others(requests, &others[..nr_others]);
                nr_others = 0;
            }
            if is_end {
                return;
            }
            let end = requests.len().min(first + GROUP);
            missed = Reader(self.mapping()).read_group(&mut requests[first..end]);
        }
    }

    fn read_others(&self, requests: &mut [ReadRequest<'_>], others: &[usize]) {
        let mut rest = others;
        while !rest.is_empty() {
            let nr = self.read_missing(requests, rest);
            let now;
            (now, rest) = rest.split_at(nr);
            for &at in now {
                let request = &mut requests[at];
                request.result = self.read_at_any::<ThisCrate>(request.buf, request.offset);
            }
        }
    }

    /// Reads missing pages of a prefix of `others`, and returns its length, at least one.
    fn read_missing(&self, requests: &[ReadRequest<'_>], others: &[usize]) -> usize {
        let is_home = self.mapping().check_home(Op::Read).is_ok();
        if others.len() == 1 || !is_home {
            return others.len();
        }
        let mut prefetcher = Prefetcher::new(self.mapping());
        let mut nr = 0;
        for &at in others {
            let request = &requests[at];
            let end = request.offset.saturating_add(request.buf.len() as u64);
            nr += 1;
            if !prefetcher.add(self.pages_of(request.offset..end)) {
                break;
            }
        }
        prefetcher.run();
        nr
    }
}

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
                self.sequence.set_advice(advice);
            }
            Advice::Soon => {
                self.prefetch(std::slice::from_ref(&range))?;
            }
            Advice::NotSoon => self.invalidate(range),
        }
        Ok(())
    }
}
