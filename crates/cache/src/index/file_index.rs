//! The index of one file: from a page to its slot, in one load.
//!
//! Place. Lookups (`crate::read`) only load slots. A thread that wants to change a slot gets hold
//! of its leaf here, and then claims the slot ([`crate::index::claim`]).
//!
//! The slots of all pages that the file may come to have are one reserved array, which uses memory only
//! where slots are in use. The slots of [`FRAME_WORDS`] neighbouring pages, one page of the system's memory,
//! are a *leaf*. A leaf in use has a frame of the pool, of which it uses only the record: the count is the number of
//! the leaf's users, and the owner is the leaf's place. The frame's memory is given back to the system, since
//! the slots use as much; so the index is part of the cache's budget. The *root* says which frame a leaf has.
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
//!   that were taken out. (The version has 31 bits; see [`crate::base::slot`].)
//!
//! So a lookup that loads the same word twice knows that the page was in the same frame all along.
//!
//! Proved by `loom_read_vs_leaf_remade`, `loom_fill_vs_evict_leaf`, `loom_fill_vs_leaf_reuse`.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FRAME_WORDS, FrameNr, FrameView, TryGetFrame, UniqueFrame};
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::thread::Backoff;

use crate::base::page::PageNr;
use crate::base::reserved::Reserved;
use crate::base::slot::Slot;
use crate::index::claim::Claim;
use crate::index::claims::Claims;
use crate::index::leaf::Leaf;
use crate::index::publish;
use crate::index::raw;

/// How many root entries are charged to the budget together: as many as fill a page of the system's memory.
const ENTRIES_CHARGED: usize = 4096 / size_of::<AtomicU64>();

/// The index of one file.
#[derive(Debug)]
pub(crate) struct Index<S: RefScheme> {
    /// A slot for each page.
    slots: Reserved,
    view: FrameView<S>,
    /// For each leaf, the number of its frame plus one; 0 for a leaf that is not in use.
    root: Reserved,
    /// A bit for each [`ENTRIES_CHARGED`] root entries: whether they are charged to the budget.
    charged: Reserved,
}

