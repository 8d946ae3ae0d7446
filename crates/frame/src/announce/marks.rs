//! Marks, and looks: see the text of the room.

use std::any::Any;
use std::fmt;

use pagewell_sync::asymmetric::Fences;
use pagewell_sync::atomic::{AtomicBool, Ordering};
use pagewell_sync::cell::Life;
use pagewell_sync::shard::{Identity, Padded};
use pagewell_sync::{Mutex, MutexGuard, lock};

use super::board::{Entered, Exit};
use super::slot::{Ended, Slot, Word};
use super::slots::{Place, Scan, Slots};
use crate::count::RefScheme;
use crate::lists::FreeLists;
use crate::records::{CLOSED, NONE, ON};
use crate::words::FrameNr;

/// So many retired frames are kept at the most until a look is made for them: many for one fence.
const LOOK_AT: usize = if cfg!(loom) { 1 } else { 32 };

/// So many frames are doubted at once at the most.
const MOST_DOUBTED: usize = 256;

/// One frame of so many may be marked.
const SHARE: usize = if cfg!(loom) { 2 } else { 8 };

/// A share of what a pool is a part of, which is kept by it.
pub(crate) type Keeper = Box<dyn Any + Send + Sync>;

/// Announced references to the frames of one pool.
pub(crate) struct Announcements {
    life: Life,
    slots: Slots,
    /// Whether the system refused a fence: then no look succeeds.
    is_refused: Padded<AtomicBool>,
    /// Whether anything is doubted or retired that no look was made for: a hint.
    is_pending: Padded<AtomicBool>,
    state: Padded<Mutex<State>>,
}

/// What the lock guards, besides all marks (I2).
#[derive(Default)]
struct State {
    /// No block from this one on has an owner.
    nr_used: usize,
    /// How many frames have a mark's reference.
    nr_marked: usize,
    /// Whose marks somebody would like to be rid of.
    doubted: Vec<FrameNr>,
    /// Whose marks are closed for good, and which no look was made for.
    retired: Vec<FrameNr>,
    /// The same after a look which found them announced: who ends that looks again.
    kept: Vec<FrameNr>,
    /// Which slots are wanted.
    wanted: Vec<Place>,
    /// How many references that were handed over to the count, and not given back yet, are of holders that borrow nothing.
    nr_handed_over: usize,
    /// What keeps the pool for such holders, when nobody else uses it any more: until there are none (I6).
    keeper: Option<Keeper>,
}

impl Announcements {
    /// For so many threads.
    pub(crate) fn new(nr_threads: usize, fences: Fences) -> Self {
        Self {
            life: Life::new(),
            slots: Slots::new(nr_threads, fences),
            is_refused: Padded(AtomicBool::new(false)),
            is_pending: Padded(AtomicBool::new(false)),
            state: Padded(Mutex::new(State::default())),
        }
    }

    /// Whether frames can be marked at all.
    fn is_usable(&self) -> bool {
        // ORDERING: Relaxed; a hint: a mark that is set just before stays, as all others do then.
        (cfg!(loom) || self.slots.fences.is_asymmetric())
            && !self.is_refused.load(Ordering::Relaxed)
    }

    /// Steps 1 to 3: an announced reference to the frame of `word`, if that is marked and a slot is free. `is_still` says whether the frame is the
    /// one that the caller wants.
    #[inline(always)]
    pub(crate) fn announce<S: RefScheme>(
        &self,
        lists: &FreeLists<S>,
        me: Identity,
        word: Word,
        is_still: impl FnOnce() -> bool,
    ) -> Option<&Slot> {
        let record = lists.table.get(word.frame().index())?;
        // Before anything is announced: most frames have no mark.
        if !record.is_open() {
            return None;
        }
        let slot = self.slots.announce(me, word)?;
        // In this order: see the text of the room.
        if record.is_open() && is_still() {
            return Some(slot);
        }
        self.give_up(lists, slot, word);
        None
    }

