//! Models of the reference count's races, explored exhaustively by loom.
//!
//! One model a race, generic over the scheme. Each holds for both schemes (where both have the race),
//! and rejects *twins*: schemes that differ from a real one in one step. A model that accepted its
//! twins would prove nothing. The races are about one location, so most twins have broken logic; the
//! twins with weakened orderings are for the data behind the count.
//!
//! `cd models && cargo test --profile loom -p pagewell-frame --test loom_refcount`

#![cfg(loom)]

mod twins;

use std::panic::{AssertUnwindSafe, catch_unwind};
// What the models note about a run, and what shares it, is not part of the run: loom must not see it.
use std::sync::Arc;
use std::sync::atomic::{AtomicU32 as Note, Ordering::SeqCst};

use loom::cell::UnsafeCell;
use loom::thread;
use pagewell_frame::refcount::{AssumeOne, CasLoop, LockBit, RefCount, RefScheme};
use pagewell_frame::refword::{LOCK, MAX_REFS, RESET_THRESHOLD};
use pagewell_sync::atomic::{AtomicU32, Ordering, fence};

use twins::*;

/// A page, its data, and what is known about who has it.
struct Page<S: RefScheme> {
    count: RefCount<S>,
    /// Read by who holds a reference, written by who owns the page: loom checks the orderings.
    data: UnsafeCell<()>,
    holders: Note,
    owned: Note,
    freed: Note,
}

// SAFETY: nothing is ever read or written through `data`; loom watches the accesses that are declared.
unsafe impl<S: RefScheme> Sync for Page<S> {}

impl<S: RefScheme> Page<S> {
    fn new(count: RefCount<S>, holders: u32, owned: u32) -> Arc<Self> {
        Arc::new(Self {
            count,
            data: UnsafeCell::new(()),
            holders: Note::new(holders),
            owned: Note::new(owned),
            freed: Note::new(0),
        })
    }

    /// A live page on which `n` references are held.
    fn live(n: u32) -> Arc<Self> {
        Self::new(RefCount::new(n), n, 0)
    }

    /// A locked page, which the model owns.
    fn locked() -> Arc<Self> {
        Self::new(RefCount::new_locked(), 0, 1)
    }

    /// Tries to take a reference, and notes it.
    fn try_get(&self) -> bool {
        let taken = self.count.try_get().is_taken();
        if taken {
            assert_eq!(self.owned.load(SeqCst), 0, "taken from its owner");
            self.holders.fetch_add(1, SeqCst);
        }
        taken
    }

    /// What a holder of a reference does.
    fn use_it(&self) {
        assert_eq!(self.owned.load(SeqCst), 0, "used under its owner");
        self.data.with(|_| ());
    }

    /// Puts a reference, and frees the page if it was the last one.
    fn put(&self) {
        self.holders.fetch_sub(1, SeqCst);
        if self.count.put().is_last() {
            self.own();
            self.freed.fetch_add(1, SeqCst);
        }
    }

    /// What a passer-by does: takes a reference if it can, uses it, puts it.
    fn pass_by(&self) {
        if self.try_get() {
            self.use_it();
            self.put();
        }
    }

    /// Becomes the one owner.
    fn own(&self) {
        assert_eq!(self.owned.swap(1, SeqCst), 0, "owned twice");
        assert_eq!(self.holders.load(SeqCst), 0, "owned under a holder");
        self.data.with_mut(|_| ());
    }

    /// Freezes the page, of which the caller holds the one reference that it expects.
    fn freeze(&self) -> bool {
        let frozen = self.count.freeze(1);
        if frozen {
            self.holders.fetch_sub(1, SeqCst);
            self.own();
        }
        frozen
    }

    /// The owner changes the page and gives it one reference, its own.
    fn publish(&self, publish: impl FnOnce(&RefCount<S>)) {
        self.data.with_mut(|_| ());
        publish(&self.count);
        self.owned.store(0, SeqCst);
        self.holders.fetch_add(1, SeqCst);
    }

    /// Checks, with nobody in an operation any more, that every reference is counted.
    fn check_count(&self) {
        assert_eq!(
            self.count.raw(),
            self.holders.load(SeqCst),
            "references lost or made up"
        );
    }

