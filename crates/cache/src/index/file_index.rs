//! Index of one file: from a page to its slot in one load.
//!
//! Place. Lookups (`crate::read`) only load slots. A thread that changes a slot acquires a handle
//! of its leaf here, and then claims the slot ([`crate::index::claim`]).
//!
//! The slots of all pages that the file may ever have are one reserved array, which uses memory
//! only where slots are in use. The slots of [`FRAME_WORDS`] neighbouring pages, one page of the
//! operating system, are a *leaf*. A leaf in use owns a frame of the pool, but uses only its
//! metadata: the count is the number of references to the leaf, and the owner is the leaf's place.
//! The frame's memory is discarded, since the slots use as much memory in the array: in this way
//! the index stays within the cache's budget. The *root* maps a leaf to its frame.
//! [`crate::index::extents`] charges and discards the memory that neighbouring leaves share.
//!
//! Invariants.
//! - I1: a root entry names a frame of kind `Leaf`, to which the root has one reference.
//! - I2: a leaf has one reference for each of its slots that is not empty (a claimed one included),
//!   and one for each [`Leaf`] handle. So a leaf with more than the root's reference stays in
//!   place.
//! - I3: a thread stores to a slot only if it holds a [`Leaf`] handle, the frozen frame of the
//!   leaf, or the claim of a present slot, which itself has a reference to the leaf. Loads need no
//!   reference: the array exists as long as the mapping.
//! - I4: the slots of a leaf that is not in use are zeros, which are empty slots.
//! - I5: no word of a present slot repeats, even if its leaf was removed in between: the slots of a
//!   new leaf begin at the *minimum slot version* of the cache (`version_floor`), which is above
//!   the versions of all slots in removed leaves. The version has 31 bits ([`crate::base::slot`]),
//!   enough for one read. A token, which is kept for longer, also has a generation
//!   ([`crate::index::lives`]).
//! - I6: a leaf is created by one thread at a time, which holds its leaf-creation lock
//!   ([`Index::lock_to_make`]) and has entered it ([`Index::enter`]). Only this thread stores to a
//!   root entry that is zero. The thread that removed a leaf, or failed to create it, makes it
//!   leave ([`Index::leave`]).
//!
//! So if a lookup loads the same word twice, the page was in the same frame throughout.
//!
//! Verified by `loom_read_vs_leaf_remade`, `loom_fill_vs_evict_leaf`, `loom_fill_vs_leaf_reuse`.

use std::sync::Arc;
#[cfg(not(loom))]
use std::task::Waker;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FRAME_WORDS, FrameNr, FrameView, TryGetFrame, UniqueFrame};
use pagewell_sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use pagewell_sync::parking::Left;
#[cfg(not(loom))]
use pagewell_sync::prefetch::prefetch;
use pagewell_sync::thread::Backoff;
#[cfg(not(loom))]
use pagewell_sync::try_lock;
use pagewell_sync::{Mutex, MutexGuard, lock};

use crate::base::extent::EXTENT_WORDS;
use crate::base::page::PageNr;
use crate::base::reserved::Reserved;
use crate::base::slot::Slot;
use crate::index::claim::Claim;
use crate::index::claims::Claims;
use crate::index::extents::{Extents, Missing, PART_LEAVES, Unused};
use crate::index::leaf::Leaf;
use crate::index::publish;
use crate::index::raw;

/// Maximum number of leaves of a file that are created concurrently.
const MAKERS: usize = if cfg!(loom) { 1 } else { 8 };

/// Number of rounds for which a thread polls a claimed slot before it sleeps. The claim of an
/// eviction or of a write lasts a few steps, that of a fill a transfer.
pub(crate) const WATCHES: u32 = if cfg!(loom) { 0 } else { 4 };

