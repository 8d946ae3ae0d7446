//! Tests with random operation sequences on a model of a cache.

use std::collections::{HashMap, VecDeque};

use proptest::prelude::*;

use crate::pages::{Content, Pages, Stays};
use crate::run::Policy;
use crate::{Ghost, Notes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    Free,
    /// First frame of a page.
    Head(Page),
    Tail,
    Leaf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Page {
    id: u32,
    nr_frames: u32,
    is_marked: bool,
    stays: bool,
}

#[derive(Debug)]
struct Cache {
    frames: Vec<Frame>,
    free: VecDeque<u32>,
    ghosts: HashMap<u32, Ghost>,
    evicted: Vec<u32>,
    nr_calls: usize,
}

impl Cache {
    fn new(nr_frames: u32) -> Self {
        Self {
            frames: vec![Frame::Free; nr_frames as usize],
            free: (0..nr_frames).collect(),
            ghosts: HashMap::new(),
            evicted: Vec::new(),
            nr_calls: 0,
        }
    }

    fn heads(&self) -> Vec<u32> {
        (0..self.frames.len() as u32)
            .filter(|&frame| matches!(self.frames[frame as usize], Frame::Head(_)))
            .collect()
    }

    fn pages(&mut self) -> impl Iterator<Item = &mut Page> {
        self.frames.iter_mut().filter_map(|frame| match frame {
            Frame::Head(page) => Some(page),
            _ => None,
        })
    }

    fn page(&mut self, id: u32) -> Option<&mut Page> {
        self.pages().find(|page| page.id == id)
    }

    fn page_of(&self, wanted: u32) -> Option<u32> {
        let is_it = |frame: &Frame| matches!(frame, Frame::Head(page) if page.id == wanted);
        self.frames.iter().position(is_it).map(|frame| frame as u32)
    }

    fn fill(&mut self, id: u32, nr_frames: u32, notes: &Notes) -> Option<u32> {
        let is_block = |first: u32| {
            first.is_multiple_of(nr_frames)
                && (first..first + nr_frames)
                    .all(|frame| self.frames.get(frame as usize) == Some(&Frame::Free))
        };
        let head = self.free.iter().copied().find(|&first| is_block(first))?;
        self.free
            .retain(|frame| !(head..head + nr_frames).contains(frame));
        for frame in head..head + nr_frames {
            self.frames[frame as usize] = Frame::Tail;
        }
        self.frames[head as usize] = Frame::Head(Page {
            id,
            nr_frames,
            is_marked: false,
            stays: false,
        });
        notes.arrived(head, self.ghosts.remove(&id));
        Some(head)
    }

    fn clear(&mut self, head: u32) -> u32 {
        let Page { id, nr_frames, .. } = *self.head(head);
        for frame in head..head + nr_frames {
            self.frames[frame as usize] = Frame::Free;
            self.free.push_back(frame);
        }
        id
    }

    /// Frees the first leaf. Returns `false` if there is none.
    fn free_leaf(&mut self) -> bool {
        let leaf = self.frames.iter().position(|&frame| frame == Frame::Leaf);
        if let Some(frame) = leaf {
            self.frames[frame] = Frame::Free;
            self.free.push_back(frame as u32);
        }
        leaf.is_some()
    }

    fn head(&mut self, frame: u32) -> &mut Page {
        match &mut self.frames[frame as usize] {
            Frame::Head(page) => page,
            other => panic!("no page in frame {frame}: {other:?}"),
        }
    }

    fn move_page(&mut self, from: u32, notes: &Notes) {
        if self.head(from).nr_frames != 1 {
            return;
        }
        let Some(to) = self.free.pop_front() else {
            return;
        };
        self.frames[to as usize] = self.frames[from as usize];
        notes.moved(from, to);
        self.frames[from as usize] = Frame::Free;
        self.free.push_back(from);
    }
}

impl Pages for Cache {
    fn content(&mut self, frame: u32) -> Content {
        self.nr_calls += 1;
        match self.frames[frame as usize] {
            Frame::Head(page) => Content::Page(page.nr_frames),
            Frame::Free => Content::Nothing,
            Frame::Tail | Frame::Leaf => Content::Other,
        }
    }

    fn take_mark(&mut self, frame: u32) -> bool {
        self.nr_calls += 1;
        std::mem::replace(&mut self.head(frame).is_marked, false)
    }

    fn evict(&mut self, frame: u32, ghost: Ghost) -> Result<(), Stays> {
        self.nr_calls += 1;
        if self.head(frame).stays {
            return Err(Stays);
        }
        let id = self.clear(frame);
        self.ghosts.insert(id, ghost);
        self.evicted.push(id);
        Ok(())
    }

    fn prefetch(&mut self, frame: u32, level: u8) {
        assert!((frame as usize) < self.frames.len() && level < 3);
    }
}

/// Maximum number of calls of a pass, other than prefetches.
fn most_calls(nr: usize) -> usize {
    // Three calls examine a page, and for any page the pass may find that it has moved.
    67 * (nr * 32 + 128) + 65 * (nr * 4 + 64) + 65 * (nr * 4 + 1)
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Read { id: u32, order: u32 },
    Truncate(usize),
    Move(usize),
    Stay(usize),
    Leaf,
    LeafGone,
    LoseGhosts,
    Evict(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..120_u32, prop_oneof![6 => Just(0_u32), 1 => 0..3_u32])
            .prop_map(|(id, order)| Step::Read { id, order }),
        1 => any::<usize>().prop_map(Step::Truncate),
        3 => any::<usize>().prop_map(Step::Move),
        1 => any::<usize>().prop_map(Step::Stay),
        1 => Just(Step::Leaf),
        1 => Just(Step::LeafGone),
        1 => Just(Step::LoseGhosts),
        3 => (0..20_usize).prop_map(Step::Evict),
    ]
}