    /// Checks, with nobody in an operation any more, that the page was freed `times`, and is locked
    /// without junk.
    fn check_freed(&self, times: u32) {
        assert_eq!(self.freed.load(SeqCst), times, "freed too often or leaked");
        assert_eq!(self.count.raw(), S::LOCKED, "not the bare lock");
    }
}

/// Runs each of `others` in a thread of its own, and `own` in the model's.
fn run<S: RefScheme>(page: &Arc<Page<S>>, others: &[fn(&Page<S>)], own: impl FnOnce(&Page<S>)) {
    let threads: Vec<_> = others
        .iter()
        .map(|&other| {
            let page = Arc::clone(page);
            thread::spawn(move || other(&page))
        })
        .collect();
    own(page);
    for thread in threads {
        thread.join().unwrap();
    }
}

// ---- The models ----

/// A put of the only reference against a try.
fn increment_vs_free<S: RefScheme>() {
    let page = Page::<S>::live(1);
    run(&page, &[Page::pass_by], Page::put);
    page.check_freed(1);
}

/// Two puts of the only two references.
fn free_vs_free<S: RefScheme>() {
    let page = Page::<S>::live(2);
    run(&page, &[Page::put], Page::put);
    page.check_freed(1);
}

/// A freeze against two tries: either it wins, or they do, both of them.
fn increment_vs_freeze<S: RefScheme>() {
    let page = Page::<S>::live(1);
    let taken = Arc::new(Note::new(0));
    let tries = [(); 2].map(|()| {
        let (page, taken) = (Arc::clone(&page), Arc::clone(&taken));
        thread::spawn(move || taken.fetch_add(u32::from(page.try_get()), SeqCst))
    });
    let frozen = page.freeze();
    for try_get in tries {
        try_get.join().unwrap();
    }
    let taken = taken.load(SeqCst);
    if frozen {
        assert_eq!(taken, 0, "both won");
        assert_eq!(page.count.raw(), S::LOCKED, "not the bare lock");
    } else {
        assert_eq!(taken, 2, "both failed");
        page.check_count();
    }
}

/// The end of a freeze against two tries: each is counted if it was taken, and leaves nothing if not.
fn increment_vs_unfreeze<S: RefScheme>() {
    let page = Page::<S>::locked();
    let try_get = |page: &Page<S>| {
        page.try_get();
    };
    run(&page, &[try_get, try_get], |page| {
        page.publish(|count| count.unfreeze(1));
    });
    page.check_count();
}

/// Two putters and a getter between them: exactly one of the three frees.
fn two_puts_vs_increment<S: RefScheme>() {
    let page = Page::<S>::live(2);
    run(&page, &[Page::put, Page::pass_by], Page::put);
    page.check_freed(1);
}

/// Two late tries on a free page: both fail, and nothing of them stays.
fn reset_vs_reset<S: RefScheme>() {
    let page = Page::<S>::locked();
    run(&page, &[Page::pass_by], Page::pass_by);
    page.check_freed(0);
}

/// Late tries on a page that is being allocated: they hold stray references for a moment, and the last
/// put frees, whoever's it is.
fn reset_vs_allocation<S: RefScheme>() {
    let page = Page::<S>::locked();
    run(&page, &[Page::pass_by, Page::pass_by], |page| {
        page.publish(|count| count.set(1));
        page.use_it();
        page.put();
    });
    page.check_freed(1);
}

/// A freeze of a page that was just allocated fails spuriously if there is a stray reference; it is
/// tried twice, and then the page is put instead.
fn stray_reference_vs_freeze<S: RefScheme>() {
    let page = Page::<S>::locked();
    run(&page, &[Page::pass_by], |page| {
        page.publish(|count| count.set(1));
        if page.freeze() || page.freeze() {
            page.publish(|count| count.unfreeze(1));
        }
        page.put();
    });
    page.check_freed(1);
}

/// The free in one step against a try.
fn free_if_unique_vs_increment<S: RefScheme>() {
    let page = Page::<S>::live(1);
    run(&page, &[Page::pass_by], |page| {
        if page.count.free_if_unique() {
            page.holders.fetch_sub(1, SeqCst);
            page.own();
            page.freed.fetch_add(1, SeqCst);
        } else {
            page.put();
        }
    });
    page.check_freed(1);
}