    /// Ends an announcement that does not hold.
    #[cold]
    fn give_up<S: RefScheme>(&self, lists: &FreeLists<S>, slot: &Slot, word: Word) {
        if self.end(slot, word) == Ended::Wanted {
            self.look(lists);
        }
    }

    /// Steps 5 to 7.
    #[inline(always)]
    pub(crate) fn end(&self, slot: &Slot, word: Word) -> Ended {
        slot.end(word, self.slots.fences)
    }

    /// The pool is used, by who has an announced reference.
    #[inline(always)]
    pub(crate) fn used(&self) {
        self.life.used();
    }

    /// What steps 5 to 7 take that the pool is not touched for: for a holder that borrows nothing of it.
    #[inline(always)]
    pub(crate) fn exit(&self) -> (Fences, Exit) {
        self.life.used();
        (self.slots.fences, self.slots.exit())
    }

    /// Notes that this thread, which is `me`, has taken a counted reference to `frame`; whether it takes so many that the frame is worth a mark
    /// that it does not have. `is_contended` says whether others had some at that moment.
    #[inline]
    pub(crate) fn note_counted<S: RefScheme>(
        &self,
        lists: &FreeLists<S>,
        me: Identity,
        frame: FrameNr,
        is_contended: bool,
    ) -> bool {
        match self.slots.own(me) {
            // One that has a mark is counted for want of a slot, or because its page is in motion.
            Some(_) if lists.meta(frame).is_marked() => false,
            Some(block) => block.scores.note(frame, is_contended) && self.is_usable(),
            None => {
                self.take_over(lists, me);
                false
            }
        }
    }

    /// Makes this thread the owner of its slots, and hands over what the thread before it has left.
    #[cold]
    fn take_over<S: RefScheme>(&self, lists: &FreeLists<S>, me: Identity) {
        if !self.is_usable() || !self.slots.has_block(me) {
            return;
        }
        let mut state = self.lock();
        let hand_over = |frame| lists.meta(frame).refs.get();
        // Not the last: with the lock, the mark's reference stays (I1).
        let take_back = |frame| {
            let _kept = lists.meta(frame).refs.put();
        };
        if let Some(taken) = self.slots.take_over(me, hand_over, take_back) {
            state.nr_used = state.nr_used.max(taken.nr_used);
            state.nr_handed_over += taken.nr_owned;
        }
        // What was kept for the thread before us is counted now.
        let has_kept = !state.kept.is_empty();
        drop(state);
        if has_kept {
            self.look(lists);
        }
    }

    /// Marks `frame`, to which the caller has a counted reference; whether it is marked now. Of a page, the caller has the claim.
    pub(crate) fn mark<S: RefScheme>(&self, lists: &FreeLists<S>, frame: FrameNr) -> bool {
        if !self.is_usable() {
            return false;
        }
        let mut state = self.lock();
        let record = lists.meta(frame);
        if record.mark() != NONE {
            return true;
        }
        if state.nr_marked >= (lists.nr_frames() / SHARE).max(1) {
            return false;
        }
        // I1: first the reference.
        record.refs.get();
        record.set_mark(ON);
        state.nr_marked += 1;
        true
    }

    /// Closes the mark of `frame` for good, if it has one: the page that was in it is elsewhere, or gone. The caller still has a reference, or
    /// the mark's is the last. Once in a while this looks.
    #[inline]
    pub(crate) fn retire<S: RefScheme>(&self, lists: &FreeLists<S>, frame: FrameNr) {
        if lists.meta(frame).is_marked() {
            self.retire_marked(lists, frame);
        }
    }

    #[cold]
    fn retire_marked<S: RefScheme>(&self, lists: &FreeLists<S>, frame: FrameNr) {
        let mut state = self.lock();
        let record = lists.meta(frame);
        if record.mark() != ON {
            // A look has just taken it off.
            return;
        }
        record.set_mark(CLOSED);
        state.retired.push(frame);
        self.set_pending(true);
        let is_time = state.retired.len() >= LOOK_AT.min(lists.nr_frames() / 64).max(1);
        drop(state);
        if is_time {
            self.look(lists);
        }
    }