fn evict(policy: &mut Policy, cache: &mut Cache, notes: &Notes, nr: usize) -> usize {
    let (before, calls) = (cache.free.len(), cache.nr_calls);
    let pages = cache.heads().len();
    let evicted = policy.evict(nr, notes, cache);
    assert_eq!(cache.free.len() - before, evicted);
    assert!(evicted < nr + 4, "more than the last page was too many");
    assert!(cache.nr_calls - calls <= most_calls(nr));
    assert!(cache.heads().len() <= pages);
    policy.check();
    evicted
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_frame_is_in_one_queue_and_pages_go_once(
        nr_frames in 1..80_u32,
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let notes = Notes::new(nr_frames as usize);
        let mut policy = Policy::new(nr_frames as usize);
        let mut cache = Cache::new(nr_frames);
        for step in steps {
            let heads = cache.heads();
            let pick = |nr: usize| (!heads.is_empty()).then(|| heads[nr % heads.len()]);
            match step {
                Step::Read { id, order } => match cache.page(id) {
                    Some(page) => page.is_marked = true,
                    None => {
                        if cache.fill(id, 1 << order, &notes).is_none() {
                            evict(&mut policy, &mut cache, &notes, 4);
                            cache.fill(id, 1 << order, &notes);
                        }
                    }
                },
                Step::Truncate(nr) => {
                    if let Some(head) = pick(nr) {
                        cache.clear(head);
                    }
                }
                Step::Move(nr) => {
                    if let Some(head) = pick(nr) {
                        cache.move_page(head, &notes);
                    }
                }
                Step::Stay(nr) => {
                    if let Some(head) = pick(nr) {
                        cache.head(head).stays ^= true;
                    }
                }
                Step::Leaf => {
                    if let Some(frame) = cache.free.pop_front() {
                        cache.frames[frame as usize] = Frame::Leaf;
                    }
                }
                Step::LeafGone => {
                    cache.free_leaf();
                }
                Step::LoseGhosts => cache.ghosts.clear(),
                Step::Evict(nr) => {
                    evict(&mut policy, &mut cache, &notes, nr);
                }
            }
        }
        // In any state, all evictable pages are evicted, and each pass ends.
        cache.pages().for_each(|page| page.stays = false);
        for _ in 0..200 {
            evict(&mut policy, &mut cache, &notes, 8);
        }
        prop_assert_eq!(cache.heads(), Vec::<u32>::new());
    }

    /// The order of evictions does not depend on frames. (There is room for 16 moved pages.)
    #[test]
    fn a_moved_page_keeps_its_place(
        moves in prop::collection::vec((0..12_usize, any::<bool>()), 0..40),
    ) {
        let order = |moves: &[(usize, bool)]| {
            let notes = Notes::new(32);
            let (mut policy, mut cache) = (Policy::new(32), Cache::new(32));
            for id in 0..24 {
                cache.fill(id, 1, &notes);
            }
            evict(&mut policy, &mut cache, &notes, 0);
            for &(nr, runs) in moves {
                let from = cache.page_of(nr as u32).unwrap();
                cache.move_page(from, &notes);
                if runs {
                    evict(&mut policy, &mut cache, &notes, 0);
                }
            }
            evict(&mut policy, &mut cache, &notes, 24);
            cache.evicted
        };
        prop_assert_eq!(order(&moves), order(&[]));
    }
}

