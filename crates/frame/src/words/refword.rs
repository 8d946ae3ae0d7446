//! The reference word: bit layout and every legal transition, without memory or threads.
//!
//! A 32-bit word counts a page's references, in one of two schemes. The methods of a scheme's word
//! type return the action for a loaded word; [`refcount`](crate::refcount) performs it.
//!
//! | word | [`LockBitWord`] | [`CasLoopWord`] |
//! |---|---|---|
//! | `0` | transient: a put locks it, or a `try_get` revives it | locked: free or frozen |
//! | `1..=MAX_REFS` | live, with this number of references | the same |
//! | above, below `LOCK` | live; `try_get`s that exceeded the limit are subtracting | never |
//! | `LOCK` | locked: free or frozen | never |
//! | `LOCK + junk` | locked; `junk` was added by failed `try_get`s | never |
//!
//! Invariants.
//! - I1. Concurrent `try_get`s and gets never change the lock bit: by the assertions below the
//!   count part stays below [`LOCK`]. The excess over a limit ([`RESET_THRESHOLD`] if locked,
//!   [`MAX_REFS`] if live) was added by threads that have not returned yet: a thread returns only
//!   after it has seen the word at or below the limit, reset it, or subtracted its own addition. A
//!   thread adds at most [`MAX_TRY`], and there are at most [`MAX_THREADS`].
//! - I2. `junk` has no meaning: it may be dropped (reset), kept, or overwritten (unfreeze, set).
//!
//! The limit at half the range of the count follows `Arc`. Verified by the tests of this module,
//! which cover the words around every boundary, and by those of [`refcount`](crate::refcount).

/// Lock bit: the page is free or frozen, and the rest of the word has no meaning.
pub const LOCK: u32 = 1 << 31;

/// Maximum number of references to a page. A further `try_get` fails; a further `get` aborts.
pub const MAX_REFS: u32 = 1 << 30;

/// Maximum junk of a locked word. Above it, a failed `try_get` must loop until the word is reset.
pub const RESET_THRESHOLD: u32 = 1 << 30;

/// Maximum number of threads that use one word: Linux's `PID_MAX_LIMIT`, for the whole system.
pub const MAX_THREADS: u32 = 1 << 22;

/// Maximum number of references that one `try_get` requests.
pub const MAX_TRY: u32 = u8::MAX as u32;

/// Maximum excess over a limit that all threads together can add.
const OVERSHOOT: u64 = MAX_THREADS as u64 * MAX_TRY as u64;

// I1: neither the junk of a locked word nor the count of a live one can carry into the lock bit.
const _: () = assert!(RESET_THRESHOLD as u64 + OVERSHOOT < LOCK as u64);
const _: () = assert!(MAX_REFS as u64 + OVERSHOOT < LOCK as u64);

/// Result of adding references to a [`LockBitWord`].
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// The caller holds its references.
    Taken,
    /// The page is locked. The caller attempts once to replace `seen` with [`LOCK`].
    Locked {
        /// The word after the addition.
        seen: u32,
    },
    /// Locked, with too much junk. The caller must reset the word, or see that another thread has.
    LockedHigh {
        /// The word after the addition.
        seen: u32,
    },
    /// Too many references. The caller subtracts its own, unless the count is low enough by then.
    Over {
        /// The word after the addition.
        seen: u32,
    },
}

/// Decision of a `try_get` that exceeded [`MAX_REFS`], for the current [`LockBitWord`].
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GiveBack {
    /// Keep the references: other threads have put theirs, and the count is within the limit again.
    Keep,
    /// Replace the word with this one, from which the caller's references are subtracted.
    Replace(u32),
    /// Fail: the page is locked, because another thread has put references that it did not hold.
    Locked,
}

/// Result of subtracting references.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subtracted {
    /// Other references remain. The caller must not access the page again.
    Kept,
    /// The count is zero. A [`LockBitWord`] must still be locked, a [`CasLoopWord`] is.
    Zero,
    /// The page had fewer references. The caller repairs the word and panics.
    Misuse,
}