    /// Has the next look ask for `frame`, which its mark alone keeps.
    #[cold]
    pub(crate) fn doubt(&self, frame: FrameNr) {
        let mut state = self.lock();
        if state.doubted.len() < MOST_DOUBTED && !state.doubted.contains(&frame) {
            state.doubted.push(frame);
            self.set_pending(true);
        }
    }

    /// Looks, if anything is doubted or retired; how many frames have lost their mark's reference.
    #[inline]
    pub(crate) fn look_if_pending<S: RefScheme>(&self, lists: &FreeLists<S>) -> usize {
        // ORDERING: Relaxed; a hint. Who has doubted or retired a frame sees its own store.
        if self.is_pending.load(Ordering::Relaxed) {
            self.look(lists)
        } else {
            0
        }
    }

    /// Steps p to r: leaves the pool, of which nobody announces anything any more, to the holders of announcements who borrow nothing of it: `keeper`
    /// keeps it as long as there are any. If there are none, it is returned.
    #[cold]
    pub(crate) fn leave<S: RefScheme>(
        &self,
        lists: &FreeLists<S>,
        keeper: Keeper,
        entered: &mut Entered<'_>,
    ) -> Option<Keeper> {
        let mut state = self.lock();
        state.keeper = Some(keeper);
        self.look_with(lists, state, Some(entered)).1
    }

    /// Puts the counted reference of a holder who borrows nothing, and whose announcement was handed over to the count. What kept the pool for it
    /// is returned, if it is no longer needed.
    #[cold]
    pub(crate) fn put_handed_over<S: RefScheme>(
        &self,
        lists: &FreeLists<S>,
        frame: FrameNr,
        entered: &mut Entered<'_>,
    ) -> Option<Keeper> {
        put(lists, frame);
        let mut state = self.lock();
        state.nr_handed_over -= 1;
        if state.keeper.is_some() {
            self.look_with(lists, state, Some(entered)).1
        } else {
            None
        }
    }

    /// Steps a to f, for everything that is doubted or retired; how many frames have lost their mark's reference.
    #[cold]
    pub(crate) fn look<S: RefScheme>(&self, lists: &FreeLists<S>) -> usize {
        let state = self.lock();
        if state.keeper.is_none() {
            return self.look_with(lists, state, None).0;
        }
        // The pool was left. Who sees that nobody needs it lets go of it, since nobody else may look again; so it enters. If it cannot, the pool has
        // been let go of.
        drop(state);
        let exit = self.slots.exit();
        let mut entered = exit.enter();
        let (nr_released, let_go) = self.look_with(lists, self.lock(), entered.as_mut());
        drop(entered);
        // The caller has the pool, so this is not the last that keeps it.
        drop(let_go);
        nr_released
    }

    /// Step 7b: as [`look`](Self::look). What keeps the pool for holders who borrow nothing of it is returned, if it was left to them and there are
    /// none.
    #[cold]
    pub(crate) fn look_entered<S: RefScheme>(
        &self,
        lists: &FreeLists<S>,
        entered: &mut Entered<'_>,
    ) -> Option<Keeper> {
        self.look_with(lists, self.lock(), Some(entered)).1
    }

