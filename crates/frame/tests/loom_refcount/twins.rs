//! The twins: schemes that differ from a real one in one step, and that the models have to reject.
//!
//! Those of [`LockBit`] come first, then those of [`CasLoop`], whose names begin with `Zero`.

use pagewell_frame::refcount::{CasLoop, LockBit, Put, RefScheme, TryGet};
use pagewell_frame::refword::{LOCK, MAX_REFS};
use pagewell_sync::atomic::{AtomicU32, Ordering};

/// Methods that a twin has in common with the scheme that it is a twin of.
macro_rules! same_as {
    ($real:ty: $($method:ident)*) => {
        $(same_as!(@ $real, $method);)*
    };
    (@ $real:ty, is_locked) => {
        fn is_locked(word: &AtomicU32) -> bool {
            <$real>::is_locked(word)
        }
    };
    (@ $real:ty, count) => {
        fn count(word: &AtomicU32) -> u32 {
            <$real>::count(word)
        }
    };
    (@ $real:ty, try_add) => {
        fn try_add(word: &AtomicU32, n: u32) -> TryGet {
            <$real>::try_add(word, n)
        }
    };
    (@ $real:ty, get) => {
        fn get(word: &AtomicU32) {
            <$real>::get(word);
        }
    };
    (@ $real:ty, sub_and_test) => {
        fn sub_and_test(word: &AtomicU32, n: u32) -> Put {
            <$real>::sub_and_test(word, n)
        }
    };
    (@ $real:ty, freeze) => {
        fn freeze(word: &AtomicU32, expected: u32) -> bool {
            <$real>::freeze(word, expected)
        }
    };
    (@ $real:ty, store) => {
        fn store(word: &AtomicU32, n: u32) {
            <$real>::store(word, n);
        }
    };
}

