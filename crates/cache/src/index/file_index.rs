//! Index of one file: from a page to its slot in one load.
//!
//! The slots of all pages that the file may ever have are one reserved array, which uses memory
//! only where slots are in use. [`FRAME_WORDS`] neighbouring slots, which fill one page of memory,
//! are a *leaf*. A leaf in use owns a frame of the pool. Its slots are not in this frame: the
//! frame's metadata counts the references to the leaf and records the leaf's place, and the frame's
//! memory is discarded to make up for the page of the array. So the slots stay within the cache's
//! budget. The *root* maps a leaf to its frame. [`crate::index::extents`] charges and discards the
//! memory that leaves share.
//!
//! Invariants.
//! - I1: a root entry names a frame of kind `Leaf`, to which the root has one reference.
//! - I2: a leaf has one reference for each slot that is present or claimed, and one for each
//!   [`Leaf`] handle outside a claim. A leaf with more than the root's reference stays in place.
//! - I3: a thread stores to a slot only with a [`Leaf`] handle, the leaf's frozen frame, or the
//!   claim of a present slot (I2). Loads need no reference: the array lives as long as the mapping.
//! - I4: the slots of a leaf that is not in use are zeros, which are empty slots.
//! - I5: the word of a present slot does not repeat within one read, even if its leaf is removed
//!   and created again: a new leaf begins at the *minimum slot version* of the cache
//!   (`version_floor`), above the versions of all slots in removed leaves. A token is kept for
//!   longer, and also has a generation ([`crate::index::lives`]).
//! - I6: a leaf is created by one thread at a time, which holds its leaf-creation lock
//!   ([`Index::lock_to_make`]) and has entered it ([`Index::enter`]). Only this thread stores to a
//!   root entry of zero. After a removal or a failed creation, the leaf leaves ([`Index::leave`]).
//!
//! So if a lookup loads the same word twice, the page was in the same frame throughout.
//!
//! Verified by `loom_read_vs_leaf_remade`, `loom_fill_vs_evict_leaf`, `loom_fill_vs_leaf_reuse`.

use std::task::Waker;

use pagewell_frame::{FRAME_WORDS, FrameNr, FrameView, TryGetFrame, UniqueFrame};
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::parking::Left;
use pagewell_sync::prefetch::prefetch;
use pagewell_sync::region::Region;
use pagewell_sync::thread::Backoff;
use pagewell_sync::{Mutex, MutexGuard, lock, scaled, try_lock};

use crate::base::page::{EXTENT_LEAVES, EXTENT_WORDS, PageNr};
use crate::base::slot::Slot;
use crate::index::claim::{Claim, Claims, Leaf};
use crate::index::extents::{Extents, Missing, PART_LEAVES, Unused};
use crate::index::raw;

/// Maximum number of leaves of a file that are created concurrently.
const MAKERS: usize = scaled(8, 1);

/// Number of rounds for which a thread polls a claimed slot before it sleeps: eviction and write
/// claims last a few steps, those of fills a transfer.
pub(crate) const WATCHES: u32 = scaled(4, 0);

#[derive(Debug)]
#[repr(C)] // The fields that hits load come first.
pub(crate) struct Index {
    slots: Region,
    view: FrameView,
    /// For each leaf, the number of its frame plus one, or 0 if the leaf is not in use.
    root: Region,
    upkeep: Box<Upkeep>,
}

#[derive(Debug)]
struct Upkeep {
    extents: Extents,
    /// [`EXTENT_WORDS`] words for each leaf cluster, used only while its leaves are in use.
    beside: Option<Region>,
    /// Leaf-creation locks. Leaves with the same number modulo `MAKERS` share one.
    makers: [Mutex<()>; MAKERS],
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'i> {
    pub(super) word: &'i AtomicU64,
    pub(crate) slot: Slot,
}

