//! The place of each frame: which queue it is in, of which group, and where.
//!
//! Invariants.
//! - I1: each frame is in exactly one queue, at one place; the one that is in a hand's hand is in none.
//! - I2: a queue's size is that of the pages in it, in frames; limbo and the others count entries.
//! - I3: a frame has at most two entries. A second one is either *taken*, and stands for another frame, or *empty*.
//!
//! A page that moves to another frame keeps its place. The entry there still names the old frame: finding it would take a search.
//! So the place is noted as `taken` by the new frame, and the old frame gets another entry, with the other turn. Few pages move,
//! so there is room for few such notes; without it, the page gets a new place.
//!
//! A group that is [apart](Places::set_apart) has to find its pages in its own queues. When one arrives in a frame that has its place
//! elsewhere, the frame is [taken out](Places::take_out): its entry there is empty from then on, and is dropped when its turn comes.

use std::collections::HashMap;

use crate::rings::{RingNr, Rings};
use crate::words::{Entry, Epoch, Group, Home, Queue, Standing};

/// The age of a frame in limbo that had no page when it was looked at.
pub(crate) const IDLE: u8 = 1;

/// How many empty entries in a row are dropped for one that is not.
const MOST_EMPTY: usize = 4096;

/// Where each frame is.
#[derive(Debug)]
pub(crate) struct Places {
    standings: Vec<Standing>,
    /// For each frame, if there is a group that is apart.
    homes: Vec<Home>,
    rings: Rings,
    /// Frames from here on were never looked at. They are the first of limbo, and have no entry yet.
    fresh: u32,
    /// By the entry: the frame that it stands for, if that is not the one it names.
    taken: HashMap<Entry, u32>,
    /// By the frame: the entry that stands for it, if it names another.
    seats: HashMap<u32, Entry>,
    /// For each group, what is known of its queues. The first is for the pages of no group.
    lines: Vec<Line>,
}

/// The queues of one group.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// The group whose time counts here.
    domain: Group,
    /// How many frames of limbo had no page when they were looked at, and were not evicted by us since.
    nr_idle: u32,
    /// The size of each queue.
    sizes: [u64; Queue::ALL.len()],
    /// How many entries of each queue are empty.
    nr_empty: [u32; Queue::ALL.len()],
    /// The time.
    now: Epoch,
}

/// How many pages may have another's entry.
const fn most_taken(nr_frames: usize) -> usize {
    nr_frames / 64 + 16
}

/// Frames without a page are of no group.
const fn home_of(queue: Queue, group: Group) -> Group {
    match queue {
        Queue::Others => Group::NONE,
        _ => group,
    }
}

impl Places {
    pub(crate) const fn bytes(nr_frames: usize) -> usize {
        // A table of the standard library has at most 2 * 8 / 7 buckets for each item, of the item and a byte.
        let item = size_of::<Entry>() + size_of::<u32>() + 1;
        let tables = 2 * (most_taken(nr_frames) * 16 / 7 + 16) * item;
        nr_frames * size_of::<Standing>() + Rings::bytes(nr_frames) + tables
    }

    /// What groups that are apart take beside that.
    pub(crate) const fn bytes_of_apart(nr_frames: usize) -> usize {
        nr_frames * size_of::<Home>() + Rings::bytes_of_double(nr_frames)
    }

    pub(crate) fn new(nr_frames: usize) -> Self {
        let most = most_taken(nr_frames);
        let mut line = Line::default();
        line.sizes[Queue::Limbo as usize] = nr_frames as u64;
        Self {
            standings: vec![Standing::default(); nr_frames],
            homes: Vec::new(),
            rings: Rings::new(nr_frames),
            fresh: 0,
            taken: HashMap::with_capacity(most),
            seats: HashMap::with_capacity(most),
            lines: vec![line],
        }
    }

    pub(crate) const fn nr_frames(&self) -> usize {
        self.standings.len()
    }

    /// How many groups there are, with that of pages of no group.
    pub(crate) const fn nr_groups(&self) -> usize {
        self.lines.len()
    }

    /// From now on there are so many groups at the least.
    pub(crate) fn grow(&mut self, nr_groups: usize) {
        while self.lines.len() < nr_groups.min(Group::MOST) {
            self.rings.add_group();
            self.lines.push(Line::default());
        }
    }