    /// A look. Only who has entered lets go of a pool that was left.
    fn look_with<S: RefScheme>(
        &self,
        lists: &FreeLists<S>,
        mut state: MutexGuard<'_, State>,
        entered: Option<&mut Entered<'_>>,
    ) -> (usize, Option<Keeper>) {
        let mut released = Vec::new();
        self.set_pending(false);
        // a. Those that were retired are closed.
        let mut doubted = std::mem::take(&mut state.doubted);
        doubted.retain(|frame| lists.meta(*frame).mark() == ON);
        for frame in &doubted {
            lists.meta(*frame).set_mark(CLOSED);
        }
        // b. What was kept needs none: it was closed before an earlier one.
        let needs_fence = !(doubted.is_empty() && state.retired.is_empty());
        let mut retired = std::mem::take(&mut state.retired);
        if needs_fence && self.heavy().is_none() {
            // These may be announced, and nobody see it.
            for frame in doubted.drain(..) {
                lists.meta(frame).set_mark(ON);
            }
            state.retired = std::mem::take(&mut retired);
        }
        // c. (Who borrows nothing of a pool that was left has announced before, and is seen without a fence: I6.)
        let mut scan = self.slots.scan(state.nr_used);
        // d.
        for frame in doubted {
            if scan.has(frame) {
                lists.meta(frame).set_mark(ON);
            } else {
                release(lists, frame, &mut released);
            }
        }
        let mut kept = std::mem::take(&mut state.kept);
        kept.append(&mut retired);
        keep_announced(lists, &mut kept, &scan, &mut released);
        let mut places: Vec<_> = kept.iter().flat_map(|frame| scan.places(*frame)).collect();
        if state.keeper.is_some() {
            places.extend(scan.owned());
        }
        places.sort_unstable();
        places.dedup();
        if self.slots.want(&mut state.wanted, &places) && self.heavy().is_some() {
            // e and f. (Where the fence is refused, those who end their announcements find them wanted soon enough, or the frames stay.)
            scan = self.slots.scan(state.nr_used);
            keep_announced(lists, &mut kept, &scan, &mut released);
        }
        state.kept = kept;
        state.nr_marked -= released.len();
        // r.
        let is_needed = !scan.owned().is_empty() || state.nr_handed_over != 0;
        let let_go = match entered {
            Some(entered) if !is_needed => {
                let let_go = state.keeper.take();
                if let_go.is_some() {
                    entered.close();
                }
                let_go
            }
            _ => None,
        };
        drop(state);
        // Without the lock: a put may free the frame.
        for frame in &released {
            put(lists, *frame);
        }
        (released.len(), let_go)
    }

    /// How many frames have a mark's reference.
    pub(crate) fn nr_marked(&self) -> usize {
        self.lock().nr_marked
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.life.used();
        lock(&self.state)
    }

    fn heavy(&self) -> Option<()> {
        let done = self.slots.fences.heavy();
        if done.is_err() {
            // ORDERING: Relaxed; a hint.
            self.is_refused.store(true, Ordering::Relaxed);
        }
        done.ok()
    }

    fn set_pending(&self, is_pending: bool) {
        // ORDERING: Relaxed; a hint, stored with the lock.
        self.is_pending.store(is_pending, Ordering::Relaxed);
    }
}

/// Releases those of `kept` that the scan has not seen announced.
fn keep_announced<S: RefScheme>(
    lists: &FreeLists<S>,
    kept: &mut Vec<FrameNr>,
    scan: &Scan,
    released: &mut Vec<FrameNr>,
) {
    kept.retain(|frame| {
        let is_announced = scan.has(*frame);
        if !is_announced {
            release(lists, *frame, released);
        }
        is_announced
    });
}

/// Takes the mark off; its reference is to be put.
fn release<S: RefScheme>(lists: &FreeLists<S>, frame: FrameNr, released: &mut Vec<FrameNr>) {
    lists.meta(frame).set_mark(NONE);
    released.push(frame);
}

/// Puts a counted reference.
pub(crate) fn put<S: RefScheme>(lists: &FreeLists<S>, frame: FrameNr) {
    let record = lists.meta(frame);
    // E2: releases what the look has acquired.
    if record.refs.put().is_last() {
        let (_, order) = record.kind();
        lists.free_locked(frame, order);
    }
}

impl Drop for Announcements {
    fn drop(&mut self) {
        self.life.end();
    }
}

impl fmt::Debug for Announcements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Announcements")
            .field("nr_marked", &self.nr_marked())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_marked_where_each_announcement_would_cost_a_fence() {
        assert!(!Announcements::new(4, Fences::symmetric()).is_usable());
        let fences = Fences::new();
        let announcements = Announcements::new(4, fences);
        assert_eq!(announcements.is_usable(), fences.is_asymmetric());
        // Refused later: no more are marked.
        announcements.is_refused.store(true, Ordering::Relaxed);
        assert!(!announcements.is_usable());
    }
}