impl<'i> Seen<'i> {
    /// Claims the slot, which must be present, if it has not changed since it was loaded.
    #[inline]
    pub(crate) fn claim_present(self, claims: &'i Claims) -> Option<Claim<'i>> {
        Claim::try_present(claims, self.word, self.slot)
    }

    /// Whether the slot is unchanged, so that the page has the same frame and bytes. The caller
    /// must place an acquire fence between its copy and this load. A changed accessed bit also
    /// counts as a change: an exact check would take a second comparison.
    #[inline]
    pub(crate) fn is_unchanged(self) -> bool {
        // ORDERING: Acquire; a thread that takes a reference and finds the slot unchanged loads
        // page data later. The caller's fence orders this load after the copy.
        self.word.load(Ordering::Acquire) == self.slot.bits()
    }

    #[inline(always)]
    pub(crate) fn as_it_was(self) -> (&'i AtomicU64, u64) {
        (self.word, self.slot.bits())
    }

    #[inline(always)]
    pub(super) fn again(self) -> Slot {
        // ORDERING: Acquire, as in `Index::look`.
        Slot::from_bits(self.word.load(Ordering::Acquire))
    }

    /// Waits for the claim of a busy slot: in the first [`WATCHES`] calls one round of `backoff`,
    /// later until its end. The caller reloads the slot. Inlined: `backoff` stays in a register.
    #[inline(always)]
    pub(crate) fn wait_for_claim(self, claims: &Claims, backoff: &mut Backoff) {
        if backoff.rounds() < WATCHES {
            backoff.wait();
        } else {
            self.wait_while_busy(claims);
        }
    }

    /// Registers `waker` for the end of the claim. Returns `None` if the slot is not claimed, or
    /// `is_over` ([`wait_while_busy_unless`](Self::wait_while_busy_unless)) returns `true`.
    pub(crate) fn leave_waker(
        self,
        claims: &Claims,
        waker: &Waker,
        is_over: impl Fn() -> bool,
    ) -> Option<Left> {
        claims.waits.leave_waker(self.word, waker, |word| {
            // ORDERING: Acquire, as in `wait_while_busy_unless`.
            Slot::from_bits(word.load(Ordering::Acquire)).is_busy() && !is_over()
        })
    }

    pub(crate) fn wait_while_busy(self, claims: &Claims) {
        self.wait_while_busy_unless(claims, || false);
    }

    /// Sleeps until the slot is not claimed, or `is_over` returns `true`. `is_over` may only load
    /// atomics, and a thread that changes its result then ends a claim of the slot.
    pub(crate) fn wait_while_busy_unless(self, claims: &Claims, is_over: impl Fn() -> bool) {
        claims.waits.wait_while(self.word, |word| {
            // ORDERING: Acquire, as in `is_unchanged`. The end of the claim wakes this thread.
            Slot::from_bits(word.load(Ordering::Acquire)).is_busy() && !is_over()
        });
    }
}

#[inline(always)]
fn look_in(slots: &[AtomicU64], page: PageNr) -> Option<Seen<'_>> {
    let word = slots.get(page as usize)?;
    // ORDERING: Acquire; pairs with the release store that published the slot, bytes and metadata.
    let slot = Slot::from_bits(word.load(Ordering::Acquire));
    Some(Seen { word, slot })
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Looker<'i>(&'i [AtomicU64]);

impl<'i> Looker<'i> {
    #[inline(always)]
    pub(crate) fn look(self, page: PageNr) -> Option<Seen<'i>> {
        look_in(self.0, page)
    }

    #[inline(always)]
    pub(crate) fn prefetch(self, page: PageNr) {
        if let Some(word) = self.0.get(page as usize) {
            prefetch(word);
        }
    }
}

fn leaves_for(nr_pages: u64) -> Option<usize> {
    usize::try_from(nr_pages.div_ceil(FRAME_WORDS as u64)).ok()
}

const fn entry_of(frame: FrameNr) -> u64 {
    frame.get() as u64 + 1
}

fn frame_of(entry: u64) -> Option<FrameNr> {
    Some(FrameNr::new(u32::try_from(entry.checked_sub(1)?).ok()?))
}

impl Index {
    /// Number of bytes, from the start of the index, that hits load.
    pub(crate) const HIT_BYTES: usize = std::mem::offset_of!(Self, root);

    pub(crate) fn lens(nr_pages: u64) -> Option<[usize; 2]> {
        let nr_leaves = leaves_for(nr_pages)?;
        Some([nr_leaves.checked_mul(FRAME_WORDS)?, nr_leaves])
    }

