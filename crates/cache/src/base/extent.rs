//! Extents: neighbouring leaves of a file whose pages have their bits in one page of the system's memory.

use pagewell_frame::FRAME_WORDS;

use crate::base::page::PageNr;

/// How many leaves an extent has.
pub(crate) const EXTENT_LEAVES: usize = if cfg!(loom) { 1 } else { 16 };

/// How many pages an extent has: 32 MiB of pages of 4 KiB.
pub(crate) const EXTENT_PAGES: PageNr = (EXTENT_LEAVES * FRAME_WORDS) as PageNr;

/// How many words one bit for each page of an extent takes.
pub(crate) const EXTENT_BIT_WORDS: usize = EXTENT_PAGES.div_ceil(u64::BITS as PageNr) as usize;

/// How many words an extent has for bits of its pages: a page of the system's memory, for up to four bits a page.
pub(crate) const EXTENT_WORDS: usize = 4 * EXTENT_BIT_WORDS;

#[cfg(not(loom))]
const _: () = assert!(EXTENT_WORDS * size_of::<u64>() == 4096);