/// A put that has made the count zero and is then delayed, while the page is revived, freed, allocated
/// again and put. The delayed put may lock the page in the later one's place: every allocation is freed
/// once, by somebody.
fn delayed_put_vs_reallocation<S: RefScheme>() {
    let page = Page::<S>::live(1);
    let reallocated = Arc::new(Note::new(0));
    let getter = {
        let (page, reallocated) = (Arc::clone(&page), Arc::clone(&reallocated));
        thread::spawn(move || {
            if !page.try_get() {
                return;
            }
            page.holders.fetch_sub(1, SeqCst);
            if page.count.put().is_last() {
                page.own();
                page.freed.fetch_add(1, SeqCst);
                page.publish(|count| count.set(1));
                reallocated.store(1, SeqCst);
                page.use_it();
                page.put();
            }
        })
    };
    page.put();
    getter.join().unwrap();
    page.check_freed(1 + reallocated.load(SeqCst));
}

/// Two users and the free after them: what users did happens before it (E1).
fn users_then_free<S: RefScheme>() {
    let page = Page::<S>::live(2);
    let user = |page: &Page<S>| {
        page.use_it();
        page.put();
    };
    run(&page, &[user], user);
    page.check_freed(1);
}

/// A user and a freeze that may succeed after it: what the user did happens before it (E1).
fn user_then_freeze<S: RefScheme>() {
    let page = Page::<S>::live(2);
    let user = |page: &Page<S>| {
        page.use_it();
        page.put();
    };
    run(&page, &[user], |page| {
        if page.freeze() {
            page.publish(|count| count.unfreeze(1));
        }
        page.put();
    });
    page.check_freed(1);
}

/// A user, and another thread with a reference, which writes the page in place if it has the only
/// one: the user's accesses happen before the write (E1). No thread takes a reference during the run.
fn user_then_write<S: RefScheme>() {
    user_then_write_if::<S>(RefCount::has_one_reference);
}

fn user_then_write_if<S: RefScheme>(has_one_reference: fn(&RefCount<S>) -> bool) {
    let page = Page::<S>::live(2);
    let user = |page: &Page<S>| {
        page.use_it();
        page.put();
    };
    run(&page, &[user], |page| {
        if has_one_reference(&page.count) {
            page.data.with_mut(|_| ());
        }
        page.put();
    });
    page.check_freed(1);
}

/// The end of a freeze and a user after it, who sees the page as it was left (E2).
fn unfreeze_then_user<S: RefScheme>() {
    let page = Page::<S>::locked();
    run(&page, &[Page::pass_by], |page| {
        page.publish(|count| count.unfreeze(1));
    });
}

/// An allocation and a user after it, who sees the page as it was made (E2).
fn allocation_then_user<S: RefScheme>() {
    let page = Page::<S>::locked();
    run(&page, &[Page::pass_by], |page| {
        page.publish(|count| count.set(1));
    });
}

/// A lookup whose try failed because of a freeze sees what the freezer had changed before (E3).
fn failed_try_vs_freeze<S: RefScheme>() {
    let page = Page::<S>::live(1);
    let slot = Arc::new(AtomicU32::new(1));
    let lookup = {
        let (page, slot) = (Arc::clone(&page), Arc::clone(&slot));
        thread::spawn(move || {
            if !page.try_get() {
                // ORDERING: Relaxed; what is modelled is that the failed try has ordered it.
                assert_eq!(slot.load(Ordering::Relaxed), 0, "the stale slot again");
            }
        })
    };
    // ORDERING: Relaxed; what is modelled is that the freeze publishes it.
    slot.store(0, Ordering::Relaxed);
    page.freeze();
    lookup.join().unwrap();
}

/// A mark set before the count is read, against a reference taken before the mark is read: with a
/// fence on both sides, at least one of the two sees the other.
fn pin_vs_mark_with_fences<S: RefScheme>() {
    pin_vs_mark::<S>(true);
}

