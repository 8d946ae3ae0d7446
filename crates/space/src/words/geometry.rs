//! Positions in page tables of the entries for the addresses of a space.
//!
//! ```text
//! address:  [ table of the directory ][ entry of the table ][ byte of the page ]
//!             the rest of the 64 bits   9 bits - the order    12 bits + the order
//! ```
//!
//! A table spans [`TABLE_BYTES`] of addresses. With pages of order `k` it uses `512 >> k`
//! consecutive entries, which the lowest `k` bits of the table's number select. If all tables used
//! their first entries, these would compete for a few sets of the processor's caches.

use pagewell_frame::{FRAME_BYTES, FRAME_SHIFT, FRAME_WORDS, Order};

const TABLE_ENTRIES_SHIFT: u32 = FRAME_WORDS.trailing_zeros();

pub(crate) const TABLE_SHIFT: u32 = FRAME_SHIFT + TABLE_ENTRIES_SHIFT;

/// Number of bytes of addresses that a table spans: 2 MiB.
pub(crate) const TABLE_BYTES: u64 = 1 << TABLE_SHIFT;

/// Order of the largest pages: one page fills the span of a table.
pub(crate) const MAX_PAGE_ORDER: Order = match Order::new(TABLE_ENTRIES_SHIFT as u8) {
    Some(order) => order,
    None => Order::MAX,
};

#[inline]
pub(crate) const fn table_of(addr: u64) -> u64 {
    addr >> TABLE_SHIFT
}

/// Returns the index of the entry: the nine bits of the address above the offset in the page.
#[inline]
pub(crate) const fn entry_of(addr: u64, order: u32) -> usize {
    (addr >> (FRAME_SHIFT + order)) as usize & (FRAME_WORDS - 1)
}

#[inline]
pub(crate) const fn offset_in_page(addr: u64, order: u32) -> usize {
    (addr & (page_bytes(order) - 1)) as usize
}

#[inline]
pub(crate) const fn page_bytes(order: u32) -> u64 {
    (FRAME_BYTES as u64) << order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_its_parts() {
        for order in 0..=9 {
            for addr in [
                0,
                1,
                4095,
                4096,
                0x1f_ffff,
                0x20_0000,
                0x1234_5678,
                u64::MAX >> 1,
            ] {
                let nr = FRAME_WORDS >> order;
                let (entry, part) = (
                    entry_of(addr, order),
                    table_of(addr) as usize % (1 << order),
                );
                assert!((part * nr..(part + 1) * nr).contains(&entry));
                let page = (entry % nr) as u64 * page_bytes(order);
                let parts =
                    (table_of(addr) << TABLE_SHIFT) + page + offset_in_page(addr, order) as u64;
                assert_eq!(parts, addr, "order {order}");
            }
        }
    }

    #[test]
    fn the_largest_page_fills_a_table() {
        assert_eq!(MAX_PAGE_ORDER, Order::PAGE_BLOCK);
        assert_eq!(page_bytes(9), TABLE_BYTES);
    }
}