    /// Whether a group's pages have rules, and a time, of their own.
    pub(crate) fn is_apart(&self, group: Group) -> bool {
        group != Group::NONE && self.domain(group) == group
    }

    /// Sets a group apart, or has it be one with the pages of no group. What its places say of time begins anew.
    pub(crate) fn set_apart(&mut self, group: Group, is_apart: bool) {
        if group == Group::NONE || self.is_apart(group) == is_apart {
            return;
        }
        if is_apart && self.homes.is_empty() {
            self.note_homes();
        }
        let domain = if is_apart { group } else { Group::NONE };
        self.lines[group.index()].domain = domain;
        let now = self.now(group);
        for queue in Queue::ALL {
            if home_of(queue, group) == group {
                self.rings.set_since(RingNr::new(queue, group), now);
            }
        }
    }

    /// Begins to keep homes. From now on every frame has an entry.
    fn note_homes(&mut self) {
        self.rings.double(self.nr_frames());
        let now = self.now(Group::NONE);
        for frame in self.fresh..self.standings.len() as u32 {
            let entry = Entry::new(frame, self.standing(frame).turn());
            let limbo = RingNr::new(Queue::Limbo, Group::NONE);
            self.rings.push(limbo, entry, now);
        }
        self.fresh = self.standings.len() as u32;
        self.homes = vec![Home::default(); self.nr_frames()];
        for group in (1..self.nr_groups()).filter_map(Group::new) {
            for queue in Queue::ALL {
                if home_of(queue, group) == Group::NONE {
                    continue;
                }
                for entry in self.rings.iter(RingNr::new(queue, group)) {
                    let frame = self.taken.get(&entry).copied().unwrap_or(entry.frame());
                    self.homes[frame as usize] = Home::default().in_group(group);
                }
            }
        }
    }

    pub(crate) fn standing(&self, frame: u32) -> Standing {
        self.standings[frame as usize]
    }

    /// The group whose time and rules count for `group`.
    pub(crate) fn domain(&self, group: Group) -> Group {
        self.lines[group.index()].domain
    }

    /// Loads what is known of a frame, so that it is near when the frame is popped.
    pub(crate) fn touch(&self, frame: u32) -> u32 {
        self.standings
            .get(frame as usize)
            .map_or(0, |standing| standing.nr_frames())
    }

    /// How many entries a queue has.
    pub(crate) fn len(&self, queue: Queue, group: Group) -> u32 {
        let fresh = match queue {
            Queue::Limbo if group == Group::NONE => self.standings.len() as u32 - self.fresh,
            _ => 0,
        };
        let nr_empty = self.lines[group.index()].nr_empty[queue as usize];
        self.rings.len(RingNr::new(queue, group)) - nr_empty + fresh
    }

    /// The time of a group: how many frames were evicted, of it or of all.
    pub(crate) fn now(&self, group: Group) -> Epoch {
        self.lines[self.domain(group).index()].now
    }

    /// So many frames of a group were evicted.
    pub(crate) fn pass(&mut self, group: Group, nr_frames: u32) {
        let domain = self.domain(group);
        let now = &mut self.lines[domain.index()].now;
        *now = now.after(nr_frames);
    }

    /// For how long the first frame of a queue is there, about.
    pub(crate) fn waited(&self, queue: Queue, group: Group) -> u32 {
        self.rings
            .waited(RingNr::new(queue, group), self.now(group))
    }

    /// How many frames the pages of a queue have.
    pub(crate) fn size(&self, queue: Queue, group: Group) -> u64 {
        self.lines[group.index()].sizes[queue as usize]
    }

    /// How many frames the pages of a queue have, of all groups of a domain together.
    pub(crate) fn size_of_domain(&self, queue: Queue, domain: Group) -> u64 {
        let lines = self.lines.iter().filter(|line| line.domain == domain);
        lines.map(|line| line.sizes[queue as usize]).sum()
    }

    /// Takes the first frame out of a queue.
    pub(crate) fn pop(&mut self, queue: Queue, group: Group) -> Option<u32> {
        let group = home_of(queue, group);
        let is_fresh = queue == Queue::Limbo
            && group == Group::NONE
            && (self.fresh as usize) < self.standings.len();
        let frame = if is_fresh {
            self.fresh += 1;
            self.fresh - 1
        } else {
            let entry = self.pop_entry(queue, group)?;
            self.stands_for(entry, |places, frame| {
                places.taken.remove(&entry);
                places.seats.remove(&frame);
            })
        };
        self.leave(frame, queue, group);
        Some(frame)
    }