/// Result of adding one reference to a held one.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Got {
    /// The caller holds the reference.
    Counted,
    /// The page has too many references. The caller aborts the process.
    Overflow,
    /// The caller held no reference. The caller repairs the word and panics.
    Misuse,
}

/// Decision of a `try_get` for the current [`CasLoopWord`].
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddUnlessZero {
    /// Replace the word with this one, to which the caller's references are added.
    Replace(u32),
    /// Fail: the page is locked.
    Locked,
    /// Fail: the page has too many references.
    Saturated,
}

/// Returns the result of a put, in both schemes: as a signed number, a locked [`LockBitWord`] is
/// negative, and a locked [`CasLoopWord`] is smaller than any `n`.
#[inline]
const fn after_sub(prev: u32, n: u32) -> Subtracted {
    if prev.cast_signed() > n.cast_signed() {
        Subtracted::Kept
    } else if prev == n {
        Subtracted::Zero
    } else {
        Subtracted::Misuse
    }
}

/// Returns the result of a get, in both schemes. At zero no reference exists.
#[inline]
const fn after_get(prev: u32) -> Got {
    if prev.wrapping_sub(1) < MAX_REFS - 1 {
        Got::Counted
    } else if prev == 0 || prev & LOCK != 0 {
        Got::Misuse
    } else {
        Got::Overflow
    }
}

/// Reference word whose lock is bit 31.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockBitWord(pub u32);

impl LockBitWord {
    /// Locked, without junk.
    pub const LOCKED: Self = Self(LOCK);

    /// Returns `true` if the page is free or frozen.
    #[inline]
    pub const fn is_locked(self) -> bool {
        self.0 & LOCK != 0
    }

    /// Returns the number of references, or 0 if the page is locked, whatever the junk.
    #[inline]
    pub const fn count(self) -> u32 {
        if self.is_locked() { 0 } else { self.0 }
    }

    /// Returns `true` if the word is locked and has more junk than [`RESET_THRESHOLD`].
    #[inline]
    pub const fn is_locked_high(self) -> bool {
        self.0 > LOCK + RESET_THRESHOLD
    }

    /// Returns `true` if adding `n` acquires `n` references. Locked words are larger than others.
    #[inline]
    pub const fn admits(self, n: u32) -> bool {
        self.0 <= MAX_REFS - n
    }

    /// Returns the result of a `try_get` that added `n` to this word.
    #[inline]
    pub const fn after_add(self, n: u32) -> Added {
        let seen = self.0.wrapping_add(n);
        if self.admits(n) {
            Added::Taken
        } else if !self.is_locked() {
            Added::Over { seen }
        } else if (self.0 & !LOCK) + n > RESET_THRESHOLD {
            // `seen` may have wrapped, after a put without a reference.
            Added::LockedHigh { seen }
        } else {
            Added::Locked { seen }
        }
    }

    /// Returns the decision of a `try_get` whose `n` references exceeded the limit, for this word.
    #[inline]
    pub const fn give_back(self, n: u32) -> GiveBack {
        if self.is_locked() {
            GiveBack::Locked
        } else if self.0 <= MAX_REFS {
            GiveBack::Keep
        } else {
            // At least `MAX_REFS - MAX_TRY + 1` references remain, so the count is never zero.
            GiveBack::Replace(self.0 - n)
        }
    }

    /// Returns the result of a put that subtracted `n` from this word.
    #[inline]
    pub const fn after_sub(self, n: u32) -> Subtracted {
        after_sub(self.0, n)
    }

    /// Returns the result of a get that added one to this word.
    #[inline]
    pub const fn after_get(self) -> Got {
        after_get(self.0)
    }

