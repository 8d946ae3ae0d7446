//! The hands: arrivals are sorted in, and pages are evicted, in runs.
//!
//! A run. 1. What has arrived in limbo is sorted in. 2. A few of the others are looked at: they may have a page by now. 3. The hands
//! look at the first pages of the window and of the main queue, as the [rules](crate::rules) say, until enough have gone.
//!
//! Bounds. A run looks at a number of frames that depends on how many it shall evict and on nothing else. It may evict fewer, if
//! pages stay, or are in use.

use crate::notes::Notes;
use crate::places::{IDLE, Places};
use crate::rules::{DEMOTED, Rules, Sizes, Verdict};
use crate::words::{Ghost, Note, Queue};

/// A page that cannot be evicted now: it is dirty, being written, pinned, or somebody else works on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stays;

/// What is in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing, or a page that is being filled.
    Nothing,
    /// The beginning of a page of so many frames, a power of two.
    Page(u32),
    /// Something that the policy cannot evict: the rest of a larger page, a leaf of the index, a frame of a memory space.
    Other,
}

/// The pages of a cache, as far as the policy has to do with them.
pub trait Pages {
    /// What is in `frame`, as far as can be said without a claim: a hint.
    fn content(&mut self, frame: u32) -> Content;

    /// Takes the referenced mark off the page in `frame`; whether it was on.
    fn take_mark(&mut self, frame: u32) -> bool;

    /// Evicts the page in `frame`, and leaves the ghost where the page will be looked for.
    ///
    /// # Errors
    ///
    /// When it stays.
    fn evict(&mut self, frame: u32, ghost: Ghost) -> Result<(), Stays>;

    /// Begins to load what the next calls for this frame will read. `level` 0 comes first, and is what `frame` leads to at once;
    /// 1 and 2 are what the one before leads to.
    fn prefetch(&mut self, frame: u32, level: u8);
}

/// How many levels [`Pages::prefetch`] has.
const NR_LEVELS: u8 = 3;

/// How many frames are loaded ahead: at most, and in a run for few.
const GROUP: usize = 16;
const FEW: usize = 4;

/// How many moves are followed at once.
const MOST_MOVES: usize = 64;

/// The policy of a cache of so many frames.
#[derive(Debug)]
pub struct Policy {
    places: Places,
    rules: Rules,
}

impl Policy {
    /// The most frames that a policy may have.
    pub const MAX_FRAMES: usize = (1 << 30) - 1;

    /// The policy for frames `0..nr_frames`, none of which has a page.
    ///
    /// # Panics
    ///
    /// When there are more than [`Policy::MAX_FRAMES`].
    #[must_use]
    pub fn new(nr_frames: usize) -> Self {
        assert!(nr_frames <= Self::MAX_FRAMES, "too many frames");
        Self {
            places: Places::new(nr_frames),
            rules: Rules::new(),
        }
    }

    /// How much memory the policy takes, with its [`Notes`].
    #[must_use]
    pub const fn bytes(nr_frames: usize) -> usize {
        size_of::<Self>() + Places::bytes(nr_frames) + nr_frames * size_of::<u32>()
    }

    /// Evicts pages of up to `nr` frames, or a few more if the last one is large. Returns how many frames.
    pub fn evict(&mut self, nr: usize, notes: &Notes, pages: &mut impl Pages) -> usize {
        let mut run = Run {
            places: &mut self.places,
            rules: &mut self.rules,
            notes,
            pages,
            nr_ahead: [0; Queue::ALL.len()],
            group: nr.clamp(FEW, GROUP),
            is_backlog: false,
            nr_challenges: nr.saturating_mul(4).saturating_add(64),
        };
        run.sort_in(nr);
        run.look_at_others(nr);
        run.go(nr)
    }
}

#[cfg(test)]
impl Policy {
    pub(crate) const fn places(&self) -> &Places {
        &self.places
    }
}

/// Which pages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    /// Those that the rules say.
    Easy,
    /// Any.
    Hard,
}

