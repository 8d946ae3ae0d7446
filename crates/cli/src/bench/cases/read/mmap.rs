//! A copy from a mapping of the file.
//!
//! The bounds are checked, as in any safe program; a copy from a bare pointer was
//! not measurably faster.

use super::reader::Reader;

/// Copies from the mapped bytes of the whole file.
pub(super) struct Mmap<'a>(pub(super) &'a [u8]);

impl Reader for Mmap<'_> {
    type Error = &'static str;

    #[inline(always)]
    fn read(&self, buf: &mut [u8], offset: u64) -> Result<usize, &'static str> {
        let offset = offset as usize;
        match self.0.get(offset..offset.wrapping_add(buf.len())) {
            Some(source) => {
                buf.copy_from_slice(source);
                Ok(buf.len())
            }
            None => Err("past the end of the mapping"),
        }
    }
}
