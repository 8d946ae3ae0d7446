//! The crate `quick_cache`, as programs use it: pages by their number, read in when they are missing.

use std::fs::File;
use std::sync::Arc;

use quick_cache::sync::Cache;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;

use crate::bench::cases::read::reader::Reader;

/// A cache of pages.
pub(super) struct Pages {
    cache: Cache<u64, Arc<Vec<u8>>>,
    page_shift: u32,
}

impl Pages {
    /// Room for `nr` pages of this size, which is a power of two.
    pub(super) fn new(nr: usize, page_size: usize) -> Pages {
        Pages {
            cache: Cache::new(nr),
            page_shift: page_size.trailing_zeros(),
        }
    }

    /// How many pages there are.
    #[cfg(test)]
    pub(super) fn nr(&self) -> usize {
        self.cache.len()
    }

    /// The bytes of a page, fewer at the end of the file.
    fn read(&self, file: &File, page: u64) -> Result<Arc<Vec<u8>>, Errno> {
        let mut bytes = Vec::with_capacity(1 << self.page_shift);
        rustix::io::pread(file, spare_capacity(&mut bytes), page << self.page_shift)?;
        Ok(Arc::new(bytes))
    }
}

/// Reads through a cache that workers share.
pub(in crate::bench::cases::read) struct QuickCache<'a> {
    pages: &'a Pages,
    file: File,
}

impl<'a> QuickCache<'a> {
    pub(super) fn new(pages: &'a Pages, file: File) -> QuickCache<'a> {
        QuickCache { pages, file }
    }
}

impl Reader for QuickCache<'_> {
    type Error = Errno;

    fn read(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let Pages { cache, page_shift } = self.pages;
        let mut done = 0;
        while done < buf.len() {
            let pos = offset + done as u64;
            let page = pos >> page_shift;
            let bytes = cache.get_or_insert_with(&page, || self.pages.read(&self.file, page))?;
            let off = (pos - (page << page_shift)) as usize;
            let rest = bytes.get(off..).unwrap_or_default();
            let nr = rest.len().min(buf.len() - done);
            if nr == 0 {
                break;
            }
            buf[done..done + nr].copy_from_slice(&rest[..nr]);
            done += nr;
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn reads_are_cut_at_the_end_and_go_over_pages() {
        let mut file = pagewell_testkit::scratch::file().into_file();
        let content: Vec<u8> = (0..10_000_u32).map(|at| (at % 251) as u8).collect();
        file.write_all(&content).unwrap();
        let pages = Pages::new(16, 4096);
        let reader = QuickCache::new(&pages, file);
        for (offset, len, expected) in [
            (0, 64, 64),
            (4000, 5000, 5000),
            (9990, 64, 10),
            (10_000, 8, 0),
            (50_000, 8, 0),
        ] {
            let mut buf = vec![0; len];
            assert_eq!(reader.read(&mut buf, offset), Ok(expected));
            let from = (offset as usize).min(content.len());
            assert_eq!(buf[..expected], content[from..from + expected]);
        }
    }
}
