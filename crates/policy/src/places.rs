//! Queue position of each frame.
//!
//! Invariants.
//! - I1: each frame that is not popped is in exactly one queue, at one position.
//! - I2: in `sizes`, `Window` and `Main` count frames (at most 128 per page), the others entries.
//! - I3: a frame has at most two entries. An older one is *taken*: it stands for another frame.
//!
//! The entry of a page that moves to another frame keeps its position, and still names the old
//! frame. `taken` maps it to the new one, and the old frame later gets another entry, with the
//! other [`Turn`](crate::words::Turn). If `taken` is full, a moved page gets a new position.

use std::collections::HashMap;

use crate::rings::Rings;
use crate::words::{Entry, Epoch, Queue, Standing};

/// Age of an unclassified frame that had no page when a pass examined it.
pub(crate) const IDLE: u8 = 1;

#[derive(Debug)]
pub(crate) struct Places {
    standings: Vec<Standing>,
    rings: Rings,
    /// First frame that was never examined. It and all later ones precede the entries of `Limbo`.
    fresh: u32,
    /// For each taken entry, the frame for which it stands.
    taken: HashMap<Entry, u32>,
    /// Inverse of `taken`.
    seats: HashMap<u32, Entry>,
    /// Number of unclassified frames of age [`IDLE`].
    nr_idle: u32,
    sizes: [u64; Queue::ALL.len()],
    /// Number of evicted frames.
    now: Epoch,
}

const fn most_taken(nr_frames: usize) -> usize {
    nr_frames / 64 + 16
}

impl Places {
    pub(crate) const fn bytes(nr_frames: usize) -> usize {
        // A hash table of `std` has at most 2 * 8 / 7 buckets per item, each of an item and a byte.
        let item = size_of::<Entry>() + size_of::<u32>() + 1;
        let tables = 2 * (most_taken(nr_frames) * 16 / 7 + 16) * item;
        nr_frames * size_of::<Standing>() + Rings::bytes(nr_frames) + tables
    }

    pub(crate) fn new(nr_frames: usize) -> Self {
        let most = most_taken(nr_frames);
        let mut sizes = [0; Queue::ALL.len()];
        sizes[Queue::Limbo as usize] = nr_frames as u64;
        Self {
            standings: vec![Standing::default(); nr_frames],
            rings: Rings::new(nr_frames),
            fresh: 0,
            taken: HashMap::with_capacity(most),
            seats: HashMap::with_capacity(most),
            nr_idle: 0,
            sizes,
            now: Epoch::default(),
        }
    }

    pub(crate) const fn nr_frames(&self) -> usize {
        self.standings.len()
    }

    pub(crate) fn standing(&self, frame: u32) -> Standing {
        self.standings[frame as usize]
    }

    /// Prefetches the standing of a frame. The result only keeps the load from being removed.
    pub(crate) fn touch(&self, frame: u32) -> u32 {
        self.standings
            .get(frame as usize)
            .map_or(0, |standing| standing.nr_frames())
    }

    /// Returns the number of entries of a queue, and for `Limbo` also of frames never examined.
    pub(crate) fn len(&self, queue: Queue) -> u32 {
        let fresh = match queue {
            Queue::Limbo => self.standings.len() as u32 - self.fresh,
            _ => 0,
        };
        self.rings.len(queue) + fresh
    }

    pub(crate) const fn now(&self) -> Epoch {
        self.now
    }

    pub(crate) const fn pass(&mut self, nr_frames: u32) {
        self.now = self.now.after(nr_frames);
    }

    /// Returns the approximate time, in evicted frames, since a queue's first frame was queued.
    pub(crate) fn waited(&self, queue: Queue) -> u32 {
        self.rings.waited(queue, self.now)
    }

    pub(crate) const fn size(&self, queue: Queue) -> u64 {
        self.sizes[queue as usize]
    }

    pub(crate) fn pop(&mut self, queue: Queue) -> Option<u32> {
        let is_fresh = queue == Queue::Limbo && (self.fresh as usize) < self.standings.len();
        let frame = if is_fresh {
            self.fresh += 1;
            self.fresh - 1
        } else {
            let entry = self.rings.pop(queue)?;
            // A removal hashes the entry even if the table is empty.
            if !self.taken.is_empty()
                && let Some(frame) = self.taken.remove(&entry)
            {
                self.seats.remove(&frame);
                frame
            } else {
                entry.frame()
            }
        };
        self.leave(frame, queue);
        Some(frame)
    }

    /// Subtracts a frame from the counts of the queue from which it was popped.
    fn leave(&mut self, frame: u32, queue: Queue) {
        let standing = self.standing(frame);
        self.sizes[queue as usize] -= u64::from(standing.nr_frames());
        if queue == Queue::Limbo && standing.age() == IDLE {
            self.nr_idle -= 1;
        }
    }

