//! Generations of slots: counters of the events after which a slot's word may repeat. A word and
//! its generation together do not repeat.
//!
//! A slot's version has 31 bits ([`crate::base::slot`]), enough for one read of a page. A token is
//! kept for an unbounded time, and the same word may repeat in two ways:
//! - after 2^31 changes of the slot;
//! - when the slot's leaf is removed and created again. New leaves begin at the minimum slot
//!   version of the cache, which may by then have any of the 2^31 values.
//!
//! A token has its slot's word and the slot's *generation*, and is valid while both are unchanged.
//!
//! ```text
//! thread that makes a token                    thread that changes the slot
//! 1 load the generation           (acquire)    a claim the slot, or freeze its leaf
//! 2 load the slot: not claimed,   (acquire)    b if versions start over: increment the
//!   and the page that was seen                   generation                      (release)
//!                                              c end the claim, or remove the leaf (release)
//!
//! thread that checks it
//! 3 load the slot: the same word? (acquire)
//! 4 load the generation: the same?
//! ```
//!
//! - L1: before the version of a slot starts over at zero, the generation is incremented.
//! - L2: the removal of a leaf increments the generation before the slots are zeros.
//!
//! *Why a token of a changed page is never found unchanged.* Suppose that the slot had the token's
//! word at steps 2 and 3, and another word in between. While the leaf stays in use, every change
//! increments the version, so the word can repeat only if the version has started over at zero, or
//! if the leaf was removed. In both cases there is a step b between the two words.
//!
//! - Step 4 sees this step b. Step b happens before step c, step c before the next claim of the
//!   slot, and so on to the thread that published the word that step 3 loads.
//! - Step 1 did not see it. Otherwise step a, or the change of the slot before the leaf was frozen,
//!   would happen before step 2. Step 2 would then find the slot claimed, or load a later word.
//!
//! The generation has 64 bits and only increases, so steps 1 and 4 load different values, and the
//! token is invalid. For changes before step 2, the view's own checks show that the bytes read
//! belong to the word of step 2.
//!
//! The slots of several leaves share a counter: a cache has [`NR_LIVES`] counters, selected by the
//! address of the leaf. So a step b also invalidates other pages' tokens that share the counter.
//!
//! Verified by `loom_token_vs_versions_that_start_over`, `loom_token_vs_leaf_remade`; by the
//! mutants `token-*`.

use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::scaled;
use pagewell_sync::shard::Padded;

/// Number of counters; one in models, since the selection by address differs between executions.
const NR_LIVES: usize = scaled(64, 1);

const LEAF_BYTES: usize = pagewell_frame::FRAME_WORDS * size_of::<AtomicU64>();

#[derive(Debug)]
pub(crate) struct Lives(Padded<[AtomicU64; NR_LIVES]>);

impl Default for Lives {
    fn default() -> Self {
        Self(Padded(std::array::from_fn(|_| AtomicU64::new(0))))
    }
}

impl Lives {
    #[inline(always)]
    fn of(&self, word: &AtomicU64) -> &AtomicU64 {
        &self.0[std::ptr::from_ref(word).addr() / LEAF_BYTES % NR_LIVES]
    }

    #[inline(always)]
    pub(super) fn now(&self, word: &AtomicU64) -> u64 {
        // ORDERING: Acquire; pairs with the release in `end`: a thread that sees the new generation
        // in step 1 sees the claim. For step 4, the load of the slot in step 3 acquires.
        self.of(word).load(Ordering::Acquire)
    }

    /// Ends the generation of the slot `word`. The caller has claimed the slot, or frozen its leaf.
    #[cold]
    #[inline(never)] // Rare: the end of a claim contains only the test.
    pub(super) fn end(&self, word: &AtomicU64) {
        // ORDERING: Release; see `now`.
        self.of(word).fetch_add(1, Ordering::Release);
    }
}