    /// The first entry of a queue that is not empty; none too if there are very many of those.
    fn pop_entry(&mut self, queue: Queue, group: Group) -> Option<Entry> {
        for _ in 0..MOST_EMPTY {
            let entry = self.rings.pop(RingNr::new(queue, group))?;
            if !self.is_empty(entry) {
                return Some(entry);
            }
            let home = &mut self.homes[entry.frame() as usize];
            *home = home.with_empty(false);
            self.lines[group.index()].nr_empty[queue as usize] -= 1;
        }
        None
    }

    /// Whether a frame was taken out of this entry.
    fn is_empty(&self, entry: Entry) -> bool {
        let home = self.homes.get(entry.frame() as usize);
        home.is_some_and(|home| home.has_empty())
            && entry.turn() != self.standing(entry.frame()).turn()
    }

    /// Counts a frame no more in the queue that it has left.
    fn leave(&mut self, frame: u32, queue: Queue, group: Group) {
        let standing = self.standing(frame);
        let line = &mut self.lines[group.index()];
        line.sizes[queue as usize] -= u64::from(standing.nr_frames());
        if queue == Queue::Limbo && standing.age() == IDLE {
            line.nr_idle -= 1;
        }
    }

    /// Puts a frame that is in no queue at the end of one.
    pub(crate) fn push(
        &mut self,
        frame: u32,
        (queue, group): (Queue, Group),
        age: u8,
        nr_frames: u32,
    ) {
        let group = home_of(queue, group);
        let standing = self.standing(frame).in_queue(queue, age);
        let standing = standing.of_frames(nr_frames);
        let line = &mut self.lines[group.index()];
        line.sizes[queue as usize] += u64::from(standing.nr_frames());
        if queue == Queue::Limbo && age == IDLE {
            line.nr_idle += 1;
        }
        self.put(frame, standing, group);
    }

    /// Sets the age of a frame that is in no queue.
    pub(crate) fn set_age(&mut self, frame: u32, age: u8) {
        let standing = self.standing(frame);
        self.standings[frame as usize] = standing.in_queue(standing.queue(), age);
    }

    /// How many frames of limbo are there for long without a page: at hand in some list, or in other use.
    pub(crate) fn nr_idle(&self, group: Group) -> u32 {
        self.lines[group.index()].nr_idle
    }

    fn put(&mut self, frame: u32, standing: Standing, group: Group) {
        let mut turn = standing.turn();
        if !self.taken.is_empty() && self.taken.contains_key(&Entry::new(frame, turn)) {
            turn = turn.other();
        }
        self.standings[frame as usize] = standing.with_turn(turn);
        if let Some(home) = self.homes.get_mut(frame as usize) {
            *home = home.in_group(group);
        }
        let ring = RingNr::new(standing.queue(), group);
        let now = self.now(group);
        self.rings.push(ring, Entry::new(frame, turn), now);
    }

