//! What the threads of a writing process do, one operation after the other, from the seed.
//!
//! The file has two parts.
//! - *Blocks*, in groups that belong to one thread each; the groups of several threads share pages, and a
//!   group reaches over the border of pages. A block says which operation wrote it.
//! - The *tail*, from [`TAIL_START`] on, which grows and is cut by the first thread alone.
//!
//! The operations of a thread have numbers from 1 on. They do not depend on what other threads do, so
//! whoever knows how many of them were done knows what they did.

use std::ops::Range;

use pagewell_crash::BLOCK;
use pagewell_testkit::Rng;

use super::life::{Life, Syncs};

/// Blocks of a group: one page and a half.
const GROUP: u64 = 12;
const NR_GROUPS: u64 = 192;
const NR_BLOCKS: u64 = GROUP * NR_GROUPS;

/// Where the tail begins, in bytes: with a page, whatever its size.
pub(super) const TAIL_START: u64 = NR_BLOCKS * BLOCK as u64;
/// The most bytes of the tail.
const MOST_TAIL: u64 = 24 * 4096;

/// A thread syncs at the latest after so many operations.
const fn most_unsynced(syncs: Syncs) -> u64 {
    match syncs {
        Syncs::Often => 60,
        Syncs::Rarely => 400,
    }
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// Writes these blocks, which are neighbours, at once.
    Write(Range<u64>),
    /// Writes one block in place.
    PinMut(u64),
    /// Reads a block of the thread's.
    Read(u64),
    /// Gives some dirty pages to the storage.
    Flush(Range<u64>),
    Evict(usize),
    SyncData,
    SyncAll,
    Tail(Tail),
}

/// An operation on the tail; positions are bytes from its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    Append {
        len: usize,
    },
    /// Writes somewhere, also past the end.
    Write {
        pos: u64,
        len: usize,
    },
    SetLen(u64),
}

/// The operations of one thread, endlessly.
#[derive(Clone, Debug)]
pub(super) struct Ops {
    rng: Rng,
    thread: u64,
    nr_threads: u64,
    /// How long the tail is.
    tail: u64,
    syncs: Syncs,
    number: u64,
    nr_unsynced: u64,
}

impl Ops {
    /// The operations of thread number `thread` of a process that finds a tail of so many bytes.
    pub(super) fn new(life: &Life, thread: u64, tail: u64) -> Ops {
        Ops {
            rng: Rng::part(life.seed, thread),
            thread,
            nr_threads: life.nr_threads,
            tail,
            syncs: life.syncs,
            number: 0,
            nr_unsynced: 0,
        }
    }

    /// The next operation and its number.
    pub(super) fn next(&mut self) -> (u64, Op) {
        self.number += 1;
        self.nr_unsynced += 1;
        let op = self.choose();
        match &op {
            Op::SyncData | Op::SyncAll => self.nr_unsynced = 0,
            Op::Tail(tail) => self.tail = tail.len_after(self.tail),
            _ => {}
        }
        (self.number, op)
    }

    fn choose(&mut self) -> Op {
        if self.nr_unsynced >= most_unsynced(self.syncs) {
            return Op::SyncData;
        }
        match self.rng.below(48) {
            0 if self.syncs == Syncs::Often => Op::SyncData,
            1 if self.syncs == Syncs::Often => Op::SyncAll,
            2 => {
                let start = self.rng.below(TAIL_START);
                Op::Flush(start..start + self.rng.below(TAIL_START / 2))
            }
            3 => Op::Evict(1 + self.rng.index(8)),
            4..8 => Op::Read(self.block()),
            8..11 => Op::PinMut(self.block()),
            11..20 if self.thread == 0 => Op::Tail(self.tail_op()),
            _ => {
                let first = self.block();
                let end_of_group = (first / GROUP + 1) * GROUP;
                let nr = 1 + self.rng.below(end_of_group - first);
                Op::Write(first..first + nr)
            }
        }
    }

    /// A block of this thread's; often one of few, which are then written again and again.
    fn block(&mut self) -> u64 {
        let groups = NR_GROUPS / self.nr_threads;
        let among = match self.rng.one_in(2) {
            true => groups.min(6),
            false => groups,
        };
        let group = self.rng.below(among) * self.nr_threads + self.thread;
        group * GROUP + self.rng.below(GROUP)
    }

    fn tail_op(&mut self) -> Tail {
        let len = 1 + self.rng.index(2 * 4096);
        match self.rng.below(8) {
            0 => Tail::SetLen(self.rng.below(MOST_TAIL)),
            1 => Tail::SetLen(self.rng.below(self.tail + 1)),
            2 => {
                let pos = self.rng.below(MOST_TAIL);
                let len = len.min((MOST_TAIL - pos) as usize);
                Tail::Write { pos, len }
            }
            3 if self.tail > 0 => {
                let pos = self.rng.below(self.tail);
                let len = len.min((MOST_TAIL - pos) as usize);
                Tail::Write { pos, len }
            }
            _ if self.tail + len as u64 <= MOST_TAIL => Tail::Append { len },
            _ => Tail::SetLen(self.rng.below(MOST_TAIL / 2)),
        }
    }
}

impl Tail {
    /// How long the tail is after this, if it was `len` bytes long before.
    fn len_after(&self, len: u64) -> u64 {
        match *self {
            Tail::Append { len: more } => len + more as u64,
            Tail::Write { pos, len: more } => len.max(pos + more as u64),
            Tail::SetLen(len) => len,
        }
    }
}

/// The thread that a block belongs to.
pub(super) fn owner(block: u64, nr_threads: u64) -> u64 {
    block / GROUP % nr_threads
}

/// What says of bytes that this operation wrote them. Never 0.
pub(super) fn version(life: u64, thread: u64, number: u64) -> u64 {
    life << 40 | thread << 32 | number
}

/// What a version says, for people.
pub(super) fn describe(version: u64) -> String {
    format!(
        "what operation {} of thread {} of process {} wrote",
        version as u32,
        version >> 32 & 0xFF,
        version >> 40
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_make_the_same_operations_of_a_seed() {
        let life = Life::of(7, 3, Some(2));
        let first = |thread| {
            let mut ops = Ops::new(&life, thread, 100);
            (0..500).map(|_| ops.next()).collect::<Vec<_>>()
        };
        assert_eq!(first(0), first(0));
        assert_ne!(first(0), first(1));
    }

    #[test]
    fn threads_write_to_blocks_of_their_own_and_sync_now_and_then() {
        for (nr_threads, number) in (1..=5_u8).zip(1..) {
            let life = Life::of(1, number, Some(nr_threads));
            for thread in 0..u64::from(nr_threads) {
                let mut ops = Ops::new(&life, thread, 0);
                let mut last_sync = 0;
                for _ in 0..2000 {
                    let (number, op) = ops.next();
                    match op {
                        Op::Write(blocks) => {
                            assert!(!blocks.is_empty() && blocks.end <= NR_BLOCKS);
                            let owned = |block| owner(block, u64::from(nr_threads)) == thread;
                            assert!(blocks.clone().all(owned));
                        }
                        Op::SyncData | Op::SyncAll => last_sync = number,
                        Op::Tail(_) => assert!(thread == 0 && ops.tail <= MOST_TAIL),
                        _ => {}
                    }
                    assert!(number - last_sync <= most_unsynced(life.syncs));
                }
            }
        }
    }
}
