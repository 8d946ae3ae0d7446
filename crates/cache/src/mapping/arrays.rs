//! Addresses for the arrays of a file: its index, and its sets of pages if it is open for writing.
//!
//! The arrays cover the file and its growth while it is open. They are reserved as a whole and stay
//! in place, since hits load their addresses without a lock. A process with limited addresses
//! (RLIMIT_AS, RLIMIT_DATA), or with locked memory and RLIMIT_MEMLOCK, gets arrays for less growth.

use std::io;

use pagewell_sync::region::Region;
use pagewell_sync::scaled;
use pagewell_sync::system::Resource;

use crate::base::page::{MAX_FILE_BYTES, PageSize};
use crate::dirty::page_set::PageSets;
use crate::index::file_index::Index;

/// Growth of a file that its arrays cover at least.
const MIN_GROWTH_BYTES: u64 = scaled(64 << 20, 0);

/// Growth that the arrays of a file open for writing cover if the process has no limits: 1 TiB (at
/// most 2.13 GiB of addresses).
const WRITER_GROWTH_BYTES: u64 = scaled(1 << 40, 0);

/// Share of the process's addresses that one file may reserve for its growth, as a divisor.
const SHARE_DIVISOR: u64 = 32;

/// Factor by which the growth is reduced if the system refuses the addresses: a few files that
/// each take half of what is left would leave none to the program.
const REDUCTION: u64 = 64;

/// Addresses per page, rounded up: 8 bytes for the slot, and 0.5 for the sets.
const ADDRESS_BYTES_PER_PAGE: u64 = 9;

pub(super) struct Arrays {
    pub(super) of_index: [Region; 2],
    pub(super) of_sets: Option<[Region; 2]>,
}

/// Refusal of the addresses for a file of up to `reach` bytes.
pub(super) struct NoAddresses {
    pub(super) reach: u64,
    pub(super) source: io::Error,
}

/// Reserves the arrays of a file of `size` bytes.
pub(super) fn reserve(
    size: u64,
    page_size: PageSize,
    is_written: bool,
) -> Result<Arrays, NoAddresses> {
    let page_bytes = page_size.bytes() as u64;
    let mut growth = match is_written {
        true => 3 * size + WRITER_GROWTH_BYTES,
        false => 3 * size + MIN_GROWTH_BYTES,
    };
    for resource in [Resource::Addresses, Resource::Data] {
        if let Some(limit) = resource.limit() {
            let nr_pages = limit / SHARE_DIVISOR / ADDRESS_BYTES_PER_PAGE;
            growth = growth.min(nr_pages.saturating_mul(page_bytes).max(MIN_GROWTH_BYTES));
        }
    }
    loop {
        let reach = size.saturating_add(growth).min(MAX_FILE_BYTES);
        match arrays_for(reach.div_ceil(page_bytes), is_written) {
            Ok(arrays) => return Ok(arrays),
            Err(_) if growth > MIN_GROWTH_BYTES => {
                growth = (growth / REDUCTION).max(MIN_GROWTH_BYTES);
            }
            Err(source) => return Err(NoAddresses { reach, source }),
        }
    }
}

/// Reserves all arrays in one mapping: the open and close of a small file cost mainly system calls.
fn arrays_for(nr_pages: u64, is_written: bool) -> io::Result<Arrays> {
    let overflow = || io::Error::from(io::ErrorKind::OutOfMemory);
    let nr_pages = Index::capacity_for(nr_pages).ok_or_else(overflow)?;
    let [nr_slots, nr_leaves] = Index::lens(nr_pages).ok_or_else(overflow)?;
    if !is_written {
        return Ok(Arrays {
            of_index: Region::reserve_all([nr_slots, nr_leaves])?,
            of_sets: None,
        });
    }
    let [nr_words, nr_extents] = PageSets::lens(nr_pages).ok_or_else(overflow)?;
    let arrays = Region::reserve_all([nr_slots, nr_leaves, nr_words, nr_extents])?;
    let [slots, root, bits, counts] = arrays;
    Ok(Arrays {
        of_index: [slots, root],
        of_sets: Some([bits, counts]),
    })
}
