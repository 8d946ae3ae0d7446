//! Eviction and admission decisions.
//!
//! Time is counted in evicted frames. `Window` is the probation queue, `Main` the protected queue.
//!
//! - **Begin.** A page starts in the probation queue. While memory is being filled and the
//!   protected queue has room, most pages go on to that queue, or start there.
//! - **Probation queue.** A new page passes through it twice. Accesses before the end of the first
//!   pass do not count: they belong to the access that filled the page, or to readahead (a
//!   correlation window, as in 2Q and Clock2Q+). At the end of the second pass, a page that was
//!   accessed again moves to the protected queue. Other pages are evicted, and leave a ghost.
//! - **Protected queue.** If a page's accessed bit is set, the clock hand clears the bit and
//!   increments the page's age. Otherwise it decrements the age, or evicts the page at age 0.
//! - **Returns.** The ghost of a returning page gives the page's *distance*, the minimum time for
//!   which it was unused ([`Rules::distance`]). If the page at the head of the protected queue has
//!   been unused for clearly longer ([`Rules::is_unused_for`]), the returning page replaces it, and
//!   the replaced page passes through the probation queue once. Otherwise the returning page starts
//!   in the probation queue. So a loop larger than the cache does not flush the protected queue,
//!   whose pages were used within one cycle: the rule of LIRS (Jiang and Zhang, SIGMETRICS 2002),
//!   with a clock hand in place of its stack.
//! - **Sizes.** If a page returns soon after its eviction from the probation queue, that queue is
//!   too small; if from the protected queue, the probation queue is too large. "Soon" is the same
//!   number of evictions from the page's own queue in both cases, so both indicate the benefit of a
//!   few more frames (as in ARC, Megiddo and Modha, FAST 2003). If passes find hardly any page of
//!   the protected queue accessed, "soon" is as many evictions as the cache has frames.

use crate::words::{Epoch, From, Ghost, MAX_AGE, Queue};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Verdict {
    Evict,
    /// The page moves to the end of this queue, with this age.
    To(Queue, u8),
}

/// Sizes of the queues, in frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) window: u64,
    pub(crate) main: u64,
    /// Frames of both queues, and unclassified frames that are not idle.
    pub(crate) all: u64,
}

/// Age of a page in the probation queue that came from the protected queue.
pub(crate) const DEMOTED: u8 = 1;

/// Age of a page in the probation queue that has passed through it once.
pub(crate) const SEEN: u8 = 2;

/// Moving average of a condition; each sample has a weight of 1/256.
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

    const fn of(self, nr: u32) -> u64 {
        (nr as u64 * self.0 as u64) / Self::ONE as u64
    }
}

#[derive(Debug)]
pub(crate) struct Rules {
    /// Target size of the probation queue in 1 / [`STEPS`] frames. `None` before the first return.
    target: Option<u64>,
    /// Set while the protected queue accepts pages that were not accessed again.
    is_filling: bool,
    /// Number of pages offered to the protected queue while it is being filled.
    nr_offered: u32,
    /// Recent fraction of the evicted pages that came from the protected queue.
    from_main: Share,
    /// Recent fraction of the examined pages of the protected queue that were accessed.
    used: Share,
}

/// Number of early returns that change the target by one frame.
const STEPS: u64 = 4;

/// Divisors of the number of frames: initial, minimum and maximum target. (The maximum is 7/8 of
/// the frames while the protected queue is useless.)
const FIRST: u64 = 32;
const LEAST: u64 = 64;
const MOST: u64 = 2;

/// Divisor of the number of frames. A return within fewer evictions than the result is "soon".
const SOON: u64 = 16;

/// The protected queue is useless if passes find fewer than 1 / `HARDLY` of its pages accessed.
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

    fn target(&self, sizes: Sizes) -> u64 {
        let target = match self.target {
            Some(parts) => parts / STEPS,
            None => sizes.all / FIRST,
        };
        target.clamp(1, sizes.all.max(1))
    }

    pub(crate) const fn begin_to_fill(&mut self) {
        self.is_filling = true;
    }

    /// Detects a nearly empty protected queue, for example after removals without eviction.
    pub(crate) const fn is_main_empty(&self, sizes: Sizes) -> bool {
        sizes.main * 16 < sizes.all
    }

    /// Returns `true` if the protected queue is being filled. Ends the filling if there is no room.
    pub(crate) fn has_room(&mut self, sizes: Sizes) -> bool {
        // Frames that a pass frees do not count as room.
        let batch = (sizes.all / 64).clamp(1, 64);
        if sizes.main + self.target(sizes) + batch >= sizes.all {
            self.is_filling = false;
        }
        self.is_filling
    }

    /// Adapts the target to the return of a page.
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

    /// Returns the time since a page's eviction, plus the minimum time that the page had spent in
    /// its queue. The unit of time is one eviction.
    pub(crate) const fn distance(ghost: Ghost, now: Epoch, sizes: Sizes) -> u64 {
        let in_queue = match ghost.from() {
            From::Window => sizes.window,
            From::Main => sizes.main,
        };
        ghost.age(now) as u64 + in_queue
    }

    /// Returns `true` if a page with a clear accessed bit, queued for `waited` evictions, has been
    /// unused for more than a quarter longer than `distance`. Without the margin, pages that a loop
    /// uses equally often would evict each other.
    pub(crate) const fn is_unused_for(waited: u32, distance: u64) -> bool {
        4 * waited as u64 > 5 * distance
    }

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
            // Every sixteenth page is evicted, so that a pass ends.
            self.nr_offered = self.nr_offered.wrapping_add(1);
            if !self.nr_offered.is_multiple_of(16) {
                return Verdict::To(Queue::Main, 0);
            }
        }
        Verdict::Evict
    }

    pub(crate) const fn ghost(queue: Queue, age: u8, now: Epoch) -> Ghost {
        Ghost::new(now, Self::from(queue, age))
    }

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
        // A late return does not change the target.
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
