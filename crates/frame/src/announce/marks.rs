//! Protection of frames, and scans. Steps, invariants and edges are those of [`announce`](super).

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

/// Number of retired frames that trigger a scan: many for one fence. Fewer in a small pool.
const LOOK_AT: usize = if cfg!(loom) { 1 } else { 32 };

/// Maximum number of queried frames.
const MOST_DOUBTED: usize = 256;

/// One of this many frames may be protected.
const SHARE: usize = if cfg!(loom) { 2 } else { 8 };

/// Strong reference to the value that contains the pool, kept by the pool.
pub(crate) type Keeper = Box<dyn Any + Send + Sync>;

pub(crate) struct Announcements {
    life: Life,
    slots: Slots,
    /// Whether the system refused a fence. No scan succeeds then.
    is_refused: Padded<AtomicBool>,
    /// Whether frames were queried or retired since the last scan. A hint.
    is_pending: Padded<AtomicBool>,
    state: Padded<Mutex<State>>,
}

/// State under the lock, which also guards all protections (I2).
#[derive(Default)]
struct State {
    /// Upper bound of the blocks with owners.
    nr_used: usize,
    /// Number of frames with a protection reference.
    nr_marked: usize,
    /// Queried frames.
    doubted: Vec<FrameNr>,
    /// Retired frames that no scan has covered.
    retired: Vec<FrameNr>,
    /// Retired frames that a scan found published. The thread that ends the hazard scans again.
    kept: Vec<FrameNr>,
    /// Awaited slots.
    wanted: Vec<Place>,
    /// Number of references to which owned hazards were transferred, and which are not put yet.
    nr_handed_over: usize,
    /// Strong reference that keeps an orphaned pool until it has no owned hazards (I6).
    keeper: Option<Keeper>,
}

impl Announcements {
    pub(crate) fn new(nr_threads: usize, fences: Fences) -> Self {
        Self {
            life: Life::new(),
            slots: Slots::new(nr_threads, fences),
            is_refused: Padded(AtomicBool::new(false)),
            is_pending: Padded(AtomicBool::new(false)),
            state: Padded(Mutex::new(State::default())),
        }
    }

    fn is_usable(&self) -> bool {
        // ORDERING: Relaxed; a hint: a protection set just before stays, as all others do then.
        (cfg!(loom) || self.slots.fences.is_asymmetric())
            && !self.is_refused.load(Ordering::Relaxed)
    }

    /// Steps 1 to 3: publishes `word`, if its frame is protected and a slot is empty. `is_still`
    /// checks that the frame is the one that the caller needs.
    #[inline(always)]
    pub(crate) fn announce<S: RefScheme>(
        &self,
        lists: &FreeLists<S>,
        me: Identity,
        word: Word,
        is_still: impl FnOnce() -> bool,
    ) -> Option<&Slot> {
        let record = lists.table.get(word.frame().index())?;
        // First check, before publishing: most frames are not protected.
        if !record.is_open() {
            return None;
        }
        let slot = self.slots.announce(me, word)?;
        // In this order: see the protocol.
        if record.is_open() && is_still() {
            return Some(slot);
        }
        self.give_up(lists, slot, word);
        None
    }

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

    /// Records a use of the pool by the holder of a hazard.
    #[inline(always)]
    pub(crate) fn used(&self) {
        self.life.used();
    }

    /// Returns what steps 5 to 7 of an owned hazard need, so that they do not access the pool.
    #[inline(always)]
    pub(crate) fn exit(&self) -> (Fences, Exit) {
        self.life.used();
        (self.slots.fences, self.slots.exit())
    }

    /// Records that this thread, `me`, has acquired a counted reference to `frame`. Returns whether
    /// the frame should be protected. `is_contended` means that other threads hold references.
    #[inline]
    pub(crate) fn note_counted<S: RefScheme>(
        &self,
        lists: &FreeLists<S>,
        me: Identity,
        frame: FrameNr,
        is_contended: bool,
    ) -> bool {
        match self.slots.own(me) {
            // Counted although protected: no slot is empty, or the page is being changed.
            Some(_) if lists.meta(frame).is_marked() => false,
            Some(block) => block.scores.note(frame, is_contended) && self.is_usable(),
            None => {
                self.take_over(lists, me);
                false
            }
        }
    }

    /// Makes this thread the owner of its slots, and transfers the previous owner's hazards.
    #[cold]
    fn take_over<S: RefScheme>(&self, lists: &FreeLists<S>, me: Identity) {
        if !self.is_usable() || !self.slots.has_block(me) {
            return;
        }
        let mut state = self.lock();
        let hand_over = |frame| lists.meta(frame).refs.get();
        // Not the last: under the lock, the protection reference stays (I1).
        let take_back = |frame| {
            let _kept = lists.meta(frame).refs.put();
        };
        if let Some(taken) = self.slots.take_over(me, hand_over, take_back) {
            state.nr_used = state.nr_used.max(taken.nr_used);
            state.nr_handed_over += taken.nr_owned;
        }
        // Kept frames of the previous owner have counted references now.
        let has_kept = !state.kept.is_empty();
        drop(state);
        if has_kept {
            self.look(lists);
        }
    }

