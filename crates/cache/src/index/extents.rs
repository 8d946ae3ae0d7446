//! Leaf clusters: budget charges and memory of the used parts of a file's arrays.
//!
//! A leaf in use shares two resources with its neighbours:
//! - its *part* of the root: one page of memory with the entries of [`PART_LEAVES`] leaves;
//! - if the file is written to, the bits of its leaf cluster ([`crate::base::page`]).
//!
//! This module counts, for each cluster, the leaves in use, and for each part, the clusters in use.
//!
//! Protocol. A thread *enters* a leaf before its creation; the leaf *leaves* after its removal.
//! 1. Enter: with the lock held, count the leaf. If it is the first of a cluster or part, the
//!    caller must have charged the bytes of that cluster or part. A caller that has not charged
//!    them releases the lock, charges them (which may evict leaves of the same file), and retries.
//! 2. Leave: with the lock held, decrement the count. If the leaf was the last of a cluster or
//!    part, discard the memory of that cluster or part, and return the bytes to uncharge.
//!
//! So memory is discarded only while no leaf in it is in use or being created, that is, while no
//! thread stores to it, and before a later leaf is created there. Readers may load from it at any
//! time: they find zeros before and after the discard.
//!
//! Locks. The holder of the lock waits for nothing. The caller may hold claims and other locks.

use std::collections::HashMap;

use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::{Mutex, lock, scaled};

use crate::base::page::EXTENT_LEAVES;

/// Number of root entries that are charged together. They fill one page of the operating system.
pub(super) const PART_LEAVES: usize = 4096 / size_of::<u64>();

const PART_EXTENTS: usize = PART_LEAVES.div_ceil(EXTENT_LEAVES);

const NOTE_BYTES: usize = scaled(4 * size_of::<Part>(), 0);

/// Leaf counts of one part: leaves that are in use or being created.
#[derive(Debug)]
struct Part {
    nr_leaves: [u8; PART_EXTENTS],
    nr_extents: u16,
}

const _: () = assert!(EXTENT_LEAVES <= u8::MAX as usize);

#[derive(Debug)]
pub(super) struct Extents {
    parts: Mutex<HashMap<usize, Part>>,
    /// One bit for each part in use. Changed with the lock held, and read without it.
    is_used: Box<[AtomicU64]>,
    extent_bytes: usize,
    nr_leaves: usize,
}

/// Memory that no leaf in use needs any more: the bits of the cluster `extent`, and the root
/// entries of the part `part`, if the part has no other cluster in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unused {
    pub(super) extent: usize,
    pub(super) part: Option<usize>,
}

/// Number of bytes to charge in addition before the leaf can be entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Missing(pub(crate) usize);

impl Extents {
    pub(super) fn new(nr_leaves: usize, extent_bytes: usize) -> Self {
        let nr_words = nr_leaves.div_ceil(PART_LEAVES).div_ceil(u64::BITS as usize);
        Self {
            parts: Mutex::default(),
            is_used: (0..nr_words).map(|_| AtomicU64::new(0)).collect(),
            extent_bytes,
            nr_leaves,
        }
    }

    /// Returns the number of bytes of `is_used`: one bit for each GiB of the maximum size with
    /// pages of 4 KiB, at most 32 KiB.
    pub(super) fn nr_bytes(&self) -> usize {
        size_of_val(&*self.is_used)
    }

    /// Returns the number of bytes charged for a part: its root entries and its `Part` value.
    fn part_bytes(&self, part: usize) -> usize {
        let nr = PART_LEAVES.min(self.nr_leaves - part * PART_LEAVES);
        nr * size_of::<u64>() + NOTE_BYTES
    }

    /// Step 1 of the protocol. Returns the surplus of the `paid` (charged) bytes. If bytes are
    /// missing, counts nothing.
    pub(super) fn enter(&self, leaf: usize, paid: usize) -> Result<usize, Missing> {
        let (part, extent) = (leaf / PART_LEAVES, leaf / EXTENT_LEAVES % PART_EXTENTS);
        let mut parts = lock(&self.parts);
        let known = parts.get(&part);
        let of_part = known.map_or_else(|| self.part_bytes(part), |_| 0);
        let is_first = known.is_none_or(|known| known.nr_leaves[extent] == 0);
        let needed = of_part + if is_first { self.extent_bytes } else { 0 };
        if paid < needed {
            return Err(Missing(needed - paid));
        }
        let part = parts.entry(part).or_insert_with(|| {
            let (word, bit) = self.bit_of(part);
            // ORDERING: Relaxed; see `is_used`.
            word.fetch_or(bit, Ordering::Relaxed);
            Part {
                nr_leaves: [0; PART_EXTENTS],
                nr_extents: 0,
            }
        });
        part.nr_leaves[extent] += 1;
        part.nr_extents += u16::from(is_first);
        Ok(paid - needed)
    }