fn pin_vs_mark<S: RefScheme>(fences: bool) {
    let page = Page::<S>::live(1);
    let mark = Arc::new(AtomicU32::new(0));
    let saw_mark = Arc::new(Note::new(0));
    let pin = {
        let (page, mark, saw_mark) = (Arc::clone(&page), Arc::clone(&mark), Arc::clone(&saw_mark));
        thread::spawn(move || {
            assert!(page.try_get());
            if fences {
                // ORDERING: SeqCst, partner is the fence of the marker; see the model's comment.
                fence(Ordering::SeqCst);
            }
            // ORDERING: Relaxed; the fences decide.
            saw_mark.store(mark.load(Ordering::Relaxed), SeqCst);
        })
    };
    // ORDERING: Relaxed; the fences decide.
    mark.store(1, Ordering::Relaxed);
    if fences {
        // ORDERING: SeqCst, partner is the fence of the pin; see the model's comment.
        fence(Ordering::SeqCst);
    }
    let saw_pin = page.count.count() == 2;
    pin.join().unwrap();
    assert!(
        saw_pin || saw_mark.load(SeqCst) == 1,
        "neither saw the other"
    );
}

/// Tries on a locked word that is full of junk: none returns while it is above the threshold by more
/// than what the others, still on their way, have added, and the lock bit never moves.
fn reset_at_the_threshold<S: RefScheme>() {
    let page = Page::<S>::new(RefCount::from_raw(LOCK + RESET_THRESHOLD), 0, 1);
    let under_way = Arc::new(Note::new(0));
    let try_get = {
        let (page, under_way) = (Arc::clone(&page), Arc::clone(&under_way));
        move || {
            under_way.fetch_add(1, SeqCst);
            assert!(!page.try_get(), "the lock bit moved");
            under_way.fetch_sub(1, SeqCst);
            let junk = latest(&page.count) - LOCK;
            assert!(
                junk <= RESET_THRESHOLD + under_way.load(SeqCst),
                "left above the threshold"
            );
        }
    };
    let other = thread::spawn(try_get.clone());
    try_get();
    other.join().unwrap();
    page.check_freed(0);
}

/// The latest value of a count's word, where a relaxed load may be old.
fn latest<S: RefScheme>(count: &RefCount<S>) -> u32 {
    // SAFETY: the count is a transparent wrapper of its word.
    let word = unsafe { &*std::ptr::from_ref(count).cast::<AtomicU32>() };
    // ORDERING: Relaxed; a read-modify-write reads the latest value under any ordering.
    word.fetch_add(0, Ordering::Relaxed)
}

/// The reset of a word full of junk against the end of a freeze: no reference is lost.
fn reset_at_the_threshold_vs_unfreeze<S: RefScheme>() {
    let page = Page::<S>::new(RefCount::from_raw(LOCK + RESET_THRESHOLD), 0, 1);
    let try_get = |page: &Page<S>| {
        page.try_get();
    };
    run(&page, &[try_get, try_get], |page| {
        page.publish(|count| count.unfreeze(1));
    });
    page.check_count();
}

/// A try on a page with all the references that it may have, while they are all put: giving back must
/// not drop the count to zero without anybody noticing.
fn saturated_try_vs_last_put<S: RefScheme>() {
    let page = Page::<S>::new(RefCount::new(MAX_REFS), 1, 0);
    run(&page, &[Page::pass_by], |page| {
        page.holders.fetch_sub(1, SeqCst);
        if page.count.sub_and_test(MAX_REFS).is_last() {
            page.own();
            page.freed.fetch_add(1, SeqCst);
        }
    });
    page.check_freed(1);
}

/// Two tries at the limit, with room for one: nobody's references get lost.
fn two_tries_at_the_limit<S: RefScheme>() {
    let page = Page::<S>::new(RefCount::new(MAX_REFS - 1), MAX_REFS - 1, 0);
    let try_get = |page: &Page<S>| {
        page.try_get();
    };
    run(&page, &[try_get], try_get);
    page.check_count();
    assert!(page.count.raw() <= MAX_REFS, "above the limit");
}

