//! Leaf clusters: neighbouring leaves whose pages have their state bits in one page of memory.

use pagewell_frame::FRAME_WORDS;
use pagewell_sync::scaled;

use crate::base::page::PageNr;

pub(crate) const EXTENT_LEAVES: usize = scaled(16, 1);

/// Number of pages in a cluster. With pages of 4 KiB they cover 32 MiB.
pub(crate) const EXTENT_PAGES: PageNr = (EXTENT_LEAVES * FRAME_WORDS) as PageNr;

pub(crate) const EXTENT_BIT_WORDS: usize = EXTENT_PAGES.div_ceil(u64::BITS as PageNr) as usize;

/// Number of words for the bits of a cluster's pages: one page of memory, with space for four each.
pub(crate) const EXTENT_WORDS: usize = 4 * EXTENT_BIT_WORDS;

const _: () = assert!(scaled(EXTENT_WORDS * size_of::<u64>(), 4096) == 4096);
