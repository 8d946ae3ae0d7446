//! The wrapper over stores in memory: as a store, under faults, under changes behind it, against the bare store.

mod bounds;
mod changes;
mod contract;
mod disk;
mod faults;
mod histories;
mod identity;
mod lifetimes;
mod misses;
mod odd;
mod permits;
mod probe;
mod restart;
mod servers;
mod storms;

/// The smallest page, and that of most tests.
const PAGE: usize = 4096;

/// Whether both are the same bytes: too many to be listed when they are not.
fn same(a: impl AsRef<[u8]>, b: impl AsRef<[u8]>) -> bool {
    a.as_ref() == b.as_ref()
}

/// Bytes that differ from place to place.
fn content(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|nr| (nr / 7) as u8 ^ (nr % 251) as u8 ^ seed)
        .collect()
}