/// Index of one file.
#[derive(Debug)]
#[repr(C)] // The fields that hits load come first.
pub(crate) struct Index<S: RefScheme> {
    /// One slot for each page.
    slots: Reserved,
    view: FrameView<S>,
    /// For each leaf, the number of its frame plus one, or 0 if the leaf is not in use.
    root: Reserved,
    /// Fields that no hit loads.
    upkeep: Box<Upkeep>,
}

/// State for the creation and removal of leaves.
#[derive(Debug)]
struct Upkeep {
    extents: Extents,
    /// Array with [`EXTENT_WORDS`] words for each leaf cluster, used only while leaves of the
    /// cluster are in use.
    beside: Option<Arc<Reserved>>,
    /// Leaf-creation locks. Leaves with the same number modulo `MAKERS` share one.
    makers: [Mutex<()>; MAKERS],
}

/// Slot as a lookup loaded it, with its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'i> {
    pub(super) word: &'i AtomicU64,
    pub(crate) slot: Slot,
}

impl<'i> Seen<'i> {
    /// Claims the slot, which must be present, if it has not changed since it was loaded.
    #[inline]
    pub(crate) fn claim_present<S: RefScheme>(self, claims: &'i Claims<S>) -> Option<Claim<'i, S>> {
        Claim::try_present(claims, self.word, self.slot)
    }

    /// Whether the slot is unchanged, so that the page has the same frame and the same bytes.
    ///
    /// The caller must place an acquire fence between its copy of the bytes and this load. A change
    /// of the accessed bit counts as a change: the check is stricter than necessary, but takes one
    /// comparison.
    #[inline]
    pub(crate) fn is_unchanged(self) -> bool {
        // ORDERING: Acquire; a thread that relies on an unchanged slot (with a reference, for
        // example) must not have loaded the data that the slot names before this load. The caller's
        // fence orders this load after the copy.
        self.word.load(Ordering::Acquire) == self.slot.bits()
    }

    /// Returns the word, and its value when it was loaded.
    #[inline(always)]
    pub(crate) fn as_it_was(self) -> (&'i AtomicU64, u64) {
        (self.word, self.slot.bits())
    }

    /// Loads the slot again.
    #[inline(always)]
    pub(super) fn again(self) -> Slot {
        // ORDERING: Acquire, as in `Index::look`.
        Slot::from_bits(self.word.load(Ordering::Acquire))
    }

    /// Waits for the end of the claim of the slot, which was loaded as busy: polls for the first
    /// rounds of `backoff`, then sleeps. The caller loads the slot again.
    ///
    /// Inlined, like every function that takes the backoff, so that callers keep it in a register.
    #[inline(always)]
    pub(crate) fn wait_for_claim<S: RefScheme>(self, claims: &Claims<S>, backoff: &mut Backoff) {
        if backoff.rounds() < WATCHES {
            backoff.wait();
        } else {
            self.wait_while_busy(claims);
        }
    }

    /// Registers `waker` for the end of the claim of the slot, which was loaded as busy. Returns
    /// `None` if the claim has ended.
    #[cfg(not(loom))]
    pub(crate) fn leave_waker<S: RefScheme>(
        self,
        claims: &Claims<S>,
        waker: &Waker,
    ) -> Option<Left> {
        claims.waits.leave_waker(self.word, waker, |word| {
            // ORDERING: Acquire, as in `wait_while_busy`.
            Slot::from_bits(word.load(Ordering::Acquire)).is_busy()
        })
    }

    /// Sleeps until the claim of the slot, which was loaded as busy, ends.
    pub(crate) fn wait_while_busy<S: RefScheme>(self, claims: &Claims<S>) {
        claims.waits.wait_while(self.word, |word| {
            // ORDERING: Acquire, as in `is_unchanged`. The end of the claim wakes this thread.
            Slot::from_bits(word.load(Ordering::Acquire)).is_busy()
        });
    }
}

/// Loads the slot of `page` from `slots`, all slots of an index.
#[inline(always)]
fn look_in(slots: &[AtomicU64], page: PageNr) -> Option<Seen<'_>> {
    let word = slots.get(page as usize)?;
    // ORDERING: Acquire; pairs with the release store that published the slot, so this thread sees
    // the page's bytes and the frame metadata as they were published.
    let slot = Slot::from_bits(word.load(Ordering::Acquire));
    Some(Seen { word, slot })
}