    /// Returns `true` if correct operations can produce this word. A repair then keeps it.
    #[inline]
    pub const fn is_sane(self) -> bool {
        if self.is_locked() {
            !self.is_locked_high()
        } else {
            self.0 != 0 && self.0 <= MAX_REFS
        }
    }

    /// Returns the word that the repair after an excess put stores. `self` is the word before that
    /// put. If it has references, they remain. Otherwise the result is the bare lock, and a page
    /// whose word was zero is leaked. (A `try_get` can acquire a page whose word is zero, and the
    /// put that produced the zero may have given up since.)
    #[inline]
    pub const fn repaired(self) -> Self {
        if self.is_locked() || self.0 == 0 {
            Self::LOCKED
        } else {
            self
        }
    }
}

/// Reference word that is locked when its count is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CasLoopWord(pub u32);

impl CasLoopWord {
    /// Word of a locked page.
    pub const LOCKED: Self = Self(0);

    /// Returns `true` if the page is free or frozen.
    #[inline]
    pub const fn is_locked(self) -> bool {
        self.0 == 0
    }

    /// Returns the number of references.
    #[inline]
    pub const fn count(self) -> u32 {
        self.0
    }

    /// Returns the decision of a `try_get` for `n` references, for this word.
    #[inline]
    pub const fn add_unless_zero(self, n: u32) -> AddUnlessZero {
        if self.0 == 0 {
            AddUnlessZero::Locked
        } else if self.0 > MAX_REFS - n {
            AddUnlessZero::Saturated
        } else {
            AddUnlessZero::Replace(self.0 + n)
        }
    }

    /// Returns the result of a put that subtracted `n` from this word.
    #[inline]
    pub const fn after_sub(self, n: u32) -> Subtracted {
        after_sub(self.0, n)
    }

    /// Returns the result of a get that added one to this word.
    #[inline]
    pub const fn after_get(self) -> Got {
        after_get(self.0)
    }

    /// Returns `true` if correct operations can produce this word. A repair then keeps it.
    #[inline]
    pub const fn is_sane(self) -> bool {
        self.0 <= MAX_REFS
    }

    /// Returns the word that the repair after an excess put stores: the word before that put.
    #[inline]
    pub const fn repaired(self) -> Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> impl Iterator<Item = u32> {
        let reach = 600_i64;
        [
            0,
            i64::from(MAX_REFS),
            i64::from(LOCK),
            i64::from(LOCK + RESET_THRESHOLD),
            i64::from(u32::MAX),
        ]
        .into_iter()
        .flat_map(move |edge| edge - reach..=edge + reach)
        .filter_map(|word| u32::try_from(word).ok())
    }

    #[test]
    fn every_word_has_one_meaning() {
        for word in words() {
            let lock_bit = LockBitWord(word);
            assert_eq!(lock_bit.is_locked(), word >= LOCK);
            assert_eq!(lock_bit.count(), if word >= LOCK { 0 } else { word });
            if lock_bit.is_locked_high() {
                assert!(lock_bit.is_locked());
                assert!(word - LOCK > RESET_THRESHOLD);
            } else if lock_bit.is_locked() {
                assert!(word - LOCK <= RESET_THRESHOLD);
            }
            assert_eq!(CasLoopWord(word).is_locked(), word == 0);
            assert_eq!(CasLoopWord(word).count(), word);
        }
    }

    #[test]
    fn a_try_is_admitted_exactly_when_unlocked_and_within_the_limit() {
        for word in words() {
            for n in 1..=MAX_TRY {
                let prev = LockBitWord(word);
                let seen = word.wrapping_add(n);
                let expected = if word >= LOCK {
                    if u64::from(word - LOCK) + u64::from(n) > u64::from(RESET_THRESHOLD) {
                        Added::LockedHigh { seen }
                    } else {
                        Added::Locked { seen }
                    }
                } else if u64::from(word) + u64::from(n) > u64::from(MAX_REFS) {
                    Added::Over { seen }
                } else {
                    Added::Taken
                };
                assert_eq!(prev.after_add(n), expected, "{word:#x} + {n}");
                assert_eq!(prev.admits(n), expected == Added::Taken);

                let expected = if word == 0 {
                    AddUnlessZero::Locked
                } else if u64::from(word) + u64::from(n) > u64::from(MAX_REFS) {
                    AddUnlessZero::Saturated
                } else {
                    AddUnlessZero::Replace(seen)
                };
                assert_eq!(CasLoopWord(word).add_unless_zero(n), expected);
            }
        }
    }