/// A put of a reference that nobody holds, on a free page, against a late try: the put panics, the try
/// fails, the page stays locked.
fn misused_put_vs_try<S: RefScheme>() {
    let page = Page::<S>::locked();
    run(&page, &[Page::pass_by], |page| {
        let put = catch_unwind(AssertUnwindSafe(|| page.count.put()));
        assert!(put.is_err(), "the misuse was not noticed");
    });
    page.check_freed(0);
}

/// A user that touches the page after its put, though it was not told to free it.
fn user_after_kept<S: RefScheme>() {
    let page = Page::<S>::live(2);
    run(&page, &[Page::put], |page| {
        page.put();
        page.data.with(|_| ());
    });
}

// ---- Who passes which ----

/// Explores `model`, which has to fail, and to say why in the words of `complaint`.
fn rejects(model: fn(), complaint: &str) {
    let Err(payload) = catch_unwind(|| loom::model(model)) else {
        panic!("the model accepts a broken twin");
    };
    let said = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("");
    assert!(said.contains(complaint), "rejected, but for: {said}");
}

/// The tests of one race: the schemes for which the model holds, and the twins that it rejects.
macro_rules! race {
    ($model:ident holds for $($scheme:ident)*; rejects $($twin:ident: $complaint:expr),* $(,)?) => {
        mod $model {
            use super::*;

            $(
                #[test]
                #[allow(non_snake_case)]
                fn $scheme() {
                    loom::model($model::<super::$scheme>);
                }
            )*
            $(
                #[test]
                #[allow(non_snake_case)]
                fn $twin() {
                    rejects($model::<super::$twin>, $complaint);
                }
            )*
        }
    };
}

/// loom's complaint about accesses of the data that nothing orders.
const UNORDERED: &str = "Causality violation";

