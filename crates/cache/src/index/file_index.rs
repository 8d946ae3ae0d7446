//! The index of one file: from a page to its slot, in one load.
//!
//! Place. Lookups (`crate::read`) only load slots. A thread that wants to change a slot gets hold
//! of its leaf here, and then claims the slot ([`crate::index::claim`]).
//!
//! The slots of all pages that the file may come to have are one reserved array, which uses memory only
//! where slots are in use. The slots of [`FRAME_WORDS`] neighbouring pages, one page of the system's memory,
//! are a *leaf*. A leaf in use has a frame of the pool, of which it uses only the record: the count is the number of
//! the leaf's users, and the owner is the leaf's place. The frame's memory is given back to the system, since
//! the slots use as much; so the index is part of the cache's budget. The *root* says which frame a leaf has. What leaves share
//! with their neighbours is charged and given back by [`crate::index::extents`].
//!
//! Invariants.
//! - I1: a root entry names a frame of kind `Leaf`, to which the root has one reference.
//! - I2: a leaf has one reference for each of its slots that is not empty (a claimed one included), and
//!   one for each [`Leaf`] handle. So a leaf with more than the root's reference stays in place.
//! - I3: only three holders store to slots: of a [`Leaf`], of its frozen frame, and of a claim of a slot with
//!   a page, which has a reference to the leaf itself. Loads need no reference: the array exists as long as the
//!   mapping.
//! - I4: the slots of a leaf that is not in use are zeros, which are empty slots.
//! - I5: no word of a slot with a page repeats, even if its leaf was taken out in between: a new leaf's
//!   slots begin at a version (the *floor* of the cache) that is higher than all versions of slots in leaves
//!   that were taken out. (The version has 31 bits; see [`crate::base::slot`]. This is for looks; what is kept for longer has a
//!   life beside the word, [`crate::index::lives`].)
//! - I6: a leaf is made by one thread at a time, which has locked it ([`Index::lock_to_make`]) and entered it ([`Index::enter`]);
//!   only its maker stores a root entry that is zero. A leaf leaves ([`Index::leave`]) when it was taken out, or could not be made.
//!
//! So a lookup that loads the same word twice knows that the page was in the same frame all along.
//!
//! Proved by `loom_read_vs_leaf_remade`, `loom_fill_vs_evict_leaf`, `loom_fill_vs_leaf_reuse`.

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

/// How many leaves of a file are made at once, at the most.
const MAKERS: usize = if cfg!(loom) { 1 } else { 8 };

/// How many rounds a thread watches a claimed slot before it sleeps: the claim of an eviction or of a write ends in a moment,
/// that of a fill does not.
pub(crate) const WATCHES: u32 = if cfg!(loom) { 0 } else { 4 };

/// The index of one file.
#[derive(Debug)]
#[repr(C)] // What hits load comes first.
pub(crate) struct Index<S: RefScheme> {
    /// A slot for each page.
    slots: Reserved,
    view: FrameView<S>,
    /// For each leaf, the number of its frame plus one; 0 for a leaf that is not in use.
    root: Reserved,
    /// What no hit needs.
    upkeep: Box<Upkeep>,
}

/// What threads need that make leaves, or take them out.
#[derive(Debug)]
struct Upkeep {
    extents: Extents,
    /// Memory in which each extent has [`EXTENT_WORDS`] words, which are used only while leaves of it are in use.
    beside: Option<Arc<Reserved>>,
    /// Each is held while a leaf is made, one of those that share it.
    makers: [Mutex<()>; MAKERS],
}

/// A slot that a lookup saw, and its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'i> {
    pub(super) word: &'i AtomicU64,
    pub(crate) slot: Slot,
}