/// The clock hand examines one of two pages that have traded places.
#[test]
fn two_pages_that_change_places_keep_theirs() {
    let (mut policy, mut cache, notes) = filled(32);
    for frame in 24..32 {
        cache.clear(frame);
    }
    evict(&mut policy, &mut cache, &notes, 0);
    for id in [10, 11, 0, 0, 0, 0, 0, 0, 11, 10] {
        let from = cache.page_of(id).unwrap();
        cache.move_page(from, &notes);
    }
    assert_eq!((cache.page_of(10), cache.page_of(11)), (Some(11), Some(10)));
    evict(&mut policy, &mut cache, &notes, 24);
    assert_eq!(cache.evicted, (0..24).collect::<Vec<_>>());
}

fn filled(nr_frames: u32) -> (Policy, Cache, Notes) {
    let notes = Notes::new(nr_frames as usize);
    let mut cache = Cache::new(nr_frames);
    for id in 0..nr_frames {
        cache.fill(id, 1, &notes);
    }
    (Policy::new(nr_frames as usize), cache, notes)
}

#[test]
fn if_everything_stays_nothing_goes_and_the_run_ends() {
    let (mut policy, mut cache, notes) = filled(1000);
    cache.pages().for_each(|page| page.stays = true);
    for _ in 0..50 {
        assert_eq!(evict(&mut policy, &mut cache, &notes, 16), 0);
    }
    assert_eq!(cache.heads().len(), 1000);
}

#[test]
fn if_everything_is_marked_again_and_again_pages_go_all_the_same() {
    let (mut policy, mut cache, notes) = filled(5000);
    for _ in 0..200 {
        cache.pages().for_each(|page| page.is_marked = true);
        assert_eq!(evict(&mut policy, &mut cache, &notes, 4), 4);
    }
}

#[test]
fn tails_and_leaves_end_up_among_the_others_and_come_back() {
    let notes = Notes::new(64);
    let mut policy = Policy::new(64);
    let mut cache = Cache::new(64);
    for id in 0..8 {
        cache.fill(id, 4, &notes).unwrap();
    }
    for _ in 0..32 {
        let frame = cache.free.pop_front().unwrap();
        cache.frames[frame as usize] = Frame::Leaf;
    }
    evict(&mut policy, &mut cache, &notes, 0);
    assert_eq!(policy.lens(), [0, 8, 56]);
    while cache.free_leaf() {}
    for id in 100..132 {
        cache.fill(id, 1, &notes).unwrap();
    }
    for _ in 0..64 {
        evict(&mut policy, &mut cache, &notes, 0);
    }
    assert_eq!(policy.lens(), [0, 40, 24]);
}

#[test]
fn no_frames_need_no_policy() {
    let notes = Notes::new(0);
    let mut policy = Policy::new(0);
    assert_eq!(policy.evict(10, &notes, &mut Cache::new(0)), 0);
}

#[test]
fn a_policy_takes_about_ten_bytes_a_frame() {
    for nr_frames in [1 << 12, 1 << 20, 1 << 24] {
        let bytes = Policy::bytes(nr_frames);
        assert!((9 * nr_frames..=11 * nr_frames).contains(&bytes), "{bytes}");
    }
}

/// Sequential write of a file: the probation queue has only unevictable, newly written pages.
#[test]
fn pages_that_were_just_written_are_not_gone_round_for_each_run() {
    const NR: u32 = 1024;
    let (mut policy, mut cache, notes) = filled(NR);
    cache.nr_calls = 0;
    let (nr_runs, batch) = (256, 8);
    for run in 0..nr_runs {
        assert_eq!(evict(&mut policy, &mut cache, &notes, batch), batch);
        for id in 0..batch as u32 {
            let id = NR + run * batch as u32 + id;
            cache.fill(id, 1, &notes).unwrap();
            cache.page(id).unwrap().stays = true;
            if id >= NR + NR / 4
                && let Some(page) = cache.page(id - NR / 4)
            {
                page.stays = false;
            }
        }
    }
    // Three calls for a frame that is examined, and three to prefetch it.
    let nr_looks = cache.nr_calls / 6 / nr_runs as usize;
    assert!(nr_looks < 8 * batch, "{nr_looks} looks a run");
}