/// Slots of an index, as a value for loads of many slots.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looker<'i>(&'i [AtomicU64]);

#[cfg(not(loom))]
impl<'i> Looker<'i> {
    /// See [`Index::look`].
    #[inline(always)]
    pub(crate) fn look(self, page: PageNr) -> Option<Seen<'i>> {
        look_in(self.0, page)
    }

    /// Prefetches the cache line of the slot of `page`.
    #[inline(always)]
    pub(crate) fn prefetch(self, page: PageNr) {
        if let Some(word) = self.0.get(page as usize) {
            prefetch(word);
        }
    }
}

/// Number of leaves that hold the slots of `nr_pages` pages.
fn leaves_for(nr_pages: u64) -> Option<usize> {
    usize::try_from(nr_pages.div_ceil(FRAME_WORDS as u64)).ok()
}

/// Root entry of a leaf whose frame is `frame`.
const fn entry_of(frame: FrameNr) -> u64 {
    frame.get() as u64 + 1
}

/// Frame that a root entry names.
fn frame_of(entry: u64) -> Option<FrameNr> {
    Some(FrameNr::new(u32::try_from(entry.checked_sub(1)?).ok()?))
}

impl<S: RefScheme> Index<S> {
    /// Number of bytes, from the start of the index, that hits load.
    #[cfg(not(loom))]
    pub(crate) const HIT_BYTES: usize = std::mem::offset_of!(Self, root);

    /// Creates an empty index for `nr_pages` pages. Returns `None` if the address space cannot be
    /// reserved.
    ///
    /// The pool of `view` must outlive the index; `Mapping` ensures that. `beside` has
    /// [`EXTENT_WORDS`] words for each leaf cluster. Its owner stores to the words of a cluster
    /// only while it holds a claim of a page there, and leaves zeros once the last page is removed.
    pub(crate) fn new(
        nr_pages: u64,
        view: FrameView<S>,
        beside: Option<Arc<Reserved>>,
    ) -> Option<Self> {
        let nr_leaves = leaves_for(nr_pages)?;
        let extent_bytes = match beside {
            // The frames of a model are too small for it.
            Some(_) if !cfg!(loom) => EXTENT_WORDS * size_of::<AtomicU64>(),
            _ => 0,
        };
        Some(Self {
            slots: Reserved::new(nr_leaves.checked_mul(FRAME_WORDS)?)?,
            view,
            root: Reserved::new(nr_leaves)?,
            upkeep: Box::new(Upkeep {
                extents: Extents::new(nr_leaves, extent_bytes)?,
                beside,
                makers: std::array::from_fn(|_| Mutex::new(())),
            }),
        })
    }

    /// Capacity, in pages, of an index for `nr_pages` pages: whole leaves.
    pub(crate) fn capacity_for(nr_pages: u64) -> Option<u64> {
        Some(leaves_for(nr_pages)? as u64 * FRAME_WORDS as u64)
    }

    /// Capacity in pages.
    pub(crate) fn capacity(&self) -> u64 {
        self.slots.len() as u64
    }

    #[inline]
    pub(crate) fn view(&self) -> FrameView<S> {
        self.view
    }