impl<'i> Seen<'i> {
    /// Claims the slot, with a page, if it is still as it was seen.
    #[inline]
    pub(crate) fn claim_present<S: RefScheme>(self, claims: &'i Claims<S>) -> Option<Claim<'i, S>> {
        Claim::try_present(claims, self.word, self.slot)
    }

    /// Whether the page is still as it was seen: same frame, same bytes.
    ///
    /// Between a copy and this there must be an acquire fence. The referenced mark counts
    /// as a change, though it is none: the answer is a little too strict, and costs one comparison.
    #[inline]
    pub(crate) fn is_unchanged(self) -> bool {
        // ORDERING: Acquire; a thread that goes on from an unchanged slot (with a reference, say) must not
        // have loaded the data that it names before this. The caller's fence orders this load after the
        // copy.
        self.word.load(Ordering::Acquire) == self.slot.bits()
    }

    /// The word, and what it was.
    #[inline(always)]
    pub(crate) fn as_it_was(self) -> (&'i AtomicU64, u64) {
        (self.word, self.slot.bits())
    }

    /// The slot now.
    #[inline(always)]
    pub(super) fn again(self) -> Slot {
        // ORDERING: Acquire, as in `Index::look`.
        Slot::from_bits(self.word.load(Ordering::Acquire))
    }

    /// Waits for the end of the claim of the slot, which was seen busy: watches for the first rounds of `backoff`, and sleeps
    /// then. The caller looks again.
    ///
    /// In line, as everything is that has the backoff: callers keep it in a register.
    #[inline(always)]
    pub(crate) fn wait_for_claim<S: RefScheme>(self, claims: &Claims<S>, backoff: &mut Backoff) {
        if backoff.rounds() < WATCHES {
            backoff.wait();
        } else {
            self.wait_while_busy(claims);
        }
    }

    /// Leaves `waker` for when the slot, which was seen busy, is settled; unless it is.
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

    /// Sleeps until the slot, which was seen busy, is settled.
    pub(crate) fn wait_while_busy<S: RefScheme>(self, claims: &Claims<S>) {
        claims.waits.wait_while(self.word, |word| {
            // ORDERING: Acquire, as in `is_unchanged`. The holder of the claim wakes us when it ends.
            Slot::from_bits(word.load(Ordering::Acquire)).is_busy()
        });
    }
}

/// Loads the slot of `page` out of all slots of an index.
#[inline(always)]
fn look_in(slots: &[AtomicU64], page: PageNr) -> Option<Seen<'_>> {
    let word = slots.get(page as usize)?;
    // ORDERING: Acquire; pairs with the release store that published the slot, so that the page's
    // bytes and record are seen as they were when it was published.
    let slot = Slot::from_bits(word.load(Ordering::Acquire));
    Some(Seen { word, slot })
}

/// The slots of an index, to look at many of them.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looker<'i>(&'i [AtomicU64]);

#[cfg(not(loom))]
impl<'i> Looker<'i> {
    /// As [`Index::look`].
    #[inline(always)]
    pub(crate) fn look(self, page: PageNr) -> Option<Seen<'i>> {
        look_in(self.0, page)
    }

    /// Asks for the line of the slot of `page`.
    #[inline(always)]
    pub(crate) fn prefetch(self, page: PageNr) {
        if let Some(word) = self.0.get(page as usize) {
            prefetch(word);
        }
    }
}

/// How many leaves have the slots of `nr_pages` pages.
fn leaves_for(nr_pages: u64) -> Option<usize> {
    usize::try_from(nr_pages.div_ceil(FRAME_WORDS as u64)).ok()
}

/// The root entry of a leaf in `frame`.
const fn entry_of(frame: FrameNr) -> u64 {
    frame.get() as u64 + 1
}

/// The frame that a root entry names.
fn frame_of(entry: u64) -> Option<FrameNr> {
    Some(FrameNr::new(u32::try_from(entry.checked_sub(1)?).ok()?))
}

impl<S: RefScheme> Index<S> {
    /// How many of the first bytes hits load.
    #[cfg(not(loom))]
    pub(crate) const HIT_BYTES: usize = std::mem::offset_of!(Self, root);

