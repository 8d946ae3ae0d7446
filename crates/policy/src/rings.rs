//! FIFO queues of frame numbers, in chunks of one shared array.

use crate::words::{Entry, Epoch, Queue};

/// Number of entries of a chunk: a cache line.
const CHUNK: usize = 16;

const NONE: u32 = u32::MAX;

/// All queues. Together they have at most as many entries as the pool has frames.
#[derive(Debug)]
pub(crate) struct Rings {
    entries: Vec<Entry>,
    /// For each chunk, the next one of its queue or of the free chunks.
    next: Vec<u32>,
    /// For each chunk, the epoch in which its first entry was pushed.
    since: Vec<Epoch>,
    free: u32,
    /// First chunk that was never used. All later chunks are unused too.
    unused: u32,
    rings: [Ring; Queue::ALL.len()],
}

#[derive(Clone, Copy, Debug)]
struct Ring {
    head: u32,
    /// Position of the first entry, in the first chunk.
    first: u32,
    tail: u32,
    /// Position after the last entry, in the last chunk.
    end: u32,
    len: u32,
}

impl Ring {
    const EMPTY: Self = Self {
        head: NONE,
        first: 0,
        tail: NONE,
        end: 0,
        len: 0,
    };
}

impl Rings {
    const fn nr_chunks(nr_frames: usize) -> usize {
        // The first and the last chunk of each queue may be nearly empty.
        nr_frames / CHUNK + 1 + 2 * Queue::ALL.len()
    }

    const BYTES_OF_CHUNK: usize =
        CHUNK * size_of::<Entry>() + size_of::<u32>() + size_of::<Epoch>();

    pub(crate) const fn bytes(nr_frames: usize) -> usize {
        Self::nr_chunks(nr_frames) * Self::BYTES_OF_CHUNK
    }

    pub(crate) fn new(nr_frames: usize) -> Self {
        let nr_chunks = Self::nr_chunks(nr_frames);
        Self {
            // Only `next` is zeroed memory of the system, which is allocated where it is written.
            // For other types than integers, `vec!` stores the zeros.
            entries: vec![Entry::default(); nr_chunks * CHUNK],
            next: vec![0; nr_chunks],
            since: vec![Epoch::default(); nr_chunks],
            free: NONE,
            unused: 0,
            rings: [Ring::EMPTY; Queue::ALL.len()],
        }
    }

    pub(crate) fn len(&self, ring: Queue) -> u32 {
        self.rings[ring as usize].len
    }

    /// Appends an entry. Panics if the queues then have more entries than there are frames.
    pub(crate) fn push(&mut self, into: Queue, entry: Entry, now: Epoch) {
        let mut ring = self.rings[into as usize];
        if ring.tail == NONE || ring.end as usize == CHUNK {
            let chunk = self.take_chunk();
            if ring.tail == NONE {
                ring.head = chunk;
                ring.first = 0;
            } else {
                self.next[ring.tail as usize] = chunk;
            }
            self.since[chunk as usize] = now;
            ring.tail = chunk;
            ring.end = 0;
        }
        self.entries[ring.tail as usize * CHUNK + ring.end as usize] = entry;
        ring.end += 1;
        ring.len += 1;
        self.rings[into as usize] = ring;
    }

    pub(crate) fn pop(&mut self, from: Queue) -> Option<Entry> {
        let mut ring = self.rings[from as usize];
        if ring.len == 0 {
            return None;
        }
        let entry = self.entries[ring.head as usize * CHUNK + ring.first as usize];
        ring.first += 1;
        ring.len -= 1;
        if ring.len == 0 {
            self.give_chunk(ring.head);
            ring = Ring::EMPTY;
        } else if ring.first as usize == CHUNK {
            let next = self.next[ring.head as usize];
            self.give_chunk(ring.head);
            ring.head = next;
            ring.first = 0;
        }
        self.rings[from as usize] = ring;
        Some(entry)
    }

    /// Returns the time, in evicted frames, since the first entry was pushed, by interpolation.
    pub(crate) fn waited(&self, ring: Queue, now: Epoch) -> u32 {
        let ring = self.rings[ring as usize];
        if ring.len == 0 {
            return 0;
        }
        let since = self.since[ring.head as usize];
        let next = if ring.head == ring.tail {
            now
        } else {
            self.since[self.next[ring.head as usize] as usize]
        };
        let span = u64::from(next.since(since)) * u64::from(ring.first) / CHUNK as u64;
        // The result is too small after 2^28 evictions without a pop, since epochs wrap.
        now.since(since).saturating_sub(span as u32)
    }

    /// Returns at most `nr` entries that will be popped next: fewer if the chunk ends before.
    pub(crate) fn ahead(&self, ring: Queue, nr: usize) -> &[Entry] {
        let ring = self.rings[ring as usize];
        if ring.len == 0 {
            return &[];
        }
        let start = ring.head as usize * CHUNK;
        let end = if ring.head == ring.tail {
            ring.end as usize
        } else {
            CHUNK
        };
        let end = end.min(ring.first as usize + nr);
        &self.entries[start + ring.first as usize..start + end]
    }

    fn take_chunk(&mut self) -> u32 {
        let chunk = self.free;
        if chunk == NONE {
            self.unused += 1;
            return self.unused - 1;
        }
        self.free = self.next[chunk as usize];
        chunk
    }

    fn give_chunk(&mut self, chunk: u32) {
        self.next[chunk as usize] = self.free;
        self.free = chunk;
    }

    #[cfg(test)]
    pub(crate) fn iter(&self, ring: Queue) -> impl Iterator<Item = Entry> {
        let ring = self.rings[ring as usize];
        let mut chunk = ring.head;
        let mut at = ring.first as usize;
        (0..ring.len).map(move |_| {
            if at == CHUNK {
                chunk = self.next[chunk as usize];
                at = 0;
            }
            at += 1;
            self.entries[chunk as usize * CHUNK + at - 1]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Turn;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// One entry for each frame always fits, whatever the distribution over the queues.
        #[test]
        fn rings_are_queues(
            nr_frames in 1..400_usize,
            is_other: bool,
            steps in prop::collection::vec((0..4_usize, 0..4_usize, 1..100_u32), 1..60),
        ) {
            let all = Queue::ALL;
            let mut rings = Rings::new(nr_frames);
            let mut twins: [VecDeque<Entry>; 4] = Default::default();
            let turn = if is_other { Turn::default().other() } else { Turn::default() };
            for frame in 0..nr_frames as u32 {
                let entry = Entry::new(frame, turn);
                prop_assert_eq!(entry.frame(), frame);
                prop_assert_ne!(entry, Entry::new(frame, turn.other()));
                rings.push(all[0], entry, Epoch::default());
                twins[0].push_back(entry);
            }
            for (from, to, nr) in steps {
                for _ in 0..nr {
                    let ahead = rings.ahead(all[from], 16).to_vec();
                    prop_assert!(ahead.iter().eq(twins[from].iter().take(ahead.len())));
                    prop_assert_eq!(ahead.is_empty(), twins[from].is_empty());
                    let popped = rings.pop(all[from]);
                    prop_assert_eq!(popped, twins[from].pop_front());
                    let Some(entry) = popped else { break };
                    rings.push(all[to], entry, Epoch::default());
                    twins[to].push_back(entry);
                }
                for (&ring, twin) in all.iter().zip(&twins) {
                    prop_assert!(rings.iter(ring).eq(twin.iter().copied()));
                    prop_assert_eq!(rings.len(ring) as usize, twin.len());
                }
            }
        }
    }
}