    #[test]
    fn a_try_never_moves_the_lock_bit_of_a_word_within_its_bound() {
        let bound = u32::try_from(OVERSHOOT).unwrap();
        for word in [0, MAX_REFS, MAX_REFS + bound - MAX_TRY] {
            assert!(!LockBitWord(word + MAX_TRY).is_locked());
            assert!(LockBitWord(LOCK + word).is_locked());
            assert!(LockBitWord((LOCK + word).wrapping_add(MAX_TRY)).is_locked());
        }
    }

    #[test]
    fn giving_back_never_reaches_zero_and_never_goes_below_other_references() {
        for word in words() {
            for n in 1..=MAX_TRY {
                match LockBitWord(word).give_back(n) {
                    GiveBack::Locked => assert!(word >= LOCK),
                    GiveBack::Keep => assert!(word <= MAX_REFS),
                    GiveBack::Replace(to) => {
                        assert!(word > MAX_REFS && word < LOCK);
                        assert_eq!(to, word - n);
                        assert!(to > MAX_REFS - MAX_TRY);
                    }
                }
            }
        }
    }

    #[test]
    fn a_put_is_last_at_its_own_count_and_a_bug_above_it() {
        for word in words() {
            for n in (1..=700).chain(MAX_REFS - 300..=MAX_REFS) {
                let expected = if word >= LOCK || word < n {
                    Subtracted::Misuse
                } else if word == n {
                    Subtracted::Zero
                } else {
                    Subtracted::Kept
                };
                assert_eq!(LockBitWord(word).after_sub(n), expected, "{word:#x} - {n}");
                assert_eq!(CasLoopWord(word).after_sub(n), expected, "{word:#x} - {n}");
            }
        }
    }

    #[test]
    fn a_get_counts_live_pages_only_and_stops_at_the_limit() {
        for word in words() {
            let expected = if word == 0 || word >= LOCK {
                Got::Misuse
            } else if word >= MAX_REFS {
                Got::Overflow
            } else {
                Got::Counted
            };
            assert_eq!(LockBitWord(word).after_get(), expected);
            assert_eq!(CasLoopWord(word).after_get(), expected);
        }
    }

    #[test]
    fn a_repaired_word_is_sane_and_keeps_the_references_of_others() {
        for word in words() {
            for n in [1, 2, 255, 700, MAX_REFS] {
                if LockBitWord(word).after_sub(n) == Subtracted::Misuse {
                    let repaired = LockBitWord(word).repaired();
                    assert!(repaired.is_sane());
                    assert_eq!(repaired.count(), LockBitWord(word).count());
                }
            }
            if CasLoopWord(word).is_sane() {
                assert_eq!(CasLoopWord(word).repaired().0, word);
            }
        }
    }

    #[test]
    fn an_underflowed_word_is_not_sane() {
        for (prev, n) in [(LOCK, 1), (LOCK + 3, 4), (0, 1), (0, 255), (5, 6), (1, 255)] {
            assert!(
                !LockBitWord(prev.wrapping_sub(n)).is_sane(),
                "{prev:#x} - {n}"
            );
        }
        for (prev, n) in [(0_u32, 1), (5, 6), (1, 255), (0, MAX_REFS)] {
            assert!(
                !CasLoopWord(prev.wrapping_sub(n)).is_sane(),
                "{prev:#x} - {n}"
            );
        }
    }
}