    /// Creates an empty index. `Mapping` keeps the pool of `view`. A cluster's words in `beside`
    /// change only under a claim of one of its pages, and are zero if none is cached.
    pub(crate) fn new([slots, root]: [Region; 2], view: FrameView, beside: Option<Region>) -> Self {
        let nr_leaves = root.len();
        debug_assert_eq!(slots.len(), nr_leaves * FRAME_WORDS);
        if let Some(beside) = &beside {
            debug_assert_eq!(
                beside.len(),
                nr_leaves.div_ceil(EXTENT_LEAVES) * EXTENT_WORDS
            );
        }
        let extent_bytes = match beside {
            // The frames of a model are too small for these words.
            Some(_) => scaled(EXTENT_WORDS * size_of::<AtomicU64>(), 0),
            _ => 0,
        };
        Self {
            slots,
            view,
            root,
            upkeep: Box::new(Upkeep {
                extents: Extents::new(nr_leaves, extent_bytes),
                beside,
                makers: std::array::from_fn(|_| Mutex::new(())),
            }),
        }
    }

    /// Returns the number of bytes that the index uses before it has leaves, to be charged.
    pub(crate) fn nr_bytes(&self) -> usize {
        self.upkeep.extents.nr_bytes()
    }

    pub(crate) fn capacity_for(nr_pages: u64) -> Option<u64> {
        Some(leaves_for(nr_pages)? as u64 * FRAME_WORDS as u64)
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.slots.len() as u64
    }

    #[inline]
    pub(crate) fn view(&self) -> FrameView {
        self.view
    }