    /// Loads the slot of `page`. Returns `None` if the page is past the end of the index.
    #[inline]
    pub(crate) fn look(&self, page: PageNr) -> Option<Seen<'_>> {
        look_in(&self.slots, page)
    }

    /// Returns the slots as a value, for loads of many slots.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn looker(&self) -> Looker<'_> {
        Looker(&self.slots)
    }

    /// Acquires a handle of the leaf of `page`. Returns `None` if the leaf is not in use.
    pub(crate) fn leaf<'s>(&self, claims: &'s Claims<S>, page: PageNr) -> Option<Leaf<'s, S>> {
        self.leaf_nr(claims, Leaf::<S>::of(page))
    }

    /// Acquires a handle of leaf number `leaf`. Returns `None` if the leaf is not in use.
    pub(crate) fn leaf_nr<'s>(&self, claims: &'s Claims<S>, leaf: usize) -> Option<Leaf<'s, S>> {
        let root = self.root.get(leaf)?;
        let mut backoff = Backoff::new();
        // The loop repeats while another thread creates or removes the leaf, which takes that
        // thread a few steps.
        loop {
            // ORDERING: Acquire; pairs with the release stores of `install_leaf` and
            // `take_empty_leaf`. A thread that finds that the leaf is not in use sees its slots as
            // zeros, and the raised minimum slot version.
            let entry = root.load(Ordering::Acquire);
            let frame = frame_of(entry)?;
            if let TryGetFrame::Taken(reference) = claims.pool.try_get(frame) {
                // ORDERING: Acquire; the reference was taken before this load (`try_get` acquires).
                // The unchanged entry proves that the frame is the leaf's (I1). By I2 the frame
                // stays the leaf's until the reference is dropped.
                if root.load(Ordering::Acquire) == entry {
                    return Some(Leaf { reference });
                }
            }
            backoff.wait();
        }
    }

    /// Acquires the leaf-creation lock of `leaf`, so that only one of many threads that need the
    /// leaf allocates memory for it. The holder may allocate frames and evict: an eviction removes
    /// leaves, but creates none.
    pub(crate) fn lock_to_make(&self, leaf: usize) -> MutexGuard<'_, ()> {
        lock(&self.upkeep.makers[leaf % MAKERS])
    }

    /// Acquires the lock of [`lock_to_make`](Self::lock_to_make) if no other thread holds it.
    /// Returns `None` otherwise.
    #[cfg(not(loom))]
    pub(crate) fn try_lock_to_make(&self, leaf: usize) -> Option<MutexGuard<'_, ()>> {
        try_lock(&self.upkeep.makers[leaf % MAKERS])
    }

    /// Counts `leaf`, which the caller is about to create. The caller holds its leaf-creation lock,
    /// and has charged `paid` bytes to the budget for it. Returns how many of them were not needed.
    ///
    /// # Errors
    ///
    /// Returns the number of bytes that the caller must charge in addition. Nothing was counted.
    pub(crate) fn enter(&self, leaf: usize, paid: usize) -> Result<usize, Missing> {
        self.upkeep.extents.enter(leaf, paid)
    }

    /// Removes `leaf`, which is no longer in use, from the count of its leaf cluster. Returns the
    /// number of bytes whose charge the caller must revert.
    pub(crate) fn leave(&self, leaf: usize) -> usize {
        let discard = |unused| {
            let (extent, part) = match unused {
                Unused::Extent(extent) => (extent, None),
                Unused::Part(extent, part) => (extent, Some(part)),
            };
            if let Some(beside) = &self.upkeep.beside {
                let words = extent * EXTENT_WORDS..((extent + 1) * EXTENT_WORDS).min(beside.len());
                beside.discard_zeros(words.start, words.len());
            }
            if let Some(part) = part {
                let first = part * PART_LEAVES;
                let nr = PART_LEAVES.min(self.root.len() - first);
                self.root.discard_zeros(first, nr);
                // Failed claims may have faulted in pages of zeros (see `Claim::try_present`).
                self.slots
                    .discard_zeros(first * FRAME_WORDS, nr * FRAME_WORDS);
            }
        };
        self.upkeep.extents.leave(leaf, discard)
    }

    /// Takes leaf number `leaf` into use with the metadata of `fresh`, and returns a handle. The
    /// leaf is not in use. The caller holds its leaf-creation lock and has entered it.
    pub(crate) fn install_leaf<'s>(
        &self,
        claims: &'s Claims<S>,
        owner: u64,
        leaf: usize,
        fresh: UniqueFrame<'s, S>,
    ) -> Leaf<'s, S> {
        debug_assert!(self.upkeep.extents.is_used(leaf));
        // ORDERING: Release; pairs with the acquire in `leaf_nr`. No other thread stores to the
        // entry: other threads that need the leaf wait for the lock. The thread that last removed
        // the leaf has stored its zero, which the caller has loaded (`leaf_nr` acquires) or which
        // was discarded before the caller entered the leaf. Until the frame is published, its count
        // is locked, and a thread that finds the entry waits.
        self.root[leaf].store(entry_of(fresh.frame()), Ordering::Release);
        self.publish_leaf(claims, owner, leaf, fresh)
    }

    /// Takes leaf number `leaf`, which the root already maps to `frame`, into use.
    fn publish_leaf<'s>(
        &self,
        claims: &'s Claims<S>,
        owner: u64,
        leaf: usize,
        frame: UniqueFrame<'s, S>,
    ) -> Leaf<'s, S> {
        let floor = claims.version_floor();
        let slots = self.slots_of(leaf);
        for slot in slots {
            // ORDERING: Relaxed; an empty slot is replaced by another empty slot, from which
            // readers load nothing else. A thread that claims it holds the leaf, and therefore
            // comes after the publication below.
            slot.store(Slot::empty_at(floor).bits(), Ordering::Relaxed);
        }
        // One reference for the root, and one for the handle.
        let frame = publish::leaf(frame, (owner, leaf as u64), slots, floor);
        Leaf {
            reference: raw::published(claims, frame),
        }
    }

    fn slots_of(&self, leaf: usize) -> &[AtomicU64] {
        &self.slots[leaf * FRAME_WORDS..][..FRAME_WORDS]
    }

    /// Removes leaf number `leaf` if all its slots are empty and `held`, the caller's handle, is
    /// the only one. Returns the leaf's frame. The caller calls [`leave`](Self::leave) next.
    ///
    /// # Errors
    ///
    /// Returns `held`, with the leaf unchanged, if a slot is not empty or there is another handle.
    pub(crate) fn take_empty_leaf<'s>(
        &self,
        claims: &Claims<S>,
        leaf: usize,
        held: Leaf<'s, S>,
    ) -> Result<UniqueFrame<'s, S>, Leaf<'s, S>> {
        let [_, floor] = held.reference.meta().private();
        // While the frame is frozen, no other thread can acquire a handle of the leaf, so none can
        // claim a slot in it.
        let unique = held.freeze_with_roots()?;
        // I5: the next leaf, of any file, begins above all versions of the slots of this one.
        let highest = self
            .slots_of(leaf)
            .iter()
            // ORDERING: Relaxed; freezing the frame acquires the stores of earlier holders of the
            // leaf.
            .map(|slot| Slot::from_bits(slot.load(Ordering::Relaxed)).versions_since(floor))
            .max()
            .unwrap_or(0);
        claims.raise_version_floor(floor + highest + 1);
        // L2 of `index::lives`: the slots are about to become zeros.
        claims.lives.end(&self.slots_of(leaf)[0]);
        // I4: a leaf that is not in use has slots of zeros.
        self.slots.discard(leaf * FRAME_WORDS, FRAME_WORDS);
        // ORDERING: Release; a thread that finds the leaf not in use (`leaf_nr` acquires) may take
        // it into use, and sees the zeros and the minimum slot version. A reader that loaded a slot
        // before the removal loads the same word again only if nothing changed (I5), whether or not
        // it sees this store.
        self.root[leaf].store(0, Ordering::Release);
        Ok(unique)
    }

    /// Returns the first leaf in use from number `leaf` on. Skips parts of the root that are not in
    /// use, so that a large sparse file costs little.
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