    /// An empty index for pages up to `nr_pages`, or none when the system does not give the addresses.
    ///
    /// The pool of `view` must live longer than the index; `Mapping` ensures that. `beside` has [`EXTENT_WORDS`] words for each
    /// extent; its owner stores to those of an extent only while it holds a claim of a page there, and leaves zeros when the last
    /// page has gone.
    pub(crate) fn new(
        nr_pages: u64,
        view: FrameView<S>,
        beside: Option<Arc<Reserved>>,
    ) -> Option<Self> {
        let nr_leaves = leaves_for(nr_pages)?;
        let extent_bytes = match beside {
            // A model's frames are too small for it.
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

    /// How many pages an index for pages up to `nr_pages` can hold.
    pub(crate) fn capacity_for(nr_pages: u64) -> Option<u64> {
        Some(leaves_for(nr_pages)? as u64 * FRAME_WORDS as u64)
    }

    /// How many pages the index can hold.
    pub(crate) fn capacity(&self) -> u64 {
        self.slots.len() as u64
    }

    #[inline]
    pub(crate) fn view(&self) -> FrameView<S> {
        self.view
    }

    /// Loads the slot of `page`; none if the page is past the index's end.
    #[inline]
    pub(crate) fn look(&self, page: PageNr) -> Option<Seen<'_>> {
        look_in(&self.slots, page)
    }

    /// What looks at many slots need of the index, as a value.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn looker(&self) -> Looker<'_> {
        Looker(&self.slots)
    }

