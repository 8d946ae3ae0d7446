//! Writes of any length, at any position.

use crate::base::error::{Error, Op};
use crate::dirty::writes::Writes;
use crate::mapping::record::Mapping;
use crate::write::growth::{Grower, Part};
use crate::write::lock_wait::wait_after;
use crate::write::page::{Bound, PageWriter};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'m>(pub(crate) &'m Mapping);

impl Writer<'_> {
    /// Writes `buf` from byte `pos` on, up to the first error. Returns the number of written bytes.
    #[inline(always)]
    pub(crate) fn write_bytes(self, buf: &[u8], pos: u64, lsn: u64) -> Result<usize, Error> {
        let writes = self.0.writes(Op::Write)?;
        if PageWriter(self.0).write_hit(writes, buf, pos, lsn) {
            return Ok(buf.len());
        }
        self.write_any(writes, buf, pos, lsn)
    }

    #[inline(never)]
    fn write_any(self, writes: &Writes, buf: &[u8], pos: u64, lsn: u64) -> Result<usize, Error> {
        Grower(self.0).checked_end(writes, pos, buf.len())?;
        let mut done = 0;
        let mut has_made_room = false;
        while done < buf.len() {
            // No lock is held here.
            let (nr, result) = self.write_some(writes, &buf[done..], pos + done as u64, lsn);
            done += nr;
            match result {
                // If nothing was written, the file was truncated, and the rest extends it again.
                Ok(()) => {}
                Err(error) => {
                    let error = match wait_after(self.0, writes, error) {
                        Ok(()) => continue,
                        Err(error) => error,
                    };
                    let error = match error {
                        error if has_made_room => error,
                        error => match self.0.make_room(error) {
                            Ok(()) => {
                                has_made_room = true;
                                continue;
                            }
                            Err(error) => error,
                        },
                    };
                    return if done == 0 { Err(error) } else { Ok(done) };
                }
            }
            has_made_room = false;
        }
        Ok(done)
    }

    /// Writes a part of `buf` from `pos` on. Returns the number of bytes written before an error.
    fn write_some(
        self,
        writes: &Writes,
        buf: &[u8],
        pos: u64,
        lsn: u64,
    ) -> (usize, Result<(), Error>) {
        if pos + buf.len() as u64 <= self.0.size() {
            return PageWriter(self.0).write_pages(writes, buf, pos, lsn, Bound::Within);
        }
        // At most what the cache certainly holds: a writer with the size lock is not throttled.
        let off = pos as usize & (self.0.page_size() - 1);
        let most = self.0.most_pages() * self.0.page_size() - off;
        let buf = &buf[..buf.len().min(most)];
        // Throttle before the lock is held. A write within the file is throttled page by page.
        let _resize = match self.0.lock_size_within_share(writes, Op::Write) {
            Ok(lock) => lock,
            Err(error) => return (0, Err(error)),
        };
        if let Err(error) = Grower(self.0).settle_end(writes, Op::Write) {
            return (0, Err(error));
        }
        let old = self.0.size();
        if pos > old
            && let Err(error) = Grower(self.0).zero_tail(writes, pos)
        {
            return (0, Err(error));
        }
        Grower(self.0).write_growing(writes, buf, pos, lsn, Part::Kept)
    }
}
