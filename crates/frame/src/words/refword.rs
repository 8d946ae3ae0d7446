//! The reference word: bit layout and every legal transition, without memory or threads.
//!
//! What. A page's references are counted in one 32-bit word, in one of two schemes. Each has a word
//! type here ([`LockBitWord`], [`CasLoopWord`]) whose methods say what a value means and what an
//! operation has to do after it met that value. [`refcount`](crate::refcount) runs them on memory that
//! threads share.
//!
//! | word | [`LockBitWord`] | [`CasLoopWord`] |
//! |---|---|---|
//! | `0` | a put is about to lock it, or a try to revive it | locked: dead or frozen |
//! | `1..=MAX_REFS` | live, so many references | the same |
//! | above, below `LOCK` | live, and tries that overshot are giving back | never |
//! | `LOCK` | locked: dead or frozen | never |
//! | `LOCK + junk` | locked; `junk` was left by tries that failed | never |
//!
//! Invariants.
//! - I1. Whatever tries and gets do at the same time, none of them moves the lock bit: the count part
//!   stays below [`LOCK`] by the assertions below. A word that is past a limit ([`RESET_THRESHOLD`]
//!   when locked, [`MAX_REFS`] when live) holds, beyond the limit, only what threads added that have
//!   not returned yet, since none returns before the word was back at the limit or it has taken its
//!   own share back. A thread adds at most [`MAX_TRY`] before it returns, and there are at most
//!   [`MAX_THREADS`].
//! - I2. `junk` never means anything: it may be dropped (reset), kept, or overwritten (unfreeze, set).
//!
//! Source: Linux memory-management list, "mm: improve folio refcount scalability" (December 2025); the
//! limit at half the range is that of `Arc` in the standard library.
//!
//! Proved by: the tests of this module (all words beside every boundary), and those that
//! [`refcount`](crate::refcount) lists.

/// The lock bit: the page is dead or frozen, and the rest of the word means nothing.
pub const LOCK: u32 = 1 << 31;

/// The most references that a page can have; further ones are refused, or abort the process.
pub const MAX_REFS: u32 = 1 << 30;

/// How much failed tries may leave behind on a locked word before they have to clean up for certain.
pub const RESET_THRESHOLD: u32 = 1 << 30;

/// The most threads that can be in the middle of an operation on one word: Linux's `PID_MAX_LIMIT`,
/// which bounds the threads of all processes together.
pub const MAX_THREADS: u32 = 1 << 22;

/// The most references that one try asks for.
pub const MAX_TRY: u32 = u8::MAX as u32;

/// What all threads together can have added beyond a limit.
const OVERSHOOT: u64 = MAX_THREADS as u64 * MAX_TRY as u64;

// I1: neither a locked word (its junk) nor a live one (its count) can carry into the lock bit.
const _: () = assert!(RESET_THRESHOLD as u64 + OVERSHOOT < LOCK as u64);
const _: () = assert!(MAX_REFS as u64 + OVERSHOOT < LOCK as u64);

/// What a try has to do after it added to a [`LockBitWord`].
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// Nothing: it holds its references.
    Taken,
    /// The page is locked: attempt once to replace `seen` with [`LOCK`].
    Locked {
        /// The word after the addition.
        seen: u32,
    },
    /// The page is locked and too much was left behind: replace the word with [`LOCK`] for certain.
    LockedHigh {
        /// The word after the addition.
        seen: u32,
    },
    /// The page has too many references: give those just taken back.
    Over {
        /// The word after the addition.
        seen: u32,
    },
}

/// What a try that went over [`MAX_REFS`] does with the [`LockBitWord`] that it sees.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GiveBack {
    /// Keep the references: others left, and the count is within its limit again.
    Keep,
    /// Replace the word with this one, which lacks the references.
    Replace(u32),
    /// Somebody put references that were not theirs, and the page is locked: the try failed.
    Locked,
}

/// What a put has to do after it subtracted.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subtracted {
    /// Nothing, and it must not touch the page again.
    Kept,
    /// The count is zero. A [`LockBitWord`] is still to be locked, and only who does that frees; a
    /// [`CasLoopWord`] is locked by that.
    Zero,
    /// The references were not there: repair the word and report the bug.
    Misuse,
}

/// What a get has to do after it added one.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Got {
    /// Nothing.
    Counted,
    /// There are too many references: abort.
    Overflow,
    /// The caller cannot have held a reference, as it promised: take it back and report the bug.
    Misuse,
}