struct Run<'r, P> {
    places: &'r mut Places,
    rules: &'r mut Rules,
    notes: &'r Notes,
    pages: &'r mut P,
    /// How many of the first frames of each queue are loaded already.
    nr_ahead: [usize; Queue::ALL.len()],
    /// How many are loaded at once.
    group: usize,
    /// Whether more pages have come than room was made for.
    is_backlog: bool,
    /// How many pages of the main queue may be looked at for those that come again.
    nr_challenges: usize,
}

impl<P: Pages> Run<'_, P> {
    /// Sorts in what is in limbo: what has arrived since the last run, as a rule.
    fn sort_in(&mut self, nr: usize) {
        let len = self.places.len(Queue::Limbo) as usize;
        let nr_new = len - self.places.nr_idle() as usize;
        let is_backlog = nr_new > nr.saturating_mul(4).saturating_add(8);
        if is_backlog || self.rules.is_main_empty(self.sizes()) {
            self.rules.begin_to_fill();
        }
        let most = nr.saturating_mul(8).saturating_add(64).min(len);
        for done in 0..most {
            // The last ones are for the window, out of which they can go.
            self.is_backlog = is_backlog && done + nr < most;
            let Some((frame, note)) = self.pop(Queue::Limbo) else {
                break;
            };
            self.settle(frame, note);
        }
        self.is_backlog = false;
    }

    fn look_at_others(&mut self, nr: usize) {
        let others = u64::from(self.places.len(Queue::Others));
        if others == 0 {
            return;
        }
        // About as often as the pages are.
        let pages = self.places.size(Queue::Window) + self.places.size(Queue::Main);
        let share = (nr as u64).saturating_mul(others) / (pages + 1) + 1;
        for _ in 0..share.min(others).min(4 * nr as u64 + 1) {
            let Some((frame, note)) = self.pop(Queue::Others) else {
                return;
            };
            self.settle(frame, note);
        }
    }

    fn go(&mut self, nr: usize) -> usize {
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
            let sizes = self.sizes();
            if sizes.window + sizes.main == 0 {
                break;
            }
            let queue = match self.rules.next(sizes) {
                Queue::Window if self.places.len(Queue::Window) == 0 => Queue::Main,
                Queue::Main if self.places.len(Queue::Main) == 0 => Queue::Window,
                queue => queue,
            };
            let Some((frame, note)) = self.pop(queue) else {
                break;
            };
            nr_evicted += self.look(queue, frame, note, effort);
        }
        nr_evicted
    }

    /// Looks at a page that was taken out of a queue. Returns how many frames it has freed.
    fn look(&mut self, queue: Queue, frame: u32, note: Note, effort: Effort) -> usize {
        if note != Note::Nothing {
            // What was here has gone, and something else has come.
            self.settle(frame, note);
            return 0;
        }
        let nr_frames = match self.pages.content(frame) {
            Content::Page(nr_frames) => nr_frames,
            empty => {
                self.put_empty(frame, empty);
                return 0;
            }
        };
        let age = self.places.standing(frame).age();
        match self.judge(queue, frame) {
            Verdict::To(queue, age) if effort == Effort::Easy => {
                self.places.push(frame, queue, age, nr_frames)
            }
            _ => {
                let ghost = Rules::ghost(queue, age, self.places.now());
                if self.pages.evict(frame, ghost).is_ok() {
                    self.rules.has_gone(queue, age);
                    self.places.pass(nr_frames);
                    self.places.push(frame, Queue::Limbo, 0, 1);
                    return nr_frames as usize;
                }
                self.places.push(frame, queue, age, nr_frames);
            }
        }
        0
    }

    /// Gives a frame of which nothing is known any more its place.
    fn settle(&mut self, frame: u32, note: Note) {
        let mut next = self.settle_one(frame, note);
        // The frame out of which a page has moved may have got another that has moved, and so on.
        for _ in 0..MOST_MOVES {
            let Some(frame) = next else { return };
            next = self.settle_one(frame, self.notes.take(frame));
        }
        if let Some(frame) = next {
            self.places.push(frame, Queue::Limbo, 0, 1);
        }
    }

    /// As [`Run::settle`]; returns a frame that has lost its place by that.
    fn settle_one(&mut self, frame: u32, note: Note) -> Option<u32> {
        let nr_frames = match self.pages.content(frame) {
            Content::Page(nr_frames) => nr_frames,
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
        let queue = self.admit(ghost);
        self.places.push(frame, queue, 0, nr_frames);
        None
    }

    /// Gives a frame without a page its place.
    fn put_empty(&mut self, frame: u32, content: Content) {
        match content {
            Content::Other => self.places.push(frame, Queue::Others, 0, 1),
            Content::Nothing | Content::Page(_) => {
                self.places.push(frame, Queue::Limbo, IDLE, 1);
            }
        }
    }

    /// Where a page begins that was filled.
    fn admit(&mut self, ghost: Option<Ghost>) -> Queue {
        let sizes = self.sizes();
        if self.is_backlog && self.rules.has_room(sizes) {
            return Queue::Main;
        }
        let Some(ghost) = ghost else {
            return Queue::Window;
        };
        let now = self.places.now();
        self.rules.learn(ghost, now, sizes);
        if self.takes_a_place(Rules::distance(ghost, now, sizes)) {
            Queue::Main
        } else {
            Queue::Window
        }
    }

    /// Whether a page that comes again after `distance` takes the place of one in the main queue, which was not used for longer.
    fn takes_a_place(&mut self, distance: u64) -> bool {
        while self.nr_challenges > 0 {
            self.nr_challenges -= 1;
            if !Rules::is_unused_for(self.places.waited(Queue::Main), distance) {
                return false;
            }
            let Some((frame, note)) = self.pop(Queue::Main) else {
                return false;
            };
            if note != Note::Nothing {
                // What was here has gone; what has come has its turn.
                self.notes.put_back(frame, note);
                self.places.push(frame, Queue::Limbo, 0, 1);
                continue;
            }
            let nr_frames = match self.pages.content(frame) {
                Content::Page(nr_frames) => nr_frames,
                empty => {
                    self.put_empty(frame, empty);
                    continue;
                }
            };
            match self.judge(Queue::Main, frame) {
                Verdict::Evict => {
                    self.places.push(frame, Queue::Window, DEMOTED, nr_frames);
                    return true;
                }
                Verdict::To(queue, age) => self.places.push(frame, queue, age, nr_frames),
            }
        }
        false
    }

    /// Takes the mark off a page, and says what becomes of it.
    fn judge(&mut self, queue: Queue, frame: u32) -> Verdict {
        let age = self.places.standing(frame).age();
        let is_marked = self.pages.take_mark(frame);
        self.rules.verdict(queue, age, is_marked, self.sizes())
    }

    fn sizes(&self) -> Sizes {
        let [limbo, window, main] =
            [Queue::Limbo, Queue::Window, Queue::Main].map(|queue| self.places.size(queue));
        // Frames that are free for long do not make room for pages: threads have them at hand.
        let limbo = limbo - u64::from(self.places.nr_idle());
        Sizes {
            window,
            main,
            all: limbo + window + main,
        }
    }

    fn pop(&mut self, queue: Queue) -> Option<(u32, Note)> {
        if self.nr_ahead[queue as usize] == 0 {
            self.nr_ahead[queue as usize] = self.load(queue);
        }
        self.nr_ahead[queue as usize] = self.nr_ahead[queue as usize].saturating_sub(1);
        let frame = self.places.pop(queue)?;
        Some((frame, self.notes.take(frame)))
    }

    /// Begins to load what the first frames of a queue will need; returns how many.
    fn load(&mut self, queue: Queue) -> usize {
        let mut frames = [0; GROUP];
        let frames = &mut frames[..self.group];
        let nr = self.places.ahead(queue, frames);
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
