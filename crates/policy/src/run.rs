//! The hands: arrivals are sorted in, and pages are evicted, in runs.
//!
//! A run. 1. What has arrived in limbo is sorted in. 2. A few of the others are looked at: they may have a page by now. 3. The hands
//! look at the first pages of the window and of the main queue, as the [rules](crate::rules) say, until enough have gone.
//!
//! Bounds. A run looks at a number of frames that depends on how many it shall evict. It may evict
//! fewer, if pages stay, or are in use.
//!
//! Pages that stay. A page that is dirty, pinned or claimed is put back at the end of its queue. The window may have nothing else while a file
//! is written: a run that has met a few more of them than it shall evict goes on with the other queue.

use crate::notes::Notes;
use crate::pages::{Content, Pages};
use crate::places::{IDLE, Places};
use crate::rules::{DEMOTED, Rules, Sizes, Verdict};
use crate::words::{Ghost, Note, Queue};

/// How many levels [`Pages::prefetch`] has.
const NR_LEVELS: u8 = 3;

/// How many frames are loaded ahead: at most, and in a run for few.
const AHEAD: usize = 16;
const FEW: usize = 4;

/// How many moves are followed at once.
const MOST_MOVES: usize = 64;

/// A run that has found more pages of a queue that stay than it shall evict, times this, and some, looks at the other queue.
const STAYING: u32 = 2;
const SOME_STAYING: u32 = 16;

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
    rules: &'r mut Rules,
    notes: &'r Notes,
    pages: &'r mut P,
    /// Number of frames at the head of each queue that are loaded already.
    loaded: [usize; Queue::ALL.len()],
    /// How many are loaded at once.
    nr_at_once: usize,
    /// Whether more pages have come than room was made for.
    is_backlog: bool,
    /// How many pages of each queue would have gone and stay, and how many may before the other queue is looked at.
    nr_staying: [u32; Queue::ALL.len()],
    most_staying: u32,
    /// How many pages of the main queue may be looked at for those that come again.
    nr_challenges: usize,
}

impl<'r, P: Pages> Run<'r, P> {
    /// A run for about `nr` frames.
    pub(crate) fn new(
        (places, rules): (&'r mut Places, &'r mut Rules),
        nr: usize,
        notes: &'r Notes,
        pages: &'r mut P,
    ) -> Self {
        Self {
            places,
            rules,
            notes,
            pages,
            loaded: [0; Queue::ALL.len()],
            nr_at_once: nr.clamp(FEW, AHEAD),
            is_backlog: false,
            nr_staying: [0; Queue::ALL.len()],
            most_staying: (nr as u32)
                .saturating_mul(STAYING)
                .saturating_add(SOME_STAYING),
            nr_challenges: nr.saturating_mul(4).saturating_add(64),
        }
    }

    /// Sorts in what is in limbo: what has arrived since the last run, as a rule.
    pub(crate) fn sort_in(&mut self, nr: usize) {
        let len = self.places.len(Queue::Limbo) as usize;
        let nr_new = len - self.places.nr_idle() as usize;
        let is_backlog = nr_new > nr.saturating_mul(4).saturating_add(8);
        let sizes = self.sizes();
        if is_backlog || self.rules.is_main_empty(sizes) {
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

    pub(crate) fn look_at_others(&mut self, nr: usize) {
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

    /// Evicts pages.
    pub(crate) fn go(&mut self, nr: usize) -> usize {
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
            let Some(queue) = self.next() else {
                break;
            };
            let Some((frame, note)) = self.pop(queue) else {
                break;
            };
            nr_evicted += self.look(queue, frame, note, effort);
        }
        nr_evicted
    }

    /// The queue whose first page is looked at next, if there is one.
    fn next(&self) -> Option<Queue> {
        let queue = self.rules.next(self.sizes());
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
        [queue, other]
            .into_iter()
            .find(|&queue| self.places.len(queue) != 0)
    }

    /// Looks at a page that was taken out of a queue. Returns how many frames it has freed; they go to
    /// limbo.
    fn look(&mut self, queue: Queue, frame: u32, note: Note, effort: Effort) -> usize {
        if note != Note::Nothing {
            // What was here has gone, and something else has come.
            let age = self.places.standing(frame).age();
            return match self.settle_but_moved(frame, note) {
                Some(moved) => {
                    self.places.set_age(moved, age);
                    self.look(queue, moved, Note::Nothing, effort)
                }
                None => 0,
            };
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
                self.places.push(frame, queue, age, nr_frames);
            }
            _ => {
                let ghost = Rules::ghost(queue, age, self.places.now());
                if self.pages.evict(frame, ghost).is_ok() {
                    self.rules.has_gone(queue, age);
                    self.places.pass(nr_frames);
                    self.places.push(frame, Queue::Limbo, 0, 1);
                    return nr_frames as usize;
                }
                self.nr_staying[queue as usize] += 1;
                self.places.push(frame, queue, age, nr_frames);
            }
        }
        0
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
        self.places.push(frame, Queue::Limbo, 0, 1);
        None
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

    /// Whether a page that comes again after `distance` takes the place of one in the main queue, which
    /// was not used for longer.
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
                Verdict::To(queue, age) => {
                    self.places.push(frame, queue, age, nr_frames);
                }
            }
        }
        false
    }

    /// Takes the mark off a page, and says what becomes of it.
    fn judge(&mut self, queue: Queue, frame: u32) -> Verdict {
        let age = self.places.standing(frame).age();
        let is_marked = self.pages.take_mark(frame);
        let sizes = self.sizes();
        self.rules.verdict(queue, age, is_marked, sizes)
    }

    /// The sizes of the queues.
    fn sizes(&self) -> Sizes {
        let [window, main] = [Queue::Window, Queue::Main].map(|queue| self.places.size(queue));
        // Frames that are free for long do not make room for pages: threads have them at hand.
        let limbo = self.places.size(Queue::Limbo);
        let all = limbo - u64::from(self.places.nr_idle()) + window + main;
        Sizes { window, main, all }
    }

    fn pop(&mut self, queue: Queue) -> Option<(u32, Note)> {
        let nr = match self.loaded[queue as usize] {
            0 => self.load(queue),
            nr => nr,
        };
        self.loaded[queue as usize] = nr.saturating_sub(1);
        let frame = self.places.pop(queue)?;
        Some((frame, self.notes.take(frame)))
    }

    /// Begins to load what the first frames of a queue will need; returns how many.
    fn load(&mut self, queue: Queue) -> usize {
        let mut frames = [0; AHEAD];
        let frames = &mut frames[..self.nr_at_once];
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
