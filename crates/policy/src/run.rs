//! The hands: arrivals are sorted in, and pages are evicted, in runs.
//!
//! A run. 1. What has arrived in limbo is sorted in. 2. A few of the others are looked at: they may have a page by now. 3. The hands
//! look at the first pages of the window and of the main queue, as the [rules](crate::rules) say, until enough have gone.
//!
//! Groups. Each has queues of its own, so that a run can pass over the pages of one that has no more than it is guaranteed. Otherwise
//! groups are one: of their first pages the one that waits longest is next, and rules and time are those of all together. A group
//! that is *apart*, since it has a limit, is a cache of its own in the cache: with rules, time, and runs of its own. A run
//! for all takes from it as from the rest, in proportion to their sizes.
//!
//! Bounds. A run looks at a number of frames that depends on how many it shall evict, and a few for each group that was apart. It may evict fewer, if
//! pages stay, or are in use.
//!
//! Pages that stay. A page that is dirty, pinned or claimed is put back at the end of its queue. The window may have nothing else while a file
//! is written: a run that has met a few more of them than it shall evict goes on with the other queue.

use crate::domain::Domain;
use crate::notes::Notes;
use crate::pages::{Content, Pages};
use crate::places::{IDLE, Places};
use crate::rules::{DEMOTED, Rules, Sizes, Verdict};
use crate::words::{Ghost, Group, Note, Queue};

/// How many levels [`Pages::prefetch`] has.
const NR_LEVELS: u8 = 3;

/// How many frames are loaded ahead: at most, and in a run for few.
const AHEAD: usize = 16;
const FEW: usize = 4;

/// How many moves are followed at once.
const MOST_MOVES: usize = 64;

/// How many pages that are guaranteed a run looks at, in the queues of groups that have more entries there than pages: those of pages that
/// only a pin keeps do not go.
const MOST_VAIN: u32 = 8;

/// A run that has found more pages of a queue that stay than it shall evict, times this, and some, looks at the other queue.
const STAYING: u32 = 2;
const SOME_STAYING: u32 = 16;

/// How many frames one queue gives before another group's may be next.
const LEASE: u32 = 16;

/// For so many evictions a frame is in the limbo of the group that has evicted its page: about as many as a thread evicts before it fills
/// the first of them.
pub(crate) const GRACE: u32 = 64;

/// Which pages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    /// Those that the rules say.
    Easy,
    /// Any.
    Hard,
}

/// A run, with what it works on.
pub(crate) struct Run<'r, P> {
    places: &'r mut Places,
    domains: &'r mut [Domain],
    last_looked: &'r mut u64,
    notes: &'r Notes,
    pages: &'r mut P,
    /// How many of the first frames of each queue are loaded already, of which group.
    loaded: [(Group, usize); Queue::ALL.len()],
    /// For each queue whose pages are next, and how many.
    leases: [(Group, u32); Queue::ALL.len()],
    /// How many are loaded at once.
    nr_at_once: usize,
    /// Whether more pages have come than room was made for.
    is_backlog: bool,
    /// How many pages were looked at that are guaranteed.
    nr_vain: u32,
    /// How many pages of each queue would have gone and stay, and how many may before the other queue is looked at.
    nr_staying: [u32; Queue::ALL.len()],
    most_staying: u32,
    /// How many pages of the main queue may be looked at for those that come again.
    nr_challenges: usize,
}

