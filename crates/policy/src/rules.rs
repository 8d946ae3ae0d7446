//! What becomes of a page: pure decisions.
//!
//! Time is counted in frames that were evicted.
//!
//! - **Begin.** A page begins in the window. While memory fills up, it goes to the main queue, which nobody else needs.
//! - **Window.** A page goes through it twice. Uses before the first end do not count: they belong to the one for which the page was
//!   read, as those of a program that reads in small pieces, or what is read ahead (a correlation window, as in 2Q and Clock2Q+). At
//!   the second end, a page that was used goes on to the main queue; others are evicted, and leave a ghost.
//! - **Main queue.** The hand takes a page's mark and adds to its age, or takes from its age, until a page has neither: it is evicted.
//! - **Coming again.** The ghost of a page says how long it was away: its *distance*. It takes the place of the page at the head
//!   of the main queue, if that one was not used for clearly longer ([`Rules::is_unused_for`]); the loser gets a second trial in the
//!   window. So a loop that is larger than the cache does not wash it out: its pages were all used within one round. This is the
//!   rule of LIRS (Jiang and Zhang, SIGMETRICS 2002), with a clock's hand in place of its stack.
//! - **Sizes.** A page that comes again soon after it left the window says that the window is too small; one that left the main
//!   queue, that the window is too large. Soon is the same number of evictions from the queue in question, so both say what a few
//!   frames more would have been worth there (as in ARC, Megiddo and Modha, FAST 2003). If hardly any page of the main queue is
//!   found used, every return to the window counts.

use crate::words::{Epoch, From, Ghost, MAX_AGE, Queue};

/// What the hand does with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Verdict {
    /// It goes.
    Evict,
    /// To the end of a queue, with an age.
    To(Queue, u8),
}

/// How large the queues are, in frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) window: u64,
    pub(crate) main: u64,
    /// Both, and what was evicted or has come and is not sorted in.
    pub(crate) all: u64,
}

/// The age of a page in the window that came from the main queue.
pub(crate) const DEMOTED: u8 = 1;

/// The age of a page in the window that is past its first half.
pub(crate) const SEEN: u8 = 2;

/// How often something was so lately: a mean in which each time counts 1/256.
#[derive(Clone, Copy, Debug)]
struct Share(u32);

impl Share {
    const ONE: u32 = 1 << 24;

    const fn note(&mut self, is_so: bool) {
        self.0 -= self.0 / 256;
        if is_so {
            self.0 += Self::ONE / 256;
        }
    }

    /// Of so many, how many.
    const fn of(self, nr: u32) -> u64 {
        (nr as u64 * self.0 as u64) / Self::ONE as u64
    }
}

/// What the decisions depend on.
#[derive(Debug)]
pub(crate) struct Rules {
    /// How large the window is to be, in parts of a frame ([`STEPS`]); set when the first page is admitted.
    target: Option<u64>,
    /// Whether the main queue takes pages that nobody has used again.
    is_filling: bool,
    /// Counts the pages that might go there.
    nr_offered: u32,
    /// How many of the evicted pages were the main queue's.
    from_main: Share,
    /// How many of the main queue's pages were found used.
    used: Share,
}

/// By how many pages coming again soon the window grows or shrinks by a frame.
const STEPS: u64 = 4;

/// The size of the window, as a part of all frames: at first, at least, at most, and if the main queue is of no use.
const FIRST: u64 = 32;
const LEAST: u64 = 64;
const MOST: u64 = 2;

/// A page that comes again after evictions of this part of all frames comes soon.
const SOON: u64 = 16;

/// The main queue is of no use if less than this part of its pages are found used.
const HARDLY: u32 = 32;

impl Rules {
    pub(crate) const fn new() -> Self {
        Self {
            target: None,
            is_filling: true,
            nr_offered: 0,
            from_main: Share(Share::ONE / 2),
            used: Share(Share::ONE / 2),
        }
    }

