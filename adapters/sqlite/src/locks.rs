//! Locks of a database among connections of this process: SQLite's states, in memory only.
//!
//! Other processes are excluded by [`crate::descriptors`]. The states and their order are SQLite's
//! (its page on file locking): any number of connections may be SHARED. One of them may be
//! RESERVED, then PENDING, which admits no new readers, then EXCLUSIVE once no other is SHARED.

use std::ffi::c_int;

use crate::abi;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    #[default]
    None,
    Shared,
    Reserved,
    Pending,
    Exclusive,
}

impl Level {
    pub(crate) fn of(number: c_int) -> Option<Self> {
        Some(match number {
            abi::LOCK_NONE => Self::None,
            abi::LOCK_SHARED => Self::Shared,
            abi::LOCK_RESERVED => Self::Reserved,
            abi::LOCK_PENDING => Self::Pending,
            abi::LOCK_EXCLUSIVE => Self::Exclusive,
            _ => return None,
        })
    }

    pub(crate) fn number(self) -> c_int {
        match self {
            Self::None => abi::LOCK_NONE,
            Self::Shared => abi::LOCK_SHARED,
            Self::Reserved => abi::LOCK_RESERVED,
            Self::Pending => abi::LOCK_PENDING,
            Self::Exclusive => abi::LOCK_EXCLUSIVE,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Locked {
    Done,
    Busy,
}

/// Locks of all connections of a database.
///
/// I1: `nr_shared` connections have SHARED or more. I2: `writer` is the state of the one connection
/// with more than SHARED, or `None`. I3: if `writer` is EXCLUSIVE, `nr_shared` is 1.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    nr_shared: usize,
    writer: Level,
}

impl Locks {
    /// Raises the state `level` of a connection to `wanted`, which is never PENDING. Unless another
    /// connection is the writer, a connection that requests EXCLUSIVE while others are SHARED
    /// becomes PENDING, although the result is `Busy`.
    pub(crate) fn raise(&mut self, level: &mut Level, wanted: Level) -> Locked {
        if *level >= wanted {
            return Locked::Done;
        }
        if *level == Level::None {
            if self.writer >= Level::Pending {
                return Locked::Busy;
            }
            self.nr_shared += 1;
            *level = Level::Shared;
        }
        if wanted == Level::Shared {
            return Locked::Done;
        }
        if *level == Level::Shared && self.writer != Level::None {
            return Locked::Busy;
        }
        *level = match wanted {
            Level::Exclusive if self.nr_shared == 1 => Level::Exclusive,
            Level::Exclusive | Level::Pending => Level::Pending,
            _ => Level::Reserved,
        };
        self.writer = *level;
        if *level >= wanted {
            Locked::Done
        } else {
            Locked::Busy
        }
    }

    /// Lowers the state `level` of a connection to SHARED or `None`.
    pub(crate) fn lower(&mut self, level: &mut Level, wanted: Level) {
        let wanted = wanted.min(Level::Shared);
        if *level <= wanted {
            return;
        }
        if *level > Level::Shared {
            self.writer = Level::None;
        }
        if wanted == Level::None {
            self.nr_shared -= 1;
        }
        *level = wanted;
    }

    pub(crate) fn is_reserved(&self) -> bool {
        self.writer != Level::None
    }
}

#[cfg(test)]
mod tests {
    use super::Level::*;
    use super::*;

    /// Visits all states that three connections can reach by any requests in any order.
    #[test]
    fn every_state_that_can_be_reached_is_sound() {
        let mut seen = std::collections::HashSet::new();
        let mut todo = vec![[None; 3]];
        while let Some(levels) = todo.pop() {
            if !seen.insert(levels.map(Level::number)) {
                continue;
            }
            let nr = |least| levels.iter().filter(|&&level| level >= least).count();
            assert!(nr(Reserved) <= 1, "{levels:?}");
            if nr(Exclusive) == 1 {
                assert_eq!(nr(Shared), 1, "{levels:?}");
            }
            let state = || Locks {
                nr_shared: nr(Shared),
                writer: *levels
                    .iter()
                    .max()
                    .filter(|&&l| l > Shared)
                    .unwrap_or(&None),
            };
            for who in 0..3 {
                for wanted in [Shared, Reserved, Exclusive] {
                    let (mut locks, mut after) = (state(), levels);
                    match locks.raise(&mut after[who], wanted) {
                        Locked::Done => assert!(after[who] >= wanted),
                        Locked::Busy => {
                            let others = (0..3).filter(|&other| other != who);
                            assert!(others.map(|other| levels[other]).any(|l| l != None));
                            assert!(after[who] < wanted);
                            let stayed = levels[who].max(Shared);
                            assert!([levels[who], stayed, Pending].contains(&after[who]));
                        }
                    }
                    todo.push(after);
                }
                for wanted in [None, Shared] {
                    let (mut locks, mut after) = (state(), levels);
                    locks.lower(&mut after[who], wanted);
                    assert_eq!(after[who], levels[who].min(wanted));
                    todo.push(after);
                }
            }
        }
        assert!(seen.len() > 20, "{}", seen.len());
    }

    #[test]
    fn a_writer_that_waits_for_readers_lets_no_new_one_in() {
        let mut locks = Locks::default();
        let (mut reader, mut writer, mut late) = (None, None, None);
        assert_eq!(locks.raise(&mut reader, Shared), Locked::Done);
        assert_eq!(locks.raise(&mut writer, Reserved), Locked::Done);
        assert!(locks.is_reserved());
        assert_eq!(locks.raise(&mut reader, Reserved), Locked::Busy);
        assert_eq!(reader, Shared);
        assert_eq!(locks.raise(&mut writer, Exclusive), Locked::Busy);
        assert_eq!(writer, Pending);
        assert_eq!(locks.raise(&mut late, Shared), Locked::Busy);
        locks.lower(&mut reader, None);
        assert_eq!(locks.raise(&mut writer, Exclusive), Locked::Done);
        locks.lower(&mut writer, Shared);
        assert_eq!(locks.raise(&mut late, Shared), Locked::Done);
        locks.lower(&mut writer, None);
        locks.lower(&mut late, None);
        assert_eq!((locks.nr_shared, locks.writer), (0, None));
    }
}