    /// Protects `frame`, to which the caller holds a counted reference, and for a page the claim.
    /// Returns whether the frame is protected.
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

    /// Closes the protection of `frame`, if any: its page was moved or removed. The caller still
    /// holds a reference, or the protection reference is the last. Scans once in a while.
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
            // A scan has just reset it.
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

    /// Queries `frame` in the next scan. Only its protection keeps the frame.
    #[cold]
    pub(crate) fn doubt(&self, frame: FrameNr) {
        let mut state = self.lock();
        if state.doubted.len() < MOST_DOUBTED && !state.doubted.contains(&frame) {
            state.doubted.push(frame);
            self.set_pending(true);
        }
    }

    /// Scans if frames are queried or retired. Returns the number of reset protections.
    #[inline]
    pub(crate) fn look_if_pending<S: RefScheme>(&self, lists: &FreeLists<S>) -> usize {
        // ORDERING: Relaxed; a hint. The thread that queried or retired a frame sees its own store.
        if self.is_pending.load(Ordering::Relaxed) {
            self.look(lists)
        } else {
            0
        }
    }

    /// Steps p to r: orphans a pool in which no thread publishes any more. `keeper` keeps it while
    /// owned hazards exist. Returns the keeper if none exist.
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

    /// Puts the reference to which an owned hazard was transferred. Returns the keeper if unneeded.
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

    /// Steps a to f, for all queried and retired frames. Returns the number of reset protections.
    #[cold]
    pub(crate) fn look<S: RefScheme>(&self, lists: &FreeLists<S>) -> usize {
        let state = self.lock();
        if state.keeper.is_none() {
            return self.look_with(lists, state, None).0;
        }
        // The pool is orphaned. The thread that finds no owned hazard releases it, since no other
        // thread may scan again. So enter the gate; if that fails, the pool was already released.
        drop(state);
        let exit = self.slots.exit();
        let mut entered = exit.enter();
        let (nr_released, let_go) = self.look_with(lists, self.lock(), entered.as_mut());
        drop(entered);
        // The caller uses the pool, so this is not its last strong reference.
        drop(let_go);
        nr_released
    }

    /// Step 7b: scans, and returns the keeper if the pool is orphaned and has no owned hazards.
    #[cold]
    pub(crate) fn look_entered<S: RefScheme>(
        &self,
        lists: &FreeLists<S>,
        entered: &mut Entered<'_>,
    ) -> Option<Keeper> {
        self.look_with(lists, self.lock(), Some(entered)).1
    }

    /// Scans. Takes the keeper of an orphaned pool only if the caller has entered the gate.
    fn look_with<S: RefScheme>(
        &self,
        lists: &FreeLists<S>,
        mut state: MutexGuard<'_, State>,
        entered: Option<&mut Entered<'_>>,
    ) -> (usize, Option<Keeper>) {
        let mut released = Vec::new();
        self.set_pending(false);
        // a. Retired frames are closed already.
        let mut doubted = std::mem::take(&mut state.doubted);
        doubted.retain(|frame| lists.meta(*frame).mark() == ON);
        for frame in &doubted {
            lists.meta(*frame).set_mark(CLOSED);
        }
        // b. Kept frames need no fence: they were closed before an earlier one.
        let needs_fence = !(doubted.is_empty() && state.retired.is_empty());
        let mut retired = std::mem::take(&mut state.retired);
        if needs_fence && self.heavy().is_none() {
            // These may be published without the scan seeing it.
            for frame in doubted.drain(..) {
                lists.meta(frame).set_mark(ON);
            }
            state.retired = std::mem::take(&mut retired);
        }
        // c. (Owned hazards of an orphaned pool are seen without a fence: I6.)
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
            // e and f. (If the fence is refused, holders see `is_wanted` later, or frames stay.)
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
        // ORDERING: Relaxed; a hint, stored under the lock.
        self.is_pending.store(is_pending, Ordering::Relaxed);
    }
}

/// Keeps those of `kept` that the scan has found published, and releases the others.
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

/// Resets the protection. The caller puts the reference later.
fn release<S: RefScheme>(lists: &FreeLists<S>, frame: FrameNr, released: &mut Vec<FrameNr>) {
    lists.meta(frame).set_mark(NONE);
    released.push(frame);
}

pub(crate) fn put<S: RefScheme>(lists: &FreeLists<S>, frame: FrameNr) {
    let record = lists.meta(frame);
    // E2: releases what the scan has acquired.
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
        // Refused later: no more frames are protected.
        announcements.is_refused.store(true, Ordering::Relaxed);
        assert!(!announcements.is_usable());
    }
}