    /// How large the window is to be.
    fn target(&self, sizes: Sizes) -> u64 {
        let target = match self.target {
            Some(parts) => parts / STEPS,
            None => sizes.all / FIRST,
        };
        target.clamp(1, sizes.all.max(1))
    }

    /// More pages have come than room was made for: memory was free.
    pub(crate) const fn begin_to_fill(&mut self) {
        self.is_filling = true;
    }

    /// Whether the main queue has next to nothing: what was in it has gone, and not by eviction.
    pub(crate) const fn is_main_empty(&self, sizes: Sizes) -> bool {
        sizes.main * 16 < sizes.all
    }

    /// Whether the main queue has room for pages that nobody has used again.
    pub(crate) fn has_room(&mut self, sizes: Sizes) -> bool {
        // What a run makes free is not missing.
        let batch = (sizes.all / 64).clamp(1, 64);
        if sizes.main + self.target(sizes) + batch >= sizes.all {
            self.is_filling = false;
        }
        self.is_filling
    }

    /// A page comes again: the window grows or shrinks.
    pub(crate) fn learn(&mut self, ghost: Ghost, now: Epoch, sizes: Sizes) {
        let is_main_useless = self.used.0 < Share::ONE / HARDLY;
        let soon = match is_main_useless {
            true => sizes.all,
            false => sizes.all / SOON + 1,
        };
        let all = ghost.age(now);
        let from_main = self.from_main.of(all);
        let old = self.target.unwrap_or(sizes.all * STEPS / FIRST);
        let new = match ghost.from() {
            From::Window if u64::from(all) - from_main < soon => {
                let most = match is_main_useless {
                    true => sizes.all - sizes.all / 8,
                    false => sizes.all / MOST,
                };
                (old + 1).min((most * STEPS).max(old))
            }
            From::Main if from_main < soon => old.saturating_sub(1),
            _ => old,
        };
        self.target = Some(new.clamp(sizes.all * STEPS / LEAST, sizes.all * STEPS));
    }

    /// For how long a page was not used that comes again, at least.
    pub(crate) const fn distance(ghost: Ghost, now: Epoch, sizes: Sizes) -> u64 {
        let in_queue = match ghost.from() {
            From::Window => sizes.window,
            From::Main => sizes.main,
        };
        ghost.age(now) as u64 + in_queue
    }

    /// Whether a page that has no mark, at the head of its queue for so long, was clearly longer unused than `distance`.
    ///
    /// Clearly: rounds of a loop are not of exactly one length in evictions, and pages that are as good as each other need not change
    /// places.
    pub(crate) const fn is_unused_for(waited: u32, distance: u64) -> bool {
        4 * waited as u64 > 5 * distance
    }

    /// The queue whose first page is looked at next.
    pub(crate) fn next(&self, sizes: Sizes) -> Queue {
        if sizes.window >= self.target(sizes) {
            Queue::Window
        } else {
            Queue::Main
        }
    }

    pub(crate) fn verdict(
        &mut self,
        queue: Queue,
        age: u8,
        is_marked: bool,
        sizes: Sizes,
    ) -> Verdict {
        if queue == Queue::Main {
            self.used.note(is_marked);
            return match (is_marked, age) {
                (true, age) => Verdict::To(Queue::Main, if age < MAX_AGE { age + 1 } else { age }),
                (false, 0) => Verdict::Evict,
                (false, age) => Verdict::To(Queue::Main, age - 1),
            };
        }
        if age == 0 {
            return Verdict::To(Queue::Window, SEEN);
        }
        if is_marked {
            return Verdict::To(Queue::Main, 0);
        }
        if self.is_filling && self.has_room(sizes) {
            // Some go, so that a run ends.
            self.nr_offered = self.nr_offered.wrapping_add(1);
            if !self.nr_offered.is_multiple_of(16) {
                return Verdict::To(Queue::Main, 0);
            }
        }
        Verdict::Evict
    }

    /// The ghost of a page that goes now, out of a queue where it had this age.
    pub(crate) const fn ghost(queue: Queue, age: u8, now: Epoch) -> Ghost {
        Ghost::new(now, Self::from(queue, age))
    }