impl<'r, P: Pages> Run<'r, P> {
    /// A run for about `nr` frames. It looks at the last number to divide its looks among domains.
    pub(crate) fn new(
        (places, domains, last_looked): (&'r mut Places, &'r mut [Domain], &'r mut u64),
        nr: usize,
        notes: &'r Notes,
        pages: &'r mut P,
    ) -> Self {
        Self {
            places,
            domains,
            last_looked,
            notes,
            pages,
            loaded: [(Group::NONE, 0); Queue::ALL.len()],
            leases: [(Group::NONE, 0); Queue::ALL.len()],
            nr_at_once: nr.clamp(FEW, AHEAD),
            is_backlog: false,
            nr_vain: 0,
            nr_staying: [0; Queue::ALL.len()],
            most_staying: (nr as u32)
                .saturating_mul(STAYING)
                .saturating_add(SOME_STAYING),
            nr_challenges: nr.saturating_mul(4).saturating_add(64),
        }
    }

    /// Sorts in what is in limbo: what has arrived since the last run, as a rule.
    pub(crate) fn sort_in(&mut self, nr: usize) {
        let limbo = (Queue::Limbo, Group::NONE);
        let len = self.places.len(limbo.0, limbo.1) as usize;
        let nr_new = len - self.places.nr_idle(limbo.1) as usize;
        let is_backlog = nr_new > nr.saturating_mul(4).saturating_add(8);
        let sizes = self.sizes(Group::NONE);
        let rules = &mut self.domains[Group::NONE.index()].rules;
        if is_backlog || rules.is_main_empty(sizes) {
            rules.begin_to_fill();
        }
        let most = nr.saturating_mul(8).saturating_add(64).min(len);
        for done in 0..most {
            // The last ones are for the window, out of which they can go.
            self.is_backlog = is_backlog && done + nr < most;
            let Some((frame, note)) = self.pop(limbo) else {
                break;
            };
            self.settle(frame, note);
        }
        self.is_backlog = false;
        for group in self.groups().skip(1) {
            self.sort_in_of(group, nr, 0);
        }
    }

    /// Sorts in what is in the limbo of a group that is apart, or was, for so many evictions.
    pub(crate) fn sort_in_of(&mut self, group: Group, nr: usize, grace: u32) {
        let limbo = (Queue::Limbo, group);
        for _ in 0..nr.saturating_mul(2).saturating_add(8) {
            // Until then a frame is taken out of here when the group has filled it.
            if self.places.len(limbo.0, group) == 0 || self.places.waited(limbo.0, group) < grace {
                return;
            }
            let Some((frame, note)) = self.pop(limbo) else {
                return;
            };
            // What is free for so long is anybody's.
            self.settle(frame, note);
        }
    }

    /// Looks at a few frames of the limbo of all: those out of which a frame could not be [taken](Places::take_out) are there too.
    pub(crate) fn look_at_limbo(&mut self, nr: usize) {
        let limbo = (Queue::Limbo, Group::NONE);
        let len = self.places.len(limbo.0, limbo.1) as usize;
        for _ in 0..(nr / 4 + 1).min(len) {
            let Some((frame, note)) = self.pop(limbo) else {
                return;
            };
            self.settle(frame, note);
        }
    }

    /// Sorts in what has arrived in a frame.
    pub(crate) fn sort_in_one(&mut self, frame: u32) {
        if frame as usize >= self.places.nr_frames() {
            return;
        }
        let note = self.notes.take(frame);
        // Without a note it was sorted in already.
        if note == Note::Nothing {
            return;
        }
        if self.places.take_out(frame) {
            self.settle(frame, note);
        } else {
            self.notes.put_back(frame, note);
        }
    }

    pub(crate) fn look_at_others(&mut self, nr: usize) {
        let queue = (Queue::Others, Group::NONE);
        let others = u64::from(self.places.len(queue.0, queue.1));
        if others == 0 {
            return;
        }
        // About as often as the pages are.
        let pages: u64 = self
            .groups()
            .map(|group| {
                self.places.size(Queue::Window, group) + self.places.size(Queue::Main, group)
            })
            .sum();
        let share = (nr as u64).saturating_mul(others) / (pages + 1) + 1;
        for _ in 0..share.min(others).min(4 * nr as u64 + 1) {
            let Some((frame, note)) = self.pop(queue) else {
                return;
            };
            self.settle(frame, note);
        }
    }

    /// Evicts pages: of a group that is apart, or of all that have some to spare.
    pub(crate) fn go(&mut self, nr: usize, only: Option<Group>) -> usize {
        let mut nr_evicted = 0;
        // Half of the looks are for pages that are not in use; then any that can go does.
        let easy = nr.saturating_mul(16).saturating_add(64);
        for look in 0..easy.saturating_mul(2) {
            if nr_evicted >= nr {
                break;
            }
            let effort = if look < easy {
                Effort::Easy
            } else {
                Effort::Hard
            };
            let Some(next) = self.next(only) else {
                break;
            };
            let Some((frame, note)) = self.pop(next) else {
                break;
            };
            if only.is_none() && self.places.nr_groups() > 1 {
                self.note_look(next.1);
            }
            let limbo = only.unwrap_or(Group::NONE);
            nr_evicted += self.look(next, frame, note, effort, limbo);
        }
        nr_evicted
    }

    /// The queue whose first page is looked at next, if there is one: of one group that is apart, or of all.
    fn next(&mut self, only: Option<Group>) -> Option<(Queue, Group)> {
        let domain = match only {
            Some(group) => group,
            None if self.places.nr_groups() == 1 => Group::NONE,
            None => self.next_domain()?,
        };
        let sizes = match only {
            Some(_) => self.sizes(domain),
            None => self.sizes_to_spare(domain),
        };
        let queue = self.domains[domain.index()].rules.next(sizes);
        let other = match queue {
            Queue::Window => Queue::Main,
            _ => Queue::Window,
        };
        // The window may have nothing but pages that were just written: it is not gone round again for each run.
        let has_staying = |queue: Queue| self.nr_staying[queue as usize] > self.most_staying;
        let (queue, other) = match has_staying(queue) && !has_staying(other) {
            true => (other, queue),
            false => (queue, other),
        };
        [queue, other].into_iter().find_map(|queue| {
            let group = match only {
                Some(group) => Some(group),
                None => self.longest_waiting(queue, domain),
            }?;
            (self.places.len(queue, group) != 0).then_some((queue, group))
        })
    }

    /// The domain that a run for all looks at next: at each in proportion to its size.
    fn next_domain(&self) -> Option<Group> {
        let has_pages = |domain: Group| {
            let sizes = self.sizes_to_spare(domain);
            sizes.window + sizes.main != 0
        };
        let domains = self
            .groups()
            .filter(|&group| self.places.domain(group) == group);
        domains
            .filter(|&domain| has_pages(domain))
            .min_by_key(|domain| self.domains[domain.index()].looked.max(*self.last_looked))
    }

    /// The group of a domain with pages in `queue`, and frames to spare, whose first page there waits longest.
    fn longest_waiting(&mut self, queue: Queue, domain: Group) -> Option<Group> {
        if self.places.nr_groups() == 1 {
            return Some(domain);
        }
        let (group, nr_left) = self.leases[queue as usize];
        let is_open = |group| {
            self.places.domain(group) == domain
                && self.is_open(group)
                && self.places.len(queue, group) != 0
        };
        if nr_left != 0 && is_open(group) {
            self.leases[queue as usize].1 -= 1;
            return Some(group);
        }
        let group = self
            .groups()
            .filter(|&group| is_open(group))
            .max_by_key(|&group| self.places.waited(queue, group))?;
        self.leases[queue as usize] = (group, LEASE - 1);
        Some(group)
    }

    /// Whether others may take frames of a group.
    fn has_spare(&self, group: Group) -> bool {
        self.domains[group.index()].quota.nr_spare != 0
    }

    /// Whether a run for all looks at the pages of a group: some can go, or have gone, and their frames may have others now.
    fn is_open(&self, group: Group) -> bool {
        let nr_frames = self.domains[group.index()].quota.nr_frames;
        let [window, main] = [Queue::Window, Queue::Main];
        let size = self.places.size(window, group) + self.places.size(main, group);
        self.has_spare(group) || size > nr_frames && self.nr_vain < MOST_VAIN
    }

    fn groups(&self) -> impl Iterator<Item = Group> + use<P> {
        (0..self.places.nr_groups()).filter_map(Group::new)
    }

    /// Looks at a page that was taken out of a queue. Returns how many frames it has freed; they go to the limbo of group `limbo`.
    fn look(
        &mut self,
        (queue, group): (Queue, Group),
        frame: u32,
        note: Note,
        effort: Effort,
        limbo: Group,
    ) -> usize {
        if note != Note::Nothing {
            // What was here has gone, and something else has come.
            let age = self.places.standing(frame).age();
            return match self.settle_but_moved(frame, note) {
                Some(moved) => {
                    self.places.set_age(moved, age);
                    self.look((queue, group), moved, Note::Nothing, effort, limbo)
                }
                None => 0,
            };
        }
        let nr_frames = match self.pages.content(frame) {
            Content::Page(nr_frames, of) if self.known(of) == group => nr_frames,
            Content::Page(..) => {
                self.settle(frame, note);
                return 0;
            }
            empty => {
                self.put_empty(frame, empty);
                return 0;
            }
        };
        let domain = self.places.domain(group);
        let age = self.places.standing(frame).age();
        let nr_spare = self.domains[group.index()].quota.nr_spare;
        if limbo == Group::NONE && nr_spare < u64::from(nr_frames) {
            self.nr_vain += 1;
            self.places.push(frame, (queue, group), age, nr_frames);
            return 0;
        }
        match self.judge((queue, group), frame) {
            Verdict::To(queue, age) if effort == Effort::Easy => {
                self.places.push(frame, (queue, group), age, nr_frames);
            }
            _ => {
                let ghost = Rules::ghost(queue, age, self.places.now(group));
                if self.pages.evict(frame, ghost).is_ok() {
                    let of = &mut self.domains[domain.index()];
                    of.rules.has_gone(queue, age);
                    of.level = of.quota.nr_frames;
                    self.places.pass(group, nr_frames);
                    self.places.push(frame, (Queue::Limbo, limbo), 0, 1);
                    let quota = &mut self.domains[group.index()].quota;
                    quota.nr_spare = quota.nr_spare.saturating_sub(u64::from(nr_frames));
                    return nr_frames as usize;
                }
                self.nr_staying[queue as usize] += 1;
                self.places.push(frame, (queue, group), age, nr_frames);
            }
        }
        0
    }

    /// Counts a look of a run for all.
    fn note_look(&mut self, group: Group) {
        let domain = self.places.domain(group);
        let sizes = self.sizes_to_spare(domain);
        let size = (sizes.window + sizes.main).max(1);
        let looked = &mut self.domains[domain.index()].looked;
        *self.last_looked = (*looked).max(*self.last_looked);
        *looked = self.last_looked.saturating_add((1 << 32) / size);
    }

    /// Gives a frame of which nothing is known any more its place.
    fn settle(&mut self, frame: u32, note: Note) {
        if let Some(moved) = self.settle_but_moved(frame, note) {
            // Its place was in limbo.
            let _ = self.settle_one(moved, Note::Nothing);
        }
    }

    /// As [`Run::settle`]. If the page that was in `frame` is found in another frame, returns that one: the place in the hand is its.
    fn settle_but_moved(&mut self, frame: u32, note: Note) -> Option<u32> {
        let start = frame;
        let mut next = self.settle_one(frame, note);
        // The frame out of which a page has moved may have got another that has moved, and so on.
        for _ in 0..MOST_MOVES {
            let frame = next?;
            let note = self.notes.take(frame);
            if note == Note::MovedFrom(start) {
                return Some(frame);
            }
            next = self.settle_one(frame, note);
        }
        let frame = next?;
        self.places.push(frame, (Queue::Limbo, Group::NONE), 0, 1);
        None
    }

    /// As [`Run::settle`]; returns a frame that has lost its place by that.
    fn settle_one(&mut self, frame: u32, note: Note) -> Option<u32> {
        let (nr_frames, group) = match self.pages.content(frame) {
            Content::Page(nr_frames, group) => (nr_frames, self.known(group)),
            empty => {
                self.put_empty(frame, empty);
                return None;
            }
        };
        let ghost = match note {
            Note::MovedFrom(from) if self.places.hand_over(from, frame) => return Some(from),
            Note::Arrived(ghost) => ghost,
            // Nobody has said so, or not yet.
            Note::MovedFrom(_) | Note::Nothing => None,
        };
        let queue = self.admit(ghost, group);
        self.places.push(frame, (queue, group), 0, nr_frames);
        None
    }

    /// Gives a frame without a page its place.
    fn put_empty(&mut self, frame: u32, content: Content) {
        match content {
            Content::Other => self.places.push(frame, (Queue::Others, Group::NONE), 0, 1),
            Content::Nothing | Content::Page(..) => {
                self.places
                    .push(frame, (Queue::Limbo, Group::NONE), IDLE, 1);
            }
        }
    }

    /// Where a page of `group` begins that was filled.
    fn admit(&mut self, ghost: Option<Ghost>, group: Group) -> Queue {
        let domain = self.places.domain(group);
        let sizes = self.sizes(domain);
        let Domain { rules, quota, .. } = &mut self.domains[domain.index()];
        let is_backlog = match domain {
            Group::NONE => self.is_backlog,
            _ => quota.is_growing,
        };
        if is_backlog && rules.has_room(sizes) {
            return Queue::Main;
        }
        let Some(ghost) = ghost else {
            return Queue::Window;
        };
        let now = self.places.now(group);
        rules.learn(ghost, now, sizes);
        if self.takes_a_place(Rules::distance(ghost, now, sizes), domain) {
            Queue::Main
        } else {
            Queue::Window
        }
    }

    /// Whether a page that comes again after `distance` takes the place of one in the main queue of its domain, which was not used for
    /// longer.
    fn takes_a_place(&mut self, distance: u64, domain: Group) -> bool {
        while self.nr_challenges > 0 {
            self.nr_challenges -= 1;
            let Some(group) = self.first_of_main(domain) else {
                return false;
            };
            if !Rules::is_unused_for(self.places.waited(Queue::Main, group), distance) {
                return false;
            }
            let Some((frame, note)) = self.pop((Queue::Main, group)) else {
                return false;
            };
            if note != Note::Nothing {
                // What was here has gone; what has come has its turn.
                self.notes.put_back(frame, note);
                self.places.push(frame, (Queue::Limbo, domain), 0, 1);
                continue;
            }
            let nr_frames = match self.pages.content(frame) {
                Content::Page(nr_frames, of) if self.known(of) == group => nr_frames,
                // Of another group, for which it is looked at when its turn comes.
                Content::Page(..) => {
                    self.places.push(frame, (Queue::Limbo, Group::NONE), 0, 1);
                    continue;
                }
                empty => {
                    self.put_empty(frame, empty);
                    continue;
                }
            };
            match self.judge((Queue::Main, group), frame) {
                Verdict::Evict => {
                    let window = (Queue::Window, group);
                    self.places.push(frame, window, DEMOTED, nr_frames);
                    return true;
                }
                Verdict::To(queue, age) => {
                    self.places.push(frame, (queue, group), age, nr_frames);
                }
            }
        }
        false
    }

    /// The group of a domain whose first page of the main queue waits longest.
    fn first_of_main(&self, domain: Group) -> Option<Group> {
        if self.places.nr_groups() == 1 || domain != Group::NONE {
            return Some(domain);
        }
        let groups = self.groups().filter(|&group| {
            self.places.domain(group) == domain && self.places.len(Queue::Main, group) != 0
        });
        groups.max_by_key(|&group| self.places.waited(Queue::Main, group))
    }

    /// Takes the mark off a page, and says what becomes of it.
    fn judge(&mut self, (queue, group): (Queue, Group), frame: u32) -> Verdict {
        let age = self.places.standing(frame).age();
        let is_marked = self.pages.take_mark(frame);
        let domain = self.places.domain(group);
        let sizes = self.sizes(domain);
        let rules = &mut self.domains[domain.index()].rules;
        rules.verdict(queue, age, is_marked, sizes)
    }

    /// The group, if it is known here, or none.
    const fn known(&self, group: Group) -> Group {
        if group.index() < self.places.nr_groups() {
            group
        } else {
            Group::NONE
        }
    }

    /// The sizes of a domain.
    fn sizes(&self, domain: Group) -> Sizes {
        let [window, main] =
            [Queue::Window, Queue::Main].map(|queue| self.places.size_of_domain(queue, domain));
        let all = match domain {
            Group::NONE => {
                // Frames that are free for long do not make room for pages: threads have them at hand.
                let limbo = self.places.size(Queue::Limbo, domain);
                limbo - u64::from(self.places.nr_idle(domain)) + window + main
            }
            // What has arrived and is not sorted in counts too.
            _ => self.domains[domain.index()]
                .quota
                .nr_frames
                .max(window + main),
        };
        Sizes { window, main, all }
    }

    /// The same, without the groups that have nothing to give.
    fn sizes_to_spare(&self, domain: Group) -> Sizes {
        let mut sizes = self.sizes(domain);
        if self.places.nr_groups() == 1 {
            return sizes;
        }
        for group in self.groups() {
            if self.places.domain(group) == domain && !self.is_open(group) {
                sizes.window -= self.places.size(Queue::Window, group);
                sizes.main -= self.places.size(Queue::Main, group);
            }
        }
        sizes
    }

    fn pop(&mut self, (queue, group): (Queue, Group)) -> Option<(u32, Note)> {
        let (of, nr) = self.loaded[queue as usize];
        let nr = match nr {
            nr if nr != 0 && of == group => nr,
            _ => self.load(queue, group),
        };
        self.loaded[queue as usize] = (group, nr.saturating_sub(1));
        let frame = self.places.pop(queue, group)?;
        Some((frame, self.notes.take(frame)))
    }

    /// Begins to load what the first frames of a queue will need; returns how many.
    fn load(&mut self, queue: Queue, group: Group) -> usize {
        let mut frames = [0; AHEAD];
        let frames = &mut frames[..self.nr_at_once];
        let nr = self.places.ahead(queue, group, frames);
        let frames = &frames[..nr];
        for &frame in frames {
            self.pages.prefetch(frame, 0);
        }
        // While these are on their way. The loads do not wait for each other.
        let known = frames
            .iter()
            .map(|&frame| self.notes.touch(frame) | self.places.touch(frame));
        std::hint::black_box(known.fold(0, |all, word| all | word));
        for level in 1..NR_LEVELS {
            for &frame in frames {
                self.pages.prefetch(frame, level);
            }
        }
        nr
    }
}