    /// Gets hold of the leaf of `page`, if it is in use.
    pub(crate) fn leaf<'s>(&self, claims: &'s Claims<S>, page: PageNr) -> Option<Leaf<'s, S>> {
        self.leaf_nr(claims, Leaf::<S>::of(page))
    }

    /// Gets hold of leaf number `leaf`, if it is in use.
    pub(crate) fn leaf_nr<'s>(&self, claims: &'s Claims<S>, leaf: usize) -> Option<Leaf<'s, S>> {
        let root = self.root.get(leaf)?;
        let mut backoff = Backoff::new();
        // Every round but the last has met a leaf that another thread is just making or taking away, which
        // takes that thread a few steps.
        loop {
            // ORDERING: Acquire; pairs with the release stores of `install_leaf` and `take_empty_leaf`:
            // a thread that finds no leaf sees its slots as zeros, and the floor as it was raised.
            let entry = root.load(Ordering::Acquire);
            let frame = frame_of(entry)?;
            if let TryGetFrame::Taken(reference) = claims.pool.try_get(frame) {
                // ORDERING: Acquire; the reference was taken before this load (`try_get` acquires).
                // The entry says that the frame is the leaf now (I1), and by I2 it stays the leaf until
                // we let go.
                if root.load(Ordering::Acquire) == entry {
                    return Some(Leaf { reference });
                }
            }
            backoff.wait();
        }
    }

    /// Waits until no other thread makes `leaf`, and keeps others from making it. So of many threads that want a leaf one
    /// finds memory for it. The holder may look for frames, and evict: an eviction takes leaves out, but makes none.
    pub(crate) fn lock_to_make(&self, leaf: usize) -> MutexGuard<'_, ()> {
        lock(&self.upkeep.makers[leaf % MAKERS])
    }

    /// As [`lock_to_make`](Self::lock_to_make), if no other thread makes a leaf that shares the lock.
    #[cfg(not(loom))]
    pub(crate) fn try_lock_to_make(&self, leaf: usize) -> Option<MutexGuard<'_, ()>> {
        try_lock(&self.upkeep.makers[leaf % MAKERS])
    }

    /// Counts `leaf`, which the caller is about to make and has locked for that, if what it needs is within `paid` bytes,
    /// which were charged to the budget; returns how many of these are too many.
    ///
    /// # Errors
    ///
    /// How many bytes more have to be charged.
    pub(crate) fn enter(&self, leaf: usize, paid: usize) -> Result<usize, Missing> {
        self.upkeep.extents.enter(leaf, paid)
    }

    /// Counts `leaf`, which is not in use, no more; returns how many bytes are to be charged no more.
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
                // Zeros that attempts at claims have left (see `Claim::try_present`).
                self.slots
                    .discard_zeros(first * FRAME_WORDS, nr * FRAME_WORDS);
            }
        };
        self.upkeep.extents.leave(leaf, discard)
    }

    /// Takes leaf number `leaf`, which is not in use, into use with the record of `fresh`, and gets hold of it. The caller has
    /// locked it to make it, and entered it.
    pub(crate) fn install_leaf<'s>(
        &self,
        claims: &'s Claims<S>,
        owner: u64,
        leaf: usize,
        fresh: UniqueFrame<'s, S>,
    ) -> Leaf<'s, S> {
        debug_assert!(self.upkeep.extents.is_used(leaf));
        // ORDERING: Release; pairs with the acquire in `leaf_nr`. Nobody else stores to the entry: others that want to make
        // the leaf wait for the lock, and the thread that last took it out has stored its zero, which the caller has loaded
        // (`leaf_nr` acquires), or had it discarded before the caller entered the leaf.
        // Until the frame is published its count is locked, and a thread that finds the entry waits.
        self.root[leaf].store(entry_of(fresh.frame()), Ordering::Release);
        self.publish_leaf(claims, owner, leaf, fresh)
    }

    /// Takes leaf number `leaf`, which the root gives to `frame` already, into use.
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
            // ORDERING: Relaxed; an empty slot becomes another empty slot, from which readers want nothing; a
            // thread that claims it holds the leaf, and so comes after the publication below.
            slot.store(Slot::empty_at(floor).bits(), Ordering::Relaxed);
        }
        // One reference for the root, and one for us.
        let frame = publish::leaf(frame, (owner, leaf as u64), slots, floor);
        Leaf {
            reference: raw::published(claims, frame),
        }
    }

    /// The slots of leaf number `leaf`.
    fn slots_of(&self, leaf: usize) -> &[AtomicU64] {
        &self.slots[leaf * FRAME_WORDS..][..FRAME_WORDS]
    }

    /// Takes leaf number `leaf` out of use if all its slots are empty, and `held`, the caller's handle, is
    /// the only one. The frame then belongs to the caller, who calls [`leave`](Self::leave) next.
    ///
    /// # Errors
    ///
    /// The handle, when the leaf is in use.
    pub(crate) fn take_empty_leaf<'s>(
        &self,
        claims: &Claims<S>,
        leaf: usize,
        held: Leaf<'s, S>,
    ) -> Result<UniqueFrame<'s, S>, Leaf<'s, S>> {
        let [_, floor] = held.reference.meta().private();
        // While it is frozen, no other thread can get hold of the leaf, so none can claim a slot of it.
        let unique = held.freeze_with_roots()?;
        // I5: the next leaf, here or elsewhere, begins above all versions of this one's slots.
        let highest = self
            .slots_of(leaf)
            .iter()
            // ORDERING: Relaxed; freezing the frame acquires the stores of the leaf's holders.
            .map(|slot| Slot::from_bits(slot.load(Ordering::Relaxed)).versions_since(floor))
            .max()
            .unwrap_or(0);
        claims.raise_version_floor(floor + highest + 1);
        // L2.
        claims.lives.end(&self.slots_of(leaf)[0]);
        // I4.
        self.slots.discard(leaf * FRAME_WORDS, FRAME_WORDS);
        // ORDERING: Release; a thread that finds the leaf out of use (`leaf_nr` acquires) may take it into use, and
        // sees the zeros and the floor. A reader that loaded a slot before sees the same word later
        // only if nothing was changed, by I5, whatever it sees of this store.
        self.root[leaf].store(0, Ordering::Release);
        Ok(unique)
    }

    /// The first leaf that is in use, from number `leaf` on. Parts of the root that are not in use are
    /// skipped, so a huge sparse file costs nothing.
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