    /// Appends a frame that is in no queue.
    pub(crate) fn push(&mut self, frame: u32, queue: Queue, age: u8, nr_frames: u32) {
        let standing = self.standing(frame).in_queue(queue, age);
        let standing = standing.of_frames(nr_frames);
        self.sizes[queue as usize] += u64::from(standing.nr_frames());
        if queue == Queue::Limbo && age == IDLE {
            self.nr_idle += 1;
        }
        self.put(frame, standing);
    }

    /// Sets the age of a frame that is in no queue.
    pub(crate) fn set_age(&mut self, frame: u32, age: u8) {
        let standing = self.standing(frame);
        self.standings[frame as usize] = standing.in_queue(standing.queue(), age);
    }

    pub(crate) const fn nr_idle(&self) -> u32 {
        self.nr_idle
    }

    fn put(&mut self, frame: u32, standing: Standing) {
        let mut turn = standing.turn();
        if !self.taken.is_empty() && self.taken.contains_key(&Entry::new(frame, turn)) {
            turn = turn.other();
        }
        self.standings[frame as usize] = standing.with_turn(turn);
        self.rings
            .push(standing.queue(), Entry::new(frame, turn), self.now);
    }

    /// Gives the position of the page in `from` to the frame `to`, which is in no queue. Afterwards
    /// `from` is in none. Returns `false`, and changes nothing, if `from` is `to`, does not exist
    /// or is not in `Window` or `Main`, or if no further entry can be taken.
    pub(crate) fn hand_over(&mut self, from: u32, to: u32) -> bool {
        if from == to || from as usize >= self.standings.len() {
            return false;
        }
        let standing = self.standing(from);
        if !matches!(standing.queue(), Queue::Window | Queue::Main) {
            return false;
        }
        let seat = match self.seats.get(&from) {
            Some(&seat) => seat,
            None => {
                let other = Entry::new(from, standing.turn().other());
                if self.taken.len() >= most_taken(self.nr_frames())
                    || self.taken.contains_key(&other)
                {
                    return false;
                }
                Entry::new(from, standing.turn())
            }
        };
        self.seats.remove(&from);
        self.taken.insert(seat, to);
        self.seats.insert(to, seat);
        // The size of the queue is unchanged, since the page is the same.
        let turn = self.standing(to).turn();
        self.standings[to as usize] = standing.with_turn(turn);
        true
    }

    /// Returns the frame for which an entry stands.
    fn frame_of(&self, entry: Entry) -> u32 {
        self.taken.get(&entry).map_or(entry.frame(), |frame| *frame)
    }

    /// Stores in `into` some of the frames that will be popped next, and returns their number.
    pub(crate) fn ahead(&self, queue: Queue, into: &mut [u32]) -> usize {
        if queue == Queue::Limbo && (self.fresh as usize) < self.standings.len() {
            let nr = into.len().min(self.standings.len() - self.fresh as usize);
            for (into, frame) in into[..nr].iter_mut().zip(self.fresh..) {
                *into = frame;
            }
            return nr;
        }
        let entries = self.rings.ahead(queue, into.len());
        for (into, entry) in into.iter_mut().zip(entries) {
            *into = self.frame_of(*entry);
        }
        entries.len()
    }

    #[cfg(test)]
    pub(crate) fn frames(&self, queue: Queue) -> Vec<u32> {
        let fresh = match queue {
            Queue::Limbo => self.fresh..self.standings.len() as u32,
            _ => 0..0,
        };
        let entries = self.rings.iter(queue);
        fresh
            .chain(entries.map(|entry| self.frame_of(entry)))
            .collect()
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        let mut seen = vec![false; self.nr_frames()];
        for queue in Queue::ALL {
            let frames = self.frames(queue);
            assert_eq!(frames.len(), self.len(queue) as usize);
            let mut size = 0;
            for frame in frames {
                assert!(!seen[frame as usize], "frame {frame} is in two places");
                seen[frame as usize] = true;
                let standing = self.standing(frame);
                assert_eq!(standing.queue(), queue, "frame {frame}");
                size += u64::from(standing.nr_frames());
            }
            assert_eq!(size, self.size(queue), "{queue:?}");
        }
        let limbo = self.frames(Queue::Limbo);
        let idle = limbo
            .iter()
            .filter(|&&frame| self.standing(frame).age() == IDLE);
        assert_eq!(idle.count(), self.nr_idle() as usize);
        assert!(seen.iter().all(|&seen| seen), "a frame is in no queue");
        assert_eq!(self.taken.len(), self.seats.len());
        assert!(self.taken.len() <= most_taken(self.nr_frames()));
        for (entry, frame) in &self.taken {
            assert_eq!(self.seats.get(frame), Some(entry));
        }
    }
}
