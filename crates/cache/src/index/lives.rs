//! How often the versions of slots have started over: what makes a word that was seen once differ from the same word later, however
//! much later that is.
//!
//! A slot's version has 31 bits ([`crate::base::slot`]). For a reader that looks at one page that is plenty. A token is kept for as long
//! as its owner likes, and the same word may come back in two ways: after 2^31 changes of the slot; and when the slot's leaf is taken
//! out of use and made again, since new leaves begin at a version of the whole cache (the floor), which may have got to any of the 2^31
//! by then. So a slot has a number beside its word, its *life*. A token has both, and is good only while both are as they were.
//!
//! ```text
//! who makes a token                            who changes the slot
//! 1 load the life                 (acquire)    a claim the slot, or freeze its leaf
//! 2 load the slot: not claimed,   (acquire)    b if versions start over: the next life   (release)
//!   and the page that was seen                 c end the claim, or take the leaf out     (release)
//!
//! who checks it
//! 3 load the slot: the same word? (acquire)
//! 4 load the life: the same?
//! ```
//!
//! - L1: a change of a slot by which its version starts over at zero goes on to the next life before the slot has that version.
//! - L2: so does taking a leaf out of use, before its slots are zeros.
//!
//! *Why no token is taken for unchanged when the page has changed.* Say the slot had the token's word at step 2 and at step 3, and another one in
//! between. Every change moves the version by one, within the life of a leaf. So to come back to the same word it has started over at
//! zero, or the leaf was taken out; either way a step b lies between the two words.
//!
//! - It is seen by step 4. It happens before step c, that before the next claim of the slot, and so on to whoever published the word that
//!   step 3 has loaded.
//! - It was not seen by step 1. If it had been, then step a, or the change of the slot before the leaf was frozen, would happen before step
//!   2, which would not find the earlier word there any more, or find it claimed.
//!
//! A number of 64 bits that only goes up is not the same before a step b as after it. So the lives differ, and the token is void.
//!
//! The argument is about what happens after step 2. That the bytes that the view has seen are those of the slot's word at step 2 is for the
//! view to show, by its own checks.
//!
//! Nobody needs to know which slots a number is for, as long as it stays the same for each slot. So there are a few numbers for the
//! whole cache, and a leaf has the one that its address says. If a leaf is taken out, the tokens of pages in other leaves
//! with the same number are void too: whoever has one starts over, as if the page had changed.
//!
//! Proved by `loom_token_vs_versions_that_start_over`, `loom_token_vs_leaf_remade`; by the mutants `token-*`.

use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::shard::Padded;

/// How many numbers there are. In a model one, since loom wants the same one in each run, whatever the addresses are.
const NR_LIVES: usize = if cfg!(loom) { 1 } else { 64 };

/// How many bytes of addresses the slots of a leaf take.
const LEAF_BYTES: usize = pagewell_frame::FRAME_WORDS * size_of::<AtomicU64>();

/// The lives of the leaves of a cache.
#[derive(Debug)]
pub(crate) struct Lives(Padded<[AtomicU64; NR_LIVES]>);

impl Default for Lives {
    fn default() -> Self {
        Self(Padded(std::array::from_fn(|_| AtomicU64::new(0))))
    }
}

impl Lives {
    /// The number for the leaf with the slot `word`.
    #[inline(always)]
    fn of(&self, word: &AtomicU64) -> &AtomicU64 {
        &self.0[std::ptr::from_ref(word).addr() / LEAF_BYTES % NR_LIVES]
    }

    /// The life of the slot `word`.
    #[inline(always)]
    pub(super) fn now(&self, word: &AtomicU64) -> u64 {
        // ORDERING: Acquire, for step 1; pairs with the release in `end`: who sees the new life sees the claim. For step 4 nothing
        // would be needed, as the load of the slot before it acquires.
        self.of(word).load(Ordering::Acquire)
    }

    /// Ends the life of the slot `word`, which the caller has claimed, or the leaf of which it has frozen.
    #[cold]
    #[inline(never)] // Once in 2^31 changes: a claim that ends is to have no more than the test for it.
    pub(super) fn end(&self, word: &AtomicU64) {
        // ORDERING: Release; see `now`.
        self.of(word).fetch_add(1, Ordering::Release);
    }
}
