//! The index of one file: from a page to its slot, in two loads.
//!
//! Place. Lookups (`crate::lookup`, `crate::read`) only look. Whoever wants to change a slot gets hold
//! of its leaf here, and then claims the slot ([`crate::claim`]).
//!
//! A *leaf* is a frame of the pool that holds the slots of [`FRAME_WORDS`] neighbouring pages, so that
//! the index is part of the cache's budget; the *root* has an entry for each leaf.
//!
//! Invariants.
//! - I1: a root entry names a frame of kind `Leaf` that the root has one reference to.
//! - I2: a leaf has one reference for each of its slots that is not empty (a claimed one included), and
//!   one for each [`Leaf`] handle. So a leaf with more than the root's reference stays where it is.
//! - I3: slots are stored to only by the holder of a [`Leaf`]. Looking needs no reference.
//!
//! Looking without a reference. The leaf may be taken out of the root, and its frame used for
//! something else, at any moment after the entry was loaded; the word that is loaded as a slot may then be
//! anything, also the very word that the slot had before. So a lookup that wants to rely on what it saw loads
//! both words again when it is done, *the root entry last*:
//!
//! ```text
//! entry   slot   ... use ...   slot   entry
//! ```
//!
//! Entries never repeat: an entry that is the same at both ends says that the frame was this leaf from the
//! first load to the last. So both loads of the slot, in between, were of a slot of this leaf; and since the
//! versions of a slot do not repeat while its leaf lives, the same word twice says that the page was in the
//! same frame from one to the other. (With the entry checked before the slot, the second load of the slot
//! could be of user data that has the old word in it.)
//!
//! Proved by `loom_read_vs_leaf_reuse`; by the litmus tests `leaf-reuse*`.

use pagewell_frame::{FRAME_WORDS, FrameKind, FrameRef, FrameView, TryGetFrame};
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::thread::Backoff;

use crate::reclaim::OutOfFrames;
use crate::root::{self, ENTRIES_CHARGED, RootEntry};
use crate::shared::Shared;
use crate::slot::Slot;
use pagewell_frame::refcount::RefScheme;

/// The number of a page of a file.
pub(crate) type PageNr = u64;

/// The index of one file.
#[derive(Debug)]
pub(crate) struct Index<S: RefScheme> {
    root: Box<[AtomicU64]>,
    view: FrameView<S>,
    /// A bit for each [`ENTRIES_CHARGED`] root entries: whether they are charged to the budget.
    charged: Box<[AtomicU64]>,
}

/// What a lookup saw, and where, so that looking again takes two loads and nothing else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'i> {
    root: &'i AtomicU64,
    entry: RootEntry,
    word: &'i AtomicU64,
    pub(crate) slot: Slot,
}

impl Seen<'_> {
    /// Whether the page is still as it was seen: same leaf, same frame, same bytes.
    ///
    /// After a copy there must be an acquire fence between the copy and this. The referenced mark counts
    /// as a change, though it is none: the answer is a little too strict, and costs one comparison.
    #[inline]
    pub(crate) fn is_unchanged(self) -> bool {
        // ORDERING: Acquire; the entry must be loaded after the slot (see the module's text). That
        // neither is loaded before the copy is the caller's fence's business.
        if self.word.load(Ordering::Acquire) != self.slot.bits() {
            return false;
        }
        // ORDERING: Acquire; whoever goes on from here (with a reference, say) must not have loaded what the
        // slot names before this. It also pairs with the release fence of whoever reuses the leaf's frame.
        self.root.load(Ordering::Acquire) == self.entry.bits()
    }

    /// Sleeps until the slot, which was seen busy, is settled or gone.
    pub(crate) fn wait_while_busy<S: RefScheme>(self, shared: &Shared<S>) {
        shared.waits.wait_while(self.word, |word| {
            // ORDERING: Acquire, both, and in this order, as in `is_unchanged`: an unchanged entry says that
            // the word was a slot when it was found busy. The claim's holder wakes us when it ends.
            Slot::from_bits(word.load(Ordering::Acquire)).is_busy()
                && self.root.load(Ordering::Acquire) == self.entry.bits()
        });
    }
}

/// Which leaf a page belongs to, and where in it.
#[inline]
const fn position(page: PageNr) -> (usize, usize) {
    (
        (page / FRAME_WORDS as u64) as usize,
        (page % FRAME_WORDS as u64) as usize,
    )
}

