//! The cache's views: the bytes are looked at, here copied, where they are.

use pagewell::{Error, File};

use super::reader::Reader;

/// Copies from a view of each page.
pub(super) struct View(pub(super) File);

impl Reader for View {
    type Error = Error;

    #[inline(always)]
    fn read(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        let page_size = self.0.page_size() as u64;
        let off = (offset & (page_size - 1)) as usize;
        if off + buf.len() > page_size as usize {
            return self.read_pages(buf, offset);
        }
        // The page's number by a shift, as a program has it that knows its page size.
        self.0.view(offset >> page_size.trailing_zeros(), |v| {
            v.copy_to(off, buf)?;
            Ok(buf.len())
        })
    }
}

impl View {
    /// More than is in one page, page by page; of the last one as much as the file has.
    #[inline(never)]
    fn read_pages(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        let page_size = self.0.page_size() as u64;
        let mut done = 0;
        while done < buf.len() && offset + (done as u64) < self.0.size() {
            let now = offset + done as u64;
            let off = (now % page_size) as usize;
            let rest = &mut buf[done..];
            done += self.0.view(now / page_size, |v| {
                let nr = v.len().saturating_sub(off).min(rest.len());
                v.copy_to(off, &mut rest[..nr])?;
                Ok(nr)
            })?;
        }
        Ok(done)
    }
}