    /// Gives the place of the page in `from` to `to`, which is in no queue. Then `from` is in none.
    ///
    /// False, and nothing is done, if `from` has no page as far as is known, or there is no room to note that.
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
                    || self.is_empty(other)
                {
                    return false;
                }
                Entry::new(from, standing.turn())
            }
        };
        self.seats.remove(&from);
        self.taken.insert(seat, to);
        self.seats.insert(to, seat);
        // The size of the queue stays: it is the same page.
        let turn = self.standing(to).turn();
        self.standings[to as usize] = standing.with_turn(turn);
        if let Some(&home) = self.homes.get(from as usize) {
            let there = &mut self.homes[to as usize];
            *there = there.in_group(home.group());
        }
        true
    }

    /// Takes a frame out of its place, wherever that is. Then it is in no queue.
    ///
    /// False, and nothing is done, if the entry there has to stay for the frame, or no group is apart.
    pub(crate) fn take_out(&mut self, frame: u32) -> bool {
        let Some(&home) = self.homes.get(frame as usize) else {
            return false;
        };
        let standing = self.standing(frame);
        let turns = [standing.turn(), standing.turn().other()];
        if home.has_empty()
            || self.seats.contains_key(&frame)
            || turns
                .map(|turn| Entry::new(frame, turn))
                .iter()
                .any(|entry| self.taken.contains_key(entry))
        {
            return false;
        }
        self.leave(frame, standing.queue(), home.group());
        self.lines[home.group().index()].nr_empty[standing.queue() as usize] += 1;
        self.homes[frame as usize] = home.with_empty(true);
        self.standings[frame as usize] = standing.with_turn(standing.turn().other());
        true
    }

    /// The frame that an entry stands for.
    fn stands_for<'s>(&'s mut self, entry: Entry, found: impl FnOnce(&'s mut Self, u32)) -> u32 {
        if self.taken.is_empty() {
            return entry.frame();
        }
        match self.taken.get(&entry) {
            Some(&frame) => {
                found(self, frame);
                frame
            }
            None => entry.frame(),
        }
    }

    /// The frames that will be popped next; at most `into.len()`, maybe fewer than there are, maybe some that were taken out. Returns
    /// how many.
    pub(crate) fn ahead(&self, queue: Queue, group: Group, into: &mut [u32]) -> usize {
        if queue == Queue::Limbo
            && group == Group::NONE
            && (self.fresh as usize) < self.standings.len()
        {
            let nr = into.len().min(self.standings.len() - self.fresh as usize);
            for (into, frame) in into[..nr].iter_mut().zip(self.fresh..) {
                *into = frame;
            }
            return nr;
        }
        let entries = self.rings.ahead(RingNr::new(queue, group), into.len());
        for (into, entry) in into.iter_mut().zip(entries) {
            *into = match self.taken.is_empty() {
                true => entry.frame(),
                false => self.taken.get(entry).copied().unwrap_or(entry.frame()),
            };
        }
        entries.len()
    }

    /// The frames of a queue, first to last.
    #[cfg(test)]
    pub(crate) fn frames(&self, queue: Queue, group: Group) -> Vec<u32> {
        let fresh = match queue {
            Queue::Limbo if group == Group::NONE => self.fresh..self.standings.len() as u32,
            _ => 0..0,
        };
        let entries = self.rings.iter(RingNr::new(queue, group));
        let entries = entries.filter(|&entry| !self.is_empty(entry));
        fresh
            .chain(entries.map(|entry| self.taken.get(&entry).copied().unwrap_or(entry.frame())))
            .collect()
    }

    /// Panics if an invariant does not hold.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let mut seen = vec![false; self.nr_frames()];
        let mut nr_empty = 0;
        for group in (0..self.nr_groups()).filter_map(Group::new) {
            for queue in Queue::ALL {
                if home_of(queue, group) != group {
                    continue;
                }
                let frames = self.frames(queue, group);
                assert_eq!(frames.len(), self.len(queue, group) as usize);
                nr_empty += self.lines[group.index()].nr_empty[queue as usize];
                let mut size = 0;
                for frame in frames {
                    assert!(!seen[frame as usize], "frame {frame} is in two places");
                    seen[frame as usize] = true;
                    let standing = self.standing(frame);
                    assert_eq!(standing.queue(), queue, "frame {frame}");
                    if let Some(home) = self.homes.get(frame as usize) {
                        assert_eq!(home.group(), group, "frame {frame}");
                    }
                    size += u64::from(standing.nr_frames());
                }
                assert_eq!(size, self.size(queue, group), "{queue:?}");
            }
            let limbo = self.frames(Queue::Limbo, group);
            let idle = limbo
                .iter()
                .filter(|&&frame| self.standing(frame).age() == IDLE);
            assert_eq!(idle.count(), self.nr_idle(group) as usize);
        }
        assert!(seen.iter().all(|&seen| seen), "a frame is in no queue");
        let with_empty = self.homes.iter().filter(|home| home.has_empty());
        assert_eq!(with_empty.count(), nr_empty as usize);
        assert_eq!(self.taken.len(), self.seats.len());
        assert!(self.taken.len() <= most_taken(self.nr_frames()));
        for (entry, frame) in &self.taken {
            assert_eq!(self.seats.get(frame), Some(entry));
            assert!(!self.is_empty(*entry));
        }
    }
}
