//! The eviction [`Policy`], whose state is kept from pass to pass, and one pass of it ([`Run`]):
//! 1. Classify frames in `Limbo`, mostly those filled since the last pass.
//! 2. Examine a few frames of `Others`, which may have received a page since.
//! 3. Examine the first pages of the probation and the protected queue, according to the
//!    [rules](crate::rules), until enough are evicted.
//!
//! The number of frames to evict bounds the frames examined, so a pass may evict fewer. A dirty,
//! pinned or claimed page moves to the end of its queue. While a file is being written, the
//! probation queue may have only such pages, so a pass that has found too many in one queue
//! ([`STAYING`]) continues with the other queue.

use crate::notes::Notes;
use crate::pages::{Content, Pages};
use crate::places::{IDLE, Places};
use crate::rules::{DEMOTED, Rules, Sizes, Verdict};
use crate::words::{Ghost, Note, Queue};

const NR_LEVELS: u8 = 3;

/// Maximum and minimum number of frames that are prefetched together.
const AHEAD: usize = 16;
const FEW: usize = 4;

/// Maximum length of a chain of page moves that is followed at once.
const MOST_MOVES: usize = 64;

/// A pass for `nr` frames may leave a queue after `STAYING * nr + SOME_STAYING` unevictable pages.
const STAYING: u32 = 2;
const SOME_STAYING: u32 = 16;

/// Eviction policy of a cache.
#[derive(Debug)]
pub struct Policy {
    places: Places,
    rules: Rules,
}

impl Policy {
    /// Maximum number of frames of a policy.
    pub const MAX_FRAMES: usize = (1 << 30) - 1;

    /// Creates the policy for the frames `0..nr_frames`, all without pages. Panics if `nr_frames`
    /// exceeds [`Policy::MAX_FRAMES`].
    #[must_use]
    pub fn new(nr_frames: usize) -> Self {
        assert!(nr_frames <= Self::MAX_FRAMES, "too many frames");
        Self {
            places: Places::new(nr_frames),
            rules: Rules::new(),
        }
    }

    /// Returns the memory that a policy of `nr_frames` frames and its [`Notes`] need, in bytes.
    #[must_use]
    pub const fn bytes(nr_frames: usize) -> usize {
        size_of::<Self>() + Places::bytes(nr_frames) + nr_frames * size_of::<u32>()
    }

    /// Evicts pages until `nr` frames, or more with the last page, are freed, or the pass reaches
    /// its bounds. Returns the number of freed frames.
    pub fn evict(&mut self, nr: usize, notes: &Notes, pages: &mut impl Pages) -> usize {
        let mut run = Run {
            places: &mut self.places,
            rules: &mut self.rules,
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
        };
        run.sort_in(nr);
        run.look_at_others(nr);
        run.go(nr)
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        self.places.check();
    }

    /// Number of frames in `Limbo`, of pages in `Window` and `Main`, and of entries in `Others`.
    #[cfg(test)]
    pub(crate) fn lens(&self) -> [u32; 3] {
        let [limbo, window, main, others] = Queue::ALL.map(|queue| self.places.len(queue));
        [limbo, window + main, others]
    }
}

struct Run<'r, P> {
    places: &'r mut Places,
    rules: &'r mut Rules,
    notes: &'r Notes,
    pages: &'r mut P,
    /// For each queue, number of frames at its head whose data is prefetched already.
    loaded: [usize; Queue::ALL.len()],
    nr_at_once: usize,
    /// Set while a pass for `nr` frames classifies more than `4 * nr + 8`, except the last `nr`.
    is_backlog: bool,
    /// For each queue, number of unevictable pages found. If only one queue has more than
    /// `most_staying`, the pass uses the other queue.
    nr_staying: [u32; Queue::ALL.len()],
    most_staying: u32,
    /// Number of pages that [`Run::takes_a_place`] may still examine in this pass.
    nr_challenges: usize,
}