race!(increment_vs_free holds for LockBit CasLoop AssumeOne; rejects
    PutWithoutCas: "owned twice",
    PutIgnoresCas: "owned twice",
    PutLeavesZero: "taken from its owner",
    ZeroTryAnyway: "taken from its owner",
    ZeroTryLooksFirst: "taken from its owner",
    ZeroTryByStore: "taken from its owner",
);
race!(free_vs_free holds for LockBit CasLoop; rejects
    PutLooksAgain: "owned twice",
    PutByStore: "leaked",
    PutLeavesZero: "not the bare lock",
    ZeroPutLooksAgain: "owned twice",
    ZeroPutByStore: "leaked",
);
race!(increment_vs_freeze holds for LockBit CasLoop AssumeOne; rejects
    FreezeByStore: "owned under a holder",
    FreezeFirst: "both failed",
    FreezeAtLeast: "owned under a holder",
    ZeroFreezeByStore: "owned under a holder",
    ZeroTryByStore: "taken from its owner",
);
race!(increment_vs_unfreeze holds for LockBit CasLoop AssumeOne; rejects
    UnfreezeByAddition: "references lost or made up",
    ResetByStore: "references lost or made up",
    ResetBySubtraction: "references lost or made up",
    ResetByLookAndStore: "references lost or made up",
    ZeroTryFirst: "references lost or made up",
    ZeroTryByStore: "references lost or made up",
);
race!(two_puts_vs_increment holds for LockBit CasLoop AssumeOne; rejects
    PutWithoutCas: "owned twice",
    PutIgnoresCas: "owned twice",
    PutLooksAgain: "owned twice",
    ZeroPutLooksAgain: "owned twice",
    ZeroTryLooksFirst: "taken from its owner",
);
race!(reset_vs_reset holds for LockBit CasLoop; rejects
    NoReset: "not the bare lock",
    FreeIsZero: "taken from its owner",
    ZeroTryAnyway: "taken from its owner",
    ZeroTryFirst: "taken from its owner",
);
race!(reset_vs_allocation holds for LockBit CasLoop AssumeOne; rejects
    ResetByStore: "leaked",
    ResetBySubtraction: "not the bare lock",
    ResetByLookAndStore: "leaked",
    ZeroTryFirst: "taken from its owner",
    ZeroTryByStore: "taken from its owner",
);
race!(stray_reference_vs_freeze holds for LockBit CasLoop; rejects
    FreezeByStore: UNORDERED,
    FreezeFirst: "the page has fewer",
    FreezeAtLeast: UNORDERED,
    ResetByStore: "leaked",
    ZeroFreezeByStore: UNORDERED,
);
race!(free_if_unique_vs_increment holds for LockBit CasLoop; rejects
    FreezeByStore: UNORDERED,
    FreezeFirst: "the page has fewer",
    FreezeAtLeast: UNORDERED,
    ZeroFreezeByStore: UNORDERED,
);
race!(delayed_put_vs_reallocation holds for LockBit CasLoop; rejects
    PutWithoutCas: "owned twice",
    PutIgnoresCas: "owned twice",
    PutLeavesZero: "taken from its owner",
    ZeroTryLooksFirst: "taken from its owner",
);
race!(users_then_free holds for LockBit CasLoop; rejects
    PutRelaxed: UNORDERED,
    LastRelaxed: UNORDERED,
    ZeroPutRelaxed: UNORDERED,
    ZeroLastRelaxed: UNORDERED,
);
race!(user_then_freeze holds for LockBit CasLoop; rejects
    PutRelaxed: UNORDERED,
    FreezeWithoutAcquire: UNORDERED,
    ZeroPutRelaxed: UNORDERED,
    ZeroFreezeWithoutAcquire: UNORDERED,
);
race!(user_then_write holds for LockBit CasLoop; rejects
    PutRelaxed: UNORDERED,
    ZeroPutRelaxed: UNORDERED,
);
race!(unfreeze_then_user holds for LockBit CasLoop AssumeOne; rejects
    StoreRelaxed: UNORDERED,
    TryRelaxed: UNORDERED,
    ZeroStoreRelaxed: UNORDERED,
    ZeroTryRelaxed: UNORDERED,
);
race!(allocation_then_user holds for LockBit CasLoop AssumeOne; rejects
    StoreRelaxed: UNORDERED,
    TryRelaxed: UNORDERED,
    ZeroStoreRelaxed: UNORDERED,
    ZeroTryRelaxed: UNORDERED,
);
race!(failed_try_vs_freeze holds for LockBit CasLoop AssumeOne; rejects
    FreezeWithoutRelease: "the stale slot again",
    TryRelaxed: "the stale slot again",
    ZeroFreezeWithoutRelease: "the stale slot again",
    ZeroTryRelaxed: "the stale slot again",
);
race!(reset_at_the_threshold holds for LockBit; rejects
    ResetOnceAtAnyHeight: "left above the threshold",
    NoReset: "left above the threshold",
);
race!(reset_at_the_threshold_vs_unfreeze holds for LockBit; rejects
    ResetByStore: "references lost or made up",
    ResetByLookAndStore: "references lost or made up",
);
race!(saturated_try_vs_last_put holds for LockBit CasLoop AssumeOne; rejects
    GiveBackBlindly: "leaked",
    ZeroGiveBackBlindly: "leaked",
);
race!(two_tries_at_the_limit holds for LockBit CasLoop AssumeOne; rejects
    NoGiveBack: "references lost or made up",
    ZeroTryByStore: "references lost or made up",
);
race!(misused_put_vs_try holds for LockBit CasLoop AssumeOne; rejects
    PutWithoutCheck: "the misuse was not noticed",
    ZeroPutWithoutCheck: "the misuse was not noticed",
);
race!(pin_vs_mark_with_fences holds for LockBit CasLoop; rejects);

#[test]
fn user_then_write_needs_the_acquire() {
    rejects(
        || user_then_write_if::<LockBit>(|count| count.count() == 1),
        UNORDERED,
    );
    rejects(
        || user_then_write_if::<CasLoop>(|count| count.count() == 1),
        UNORDERED,
    );
}

#[test]
fn pin_vs_mark_needs_the_fences() {
    rejects(|| pin_vs_mark::<LockBit>(false), "neither saw the other");
    rejects(|| pin_vs_mark::<CasLoop>(false), "neither saw the other");
}

#[test]
fn a_user_that_goes_on_after_kept_is_caught() {
    rejects(user_after_kept::<LockBit>, UNORDERED);
    rejects(user_after_kept::<CasLoop>, UNORDERED);
}