/// A scheme that differs from a real one in the methods given.
macro_rules! twin {
    ($(#[$doc:meta])* $name:ident of $real:ty, same $same:tt, but $($method:item)*) => {
        twin!($(#[$doc])* $name of $real, locked <$real>::LOCKED, same $same, but $($method)*);
    };
    ($(#[$doc:meta])* $name:ident of $real:ty, locked $locked:expr, same [$($same:ident)*],
        but $($method:item)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub(crate) enum $name {}

        // SAFETY: none, on purpose: the models show that these break the duties, and nothing but the
        // models' own cells relies on them.
        unsafe impl RefScheme for $name {
            const NAME: &'static str = stringify!($name);
            const LOCKED: u32 = $locked;
            same_as!($real: $($same)*);
            $($method)*
        }
    };
}

// ORDERING, for all twins below: the orderings are those of the real step, and what is weakened is in
// the twin's comment. Twins with broken logic use AcqRel throughout, so that nothing else is at fault.
const ALL: Ordering = Ordering::AcqRel;

/// A store. As in the real schemes it is a swap here, since loom lets a plain store fall into the middle
/// of a read-modify-write, and would reject the twin for that.
fn store(word: &AtomicU32, value: u32) {
    word.swap(value, ALL);
}

/// The real reset: one CAS.
fn reset_once(word: &AtomicU32, seen: u32) {
    let _ = word.compare_exchange(seen, LOCK, ALL, Ordering::Acquire);
}

twin! {
    /// Puts the lock at zero without asking whether it is still zero.
    PutWithoutCas of LockBit, same [is_locked count try_add get freeze store], but
    fn sub_and_test(word: &AtomicU32, n: u32) -> Put {
        if word.fetch_sub(n, ALL) == n {
            store(word, LOCK);
            Put::Last
        } else {
            Put::Kept
        }
    }
}

twin! {
    /// Is last at zero and leaves the bare zero.
    PutLeavesZero of LockBit, same [is_locked count try_add get freeze store], but
    fn sub_and_test(word: &AtomicU32, n: u32) -> Put {
        if word.fetch_sub(n, ALL) == n { Put::Last } else { Put::Kept }
    }
}

twin! {
    /// Looks at the word again, instead of at what it subtracted from.
    PutLooksAgain of LockBit, same [is_locked count try_add get freeze store], but
    fn sub_and_test(word: &AtomicU32, n: u32) -> Put {
        word.fetch_sub(n, ALL);
        if word.load(Ordering::Acquire) == 0 {
            store(word, LOCK);
            Put::Last
        } else {
            Put::Kept
        }
    }
}

twin! {
    /// Locks the word at zero for certain, and thinks that it won in any case.
    PutIgnoresCas of LockBit, same [is_locked count try_add get freeze store], but
    fn sub_and_test(word: &AtomicU32, n: u32) -> Put {
        if word.fetch_sub(n, ALL) == n {
            let _ = word.compare_exchange(0, LOCK, ALL, Ordering::Acquire);
            Put::Last
        } else {
            Put::Kept
        }
    }
}

twin! {
    /// Subtracts by a load and a store.
    PutByStore of LockBit, same [is_locked count try_add get freeze store], but
    fn sub_and_test(word: &AtomicU32, n: u32) -> Put {
        let rest = word.load(Ordering::Acquire) - n;
        store(word, if rest == 0 { LOCK } else { rest });
        if rest == 0 { Put::Last } else { Put::Kept }
    }
}

twin! {
    /// Subtracts without looking whether there is anything.
    PutWithoutCheck of LockBit, same [is_locked count try_add get freeze store], but
    fn sub_and_test(word: &AtomicU32, n: u32) -> Put {
        if word.fetch_sub(n, ALL) == n
            && word.compare_exchange(0, LOCK, ALL, Ordering::Acquire).is_ok()
        {
            Put::Last
        } else {
            Put::Kept
        }
    }
}

twin! {
    /// Subtracts relaxed.
    PutRelaxed of LockBit, same [is_locked count try_add get freeze store], but
    fn sub_and_test(word: &AtomicU32, n: u32) -> Put {
        if word.fetch_sub(n, Ordering::Relaxed) == n
            && word.compare_exchange(0, LOCK, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            Put::Last
        } else {
            Put::Kept
        }
    }
}

twin! {
    /// Is last by a relaxed CAS, as the original.
    LastRelaxed of LockBit, same [is_locked count try_add get freeze store], but
    fn sub_and_test(word: &AtomicU32, n: u32) -> Put {
        if word.fetch_sub(n, Ordering::Release) == n
            && word.compare_exchange(0, LOCK, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            Put::Last
        } else {
            Put::Kept
        }
    }
}

twin! {
    /// Free pages are zero, though tries add without asking.
    FreeIsZero of LockBit, locked 0,
    same [is_locked count try_add get sub_and_test freeze store], but
}

/// What a try of the lock bit does, with another reset.
fn try_add_with(word: &AtomicU32, n: u32, reset: impl FnOnce(u32)) -> TryGet {
    let seen = word.fetch_add(n, Ordering::Acquire).wrapping_add(n);
    if seen < LOCK {
        return TryGet::Taken;
    }
    reset(seen);
    TryGet::Locked
}

twin! {
    /// A failed try stores the lock.
    ResetByStore of LockBit, same [is_locked count get sub_and_test freeze store], but
    fn try_add(word: &AtomicU32, n: u32) -> TryGet {
        try_add_with(word, n, |_| store(word, LOCK))
    }
}

twin! {
    /// A failed try takes back what it added.
    ResetBySubtraction of LockBit, same [is_locked count get sub_and_test freeze store], but
    fn try_add(word: &AtomicU32, n: u32) -> TryGet {
        try_add_with(word, n, |_| {
            word.fetch_sub(n, ALL);
        })
    }
}

twin! {
    /// A failed try looks whether the word is locked still, and then stores the lock.
    ResetByLookAndStore of LockBit, same [is_locked count get sub_and_test freeze store], but
    fn try_add(word: &AtomicU32, n: u32) -> TryGet {
        try_add_with(word, n, |_| {
            if word.load(Ordering::Acquire) >= LOCK {
                store(word, LOCK);
            }
        })
    }
}

twin! {
    /// A failed try leaves its junk.
    NoReset of LockBit, same [is_locked count get sub_and_test freeze store], but
    fn try_add(word: &AtomicU32, n: u32) -> TryGet {
        try_add_with(word, n, |_| ())
    }
}

twin! {
    /// A failed try attempts once to reset, however much junk there is.
    ResetOnceAtAnyHeight of LockBit, same [is_locked count get sub_and_test freeze store], but
    fn try_add(word: &AtomicU32, n: u32) -> TryGet {
        try_add_with(word, n, |seen| {
            reset_once(word, seen);
        })
    }
}

twin! {
    /// A try beyond the limit subtracts what it added, without looking.
    GiveBackBlindly of LockBit, same [is_locked count get sub_and_test freeze store], but
    fn try_add(word: &AtomicU32, n: u32) -> TryGet {
        let seen = word.fetch_add(n, Ordering::Acquire).wrapping_add(n);
        if seen >= LOCK {
            reset_once(word, seen);
            TryGet::Locked
        } else if seen > MAX_REFS {
            word.fetch_sub(n, ALL);
            TryGet::Saturated
        } else {
            TryGet::Taken
        }
    }
}

twin! {
    /// A try beyond the limit keeps what it added, and says that it has nothing.
    NoGiveBack of LockBit, same [is_locked count get sub_and_test freeze store], but
    fn try_add(word: &AtomicU32, n: u32) -> TryGet {
        let seen = word.fetch_add(n, Ordering::Acquire).wrapping_add(n);
        if seen >= LOCK {
            reset_once(word, seen);
            TryGet::Locked
        } else if seen > MAX_REFS {
            TryGet::Saturated
        } else {
            TryGet::Taken
        }
    }
}

twin! {
    /// A try adds relaxed.
    TryRelaxed of LockBit, same [is_locked count get sub_and_test freeze store], but
    fn try_add(word: &AtomicU32, n: u32) -> TryGet {
        if word.fetch_add(n, Ordering::Relaxed) < LOCK { TryGet::Taken } else { TryGet::Locked }
    }
}

twin! {
    /// Freezes by a load and a store.
    FreezeByStore of LockBit, same [is_locked count try_add get sub_and_test store], but
    fn freeze(word: &AtomicU32, expected: u32) -> bool {
        let frozen = word.load(Ordering::Acquire) == expected;
        if frozen {
            store(word, LOCK);
        }
        frozen
    }
}

twin! {
    /// Freezes first, looks then, and takes it back if it was wrong.
    FreezeFirst of LockBit, same [is_locked count try_add get sub_and_test store], but
    fn freeze(word: &AtomicU32, expected: u32) -> bool {
        let frozen = word.fetch_or(LOCK, ALL) == expected;
        if frozen {
            store(word, LOCK);
        } else {
            word.fetch_and(!LOCK, ALL);
        }
        frozen
    }
}

twin! {
    /// Freezes if there is at least what it expects.
    FreezeAtLeast of LockBit, same [is_locked count try_add get sub_and_test store], but
    fn freeze(word: &AtomicU32, expected: u32) -> bool {
        let seen = word.load(Ordering::Acquire);
        seen >= expected && word.compare_exchange(seen, LOCK, ALL, Ordering::Acquire).is_ok()
    }
}

twin! {
    /// Freezes without acquire.
    FreezeWithoutAcquire of LockBit, same [is_locked count try_add get sub_and_test store], but
    fn freeze(word: &AtomicU32, expected: u32) -> bool {
        word.compare_exchange(expected, LOCK, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}

twin! {
    /// Freezes without release.
    FreezeWithoutRelease of LockBit, same [is_locked count try_add get sub_and_test store], but
    fn freeze(word: &AtomicU32, expected: u32) -> bool {
        word.compare_exchange(expected, LOCK, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

twin! {
    /// Unfreezes by addition, so that the junk becomes references.
    UnfreezeByAddition of LockBit, same [is_locked count try_add get sub_and_test freeze], but
    fn store(word: &AtomicU32, n: u32) {
        word.fetch_sub(LOCK - n, ALL);
    }
}

twin! {
    /// Unfreezes and allocates relaxed.
    StoreRelaxed of LockBit, same [is_locked count try_add get sub_and_test freeze], but
    fn store(word: &AtomicU32, n: u32) {
        word.swap(n, Ordering::Relaxed);
    }
}

twin! {
    /// Adds even to zero.
    ZeroTryAnyway of CasLoop, same [is_locked count get sub_and_test freeze store], but
    fn try_add(word: &AtomicU32, n: u32) -> TryGet {
        word.fetch_add(n, ALL);
        TryGet::Taken
    }
}

twin! {
    /// Adds first, and takes it back if it was zero.
    ZeroTryFirst of CasLoop, same [is_locked count get sub_and_test freeze store], but
    fn try_add(word: &AtomicU32, n: u32) -> TryGet {
        if word.fetch_add(n, ALL) == 0 {
            word.fetch_sub(n, ALL);
            TryGet::Locked
        } else {
            TryGet::Taken
        }
    }
}

twin! {
    /// Looks whether it is zero, and then adds.
    ZeroTryLooksFirst of CasLoop, same [is_locked count get sub_and_test freeze store], but
    fn try_add(word: &AtomicU32, n: u32) -> TryGet {
        if word.load(Ordering::Acquire) == 0 {
            return TryGet::Locked;
        }
        word.fetch_add(n, ALL);
        TryGet::Taken
    }
}

twin! {
    /// Adds by a load and a store.
    ZeroTryByStore of CasLoop, same [is_locked count get sub_and_test freeze store], but
    fn try_add(word: &AtomicU32, n: u32) -> TryGet {
        let seen = word.load(Ordering::Acquire);
        if seen == 0 {
            return TryGet::Locked;
        }
        if seen > MAX_REFS - n {
            return TryGet::Saturated;
        }
        store(word, seen + n);
        TryGet::Taken
    }
}

twin! {
    /// Adds unless zero, and takes it back without looking if that was too much.
    ZeroGiveBackBlindly of CasLoop, same [is_locked count get sub_and_test freeze store], but
    fn try_add(word: &AtomicU32, n: u32) -> TryGet {
        let mut seen = word.load(Ordering::Acquire);
        while seen != 0 {
            match word.compare_exchange(seen, seen + n, ALL, Ordering::Acquire) {
                Ok(_) if seen > MAX_REFS - n => {
                    word.fetch_sub(n, ALL);
                    return TryGet::Saturated;
                }
                Ok(_) => return TryGet::Taken,
                Err(now) => seen = now,
            }
        }
        TryGet::Locked
    }
}

twin! {
    /// Adds unless zero, relaxed.
    ZeroTryRelaxed of CasLoop, same [is_locked count get sub_and_test freeze store], but
    fn try_add(word: &AtomicU32, n: u32) -> TryGet {
        let mut seen = word.load(Ordering::Relaxed);
        while seen != 0 {
            match word.compare_exchange(seen, seen + n, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return TryGet::Taken,
                Err(now) => seen = now,
            }
        }
        TryGet::Locked
    }
}

twin! {
    /// Looks at the word again, instead of at what it subtracted from.
    ZeroPutLooksAgain of CasLoop, same [is_locked count try_add get freeze store], but
    fn sub_and_test(word: &AtomicU32, n: u32) -> Put {
        word.fetch_sub(n, ALL);
        if word.load(Ordering::Acquire) == 0 { Put::Last } else { Put::Kept }
    }
}

twin! {
    /// Subtracts by a load and a store.
    ZeroPutByStore of CasLoop, same [is_locked count try_add get freeze store], but
    fn sub_and_test(word: &AtomicU32, n: u32) -> Put {
        let rest = word.load(Ordering::Acquire) - n;
        store(word, rest);
        if rest == 0 { Put::Last } else { Put::Kept }
    }
}

twin! {
    /// Subtracts without looking whether there is anything.
    ZeroPutWithoutCheck of CasLoop, same [is_locked count try_add get freeze store], but
    fn sub_and_test(word: &AtomicU32, n: u32) -> Put {
        if word.fetch_sub(n, ALL) == n { Put::Last } else { Put::Kept }
    }
}

twin! {
    /// Subtracts relaxed.
    ZeroPutRelaxed of CasLoop, same [is_locked count try_add get freeze store], but
    fn sub_and_test(word: &AtomicU32, n: u32) -> Put {
        if word.fetch_sub(n, Ordering::Relaxed) != n {
            return Put::Kept;
        }
        word.load(Ordering::Acquire);
        Put::Last
    }
}

twin! {
    /// Is last without acquire.
    ZeroLastRelaxed of CasLoop, same [is_locked count try_add get freeze store], but
    fn sub_and_test(word: &AtomicU32, n: u32) -> Put {
        if word.fetch_sub(n, Ordering::Release) == n { Put::Last } else { Put::Kept }
    }
}

twin! {
    /// Freezes by a load and a store.
    ZeroFreezeByStore of CasLoop, same [is_locked count try_add get sub_and_test store], but
    fn freeze(word: &AtomicU32, expected: u32) -> bool {
        let frozen = word.load(Ordering::Acquire) == expected;
        if frozen {
            store(word, 0);
        }
        frozen
    }
}

twin! {
    /// Freezes without acquire.
    ZeroFreezeWithoutAcquire of CasLoop, same [is_locked count try_add get sub_and_test store], but
    fn freeze(word: &AtomicU32, expected: u32) -> bool {
        word.compare_exchange(expected, 0, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}

twin! {
    /// Freezes without release.
    ZeroFreezeWithoutRelease of CasLoop, same [is_locked count try_add get sub_and_test store], but
    fn freeze(word: &AtomicU32, expected: u32) -> bool {
        word.compare_exchange(expected, 0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

twin! {
    /// Unfreezes and allocates relaxed.
    ZeroStoreRelaxed of CasLoop, same [is_locked count try_add get sub_and_test freeze], but
    fn store(word: &AtomicU32, n: u32) {
        word.swap(n, Ordering::Relaxed);
    }
}
