use pagewell_frame::{FRAME_BYTES, FRAME_WORDS, Order};
use pagewell_sync::scaled;

use crate::base::error::{Error, ErrorKind, Op};

pub(crate) type PageNr = u64;

/// Maximum size in bytes of a file that can be indexed: 256 TiB.
pub const MAX_FILE_BYTES: u64 = 1 << 48;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageSize(Order);

/// Order of the largest page: 16 frames, 64 KiB.
const MOST: u32 = 4;

impl PageSize {
    pub(crate) const SMALLEST: Self = Self(Order::ZERO);

    pub(crate) fn new(bytes: usize) -> Option<Self> {
        if !bytes.is_power_of_two() || bytes < FRAME_BYTES {
            return None;
        }
        let order = (bytes / FRAME_BYTES).trailing_zeros();
        if order > MOST {
            return None;
        }
        Order::new(order as u8).map(Self)
    }

    pub(crate) fn checked(bytes: usize, op: Op) -> Result<Self, Error> {
        Self::new(bytes).ok_or_else(|| {
            Error::new(ErrorKind::InvalidPageSize, op).with_detail(format!("{bytes} bytes"))
        })
    }

    pub(crate) const fn bytes(self) -> usize {
        self.0.bytes()
    }

    pub(crate) const fn order(self) -> Order {
        self.0
    }
}

/// Number of leaves in a cluster: neighbours whose pages have their state bits in one page of
/// memory.
pub(crate) const EXTENT_LEAVES: usize = scaled(16, 1);

/// Number of pages in a cluster. With pages of 4 KiB they cover 32 MiB.
pub(crate) const EXTENT_PAGES: PageNr = (EXTENT_LEAVES * FRAME_WORDS) as PageNr;

pub(crate) const EXTENT_BIT_WORDS: usize = EXTENT_PAGES.div_ceil(u64::BITS as PageNr) as usize;

/// Number of words for the bits of a cluster's pages: one page of memory, with space for four each.
pub(crate) const EXTENT_WORDS: usize = 4 * EXTENT_BIT_WORDS;

const _: () = assert!(scaled(EXTENT_WORDS * size_of::<u64>(), 4096) == 4096);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_sizes_are_legal() {
        let legal: Vec<usize> = (0..=1 << 20)
            .filter(|&bytes| PageSize::new(bytes).is_some())
            .collect();
        assert_eq!(legal, [4096, 8192, 16384, 32768, 65536]);
        for bytes in legal {
            assert_eq!(PageSize::new(bytes).map(PageSize::bytes), Some(bytes));
        }
    }
}