/// What a try does with the [`CasLoopWord`] that it sees.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddUnlessZero {
    /// Replace the word with this one, which has the references.
    Replace(u32),
    /// The page is locked: the try failed.
    Locked,
    /// The page has too many references: the try failed.
    Saturated,
}

/// A put's answer, the same for both schemes: a locked [`LockBitWord`] is negative, a locked
/// [`CasLoopWord`] is smaller than any `n`.
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

/// A get's answer, the same for both schemes. Zero is never a count that a get may meet: nobody holds
/// a reference then.
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

/// The word of a page whose lock is bit 31.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockBitWord(pub u32);

impl LockBitWord {
    /// A locked page on which no try has failed.
    pub const LOCKED: Self = Self(LOCK);

    /// Whether the page is dead or frozen.
    #[inline]
    pub const fn is_locked(self) -> bool {
        self.0 & LOCK != 0
    }

    /// How many references there are: 0 if the page is locked, whatever failed tries left behind.
    #[inline]
    pub const fn count(self) -> u32 {
        if self.is_locked() { 0 } else { self.0 }
    }

    /// Whether failed tries left so much on a locked word that it has to be reset for certain.
    #[inline]
    pub const fn is_locked_high(self) -> bool {
        self.0 > LOCK + RESET_THRESHOLD
    }

    /// Whether a try that added `n` to this word has got its references: it is not locked and stays
    /// within [`MAX_REFS`]. One comparison, since a locked word is above all others.
    #[inline]
    pub const fn admits(self, n: u32) -> bool {
        self.0 <= MAX_REFS - n
    }

    /// What a try does that added `n` to this word.
    #[inline]
    pub const fn after_add(self, n: u32) -> Added {
        let seen = self.0.wrapping_add(n);
        if self.admits(n) {
            Added::Taken
        } else if !self.is_locked() {
            Added::Over { seen }
        } else if (self.0 & !LOCK) + n > RESET_THRESHOLD {
            // Not read from `seen`: on a word that a misused put made underflow it may have wrapped.
            Added::LockedHigh { seen }
        } else {
            Added::Locked { seen }
        }
    }

    /// What a try that holds `n` references too many does when it sees this word.
    #[inline]
    pub const fn give_back(self, n: u32) -> GiveBack {
        if self.is_locked() {
            GiveBack::Locked
        } else if self.0 <= MAX_REFS {
            GiveBack::Keep
        } else {
            // At least MAX_REFS - MAX_TRY + 1 remain: giving back never drops the count to zero.
            GiveBack::Replace(self.0 - n)
        }
    }

    /// What a put does that subtracted `n` from this word.
    #[inline]
    pub const fn after_sub(self, n: u32) -> Subtracted {
        after_sub(self.0, n)
    }

    /// What a get does that added one to this word.
    #[inline]
    pub const fn after_get(self) -> Got {
        after_get(self.0)
    }

    /// Whether a word can be what correct operations leave, so that a repair must not overwrite it.
    #[inline]
    pub const fn is_sane(self) -> bool {
        if self.is_locked() {
            !self.is_locked_high()
        } else {
            self.0 != 0 && self.0 <= MAX_REFS
        }
    }

    /// What a put that was one too many leaves in place of this word, which it met: the references of
    /// others, or else the lock. A zero must not come back: the put that made it may have given up
    /// since, and a bare zero can be taken and freed. The page is leaked instead.
    #[inline]
    pub const fn repaired(self) -> Self {
        if self.is_locked() || self.0 == 0 {
            Self::LOCKED
        } else {
            self
        }
    }
}

/// The word of a page that is locked when its count is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CasLoopWord(pub u32);

impl CasLoopWord {
    /// A locked page.
    pub const LOCKED: Self = Self(0);

    /// Whether the page is dead or frozen.
    #[inline]
    pub const fn is_locked(self) -> bool {
        self.0 == 0
    }

    /// How many references there are.
    #[inline]
    pub const fn count(self) -> u32 {
        self.0
    }

    /// What a try for `n` references does when it sees this word.
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

    /// What a put does that subtracted `n` from this word.
    #[inline]
    pub const fn after_sub(self, n: u32) -> Subtracted {
        after_sub(self.0, n)
    }

    /// What a get does that added one to this word.
    #[inline]
    pub const fn after_get(self) -> Got {
        after_get(self.0)
    }

    /// Whether a word can be what correct operations leave, so that a repair must not overwrite it.
    #[inline]
    pub const fn is_sane(self) -> bool {
        self.0 <= MAX_REFS
    }

    /// What a put that was one too many leaves in place of this word, which it met: the word itself.
    #[inline]
    pub const fn repaired(self) -> Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every word within 600 of a boundary of the layout.
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