    /// A page has gone.
    pub(crate) const fn has_gone(&mut self, queue: Queue, age: u8) {
        self.from_main
            .note(matches!(Self::from(queue, age), From::Main));
    }

    const fn from(queue: Queue, age: u8) -> From {
        match queue {
            Queue::Window if age != DEMOTED => From::Window,
            _ => From::Main,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes {
        window: 32,
        main: 990,
        all: 1024,
    };

    /// The rules of a cache whose main queue has no room.
    fn settled() -> Rules {
        let mut rules = Rules::new();
        assert!(!rules.has_room(SIZES));
        rules
    }

    #[test]
    fn a_used_page_of_the_window_goes_on_and_another_goes() {
        let mut rules = settled();
        let to_main = Verdict::To(Queue::Main, 0);
        let seen = Verdict::To(Queue::Window, SEEN);
        for is_marked in [false, true] {
            assert_eq!(rules.verdict(Queue::Window, 0, is_marked, SIZES), seen);
        }
        assert_eq!(rules.verdict(Queue::Window, SEEN, true, SIZES), to_main);
        let evict = Verdict::Evict;
        assert_eq!(rules.verdict(Queue::Window, DEMOTED, false, SIZES), evict);
    }

    #[test]
    fn ages_grow_with_marks_and_are_used_up_without() {
        let mut rules = settled();
        let mut age = 0;
        for expected in [1, 2, 3, 3, 3] {
            let to = Verdict::To(Queue::Main, expected);
            assert_eq!(rules.verdict(Queue::Main, age, true, SIZES), to);
            age = expected;
        }
        for expected in [2, 1, 0] {
            let to = Verdict::To(Queue::Main, expected);
            assert_eq!(rules.verdict(Queue::Main, age, false, SIZES), to);
            age = expected;
        }
        assert_eq!(rules.verdict(Queue::Main, 0, false, SIZES), Verdict::Evict);
    }

    #[test]
    fn the_window_grows_with_its_ghosts_and_shrinks_with_the_others() {
        let mut rules = settled();
        let then = Epoch::new(u32::MAX);
        let now = then.after(20);
        let returns = |rules: &mut Rules, queue, nr| {
            for _ in 0..nr {
                rules.learn(Rules::ghost(queue, 0, then), now, SIZES);
            }
            rules.target(SIZES)
        };
        assert_eq!(rules.target(SIZES), 32);
        assert_eq!(returns(&mut rules, Queue::Window, 400), 132);
        assert_eq!(returns(&mut rules, Queue::Main, 200), 82);
        assert_eq!(returns(&mut rules, Queue::Main, 9999), 16);
        assert_eq!(returns(&mut rules, Queue::Window, 9999), 512);
        // Late is not soon.
        let late = then.after(2000);
        rules.learn(Rules::ghost(Queue::Main, 0, then), late, SIZES);
        assert_eq!(rules.target(SIZES), 512);
    }

    #[test]
    fn if_the_main_queue_is_of_no_use_the_window_gets_nearly_all() {
        let mut rules = settled();
        for _ in 0..2000 {
            let _ = rules.verdict(Queue::Main, 0, false, SIZES);
        }
        let then = Epoch::default();
        for _ in 0..9999 {
            let ghost = Rules::ghost(Queue::Window, 0, then);
            rules.learn(ghost, then.after(500), SIZES);
        }
        assert_eq!(rules.target(SIZES), 1024 - 128);
    }

    #[test]
    fn sizes_of_nothing_and_of_one_frame_are_no_trouble() {
        for all in [0, 1, 2] {
            let sizes = Sizes {
                window: 0,
                main: all,
                all,
            };
            let mut rules = Rules::new();
            for from in [Queue::Window, Queue::Main] {
                rules.learn(
                    Rules::ghost(from, 0, Epoch::default()),
                    Epoch::default(),
                    sizes,
                );
                assert!(rules.target(sizes) >= 1);
            }
        }
    }
}