    /// Loads the slot of `page`. Returns `None` if the page is past the end of the index.
    #[inline]
    pub(crate) fn look(&self, page: PageNr) -> Option<Seen<'_>> {
        look_in(&self.slots, page)
    }

    #[inline]
    pub(crate) fn looker(&self) -> Looker<'_> {
        Looker(&self.slots)
    }

    pub(crate) fn leaf<'s>(&self, claims: &'s Claims, page: PageNr) -> Option<Leaf<'s>> {
        self.leaf_nr(claims, Leaf::of(page))
    }

    /// Acquires a handle of leaf number `leaf`. Returns `None` if the leaf is not in use.
    pub(crate) fn leaf_nr<'s>(&self, claims: &'s Claims, leaf: usize) -> Option<Leaf<'s>> {
        let root = self.root.get(leaf)?;
        let mut backoff = Backoff::new();
        // Repeats while another thread creates or removes the leaf, which takes a few steps.
        loop {
            // ORDERING: Acquire; pairs with the release stores of `install_leaf` and
            // `take_empty_leaf`. A thread that finds that the leaf is not in use sees its slots as
            // zeros, and the raised minimum slot version.
            let entry = root.load(Ordering::Acquire);
            let frame = frame_of(entry)?;
            if let TryGetFrame::Taken(reference) = claims.pool.try_get(frame) {
                // ORDERING: Acquire; loaded after the reference was taken (`try_get` acquires). The
                // unchanged entry proves that the frame is the leaf's (I1), and by I2 it stays so
                // until the reference is dropped.
                if root.load(Ordering::Acquire) == entry {
                    return Some(Leaf { reference });
                }
            }
            backoff.wait();
        }
    }

    /// Acquires the leaf-creation lock of `leaf`. The holder may allocate frames and evict: an
    /// eviction creates no leaf.
    pub(crate) fn lock_to_make(&self, leaf: usize) -> MutexGuard<'_, ()> {
        lock(&self.upkeep.makers[leaf % MAKERS])
    }

    /// As [`lock_to_make`](Self::lock_to_make), if no other thread holds the lock.
    pub(crate) fn try_lock_to_make(&self, leaf: usize) -> Option<MutexGuard<'_, ()>> {
        try_lock(&self.upkeep.makers[leaf % MAKERS])
    }

    /// Counts `leaf` ([`Extents::enter`]). The caller holds its creation lock, and will create it.
    pub(crate) fn enter(&self, leaf: usize, paid: usize) -> Result<usize, Missing> {
        self.upkeep.extents.enter(leaf, paid)
    }

    /// Uncounts `leaf`, which is no longer in use. Returns the number of bytes to uncharge.
    pub(crate) fn leave(&self, leaf: usize) -> usize {
        let discard = |Unused { extent, part }| {
            if let Some(beside) = &self.upkeep.beside {
                let words = extent * EXTENT_WORDS..((extent + 1) * EXTENT_WORDS).min(beside.len());
                beside.discard_zeros(words.start, words.len());
            }
            if let Some(part) = part {
                let first = part * PART_LEAVES;
                let nr = PART_LEAVES.min(self.root.len() - first);
                self.root.discard_zeros(first, nr);
                self.slots
                    .discard_zeros(first * FRAME_WORDS, nr * FRAME_WORDS);
            }
        };
        self.upkeep.extents.leave(leaf, discard)
    }

    /// Takes leaf number `leaf` into use with the metadata of `fresh`, and returns a handle. The
    /// leaf must not be in use. The caller holds its leaf-creation lock and has entered it.
    pub(crate) fn install_leaf<'s>(
        &self,
        claims: &'s Claims,
        owner: u64,
        leaf: usize,
        fresh: UniqueFrame<'s>,
    ) -> Leaf<'s> {
        debug_assert!(self.upkeep.extents.is_used(leaf));
        // ORDERING: Release; pairs with the acquire in `leaf_nr`. No other thread stores to the
        // entry (I6). Its zero was stored by the thread that last removed the leaf, and loaded by
        // the caller (`leaf_nr` acquires) or discarded before the caller entered the leaf. Threads
        // that find the entry wait for the publication of the frame, whose count is locked.
        self.root[leaf].store(entry_of(fresh.frame()), Ordering::Release);
        let floor = claims.version_floor();
        let slots = self.slots_of(leaf);
        for slot in slots {
            // ORDERING: Relaxed; one empty slot replaces another, and no reader follows an empty
            // slot to other memory. A claim of the slot needs a handle of the leaf, which exists
            // only after the publication below.
            slot.store(Slot::empty_at(floor).bits(), Ordering::Relaxed);
        }
        let frame = raw::publish_leaf(fresh, (owner, leaf as u64), slots, floor);
        Leaf {
            reference: raw::published(&claims.pool, frame),
        }
    }

    fn slots_of(&self, leaf: usize) -> &[AtomicU64] {
        &self.slots[leaf * FRAME_WORDS..][..FRAME_WORDS]
    }

    /// Removes leaf number `leaf` if its slots are empty and `held` is the only handle. Returns its
    /// frame, and the caller calls [`leave`](Self::leave) next. Otherwise returns `held`.
    pub(crate) fn take_empty_leaf<'s>(
        &self,
        claims: &Claims,
        leaf: usize,
        held: Leaf<'s>,
    ) -> Result<UniqueFrame<'s>, Leaf<'s>> {
        let [_, floor] = held.reference.meta().private();
        // Frozen: no other thread can acquire a handle of the leaf, or claim a slot in it.
        let unique = held.freeze_with_roots()?;
        // I5: the next leaf, of any file, begins above all versions of the slots of this one.
        let highest = self
            .slots_of(leaf)
            .iter()
            // ORDERING: Relaxed; the freeze acquires the stores of earlier holders.
            .map(|slot| Slot::from_bits(slot.load(Ordering::Relaxed)).versions_since(floor))
            .max()
            .unwrap_or(0);
        claims.raise_version_floor(floor + highest + 1);
        // L2 of `index::lives`: the slots are about to become zeros.
        claims.lives.end(&self.slots_of(leaf)[0]);
        // I4: a leaf that is not in use has slots of zeros.
        self.slots.discard(leaf * FRAME_WORDS, FRAME_WORDS);
        // ORDERING: Release; a thread that finds the leaf not in use (`leaf_nr` acquires) and
        // installs it sees the zeros and the minimum slot version. Whether or not a reader sees
        // this store, it reloads the same word only if nothing changed (I5).
        self.root[leaf].store(0, Ordering::Release);
        Ok(unique)
    }

    /// Returns the first leaf in use from `leaf` on. Skips unused parts of a sparse file's root.
    pub(crate) fn next_leaf(&self, leaf: usize) -> Option<usize> {
        let mut leaf = leaf;
        while leaf < self.root.len() {
            if !self.upkeep.extents.is_used(leaf) {
                leaf = (leaf / PART_LEAVES + 1) * PART_LEAVES;
                continue;
            }
            // ORDERING: Acquire, as in `leaf_nr`.
            if self.root[leaf].load(Ordering::Acquire) != 0 {
                return Some(leaf);
            }
            leaf += 1;
        }
        None
    }
}