impl<S: RefScheme> Index<S> {
    /// An empty index for pages up to `nr_pages`, or none when there is no memory for it.
    ///
    /// The pool of `view` must live longer than the index; [`crate::mapping::Mapping`] sees to that.
    pub(crate) fn new(nr_pages: u64, view: FrameView<S>) -> Option<Self> {
        let nr_leaves = usize::try_from(nr_pages.div_ceil(FRAME_WORDS as u64)).ok()?;
        Some(Self {
            root: root::allocate(nr_leaves)?,
            view,
            charged: root::allocate(nr_leaves.div_ceil(ENTRIES_CHARGED).div_ceil(64))?,
        })
    }

    /// How many pages the index can hold.
    pub(crate) fn capacity(&self) -> u64 {
        self.root.len() as u64 * FRAME_WORDS as u64
    }

    #[inline]
    pub(crate) fn view(&self) -> FrameView<S> {
        self.view
    }

    /// Looks at the slot of `page`; none if there is no leaf for it.
    #[inline]
    pub(crate) fn look(&self, page: PageNr) -> Option<Seen<'_>> {
        let (leaf, slot) = position(page);
        let view = self.view;
        let root = self.root.get(leaf)?;
        // ORDERING: Acquire; pairs with the release compare-and-swap that put the entry there, so
        // that the leaf's slots are seen as initialised, or later.
        let entry = RootEntry::from_bits(root.load(Ordering::Acquire));
        if entry.is_none() {
            return None;
        }
        let word = crate::raw::word(self, view, entry.frame(), slot);
        // ORDERING: Acquire; pairs with the release store that published the slot, so that the page's
        // bytes and record are seen as they were when it was published.
        let slot = Slot::from_bits(word.load(Ordering::Acquire));
        Some(Seen {
            root,
            entry,
            word,
            slot,
        })
    }

    /// Gets hold of the leaf of `page`, if there is one.
    pub(crate) fn leaf<'s>(&self, shared: &'s Shared<S>, page: PageNr) -> Option<Leaf<'s, S>> {
        let (leaf, _) = position(page);
        self.leaf_at(shared, leaf)
    }

    fn leaf_at<'s>(&self, shared: &'s Shared<S>, leaf: usize) -> Option<Leaf<'s, S>> {
        let root = self.root.get(leaf)?;
        let mut backoff = Backoff::new();
        // Every round but the last has met a leaf that is just being made or taken away, each of
        // which the other thread finishes in a few steps.
        loop {
            // ORDERING: Acquire; as in `look`.
            let bits = root.load(Ordering::Acquire);
            let entry = RootEntry::from_bits(bits);
            if entry.is_none() {
                return None;
            }
            let frame = pagewell_frame::FrameNr::new(entry.frame());
            if let TryGetFrame::Taken(reference) = shared.pool.try_get(frame) {
                // ORDERING: Acquire; the reference was taken before this load (`try_get` acquires).
                // An unchanged entry says that the frame was the leaf when we took it (I1), and by I2
                // it stays the leaf until we let go.
                if root.load(Ordering::Acquire) == bits {
                    return Some(Leaf { reference });
                }
            }
            backoff.wait();
        }
    }

    /// Gets hold of the leaf of `page`, and makes it if there is none.
    ///
    /// # Errors
    ///
    /// When no frame can be had for it.
    pub(crate) fn leaf_or_new<'s>(
        &self,
        shared: &'s Shared<S>,
        owner: u64,
        page: PageNr,
    ) -> Result<Leaf<'s, S>, OutOfFrames> {
        let (leaf, _) = position(page);
        loop {
            if let Some(found) = self.leaf_at(shared, leaf) {
                return Ok(found);
            }
            self.charge(shared, leaf)?;
            let fresh = shared.alloc(pagewell_frame::Order::ZERO)?;
            for word in fresh.words() {
                // ORDERING: Relaxed; the release below publishes them.
                word.store(Slot::EMPTY.bits(), Ordering::Relaxed);
            }
            let entry = RootEntry::new(fresh.frame(), shared.next_generation());
            // ORDERING: Release on success publishes the slots to `look` and `leaf_at`. Until the
            // frame is published too, its count is locked and `leaf_at` waits.
            let installed = self.root[leaf].compare_exchange(
                RootEntry::NONE.bits(),
                entry.bits(),
                Ordering::Release,
                Ordering::Relaxed,
            );
            if installed.is_ok() {
                // One reference for the root, and one for us.
                let frame = fresh.publish(FrameKind::Leaf, (owner, leaf as u64), 2);
                return Ok(Leaf::from_published(shared, frame));
            }
        }
    }

    /// How many bytes the root entries that are charged along with `leaf`'s take.
    fn charge_bytes(&self, leaf: usize) -> usize {
        let first = leaf / ENTRIES_CHARGED * ENTRIES_CHARGED;
        let nr = ENTRIES_CHARGED.min(self.root.len() - first);
        nr * size_of::<AtomicU64>()
    }

    /// Charges the part of the root that `leaf`'s entry is in, if that was not done before.
    fn charge(&self, shared: &Shared<S>, leaf: usize) -> Result<(), OutOfFrames> {
        if self.is_charged(leaf) {
            return Ok(());
        }
        shared.charge(self.charge_bytes(leaf))?;
        let part = leaf / ENTRIES_CHARGED;
        let (word, bit) = (&self.charged[part / 64], 1 << (part % 64));
        // ORDERING: Relaxed; see `is_charged`.
        if word.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            // Someone else charged it meanwhile.
            shared.uncharge(self.charge_bytes(leaf));
        }
        Ok(())
    }

    /// Takes all charges back; the index must be empty, and not be used any more.
    pub(crate) fn uncharge(&self, shared: &Shared<S>) {
        let bytes: usize = (0..self.root.len())
            .step_by(ENTRIES_CHARGED)
            .filter(|leaf| self.is_charged(*leaf))
            .map(|leaf| self.charge_bytes(leaf))
            .sum();
        if bytes != 0 {
            shared.uncharge(bytes);
        }
    }

    /// Whether the part of the root that `leaf`'s entry is in was ever used.
    fn is_charged(&self, leaf: usize) -> bool {
        let part = leaf / ENTRIES_CHARGED;
        // ORDERING: Relaxed. A bit is set before any leaf of its part is made, so who must see the leaf
        // (because its making happens before, or by the fences of `Mapping::fill` and `refresh`) sees
        // the bit.
        self.charged[part / 64].load(Ordering::Relaxed) & 1 << (part % 64) != 0
    }

    /// The first leaf that there is, from number `leaf` on. Parts of the root that were never used are
    /// not even looked at, so that a huge sparse file costs nothing.
    pub(crate) fn next_leaf(&self, leaf: usize) -> Option<usize> {
        let mut leaf = leaf;
        while leaf < self.root.len() {
            if !self.is_charged(leaf) {
                leaf = (leaf / ENTRIES_CHARGED + 1) * ENTRIES_CHARGED;
                continue;
            }
            // ORDERING: Acquire, as in `look`.
            if !RootEntry::from_bits(self.root[leaf].load(Ordering::Acquire)).is_none() {
                return Some(leaf);
            }
            leaf += 1;
        }
        None
    }

    /// Takes leaf number `leaf` out of the root if all its slots are empty, and `held`, the caller's
    /// handle, is the only one. The frame is the caller's then.
    pub(crate) fn take_empty_leaf<'s>(
        &self,
        leaf: usize,
        held: Leaf<'s, S>,
    ) -> Result<pagewell_frame::UniqueFrame<'s, S>, Leaf<'s, S>> {
        let frame = held.reference.frame();
        let unique = held.freeze_with_roots()?;
        // Frozen, nobody can get hold of the leaf, and so nobody can fill a slot or take the entry out.
        // ORDERING: Relaxed load; the entry was stored before the leaf was published.
        let entry = RootEntry::from_bits(self.root[leaf].load(Ordering::Relaxed));
        debug_assert_eq!(entry.frame(), frame.get());
        // ORDERING: Release, though the fence of whoever overwrites the frame (`UniqueFrame::words`)
        // is what readers rely on: an entry that is gone says that all the leaf's slots were empty.
        self.root[leaf].store(RootEntry::NONE.bits(), Ordering::Release);
        Ok(unique)
    }

    /// Gets hold of leaf number `leaf`, if there is one.
    pub(crate) fn leaf_nr<'s>(&self, shared: &'s Shared<S>, leaf: usize) -> Option<Leaf<'s, S>> {
        self.leaf_at(shared, leaf)
    }
}

/// A leaf, held: it stays in the index as long as the handle exists.
#[derive(Debug)]
pub(crate) struct Leaf<'s, S: RefScheme> {
    pub(crate) reference: FrameRef<'s, S>,
}

impl<'s, S: RefScheme> Leaf<'s, S> {
    /// Makes a handle of a reference, if it is to a leaf.
    pub(crate) fn from_reference(reference: FrameRef<'s, S>) -> Option<Self> {
        // The kind of a frame that is held does not change.
        let (kind, _) = reference.meta().kind();
        (kind == FrameKind::Leaf).then_some(Self { reference })
    }

    /// The slot at position `slot` of the leaf.
    pub(crate) fn slot(&self, slot: usize) -> &'s AtomicU64 {
        &crate::raw::leaf_words(self)[slot]
    }

    /// Where a page's slot is in its leaf.
    pub(crate) const fn slot_of(page: PageNr) -> usize {
        position(page).1
    }
}
