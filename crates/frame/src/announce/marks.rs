//! Protection of frames, and scans. Step, invariant and edge labels refer to [`announce`](super).

use std::any::Any;
use std::fmt;

use pagewell_sync::asymmetric::Fences;
use pagewell_sync::atomic::{AtomicBool, Ordering};
use pagewell_sync::cell::Life;
use pagewell_sync::scaled;
use pagewell_sync::shard::{Identity, Padded};
use pagewell_sync::{Mutex, MutexGuard, lock};

use super::board::{Entered, Exit};
use super::slot::{Ended, Slot, Word};
use super::slots::{Place, Scan, Slots};
use crate::lists::FreeLists;
use crate::records::{CLOSED, FrameMeta, NONE, ON};
use crate::words::FrameNr;

/// Number of retired frames that trigger a scan; in a small pool, 1/64 of its frames do.
const LOOK_AT: usize = scaled(32, 1);

/// Maximum number of queried frames between two scans. Further queries are ignored.
const MOST_DOUBTED: usize = 256;

/// Inverse of the maximum fraction of protected frames.
const SHARE: usize = scaled(8, 2);

/// Strong reference to the value that contains the pool, stored in a pool without owner (orphaned).
pub(crate) type Keeper = Box<dyn Any + Send + Sync>;

pub(crate) struct Announcements {
    life: Life,
    slots: Slots,
    /// Set once the system has refused a heavy fence.
    is_refused: Padded<AtomicBool>,
    /// Set if frames were queried or retired since the last scan. A hint.
    is_pending: Padded<AtomicBool>,
    state: Padded<Mutex<State>>,
}