impl<P: Pages> Run<'_, P> {
    /// Classifies frames in `Limbo`.
    fn sort_in(&mut self, nr: usize) {
        let len = self.places.len(Queue::Limbo) as usize;
        let nr_new = len - self.places.nr_idle() as usize;
        let is_backlog = nr_new > nr.saturating_mul(4).saturating_add(8);
        let sizes = self.sizes();
        if is_backlog || self.rules.is_main_empty(sizes) {
            self.rules.begin_to_fill();
        }
        let most = nr.saturating_mul(8).saturating_add(64).min(len);
        for done in 0..most {
            // Classify the last `nr` frames normally, so that the probation queue has pages.
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
        // Examine the frames of `Others` about as often as pages.
        let pages = self.places.size(Queue::Window) + self.places.size(Queue::Main);
        let share = (nr as u64).saturating_mul(others) / (pages + 1) + 1;
        for _ in 0..share.min(others).min(4 * nr as u64 + 1) {
            let Some((frame, note)) = self.pop(Queue::Others) else {
                return;
            };
            self.settle(frame, note);
        }
    }

    /// Evicts pages until `nr` frames are freed, up to the bound. Returns the number of freed
    /// frames.
    fn go(&mut self, nr: usize) -> usize {
        let mut nr_evicted = 0;
        // The first half of the attempts follows the rules. The second evicts any evictable page.
        let easy = nr.saturating_mul(16).saturating_add(64);
        for look in 0..easy.saturating_mul(2) {
            if nr_evicted >= nr {
                break;
            }
            let Some(queue) = self.next() else {
                break;
            };
            let Some((frame, note)) = self.pop(queue) else {
                break;
            };
            nr_evicted += self.look(queue, frame, note, look < easy);
        }
        nr_evicted
    }

    fn next(&self) -> Option<Queue> {
        let queue = self.rules.next(self.sizes());
        let other = match queue {
            Queue::Window => Queue::Main,
            _ => Queue::Window,
        };
        // Do not examine all of a queue's newly written pages in each pass.
        let has_staying = |queue: Queue| self.nr_staying[queue as usize] > self.most_staying;
        let (queue, other) = match has_staying(queue) && !has_staying(other) {
            true => (other, queue),
            false => (queue, other),
        };
        [queue, other]
            .into_iter()
            .find(|&queue| self.places.len(queue) != 0)
    }

    /// Examines a popped frame. Returns the number of freed frames; the first one goes to `Limbo`.
    /// Without `by_rules`, evicts any evictable page.
    fn look(&mut self, queue: Queue, frame: u32, note: Note, by_rules: bool) -> usize {
        if note != Note::Nothing {
            // Another page was filled into or moved to this frame since it was queued.
            let age = self.places.standing(frame).age();
            return match self.settle_but_moved(frame, note) {
                Some(moved) => {
                    self.places.set_age(moved, age);
                    self.look(queue, moved, Note::Nothing, by_rules)
                }
                None => 0,
            };
        }
        let content = self.pages.content(frame);
        let Content::Page(nr_frames) = content else {
            self.put_empty(frame, content);
            return 0;
        };
        let age = self.places.standing(frame).age();
        match self.judge(queue, frame) {
            Verdict::To(queue, age) if by_rules => {
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

    /// Classifies a popped frame whose state is unknown.
    fn settle(&mut self, frame: u32, note: Note) {
        if let Some(moved) = self.settle_but_moved(frame, note) {
            // The moved page inherits a position in `Limbo`, so it is classified like a new page.
            let _ = self.settle_one(moved, Note::Nothing);
        }
    }

    /// Like [`Run::settle`]. If the page has moved, returns its new frame, for the old position.
    fn settle_but_moved(&mut self, frame: u32, note: Note) -> Option<u32> {
        let start = frame;
        let mut next = self.settle_one(frame, note);
        // That frame may have received another moved page, so follow the chain of moves.
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

    /// Classifies one frame. If it takes over the position of another frame, returns the other
    /// frame, which is then in no queue.
    fn settle_one(&mut self, frame: u32, note: Note) -> Option<u32> {
        let content = self.pages.content(frame);
        let Content::Page(nr_frames) = content else {
            self.put_empty(frame, content);
            return None;
        };
        let ghost = match note {
            Note::MovedFrom(from) if self.places.hand_over(from, frame) => return Some(from),
            Note::Arrived(ghost) => ghost,
            // The frame has no visible note, or the position could not be handed over.
            Note::MovedFrom(_) | Note::Nothing => None,
        };
        let queue = self.admit(ghost);
        self.places.push(frame, queue, 0, nr_frames);
        None
    }

    fn put_empty(&mut self, frame: u32, content: Content) {
        match content {
            Content::Other => self.places.push(frame, Queue::Others, 0, 1),
            Content::Nothing | Content::Page(_) => {
                self.places.push(frame, Queue::Limbo, IDLE, 1);
            }
        }
    }

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

    /// Demotes a page of the protected queue that has been unused for clearly longer than
    /// `distance`, in favour of a returning page. Returns `false` if no such page was found.
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
                // The content has changed since the frame was queued.
                self.notes.put_back(frame, note);
                self.places.push(frame, Queue::Limbo, 0, 1);
                continue;
            }
            let content = self.pages.content(frame);
            let Content::Page(nr_frames) = content else {
                self.put_empty(frame, content);
                continue;
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

    fn judge(&mut self, queue: Queue, frame: u32) -> Verdict {
        let age = self.places.standing(frame).age();
        let is_marked = self.pages.take_mark(frame);
        let sizes = self.sizes();
        self.rules.verdict(queue, age, is_marked, sizes)
    }

    fn sizes(&self) -> Sizes {
        let [window, main] = [Queue::Window, Queue::Main].map(|queue| self.places.size(queue));
        // Idle frames do not count as room for pages, since thread caches may hold them.
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

    /// Prefetches the data of the first frames of a queue, and returns their number.
    fn load(&mut self, queue: Queue) -> usize {
        let mut frames = [0; AHEAD];
        let frames = &mut frames[..self.nr_at_once];
        let nr = self.places.ahead(queue, frames);
        let frames = &frames[..nr];
        for &frame in frames {
            self.pages.prefetch(frame, 0);
        }
        // These loads overlap with the prefetches above, and do not depend on each other.
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