    /// Step 2 of the protocol; calls `discard` under the lock. Returns the bytes to uncharge.
    pub(super) fn leave(&self, leaf: usize, discard: impl FnOnce(Unused)) -> usize {
        let (nr, extent) = (leaf / PART_LEAVES, leaf / EXTENT_LEAVES % PART_EXTENTS);
        let mut parts = lock(&self.parts);
        let Some(part) = parts.get_mut(&nr) else {
            debug_assert!(false, "a leaf leaves that has not entered");
            return 0;
        };
        part.nr_leaves[extent] -= 1;
        if part.nr_leaves[extent] != 0 {
            return 0;
        }
        part.nr_extents -= 1;
        let (mut bytes, mut empty) = (self.extent_bytes, None);
        if part.nr_extents == 0 {
            parts.remove(&nr);
            if parts.len() < parts.capacity() / 4 {
                let nr_kept = 2 * parts.len();
                parts.shrink_to(nr_kept);
            }
            let (word, bit) = self.bit_of(nr);
            // ORDERING: Relaxed; see `is_used`.
            word.fetch_and(!bit, Ordering::Relaxed);
            bytes += self.part_bytes(nr);
            empty = Some(nr);
        }
        let unused = Unused {
            extent: leaf / EXTENT_LEAVES,
            part: empty,
        };
        // Under the lock, so that no thread can enter a leaf there before the discard.
        discard(unused);
        drop(parts);
        bytes
    }

    fn bit_of(&self, part: usize) -> (&AtomicU64, u64) {
        (&self.is_used[part / 64], 1 << (part % 64))
    }

    /// Whether a leaf of the part that contains `leaf` is in use or being created.
    pub(super) fn is_used(&self, leaf: usize) -> bool {
        let (word, bit) = self.bit_of(leaf / PART_LEAVES);
        // ORDERING: Relaxed. The bit is set before the first leaf of its part is created, and
        // cleared after the last one is removed. A thread must see a leaf whose creation happens
        // before this load, or is ordered before it by the fences of `Filler::fill` and
        // `Remover::remove`: it sees the bit set for this leaf or a later one.
        word.load(Ordering::Relaxed) & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BITS: usize = 4096;
    const PART: usize = 4096 + NOTE_BYTES;

    fn enter(extents: &Extents, leaf: usize) -> usize {
        match extents.enter(leaf, 0) {
            Ok(surplus) => surplus,
            Err(Missing(bytes)) => {
                assert_eq!(extents.enter(leaf, bytes - 1), Err(Missing(1)));
                assert_eq!(extents.enter(leaf, bytes + 5), Ok(5));
                bytes
            }
        }
    }

    fn unused(extent: usize, part: Option<usize>) -> Unused {
        Unused { extent, part }
    }

    fn leave(extents: &Extents, leaf: usize) -> (usize, Option<Unused>) {
        let mut unused = None;
        (extents.leave(leaf, |found| unused = Some(found)), unused)
    }

    #[test]
    fn what_the_first_leaf_pays_comes_back_with_the_last() {
        let extents = Extents::new(4 * PART_LEAVES, BITS);
        assert_eq!(enter(&extents, 600), PART + BITS);
        assert_eq!(enter(&extents, 601), 0, "the same extent");
        assert_eq!(enter(&extents, 640), BITS, "another extent of the part");
        assert!(extents.is_used(512) && extents.is_used(1023));
        assert!(!extents.is_used(511) && !extents.is_used(1024));
        assert_eq!(leave(&extents, 600), (0, None));
        assert_eq!(leave(&extents, 601), (BITS, Some(unused(37, None))));
        assert_eq!(enter(&extents, 607), BITS, "it was given back");
        assert_eq!(leave(&extents, 607), (BITS, Some(unused(37, None))));
        assert_eq!(
            leave(&extents, 640),
            (PART + BITS, Some(unused(40, Some(1))))
        );
        assert!(!extents.is_used(640));
        assert_eq!(enter(&extents, 640), PART + BITS);
    }

    #[test]
    fn a_file_that_is_only_read_pays_for_its_root() {
        let extents = Extents::new(PART_LEAVES + 3, 0);
        assert_eq!(enter(&extents, 0), PART);
        assert_eq!(enter(&extents, PART_LEAVES + 2), 3 * 8 + NOTE_BYTES);
        assert_eq!(leave(&extents, 0), (PART, Some(unused(0, Some(0)))));
    }

    #[test]
    fn notes_of_parts_go_with_them() {
        let extents = Extents::new(1 << 20, BITS);
        for part in 0..2048 {
            enter(&extents, part * PART_LEAVES);
        }
        for part in 0..2048 {
            leave(&extents, part * PART_LEAVES);
        }
        assert!(lock(&extents.parts).capacity() < 64);
    }
}