/// State under the lock, which also guards all protections (I2).
#[derive(Default)]
struct State {
    /// Number of blocks to scan: no later block has an owner.
    nr_used: usize,
    /// Number of frames with a protection reference.
    nr_marked: usize,
    /// Queried frames.
    doubted: Vec<FrameNr>,
    /// Retired frames that no scan has covered yet.
    retired: Vec<FrameNr>,
    /// Retired frames that a scan found published. Their slots are awaited.
    kept: Vec<FrameNr>,
    wanted: Vec<Place>,
    /// Number of transferred owned hazards whose counted references are not put yet.
    nr_handed_over: usize,
    /// Keeps an orphaned pool until it has no owned hazards (I6).
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
        // ORDERING: Relaxed; a hint. A protection that is set after a refusal never ends.
        (scaled(false, true) || self.slots.fences.is_asymmetric())
            && !self.is_refused.load(Ordering::Relaxed)
    }

    /// Executes steps 1 to 3, if this thread has an empty slot. `is_still` then checks that the
    /// frame is still the one that was looked up. On `None` no hazard is left. `record` is that of
    /// the frame; callers check its protection before, since most frames are not protected.
    #[inline(always)]
    pub(crate) fn announce(
        &self,
        lists: &FreeLists,
        record: &FrameMeta,
        (me, word): (Identity, Word),
        is_still: impl FnOnce() -> bool,
    ) -> Option<&Slot> {
        let slot = self.slots.announce(me, word)?;
        // The protection is loaded before the index slot is checked (see the protocol).
        if record.is_open() && is_still() {
            return Some(slot);
        }
        self.give_up(lists, slot, word);
        None
    }

    #[cold]
    fn give_up(&self, lists: &FreeLists, slot: &Slot, word: Word) {
        if self.end(slot, word) == Ended::Wanted {
            self.look(lists);
        }
    }

    #[inline(always)]
    pub(crate) fn end(&self, slot: &Slot, word: Word) -> Ended {
        slot.end(word, self.slots.fences)
    }

    #[inline(always)]
    pub(crate) fn used(&self) {
        self.life.used();
    }

    /// Returns the data that steps 5 to 7 of an owned hazard use instead of the pool.
    #[inline(always)]
    pub(crate) fn exit(&self) -> (Fences, Exit) {
        self.life.used();
        (self.slots.fences, self.slots.exit())
    }

    /// Records that thread `me` has acquired a counted reference. Returns `true` if the frame
    /// should be protected.
    #[inline]
    pub(crate) fn note_counted(&self, lists: &FreeLists, me: Identity, frame: FrameNr) -> bool {
        let Some(block) = self.slots.own(me) else {
            return self.take_over(lists, me);
        };
        // The frame's owner and the caller hold one reference each.
        let is_contended = || lists.meta(frame).count() > 2;
        // A frame may be protected already: no slot was empty, the page was being changed, or
        // another thread protected the frame since.
        block.scores.note(frame, is_contended) && !lists.meta(frame).is_marked() && self.is_usable()
    }

    /// Makes thread `me` the owner of its block, if there is one. Returns `false`, so that the call
    /// in [`note_counted`](Self::note_counted) is a jump.
    #[cold]
    fn take_over(&self, lists: &FreeLists, me: Identity) -> bool {
        if !self.is_usable() || !self.slots.has_block(me) {
            return false;
        }
        let mut state = self.lock();
        let hand_over = |frame| lists.meta(frame).refs.get();
        // This put is not the last one: under the lock, the protection reference stays (I1).
        let take_back = |frame| {
            let _kept = lists.meta(frame).refs.put();
        };
        if let Some(taken) = self.slots.take_over(me, hand_over, take_back) {
            state.nr_used = state.nr_used.max(taken.nr_used);
            state.nr_handed_over += taken.nr_owned;
        }
        // Hazards that kept retired frames may be counted references now, so scan again.
        let has_kept = !state.kept.is_empty();
        drop(state);
        if has_kept {
            self.look(lists);
        }
        false
    }

    pub(crate) fn mark(&self, lists: &FreeLists, frame: FrameNr) -> bool {
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
        // I1: acquire the reference before the protection is on.
        record.refs.get();
        record.set_mark(ON);
        state.nr_marked += 1;
        true
    }

    /// Closes the protection of `frame`, if any: its page was moved or removed. The caller still
    /// holds its reference, or the protection reference is the last one. May [scan](Self::look).
    #[inline]
    pub(crate) fn retire(&self, lists: &FreeLists, frame: FrameNr) {
        if lists.meta(frame).is_marked() {
            self.retire_marked(lists, frame);
        }
    }

    #[cold]
    fn retire_marked(&self, lists: &FreeLists, frame: FrameNr) {
        let mut state = self.lock();
        let record = lists.meta(frame);
        if record.mark() != ON {
            // A scan has reset the protection since the check in `retire`.
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

    /// Queries `frame`, which has no reference but the owner's and the protection's.
    #[cold]
    pub(crate) fn doubt(&self, frame: FrameNr) {
        let mut state = self.lock();
        if state.doubted.len() < MOST_DOUBTED && !state.doubted.contains(&frame) {
            state.doubted.push(frame);
            self.set_pending(true);
        }
    }

    /// Like [`look`](Self::look), but only if frames were queried or retired since the last scan.
    #[inline]
    pub(crate) fn look_if_pending(&self, lists: &FreeLists) -> usize {
        // ORDERING: Relaxed; a hint. A thread that queried or retired a frame sees its own store.
        if self.is_pending.load(Ordering::Relaxed) {
            self.look(lists)
        } else {
            0
        }
    }

    /// Executes steps p to r, in a pool in which no thread publishes any more. If no owned hazards
    /// exist, returns the keeper, to be dropped after the gate is released.
    #[cold]
    pub(crate) fn leave(
        &self,
        lists: &FreeLists,
        keeper: Keeper,
        entered: &mut Entered<'_>,
    ) -> Option<Keeper> {
        let mut state = self.lock();
        state.keeper = Some(keeper);
        self.look_with(lists, state, Some(entered)).1
    }

    /// Puts the counted reference of a transferred hazard. Returns the keeper like [`Self::leave`].
    #[cold]
    pub(crate) fn put_handed_over(
        &self,
        lists: &FreeLists,
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

    /// Steps a to f. Returns the number of reset protections. The caller holds no lock or gate.
    #[cold]
    pub(crate) fn look(&self, lists: &FreeLists) -> usize {
        let state = self.lock();
        if state.keeper.is_none() {
            return self.look_with(lists, state, None).0;
        }
        // The scan that finds no owned hazard of an orphaned pool must release the pool, so enter
        // the gate first. This fails if the keeper was released already.
        drop(state);
        let exit = self.slots.exit();
        let mut entered = exit.enter();
        let (nr_released, let_go) = self.look_with(lists, self.lock(), entered.as_mut());
        drop(entered);
        // The caller uses the pool, so this is not its last strong reference.
        drop(let_go);
        nr_released
    }

    /// Executes steps 7b and r. Returns the keeper of an orphaned pool that has no owned hazards.
    #[cold]
    pub(crate) fn look_entered(
        &self,
        lists: &FreeLists,
        entered: &mut Entered<'_>,
    ) -> Option<Keeper> {
        self.look_with(lists, self.lock(), Some(entered)).1
    }

    /// Scans with `state` locked, then unlocks it. Returns the number of protections that were
    /// reset, and, only if the caller has entered the gate, the keeper (step r).
    fn look_with(
        &self,
        lists: &FreeLists,
        mut state: MutexGuard<'_, State>,
        entered: Option<&mut Entered<'_>>,
    ) -> (usize, Option<Keeper>) {
        let mut released = Vec::new();
        self.set_pending(false);
        // Step a. The protections of retired frames are closed already.
        let mut doubted = std::mem::take(&mut state.doubted);
        doubted.retain(|frame| lists.meta(*frame).mark() == ON);
        for frame in &doubted {
            lists.meta(*frame).set_mark(CLOSED);
        }
        // Step b. Kept frames need no fence: they were closed before the fence of an earlier scan.
        let needs_fence = !(doubted.is_empty() && state.retired.is_empty());
        let mut retired = std::mem::take(&mut state.retired);
        if needs_fence && self.heavy().is_none() {
            // Without a fence this scan may miss hazards, so keep these frames protected.
            for frame in doubted.drain(..) {
                lists.meta(frame).set_mark(ON);
            }
            state.retired = std::mem::take(&mut retired);
        }
        // Step c. (Owned hazards of an orphaned pool need no fence: see "The end of the pool".)
        let mut scan = self.slots.scan(state.nr_used);
        // Step d.
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
            // Steps e and f. (If the fence is refused, a holder that misses `is_wanted` does not
            // scan, and its frame stays allocated until a later scan.)
            scan = self.slots.scan(state.nr_used);
            keep_announced(lists, &mut kept, &scan, &mut released);
        }
        state.kept = kept;
        state.nr_marked -= released.len();
        // Step r.
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
        // Put after the lock is released, since a put may free the frame.
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

/// Retains the frames that the scan found published, and resets the protection of the others.
fn keep_announced(
    lists: &FreeLists,
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

/// Resets the protection. The caller puts its reference after it has released the lock.
fn release(lists: &FreeLists, frame: FrameNr, released: &mut Vec<FrameNr>) {
    lists.meta(frame).set_mark(NONE);
    released.push(frame);
}

pub(crate) fn put(lists: &FreeLists, frame: FrameNr) {
    let record = lists.meta(frame);
    // E2: this release covers the accesses that the scan has acquired.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_marked_where_each_announcement_would_cost_a_fence() {
        assert!(!Announcements::new(4, Fences::symmetric()).is_usable());
        let fences = Fences::new();
        let announcements = Announcements::new(4, fences);
        assert_eq!(announcements.is_usable(), fences.is_asymmetric());
        announcements.is_refused.store(true, Ordering::Relaxed);
        assert!(!announcements.is_usable());
    }
}