/// A slot that a lookup saw, and its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'i> {
    word: &'i AtomicU64,
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

    /// Sleeps until the slot, which was seen busy, is settled.
    pub(crate) fn wait_while_busy<S: RefScheme>(self, claims: &Claims<S>) {
        claims.waits.wait_while(self.word, |word| {
            // ORDERING: Acquire, as in `is_unchanged`. The holder of the claim wakes us when it ends.
            Slot::from_bits(word.load(Ordering::Acquire)).is_busy()
        });
    }
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
    /// An empty index for pages up to `nr_pages`, or none when the system does not give the addresses.
    ///
    /// The pool of `view` must live longer than the index; `Mapping` ensures that.
    pub(crate) fn new(nr_pages: u64, view: FrameView<S>) -> Option<Self> {
        let nr_leaves = usize::try_from(nr_pages.div_ceil(FRAME_WORDS as u64)).ok()?;
        Some(Self {
            slots: Reserved::new(nr_leaves.checked_mul(FRAME_WORDS)?)?,
            view,
            root: Reserved::new(nr_leaves)?,
            charged: Reserved::new(nr_leaves.div_ceil(ENTRIES_CHARGED).div_ceil(64))?,
        })
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
        let word = self.slots.get(page as usize)?;
        // ORDERING: Acquire; pairs with the release store that published the slot, so that the page's
        // bytes and record are seen as they were when it was published.
        let slot = Slot::from_bits(word.load(Ordering::Acquire));
        Some(Seen { word, slot })
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

    /// Takes leaf number `leaf` into use with the record of `fresh`, and gets hold of it. Its part of the root is
    /// charged to the budget.
    ///
    /// # Errors
    ///
    /// `fresh`, when another thread has taken the leaf into use.
    pub(crate) fn install_leaf<'s>(
        &self,
        claims: &'s Claims<S>,
        owner: u64,
        leaf: usize,
        fresh: UniqueFrame<'s, S>,
    ) -> Result<Leaf<'s, S>, UniqueFrame<'s, S>> {
        debug_assert!(self.is_charged(leaf));
        // ORDERING: on success Release, which pairs with the acquire in `leaf_nr`, and Acquire, which
        // pairs with the release that last took the leaf out of use, even if that was after `leaf_nr` looked.
        // Until the frame is published its count is locked, and a thread that finds the entry waits.
        let installed = self.root[leaf].compare_exchange(
            0,
            entry_of(fresh.frame()),
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        match installed {
            Ok(_) => Ok(self.publish_leaf(claims, owner, leaf, fresh)),
            Err(_) => Err(fresh),
        }
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
        let frame = publish::leaf(frame, (owner, leaf), slots, floor);
        Leaf {
            reference: raw::published(claims, frame),
        }
    }

    /// The slots of leaf number `leaf`.
    fn slots_of(&self, leaf: usize) -> &[AtomicU64] {
        &self.slots[leaf * FRAME_WORDS..][..FRAME_WORDS]
    }

    /// Takes leaf number `leaf` out of use if all its slots are empty, and `held`, the caller's handle, is
    /// the only one. The frame then belongs to the caller.
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
        // I4.
        self.slots.discard(leaf * FRAME_WORDS, FRAME_WORDS);
        // ORDERING: Release; a thread that finds the leaf out of use (`leaf_nr` acquires) may take it into use, and
        // sees the zeros and the floor. A reader that loaded a slot before sees the same word later
        // only if nothing was changed, by I5, whatever it sees of this store.
        self.root[leaf].store(0, Ordering::Release);
        Ok(unique)
    }

    /// How many bytes the root entries take that are charged along with the entry of `leaf`.
    pub(crate) fn charge_bytes(&self, leaf: usize) -> usize {
        let first = leaf / ENTRIES_CHARGED * ENTRIES_CHARGED;
        let nr = ENTRIES_CHARGED.min(self.root.len() - first);
        nr * size_of::<AtomicU64>()
    }

    /// Notes that the part of the root with the entry of `leaf` is charged; whether it was before.
    pub(crate) fn note_charged(&self, leaf: usize) -> bool {
        let part = leaf / ENTRIES_CHARGED;
        let (word, bit) = (&self.charged[part / 64], 1 << (part % 64));
        // ORDERING: Relaxed; see `is_charged`.
        word.fetch_or(bit, Ordering::Relaxed) & bit != 0
    }

    /// How many bytes of the root are charged to the budget.
    pub(crate) fn charged_bytes(&self) -> usize {
        (0..self.root.len())
            .step_by(ENTRIES_CHARGED)
            .filter(|leaf| self.is_charged(*leaf))
            .map(|leaf| self.charge_bytes(leaf))
            .sum()
    }

    /// Whether the part of the root with the entry of `leaf` was ever used.
    pub(crate) fn is_charged(&self, leaf: usize) -> bool {
        let part = leaf / ENTRIES_CHARGED;
        // ORDERING: Relaxed. A bit is set before any leaf of its part is made. So a thread that must see the leaf
        // (because its making happens before, or by the fences of `Filler::fill` and `Remover::remove`) sees
        // the bit.
        self.charged[part / 64].load(Ordering::Relaxed) & 1 << (part % 64) != 0
    }

    /// The first leaf that is in use, from number `leaf` on. Parts of the root that were never used are
    /// skipped, so a huge sparse file costs nothing.
    pub(crate) fn next_leaf(&self, leaf: usize) -> Option<usize> {
        let mut leaf = leaf;
        while leaf < self.root.len() {
            if !self.is_charged(leaf) {
                leaf = (leaf / ENTRIES_CHARGED + 1) * ENTRIES_CHARGED;
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
